//! The state of a channel under loom. Run: `.ci/run loom`.
//!
//! The models use the functions of `state.rs` as `ends.rs` and `select` do, with threads of loom for waiters.
//! A wake-up that is lost is a deadlock, which loom reports; a value that is lost or doubled fails an
//! assertion.

use super::bell::Bell;
use super::claim::Claim;
use super::places::{Outcome, Waiting};
use super::pool::Idle;
use super::state::{Begun, Core, Put, Took, Wake};
use super::{Overflow, UNBOUNDED};
use crate::lock::Lock;
use crate::shim::explore;
use loom::sync::Arc as Shared;
use loom::thread::{self, Thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

impl Wake for Thread {
    fn wake(&self) {
        self.unpark();
    }
}

type Channel<T = u32> = Core<T, Thread>;

fn channel(capacity: usize) -> Shared<Channel> {
    Shared::new(Core::new(capacity, Overflow::Block))
}

fn wake(waiter: Option<Thread>) {
    if let Some(waiter) = waiter {
        waiter.unpark();
    }
}

/// Sends as `Sender::send` does; the value again if the channel is closed.
fn send(core: &Channel, value: u32) -> Result<(), u32> {
    let mut ticket = match core.send(value, thread::current) {
        Begun::Now(Put::Done(waiter, None)) => {
            wake(waiter);
            return Ok(());
        }
        Begun::Now(Put::Closed(value, _)) => return Err(value),
        Begun::Now(_) => unreachable!(),
        Begun::Wait(ticket) => ticket,
    };
    loop {
        thread::park();
        match core.poll_send(ticket) {
            Ok(Outcome::Done(None)) => return Ok(()),
            Ok(Outcome::Closed(Some(value))) => return Err(value),
            Ok(other) => panic!("{other:?}"),
            Err(again) => ticket = again,
        }
    }
}

/// Receives as `Receiver::recv` does; none if the channel is closed.
fn recv<T: std::fmt::Debug>(core: &Channel<T>) -> Option<T> {
    let mut ticket = match core.recv(thread::current) {
        Begun::Now(Took::Done(value, waiter)) => {
            wake(waiter);
            return Some(value);
        }
        Begun::Now(_) => return None,
        Begun::Wait(ticket) => ticket,
    };
    loop {
        thread::park();
        match core.poll_recv(ticket) {
            Ok(Outcome::Done(value)) => return value,
            Ok(Outcome::Closed(None)) => return None,
            Ok(other) => panic!("{other:?}"),
            Err(again) => ticket = again,
        }
    }
}

/// A receive that is given up as soon as it would wait.
fn recv_briefly(core: &Channel) -> Option<u32> {
    match core.recv(thread::current) {
        Begun::Now(Took::Done(value, waiter)) => {
            wake(waiter);
            Some(value)
        }
        Begun::Now(_) => None,
        Begun::Wait(ticket) => match core.withdraw_recv(ticket) {
            Outcome::Done(value) => value,
            Outcome::Closed(_) | Outcome::Withdrawn(_) => None,
        },
    }
}

/// A send that is given up as soon as it would wait.
fn send_briefly(core: &Channel, value: u32) -> Result<(), u32> {
    match core.send(value, thread::current) {
        Begun::Now(Put::Done(waiter, _)) => {
            wake(waiter);
            Ok(())
        }
        Begun::Now(Put::Closed(value, _)) => Err(value),
        Begun::Now(_) => unreachable!(),
        Begun::Wait(ticket) => match core.withdraw_send(ticket) {
            Outcome::Done(_) => Ok(()),
            Outcome::Closed(value) | Outcome::Withdrawn(value) => Err(value.unwrap()),
        },
    }
}

fn close(core: &Channel) {
    core.close(None).iter().for_each(Wake::wake);
}

fn spawn<R: 'static>(
    core: &Shared<Channel>,
    body: impl FnOnce(&Channel) -> R + 'static,
) -> thread::JoinHandle<R> {
    let core = Shared::clone(core);
    thread::spawn(move || body(&core))
}

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
            // Closed while it was in the buffer: it comes out all the same.
            let got = got.or_else(|| recv(&core));
            assert_eq!(got.is_some(), sent.is_ok(), "it has one owner");
            assert!(matches!(sent, Ok(()) | Err(7)));
        });
    }
}

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

