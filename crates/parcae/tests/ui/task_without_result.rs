//! A task returns a `Result`, so that it can fail at each cancel point.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|_| 42)?;
            //~ error[E0308]: mismatched types
            //~ label: expected `Result<_, Error>`, found integer
            //~ help: try wrapping the expression in `Ok`
            Ok(())
        })
    });
}
