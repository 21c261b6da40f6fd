use parcae_macros::budgeted;

#[budgeted(ops = 3)]
//~ error: unknown argument `ops`: `budgeted` takes only `crate = path`
fn unknown() {}

#[budgeted(krate = parcae)]
//~ error: unknown argument `krate`: `budgeted` takes only `crate = path`
fn misspelt() {}

#[budgeted(crate)]
//~ error: expected `=`
fn no_value() {}

#[budgeted(crate = "parcae")]
//~ error: expected identifier
fn no_path() {}

#[budgeted(crate = a, crate = b)]
//~ error: `crate` is given twice
fn twice() {}

fn main() {}
