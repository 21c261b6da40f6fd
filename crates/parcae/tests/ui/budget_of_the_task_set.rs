//! A task looks at its budget; it cannot set it.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.budget().ops = u64::MAX;
        cx.set_budget(Budget::UNLIMITED);
        //~ error[E0599]: no method named `set_budget` found for reference `&Cx` in the current
        //~    scope
        Ok(())
    });
}
