//! An actor may borrow from around its system, and not from the closure that starts it.

use parcae::Cx;
use parcae::profile::Cluster;
use parcae_actor::{Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Next};

struct Borrower<'a>(&'a u32);

impl Actor for Borrower<'_> {
    type Msg = u32;

    fn handle(&mut self, _: &mut ActorCx<'_, u32>, _: u32) -> parcae::Result<Next> {
        Ok(Next::Continue)
    }
}

fn run(cx: &Cx<Cluster>) -> parcae::Result<()> {
    cx.actors(ActorsOpts::new(), |system| {
        let number = 7;
        system.start(ActorOpts::new("borrower"), |_| Ok(Borrower(&number)))?;
        //~ error[E0373]: closure may outlive the current function, but it borrows `number`, which
        //~    is owned by the current function
        //~ label: may outlive borrowed value `number`
        //~ help: to force the closure to take ownership of `number` (and any other referenced
        //~    variables), use the `move` keyword
        Ok(())
    })
}

fn main() {}
