//! In the core profile there is nothing to spawn in.

use parcae::prelude::*;
use parcae::profile::Core;

fn spawn(nursery: &Nursery<'_, '_, Core>) {
    let _ = nursery.spawn(|_| Ok(()));
    //~ error[E0599]: the method `spawn` exists for reference `&parcae::Nursery<'_, '_,
    //~    parcae::profile::Core>`, but its trait bounds were not satisfied
    //~ label: method cannot be called on `&parcae::Nursery<'_, '_, parcae::profile::Core>` due to
    //~    unsatisfied trait bounds
    //~ note: the following trait bounds were not satisfied: `parcae::profile::Core: SpawnsFreely`
}

fn main() {}
