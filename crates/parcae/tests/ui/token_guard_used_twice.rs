//! A callback is left in place, or taken back.

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    let guard = token.on_cancel(|_| {});
    guard.forget();
    drop(guard);
    //~ error[E0382]: use of moved value: `guard`
    //~ label: value used here after move
    //~ note: `OnCancel::forget` takes ownership of the receiver `self`, which moves `guard`
}
