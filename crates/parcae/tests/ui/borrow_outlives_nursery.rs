//! A value lent to a child cannot be dropped while the nursery is open.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let text = String::from("gone");
        cx.nursery(|n| {
            n.spawn(|_| Ok(text.len()))?;
            //~ error[E0373]: closure may outlive the current function, but it borrows `text`, which
            //~    is owned by the current function
            //~ label: may outlive borrowed value `text`
            //~ help: to force the closure to take ownership of `text` (and any other referenced
            //~    variables), use the `move` keyword
            drop(text);
            //~ error[E0505]: cannot move out of `text` because it is borrowed
            //~ label: move out of `text` occurs here
            Ok(())
        })?;
        Ok(())
    });
}
