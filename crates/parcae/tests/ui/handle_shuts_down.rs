//! A handle starts tasks. Ending the runtime is left to its owner.

use parcae::prelude::*;
use std::time::Duration;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.handle().shutdown(Duration::ZERO);
    //~ error[E0599]: no method named `shutdown` found for struct `Handle<P>`
}
