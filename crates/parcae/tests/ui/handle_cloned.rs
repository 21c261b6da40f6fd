//! There is one handle for a child.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let handle = n.spawn(|_| Ok(1))?;
            let other = handle.clone();
            Ok(handle.join()? + other.join()?)
        })?;
        Ok(())
    });
}
