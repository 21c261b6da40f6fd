//! A handle starts tasks. It mints nothing.

use parcae::cap::{Delegation, SpawnLimits};
use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let all = SpawnLimits { max_tasks: u32::MAX, task_budget: Budget::UNLIMITED };
    rt.handle().cap_spawn(all, Delegation::Allowed);
    //~ error[E0599]: no method named `cap_spawn` found for struct `Handle<P>` in the current scope
}
