//! A context does not change its profile.

use parcae::prelude::*;
use parcae::profile::{Service, Sovereign};

fn freely(cx: &Cx<Service>) -> parcae::Result<()> {
    cx.nursery(|n| n.spawn(|_| Ok(()))?.join())
}

fn main() {
    let rt = Runtime::builder().profile::<Sovereign>().build().unwrap();
    let _ = rt.run(|cx| freely(cx));
    //~ error[E0308]: mismatched types
    //~ label: expected `&Cx`, found `&Cx<Sovereign>`
    //~ note: expected reference `&parcae::Cx<parcae::profile::Service>` found reference
    //~    `&parcae::Cx<parcae::profile::Sovereign>`
}
