//! Models of the wait queue alone: grants against waiters that give up, for any reason. Locks and
//! channels have models of their own on top of it. Run: `.ci/run loom`.
//!
//! A cancellation, a deadline and a close are the same to the queue: the owner of a node takes the
//! lock and removes it. Loom reports a lost wake-up as a deadlock, and an access to a node that is
//! not ordered after the one before. An unpark that comes while a thread waits for a mutex or a
//! join confuses loom: a thread parks for each wake, or ends before it comes.

use super::*;
use crate::base::lock::Lock;
use crate::base::shim::explore;
use loom::sync::Arc;
use loom::thread::{self, Thread};

impl Wake for Thread {
    fn wake(&self) {
        self.unpark();
    }
}

/// An object that hands out tokens, with the address of a waiter's memory as the key.
struct Object {
    state: Lock<Tokens>,
    /// Set by a waiter that has looked at its node.
    looked: AtomicUsize,
}

struct Tokens {
    free: usize,
    closed: bool,
    waiters: Queue<Thread, Address>,
}

/// Where a token is put. Loom checks the accesses.
#[derive(Clone, Copy)]
struct Address(NonNull<UnsafeCell<usize>>);

// SAFETY: the models are about just that.
unsafe impl Send for Address {}

/// Memory for a token.
struct Memory(Box<UnsafeCell<usize>>);

impl Memory {
    fn new() -> Memory {
        Memory(Box::new(UnsafeCell::new(0)))
    }

    fn address(&self) -> Address {
        Address(NonNull::from(&*self.0))
    }

    fn get(&self) -> usize {
        // SAFETY: checked by loom.
        self.0.with(|token| unsafe { *token })
    }
}

fn put(address: &Address, token: usize) {
    // SAFETY: checked by loom; the waiter keeps its memory while its node is queued.
    unsafe { address.0.as_ref().with_mut(|memory| *memory = token) };
}

/// The outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Got {
    Token,
    Closed,
    Nothing,
}

impl Object {
    fn new() -> Arc<Object> {
        let state = Tokens { free: 0, closed: false, waiters: Queue::new() };
        Arc::new(Object { state: Lock::new(state), looked: AtomicUsize::new(0) })
    }

    /// Hands a token to the first waiter, by its address, or keeps it.
    fn give(&self) {
        if let Some(waiter) = self.grant() {
            waiter.wake();
        }
    }

    /// As [`give`](Object::give), with a point between grant and wake. Loom has none itself, and
    /// orders what a waiter reads after an unpark even if the waiter has not parked.
    fn give_slowly(&self) {
        self.wake_slowly(self.grant());
    }

