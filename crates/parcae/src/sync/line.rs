//! A line of those who wait, first come, first served.
//!
//! A doubly linked list of nodes that lie on the stacks of those who wait. It is kept under its owner's small
//! lock: having `&mut Line` is what permits to look into any node of it. A node is in one of these states:
//!
//! ```text
//!  Idle ──push──▶ Waiting ──grant──▶ Granted      in line: Waiting, Called
//!                 ▲   │                           its owner's again after `remove`: Idle
//!             recall  call
//!                 │   ▼
//!                 Called
//! ```
//!
//! What wakes the waiter is moved out of the node by `grant` and `call`, and used after the small lock was let
//! go of. The node is not touched then: its owner may have gone on, and the node with it.

use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::ptr::NonNull;

/// What wakes somebody.
pub(super) trait Wake {
    /// Wakes, from anywhere.
    fn wake(self);

    /// Called by whoever takes it out of a node, under the small lock: when that is let go of, whoever waits may go on
    /// before it is woken.
    fn keep(&mut self) {}
}

/// A place in a line.
pub(super) struct Node<W> {
    inner: UnsafeCell<Inner<W>>,
    _pinned: PhantomPinned,
}

struct Inner<W> {
    state: State<W>,
    /// How much it waits for; what that means is its object's business.
    wants: usize,
    /// When it came, by the count of its line.
    ticket: u64,
    /// How often it was called in vain.
    lost: u32,
    previous: Link<W>,
    next: Link<W>,
}

type Link<W> = Option<NonNull<Node<W>>>;

enum State<W> {
    Idle,
    Waiting(W),
    Called,
    Granted(Grant),
}

/// What was granted to a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
    /// Something that only this waiter has got, and passes on if it does not take it.
    Own,
    /// The same, to be passed on to the last in line.
    OwnLast,
    /// What all who waited have got.
    Common,
}

/// How a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Idle,
    Waiting,
    Called {
        /// How often it was called before, in vain.
        lost: u32,
    },
    Granted(Grant),
}

impl<W> Node<W> {
    pub(super) fn new(wants: usize) -> Node<W> {
        let inner =
            Inner { state: State::Idle, wants, ticket: 0, lost: 0, previous: None, next: None };
        Node { inner: UnsafeCell::new(inner), _pinned: PhantomPinned }
    }
}

impl<W> Drop for Node<W> {
    fn drop(&mut self) {
        let idle = matches!(self.inner.get_mut().state, State::Idle);
        debug_assert!(idle, "a node was dropped in its line");
    }
}

/// Those who wait.
pub(super) struct Line<W> {
    first: Link<W>,
    last: Link<W>,
    tickets: u64,
}

// SAFETY: the nodes are touched only by who has the line, and what moves through them is `Send`.
unsafe impl<W: Send> Send for Line<W> {}

impl<W> Line<W> {
    pub(super) const fn new() -> Line<W> {
        Line { first: None, last: None, tickets: 0 }
    }

