//! A place is one place.

use parcae::cap::{ChannelPermit, TaskPermit};

fn task(permit: &TaskPermit) -> TaskPermit {
    <TaskPermit as Clone>::clone(permit)
    //~ error[E0277]: the trait bound `TaskPermit: Clone` is not satisfied
    //~ label: the trait `Clone` is not implemented for `TaskPermit`
}

fn channel(permit: &ChannelPermit) -> ChannelPermit {
    <ChannelPermit as Clone>::clone(permit)
    //~ error[E0277]: the trait bound `ChannelPermit: Clone` is not satisfied
    //~ label: the trait `Clone` is not implemented for `ChannelPermit`
}

fn main() {}
