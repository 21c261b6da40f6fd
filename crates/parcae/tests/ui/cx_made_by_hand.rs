//! A context cannot be constructed.

fn main() {
    let _: parcae::Cx = parcae::Cx::new(());
    //~ error[E0624]: associated function `new` is private
    //~ label: private associated function
}
