//! A capability of this kind cannot be constructed.

use parcae::Budget;
use parcae::cap::{CapSpawn, SpawnLimits};

fn main() {
    let limits = SpawnLimits { max_tasks: 1, task_budget: Budget::UNLIMITED };
    let _ = CapSpawn::new(limits);
    //~ error[E0599]: no function or associated item named `new` found for struct `CapSpawn` in the
    //~    current scope
    //~ label: function or associated item not found in `CapSpawn`
    let _ = CapSpawn::from(limits);
    //~ error[E0308]: mismatched types
    //~ label: expected `CapSpawn`, found `SpawnLimits`
    let _ = CapSpawn::default();
    //~ error[E0599]: no function or associated item named `default` found for struct `CapSpawn` in
    //~    the current scope
    //~ label: function or associated item not found in `CapSpawn`
    let _: CapSpawn = limits.into();
    //~ error[E0277]: the trait bound `CapSpawn: From<SpawnLimits>` is not satisfied
    //~ label: the trait `From<SpawnLimits>` is not implemented for `CapSpawn`
}
