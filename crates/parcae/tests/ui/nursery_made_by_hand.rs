//! Nobody but `Cx::nursery` opens one.

fn main() {
    let _ = parcae::Nursery::<'_, '_, parcae::profile::Service> {};
}
