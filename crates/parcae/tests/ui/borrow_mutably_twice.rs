//! Two children cannot both have a thing to change.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let mut counter = 0;
        cx.nursery(|n| {
            n.spawn(|_| {
                counter += 1;
                Ok(())
            })?;
            n.spawn(|_| {
            //~ error[E0499]: cannot borrow `counter` as mutable more than once at a time
            //~ label: second mutable borrow occurs here
                counter += 1;
                Ok(())
            })?;
            Ok(())
        })?;
        Ok(())
    });
}
