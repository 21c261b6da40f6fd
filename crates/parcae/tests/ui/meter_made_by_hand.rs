//! Nobody makes one for a task of his choice.

fn main() {
    let _ = parcae::__private::Meter { frame: None };
}
