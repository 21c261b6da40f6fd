//! A handle cannot leave its nursery through a variable outside.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let mut kept = None;
        cx.nursery(|n| {
            kept = Some(n.spawn(|_| Ok(1))?);
            Ok(())
        })?;
        drop(kept);
        Ok(())
    });
}
