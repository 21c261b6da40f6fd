//! The meter cannot be seen, and mistakes of the user are reported where they are.

#[path = "../mock/mod.rs"]
mod mock;

use parcae_macros::budgeted;

#[budgeted(crate = crate::mock)]
fn meddles() {
    loop {
        __parcae_meter.tick();
        //~ error[E0425]: cannot find value `__parcae_meter` in this scope
        //~ label: not found in this scope
        //~ help: an identifier with the same name is defined here, but is not accessible due to
        //~    macro hygiene
    }
}

#[budgeted(crate = crate::mock)]
fn mistaken() -> u32 {
    let add = |x: u32| x + 1;
    for i in 0..3 {
        let _: &str = add(i);
        //~ error[E0308]: mismatched types
        //~ label: expected `&str`, found `u32`
    }
    "three"
    //~ error[E0308]: mismatched types
    //~ label: expected `u32`, found `&str`
}

fn main() {}
