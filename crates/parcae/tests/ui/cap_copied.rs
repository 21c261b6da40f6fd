//! A capability that is lent is not given.

use parcae::cap::{CapBudget, CapChannel, CapSpawn, ChannelPermit, Revoker, TaskPermit};

fn spawn(cap: &CapSpawn) -> CapSpawn {
    *cap
}

fn budget(cap: &CapBudget) -> CapBudget {
    *cap
}

fn channel(cap: &CapChannel) -> CapChannel {
    *cap
}

fn task(permit: &TaskPermit) -> TaskPermit {
    *permit
}

fn buffer(permit: &ChannelPermit) -> ChannelPermit {
    *permit
}

fn right(revoker: &Revoker) -> Revoker {
    *revoker
}

fn main() {}
