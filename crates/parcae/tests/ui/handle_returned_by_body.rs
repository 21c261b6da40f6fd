//! A handle cannot leave its nursery as the value of the body.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let handle = cx.nursery(|n| n.spawn(|_| Ok(1)))?;
        handle.join()?;
        Ok(())
    });
}
