//! A profile without the right to spawn cannot be given it.

impl parcae::profile::SpawnsFreely for parcae::profile::Sovereign {}
//~ error[E0117]: only traits defined in the current crate can be implemented for types defined
//~    outside of the crate
//~ note: impl doesn't have any local type before any uncovered type parameters
//~ note: define and implement a trait or new type instead

fn main() {}
