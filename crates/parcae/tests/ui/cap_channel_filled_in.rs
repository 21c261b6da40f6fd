//! Nor does anybody by its fields.

use parcae::cap::CapChannel;

fn forge(cap: CapChannel) -> CapChannel {
    CapChannel { ..cap }
}

fn main() {}
