use parcae_macros::budgeted;

#[budgeted]
struct Unit;
//~ error: `budgeted` applies to functions, and to `impl` blocks, traits and inline modules with
//~    functions

#[budgeted]
const LIMIT: u32 = 1;
//~ error: `budgeted` applies to functions, and to `impl` blocks, traits and inline modules with
//~    functions

#[budgeted]
type Number = u32;
//~ error: `budgeted` applies to functions, and to `impl` blocks, traits and inline modules with
//~    functions

fn main() {
    let _ = (Unit, LIMIT as Number);
}
