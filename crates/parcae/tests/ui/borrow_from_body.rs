//! Locals of a nursery's body end before its children.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let local = String::from("gone");
            n.spawn(|_| Ok(local.len()))?;
            //~ error[E0373]: closure may outlive the current function, but it borrows `local`,
            //~    which is owned by the current function
            //~ label: may outlive borrowed value `local`
            //~ help: to force the closure to take ownership of `local` (and any other referenced
            //~    variables), use the `move` keyword
            Ok(())
        })?;
        Ok(())
    });
}
