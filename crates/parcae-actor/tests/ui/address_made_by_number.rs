//! An address comes from a start, a name or a message: a number is none.

use parcae_actor::Address;

fn guess() -> Address<u32> {
    Address::from(7)
    //~ error[E0308]: mismatched types
    //~ label: expected `Address<u32>`, found integer
    //~ note: expected struct `Address<u32>` found type `{integer}`
}

fn main() {}
