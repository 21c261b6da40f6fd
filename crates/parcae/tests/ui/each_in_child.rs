//! Iterators with checkpoints over a program's own items are the task's too.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let items = cx.each(0..10);
        cx.nursery(|n| {
            n.spawn(move |_| Ok(items.count()))?;
            Ok(())
        })?;
        Ok(())
    });
}
