//! The order in which a worker looks at its queues: the header of the module has it.

use super::round::{First, PickRound, PickShares};
use super::{
    ChainGuard, FAIRNESS, GLOBAL_BATCH, INBOX_INTERVAL, LIFO_STREAK, PickHooks, RunQueue,
    TaskGuard, TaskSource,
};
use crate::sched::deque::Steal;
use crate::sched::queue::Chain;
use crate::sched::task::{Priority, Task};
use std::ptr::NonNull;

impl RunQueue {
    /// The next task, in the order of the module header, or as the shares of tenants say.
    #[inline]
    pub(crate) fn pick(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        if self.all().is_special() {
            return self.pick_specially(hooks);
        }
        self.pick_plain(|tick| self.pick_normal(tick, hooks), hooks).or_else(|| {
            // The first context may have been admitted meanwhile, and its task taken in.
            self.all().is_special().then(|| self.pick_specially(hooks)).flatten()
        })
    }

    /// The next task, if there may be High tasks, tenants or contexts.
    #[inline(never)]
    fn pick_specially(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let contexts = self.all().realtime();
        if let Some(table) = contexts {
            if let Some(task) = self.pick_realtime(table, hooks) {
                return Some(task);
            }
            if hooks.is_due() {
                return None; // the loop acts on deadlines, and picks again
            }
        }
        let task = match (self.all().tenants(), contexts) {
            (_, Some(table)) if self.is_closed() => self.pick_closed(table, hooks),
            (Some(table), _) => self.pick_of_tenants(table, hooks),
            (None, _) => self.pick_ordered(hooks),
        };
        match (task, contexts) {
            (Some(task), Some(table)) => self.best_effort_begins(table, task, hooks),
            (Some(_), None) => {}
            (None, Some(table)) if self.has_unsorted() => {
                // The pick has taken tasks of contexts out of the inbox, where the last look before
                // sleep would have seen them.
                return self.pick_realtime(table, hooks);
            }
            (None, _) => self.all().running.ends(self.worker),
        }
        task
    }

    /// The next task without a tenant, in the order of the module header.
    pub(super) fn pick_ordered(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.pick_plain(|tick| self.pick_own(tick, hooks), hooks)
    }

    /// The next task without a tenant. `own`: one of the worker's own queues.
    #[inline(always)]
    fn pick_plain(
        &self,
        own: impl FnOnce(u32) -> Option<NonNull<Task>>,
        hooks: &impl PickHooks,
    ) -> Option<NonNull<Task>> {
        let tick = self.tick.get() - 1;
        self.tick.set(tick);
        if tick == 0
            && let Some(task) = self.pick_fairly(hooks)
        {
            return Some(task);
        }
        if tick.is_multiple_of(INBOX_INTERVAL) {
            self.empty_inbox_pinned(hooks);
        }
        own(tick)
            .or_else(|| self.pick_inboxes(hooks))
            .or_else(|| self.pick_global(Priority::Normal, hooks))
            .or_else(|| self.pick_low(hooks))
            .or_else(|| self.steal(hooks))
    }

    /// The next task, if it is one that only this worker may run: what [`pick`](RunQueue::pick)
    /// would return, found without a look at the queues that come later. Cannot panic.
    ///
    /// `None` if another task may come first, or there is no such task. Then nothing has changed,
    /// and the caller picks. Also `None` if a task `yields` while unstarted tasks are ready: the
    /// caller tells that first ([`yielded`](RunQueue::yielded)).
    #[inline(always)]
    pub(crate) fn pick_private(&self, yields: bool) -> Option<NonNull<Task>> {
        let tick = self.tick.get() - 1;
        if self.must_look_further(tick) || yields && !self.deque.is_empty() {
            return None;
        }
        let streak = self.lifo_streak.get();
        if streak < LIFO_STREAK
            && let Some(task) = self.lifo.get()
        {
            self.lifo.set(None);
            self.lifo_streak.set(streak + 1);
            self.tick.set(tick);
            return Some(task);
        }
        if !yields && !self.deque.is_empty() {
            return None;
        }
        // SAFETY: the reference ends with the statement.
        let first = unsafe { self.pinned()[Priority::Normal as usize].pop_front() };
        let task = first.or_else(|| self.lifo.take())?;
        self.nothing_to_order();
        self.tick.set(tick);
        Some(task)
    }

