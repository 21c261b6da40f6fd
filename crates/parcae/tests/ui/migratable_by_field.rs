//! There is no way around the unsafe call.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let opts = SpawnOpts { migratable: true, ..SpawnOpts::new() };
        cx.nursery(|n| {
            n.spawn_with(opts, |_| Ok(()))?;
            Ok(())
        })?;
        Ok(())
    });
}
