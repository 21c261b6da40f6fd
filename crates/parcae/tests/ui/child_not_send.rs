//! A child may start on any worker: what it captures must be `Send`.

use parcae::prelude::*;
use std::rc::Rc;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let shared = Rc::new(1);
        cx.nursery(|n| {
            let mine = Rc::clone(&shared);
            n.spawn(move |_| Ok(*mine))?;
            //~ error[E0277]: `Rc<i32>` cannot be sent between threads safely
            Ok(())
        })?;
        Ok(())
    });
}
