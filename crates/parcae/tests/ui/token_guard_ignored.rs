//! An unused guard removes its callback at once: the compiler warns of it.

#![deny(unused_must_use)]

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    token.on_cancel(|_| {});
    //~ error[unused_must_use]: unused `OnCancel` that must be used
    //~ note: dropping it takes the callback back
    //~ help: use `let _ = ...` to ignore the resulting value
}
