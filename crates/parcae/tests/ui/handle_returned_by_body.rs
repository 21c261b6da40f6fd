//! A handle cannot leave its nursery as the value of the body.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let handle = cx.nursery(|n| n.spawn(|_| Ok(1)))?;
        //~ error: lifetime may not live long enough
        //~ label: returning this value requires that `'1` must outlive `'2`
        //~ help: consider adding 'move' keyword before the nested closure
        handle.join()?;
        Ok(())
    });
}
