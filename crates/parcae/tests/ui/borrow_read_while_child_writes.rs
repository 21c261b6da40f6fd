//! The body cannot look at what a child may be changing.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let mut counter = 0;
        cx.nursery(|n| {
            let child = n.spawn(|_| {
                counter += 1;
                Ok(())
            })?;
            println!("{counter}");
            //~ error[E0502]: cannot borrow `counter` as immutable because it is also borrowed as
            //~    mutable
            //~ label: immutable borrow occurs here
            child.join()
        })?;
        Ok(())
    });
}
