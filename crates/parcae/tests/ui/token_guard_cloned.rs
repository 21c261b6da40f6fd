//! One guard for one callback.

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    let guard = token.on_cancel(|_| {});
    drop(guard.clone());
}