    fn wake_slowly(&self, waiter: Option<Thread>) {
        self.looked.load(Ordering::Relaxed); // orders nothing: loom tries both sides of the look
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    fn grant(&self) -> Option<Thread> {
        let mut state = self.state.lock();
        let waiter = state.waiters.grant_where(Grant::Own, |_| true, |address| put(address, 7));
        if waiter.is_none() {
            state.free += 1;
        }
        waiter
    }

    /// As [`give`](Object::give), by the quick form of a grant where it applies.
    fn give_quickly(&self) {
        if let Some(waiter) = self.grant_quickly() {
            waiter.wake();
        }
    }

    /// The same with a point, as in [`give_slowly`](Object::give_slowly).
    fn give_quickly_wake_slowly(&self) {
        self.wake_slowly(self.grant_quickly());
    }

    fn grant_quickly(&self) -> Option<Thread> {
        let hand_over = |address: &Address, waiter: &Thread| {
            put(address, 7);
            Some(waiter.clone())
        };
        let granted = self.state.lock().waiters.grant_first(Grant::Own, hand_over);
        granted.or_else(|| self.grant())
    }

    fn close(&self) {
        let mut woken = Vec::new();
        let mut state = self.state.lock();
        state.closed = true;
        state.waiters.grant_all(Grant::Closed, None, |_| true, &mut woken);
        drop(state);
        woken.iter().for_each(Wake::wake);
    }

    /// Takes a token, or queues the node: none.
    fn begin(&self, node: &WaitNode<Thread, Address>, claim: Option<CaseClaim>) -> Option<Got> {
        let mut state = self.state.lock();
        if state.free > 0 {
            state.free -= 1;
            return Some(Got::Token);
        }
        if state.closed {
            return Some(Got::Closed);
        }
        // SAFETY: the models keep nodes and claims until all nodes are out of their queues.
        unsafe { state.waiters.push(node, thread::current(), claim) };
        None
    }

    /// Takes the node out, as a waiter that was cancelled or is out of time. A token that has
    /// reached it is kept or passed on.
    fn give_up(&self, node: &WaitNode<Thread, Address>, late: Late) -> Got {
        // SAFETY: used with this queue only.
        let removed = unsafe { self.state.lock().waiters.remove(node) };
        match (removed.standing, late) {
            (WaitStanding::Granted(Grant::Own), Late::Keep) => Got::Token,
            (WaitStanding::Granted(Grant::Own), Late::PassOn) => {
                self.give();
                Got::Nothing
            }
            (WaitStanding::Granted(_), _) => Got::Closed,
            _ => Got::Nothing,
        }
    }

    /// Waits without end.
    fn take(&self) -> Got {
        let memory = Memory::new();
        let node = WaitNode::new(memory.address());
        self.begin(&node, None).unwrap_or_else(|| wait_on(&node, &memory))
    }

    fn free(&self) -> usize {
        self.state.lock().free
    }
}

/// Waits for a node that is queued, without a lock.
fn wait_on(node: &WaitNode<Thread, Address>, memory: &Memory) -> Got {
    loop {
        thread::park();
        match node.standing() {
            WaitStanding::Granted(Grant::Own) => {
                assert_eq!(memory.get(), 7, "granted before the token was there");
                return Got::Token;
            }
            WaitStanding::Granted(_) => return Got::Closed,
            standing => assert_eq!(standing, WaitStanding::Queued),
        }
    }
}

/// The action of a waiter that was granted a token while it gave up.
#[derive(Clone, Copy)]
enum Late {
    Keep,
    PassOn,
}

/// Both forms of a grant.
const GIVE: [fn(&Object); 2] = [Object::give, Object::give_quickly];

/// The same, with a point before the wake.
const GIVE_SLOWLY: [fn(&Object); 2] = [Object::give_slowly, Object::give_quickly_wake_slowly];

fn spawn<R: 'static>(
    object: &Arc<Object>,
    body: impl FnOnce(&Object) -> R + 'static,
) -> thread::JoinHandle<R> {
    let object = Arc::clone(object);
    thread::spawn(move || body(&object))
}

/// A waiter that reads its grant without the lock has the token, and its node is its own: both are
/// gone when it returns.
#[test]
fn a_hand_over_is_published_with_the_state() {
    for give in GIVE {
        explore("queue: hand-over", None, move || {
            let object = Object::new();
            let giver = spawn(&object, give);
            assert_eq!(object.take(), Got::Token);
            giver.join().unwrap();
            assert_eq!(object.free(), 0);
        });
    }
}

/// A hand-over against a waiter that gives up at a deadline: it keeps a token that came in time.
#[test]
fn a_hand_over_against_a_deadline() {
    for give in GIVE.into_iter().chain(GIVE_SLOWLY) {
        explore("queue: hand-over against a deadline", None, move || {
            let object = Object::new();
            let giver = spawn(&object, give);
            let waiter = spawn(&object, |object| {
                let memory = Memory::new();
                let node = WaitNode::new(memory.address());
                if let Some(got) = object.begin(&node, None) {
                    return got;
                }
                // One look without the lock and without a wake, then the deadline.
                let granted = node.standing() == WaitStanding::Granted(Grant::Own);
                if granted {
                    assert_eq!(memory.get(), 7, "granted before the token was there");
                }
                object.looked.store(1, Ordering::Relaxed); // as in `give_slowly`
                if granted { Got::Token } else { object.give_up(&node, Late::Keep) }
            });
            giver.join().unwrap();
            let kept = usize::from(waiter.join().unwrap() != Got::Token);
            assert_eq!(object.free(), kept, "a token was lost or doubled");
        });
    }
}

