//! A function of a library that opens nurseries says so, and `Core` has none.

use parcae::prelude::*;
use parcae::profile::{Core, SpawnsFreely};

fn both<P: SpawnsFreely>(cx: &Cx<P>) -> parcae::Result<()> {
    cx.nursery(|n| n.spawn(|_| Ok(()))?.join())
}

fn main() {
    let rt = Runtime::builder().profile::<Core>().build().unwrap();
    let _ = rt.run(|cx| both(cx));
    //~ error[E0277]: tasks of the profile `parcae::profile::Core` cannot spawn freely
    //~ note: `Core` does not spawn at all, and in `Sovereign` every `spawn` takes a `&CapSpawn`
}