/// Receives from one of two channels, as a select does; says from which.
fn select(channels: &[Shared<Channel>; 2]) -> (usize, Option<u32>) {
    const RETRY: usize = usize::MAX - 1;
    loop {
        for (i, core) in channels.iter().enumerate() {
            match core.try_recv() {
                Took::Done(value, waiter) => {
                    wake(waiter);
                    return (i, Some(value));
                }
                Took::Closed(_) => return (i, None),
                Took::Empty => {}
            }
        }
        let claim = Arc::new(Claim::new());
        let mut tickets = [None, None];
        for (i, core) in channels.iter().enumerate() {
            tickets[i] = core.register_recv(thread::current(), &claim, i);
            if tickets[i].is_none() {
                claim.fire(RETRY);
            }
            if !claim.is_open() {
                break;
            }
        }
        let winner = loop {
            match claim.winner() {
                Some(winner) => break winner,
                None => thread::park(),
            }
        };
        let mut outcome = None;
        for (i, ticket) in tickets.into_iter().enumerate() {
            match ticket.map(|ticket| channels[i].withdraw_recv(ticket)) {
                Some(Outcome::Done(value)) => assert!(outcome.replace((i, value)).is_none()),
                Some(Outcome::Closed(_)) => assert!(outcome.replace((i, None)).is_none()),
                Some(Outcome::Withdrawn(_)) | None => {}
            }
        }
        match outcome {
            Some(outcome) => {
                assert_eq!(outcome.0, winner, "the case that was claimed");
                return outcome;
            }
            None => assert_eq!(winner, RETRY),
        }
    }
}

#[test]
fn a_select_has_one_winner_and_the_loser_keeps_its_value() {
    explore("select: two senders", None, || {
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
    explore("select: a send and a close", None, || {
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
            // Its place in the first channel must not swallow what is sent there.
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

/// What a bell is part of: as the state of a broadcast or of what is watched.
struct Rings {
    version: u64,
    bell: Bell<Thread>,
}

fn rings() -> Shared<Lock<Rings>> {
    Shared::new(Lock::new(Rings { version: 0, bell: Bell::new() }))
}

fn change(rings: &Lock<Rings>) {
    let mut state = rings.lock();
    state.version += 1;
    let rung = state.bell.ring();
    drop(state);
    rung.wake();
}

/// Waits for a version, as `Look::wait_until` does.
fn watch(rings: &Lock<Rings>, version: u64) {
    loop {
        let mut state = rings.lock();
        if state.version >= version {
            return;
        }
        let waiting = Waiting { waiter: thread::current(), claim: None, value: None };
        let ticket = state.bell.join(waiting);
        drop(state);
        thread::park();
        rings.lock().bell.withdraw(ticket);
    }
}

#[test]
fn a_bell_rings_for_all_who_wait() {
    explore("bell: two wait for a change", Some(3), || {
        let rings = rings();
        let watchers = [(); 2].map(|()| {
            let rings = Shared::clone(&rings);
            thread::spawn(move || watch(&rings, 1))
        });
        change(&rings);
        watchers.into_iter().for_each(|watcher| watcher.join().unwrap());
    });
}

#[test]
fn a_bell_rings_for_the_last_change() {
    explore("bell: two changes", None, || {
        let rings = rings();
        let watcher = {
            let rings = Shared::clone(&rings);
            thread::spawn(move || watch(&rings, 2))
        };
        change(&rings);
        change(&rings);
        watcher.join().unwrap();
    });
}

/// A select over two bells, as `BellCase` takes part in it: decided once, and there is something to be seen.
#[test]
fn a_select_of_two_bells_sees_what_it_was_rung_for() {
    explore("bell: a select", None, || {
        let both = [rings(), rings()];
        let setters = [0, 1].map(|i| {
            let rings = Shared::clone(&both[i]);
            thread::spawn(move || change(&rings))
        });
        let claim = Arc::new(Claim::new());
        let mut tickets = [None, None];
        for (i, rings) in both.iter().enumerate() {
            let mut state = rings.lock();
            if state.version > 0 {
                claim.fire(i);
                break;
            }
            let waiter = thread::current();
            let claim = Some((Arc::clone(&claim), i));
            tickets[i] = Some(state.bell.join(Waiting { waiter, claim, value: None }));
        }
        let winner = loop {
            match claim.winner() {
                Some(winner) => break winner,
                None => thread::park(),
            }
        };
        for (rings, ticket) in both.iter().zip(tickets) {
            if let Some(ticket) = ticket {
                rings.lock().bell.withdraw(ticket);
            }
        }
        assert!(both[winner].lock().version > 0, "rung for nothing");
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
}

/// A pool of one: its permits, its idle item, and how many were made.
struct Lent {
    permits: Channel<()>,
    idle: Idle<u32>,
    made: AtomicUsize,
}

impl Lent {
    fn new() -> Shared<Lent> {
        let lent = Lent {
            permits: Core::new(1, Overflow::Block),
            idle: Idle::new(),
            made: AtomicUsize::new(0),
        };
        assert!(matches!(lent.permits.try_send(()), Put::Done(None, None)));
        Shared::new(lent)
    }

    /// Borrows an item and gives it back; false if the pool is closed.
    fn borrow(&self) -> bool {
        if recv(&self.permits).is_none() {
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
        lent.permits.close(None).iter().for_each(Wake::wake);
        drop(lent.idle.empty(&lent.permits));
        borrower.join().unwrap();
        assert!(lent.idle.take().is_none(), "an item that nobody will borrow");
    });
}
