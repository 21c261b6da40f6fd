//! Permits and a queue of waiters that want some: the base of semaphores and read-write locks.
//!
//! One lock guards the number of free permits and the wait queue. Waiters are served strictly in
//! order: no caller takes permits past a waiter, so a waiter that wants many is not starved by
//! waiters that want few. The invariant, whenever the lock is free: *the first waiter wants more
//! than is free*. Every change of either side (permits that are released, a first waiter that gives
//! up) serves the queue.
//!
//! The conserved quantity: free permits + permits held = permits added. A grant moves permits out
//! of `free` in the critical section in which the node leaves the queue; a waiter that gives up
//! after its grant puts them back.
//!
//! # Closing
//!
//! `closed` is set once, under the lock. From then on no waiter joins the queue and none is served:
//! the invariant above ends there. Waiters are granted [`Grant::Closed`] instead, which moves no
//! permits. The closing thread empties the queue batch by batch; a waiter that gives up in between
//! removes its own node.

use super::constructor;
use super::primitive::{Primitive, grant_all_before};
use crate::sched::worker::forget_address;
use crate::sched::worker::ordered::{ObjectGuard as Guard, ObjectLock as Lock};
use crate::wait::{Batch, Grant, Queue, Removed, WaitStanding, Wake};

pub(super) struct Permits<W> {
    state: Lock<PermitState<W>>,
}

pub(super) struct PermitState<W> {
    free: usize,
    closed: bool,
    /// The key is the number of permits that a waiter wants.
    waiters: Queue<W, usize>,
}

impl<W> Permits<W> {
    constructor! {
        pub(super) fn new(free: usize) -> Permits<W> {
            Permits { state: Lock::new(PermitState { free, closed: false, waiters: Queue::new() }) }
        }
    }

    pub(super) fn free(&self) -> usize {
        self.state.lock().free
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(super) fn try_take(&self, wanted: usize) -> bool {
        self.state.lock().try_take(wanted)
    }

    /// Removes up to `wanted` free permits for good. Returns the number removed.
    pub(super) fn forget(&self, wanted: usize) -> usize {
        let mut state = self.state.lock();
        let taken = wanted.min(state.free);
        state.free -= taken;
        taken
    }
}

impl<W> PermitState<W> {
    fn try_take(&mut self, wanted: usize) -> bool {
        let can = self.waiters.is_empty() && self.free >= wanted && !self.closed;
        if can {
            self.free -= wanted;
        }
        can
    }
}

impl<W: Wake> Permits<W> {
    /// Adds permits, and serves the queue.
    pub(super) fn give(&self, permits: usize) {
        let mut state = self.state.lock();
        state.free = state.free.checked_add(permits).expect("the number of permits overflows");
        self.serve(state);
    }

    /// Fails all waiters and all later callers.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true; // from now on no waiter joins the queue
        let arrivals = state.waiters.arrivals();
        drop(state);
        grant_all_before(self, arrivals, Grant::Closed);
    }

    /// Grants the first waiters their permits, as long as there are enough.
    fn serve<'p>(&'p self, mut state: Guard<'p, PermitState<W>>) {
        loop {
            let mut batch = Batch::new();
            while !batch.is_full()
                && !state.closed
                && let Some(&mut wanted) = state.waiters.first_key()
                && wanted <= state.free
                && let Some(waiter) = state.waiters.grant(Grant::Own)
            {
                state.free -= wanted;
                batch.push(waiter);
            }
            let more = batch.is_full();
            drop(state);
            batch.wake();
            if !more {
                return;
            }
            state = self.state.lock();
        }
    }
}

impl<W> Drop for Permits<W> {
    #[inline]
    fn drop(&mut self) {
        forget_address(self);
    }
}

impl<W: Wake> Primitive<W> for Permits<W> {
    type State = PermitState<W>;
    type Key = usize;

    fn lock(&self) -> Guard<'_, PermitState<W>> {
        self.state.lock()
    }

    fn queue(state: &mut PermitState<W>) -> &mut Queue<W, usize> {
        &mut state.waiters
    }

    fn attempt<'p>(
        &'p self,
        mut state: Guard<'p, PermitState<W>>,
        wanted: usize,
    ) -> Result<Grant, Guard<'p, PermitState<W>>> {
        if state.closed {
            Ok(Grant::Closed)
        } else if state.try_take(wanted) {
            Ok(Grant::Own)
        } else {
            Err(state)
        }
    }

    fn gave_up<'p>(
        &'p self,
        mut state: Guard<'p, PermitState<W>>,
        wanted: usize,
        removed: &Removed<W>,
    ) -> Option<Grant> {
        if removed.standing == WaitStanding::Granted(Grant::Own) {
            state.free += wanted;
        }
        // The waiters behind this one may want fewer permits.
        self.serve(state);
        None
    }
}
