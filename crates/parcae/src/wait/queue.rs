//! The wait queue: first come, first served.
//!
//! Locks, channels, ends of tasks, cancellation and suspended accounts all keep their waiters in a
//! [`Queue`]. A queue belongs to an object and is used under that object's lock. A waiter owns its
//! [`WaitNode`], which lies on its stack, in its frame, or in a box if a future owns it: joining a
//! queue allocates nothing. The object's data about a waiter (the number of permits it wants, the
//! address of its value) is the node's *key*.
//!
//! # States of a node
//!
//! ```text
//!            push               grant
//!   Idle ───────────► Queued ───────────► Granted
//!    ▲ ▲                │ ▲ └─────────────► Lost
//!    │ └──── remove ────┤ │  claim lost      │
//!    │                  │ │ requeue          │
//!    │             call ▼ │                  │
//!    │                Called                 │
//!    └──────── reset, by the owner ──────────┘
//! ```
//!
//! | state | linked | holds the waiter | may be touched by |
//! |---|---|---|---|
//! | Idle | no | no | its owner |
//! | Queued | yes | yes | the holder of the object's lock |
//! | Called | yes | no: it is being woken to try again | the holder of the object's lock |
//! | Granted, Lost | no | no | its owner |
//!
//! Lost is the end of a select's node whose claim another case has won.
//!
//! # Publication
//!
//! The thread that ends a node's wait holds the object's lock. It wins the claim, moves the waiter
//! out, hands the value over, unlinks the node, and stores the final state last, with Release. The
//! owner reads the state with Acquire, without the lock: if it is final, everything before the
//! store is visible, and the node is the owner's again. No other thread touches a node after its
//! final state was stored: its memory may be gone. So a waiter that was granted takes no lock after
//! its wake, and a waiter that was woken early finds `Queued` and parks again.
//!
//! # Why no grant is lost
//!
//! An owner that gives up takes the lock and calls [`remove`](Queue::remove). Under the lock the
//! node is either still linked, and no grant will ever reach it; or it is Granted, and the owner
//! learns that: it keeps the grant or passes it on, as its object prescribes.
//!
//! # Claims
//!
//! The nodes of a select point to one [`Claim`] on the select's stack. A claim is touched only
//! under the lock under which its node was found linked, and before that node's final state is
//! stored. The select removes each of its nodes under its object's lock, or finds it in a final
//! state, before it returns or unwinds. So a claim outlives every access to it, and needs no count.
//!
//! # Rejected
//!
//! Nodes on the heap: an allocation, and a count, for every wait. A lock-free queue: withdrawing
//! from its middle costs more than the short lock that the object needs anyway.

use super::claim::Claim;
use super::wake::Wake;
use crate::base::shim::atomic::{AtomicUsize, Ordering};
use crate::base::shim::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// The kind of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grant {
    /// A grant to this waiter alone. If the waiter gives up, its object passes the grant on.
    Own,
    /// Like `Own`, to be passed on to the last waiter.
    OwnLast,
    /// A grant to all waiters; there is nothing to pass on.
    All,
    /// Nothing: the object was closed.
    Closed,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitStanding {
    Idle,
    Queued,
    Called,
    Lost,
    Granted(Grant),
}

const IDLE: usize = 0;
const QUEUED: usize = 1;
const CALLED: usize = 2;
const LOST: usize = 3;
const OWN: usize = 4;
const OWN_LAST: usize = 5;
const ALL: usize = 6;
const CLOSED: usize = 7;

impl Grant {
    #[inline(always)]
    fn code(self) -> usize {
        match self {
            Grant::Own => OWN,
            Grant::OwnLast => OWN_LAST,
            Grant::All => ALL,
            Grant::Closed => CLOSED,
        }
    }
}

/// The state of a node: all that a waiter looks at while it waits.
pub(crate) struct NodeState(AtomicUsize); // the code of a `WaitStanding`

