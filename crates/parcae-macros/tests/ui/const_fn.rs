use parcae_macros::budgeted;

#[budgeted]
pub const fn free() -> u32 {
//~ error: a `const fn` cannot be budgeted: the compiler may evaluate it, where there is no
//~    budget; use a plain function
    1
}

fn main() {}
