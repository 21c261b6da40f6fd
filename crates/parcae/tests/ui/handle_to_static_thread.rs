//! A detached thread cannot have a handle.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            let handle = n.spawn(|_| Ok(1))?;
            std::thread::spawn(move || handle.is_finished());
            //~ error[E0521]: borrowed data escapes outside of closure
            //~ label: `n` escapes the closure body here
            Ok(())
        })?;
        Ok(())
    });
}
