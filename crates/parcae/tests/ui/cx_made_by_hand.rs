//! A context cannot be constructed.

fn main() {
    let _ = parcae::Cx::<parcae::profile::Service>::made_in;
    //~ error[E0624]: associated function `made_in` is private
    //~ label: private associated function
}
