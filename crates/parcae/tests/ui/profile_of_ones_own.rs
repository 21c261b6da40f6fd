//! Nobody adds a profile.

use parcae::Budget;
use parcae::profile::{Profile, ProfileId};
use parcae::stack::StackSize;

struct Lawless;

impl Profile for Lawless {
    const ID: ProfileId = ProfileId::Service;
    const STACK: StackSize = StackSize::SERVICE;
    const YIELD_INTERVAL: u64 = u64::MAX;
    const CHILD: Budget = Budget::UNLIMITED;
}

fn main() {}
