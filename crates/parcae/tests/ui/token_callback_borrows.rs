//! A callback may be called at any time: it borrows nothing.

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    let text = String::from("gone");
    let guard = token.on_cancel(|_| println!("{text}"));
    //~ error[E0373]: closure may outlive the current function, but it borrows `text`, which is
    //~    owned by the current function
    //~ label: may outlive borrowed value `text`
    //~ help: to force the closure to take ownership of `text` (and any other referenced variables),
    //~    use the `move` keyword
    drop(text);
    //~ error[E0505]: cannot move out of `text` because it is borrowed
    //~ label: move out of `text` occurs here
    drop(guard);
}
