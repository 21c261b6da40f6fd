//! A capability cannot be made from its fields.

use parcae::cap::CapSpawn;

fn forge(cap: CapSpawn) -> CapSpawn {
    CapSpawn { ..cap }
    //~ error[E0451]: field `node` of struct `CapSpawn` is private
    //~ label: field `node` is private
}

fn main() {}
