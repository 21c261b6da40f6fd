//! Programs cannot add a profile.

use parcae::Budget;
use parcae::profile::{Profile, ProfileId};
use parcae::stack::StackSize;

struct Lawless;

impl Profile for Lawless {
//~ error[E0046]: not all trait items implemented, missing: `ROOT`
//~ label: missing `ROOT` in implementation
//~ help: implement the missing item: `const ROOT: parcae::Budget = Default::default();`
    const ID: ProfileId = ProfileId::Service;
    const STACK: StackSize = StackSize::SERVICE;
    const YIELD_INTERVAL: u64 = u64::MAX;
    const CHILD: Budget = Budget::UNLIMITED;
}

fn main() {}
