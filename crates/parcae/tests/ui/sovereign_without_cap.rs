//! In the sovereign profile spawning takes a capability.

use parcae::prelude::*;
use parcae::profile::Sovereign;

fn main() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|_| Ok(()))?;
            //~ error[E0061]: this method takes 2 arguments but 1 argument was supplied
            //~ help: provide the argument
            Ok(())
        })?;
        Ok(())
    });
}
