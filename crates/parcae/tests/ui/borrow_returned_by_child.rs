//! A child's result cannot borrow from the child.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let child = n.spawn(|_| {
                let local = String::from("gone");
                Ok(local.as_str())
                //~ error[E0515]: cannot return value referencing local variable `local`
                //~ label: returns a value referencing data owned by the current function
            })?;
            child.join()?;
            Ok(())
        })?;
        Ok(())
    });
}
