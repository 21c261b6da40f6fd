//! Nor does anybody by its fields.

use parcae::cap::CapBudget;

fn forge(cap: CapBudget) -> CapBudget {
    CapBudget { ..cap }
}

fn main() {}
