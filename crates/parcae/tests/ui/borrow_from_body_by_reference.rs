//! A reference into the body of a nursery cannot be moved into a child.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let local = String::from("gone");
            let borrowed = &local;
            //~ error[E0597]: `local` does not live long enough
            //~ label: borrowed value does not live long enough
            n.spawn(move |_| Ok(borrowed.len()))?;
            Ok(())
        })?;
        Ok(())
    });
}
