//! A meter cannot be constructed for an arbitrary task.

fn main() {
    let _ = parcae::__private::Meter { frame: None };
    //~ error[E0451]: field `frame` of struct `parcae::__private::Meter` is private
    //~ label: private field
}
