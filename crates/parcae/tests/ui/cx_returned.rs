//! A context ends with its task.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        let _ = ();
        Ok(cx)
    });
}
