//! Only the owner recharges without a capability.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.account().recharge(Budget::SERVICE)?;
            //~ error[E0061]: this method takes 2 arguments but 1 argument was supplied
            //~ help: provide the argument
            Ok(())
        })?;
        Ok(())
    });
}
