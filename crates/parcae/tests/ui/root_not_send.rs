//! A root task starts on another thread: it must be `Send`.

use parcae::prelude::*;
use std::rc::Rc;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let shared = Rc::new(1);
    let _ = rt.run(|_| Ok(*shared));
    //~ error[E0277]: `Rc<i32>` cannot be shared between threads safely
    //~ help: the trait `Sync` is not implemented for `Rc<i32>`
}
