//! In the sovereign profile a handle takes a capability for every root task.

use parcae::prelude::*;
use parcae::profile::Sovereign;

fn main() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let _ = rt.handle().spawn(|_| Ok(()));
    //~ error[E0061]: this method takes 2 arguments but 1 argument was supplied
    //~ help: provide the argument
}
