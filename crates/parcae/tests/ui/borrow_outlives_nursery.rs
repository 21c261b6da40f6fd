//! What a child is lent cannot be given up while the nursery is open.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let text = String::from("gone");
        cx.nursery(|n| {
            n.spawn(|_| Ok(text.len()))?;
            drop(text);
            Ok(())
        })?;
        Ok(())
    });
}
