//! A nursery cannot leave its body through a variable outside.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let mut kept = None;
        cx.nursery(|n| {
            kept = Some(n);
            Ok(())
        })?;
        drop(kept);
        Ok(())
    });
}
