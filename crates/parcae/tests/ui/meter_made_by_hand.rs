//! Nobody makes one for a task of his choice.

fn main() {
    let _ = parcae::__private::Meter { frame: None };
    //~ error[E0451]: field `frame` of struct `parcae::__private::Meter` is private
    //~ label: private field
}
