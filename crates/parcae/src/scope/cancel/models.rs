//! The tree of tokens under loom: a cancellation reaches every node, whatever happens concurrently.
//!
//! Loom switches threads at its own operations, the locks and marks. The counts of nodes are those
//! of `std`, which it does not see. So the code between two locks is explored only as far as it
//! contains an operation of loom's; the mutation that opens such a gap in `child` puts one there.

use super::*;
use crate::base::shim::cell::UnsafeCell;
use crate::base::shim::{Flag, explore};
use loom::thread;

type Tree = Arc<CancelNode<Flag>>;

fn cancel_in_thread(node: &Tree, reason: CancelReason) -> thread::JoinHandle<bool> {
    let node = Arc::clone(node);
    thread::spawn(move || node.cancel(reason))
}

/// A waiter that has subscribed until its node is dropped.
fn subscribe(node: &Tree, waiter: &Flag) -> Option<Box<WaitNode<Flag>>> {
    let place = Box::new(WaitNode::new(()));
    // SAFETY: boxed; the models end with all nodes granted or withdrawn.
    unsafe { node.subscribe(&place, waiter.clone(), None) }.then_some(place)
}

/// A waiter that subscribes during a cancel learns of it, or is woken once.
#[test]
fn subscribe_against_cancel() {
    explore("cancel::subscribe_against_cancel", None, || {
        let node: Tree = CancelNode::root();
        let canceller = cancel_in_thread(&node, CancelReason::Timeout);
        let waiter = Flag::new();
        let place = subscribe(&node, &waiter);
        if place.is_none() {
            assert_eq!(node.reason(), Some(CancelReason::Timeout), "told, but not why");
        }
        assert!(canceller.join().unwrap());
        assert_eq!(waiter.woken(), usize::from(place.is_some()), "wakes");
    });
}

/// A waiter that withdraws during a cancel may be woken, and is gone afterwards.
#[test]
fn withdraw_against_cancel() {
    explore("cancel::withdraw_against_cancel", None, || {
        let node: Tree = CancelNode::root();
        let (gone, stays) = (Flag::new(), Flag::new());
        let place = subscribe(&node, &gone).unwrap();
        let _stays = subscribe(&node, &stays).unwrap();
        let canceller = cancel_in_thread(&node, CancelReason::Explicit);
        // SAFETY: subscribed here.
        let granted = unsafe { node.withdraw(&place) }.is_some();
        canceller.join().unwrap();
        assert_eq!(gone.woken(), usize::from(granted));
        assert_eq!(stays.woken(), 1);
        assert!(node.lock().waiters.is_empty());
    });
}

/// A node that is made during a cancellation above it is cancelled in the end, one level below or
/// two.
#[test]
fn child_against_cancel() {
    explore("cancel::child_against_cancel", None, || {
        let root: Tree = CancelNode::root();
        let middle = root.child();
        let canceller = cancel_in_thread(&root, CancelReason::Explicit);
        let below = middle.child();
        let beside = root.child();
        canceller.join().unwrap();
        for node in [middle, below, beside] {
            assert_eq!(node.reason(), Some(CancelReason::Parent));
        }
    });
}

/// A grace period ends while a cancellation comes from above: the pass finds no shield, or the end
/// of the grace period finds the parent's mark. A waiter is woken once either way.
#[test]
fn unshield_against_cancel() {
    explore("cancel::unshield_against_cancel", None, || {
        let root: Tree = CancelNode::root();
        let shielded = root.shielded_child();
        let (waiter, below) = (Flag::new(), shielded.child());
        let _waiter = subscribe(&shielded, &waiter).unwrap();
        let canceller = cancel_in_thread(&root, CancelReason::Explicit);
        shielded.unshield();
        canceller.join().unwrap();
        assert_eq!(shielded.reason(), Some(CancelReason::Parent), "the cancellation is missed");
        assert_eq!(below.reason(), Some(CancelReason::Parent));
        assert_eq!(waiter.woken(), 1);
    });
}

/// A node that is made behind a shield is not cancelled before the shield is down, whether the
/// cancellation comes before, while or after it is made; nor is a nursery below it.
#[test]
fn shielded_child_against_cancel() {
    explore("cancel::shielded_child_against_cancel", None, || {
        let root: Tree = CancelNode::root();
        let canceller = cancel_in_thread(&root, CancelReason::Explicit);
        let shielded = root.shielded_child();
        let below = shielded.child();
        canceller.join().unwrap();
        assert_eq!((shielded.reason_now(), below.reason_now()), (None, None));
        shielded.unshield();
        assert_eq!(below.reason(), Some(CancelReason::Parent));
    });
}

