//! A context ends with its task.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
    //~ error[E0277]: `*const parcae::scope::cx::EachTaskHasItsOwnCx` cannot be shared between
    //~    threads safely
    //~ help: within `Cx`, the trait `Sync` is not implemented for `*const
    //~    parcae::scope::cx::EachTaskHasItsOwnCx`
        let _ = ();
        Ok(cx)
    });
}
