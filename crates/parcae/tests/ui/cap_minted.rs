//! The mint is the runtime's.

use parcae::cap::Mint;
//~ error[E0603]: struct `Mint` is private
//~ label: private struct

fn main() {}
