//! A capability cannot be cloned.

use parcae::cap::CapChannel;

fn twice(cap: &CapChannel) -> CapChannel {
    <CapChannel as Clone>::clone(cap)
    //~ error[E0277]: the trait bound `CapChannel: Clone` is not satisfied
    //~ label: the trait `Clone` is not implemented for `CapChannel`
}

fn main() {}
