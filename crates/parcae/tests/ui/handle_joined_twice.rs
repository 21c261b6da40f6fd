//! A result is taken once.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let handle = n.spawn(|_| Ok(String::new()))?;
            handle.join()?;
            handle.join()?;
            Ok(())
        })?;
        Ok(())
    });
}
