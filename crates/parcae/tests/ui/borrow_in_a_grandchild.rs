//! A child of a child cannot borrow from the body in between.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|cx| {
                cx.nursery(|n| {
                    let local = 1;
                    n.spawn(|_| Ok(local + 1))?;
                    //~ error[E0373]: closure may outlive the current function, but it borrows
                    //~    `local`, which is owned by the current function
                    //~ label: may outlive borrowed value `local`
                    //~ help: to force the closure to take ownership of `local` (and any other
                    //~    referenced variables), use the `move` keyword
                    Ok(())
                })
            })?;
            Ok(())
        })?;
        Ok(())
    });
}
