//! The state of a oneshot: its only value has one owner at the end, and its memory is freed once.

use super::{Memory, Sleeper, channel, recv as recv_channel, wait_on};
use crate::base::shim::explore;
use crate::sync::channel::one::{Gone, OneCore, OnePut, OneStanding, OneTook};
use crate::sync::channel::state::ChannelNode;
use crate::wait::{Grant, Waitable};
use loom::sync::Arc as Shared;
use loom::thread;
use std::ptr::NonNull;

type One = OneCore<u32, Sleeper>;

/// The fate of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The value is in the oneshot or with a receiver, and the sender is gone.
    Yes,
    /// As above, and a bridge has to be closed.
    Beside,
    Closed,
    Bridged,
}

fn one() -> Shared<One> {
    Shared::new(OneCore::new())
}

/// Sends as `OneSender::send` does.
fn send(core: &One, value: u32) -> Sent {
    let mut memory = Memory::new(value);
    // SAFETY: a value.
    match unsafe { core.send(memory.address(), None) } {
        OnePut::Done(wakes) => {
            wakes.wake();
            Sent::Yes
        }
        OnePut::Beside(wakes) => {
            wakes.wake();
            Sent::Beside
        }
        OnePut::Closed => Sent::Closed,
        OnePut::Bridged => Sent::Bridged,
        OnePut::Handed(_) => unreachable!("there is no worker"),
    }
}

/// Begins a receive; true if it was queued.
fn begin(
    core: &One,
    memory: &mut Memory,
    node: &mut std::mem::MaybeUninit<ChannelNode<u32, Sleeper>>,
) -> Result<bool, ()> {
    let into = memory.address();
    // SAFETY: memory for a value and for a node, both there until the node is granted or withdrawn.
    match unsafe { core.recv(into, 0) } {
        OneTook::Done => Ok(false),
        OneTook::Empty(locked) => {
            // SAFETY: as above.
            unsafe { locked.join(NonNull::from(node).cast(), into, Sleeper::current()) };
            Ok(true)
        }
        OneTook::Closed | OneTook::Bridged => Err(()),
    }
}

/// Receives as `OneReceiver::recv` does. `None` if there is no value and will be none here.
fn recv(core: &One) -> Option<u32> {
    let (mut memory, mut place) = (Memory::new(0), std::mem::MaybeUninit::uninit());
    if begin(core, &mut memory, &mut place).ok()? {
        // SAFETY: made by `begin`.
        let grant = wait_on(unsafe { place.assume_init_ref() });
        return (grant == Grant::Own).then(|| memory.get());
    }
    Some(memory.get())
}

/// A receive that is given up as soon as it would wait: cancelled, or out of time.
fn recv_briefly(core: &One) -> Option<u32> {
    let (mut memory, mut place) = (Memory::new(0), std::mem::MaybeUninit::uninit());
    if begin(core, &mut memory, &mut place).ok()? {
        // SAFETY: made by `begin`, and queued there.
        let grant = unsafe { core.withdraw(place.assume_init_ref()) };
        return (grant == Some(Grant::Own)).then(|| memory.get());
    }
    Some(memory.get())
}

/// The value that the last end drops.
fn left(core: &One) -> Option<u32> {
    // SAFETY: an initialised value.
    core.take_value().map(|value| unsafe { value.read() })
}

/// The receiver goes, as in `OneReceiver::drop`. Returns what is left, if it was the last.
fn drop_receiver(core: &One) -> Option<Option<u32>> {
    match core.leave_last() {
        Some(OneStanding::Full) => Some(left(core)),
        Some(_) => Some(None),
        None if core.leave() == Gone::Last => Some(left(core)),
        None => None,
    }
}

fn spawn<R: 'static>(
    core: &Shared<One>,
    body: impl FnOnce(&One) -> R + 'static,
) -> thread::JoinHandle<R> {
    let core = Shared::clone(core);
    thread::spawn(move || body(&core))
}

#[test]
fn a_value_is_handed_over_and_the_last_end_frees_the_memory() {
    explore("oneshot: send, receive", None, || {
        let core = one();
        let sender = spawn(&core, |core| send(core, 7));
        assert_eq!(recv(&core), Some(7));
        // The send may still hold the lock, but not its handle.
        assert_eq!(drop_receiver(&core), Some(None));
        assert_eq!(sender.join().unwrap(), Sent::Yes);
    });
}

#[test]
fn a_receive_that_is_given_up_leaves_the_value_or_has_it() {
    explore("oneshot: withdrawn receive, send", None, || {
        let core = one();
        let sender = spawn(&core, |core| send(core, 7));
        let first = recv_briefly(&core);
        let got = first.or_else(|| recv(&core));
        assert_eq!(got, Some(7));
        assert_eq!(drop_receiver(&core), Some(None));
        assert_eq!(sender.join().unwrap(), Sent::Yes);
    });
}

