//! A capability of another kind is none.

use parcae::cap::{BudgetLimits, Delegation};
use parcae::prelude::*;
use parcae::profile::Sovereign;

fn main() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let all = BudgetLimits { total: Budget::UNLIMITED, per_request: Budget::UNLIMITED };
    let cap = rt.cap_budget(all, Delegation::Allowed);
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(&cap, |_| Ok(()))?;
            //~ error[E0308]: mismatched types
            //~ label: expected `&CapSpawn`, found `&CapBudget`
            //~ note: expected reference `&CapSpawn` found reference `&CapBudget`
            Ok(())
        })
    });
}
