//! A restart calls the factory again: it gives nothing away.

use parcae_actor::{Actor, ActorCx, ActorOpts, Next, System};

struct Owner(String);

impl Actor for Owner {
    type Msg = u32;

    fn handle(&mut self, _: &mut ActorCx<'_, u32>, _: u32) -> parcae::Result<Next> {
        Ok(Next::Continue)
    }
}

fn start(system: &System<'_>, name: String) -> parcae::Result<()> {
    system.start(ActorOpts::new("owner"), move |_| Ok(Owner(name)))?;
    //~ error[E0507]: cannot move out of `name`, a captured variable in an `FnMut` closure
    //~ label: `name` is moved here
    //~ help: `Fn` and `FnMut` closures require captured values to be able to be consumed multiple
    //~    times, but `FnOnce` closures may consume them only once
    Ok(())
}

fn main() {}
