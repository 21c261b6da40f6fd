//! A root task without a capability is a right of the owner of the runtime, who mints the
//! capabilities. A handle, which may be given away, has no such method.

use parcae::prelude::*;
use parcae::profile::Sovereign;

fn main() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let _ = rt.handle().run(|_| Ok(()));
    //~ error[E0599]: no method named `run` found for struct `Handle<P>`
}
