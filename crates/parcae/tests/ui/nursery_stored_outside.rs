//! A nursery cannot leave its body through a variable outside.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let mut kept = None;
        cx.nursery(|n| {
            kept = Some(n);
            //~ error[E0521]: borrowed data escapes outside of closure
            //~ label: `n` escapes the closure body here
            //~ help: see <https://doc.rust-lang.org/nomicon/subtyping.html> for more information
            //~    about variance
            Ok(())
        })?;
        drop(kept);
        Ok(())
    });
}
