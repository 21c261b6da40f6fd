//! Nobody makes two of one.

use parcae::cap::CapSpawn;

fn twice(cap: &CapSpawn) -> CapSpawn {
    <CapSpawn as Clone>::clone(cap)
}

fn main() {}
