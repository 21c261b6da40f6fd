use parcae_macros::budgeted;

#[budgeted]
struct Unit;

#[budgeted]
const LIMIT: u32 = 1;

#[budgeted]
type Number = u32;

fn main() {
    let _ = (Unit, LIMIT as Number);
}
