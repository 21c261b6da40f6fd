//! In the core profile there are no nurseries.

use parcae::prelude::*;
use parcae::profile::Core;

fn main() {
    let rt = Runtime::builder().profile::<Core>().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|_| Ok(()))?;
        Ok(())
    });
}
