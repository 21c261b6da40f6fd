//! A capability cannot be cloned.

use parcae::cap::CapBudget;

fn twice(cap: &CapBudget) -> CapBudget {
    <CapBudget as Clone>::clone(cap)
    //~ error[E0277]: the trait bound `CapBudget: Clone` is not satisfied
    //~ label: the trait `Clone` is not implemented for `CapBudget`
}

fn main() {}
