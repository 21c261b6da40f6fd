//! A capability cannot be made from its fields.

use parcae::cap::CapChannel;

fn forge(cap: CapChannel) -> CapChannel {
    CapChannel { ..cap }
    //~ error[E0451]: field `node` of struct `CapChannel` is private
    //~ label: field `node` is private
}

fn main() {}
