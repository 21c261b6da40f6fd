//! A lock's guard belongs to the thread that took the lock.

use parcae::prelude::*;
use std::sync::Mutex;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let lock = Mutex::new(1);
        cx.nursery(|n| {
            let guard = lock.lock().unwrap();
            n.spawn(move |_| Ok(*guard))?;
            //~ error[E0277]: `std::sync::MutexGuard<'_, i32>` cannot be sent between threads safely
            Ok(())
        })?;
        Ok(())
    });
}
