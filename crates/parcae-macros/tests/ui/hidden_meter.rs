//! The meter cannot be seen, and mistakes of the user are reported where they are.

#[path = "../mock/mod.rs"]
mod mock;

use parcae_macros::budgeted;

#[budgeted(crate = crate::mock)]
fn meddles() {
    loop {
        __parcae_meter.tick();
    }
}

#[budgeted(crate = crate::mock)]
fn mistaken() -> u32 {
    let add = |x: u32| x + 1;
    for i in 0..3 {
        let _: &str = add(i);
    }
    "three"
}

fn main() {}
