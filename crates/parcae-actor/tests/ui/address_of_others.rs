//! An address takes the messages of its actor, and no others.

use parcae_actor::Address;

fn tell(actor: &Address<u32>) {
    let _ = actor.tell("a text");
    //~ error[E0308]: mismatched types
    //~ label: expected `u32`, found `&str`
    //~ help: the return type of this call is `&'static str` due to the type of the argument passed
}

fn main() {}
