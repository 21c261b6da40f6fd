use parcae_macros::budgeted;

#[budgeted]
fn block() -> impl Future {
    async {
        for _ in 0..3 {}
        //~ error: a loop in async code cannot be budgeted: async code does not run on a fiber's own
        //~    stack, and the task that polls it would be charged; use a plain function
    }
}

#[budgeted]
fn closures(mut n: u32) {
    let _ = async |_: ()| while n > 0 {
    //~ error: a loop in async code cannot be budgeted: async code does not run on a fiber's own
    //~    stack, and the task that polls it would be charged; use a plain function
        n -= 1;
    };
    let _ = || async move {
        let inner = || loop {};
        //~ error: a loop in async code cannot be budgeted: async code does not run on a fiber's own
        //~    stack, and the task that polls it would be charged; use a plain function
        inner()
    };
}

fn main() {}
