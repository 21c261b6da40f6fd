//! A root task that nobody waits for borrows nothing.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let text = String::from("gone");
    let _ = rt.handle().spawn(|_| Ok(text.len()));
}
