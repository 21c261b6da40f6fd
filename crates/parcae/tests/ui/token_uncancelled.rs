//! What is cancelled stays cancelled.

use parcae::prelude::*;

fn main() {
    let token = CancelToken::new();
    token.cancel();
    token.reset();
}