/// A node and its parent are dropped during a cancellation: the last owner removes it, there is no
/// deadlock, and the rest of the tree is cancelled.
#[test]
fn drop_against_cancel() {
    explore("cancel::drop_against_cancel", None, || {
        let root: Tree = CancelNode::root();
        let stays = root.child();
        let goes = root.child().child();
        let canceller = cancel_in_thread(&root, CancelReason::Explicit);
        drop(goes);
        canceller.join().unwrap();
        assert!(stays.is_cancelled());
        drop(stays);
        assert_eq!(Arc::strong_count(&root), 1, "a node was lost");
    });
}

/// Of two concurrent cancellations one is first: its reason stays, and every waiter is woken once.
#[test]
fn two_cancels() {
    explore("cancel::two_cancels", None, || {
        let root: Tree = CancelNode::root();
        let child = root.child();
        let (above, below) = (Flag::new(), Flag::new());
        let _above = subscribe(&root, &above).unwrap();
        let _below = subscribe(&child, &below).unwrap();
        let other = cancel_in_thread(&root, CancelReason::Timeout);
        let here = root.cancel(CancelReason::Explicit);
        let there = other.join().unwrap();
        assert!(here != there, "both or neither were first");
        let first = if here { CancelReason::Explicit } else { CancelReason::Timeout };
        assert_eq!(root.reason(), Some(first));
        assert_eq!(child.reason(), Some(CancelReason::Parent));
        assert_eq!((above.woken(), below.woken()), (1, 1));
    });
}

/// A cancel from above meets one of the node itself: it is told once, by either.
#[test]
fn cancel_against_cancel_above() {
    explore("cancel::cancel_against_cancel_above", None, || {
        let root: Tree = CancelNode::root();
        let child = root.child();
        let below = child.child();
        let waiter = Flag::new();
        let _waiter = subscribe(&below, &waiter).unwrap();
        let other = cancel_in_thread(&root, CancelReason::Timeout);
        let first = child.cancel(CancelReason::Explicit);
        assert!(other.join().unwrap());
        let reason = if first { CancelReason::Explicit } else { CancelReason::Parent };
        assert_eq!(child.reason(), Some(reason));
        assert!(below.is_cancelled());
        assert_eq!(waiter.woken(), 1);
    });
}

struct Seen {
    node: Tree,
    cause: UnsafeCell<bool>,
    /// Orders nothing. A cancelling thread reads the mark first, and after a thread's own read loom
    /// no longer tries other threads' reads before it; this one it tries.
    marked: AtomicU64,
}

// SAFETY: the model is about just that.
unsafe impl Send for Seen {}
// SAFETY: as above.
unsafe impl Sync for Seen {}

fn watch(look: impl Fn(&Tree) -> bool + Send + Sync + 'static) -> impl Fn() + Send + Sync {
    move || {
        let seen = Arc::new(Seen {
            node: CancelNode::root(),
            cause: UnsafeCell::new(false),
            marked: AtomicU64::new(0),
        });
        let canceller = {
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                // SAFETY: checked by loom.
                seen.cause.with_mut(|cause| unsafe { *cause = true });
                seen.node.cancel(CancelReason::Timeout);
                seen.marked.store(1, Ordering::Relaxed);
            })
        };
        if seen.marked.load(Ordering::Relaxed) != 0 && look(&seen.node) {
            assert_eq!(seen.node.reason(), Some(CancelReason::Timeout), "seen, but not why");
            // SAFETY: checked by loom.
            seen.cause.with(|cause| assert!(unsafe { *cause }));
        }
        canceller.join().unwrap();
    }
}

/// A reader of the reason sees the writes before it, without a lock.
#[test]
fn the_reason_comes_with_its_cause() {
    let model = watch(|node| node.reason().is_some());
    explore("cancel::the_reason_comes_with_its_cause", None, model);
}

/// A reader of the mark finds the reason, without a lock.
#[test]
fn the_mark_comes_with_its_reason() {
    let model = watch(|node| node.is_cancelled());
    explore("cancel::the_mark_comes_with_its_reason", None, model);
}

impl<W: Wake> CancelNode<W> {
    /// Whether there is a waiter in its queue.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.lock().waiters.is_empty()
    }
}
