//! A guard that nobody keeps takes its callback back at once: the compiler says so.

#![deny(unused_must_use)]

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    token.on_cancel(|_| {});
    //~ error[unused_must_use]: unused `OnCancel` that must be used
    //~ note: dropping it takes the callback back
    //~ help: use `let _ = ...` to ignore the resulting value
}
