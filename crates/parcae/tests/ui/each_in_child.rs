//! Iterators with checkpoints over a program's own items are the task's too.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let items = cx.each(0..10);
        cx.nursery(|n| {
            n.spawn(move |_| Ok(items.count()))?;
            //~ error[E0277]: `Cell<u64>` cannot be shared between threads safely
            //~ help: within `parcae::scope::cx::frame::Frame`, the trait `Sync` is not implemented
            //~    for `Cell<u64>`
            Ok(())
        })?;
        Ok(())
    });
}
