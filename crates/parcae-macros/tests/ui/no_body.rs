use parcae_macros::budgeted;

trait Work {
    #[budgeted]
    fn work(&self) -> u32;
}

fn main() {}
