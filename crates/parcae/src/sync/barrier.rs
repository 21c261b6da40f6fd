//! Barriers.
//!
//! The last caller to arrive opens the barrier for all waiters, under the lock; later callers form
//! the next round. A waiter that gives up before that does not count as arrived. A waiter that
//! gives up later has passed the barrier, and notices the cancellation at its next cancel point.

use super::constructor;
use super::primitive::{self, Primitive, WaitOutcome, grant_all_before};
use crate::base::error::Result;
use crate::sched::lab::OpKind;
use crate::sched::worker::ordered::{ObjectGuard as Guard, ObjectLock as Lock};
use crate::sched::worker::{forget_address, point_at};
use crate::scope::cx::parking::Deadline;
use crate::wait::{Grant, Queue, Removed, Waiter, Wake, Why};
use std::fmt;

/// A point where a group of tasks and threads wait for each other.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::sync::Barrier;
///
/// let barrier = Barrier::new(3);
/// let rt = Runtime::builder().build()?;
/// let leaders = rt.run(|cx| {
///     cx.nursery(|n| {
///         let a = n.spawn(|_| barrier.wait())?;
///         let b = n.spawn(|_| barrier.wait())?;
///         let own = barrier.wait()?;
///         Ok([a.join()?, b.join()?, own].iter().filter(|result| result.is_leader()).count())
///     })
/// })?;
/// assert_eq!(leaders, 1);
/// # Ok::<(), parcae::Error>(())
/// ```
pub struct Barrier {
    raw: RawBarrier<Waiter>,
}

pub(super) struct RawBarrier<W> {
    parties: usize,
    state: Lock<BarrierState<W>>,
}

pub(super) struct BarrierState<W> {
    /// Number of waiters of this round.
    arrived: usize,
    /// Waiters that joined before this arrival number have passed, even if their grant is still to
    /// come.
    open_before: u64,
    waiters: Queue<W>,
}

impl<W> RawBarrier<W> {
    constructor! {
        pub(super) fn new(parties: usize) -> RawBarrier<W> {
            let state = BarrierState { arrived: 0, open_before: 0, waiters: Queue::new() };
            RawBarrier { parties, state: Lock::new(state) }
        }
    }
}

impl<W> Drop for RawBarrier<W> {
    #[inline]
    fn drop(&mut self) {
        forget_address(self);
    }
}

impl<W: Wake> Primitive<W> for RawBarrier<W> {
    type State = BarrierState<W>;
    type Key = ();

    fn lock(&self) -> Guard<'_, BarrierState<W>> {
        self.state.lock()
    }

    fn queue(state: &mut BarrierState<W>) -> &mut Queue<W> {
        &mut state.waiters
    }

    fn attempt<'p>(
        &'p self,
        mut state: Guard<'p, BarrierState<W>>,
        (): (),
    ) -> Result<Grant, Guard<'p, BarrierState<W>>> {
        if state.arrived + 1 < self.parties {
            state.arrived += 1;
            return Err(state);
        }
        state.arrived = 0;
        let arrivals = state.waiters.arrivals();
        state.open_before = arrivals;
        drop(state);
        grant_all_before(self, arrivals, Grant::All);
        Ok(Grant::All)
    }

    fn gave_up<'p>(
        &'p self,
        mut state: Guard<'p, BarrierState<W>>,
        (): (),
        removed: &Removed<W>,
    ) -> Option<Grant> {
        let passed = removed.arrival < state.open_before;
        if !passed {
            state.arrived -= 1;
        }
        passed.then_some(Grant::All)
    }
}

impl Barrier {
    constructor! {
        /// A barrier for `parties` callers. With 0 or 1 a caller never waits.
        pub fn new(parties: usize) -> Barrier {
            Barrier { raw: RawBarrier::new(parties) }
        }
    }

    /// Waits until all parties have arrived. Then the barrier is ready for the next round. A cancel
    /// point if it has to wait: a cancelled caller counts as not having arrived.
    ///
    /// # Errors
    ///
    /// If the task is cancelled before all parties have arrived.
    #[track_caller]
    pub fn wait(&self) -> Result<BarrierResult> {
        point_at(OpKind::Wait, &self.raw);
        let why = Why::signal("barrier", self);
        let outcome = primitive::wait(&self.raw, (), why, || Deadline::Never)?;
        Ok(BarrierResult { leader: matches!(outcome, WaitOutcome::AtOnce(_)) })
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("parties", &self.raw.parties).finish_non_exhaustive()
    }
}

/// The result of a wait at a [`Barrier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarrierResult {
    leader: bool,
}

impl BarrierResult {
    /// Whether this caller arrived last. Every round has one leader.
    pub fn is_leader(&self) -> bool {
        self.leader
    }
}