impl NodeState {
    /// The state, for the owner of the node. A final state makes the node the owner's again.
    #[inline]
    pub(crate) fn standing(&self) -> WaitStanding {
        // Acquire: pairs with the Release in `publish`. Other states are checked again under the
        // lock before the owner acts on them.
        match self.0.load(Ordering::Acquire) {
            IDLE => WaitStanding::Idle,
            QUEUED => WaitStanding::Queued,
            CALLED => WaitStanding::Called,
            LOST => WaitStanding::Lost,
            OWN => WaitStanding::Granted(Grant::Own),
            OWN_LAST => WaitStanding::Granted(Grant::OwnLast),
            ALL => WaitStanding::Granted(Grant::All),
            _ => WaitStanding::Granted(Grant::Closed),
        }
    }

    /// Whether the wait is over: granted or lost.
    #[inline(always)]
    pub(crate) fn is_final(&self) -> bool {
        self.0.load(Ordering::Acquire) >= LOST // pairs with the Release in `publish`
    }

    /// Whether the wait was ended by this grant.
    #[inline(always)]
    pub(crate) fn is_granted(&self, grant: Grant) -> bool {
        self.0.load(Ordering::Acquire) == grant.code() // pairs with the Release in `publish`
    }

    /// A state that is not final: under the lock, or by the owner of an unlinked node.
    #[inline(always)]
    fn set(&self, state: usize) {
        self.0.store(state, Ordering::Relaxed); // its readers act on it under the same lock
    }

    /// Ends the node's wait. The node must not be touched after this.
    #[inline(always)]
    fn publish(&self, state: usize) {
        self.0.store(state, Ordering::Release); // pairs with the Acquire in `standing`
    }
}

/// A waiter's place in a queue.
pub(crate) struct WaitNode<W, K = ()> {
    state: NodeState,
    links: UnsafeCell<NodeFields<W, K>>,
    _pinned: PhantomPinned,
}

struct NodeFields<W, K> {
    /// None in an unlinked node, so there is nothing to drop.
    waiter: ManuallyDrop<Option<W>>,
    claim: Option<CaseClaim>,
    key: K,
    /// Number of nodes that had joined the queue before this one.
    arrival: u64,
    previous: Link<W, K>,
    next: Link<W, K>,
}

type Link<W, K> = Option<NonNull<WaitNode<W, K>>>;

/// The claim of a select, and the case that a node stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaseClaim {
    claim: NonNull<Claim>,
    case: usize,
}

// SAFETY: a linked node is touched under its object's lock only, an unlinked one by its owner only
// (see the header). The waiter and the key move between threads, and are `Send`.
unsafe impl<W: Send, K: Send> Send for WaitNode<W, K> {}
// SAFETY: as above.
unsafe impl<W: Send, K: Send> Sync for WaitNode<W, K> {}
// SAFETY: gives access to its nodes, as above.
unsafe impl<W: Send, K: Send> Send for Queue<W, K> {}

impl CaseClaim {
    /// The claim of a select, for one of its cases.
    ///
    /// # Safety
    ///
    /// The claim stays in place until every node that was queued with it is unlinked.
    pub(crate) unsafe fn new(claim: &Claim, case: usize) -> CaseClaim {
        CaseClaim { claim: NonNull::from(claim), case }
    }

    /// Whether both belong to the same select.
    pub(crate) fn is_of(&self, claim: &Claim) -> bool {
        std::ptr::eq(self.claim.as_ptr(), claim)
    }

    /// # Safety
    ///
    /// The caller holds the lock under which a node with this claim is linked.
    unsafe fn get(&self) -> &Claim {
        // SAFETY: the node is linked, so `new`'s contract holds.
        unsafe { self.claim.as_ref() }
    }
}

