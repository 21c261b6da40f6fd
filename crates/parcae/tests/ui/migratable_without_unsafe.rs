//! What lets a started task move to another thread is unsafe.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn_with(SpawnOpts::new().migratable(), |_| Ok(()))?;
            Ok(())
        })?;
        Ok(())
    });
}
