//! One guard for one callback.

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    let guard = token.on_cancel(|_| {});
    drop(guard.clone());
    //~ error[E0599]: no method named `clone` found for struct `OnCancel` in the current scope
    //~ label: method not found in `OnCancel`
}
