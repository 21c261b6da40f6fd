//! A handle cannot leave its nursery through a variable outside.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let mut kept = None;
        cx.nursery(|n| {
            kept = Some(n.spawn(|_| Ok(1))?);
            //~ error[E0521]: borrowed data escapes outside of closure
            //~ label: `n` escapes the closure body here
            Ok(())
        })?;
        drop(kept);
        Ok(())
    });
}
