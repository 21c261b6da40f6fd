//! The right to revoke is no right to use.

use parcae::cap::Revoker;

fn spawn(revoker: &Revoker) {
    let _ = revoker.admit();
}

fn main() {}