    /// `pinned` or the deque is empty.
    #[inline(always)]
    pub(super) fn nothing_to_order(&self) {
        self.lifo_streak.set(0);
        self.left.set(0);
    }

    /// A pick that finds no other task: true if [`pick_private`](RunQueue::pick_private) would
    /// return a Normal task that was just put behind the others. False if not; then nothing has
    /// changed.
    #[inline(always)]
    pub(crate) fn pick_nobody(&self) -> bool {
        let tick = self.tick.get() - 1;
        let nobody = !self.must_look_further(tick)
            && self.lifo.get().is_none()
            && self.deque.is_empty()
            && self.pinned_len() == 0;
        if nobody {
            self.nothing_to_order();
            self.tick.set(tick);
        }
        nobody
    }

    /// Whether the next pick is one of those that come every `interval` picks.
    #[inline(always)]
    pub(crate) fn is_nth_pick(&self, interval: u32) -> bool {
        (self.tick.get() - 1).is_multiple_of(interval)
    }

    /// Whether the pick with this number looks at more than `lifo`, `deque` and the Normal tasks in
    /// `pinned`.
    #[inline(always)]
    fn must_look_further(&self, tick: u32) -> bool {
        tick == 0
            || tick.is_multiple_of(INBOX_INTERVAL) && !self.own().inbox_pinned.is_empty()
            || self.all().is_special() && self.has_high()
    }

    /// Whether there is a High task to be picked.
    #[cold]
    fn has_high(&self) -> bool {
        // SAFETY: the reference ends with the statement.
        let pinned = unsafe { !self.pinned()[Priority::High as usize].is_empty() };
        pinned || self.all().realtime().is_some() || !self.all().global(Priority::High).is_empty()
    }

    /// The look that is due every [`FAIRNESS`] picks.
    #[cold]
    fn pick_fairly(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let turn = self.look_around(hooks);
        self.pick_neglected(turn, hooks)
    }

    /// Looks at the clock, every [`FAIRNESS`] picks. Returns how often that was.
    pub(super) fn look_around(&self, hooks: &impl PickHooks) -> u32 {
        self.tick.set(FAIRNESS);
        hooks.periodic();
        let turn = self.fairness_turn.get().wrapping_add(1);
        self.fairness_turn.set(turn);
        turn
    }

    /// The next task out of any queue that this worker may take from: as [`pick`](RunQueue::pick),
    /// and then every other worker's deque and shared inbox.
    pub(crate) fn pick_anywhere(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.pick(hooks).or_else(|| {
            if self.is_closed() {
                return None;
            }
            let mut others = (0..self.all().active()).filter(|&other| other != self.worker);
            let task = others.find_map(|other| {
                self.steal_from(other, hooks).or_else(|| self.empty_inbox_of(other, hooks))
            })?;
            let task = match self.all().tenants() {
                Some(table) => self.found_default(task, table, hooks),
                None => task,
            };
            if let Some(table) = self.all().realtime() {
                self.best_effort_begins(table, task, hooks);
            }
            Some(task)
        })
    }

    /// Whether [`pick`](RunQueue::pick) by the only worker would find nothing. It may find nothing
    /// although this returns false.
    pub(crate) fn has_none_alone(&self) -> bool {
        // SAFETY: the reference ends with the statement.
        let started = unsafe { self.pinned().iter().any(|queue| !queue.is_empty()) };
        let all = self.all();
        let is_empty = |priority| all.global(priority).is_empty();
        !started
            && self.lifo.get().is_none()
            && self.deque.is_empty()
            && !self.has_inbox()
            && !all.is_special()
            && is_empty(Priority::Normal)
            && is_empty(Priority::Low)
    }

    /// Whether there are tasks in the deque, which thieves may take at any time.
    pub(crate) fn has_unstarted(&self) -> bool {
        !self.deque.is_empty()
    }

    /// Whether other threads have put tasks into this worker's inboxes.
    pub(crate) fn has_inbox(&self) -> bool {
        let own = self.own();
        !own.inbox_pinned.is_empty() || !own.inbox_shared.is_empty()
    }

