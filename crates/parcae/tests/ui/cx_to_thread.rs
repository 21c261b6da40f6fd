//! A context stays on its task: no thread can have it.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        std::thread::scope(|s| {
            s.spawn(|| cx.checkpoint().is_ok());
            //~ error[E0277]: `*const parcae::scope::cx::EachTaskHasItsOwnCx` cannot be shared
            //~    between threads safely
            //~ help: within `Cx`, the trait `Sync` is not implemented for `*const
            //~    parcae::scope::cx::EachTaskHasItsOwnCx`
        });
        Ok(())
    });
}
