//! The task of an actor may run on any worker: its state has to be `Send`.

use parcae_actor::{Actor, ActorCx, Next};
use std::rc::Rc;

struct Local(Rc<u32>);

impl Actor for Local {
//~ error[E0277]: `Rc<u32>` cannot be sent between threads safely
//~ help: within `Local`, the trait `Send` is not implemented for `Rc<u32>`
    type Msg = u32;

    fn handle(&mut self, _: &mut ActorCx<'_, u32>, _: u32) -> parcae::Result<Next> {
        Ok(Next::Continue)
    }
}

fn main() {}
