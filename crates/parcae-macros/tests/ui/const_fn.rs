use parcae_macros::budgeted;

#[budgeted]
pub const fn free() -> u32 {
    1
}

fn main() {}
