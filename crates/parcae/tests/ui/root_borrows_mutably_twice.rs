//! Two root tasks at the same time cannot both have a thing to change.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let mut counter = 0;
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
            //~ error[E0499]: cannot borrow `counter` as mutable more than once at a time
            //~ label: `counter` was mutably borrowed here in the previous iteration of the loop
                rt.run(|_| {
                    counter += 1;
                    Ok(())
                })
            });
        }
    });
}
