//! The watch of a task under loom: no cancellation is missed by a wait, and none comes through a
//! shield that holds. The models drive the functions that a task calls; a thread is the task, and
//! the clock is a number.

use super::*;
use crate::base::shim::atomic::{AtomicU64, Ordering};
use crate::base::shim::explore;
use loom::sync::{Condvar, Mutex};
use loom::thread::{self, JoinHandle};
use std::sync::Arc;

type Tree = Arc<CancelNode<Latch>>;

/// Parks a thread as a state word parks a task: a wake that comes first is latched. Not loom's own
/// `park`, which cannot stand an unpark while the thread waits for a lock or a join.
#[derive(Clone)]
struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    fn new() -> Latch {
        Latch(Arc::new((Mutex::new(false), Condvar::new())))
    }

    fn park(&self) {
        let (woken, changed) = &*self.0;
        let mut woken = woken.lock().unwrap();
        while !*woken {
            woken = changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

impl Wake for Latch {
    fn wake(&self) {
        let (woken, changed) = &*self.0;
        *woken.lock().unwrap() = true;
        changed.notify_one();
    }
}

/// A thread of a model as a task.
struct Watcher {
    watch: Box<CancelWatch<Latch>>,
    latch: Latch,
    clock: Arc<AtomicU64>,
}

/// The same in the scope of a node, which it has entered with so many shields open.
struct Scoped<'t> {
    task: &'t Watcher,
    node: &'t Tree,
    entered: u32,
}

impl Cancellable<Latch> for Scoped<'_> {
    type Error = CancelReason;

    fn node(&self) -> &CancelNode<Latch> {
        self.node
    }

    fn entered(&self) -> u32 {
        self.entered
    }

    fn check(&self) -> Result<(), CancelReason> {
        self.task.watch.reason(self, || self.task.now()).map_or(Ok(()), Err)
    }

    fn waiter(&self) -> Latch {
        self.task.latch.clone()
    }
}

impl Watcher {
    fn at(now: Nanos) -> Watcher {
        Watcher {
            watch: Box::new(CancelWatch::new()),
            latch: Latch::new(),
            clock: Arc::new(AtomicU64::new(now)),
        }
    }

    fn now(&self) -> Nanos {
        self.clock.load(Ordering::Acquire)
    }

    /// A wait at this node, whose scope the task has entered with so many shields open.
    fn wait_in(&self, node: &Tree, entered: u32) -> Result<(), CancelReason> {
        let scoped = Scoped { task: self, node, entered };
        // SAFETY: the watch is boxed; the models call `leave` before they wait at another node, and
        // at their end.
        unsafe { self.watch.wait(&scoped, || self.latch.park()) }
    }

    fn wait(&self, node: &Tree) -> Result<(), CancelReason> {
        self.wait_in(node, 0)
    }

    /// Waits until the node is cancelled: forever, if that is missed.
    fn wait_for_cancel(&self, node: &Tree) -> CancelReason {
        loop {
            if let Err(reason) = self.wait(node) {
                return reason;
            }
        }
    }

    /// Subscribes to a node that is not cancelled, by a wait that is over at once.
    fn subscribe(&self, node: &Tree) {
        self.latch.wake();
        assert_eq!(self.wait(node), Ok(()));
        assert!(node.has_waiters());
    }

    /// Starts a thread that calls `act`, then wakes the task.
    fn wake_after(&self, act: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        let latch = self.latch.clone();
        thread::spawn(move || {
            act();
            latch.wake();
        })
    }

    fn leave(&self, node: &Tree) {
        // SAFETY: the models wait at one node at a time.
        unsafe { self.watch.unsubscribe(&Scoped { task: self, node, entered: 0 }) };
        assert!(!node.has_waiters(), "it has not left the queue");
    }
}

/// A thread that cancels these nodes, one after the other.
fn cancel(nodes: Vec<Tree>) -> JoinHandle<()> {
    thread::spawn(move || {
        for node in nodes {
            node.cancel(CancelReason::Explicit);
        }
    })
}

/// A task begins its first wait during a cancellation, and learns of it.
#[test]
fn wait_against_cancel() {
    explore("watch::wait_against_cancel", None, || {
        let node: Tree = CancelNode::root();
        let canceller = cancel(vec![Arc::clone(&node)]);
        let task = Watcher::at(0);
        assert_eq!(task.wait_for_cancel(&node), CancelReason::Explicit);
        canceller.join().unwrap();
        task.leave(&node);
    });
}

