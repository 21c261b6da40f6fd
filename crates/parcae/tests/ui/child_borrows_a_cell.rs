//! A child can borrow only `Sync` values.

use parcae::prelude::*;
use std::cell::Cell;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let cell = Cell::new(1);
        cx.nursery(|n| {
            n.spawn(|_| {
            //~ error[E0277]: `Cell<i32>` cannot be shared between threads safely
            //~ help: the trait `Sync` is not implemented for `Cell<i32>`
                cell.set(2);
                Ok(())
            })?;
            Ok(())
        })?;
        Ok(())
    });
}
