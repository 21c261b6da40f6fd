//! A long list that can be taken from quickly.
//!
//! Records that waited for long are no longer in the cache, and a linked list says where the next
//! one is only in the record before it: each would be waited for, one after the other. So the list
//! is dealt out to [`LANES`] chains in turn, and taking from it asks for the next record of a lane
//! well before its turn comes round again. Memory then has several requests at a time to work on.
//!
//! ```text
//!   lane 0   0   4   8        front: the lane of the oldest task
//!   lane 1   1   5   9        the task i places behind it is in lane front + i
//!   lane 2   2   6
//!   lane 3   3   7
//! ```

use super::link::{Chain, Linked};
use crate::stack::arch::prefetch;

/// How many records are asked for at a time.
const LANES: usize = 8;

/// Tasks, first in, first out.
pub(super) struct Lanes<T: Linked> {
    lanes: [Chain<T>; LANES],
    front: usize,
    len: usize,
}

impl<T: Linked> Lanes<T> {
    pub(super) fn new() -> Lanes<T> {
        Lanes { lanes: Default::default(), front: 0, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds the tasks of a chain at the end, in their order.
    pub(super) fn append(&mut self, mut chain: Chain<T>) {
        while let Some(task) = chain.pop_front() {
            // SAFETY: out of one chain, into another.
            unsafe { self.lanes[(self.front + self.len) % LANES].push_back(task) };
            self.len += 1;
        }
    }

    /// Adds the tasks of a chain before all others, in their order.
    pub(super) fn prepend(&mut self, chain: Chain<T>) {
        let mut reversed = chain.reversed();
        while let Some(task) = reversed.pop_front() {
            self.front = (self.front + LANES - 1) % LANES;
            self.len += 1;
            // SAFETY: out of one chain, into another.
            unsafe { self.lanes[self.front].push_front(task) };
        }
    }

    /// Takes up to `count` tasks to the end of the chain.
    pub(super) fn take(&mut self, count: usize, into: &mut Chain<T>) {
        for _ in 0..count.min(self.len) {
            let lane = &mut self.lanes[self.front];
            let Some(task) = lane.pop_front() else { unreachable!("the lanes are even") };
            if let Some(next) = lane.front() {
                prefetch(next);
            }
            self.front = (self.front + 1) % LANES;
            self.len -= 1;
            // SAFETY: out of one chain, into another.
            unsafe { into.push_back(task) };
        }
    }
}
