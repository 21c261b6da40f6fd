//! The state of a channel under loom. Run: `.ci/run loom`.
//!
//! The models call `state.rs` in the same way as `sender.rs`, `receiver.rs` and `select` do, with
//! loom threads as waiters. A lost wake-up is a deadlock, which loom reports. A value that is lost
//! or duplicated fails an assertion.

mod changes;
mod one;
mod pool;
mod select;

use super::changes::notify_changed;
use super::pool::IdleItems;
use super::state::{ChannelCore, ChannelNode, Put, Side, Took, ValueAddress};
use super::{Overflow, UNBOUNDED};
use crate::base::lock::Lock;
use crate::base::shim::cell::UnsafeCell;
use crate::base::shim::explore;
use crate::wait::{CaseClaim, Claim, Grant, Queue, WaitNode, WaitStanding, Waitable, Wake, Wakes};
use loom::sync::Arc as Shared;
use loom::sync::atomic::AtomicBool;
use loom::thread::{self, Thread};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Channel<T = u32> = ChannelCore<T, Sleeper>;

/// A waiter of the models.
///
/// A select has a flag instead of its thread: it locks one channel while another may wake it, and
/// loom's `unpark` makes a thread runnable that is blocked on a mutex, and loses the token.
#[derive(Clone)]
enum Sleeper {
    Thread(Thread),
    Flag(Arc<AtomicBool>),
}

impl Sleeper {
    fn current() -> Sleeper {
        Sleeper::Thread(thread::current())
    }

    fn flag() -> Sleeper {
        Sleeper::Flag(Arc::new(AtomicBool::new(false)))
    }

    /// Waits to be woken.
    fn park(&self) {
        match self {
            Sleeper::Thread(_) => thread::park(),
            Sleeper::Flag(flag) => {
                // Acquire: pairs with the Release in `wake`.
                while !flag.swap(false, Ordering::Acquire) {
                    thread::yield_now();
                }
            }
        }
    }
}

impl Wake for Sleeper {
    fn wake(&self) {
        match self {
            Sleeper::Thread(thread) => thread.unpark(),
            // A swap, because loom may order another thread's swap after a store that it did not
            // see. Release: pairs with the Acquire in `park`.
            Sleeper::Flag(flag) => drop(flag.swap(true, Ordering::Release)),
        }
    }
}

fn channel(capacity: usize) -> Shared<Channel> {
    Shared::new(ChannelCore::new(capacity, Overflow::Block))
}

/// The memory of a sender or receiver, at the address that the channel has. Loom reports an access
/// that is not ordered after the one before.
struct Memory(UnsafeCell<u32>);

impl Memory {
    fn new(value: u32) -> Box<Memory> {
        Box::new(Memory(UnsafeCell::new(value)))
    }

    fn address(&mut self) -> NonNull<u32> {
        self.0.with_mut(|value| NonNull::new(value).unwrap())
    }

    fn get(&self) -> u32 {
        // SAFETY: checked by loom, as far as it sees the accesses; it was given back under the
        // channel's lock.
        self.0.with(|value| unsafe { *value })
    }
}

fn try_send(core: &Channel, value: u32) -> Put<Sleeper> {
    let mut memory = Memory::new(value);
    // SAFETY: a value.
    unsafe { core.try_send(memory.address()) }
}

fn try_recv(core: &Channel) -> Result<u32, Took<Sleeper>> {
    let mut memory = Memory::new(0);
    // SAFETY: memory for a value.
    match unsafe { core.try_recv(memory.address()) } {
        Took::Done(wakes) => {
            wakes.wake();
            Ok(memory.get())
        }
        took => Err(took),
    }
}

/// Waits for a node that is queued, as `wait_in_queue` does.
fn wait_on<T>(node: &ChannelNode<T, Sleeper>) -> Grant {
    loop {
        thread::park();
        match node.standing() {
            WaitStanding::Granted(grant) => return grant,
            standing => assert_eq!(standing, WaitStanding::Queued),
        }
    }
}