    /// High tasks, then Normal ones.
    #[inline]
    fn pick_own(&self, tick: u32, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        if self.all().is_special()
            && let Some(task) = self.pick_at(Priority::High, hooks)
        {
            return Some(task);
        }
        self.pick_normal(tick, hooks)
    }

    /// A task of High or Low priority. Started and unstarted tasks take turns: otherwise a task
    /// that yields until another has run could wait for ever.
    #[inline]
    fn pick_at(&self, priority: Priority, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        // SAFETY: the reference ends with the statement.
        match unsafe { self.pinned()[priority as usize].len() } {
            0 => self.pick_global(priority, hooks),
            started => Some(self.pick_share(priority, started, hooks)),
        }
    }

    /// As [`pick_at`](RunQueue::pick_at), if there are so many started tasks.
    #[cold]
    fn pick_share(
        &self,
        priority: Priority,
        started: usize,
        hooks: &impl PickHooks,
    ) -> NonNull<Task> {
        let mut shares = self.shares[priority as usize].get();
        let unstarted = self.all().global(priority).len_hint();
        if !shares.is_started_next(unstarted, started) {
            if let Some(task) = self.pick_global(priority, hooks) {
                self.shares[priority as usize].set(shares);
                return task;
            }
            shares.is_started_next(0, started);
        }
        self.shares[priority as usize].set(if started == 1 {
            PickShares::default()
        } else {
            shares
        });
        // SAFETY: the reference ends with the statement.
        match unsafe { self.pinned()[priority as usize].pop_front() } {
            Some(task) => task,
            None => unreachable!("this thread alone takes started tasks"),
        }
    }

    /// A Normal task: just woken, then started and unstarted ones in the order of `round`.
    #[inline]
    fn pick_normal(&self, tick: u32, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        if self.lifo_streak.get() < LIFO_STREAK
            && let Some(task) = self.lifo.take()
        {
            self.lifo_streak.set(self.lifo_streak.get() + 1);
            return Some(task);
        }
        // The look saves the fence in `pop`, most of the time.
        let task = match (self.pinned_len() > 0, !self.deque.is_empty()) {
            (true, true) => return self.pick_in_order(tick, hooks),
            (true, false) => self.pop_pinned(),
            (false, true) => self.deque.pop(),
            (false, false) => None,
        };
        self.nothing_to_order();
        task.or_else(|| self.lifo.take())
    }

    #[inline]
    fn pop_pinned(&self) -> Option<NonNull<Task>> {
        // SAFETY: the reference ends with the statement.
        unsafe { self.pinned()[Priority::Normal as usize].pop_front() }
    }

    /// A Normal task, if there are started and unstarted ones.
    #[inline(never)]
    fn pick_in_order(&self, tick: u32, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.lifo_streak.set(0);
        let mut round = if self.left.get() > 0 { self.round.get() } else { PickRound::default() };
        let mut task = None;
        while let Some((top, _)) = self.own().stealer.oldest()
            && let Some(first) = round.first(top)
        {
            task = match first {
                First::Global => self.pop_global(hooks),
                First::Newest => {
                    let newest = self.deque.pop();
                    round.popped(self.deque.end());
                    newest
                }
                First::Oldest => match self.own().stealer.steal() {
                    Steal::Task(task) => Some(task),
                    Steal::Empty | Steal::Retry => None, // a thief was faster
                },
            };
            match first {
                _ if task.is_some() => break,
                First::Global => round.no_global(),
                First::Newest | First::Oldest => {}
            }
        }
        if task.is_none() && tick.is_multiple_of(2) && !round.has_next() {
            task = self.deque.pop();
        }
        if task.is_none() {
            task = self.pop_pinned();
            if round.picked_started() {
                round = self.new_round(self.deque.len() as u64);
            }
        }
        self.round.set(round);
        // SAFETY: picked, hence ours.
        let owns_none = task.is_none_or(|task| unsafe { task.as_ref() }.has_no_new_children());
        self.left.set(if owns_none { self.deque.len() as u32 } else { 0 } + 1);
        task
    }

    /// A task of the global Normal queue.
    fn pop_global(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let task = TaskGuard::new(self, self.all().global(Priority::Normal).pop()?);
        hooks.took(TaskSource::Global { tasks: 1 });
        Some(task.give())
    }

    fn pick_low(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.pick_at(Priority::Low, hooks)
    }

