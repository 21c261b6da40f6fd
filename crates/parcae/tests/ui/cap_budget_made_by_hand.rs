//! A capability of this kind cannot be constructed.

use parcae::Budget;
use parcae::cap::{BudgetLimits, CapBudget};

fn main() {
    let limits = BudgetLimits { total: Budget::UNLIMITED, per_request: Budget::UNLIMITED };
    let _ = CapBudget::new(limits);
    //~ error[E0599]: no function or associated item named `new` found for struct `CapBudget` in the
    //~    current scope
    //~ label: function or associated item not found in `CapBudget`
    let _ = CapBudget::from(limits);
    //~ error[E0308]: mismatched types
    //~ label: expected `CapBudget`, found `BudgetLimits`
    let _ = CapBudget::default();
    //~ error[E0599]: no function or associated item named `default` found for struct `CapBudget` in
    //~    the current scope
    //~ label: function or associated item not found in `CapBudget`
    let _: CapBudget = limits.into();
    //~ error[E0277]: the trait bound `CapBudget: From<BudgetLimits>` is not satisfied
    //~ label: the trait `From<BudgetLimits>` is not implemented for `CapBudget`
}
