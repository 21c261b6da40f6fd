//! Only `Cx::nursery` opens a nursery.

fn main() {
    let _ = parcae::Nursery::<'_, '_, parcae::profile::Service> {};
    //~ error: cannot construct `parcae::Nursery<'_, '_>` with struct literal syntax due to private
    //~    fields
    //~ note: private fields `core`, `owner`, `_profile`, `_scope` and `_env` that were not provided
}
