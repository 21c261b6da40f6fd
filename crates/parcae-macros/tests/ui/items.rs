use parcae_macros::budgeted;

#[budgeted]
struct Unit;
//~ error: `budgeted` is for functions, and for `impl` blocks, traits and inline modules that hold
//~    them

#[budgeted]
const LIMIT: u32 = 1;
//~ error: `budgeted` is for functions, and for `impl` blocks, traits and inline modules that hold
//~    them

#[budgeted]
type Number = u32;
//~ error: `budgeted` is for functions, and for `impl` blocks, traits and inline modules that hold
//~    them

fn main() {
    let _ = (Unit, LIMIT as Number);
}
