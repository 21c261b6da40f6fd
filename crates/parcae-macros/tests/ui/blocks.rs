//! Every function that is to blame is named at once.

use parcae_macros::budgeted;

struct Unit;

#[budgeted]
impl Unit {
    const fn new() -> Self {
        Self
    }

    async fn wait(&self) {}
}

#[budgeted]
mod module {
    pub const fn one() -> u32 {
        1
    }
}

fn main() {
    let _ = Unit::new().wait();
    module::one();
}
