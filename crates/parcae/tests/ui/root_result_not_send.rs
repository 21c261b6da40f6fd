//! And so must its result.

use parcae::prelude::*;
use std::rc::Rc;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|_| Ok(Rc::new(1)));
}
