//! A capability cannot be cloned.

use parcae::cap::CapSpawn;

fn twice(cap: &CapSpawn) -> CapSpawn {
    <CapSpawn as Clone>::clone(cap)
    //~ error[E0277]: the trait bound `CapSpawn: Clone` is not satisfied
    //~ label: the trait `Clone` is not implemented for `CapSpawn`
}

fn main() {}
