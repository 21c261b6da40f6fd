//! The context of a handler does not outlive the handler.

use parcae_actor::{Actor, ActorCx, Next};

struct Keeper<'a>(Option<&'a mut ActorCx<'a, u32>>);

impl<'a> Actor for Keeper<'a> {
//~ error[E0277]: `(dyn parcae_actor::actor::Helpers + 'a)` cannot be shared between threads safely
//~ help: the trait `Sync` is not implemented for `(dyn parcae_actor::actor::Helpers + 'a)`
    type Msg = u32;

    fn handle(&mut self, cx: &mut ActorCx<'_, u32>, _: u32) -> parcae::Result<Next> {
        self.0 = Some(cx);
        //~ error: lifetime may not live long enough
        //~ label: assignment requires that `'2` must outlive `'a`
        Ok(Next::Continue)
    }
}

fn main() {}
