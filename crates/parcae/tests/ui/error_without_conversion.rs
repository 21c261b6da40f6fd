//! `?` converts errors of the standard library. A `String` is none.

use parcae::prelude::*;

fn parse(text: &str) -> Result<u32, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|_| Ok(parse("7")?));
    //~ error[E0277]: `?` couldn't convert the error: `String: std::error::Error` is not satisfied
    //~ note: required for `parcae::Error` to implement `From<String>`
}
