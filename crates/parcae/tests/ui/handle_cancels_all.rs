//! A handle starts tasks. It has no token that cancels the tasks of others.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    rt.handle().token().cancel();
    //~ error[E0599]: no method named `token` found for struct `Handle<P>`
}
