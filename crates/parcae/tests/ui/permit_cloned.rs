//! A place is one place.

use parcae::cap::{ChannelPermit, TaskPermit};

fn task(permit: &TaskPermit) -> TaskPermit {
    <TaskPermit as Clone>::clone(permit)
}

fn channel(permit: &ChannelPermit) -> ChannelPermit {
    <ChannelPermit as Clone>::clone(permit)
}

fn main() {}
