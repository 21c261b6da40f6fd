//! A detached root task borrows nothing.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let text = String::from("gone");
    let _ = rt.handle().spawn(|_| Ok(text.len()));
    //~ error[E0373]: closure may outlive the current function, but it borrows `text`, which is
    //~    owned by the current function
    //~ label: may outlive borrowed value `text`
    //~ help: to force the closure to take ownership of `text` (and any other referenced variables),
    //~    use the `move` keyword
}
