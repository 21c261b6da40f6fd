//! Two root tasks at the same time cannot both have a thing to change.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let mut counter = 0;
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                rt.run(|_| {
                    counter += 1;
                    Ok(())
                })
            });
        }
    });
}
