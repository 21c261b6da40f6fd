//! A child has its own context, and cannot have its parent's.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(move |_| cx.checkpoint())?;
            Ok(())
        })?;
        Ok(())
    });
}
