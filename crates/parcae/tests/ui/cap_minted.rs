//! The mint is the runtime's.

use parcae::cap::Mint;

fn main() {}
