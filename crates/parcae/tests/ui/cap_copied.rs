//! A capability that is lent is not given.

use parcae::cap::{CapBudget, CapChannel, CapSpawn, ChannelPermit, Revoker, TaskPermit};

fn spawn(cap: &CapSpawn) -> CapSpawn {
    *cap
    //~ error[E0507]: cannot move out of `*cap` which is behind a shared reference
    //~ label: move occurs because `*cap` has type `CapSpawn`, which does not implement the `Copy`
    //~    trait
}

fn budget(cap: &CapBudget) -> CapBudget {
    *cap
    //~ error[E0507]: cannot move out of `*cap` which is behind a shared reference
    //~ label: move occurs because `*cap` has type `CapBudget`, which does not implement the `Copy`
    //~    trait
}

fn channel(cap: &CapChannel) -> CapChannel {
    *cap
    //~ error[E0507]: cannot move out of `*cap` which is behind a shared reference
    //~ label: move occurs because `*cap` has type `CapChannel`, which does not implement the `Copy`
    //~    trait
}

fn task(permit: &TaskPermit) -> TaskPermit {
    *permit
    //~ error[E0507]: cannot move out of `*permit` which is behind a shared reference
    //~ label: move occurs because `*permit` has type `TaskPermit`, which does not implement the
    //~    `Copy` trait
}

fn buffer(permit: &ChannelPermit) -> ChannelPermit {
    *permit
    //~ error[E0507]: cannot move out of `*permit` which is behind a shared reference
    //~ label: move occurs because `*permit` has type `ChannelPermit`, which does not implement the
    //~    `Copy` trait
}

fn right(revoker: &Revoker) -> Revoker {
    *revoker
    //~ error[E0507]: cannot move out of `*revoker` which is behind a shared reference
    //~ label: move occurs because `*revoker` has type `Revoker`, which does not implement the
    //~    `Copy` trait
}

fn main() {}
