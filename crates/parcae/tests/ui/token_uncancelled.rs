//! A cancelled token cannot be reset.

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    token.cancel();
    token.reset();
    //~ error[E0599]: no method named `reset` found for struct `parcae::CancelToken` in the current
    //~    scope
    //~ label: method not found in `parcae::CancelToken`
}
