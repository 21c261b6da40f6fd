//! The state of a nursery cannot be set.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.core.closing.set(true);
            //~ error[E0616]: field `core` of struct `parcae::Nursery` is private
            //~ label: private field
            Ok(())
        })?;
        Ok(())
    });
}
