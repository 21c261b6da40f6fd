//! There is no way around the unsafe call.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let opts = SpawnOpts { migratable: true, ..SpawnOpts::new() };
        //~ error[E0451]: fields `name`, `priority`, `stack_size`, `budget`, `placement`,
        //~    `migratable` and `context` of struct `parcae::SpawnOpts` are private
        //~ label: private field
        cx.nursery(|n| {
            n.spawn_with(opts, |_| Ok(()))?;
            Ok(())
        })?;
        Ok(())
    });
}
