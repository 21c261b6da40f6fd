//! Only its owner spawns in a nursery: a child cannot have it.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(move |_| {
                n.spawn(|_| Ok(()))?;
                Ok(())
            })?;
            Ok(())
        })?;
        Ok(())
    });
}
