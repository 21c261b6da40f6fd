//! A callback may be called on any thread.

use parcae::prelude::*;
use std::rc::Rc;

fn main() {
    let token = CancelToken::new();
    let shared = Rc::new(1);
    let guard = token.on_cancel(move |_| println!("{shared}"));
    //~ error[E0277]: `Rc<i32>` cannot be sent between threads safely
    drop(guard);
}
