//! A capability cannot be made from its fields.

use parcae::cap::CapBudget;

fn forge(cap: CapBudget) -> CapBudget {
    CapBudget { ..cap }
    //~ error[E0451]: field `node` of struct `CapBudget` is private
    //~ label: field `node` is private
}

fn main() {}