/// A hand-over against a waiter that is cancelled, with another one behind it: the grant is passed
/// on.
#[test]
fn a_hand_over_against_a_cancel() {
    for give in GIVE {
        explore("queue: hand-over against a cancel", None, move || {
            let object = Object::new();
            let stays = spawn(&object, Object::take);
            let giver = spawn(&object, give);
            let quits = spawn(&object, |object| {
                let memory = Memory::new();
                let node = WaitNode::new(memory.address());
                match object.begin(&node, None) {
                    Some(Got::Token) => object.give(), // it came at once: the other gets this one
                    Some(_) => unreachable!(),
                    None => assert_eq!(object.give_up(&node, Late::PassOn), Got::Nothing),
                }
            });
            quits.join().unwrap();
            assert_eq!(stays.join().unwrap(), Got::Token);
            giver.join().unwrap();
            assert_eq!(object.free(), 0);
        });
    }
}

/// A hand-over and a close against a waiter: it gets one of them, and the token is where that says.
#[test]
fn a_hand_over_against_a_close() {
    for give in GIVE {
        explore("queue: hand-over against a close", None, move || {
            let object = Object::new();
            let giver = spawn(&object, give);
            let closer = spawn(&object, Object::close);
            let got = object.take();
            giver.join().unwrap();
            closer.join().unwrap();
            assert_eq!(object.free(), usize::from(got == Got::Closed));
        });
    }
}

/// A close ends the waits of all waiters, and no wait begins after it.
#[test]
fn a_close_ends_every_wait() {
    explore("queue: close", None, || {
        let object = Object::new();
        let closer = spawn(&object, Object::close);
        let other = spawn(&object, Object::take);
        assert_eq!(object.take(), Got::Closed);
        assert_eq!(other.join().unwrap(), Got::Closed);
        closer.join().unwrap();
    });
}

/// Two objects, and a select of both whose claim and nodes lie on its stack: one token goes to it,
/// the other stays. Memory of the select is gone when it returns.
#[test]
fn a_select_is_claimed_once() {
    for give in GIVE {
        explore("queue: a select of two", Some(3), move || {
            const RETRY: usize = usize::MAX - 1;
            let objects = [Object::new(), Object::new()];
            let givers = [0, 1].map(|i| spawn(&objects[i], give));
            let got = 'select: loop {
                let (claim, memory) = (Claim::new(), [Memory::new(), Memory::new()]);
                let nodes = [0, 1].map(|i| WaitNode::new(memory[i].address()));
                let mut queued = 0;
                for (i, object) in objects.iter().enumerate() {
                    let mut state = object.state.lock();
                    if state.free > 0 {
                        if claim.fire(RETRY) {
                            state.free -= 1;
                            drop(state);
                            for (object, node) in objects.iter().zip(&nodes[..queued]) {
                                assert_eq!(object.give_up(node, Late::Keep), Got::Nothing);
                            }
                            break 'select i;
                        }
                        break;
                    }
                    // SAFETY: nodes and claim are here until all nodes are out of their queues.
                    unsafe {
                        let case = CaseClaim::new(&claim, i);
                        state.waiters.push(&nodes[i], thread::current(), Some(case));
                    }
                    queued += 1;
                }
                let winner = loop {
                    thread::park();
                    if let Some(winner) = claim.winner() {
                        break winner;
                    }
                };
                for (i, node) in nodes[..queued].iter().enumerate() {
                    let expected = if i == winner { Got::Token } else { Got::Nothing };
                    assert_eq!(objects[i].give_up(node, Late::Keep), expected);
                }
                break winner;
            };
            givers.into_iter().for_each(|giver| giver.join().unwrap());
            assert_eq!((objects[got].free(), objects[1 - got].free()), (0, 1));
        });
    }
}

/// A grant passes over a select that is decided and reaches the waiter behind it.
#[test]
fn a_decided_select_is_passed_over() {
    explore("queue: a decided select", None, || {
        let object = Object::new();
        let select = spawn(&object, |object| {
            let (claim, memory) = (Claim::new(), Memory::new());
            let node = WaitNode::new(memory.address());
            // SAFETY: node and claim are here until the node is out of its queue.
            let case = unsafe { CaseClaim::new(&claim, 0) };
            match object.begin(&node, Some(case)) {
                Some(_) => object.give(), // it came at once: the other gets this one
                None => {
                    claim.fire(1); // or later than the giver, which has won then
                    let got = object.give_up(&node, Late::PassOn);
                    assert_eq!(got, Got::Nothing);
                }
            }
        });
        let behind = spawn(&object, Object::take);
        let giver = spawn(&object, Object::give);
        select.join().unwrap();
        assert_eq!(behind.join().unwrap(), Got::Token);
        giver.join().unwrap();
        assert_eq!(object.free(), 0);
    });
}
