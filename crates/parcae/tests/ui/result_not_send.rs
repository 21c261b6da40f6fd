//! A result goes to the joiner's thread: it must be `Send`.

use parcae::prelude::*;
use std::rc::Rc;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|_| Ok(Rc::new(1)))?;
            //~ error[E0277]: `Rc<{integer}>` cannot be sent between threads safely
            //~ help: the trait `Send` is not implemented for `Rc<{integer}>`
            Ok(())
        })?;
        Ok(())
    });
}
