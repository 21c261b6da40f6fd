//! Nobody makes a capability of this kind.

use parcae::Budget;
use parcae::cap::{CapSpawn, SpawnLimits};

fn main() {
    let limits = SpawnLimits { max_tasks: 1, task_budget: Budget::UNLIMITED };
    let _ = CapSpawn::new(limits);
    let _ = CapSpawn::from(limits);
    let _ = CapSpawn::default();
    let _: CapSpawn = limits.into();
}