/// Begins a send as `Sender::send` does. Returns `None` if it was queued.
fn begin_send(
    core: &Channel,
    memory: &mut Memory,
    node: &ChannelNode<u32, Sleeper>,
) -> Option<Put<Sleeper>> {
    let address = memory.address();
    // SAFETY: a value, whose memory is there until the node was granted or withdrawn.
    unsafe {
        match core.push(address, 0) {
            Ok(()) => Some(Put::Done(Wakes::Nobody)),
            Err(mut locked) => match core.send_locked(address, &mut locked) {
                Put::Full => {
                    node.set_key(ValueAddress::of(address));
                    locked.join(Side::Senders, node, Sleeper::current());
                    None
                }
                put => Some(put),
            },
        }
    }
}

/// Begins a receive as `Receiver::recv` does. Returns `None` if it was queued.
fn begin_recv<T>(
    core: &Channel<T>,
    into: NonNull<T>,
    node: &ChannelNode<T, Sleeper>,
) -> Option<Took<Sleeper>> {
    // SAFETY: memory for a value, which is there until the node was granted or withdrawn.
    unsafe {
        match core.pop(into, 0) {
            Ok(()) => Some(Took::Done(Wakes::Nobody)),
            Err(mut locked) => match core.recv_locked(into, &mut locked) {
                Took::Empty => {
                    node.set_key(ValueAddress::of(into));
                    locked.join(Side::Receivers, node, Sleeper::current());
                    None
                }
                took => Some(took),
            },
        }
    }
}

fn node<T>() -> ChannelNode<T, Sleeper> {
    WaitNode::new(ValueAddress::WATCHER)
}

/// Sends as `Sender::send` does. Fails with the value if the channel is closed.
fn send(core: &Channel, value: u32) -> Result<(), u32> {
    let (mut memory, node) = (Memory::new(value), node());
    match begin_send(core, &mut memory, &node) {
        Some(Put::Done(wakes)) => {
            wakes.wake();
            Ok(())
        }
        Some(Put::Closed(_)) => Err(memory.get()),
        Some(_) => unreachable!(),
        None if wait_on(&node) == Grant::Own => Ok(()),
        None => Err(memory.get()),
    }
}

/// Receives as `Receiver::recv` does. `None` if the channel is closed.
fn recv(core: &Channel) -> Option<u32> {
    let (mut memory, node) = (Memory::new(0), node());
    match begin_recv(core, memory.address(), &node) {
        Some(Took::Done(wakes)) => {
            wakes.wake();
            Some(memory.get())
        }
        Some(_) => None,
        None => (wait_on(&node) == Grant::Own).then(|| memory.get()),
    }
}

/// A receive that is given up as soon as it would wait.
fn recv_briefly(core: &Channel) -> Option<u32> {
    let (mut memory, node) = (Memory::new(0), node());
    match begin_recv(core, memory.address(), &node) {
        Some(Took::Done(wakes)) => {
            wakes.wake();
            Some(memory.get())
        }
        Some(_) => None,
        None => {
            // SAFETY: queued above.
            let grant = unsafe { core.waiters(Side::Receivers).withdraw(&node) };
            (grant == Some(Grant::Own)).then(|| memory.get())
        }
    }
}

/// A send that is given up as soon as it would wait.
fn send_briefly(core: &Channel, value: u32) -> Result<(), u32> {
    let (mut memory, node) = (Memory::new(value), node());
    match begin_send(core, &mut memory, &node) {
        Some(Put::Done(wakes)) => {
            wakes.wake();
            Ok(())
        }
        Some(Put::Closed(_)) => Err(memory.get()),
        Some(_) => unreachable!(),
        None => {
            // SAFETY: queued above.
            let grant = unsafe { core.waiters(Side::Senders).withdraw(&node) };
            if grant == Some(Grant::Own) { Ok(()) } else { Err(memory.get()) }
        }
    }
}

fn close(core: &Channel) {
    core.close(None);
}

