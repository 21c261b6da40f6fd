//! A call needs a deadline.

use parcae_actor::{Address, Reply};

fn ask(actor: &Address<Reply<u32>>) {
    let _ = actor.call(|reply| reply);
    //~ error[E0061]: this method takes 2 arguments but 1 argument was supplied
    //~ help: provide the argument
}

fn main() {}
