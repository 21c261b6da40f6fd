//! Every function that is to blame is named at once.

use parcae_macros::budgeted;

struct Unit;

#[budgeted]
impl Unit {
    const fn new() -> Self {
    //~ error: a `const fn` cannot be budgeted: the compiler may evaluate it, where there is no
    //~    budget; use a plain function
        Self
    }

    async fn wait(&self) {}
    //~ error: an `async fn` cannot be budgeted: async code does not run on a fiber's own stack, and
    //~    the task that polls it would be charged; use a plain function
}

#[budgeted]
mod module {
    pub const fn one() -> u32 {
    //~ error: a `const fn` cannot be budgeted: the compiler may evaluate it, where there is no
    //~    budget; use a plain function
        1
    }
}

fn main() {
    let _ = Unit::new().wait();
    module::one();
}
