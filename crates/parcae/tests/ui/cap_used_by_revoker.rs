//! The right to revoke is no right to use.

use parcae::cap::Revoker;

fn spawn(revoker: &Revoker) {
    let _ = revoker.admit();
    //~ error[E0599]: no method named `admit` found for reference `&Revoker` in the current scope
    //~ label: method not found in `&Revoker`
}

fn main() {}
