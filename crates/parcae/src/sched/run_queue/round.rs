//! The order of started and unstarted tasks of one priority, while there are both.
//!
//! A task that yields goes behind all tasks that are ready, and so behind the children that it has
//! spawned before. Started and unstarted tasks are in two queues, which know nothing of each
//! other's order. A *round* connects them: the unstarted tasks that a yielding task found come
//! first, then the started tasks that were ready at that moment, the yielding one last.
//!
//! # Normal tasks
//!
//! Unstarted ones are in a deque, whose owner takes the newest. A recursion needs that order: with
//! the oldest first, all of its nodes would have stacks at the same time. Hence two rules.
//!
//! - A round begins only if the yielding task may have children in the deque. That is not so if it
//!   goes on after an earlier yield, or has just started, and the deque has no more tasks than when
//!   it was picked. So a task that yields in a loop without a spawn takes turns with the unstarted
//!   tasks, and leaves their order alone. After a wait the task may have children there.
//! - The tasks that a round puts first are the global ones, if the deque has overflowed; then as
//!   many of the newest as the task has spawned; then, if these have spawned in their turn, the
//!   oldest, up to the index of the newest that the yielding task saw. Indices below that one may
//!   be filled anew after pops, so a round may take tasks that came later. It takes no more than
//!   there are places below the index: `top` of a deque only grows.
//!
//! After that, `started` tasks are picked by turns with unstarted ones. A yield that would begin a
//! round meanwhile is noted (`again`): the rest of these tasks have their turn, and then the next
//! round begins. So a started task waits for one round at most, whatever tasks spawn and yield.
//!
//! A round ends when one of the two queues is empty: then there is nothing to order. The pick that
//! finds that sets `left` to 0, and the state of the round is void.
//!
//! Limit: a yield that finds the deque empty begins no round, although the global queue may have
//! children of the task that overflowed earlier. That takes a wait in between: an overflow leaves
//! the deque almost full, and without a wait no other task has run since. A look at the global
//! queue would be needed in every yield.
//!
//! # High and Low tasks
//!
//! Unstarted ones are in a global queue, in the order of their spawns. Shares of both queues take
//! turns: as many unstarted tasks as there were, then as many started ones as there were.

/// Where the next Normal task of a round comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    Global,
    Newest,
    Oldest,
}

/// The state of a round of Normal tasks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PickRound {
    /// Tasks of the global queue that come first.
    global: u32,
    /// Newest tasks of the deque that come next.
    newest: u32,
    /// Index of the deque below which all tasks are older than those.
    base: u64,
    /// Index of the deque below which all tasks come first; 0 if none has to.
    end: u64,
    /// Started tasks that come after them.
    started: u32,
    /// Whether a task has spawned and yielded meanwhile.
    again: bool,
}

impl PickRound {
    /// A round in which the tasks of the deque below index `end` come first, the `newest` of them
    /// before the others; behind so many tasks of the global queue.
    pub(super) fn new(global: usize, newest: u64, end: u64, started: usize) -> PickRound {
        PickRound {
            global: u32::try_from(global).unwrap_or(u32::MAX),
            newest: newest as u32,
            base: end - newest,
            end,
            started: started as u32,
            again: false,
        }
    }

    /// Whether it goes on.
    pub(super) fn is_on(&self) -> bool {
        self.end != 0 || self.started > 0
    }

    /// A task has spawned and yielded: another round is to follow.
    pub(super) fn again(&mut self) {
        self.again = true;
    }

    /// The queue of the next task, if it has to be an unstarted one. `top` is the
    /// index of the oldest task in the deque.
    pub(super) fn first(&mut self, top: u64) -> Option<First> {
        if self.end == 0 {
            return None;
        }
        if self.global > 0 {
            self.global -= 1;
            return Some(First::Global);
        }
        if top >= self.end {
            self.end = 0; // the deque has none of them any more
            return None;
        }
        if self.newest > 0 {
            self.newest -= 1;
            return Some(First::Newest);
        }
        Some(First::Oldest)
    }

    /// The newest task was taken out of the deque, whose end is at this index now.
    pub(super) fn popped(&mut self, bottom: u64) {
        if bottom <= self.base {
            self.end = 0; // all of the newest are gone
        }
    }

    /// Whether a task has spawned and yielded meanwhile.
    pub(super) fn has_next(&self) -> bool {
        self.again
    }

    /// Tasks of the deque went to the global queue, which has so many now.
    pub(super) fn overflowed(&mut self, global: usize) {
        if self.end != 0 {
            self.global = u32::try_from(global).unwrap_or(u32::MAX);
        }
    }

    /// The global queue has no more tasks.
    pub(super) fn no_global(&mut self) {
        self.global = 0;
    }

    /// A started task was picked. Returns whether the next round is to begin.
    pub(super) fn picked_started(&mut self) -> bool {
        self.started = self.started.saturating_sub(1);
        self.started == 0 && std::mem::take(&mut self.again)
    }
}

/// PickShares of the unstarted and the started tasks of High or Low priority, in a round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PickShares {
    unstarted: u32,
    started: u32,
}

impl PickShares {
    /// Whether the next task is a started one. There are so many unstarted and started tasks; at
    /// least one of the latter.
    pub(super) fn is_started_next(&mut self, unstarted: usize, started: usize) -> bool {
        if unstarted == 0 {
            self.unstarted = 0;
        }
        if self.unstarted == 0 && self.started == 0 {
            self.unstarted = u32::try_from(unstarted).unwrap_or(u32::MAX);
            self.started = started as u32;
        }
        if self.unstarted > 0 {
            self.unstarted -= 1;
            return false;
        }
        self.started -= 1;
        true
    }
}
