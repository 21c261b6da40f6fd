//! A context cannot be kept in a thread-local variable.

use parcae::prelude::*;

thread_local! {
    static KEPT: std::cell::Cell<Option<&'static Cx>> = const { std::cell::Cell::new(None) };
}

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        KEPT.set(Some(cx));
        //~ error[E0521]: borrowed data escapes outside of closure
        //~ label: `cx` escapes the closure body here
        Ok(())
    });
}
