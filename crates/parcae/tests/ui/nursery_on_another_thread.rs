//! Only its owner spawns in a nursery: a thread cannot have it.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            std::thread::scope(|s| {
                s.spawn(|| n.spawn(|_| Ok(())).is_ok());
            });
            Ok(())
        })?;
        Ok(())
    });
}
