//! Nobody makes a capability of this kind.

use parcae::Budget;
use parcae::cap::{BudgetLimits, CapBudget};

fn main() {
    let limits = BudgetLimits { total: Budget::UNLIMITED, per_request: Budget::UNLIMITED };
    let _ = CapBudget::new(limits);
    let _ = CapBudget::from(limits);
    let _ = CapBudget::default();
    let _: CapBudget = limits.into();
}
