//! There are no actors in the service profile.

use parcae::Cx;
use parcae::profile::Service;
use parcae_actor::{Actors, ActorsOpts};

fn actors(cx: &Cx<Service>) {
    let _ = cx.actors(ActorsOpts::new(), |_| Ok(()));
    //~ error[E0599]: no method named `actors` found for reference `&Cx` in the current scope
    //~ label: method not found in `&Cx`
}

fn main() {}