fn spawn<R: 'static>(
    core: &Shared<Channel>,
    body: impl FnOnce(&Channel) -> R + 'static,
) -> thread::JoinHandle<R> {
    let core = Shared::clone(core);
    thread::spawn(move || body(&core))
}

// rule: S4-CHAN-5, S4-MEM-1, S4-WAIT-1, S4-WAIT-6, S4-WAKE-2
#[test]
fn a_rendezvous_meets_in_either_order() {
    explore("channel: rendezvous", None, || {
        let core = channel(0);
        let sender = spawn(&core, |core| {
            assert_eq!(send(core, 1), Ok(()));
            assert_eq!(send(core, 2), Ok(()));
        });
        assert_eq!([recv(&core), recv(&core)], [Some(1), Some(2)]);
        sender.join().unwrap();
    });
}

#[test]
fn a_full_buffer_makes_room_for_who_waits() {
    explore("channel: capacity 1, three values", None, || {
        let core = channel(1);
        let sender = spawn(&core, |core| (1..=3).for_each(|i| assert_eq!(send(core, i), Ok(()))));
        (1..=3).for_each(|i| assert_eq!(recv(&core), Some(i)));
        sender.join().unwrap();
    });
}

// rule: S4-PARK-2, S4-WAIT-2, S4-WAIT-4, S4-WAKE-1
#[test]
fn two_senders_and_a_receiver() {
    explore("channel: two senders, one receiver", None, || {
        let core = channel(0);
        let senders = [1, 2].map(|i| spawn(&core, move |core| assert_eq!(send(core, i), Ok(()))));
        let mut got = [recv(&core).unwrap(), recv(&core).unwrap()];
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

// rule: S4-WAIT-1, S4-WAIT-4
#[test]
fn close_against_a_send_and_a_receive() {
    for capacity in [0, 1] {
        explore("channel: close, send, receive", None, move || {
            let core = channel(capacity);
            let sender = spawn(&core, |core| send(core, 7));
            let closer = spawn(&core, close);
            let got = recv(&core);
            closer.join().unwrap();
            let sent = sender.join().unwrap();
            // Closed while the value was in the buffer: it can still be received.
            let got = got.or_else(|| recv(&core));
            assert_eq!(got.is_some(), sent.is_ok(), "it has one owner");
            assert!(matches!(sent, Ok(()) | Err(7)));
        });
    }
}

// rule: S4-CHAN-3, S4-WAIT-7
#[test]
fn a_receive_that_is_given_up_against_a_hand_off() {
    explore("channel: withdrawn receive, send, second receive", None, || {
        let core = channel(0);
        let brief = spawn(&core, recv_briefly);
        let sender = spawn(&core, |core| assert_eq!(send(core, 7), Ok(())));
        let mut got = recv_briefly(&core);
        let theirs = brief.join().unwrap();
        if got.or(theirs).is_none() {
            got = recv(&core); // it is still to be had
        }
        assert_eq!([got, theirs].into_iter().flatten().collect::<Vec<_>>(), [7]);
        sender.join().unwrap();
    });
}

// rule: S4-KIND-6
#[test]
fn a_send_that_is_given_up_against_a_receive() {
    explore("channel: withdrawn send, receive", None, || {
        let core = channel(0);
        let brief = spawn(&core, |core| {
            let sent = send_briefly(core, 7);
            close(core);
            sent
        });
        let got = recv(&core);
        let sent = brief.join().unwrap();
        assert_eq!((got, sent), if sent.is_ok() { (Some(7), Ok(())) } else { (None, Err(7)) });
    });
}

#[test]
fn an_unbounded_channel_wakes_the_one_who_waits() {
    explore("channel: unbounded", None, || {
        let core = channel(UNBOUNDED);
        let sender = spawn(&core, |core| (1..=2).for_each(|i| assert_eq!(send(core, i), Ok(()))));
        assert_eq!([recv(&core), recv(&core)], [Some(1), Some(2)]);
        sender.join().unwrap();
    });
}
