use parcae_macros::budgeted;

trait Work {
    #[budgeted]
    fn work(&self) -> u32;
    //~ error: a function without a body cannot be budgeted: annotate the functions that implement
    //~    it
}

fn main() {}
