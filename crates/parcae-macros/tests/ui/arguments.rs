use parcae_macros::budgeted;

#[budgeted(ops = 3)]
fn unknown() {}

#[budgeted(krate = parcae)]
fn misspelt() {}

#[budgeted(crate)]
fn no_value() {}

#[budgeted(crate = "parcae")]
fn no_path() {}

#[budgeted(crate = a, crate = b)]
fn twice() {}

fn main() {}
