//! A call is answered once.

use parcae_actor::Reply;

fn answer(reply: Reply<u32>) {
    reply.send(1);
    reply.send(2);
    //~ error[E0382]: use of moved value: `reply`
    //~ label: value used here after move
    //~ note: `Reply::<R>::send` takes ownership of the receiver `self`, which moves `reply`
}

fn main() {}
