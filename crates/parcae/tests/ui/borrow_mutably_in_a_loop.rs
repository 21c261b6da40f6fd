//! One child for each round, all with the same thing to change.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let mut counter = 0;
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|_| {
                //~ error[E0499]: cannot borrow `counter` as mutable more than once at a time
                //~ label: `counter` was mutably borrowed here in the previous iteration of the loop
                    counter += 1;
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        Ok(())
    });
}
