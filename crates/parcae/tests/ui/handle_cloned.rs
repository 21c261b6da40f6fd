//! There is one handle for a child.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let handle = n.spawn(|_| Ok(1))?;
            let other = handle.clone();
            //~ error[E0599]: no method named `clone` found for struct `TaskHandle<'scope, T>` in
            //~    the current scope
            //~ label: method not found in `TaskHandle<'_, {integer}>`
            Ok(handle.join()? + other.join()?)
        })?;
        Ok(())
    });
}
