//! A child of the outer nursery cannot borrow what only the inner one waits for.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|outer| {
            let local = String::from("gone");
            cx.nursery(|_inner| {
                outer.spawn(|_| Ok(local.len()))?;
                //~ error[E0597]: `local` does not live long enough
                //~ label: borrowed value does not live long enough
                Ok(())
            })
        })?;
        Ok(())
    });
}
