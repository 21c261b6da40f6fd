//! There are no actors in the sovereign profile.

use parcae::Cx;
use parcae::profile::Sovereign;
use parcae_actor::{Actors, ActorsOpts};

fn actors(cx: &Cx<Sovereign>) {
    let _ = cx.actors(ActorsOpts::new(), |_| Ok(()));
    //~ error[E0599]: no method named `actors` found for reference `&Cx<parcae::profile::Sovereign>`
    //~    in the current scope
    //~ label: method not found in `&Cx<parcae::profile::Sovereign>`
}

fn main() {}
