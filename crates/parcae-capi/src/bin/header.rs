//! Prints the header of the C library.

use std::io::Write;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(parcae_capi::header::header().as_bytes())
}
