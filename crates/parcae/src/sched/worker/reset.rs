//! The state of a worker as it was when the worker was made, for the next schedule of the lab.
//!
//! A worker that has no task, no queued task and no duty left differs from a new one in few
//! fields. Those that a schedule could notice (random numbers, ids, the position in the fairness
//! cycle, counters) are set to their first value; the others have to have it already. Stacks and
//! free records stay: a schedule sees neither their number nor their addresses.
//!
//! Every struct is taken apart completely, so that a new field does not compile before it was
//! decided here.

use super::{AfterSwitch, EndedChildren, Worker};
use crate::base::error::TaskId;
use crate::base::rng::Rng;
use std::cell::Cell;

impl Worker {
    /// Whether nothing of a task is left.
    pub(crate) fn is_clean(&self) -> bool {
        let Worker { current, strand, after_switch, ended, late_joiner, due, handoff, .. } = self;
        let Worker { unfinished, expired, pinned, queue, .. } = self;
        let outcome = unfinished.take();
        let is_there = outcome.is_some();
        unfinished.set(outcome);
        current.get().is_none()
            && strand.get().is_none()
            && matches!(after_switch.get(), AfterSwitch::Nothing)
            && ended.get().group.is_none()
            && !late_joiner.is_some()
            && !due.is_any()
            && handoff.get().is_none()
            && !is_there
            && expired.is_empty()
            && pinned.get() == 0
            && queue.is_clean()
    }

    /// Makes the worker as a new one with this seed. It is [clean](Worker::is_clean).
    pub(crate) fn reset(&mut self, seed: u64) {
        debug_assert!(self.is_clean(), "a worker is reset in the middle of its work");
        let Worker {
            index,
            #[cfg(feature = "record")]
                journal: _, // a lab has none
            #[cfg(feature = "record")]
                unordered: _,
            blocks: _, // memory without content
            own_parked: _,
            shared: _,
            remote: _,
            queue,
            current: _,
            strand: _,
            spares: _,
            hidden_spares: _, // hidden for a moment
            spare_count: _,
            pinned: _,
            bound: _, // none is pinned
            after_switch: _,
            ended,
            late_joiner: _,
            due: _,
            handoff: _,
            acted: _, // set by each step
            asleep,
            searching,
            expired,
            // Used by workers that are threads.
            spin: _,
            lingering: _,
            records: _,
            stacks: _,
            rng,
            next_id,
            thread_stack: _,
            unfinished: _,
            events,
        } = self;
        queue.reset();
        expired.reset();
        events.reset();
        *ended = Cell::new(EndedChildren::NONE);
        (*asleep, *searching) = (Cell::new(false), Cell::new(false));
        *rng = Rng::new(seed, *index as u64 + 1);
        *next_id = Cell::new(*index as u64 * TaskId::PER_WORKER + 1);
    }
}
