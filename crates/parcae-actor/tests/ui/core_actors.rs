//! There are no actors in the core profile.

use parcae::Cx;
use parcae::profile::Core;
use parcae_actor::{Actors, ActorsOpts};

fn actors(cx: &Cx<Core>) {
    let _ = cx.actors(ActorsOpts::new(), |_| Ok(()));
    //~ error[E0599]: no method named `actors` found for reference `&Cx<parcae::profile::Core>` in
    //~    the current scope
    //~ label: method not found in `&Cx<parcae::profile::Core>`
}

fn main() {}
