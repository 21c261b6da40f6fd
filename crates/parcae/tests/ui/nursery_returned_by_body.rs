//! A nursery cannot leave its body.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let nursery = cx.nursery(|n| Ok(n))?;
        nursery.spawn(|_| Ok(()))?;
        Ok(())
    });
}
