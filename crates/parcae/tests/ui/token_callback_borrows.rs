//! A callback may be called at any time: it borrows nothing.

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    let text = String::from("gone");
    let guard = token.on_cancel(|_| println!("{text}"));
    drop(text);
    drop(guard);
}
