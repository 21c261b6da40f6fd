//! A nursery cannot leave its body.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let nursery = cx.nursery(|n| Ok(n))?;
        //~ error: lifetime may not live long enough
        //~ label: returning this value requires that `'1` must outlive `'2`
        //~ help: see <https://doc.rust-lang.org/nomicon/subtyping.html> for more information about
        //~    variance
        nursery.spawn(|_| Ok(()))?;
        Ok(())
    });
}
