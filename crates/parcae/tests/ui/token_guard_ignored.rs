//! A guard that nobody keeps takes its callback back at once: the compiler says so.

#![deny(unused_must_use)]

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    token.on_cancel(|_| {});
}
