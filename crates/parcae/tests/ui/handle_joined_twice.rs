//! A result is taken once.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let handle = n.spawn(|_| Ok(String::new()))?;
            handle.join()?;
            handle.join()?;
            //~ error[E0382]: use of moved value: `handle`
            //~ label: value used here after move
            //~ note: `TaskHandle::<'scope, T>::join` takes ownership of the receiver `self`, which
            //~    moves `handle`
            Ok(())
        })?;
        Ok(())
    });
}
