//! Nobody makes two of one.

use parcae::cap::CapBudget;

fn twice(cap: &CapBudget) -> CapBudget {
    <CapBudget as Clone>::clone(cap)
}

fn main() {}
