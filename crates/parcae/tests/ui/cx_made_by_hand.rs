//! Nobody makes a context.

fn main() {
    let _: parcae::Cx = parcae::Cx::new(());
}