/// A wake and a cancellation come at the same time. The wait ends by either. A later wait, with the
/// subscription of the first, ends by the cancellation.
#[test]
fn wake_against_cancel() {
    explore("watch::wake_against_cancel", Some(3), || {
        let node: Tree = CancelNode::root();
        let (task, ready) = (Watcher::at(0), Arc::new(AtomicU64::new(0)));
        let waker = {
            let ready = Arc::clone(&ready);
            task.wake_after(move || ready.store(1, Ordering::Release))
        };
        let canceller = cancel(vec![Arc::clone(&node)]);
        while ready.load(Ordering::Acquire) == 0 && task.wait(&node).is_ok() {}
        assert_eq!(task.wait_for_cancel(&node), CancelReason::Explicit);
        waker.join().unwrap();
        canceller.join().unwrap();
        task.leave(&node);
    });
}

/// A task that has waited enters a nursery, and leaves it again: what wakes it is the node of its
/// present scope.
#[test]
fn change_of_node_against_cancel() {
    explore("watch::change_of_node_against_cancel", Some(3), || {
        let outer: Tree = CancelNode::root();
        let inner = outer.child();
        let task = Watcher::at(0);
        task.subscribe(&outer);
        let canceller = cancel(vec![Arc::clone(&inner), Arc::clone(&outer)]);
        task.leave(&outer);
        assert_eq!(task.wait_for_cancel(&inner), CancelReason::Explicit);
        task.leave(&inner);
        assert_eq!(task.wait_for_cancel(&outer), CancelReason::Explicit);
        canceller.join().unwrap();
        task.leave(&outer);
    });
}

/// The subscription of a task was granted while a shield held. In a nursery that it opens in the
/// shield, the task is cancelled with that nursery.
#[test]
fn nursery_in_a_shield_against_cancel() {
    explore("watch::nursery_in_a_shield_against_cancel", None, || {
        let (outer, inner): (Tree, Tree) = (CancelNode::root(), CancelNode::root());
        let task = Watcher::at(0);
        task.subscribe(&outer);
        let shield = task.watch.shield(None);
        outer.cancel(CancelReason::Timeout);
        assert_eq!(task.wait(&outer), Ok(()), "the shield holds");
        task.leave(&outer);
        let canceller = cancel(vec![Arc::clone(&inner)]);
        let entered = task.watch.shields();
        while task.wait_in(&inner, entered).is_ok() {}
        canceller.join().unwrap();
        task.leave(&inner);
        task.watch.unshield(shield);
        assert_eq!(task.wait(&outer), Err(CancelReason::Timeout));
    });
}

/// A shield without a grace period holds off a cancellation that comes while the task waits in it.
/// The task learns of it after the shield. A shield that was closed before leaves nothing behind.
#[test]
fn shield_against_cancel() {
    explore("watch::shield_against_cancel", Some(3), || {
        let node: Tree = CancelNode::root();
        let ready = Arc::new(AtomicU64::new(0));
        let task = Watcher::at(7);
        let earlier = task.watch.shield(Some(5));
        task.watch.unshield(earlier);
        let waker = {
            let ready = Arc::clone(&ready);
            task.wake_after(move || ready.store(1, Ordering::Release))
        };
        let canceller = cancel(vec![Arc::clone(&node)]);
        let shield = task.watch.shield(None);
        while ready.load(Ordering::Acquire) == 0 {
            assert_eq!(task.wait(&node), Ok(()), "the shield holds");
        }
        task.watch.unshield(shield);
        assert_eq!(task.wait_for_cancel(&node), CancelReason::Explicit);
        waker.join().unwrap();
        canceller.join().unwrap();
        task.leave(&node);
    });
}

/// The grace period of a shield ends at the time of a cancellation. A wait in the shield ends when
/// both have come, and not before.
#[test]
fn end_of_grace_against_cancel() {
    explore("watch::end_of_grace_against_cancel", Some(3), || {
        let node: Tree = CancelNode::root();
        let task = Watcher::at(0);
        let timer = {
            let clock = Arc::clone(&task.clock);
            task.wake_after(move || clock.store(5, Ordering::Release))
        };
        let canceller = cancel(vec![Arc::clone(&node)]);
        let outer = task.watch.shield(Some(5));
        let inner = task.watch.shield(Some(9)); // holds for no longer than the one around it
        assert_eq!(task.wait_for_cancel(&node), CancelReason::Explicit);
        assert_eq!(task.now(), 5, "the shield did not hold");
        task.watch.unshield(inner);
        task.watch.unshield(outer);
        timer.join().unwrap();
        canceller.join().unwrap();
        task.leave(&node);
    });
}