impl<W, K> WaitNode<W, K> {
    #[inline]
    pub(crate) fn new(key: K) -> WaitNode<W, K> {
        let waiter = ManuallyDrop::new(None);
        let inner = NodeFields { waiter, claim: None, key, arrival: 0, previous: None, next: None };
        WaitNode {
            state: NodeState(AtomicUsize::new(IDLE)),
            links: UnsafeCell::new(inner),
            _pinned: PhantomPinned,
        }
    }

    /// The state of the node, for its owner. A final state makes the node the owner's again.
    #[inline]
    pub(crate) fn standing(&self) -> WaitStanding {
        self.state.standing()
    }

    /// The state of the node, to wait for.
    #[inline(always)]
    pub(crate) fn state(&self) -> &NodeState {
        &self.state
    }

    /// Makes an unlinked node `Idle`, so that it can join a queue again.
    ///
    /// # Safety
    ///
    /// The caller owns the node, which is neither `Queued` nor `Called`.
    #[inline]
    pub(crate) unsafe fn reset(&self) {
        self.state.set(IDLE); // only the owner accesses it
    }

    /// Changes the key of an idle node.
    ///
    /// # Safety
    ///
    /// The caller owns the node, which is `Idle`.
    #[inline]
    pub(crate) unsafe fn set_key(&self, key: K) {
        debug_assert_eq!(self.standing(), WaitStanding::Idle);
        // SAFETY: not linked, so only the owner accesses it.
        self.links.with_mut(|inner| unsafe { (*inner).key = key });
    }
}

impl<W, K> Drop for WaitNode<W, K> {
    fn drop(&mut self) {
        debug_assert!(
            !matches!(self.standing(), WaitStanding::Queued | WaitStanding::Called),
            "a node was dropped in its queue"
        );
    }
}

/// The waiters of an object. The links come first, for objects that keep them on a certain cache
/// line.
#[repr(C)]
pub(crate) struct Queue<W, K = ()> {
    first: Link<W, K>,
    last: Link<W, K>,
    arrivals: u64,
}

/// A node after its owner has removed it.
pub(crate) struct Removed<W> {
    /// The state in which it was found.
    pub(crate) standing: WaitStanding,
    /// Number of nodes that had joined the queue before it.
    pub(crate) arrival: u64,
    /// Whether it was at the head of the queue.
    pub(crate) was_first: bool,
    /// To be dropped after the lock was released: dropping a waker runs user code.
    pub(crate) waiter: Option<W>,
}

impl<W> Removed<W> {
    /// The grant that had reached the node, if any. Drops the waiter: not to be called under the
    /// lock.
    pub(crate) fn into_grant(self) -> Option<Grant> {
        match self.standing {
            WaitStanding::Granted(grant) => Some(grant),
            _ => None,
        }
    }
}

impl<W, K> Queue<W, K> {
    /// Bytes of the links.
    #[cfg(all(target_pointer_width = "64", not(loom), not(feature = "record")))]
    pub(crate) const LINKS: usize = std::mem::offset_of!(Queue<W, K>, arrivals);

    pub(crate) const fn new() -> Queue<W, K> {
        Queue { first: None, last: None, arrivals: 0 }
    }

