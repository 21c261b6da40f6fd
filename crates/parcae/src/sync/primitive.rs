//! The steps of a wait that all locks and signals have in common.
//!
//! A [`Primitive`] is a state behind a short lock, with a wait queue in it. It defines two things
//! of its own: an attempt under the lock, and the fate of a grant whose waiter gives up. The steps
//! are those of `wait`:
//!
//! 1. [`begin`] takes the lock and tries. If that fails, the caller's node joins the queue before
//!    the lock is released: trying and publishing are one critical section, so there is nothing to
//!    re-check;
//! 2. the caller parks (`wait_in_queue`). The thread that makes the operation possible takes the
//!    lock, grants the first node, releases the lock and wakes the waiter, which finds the grant in
//!    its node, without the lock;
//! 3. a waiter that gives up takes the lock and removes its node. If a grant has reached the node
//!    after all, [`gave_up`](Primitive::gave_up) passes it on: node and grant are one word, so none
//!    is lost.

use crate::base::error::{Error, ErrorKind, Result};
use crate::sched::worker::ordered::ObjectGuard as Guard;
use crate::scope::cx;
use crate::scope::cx::parking::{Deadline, Ended, borrowed_waiter, charge, wait_in_queue};
use crate::wait::{Batch, Grant, Queue, Removed, WaitNode, Waitable, Waiter, Wake, Why};
use std::time::{Duration, Instant};

/// A lock or a signal.
pub(super) trait Primitive<W: Wake> {
    /// The state behind the short lock.
    type State;
    /// The waiter's request, such as a number of permits.
    type Key: Copy;

    fn lock(&self) -> Guard<'_, Self::State>;

    fn queue(state: &mut Self::State) -> &mut Queue<W, Self::Key>;

    /// Takes the lock, permits or signal, if possible at once.
    ///
    /// # Errors
    ///
    /// The guard of the state, if the caller has to wait and is to join the queue.
    fn attempt<'p>(
        &'p self,
        state: Guard<'p, Self::State>,
        key: Self::Key,
    ) -> Result<Grant, Guard<'p, Self::State>>;

    /// Tries again for a waiter that was called. `None` if it has to wait on.
    ///
    /// # Safety
    ///
    /// The caller owns the node, which is in the queue.
    unsafe fn call_back(
        &self,
        node: &WaitNode<W, Self::Key>,
        waiter: impl FnOnce() -> W,
    ) -> Option<Grant> {
        let _ = (node, waiter);
        None
    }

    /// Passes on the grant of a waiter that gave up and whose node was removed. Returns the grant
    /// if the wait has succeeded after all.
    fn gave_up<'p>(
        &'p self,
        state: Guard<'p, Self::State>,
        key: Self::Key,
        removed: &Removed<W>,
    ) -> Option<Grant>;
}

/// A primitive as a [`Waitable`].
pub(super) struct PrimitiveQueue<'p, P>(pub(super) &'p P);

impl<W: Wake, P: Primitive<W>> Waitable<W> for PrimitiveQueue<'_, P> {
    type Key = P::Key;

    unsafe fn retry(
        &self,
        node: &WaitNode<W, P::Key>,
        waiter: impl FnOnce() -> W,
    ) -> Option<Grant> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.0.call_back(node, waiter) }
    }

    unsafe fn withdraw(&self, node: &WaitNode<W, P::Key>) -> Option<Grant> {
        let mut state = self.0.lock();
        let queue = P::queue(&mut state);
        // SAFETY: the caller upholds the contract.
        let (key, removed) = unsafe { (*queue.key(node), queue.remove(node)) };
        self.0.gave_up(state, key, &removed)
    }
}

/// Attempts the operation. Returns `None` if the node was queued instead.
///
/// # Safety
///
/// The node is idle, and is used as [`Queue::push`] requires.
pub(super) unsafe fn begin<W: Wake, P: Primitive<W>>(
    primitive: &P,
    node: &WaitNode<W, P::Key>,
    key: P::Key,
    waiter: impl FnOnce() -> W,
) -> Option<Grant> {
    match primitive.attempt(primitive.lock(), key) {
        Ok(grant) => Some(grant),
        Err(mut state) => {
            // SAFETY: the caller upholds the contract.
            unsafe { P::queue(&mut state).push(node, waiter(), None) };
            None
        }
    }
}

/// Ends the waits of all waiters that joined before `arrival`, in batches, so that the lock is held
/// for a few instructions at a time.
pub(super) fn grant_all_before<W: Wake, P: Primitive<W>>(
    primitive: &P,
    arrival: u64,
    grant: Grant,
) {
    loop {
        let mut batch = Batch::new();
        let mut state = primitive.lock();
        let queue = P::queue(&mut state);
        while !batch.is_full()
            && let Some(waiter) = queue.grant_before(arrival, grant)
        {
            batch.push(waiter);
        }
        drop(state);
        let more = batch.is_full();
        batch.wake();
        if !more {
            return;
        }
    }
}

/// Outcome of a wait that was not cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    /// Succeeded without waiting.
    AtOnce(Grant),
    Waited(Grant),
    TimedOut,
}

impl WaitOutcome {
    /// An error if the deadline has passed.
    pub(super) fn in_time(self) -> Result<Grant> {
        match self {
            WaitOutcome::AtOnce(grant) | WaitOutcome::Waited(grant) => Ok(grant),
            WaitOutcome::TimedOut => Err(Error::new(ErrorKind::TimedOut)),
        }
    }
}

/// Waits, with all steps. `deadline` is called after the caller's node has joined the queue, so
/// that the clock is read only if there is a wait.
pub(super) fn wait<P: Primitive<Waiter>>(
    primitive: &P,
    key: P::Key,
    why: Why<'_>,
    deadline: impl FnOnce() -> Deadline,
) -> Result<WaitOutcome> {
    let node = WaitNode::new(key);
    let here = cx::Here::new();
    let frame = here.frame();
    // SAFETY: node and waiter stay here until the node is granted or removed, by `wait_in_queue` at
    // the latest. The frame is the caller's.
    let waited = unsafe {
        if let Some(grant) = begin(primitive, &node, key, || borrowed_waiter(frame)) {
            return Ok(WaitOutcome::AtOnce(grant));
        }
        wait_in_queue(&PrimitiveQueue(primitive), &node, frame, why, deadline, || charge(frame))
    };
    match waited {
        (Some(grant), _) => Ok(WaitOutcome::Waited(grant)),
        (None, Ok(Ended::Woken | Ended::TimedOut)) => Ok(WaitOutcome::TimedOut),
        (None, Err(error)) => Err(error),
    }
}

/// [`wait`] without a deadline.
pub(super) fn wait_forever<P: Primitive<Waiter>>(
    primitive: &P,
    key: P::Key,
    why: Why<'_>,
) -> Result<()> {
    wait(primitive, key, why, || Deadline::Never).map(drop)
}

/// [`wait`] with a timeout; an error if it expires.
pub(super) fn wait_timeout<P: Primitive<Waiter>>(
    primitive: &P,
    key: P::Key,
    why: Why<'_>,
    time: Duration,
) -> Result<()> {
    wait(primitive, key, why, || Deadline::after(time))?.in_time().map(drop)
}

/// [`wait`] with a deadline; an error if it passes.
pub(super) fn wait_deadline<P: Primitive<Waiter>>(
    primitive: &P,
    key: P::Key,
    why: Why<'_>,
    at: Instant,
) -> Result<()> {
    wait(primitive, key, why, || Deadline::at(at))?.in_time().map(drop)
}
