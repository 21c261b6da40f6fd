//! A child of an outer nursery may outlive what it would join in an inner one.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        cx.nursery(|outer| {
            cx.nursery(|inner| {
                let handle = inner.spawn(|_| Ok(1))?;
                outer.spawn(move |_| handle.join())?;
                //~ error[E0521]: borrowed data escapes outside of closure
                //~ label: `inner` escapes the closure body here
                //~ help: see <https://doc.rust-lang.org/nomicon/subtyping.html> for more
                //~    information about variance
                Ok(())
            })
        })?;
        Ok(())
    });
}