    /// # Safety
    ///
    /// The node is linked here, or belongs to the caller. No other reference into it is in use.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)] // borrowing the whole queue is the permit
    unsafe fn at(&mut self, node: NonNull<WaitNode<W, K>>) -> &mut NodeFields<W, K> {
        // SAFETY: the caller upholds the contract, and the object's lock excludes all other
        // threads.
        unsafe { node.as_ref().links.with_mut(|inner| &mut *inner) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether there is more than one waiter.
    pub(crate) fn has_many(&self) -> bool {
        self.first != self.last
    }

    /// Whether this node is the only one.
    pub(crate) fn is_alone(&self, node: &WaitNode<W, K>) -> bool {
        self.is_first(node) && self.last == Some(NonNull::from(node))
    }

    /// Whether this node is at the head.
    pub(crate) fn is_first(&self, node: &WaitNode<W, K>) -> bool {
        self.first == Some(NonNull::from(node))
    }

    /// The key of the first waiter.
    pub(crate) fn first_key(&mut self) -> Option<&mut K> {
        let first = self.first?;
        // SAFETY: linked.
        Some(&mut unsafe { self.at(first) }.key)
    }

    /// The key of a node.
    ///
    /// # Safety
    ///
    /// The node is alive, and is used with this queue only.
    pub(crate) unsafe fn key(&mut self, node: &WaitNode<W, K>) -> &mut K {
        // SAFETY: the caller upholds the contract.
        &mut unsafe { self.at(NonNull::from(node)) }.key
    }

    /// Number of nodes that have joined so far. Nodes that join later have at least this arrival.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Puts a node at the end.
    ///
    /// # Safety
    ///
    /// The node is `Idle` and belongs to the caller. It is used with this queue only, and neither
    /// moves nor ends while it is linked: until it was [removed](Queue::remove), or its owner has
    /// seen a final state.
    #[inline]
    pub(crate) unsafe fn push(
        &mut self,
        node: &WaitNode<W, K>,
        waiter: W,
        claim: Option<CaseClaim>,
    ) {
        debug_assert_eq!(node.standing(), WaitStanding::Idle);
        node.state.set(QUEUED);
        let node = NonNull::from(node);
        let (last, arrival) = (self.last, self.arrivals);
        self.arrivals += 1;
        // SAFETY: the node is the caller's.
        let inner = unsafe { self.at(node) };
        inner.claim = claim;
        inner.arrival = arrival;
        inner.previous = last;
        inner.next = None;
        debug_assert!(inner.waiter.is_none());
        inner.waiter = ManuallyDrop::new(Some(waiter));
        match last {
            // SAFETY: linked.
            Some(last) => unsafe { self.at(last) }.next = Some(node),
            None => self.first = Some(node),
        }
        self.last = Some(node);
    }

    /// Makes a node and puts it at the end: as [`push`](Queue::push) of a new node, with each field
    /// written once. The node is not counted among the [arrivals](Queue::arrivals): for objects
    /// that do not ask for them.
    ///
    /// # Safety
    ///
    /// `place` is memory for a node, owned by the caller and valid as [`push`](Queue::push)
    /// requires. There is a node afterwards.
    #[inline(always)]
    pub(crate) unsafe fn push_new(&mut self, place: NonNull<WaitNode<W, K>>, key: K, waiter: W) {
        let last = self.last;
        let waiter = ManuallyDrop::new(Some(waiter));
        let inner = NodeFields { waiter, claim: None, key, arrival: 0, previous: last, next: None };
        // SAFETY: the memory is the caller's.
        unsafe {
            place.write(WaitNode {
                state: NodeState(AtomicUsize::new(QUEUED)),
                links: UnsafeCell::new(inner),
                _pinned: PhantomPinned,
            });
        }
        match last {
            // SAFETY: linked.
            Some(last) => unsafe { self.at(last) }.next = Some(place),
            None => self.first = Some(place),
        }
        self.last = Some(place);
    }

    /// Removes a node for its owner, in whatever state it is, and makes it `Idle`.
    ///
    /// # Safety
    ///
    /// The caller owns the node, which is used with this queue only.
    #[inline]
    pub(crate) unsafe fn remove(&mut self, node: &WaitNode<W, K>) -> Removed<W> {
        let standing = node.standing();
        let was_first = self.is_first(node);
        let link = NonNull::from(node);
        if let WaitStanding::Queued | WaitStanding::Called = standing {
            // SAFETY: linked.
            unsafe { self.unlink(link) };
        }
        // SAFETY: unlinked, and the caller's.
        let inner = unsafe { self.at(link) };
        let (arrival, waiter) = (inner.arrival, inner.waiter.take());
        inner.claim = None;
        // SAFETY: as above.
        unsafe { node.reset() };
        Removed { standing, arrival, was_first, waiter }
    }

    /// # Safety
    ///
    /// The node is linked here.
    #[inline(always)]
    unsafe fn unlink(&mut self, node: NonNull<WaitNode<W, K>>) {
        // SAFETY: the node is linked, and so are its neighbours.
        unsafe {
            let inner = self.at(node);
            let (previous, next) = (inner.previous, inner.next);
            match previous {
                Some(previous) => self.at(previous).next = next,
                None => self.first = next,
            }
            match next {
                Some(next) => self.at(next).previous = previous,
                None => self.last = previous,
            }
        }
    }

    /// Whether a waiter that `accepts` admits could be served: one that belongs neither to the
    /// select with the claim `own` nor to a decided select.
    pub(crate) fn any(&mut self, own: Option<&Claim>, accepts: impl Fn(&K) -> bool) -> bool {
        let mut at = self.first;
        while let Some(node) = at {
            // SAFETY: linked.
            let inner = unsafe { self.at(node) };
            let out_of_reach = inner.claim.is_some_and(|claim| {
                // SAFETY: linked, under the lock.
                own.is_some_and(|own| claim.is_of(own)) || !unsafe { claim.get() }.is_open()
            });
            if !out_of_reach && accepts(&inner.key) {
                return true;
            }
            at = inner.next;
        }
        false
    }

    /// Shows the key of every waiter, the first one first.
    pub(crate) fn each_key(&mut self, mut show: impl FnMut(&K)) {
        let mut at = self.first;
        while let Some(node) = at {
            // SAFETY: linked.
            let inner = unsafe { self.at(node) };
            show(&inner.key);
            at = inner.next;
        }
    }

    /// Number of waiters.
    #[cfg(test)]
    pub(crate) fn len(&mut self) -> usize {
        let mut count = 0;
        self.each_key(|_| count += 1);
        count
    }
}

impl<W: Wake, K> Queue<W, K> {
    /// Grants the first waiter. The caller wakes it after releasing the lock.
    pub(crate) fn grant(&mut self, grant: Grant) -> Option<W> {
        self.grant_where(grant, |_| true, |_| {})
    }

    /// Like [`grant`](Queue::grant), for the last waiter.
    pub(crate) fn grant_last(&mut self, grant: Grant) -> Option<W> {
        while let Some(last) = self.last {
            // SAFETY: linked.
            if let Some(waiter) = unsafe { self.end(last, grant, |_| {}) } {
                return Some(waiter);
            }
        }
        None
    }

    /// Like [`grant`](Queue::grant), if the first waiter joined before this arrival.
    pub(crate) fn grant_before(&mut self, arrival: u64, grant: Grant) -> Option<W> {
        let first = self.first?;
        // SAFETY: linked.
        if unsafe { self.at(first) }.arrival >= arrival { None } else { self.grant(grant) }
    }

    /// Grants the first waiter that `accepts` admits and whose select, if it belongs to one, is not
    /// decided. `hand_over` is called with its key before the waiter can continue.
    #[inline]
    pub(crate) fn grant_where(
        &mut self,
        grant: Grant,
        accepts: impl Fn(&K) -> bool,
        mut hand_over: impl FnMut(&K),
    ) -> Option<W> {
        let mut at = self.first;
        while let Some(node) = at {
            // SAFETY: linked.
            let inner = unsafe { self.at(node) };
            at = inner.next;
            if accepts(&inner.key) {
                // SAFETY: linked.
                let waiter = unsafe { self.end(node, grant, &mut hand_over) };
                if waiter.is_some() {
                    return waiter;
                }
            }
        }
        None
    }

    /// The quick form of [`grant_where`](Queue::grant_where): grants the first waiter if it belongs
    /// to no select, and `hand_over`, called with its key and the waiter, returns a value for the
    /// caller to wake it by. Such a waiter needs neither an upgrade nor a drop.
    #[inline(always)]
    pub(crate) fn grant_first<R>(
        &mut self,
        grant: Grant,
        hand_over: impl FnOnce(&K, &W) -> Option<R>,
    ) -> Option<R> {
        let first = self.first?;
        // SAFETY: linked.
        let inner = unsafe { self.at(first) };
        if inner.claim.is_some() {
            return None;
        }
        // A waiter that was called has been taken out.
        let woken = hand_over(&inner.key, inner.waiter.as_ref()?)?;
        inner.waiter = ManuallyDrop::new(None);
        let next = inner.next;
        self.first = next;
        match next {
            // SAFETY: linked.
            Some(next) => unsafe { self.at(next) }.previous = None,
            None => self.last = None,
        }
        // SAFETY: unlinked, and this thread's until `publish`.
        unsafe { first.as_ref() }.state.publish(grant.code());
        Some(woken)
    }

    /// Grants all waiters that `accepts` admits, except those of the select with the claim `own`;
    /// adds the waiters to be woken.
    pub(crate) fn grant_all(
        &mut self,
        grant: Grant,
        own: Option<&Claim>,
        accepts: impl Fn(&K) -> bool,
        wake: &mut Vec<W>,
    ) {
        let mut at = self.first;
        while let Some(node) = at {
            // SAFETY: linked.
            let inner = unsafe { self.at(node) };
            at = inner.next;
            let is_own = inner.claim.zip(own).is_some_and(|(claim, own)| claim.is_of(own));
            if !is_own && accepts(&inner.key) {
                // SAFETY: linked.
                wake.extend(unsafe { self.end(node, grant, |_| {}) });
            }
        }
    }

    /// Ends the wait of a node. Returns its waiter, or `None` if its select is already decided.
    ///
    /// # Safety
    ///
    /// The node is linked here.
    #[inline(always)]
    unsafe fn end(
        &mut self,
        node: NonNull<WaitNode<W, K>>,
        grant: Grant,
        hand_over: impl FnOnce(&K),
    ) -> Option<W> {
        // SAFETY: linked until it is unlinked here; then this thread's until `publish`.
        unsafe {
            self.unlink(node);
            let inner = self.at(node);
            let mut waiter = inner.waiter.take();
            let won = match inner.claim {
                None => true,
                Some(claim) => claim.get().fire(claim.case),
            };
            if !won {
                node.as_ref().state.publish(LOST);
                return None; // a select's waiter is borrowed: dropping it runs no code
            }
            debug_assert!(waiter.is_some(), "a waiter that was called is granted something");
            if let Some(waiter) = &mut waiter {
                waiter.upgrade();
            }
            hand_over(&inner.key);
            node.as_ref().state.publish(grant.code());
            waiter
        }
    }

    /// Calls the first waiter to try again: it stays at the head of the queue, and the caller wakes
    /// it. `None` if it was called before and has not tried yet.
    pub(crate) fn call(&mut self) -> Option<W> {
        let first = self.first?;
        // SAFETY: linked.
        let mut waiter = unsafe { self.at(first) }.waiter.take()?;
        waiter.upgrade();
        // SAFETY: linked, and stays so.
        unsafe { first.as_ref() }.state.set(CALLED);
        Some(waiter)
    }

    /// Queues a waiter again, in its place, after it was called and its attempt failed.
    ///
    /// # Safety
    ///
    /// The node is linked here.
    pub(crate) unsafe fn requeue(&mut self, node: &WaitNode<W, K>, waiter: W) {
        debug_assert_eq!(node.standing(), WaitStanding::Called);
        // SAFETY: linked.
        unsafe { self.at(NonNull::from(node)) }.waiter = ManuallyDrop::new(Some(waiter));
        node.state.set(QUEUED);
    }
}

#[cfg(all(test, loom))]
mod models;
