//! Nor does anybody by its fields.

use parcae::cap::CapSpawn;

fn forge(cap: CapSpawn) -> CapSpawn {
    CapSpawn { ..cap }
}

fn main() {}
