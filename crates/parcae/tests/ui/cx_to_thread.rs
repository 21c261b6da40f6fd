//! A context stays on its task: no thread can have it.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        std::thread::scope(|s| {
            s.spawn(|| cx.checkpoint().is_ok());
        });
        Ok(())
    });
}