    /// The inside of a node of this line, or of one that is about to be.
    ///
    /// # Safety
    ///
    /// The node is alive, and in this line or in none. No other reference from here is in use.
    #[allow(clippy::mut_from_ref)] // the line is the permit, which is borrowed as a whole
    unsafe fn at(&mut self, node: NonNull<Node<W>>) -> &mut Inner<W> {
        // SAFETY: as the caller says; having the line excludes everybody else.
        unsafe { &mut *node.as_ref().inner.get() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether there is nobody in line but this one.
    pub(super) fn is_alone(&self, node: &Node<W>) -> bool {
        let node = Some(NonNull::from(node));
        self.first == node && self.last == node
    }

    /// Whether this one is at the head of the line.
    pub(super) fn is_first(&self, node: &Node<W>) -> bool {
        self.first == Some(NonNull::from(node))
    }

    /// How much the first in line waits for.
    pub(super) fn first_wants(&mut self) -> Option<usize> {
        let first = self.first?;
        // SAFETY: in line.
        Some(unsafe { self.at(first) }.wants)
    }

    /// Puts a node at the end.
    ///
    /// # Safety
    ///
    /// The node is idle, is used with this line only, and neither moves nor ends before it was
    /// [removed](Line::remove).
    pub(super) unsafe fn push(&mut self, node: &Node<W>, waiter: W) {
        let node = NonNull::from(node);
        let (last, ticket) = (self.last, self.tickets);
        self.tickets += 1;
        // SAFETY: as the caller says.
        let inner = unsafe { self.at(node) };
        debug_assert!(matches!(inner.state, State::Idle));
        inner.state = State::Waiting(waiter);
        inner.ticket = ticket;
        inner.previous = last;
        inner.next = None;
        match last {
            // SAFETY: in line.
            Some(last) => unsafe { self.at(last) }.next = Some(node),
            None => self.first = Some(node),
        }
        self.last = Some(node);
    }

    /// Those who come later have a ticket of at least this.
    pub(super) fn next_ticket(&self) -> u64 {
        self.tickets
    }
}

impl<W: Wake> Line<W> {
    /// Grants the first in line what it waits for, and takes it out. Wake what is returned after the small
    /// lock was let go of.
    pub(super) fn grant(&mut self, grant: Grant) -> Option<W> {
        self.grant_before(u64::MAX, grant)
    }

    /// The same, if it has a ticket below this one.
    pub(super) fn grant_before(&mut self, ticket: u64, grant: Grant) -> Option<W> {
        let first = self.first?;
        // SAFETY: in line.
        if unsafe { self.at(first) }.ticket >= ticket {
            return None;
        }
        // SAFETY: in line.
        Some(unsafe { self.grant_to(first, grant) })
    }

    /// As [`grant`](Line::grant), for the last in line.
    pub(super) fn grant_last(&mut self, grant: Grant) -> Option<W> {
        let last = self.last?;
        // SAFETY: in line.
        Some(unsafe { self.grant_to(last, grant) })
    }

    /// # Safety
    ///
    /// The node is in this line, and was not called.
    unsafe fn grant_to(&mut self, node: NonNull<Node<W>>, grant: Grant) -> W {
        // SAFETY: in line.
        let waiter = std::mem::replace(&mut unsafe { self.at(node) }.state, State::Granted(grant));
        // SAFETY: in line.
        unsafe { self.unlink(node) };
        match waiter {
            State::Waiting(mut waiter) => {
                waiter.keep();
                waiter
            }
            _ => unreachable!("only a node that waits is granted something"),
        }
    }

    /// Calls the first in line, which stays there: it may try, and comes by itself. None if it was called
    /// before.
    pub(super) fn call(&mut self) -> Option<W> {
        let first = self.first?;
        // SAFETY: in line.
        let inner = unsafe { self.at(first) };
        match std::mem::replace(&mut inner.state, State::Called) {
            State::Waiting(mut waiter) => {
                waiter.keep();
                Some(waiter)
            }
            _ => None,
        }
    }
}

impl<W> Line<W> {
    /// One that was called has tried in vain, and waits on at its place.
    ///
    /// # Safety
    ///
    /// The node was called.
    pub(super) unsafe fn recall(&mut self, node: &Node<W>, waiter: W) {
        // SAFETY: in line.
        let inner = unsafe { self.at(NonNull::from(node)) };
        debug_assert!(matches!(inner.state, State::Called));
        inner.state = State::Waiting(waiter);
        inner.lost += 1;
    }

    /// When a node has joined the line.
    ///
    /// # Safety
    ///
    /// It is used with this line only.
    pub(super) unsafe fn ticket(&mut self, node: &Node<W>) -> u64 {
        // SAFETY: as the caller says.
        unsafe { self.at(NonNull::from(node)) }.ticket
    }

    /// How much a node waits for.
    ///
    /// # Safety
    ///
    /// It is used with this line only.
    pub(super) unsafe fn wants(&mut self, node: &Node<W>) -> usize {
        // SAFETY: as the caller says.
        unsafe { self.at(NonNull::from(node)) }.wants
    }

    /// How a node stands.
    ///
    /// # Safety
    ///
    /// It is used with this line only.
    pub(super) unsafe fn standing(&mut self, node: &Node<W>) -> Standing {
        // SAFETY: as the caller says.
        let inner = unsafe { self.at(NonNull::from(node)) };
        match inner.state {
            State::Idle => Standing::Idle,
            State::Waiting(_) => Standing::Waiting,
            State::Called => Standing::Called { lost: inner.lost },
            State::Granted(grant) => Standing::Granted(grant),
        }
    }

    /// Makes the node its owner's again, and says how it stood. What would have woken it is returned too, to be
    /// dropped after the small lock was let go of.
    ///
    /// # Safety
    ///
    /// It is used with this line only.
    pub(super) unsafe fn remove(&mut self, node: &Node<W>) -> (Standing, Option<W>) {
        // SAFETY: as the caller says.
        let standing = unsafe { self.standing(node) };
        let node = NonNull::from(node);
        if let Standing::Waiting | Standing::Called { .. } = standing {
            // SAFETY: in line.
            unsafe { self.unlink(node) };
        }
        // SAFETY: as the caller says.
        let state = std::mem::replace(&mut unsafe { self.at(node) }.state, State::Idle);
        let waiter = if let State::Waiting(waiter) = state { Some(waiter) } else { None };
        (standing, waiter)
    }

    /// # Safety
    ///
    /// The node is in this line.
    unsafe fn unlink(&mut self, node: NonNull<Node<W>>) {
        // SAFETY: the node is in line, and so are its neighbours.
        unsafe {
            let inner = self.at(node);
            let (previous, next) = (inner.previous.take(), inner.next.take());
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
}

/// How many are woken for one hold of the small lock: enough to make the lock cheap beside them, few enough for
/// any stack.
const BATCH: usize = 16;

/// Wakers that were taken out under the small lock, to be used after it.
pub(super) struct Batch<W> {
    wakers: [Option<W>; BATCH],
    len: usize,
}

impl<W: Wake> Batch<W> {
    pub(super) fn new() -> Batch<W> {
        Batch { wakers: [const { None }; BATCH], len: 0 }
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == BATCH
    }

    pub(super) fn push(&mut self, waker: W) {
        self.wakers[self.len] = Some(waker);
        self.len += 1;
    }

    /// Wakes them. Not to be called with the small lock.
    pub(super) fn wake(mut self) {
        for waker in &mut self.wakers[..self.len] {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }
}

/// Grants all with a ticket below this one what they wait for. `with_line` gives access to the line under the small
/// lock, each time anew.
pub(super) fn grant_all<W: Wake>(
    until: u64,
    mut with_line: impl FnMut(&mut dyn FnMut(&mut Line<W>)),
) {
    loop {
        let mut batch = Batch::new();
        with_line(&mut |line| {
            while !batch.is_full()
                && let Some(waker) = line.grant_before(until, Grant::Common)
            {
                batch.push(waker);
            }
        });
        let more = batch.is_full();
        batch.wake();
        if !more {
            return;
        }
    }
}
