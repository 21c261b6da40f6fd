use parcae_macros::budgeted;

#[budgeted]
async fn free() {}

struct Unit;

impl Unit {
    #[budgeted]
    async fn method(&self) {
        loop {}
    }
}

fn main() {}
