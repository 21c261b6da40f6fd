//! Nobody makes two of one.

use parcae::cap::CapChannel;

fn twice(cap: &CapChannel) -> CapChannel {
    <CapChannel as Clone>::clone(cap)
}

fn main() {}