    /// Empties both inboxes, and looks at the own queues again.
    fn pick_inboxes(&self, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        self.empty_inbox_pinned(hooks);
        let inbox = &self.own().inbox_shared;
        if !inbox.is_empty() {
            self.adopt(inbox.drain(), hooks);
        }
        self.pick_own(self.tick.get(), hooks)
    }

    /// Moves the pinned inbox to the back of `pinned`.
    #[inline]
    pub(super) fn empty_inbox_pinned(&self, hooks: &impl PickHooks) {
        let inbox = &self.own().inbox_pinned;
        if inbox.is_empty() {
            return;
        }
        let mut batch = ChainGuard::new(self, inbox.drain());
        hooks.took(TaskSource::InboxPinned);
        while let Some(task) = batch.chain.pop_front() {
            // SAFETY: out of the inbox, hence ours.
            unsafe { self.push_woken_behind(task) };
        }
    }

    /// Takes over the tasks in the shared inbox of another worker, if there are any.
    fn empty_inbox_of(&self, other: usize, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let inbox = &self.all().of(other).inbox_shared;
        if inbox.is_empty() {
            return None;
        }
        self.adopt(inbox.rescue(), hooks);
        self.deque.pop()
    }

    /// Puts movable tasks into the deque, or the global queue if they do not fit.
    fn adopt(&self, chain: Chain<Task>, hooks: &impl PickHooks) {
        let mut batch = ChainGuard::new(self, chain);
        hooks.took(TaskSource::InboxShared);
        while let Some(task) = batch.chain.pop_front() {
            // SAFETY: out of the chain, hence ours; movable.
            unsafe {
                match task.as_ref().traits.get().lane {
                    lane if lane.is_tenant() => self.all().push_global(lane, task),
                    _ => self.push_stealable(task),
                }
            }
        }
        self.announce_rest(hooks);
    }

    pub(super) fn announce_rest(&self, hooks: &impl PickHooks) {
        if self.all().steals() && !self.deque.is_empty() {
            hooks.announce();
        }
    }

    #[inline]
    fn pick_global(&self, priority: Priority, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        if self.all().global(priority).is_empty() {
            return None;
        }
        self.take_global(priority, hooks)
    }

    #[inline(never)]
    fn take_global(&self, priority: Priority, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        let global = self.all().global(priority);
        if priority != Priority::Normal {
            // One at a time: the deque does not distinguish it from Normal tasks.
            let one = global.pop().map(|task| TaskGuard::new(self, task));
            hooks.took(TaskSource::Global { tasks: usize::from(one.is_some()) });
            return one.map(TaskGuard::give);
        }
        // A share for each worker.
        let share = (global.len_hint() / self.all().active() + 1).min(GLOBAL_BATCH);
        let mut chain = global.pop_batch(share);
        let tasks = chain.len();
        let first = chain.pop_front().map(|task| TaskGuard::new(self, task));
        let rest = ChainGuard::new(self, chain);
        hooks.took(TaskSource::Global { tasks });
        let rest = rest.give();
        if !rest.is_empty() {
            // The deque is last in, first out: backwards, so that the oldest is picked next.
            self.adopt(rest.reversed(), hooks);
        }
        first.map(TaskGuard::give)
    }

    /// The places that the order reaches last. All are looked at until one has a task, and `turn`
    /// says which is the first.
    #[cold]
    fn pick_neglected(&self, turn: u32, hooks: &impl PickHooks) -> Option<NonNull<Task>> {
        (0..6).find_map(|i| match (turn + i) % 6 {
            0 => self.pick_global(Priority::Normal, hooks),
            1 => self.pick_inboxes(hooks),
            // Past High tasks that never end.
            2 => self.pick_normal(turn, hooks),
            3 => self.pick_low(hooks),
            // Movable tasks of a worker that is stuck, while no worker is idle.
            4 => {
                self.empty_inbox_of((self.worker + 1 + turn as usize) % self.all().active(), hooks)
            }
            // The oldest of the own deque, as a thief would take it.
            _ => {
                if self.left.get() > 1 {
                    self.left.set(self.left.get() - 1);
                }
                match self.own().stealer.steal() {
                    Steal::Task(task) => Some(task),
                    Steal::Empty | Steal::Retry => None,
                }
            }
        })
    }
}
