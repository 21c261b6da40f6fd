//! Iterators with checkpoints are the task's too.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let chunks = cx.chunks(0..10);
        std::thread::scope(|s| {
            s.spawn(move || chunks.count());
            //~ error[E0277]: `Cell<u64>` cannot be shared between threads safely
            //~ help: within `parcae::scope::cx::frame::Frame`, the trait `Sync` is not implemented
            //~    for `Cell<u64>`
        });
        Ok(())
    });
}
