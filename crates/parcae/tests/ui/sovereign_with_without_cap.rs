//! In the sovereign profile spawning takes a capability, with options as well.

use parcae::prelude::*;
use parcae::profile::Sovereign;

fn main() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn_with(SpawnOpts::new(), |_| Ok(()))?;
            //~ error[E0061]: this method takes 3 arguments but 2 arguments were supplied
            //~ help: provide the argument
            Ok(())
        })?;
        Ok(())
    });
}
