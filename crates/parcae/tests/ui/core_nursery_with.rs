//! Not with options either.

use parcae::prelude::*;
use parcae::profile::Core;

fn main() {
    let rt = Runtime::builder().profile::<Core>().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new(), |_| Ok(()))?;
        //~ error[E0599]: the method `nursery_with` exists for reference
        //~    `&Cx<parcae::profile::Core>`, but its trait bounds were not satisfied
        //~ label: method cannot be called on `&Cx<parcae::profile::Core>` due to unsatisfied trait
        //~    bounds
        //~ note: the following trait bounds were not satisfied: `parcae::profile::Core: Spawns`
        Ok(())
    });
}
