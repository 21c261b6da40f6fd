//! In the core profile there is nothing to spawn in.

use parcae::prelude::*;
use parcae::profile::Core;

fn spawn(nursery: &Nursery<'_, '_, Core>) {
    let _ = nursery.spawn(|_| Ok(()));
}

fn main() {}
