//! A weaker address does not become a stronger one.

use parcae_actor::Address;

fn widen(weaker: Address<u32>) -> Address<u32> {
    Address { rights: None, ..weaker }
    //~ error[E0451]: fields `slot`, `rights` and `life` of struct `Address` are private
    //~ label: private field
}

fn main() {}
