use parcae_macros::budgeted;

#[budgeted]
fn block() -> impl Future {
    async {
        for _ in 0..3 {}
    }
}

#[budgeted]
fn closures(mut n: u32) {
    let _ = async |_: ()| while n > 0 {
        n -= 1;
    };
    let _ = || async move {
        let inner = || loop {};
        inner()
    };
}

fn main() {}
