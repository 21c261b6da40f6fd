//! A child has its own context, and cannot have its parent's.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(move |_| cx.checkpoint())?;
            //~ error[E0277]: `*const parcae::scope::cx::EachTaskHasItsOwnCx` cannot be shared
            //~    between threads safely
            //~ help: within `Cx`, the trait `Sync` is not implemented for `*const
            //~    parcae::scope::cx::EachTaskHasItsOwnCx`
            Ok(())
        })?;
        Ok(())
    });
}
