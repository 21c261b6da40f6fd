//! Not with options either.

use parcae::prelude::*;
use parcae::profile::Core;

fn main() {
    let rt = Runtime::builder().profile::<Core>().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new(), |_| Ok(()))?;
        Ok(())
    });
}
