//! The limits of a capability are not a capability.

use parcae::cap::SpawnLimits;
use parcae::prelude::*;
use parcae::profile::Sovereign;

fn main() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let _ = rt.run(|cx| {
        let all = SpawnLimits { max_tasks: u32::MAX, task_budget: Budget::UNLIMITED };
        cx.nursery(|n| {
            n.spawn(&all, |_| Ok(()))?;
            //~ error[E0308]: mismatched types
            //~ label: expected `&CapSpawn`, found `&SpawnLimits`
            //~ note: expected reference `&CapSpawn` found reference `&SpawnLimits`
            Ok(())
        })?;
        Ok(())
    });
}
