//! Nobody lets a profile spawn that may not.

impl parcae::profile::SpawnsFreely for parcae::profile::Sovereign {}

fn main() {}
