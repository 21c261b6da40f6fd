//! The state of a channel under loom. Run: `.ci/run loom`.
//!
//! The models call `state.rs` in the same way as `sender.rs`, `receiver.rs` and `select` do, with
//! loom threads as waiters. A lost wake-up is a deadlock, which loom reports. A value that is lost
//! or duplicated fails an assertion.

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
        match core.push(address) {
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
        match core.pop(into) {
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

/// Waits until a select is decided.
fn decided(claim: &Claim, sleeper: &Sleeper) -> usize {
    loop {
        match claim.winner() {
            Some(winner) => return winner,
            None => sleeper.park(),
        }
    }
}

/// The action of a select if none of its cases is possible.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    Waits,
    Default,
}

/// Receives from one of two channels, as a select does, and returns which. `None` stands for its
/// `default`.
fn select_or(
    channels: &[Shared<Channel>; 2],
    otherwise: Otherwise,
) -> Option<(usize, Option<u32>)> {
    const RETRY: usize = usize::MAX - 1;
    const DEFAULT: usize = usize::MAX - 2;
    loop {
        for (i, core) in channels.iter().enumerate() {
            match try_recv(core) {
                Ok(value) => return Some((i, Some(value))),
                Err(Took::Closed(_)) => return Some((i, None)),
                Err(_) => {}
            }
        }
        let (claim, nodes, sleeper) = (Claim::new(), [node(), node()], Sleeper::flag());
        let mut memory = [Memory::new(0), Memory::new(0)];
        for (i, core) in channels.iter().enumerate() {
            let into = ValueAddress::of(memory[i].address());
            let case = (&claim, i);
            // SAFETY: node, memory and claim are there until the node was withdrawn.
            let queued =
                unsafe { core.register(Side::Receivers, &nodes[i], into, sleeper.clone(), case) };
            if !queued {
                claim.fire(RETRY);
            }
            if !claim.is_open() {
                break;
            }
        }
        if otherwise == Otherwise::Default {
            claim.fire(DEFAULT);
        }
        let winner = decided(&claim, &sleeper);
        let mut outcome = None;
        for (i, node) in nodes.iter().enumerate() {
            // SAFETY: used with this channel only.
            match unsafe { channels[i].waiters(Side::Receivers).withdraw(node) } {
                Some(Grant::Own) => {
                    assert!(outcome.replace((i, Some(memory[i].get()))).is_none());
                }
                Some(_) => assert!(outcome.replace((i, None)).is_none()),
                None => {}
            }
        }
        match outcome {
            Some(outcome) => {
                assert_eq!(outcome.0, winner, "the case that was claimed");
                return Some(outcome);
            }
            None if winner == DEFAULT => return None,
            None => assert_eq!(winner, RETRY),
        }
    }
}

fn select(channels: &[Shared<Channel>; 2]) -> (usize, Option<u32>) {
    select_or(channels, Otherwise::Waits).unwrap()
}

/// Waits until a receive is possible, as `Select::ready` does, without receiving.
fn ready(core: &Channel) {
    loop {
        if core.can_recv() {
            return;
        }
        let (claim, node) = (Claim::new(), node());
        let (watch, case) = (ValueAddress::WATCHER, (&claim, 0));
        // SAFETY: node and claim are there until the node was withdrawn.
        unsafe {
            if !core.register(Side::Receivers, &node, watch, Sleeper::current(), case) {
                continue;
            }
            while claim.is_open() {
                thread::park();
            }
            core.waiters(Side::Receivers).withdraw(&node);
        }
        return;
    }
}

#[test]
fn a_watcher_is_woken_by_a_value_a_waiting_sender_and_a_close() {
    for (capacity, closes) in [(1, false), (0, false), (0, true)] {
        explore("channel: somebody watches", None, move || {
            let core = channel(capacity);
            let other =
                spawn(&core, move |core| if closes { close(core) } else { send(core, 7).unwrap() });
            ready(&core);
            assert_eq!(recv(&core), (!closes).then_some(7), "it is still there");
            other.join().unwrap();
        });
    }
}

#[test]
fn a_watcher_takes_nothing_from_waiters() {
    explore("channel: one watches, one receives", Some(3), || {
        let core = channel(0);
        let watcher = spawn(&core, ready);
        let receiver = spawn(&core, recv);
        assert_eq!(send(&core, 1), Ok(()));
        assert_eq!(receiver.join().unwrap(), Some(1));
        close(&core); // whatever it has seen, this wakes it
        watcher.join().unwrap();
    });
}

/// A value is put into the second channel before it is taken out of the first: at every moment a
/// case is possible.
#[test]
fn a_default_needs_a_moment_without_a_possible_case() {
    explore("select: default, while a value moves", Some(3), || {
        let channels = [channel(2), channel(2)];
        assert!(matches!(try_send(&channels[1], 7), Put::Done(_)));
        let (from, to) = (Shared::clone(&channels[1]), Shared::clone(&channels[0]));
        let mover = thread::spawn(move || {
            assert_eq!(send(&to, 7), Ok(()));
            recv_briefly(&from).is_some()
        });
        assert!(matches!(select_or(&channels, Otherwise::Default), Some((_, Some(7)))));
        mover.join().unwrap();
    });
}

// rule: S4-SELECT-1
#[test]
fn a_select_has_one_winner_and_the_loser_keeps_its_value() {
    explore("select: two senders", Some(3), || {
        let channels = [channel(0), channel(0)];
        let senders = [0, 1]
            .map(|i| spawn(&channels[i], move |core| assert_eq!(send(core, i as u32), Ok(()))));
        let (first, value) = select(&channels);
        assert_eq!(value, Some(first as u32));
        assert_eq!(recv(&channels[1 - first]), Some(1 - first as u32), "untouched");
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_select_against_a_send_and_a_close() {
    explore("select: a send and a close", Some(3), || {
        let channels = [channel(0), channel(0)];
        let sender = spawn(&channels[0], |core| send(core, 7));
        let closer = spawn(&channels[1], close);
        match select(&channels) {
            (0, Some(7)) => {}
            (1, None) => assert_eq!(recv(&channels[0]), Some(7), "untouched"),
            other => panic!("{other:?}"),
        }
        assert_eq!(sender.join().unwrap(), Ok(()));
        closer.join().unwrap();
    });
}

#[test]
fn a_select_that_is_decided_is_passed_over() {
    explore("select: a select and a receiver", Some(2), || {
        let channels = [channel(0), channel(0)];
        let theirs = channels.clone();
        let selecting = thread::spawn(move || select(&theirs));
        let receiver = spawn(&channels[0], recv);
        let senders = [0, 1].map(|i| spawn(&channels[i], move |core| send(core, i as u32)));
        match selecting.join().unwrap() {
            // Its node in the first channel must not receive the value that is sent there.
            (1, Some(1)) => {}
            (0, Some(0)) => {
                assert_eq!(recv(&channels[1]), Some(1));
                assert_eq!(send(&channels[0], 0), Ok(()));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(receiver.join().unwrap(), Some(0));
        senders.into_iter().for_each(|sender| assert_eq!(sender.join().unwrap(), Ok(())));
    });
}

/// A state with a version, as that of a broadcast or of a watched value.
struct Versioned {
    version: u64,
    waiters: Queue<Sleeper>,
}

fn versioned() -> Shared<Lock<Versioned>> {
    Shared::new(Lock::new(Versioned { version: 0, waiters: Queue::new() }))
}

fn change(state: &Lock<Versioned>) {
    let mut state = state.lock();
    state.version += 1;
    let woken = notify_changed(&mut state.waiters);
    drop(state);
    woken.wake();
}

/// Waits for a version, as `Reader::wait_until` does.
fn watch(state: &Lock<Versioned>, version: u64) {
    let node = WaitNode::new(());
    loop {
        let mut locked = state.lock();
        if locked.version >= version {
            return;
        }
        // SAFETY: idle, and here until it was removed.
        unsafe { locked.waiters.push(&node, Sleeper::current(), None) };
        drop(locked);
        thread::park();
        // SAFETY: as above.
        unsafe { state.lock().waiters.remove(&node) };
    }
}

#[test]
fn a_change_wakes_all_waiters() {
    explore("changes: two wait for a change", Some(3), || {
        let state = versioned();
        let watchers = [(); 2].map(|()| {
            let state = Shared::clone(&state);
            thread::spawn(move || watch(&state, 1))
        });
        change(&state);
        watchers.into_iter().for_each(|watcher| watcher.join().unwrap());
    });
}

#[test]
fn the_last_change_wakes_its_waiter() {
    explore("changes: two changes", None, || {
        let state = versioned();
        let watcher = {
            let state = Shared::clone(&state);
            thread::spawn(move || watch(&state, 2))
        };
        change(&state);
        change(&state);
        watcher.join().unwrap();
    });
}

/// A select over two states, as `ChangeCase` takes part in it: decided once, and there is a change.
#[test]
fn a_select_of_two_states_sees_the_change_that_it_was_woken_for() {
    explore("changes: a select", Some(3), || {
        let both = [versioned(), versioned()];
        let setters = [0, 1].map(|i| {
            let state = Shared::clone(&both[i]);
            thread::spawn(move || change(&state))
        });
        let (claim, sleeper) = (Claim::new(), Sleeper::flag());
        let nodes = [WaitNode::new(()), WaitNode::new(())];
        for (i, state) in both.iter().enumerate() {
            let mut state = state.lock();
            if state.version > 0 {
                claim.fire(i);
                break;
            }
            // SAFETY: node and claim are here until the node was removed.
            unsafe {
                let case = CaseClaim::new(&claim, i);
                state.waiters.push(&nodes[i], sleeper.clone(), Some(case));
            }
        }
        let winner = decided(&claim, &sleeper);
        for (state, node) in both.iter().zip(&nodes) {
            // SAFETY: used with this queue only.
            unsafe { state.lock().waiters.remove(node) };
        }
        assert!(both[winner].lock().version > 0, "woken without a change");
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
}

/// As [`recv`], for a value of size zero, which has no memory.
fn recv_permit(core: &Channel<()>) -> bool {
    let node = node();
    match begin_recv(core, NonNull::dangling(), &node) {
        Some(Took::Done(wakes)) => {
            wakes.wake();
            true
        }
        Some(_) => false,
        None => wait_on(&node) == Grant::Own,
    }
}

/// A pool of one item: its permits, the idle item, and the number of items made.
struct Lent {
    permits: Channel<()>,
    idle: IdleItems<u32>,
    made: AtomicUsize,
}

impl Lent {
    fn new() -> Shared<Lent> {
        let lent = Lent {
            permits: ChannelCore::new(1, Overflow::Block),
            idle: IdleItems::new(),
            made: AtomicUsize::new(0),
        };
        lent.permits.fill(1);
        Shared::new(lent)
    }

    /// Borrows an item and gives it back; false if the pool is closed.
    fn borrow(&self) -> bool {
        if !recv_permit(&self.permits) {
            return false;
        }
        let item = self.idle.take().unwrap_or_else(|| {
            self.made.fetch_add(1, Ordering::Relaxed); // a figure for the end
            7
        });
        drop(self.idle.give_back(Some(item), &self.permits));
        true
    }
}

// rule: S4-KIND-8
#[test]
fn a_pool_finds_its_idle_item_before_it_makes_another() {
    explore("pool: two borrowers of one", None, || {
        let lent = Lent::new();
        let other = {
            let lent = Shared::clone(&lent);
            thread::spawn(move || assert!(lent.borrow()))
        };
        assert!(lent.borrow());
        other.join().unwrap();
        assert_eq!(lent.made.load(Ordering::Relaxed), 1, "no more than the capacity");
    });
}

#[test]
fn a_pool_that_is_closed_keeps_nothing() {
    explore("pool: a borrower against a close", None, || {
        let lent = Lent::new();
        let borrower = {
            let lent = Shared::clone(&lent);
            thread::spawn(move || lent.borrow())
        };
        lent.permits.close(None);
        drop(lent.idle.empty(&lent.permits));
        borrower.join().unwrap();
        assert!(lent.idle.take().is_none(), "an item that nobody will borrow");
    });
}
