//! A child of a child cannot borrow from the body in between.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|cx| {
                cx.nursery(|n| {
                    let local = 1;
                    n.spawn(|_| Ok(local + 1))?;
                    Ok(())
                })
            })?;
            Ok(())
        })?;
        Ok(())
    });
}
