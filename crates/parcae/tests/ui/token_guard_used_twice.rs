//! A callback is left in place, or taken back.

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    let guard = token.on_cancel(|_| {});
    guard.forget();
    drop(guard);
}
