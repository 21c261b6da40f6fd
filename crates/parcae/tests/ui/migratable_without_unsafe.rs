//! Letting a started task move to another thread is unsafe.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn_with(SpawnOpts::new().migratable(), |_| Ok(()))?;
            //~ error[E0133]: call to unsafe function `parcae::SpawnOpts::migratable` is unsafe and
            //~    requires unsafe block
            //~ label: call to unsafe function
            //~ note: consult the function's documentation for information on how to avoid undefined
            //~    behavior
            Ok(())
        })?;
        Ok(())
    });
}
