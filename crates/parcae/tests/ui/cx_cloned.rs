//! A context cannot be cloned.

use parcae::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.run(|cx| {
        fn clone<T: Clone>(_: &T) {}
        clone::<Cx>(cx);
        //~ error[E0277]: the trait bound `parcae::Cx: Clone` is not satisfied
        //~ label: the trait `Clone` is not implemented for `parcae::Cx`
        Ok(())
    });
}
