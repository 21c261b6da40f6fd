//! A message may stay in a mailbox for any time: it borrows nothing.

use parcae_actor::{Actor, ActorCx, Next};

struct Reader<'a>(&'a str);

impl<'a> Actor for Reader<'a> {
    type Msg = &'a str;
    //~ error[E0477]: the type `&'a str` does not fulfill the required lifetime
    //~ note: type must satisfy the static lifetime as required by this binding

    fn handle(&mut self, _: &mut ActorCx<'_, &'a str>, _: &'a str) -> parcae::Result<Next> {
        Ok(Next::Continue)
    }
}

fn main() {}
