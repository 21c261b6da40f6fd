//! The closure of `run` returns a `Result`, also if it has nothing to return.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
    //~ error[E0308]: mismatched types
    //~ label: expected `Result<_, Error>`, found `()`
        cx.checkpoint().unwrap();
    });
}
