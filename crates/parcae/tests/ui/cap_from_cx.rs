//! A task mints nothing.

use parcae::cap::{Delegation, SpawnLimits};
use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let all = SpawnLimits { max_tasks: u32::MAX, task_budget: Budget::UNLIMITED };
        cx.cap_spawn(all, Delegation::Allowed);
        //~ error[E0599]: no method named `cap_spawn` found for reference `&Cx` in the current scope
        //~ label: method not found in `&Cx`
        Ok(())
    });
}
