//! What lives in the body of a nursery ends before its children.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let local = String::from("gone");
            n.spawn(|_| Ok(local.len()))?;
            Ok(())
        })?;
        Ok(())
    });
}