#[test]
fn a_value_has_one_owner_when_the_receiver_gives_up_and_goes() {
    explore("oneshot: withdrawn receive, receiver goes, send", None, || {
        let core = one();
        let sender = spawn(&core, |core| match send(core, 7) {
            Sent::Yes => (0, None),
            // The error has the value, and the sender goes.
            Sent::Closed => (1, (core.leave() == Gone::Last).then_some(None)),
            sent => unreachable!("{sent:?}"),
        });
        let got = recv_briefly(&core);
        let last = drop_receiver(&core);
        let (kept, theirs) = sender.join().unwrap();
        let ends: Vec<Option<u32>> = [last, theirs].into_iter().flatten().collect();
        assert_eq!(ends.len(), 1, "freed once");
        let dropped = ends[0].is_some();
        assert_eq!(usize::from(got.is_some()) + kept + usize::from(dropped), 1, "one owner");
    });
}

#[test]
fn a_sender_that_goes_ends_the_wait() {
    explore("oneshot: sender goes, receive", None, || {
        let core = one();
        let sender = spawn(&core, |core| core.leave_open().unwrap());
        assert_eq!(recv(&core), None);
        let first = drop_receiver(&core).is_none();
        assert_eq!(sender.join().unwrap() == Gone::Last, first);
    });
}

#[test]
fn of_two_receivers_one_gets_the_value_and_the_other_is_told() {
    explore("oneshot: two receives, send", None, || {
        let core = one();
        let other = spawn(&core, recv);
        let sender = spawn(&core, |core| send(core, 7));
        let mine = recv(&core);
        let theirs = other.join().unwrap();
        assert_eq!([mine, theirs].into_iter().flatten().collect::<Vec<_>>(), [7]);
        assert_eq!(sender.join().unwrap(), Sent::Yes);
    });
}

#[test]
fn a_close_against_a_send_and_a_receive() {
    explore("oneshot: close, send", None, || {
        let core = one();
        let sender = spawn(&core, |core| send(core, 7));
        core.close();
        let got = recv(&core); // the value if it was faster
        assert_eq!(sender.join().unwrap() == Sent::Yes, got == Some(7));
    });
}

/// As a select or a future does: the receiver goes on with a channel.
#[test]
fn a_bridge_takes_the_value_over_in_either_order() {
    explore("oneshot: bridge, send", None, || {
        let (core, bridge) = (one(), channel(1));
        let theirs = Shared::clone(&bridge);
        let sender = spawn(&core, move |core| match send(core, 7) {
            Sent::Bridged => {
                assert_eq!(super::send(&theirs, 7), Ok(()));
                theirs.close(None); // as the drop of the sender does
                assert_eq!(core.leave(), Gone::First);
            }
            sent => assert_eq!(sent, Sent::Yes),
        });
        // SAFETY: a value, which is not used there any more.
        let push = |value| assert!(unsafe { bridge.push(value, 0) }.is_ok());
        core.bridge(push, || bridge.close(None));
        assert_eq!(recv_channel(&bridge), Some(7));
        assert_eq!(recv_channel(&bridge), None, "closed");
        sender.join().unwrap();
        assert_eq!(core.leave_last(), Some(OneStanding::Bridged));
    });
}

#[test]
fn a_sender_that_goes_closes_the_bridge() {
    explore("oneshot: bridge, sender goes", None, || {
        let (core, bridge) = (one(), channel(1));
        let theirs = Shared::clone(&bridge);
        let sender = spawn(&core, move |core| {
            core.leave_open().unwrap_or_else(|| {
                theirs.close(None);
                core.leave()
            })
        });
        core.bridge(|_| unreachable!("no value"), || bridge.close(None));
        assert_eq!(recv_channel(&bridge), None);
        let first = drop_receiver(&core).is_none();
        assert_eq!(sender.join().unwrap() == Gone::Last, first);
    });
}

#[test]
fn a_receiver_that_waits_beside_a_bridge_gets_the_value() {
    explore("oneshot: receive, bridge, send", None, || {
        let (core, bridge) = (one(), channel(1));
        let waits = spawn(&core, recv);
        let theirs = Shared::clone(&bridge);
        let sender = spawn(&core, move |core| match send(core, 7) {
            Sent::Bridged => {
                assert_eq!(super::send(&theirs, 7), Ok(()));
                theirs.close(None);
            }
            Sent::Beside => theirs.close(None),
            sent => assert_eq!(sent, Sent::Yes),
        });
        // SAFETY: as above.
        let push = |value| assert!(unsafe { bridge.push(value, 0) }.is_ok());
        core.bridge(push, || bridge.close(None));
        let mine = recv_channel(&bridge);
        let theirs = waits.join().unwrap();
        assert_eq!([mine, theirs].into_iter().flatten().collect::<Vec<_>>(), [7]);
        sender.join().unwrap();
    });
}
