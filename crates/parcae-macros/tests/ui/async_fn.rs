use parcae_macros::budgeted;

#[budgeted]
async fn free() {}
//~ error: an `async fn` cannot be budgeted: async code does not run on a fiber's own stack, and the
//~    task that polls it would be charged; use a plain function

struct Unit;

impl Unit {
    #[budgeted]
    async fn method(&self) {
    //~ error: an `async fn` cannot be budgeted: async code does not run on a fiber's own stack, and
    //~    the task that polls it would be charged; use a plain function
        loop {}
    }
}

fn main() {}
