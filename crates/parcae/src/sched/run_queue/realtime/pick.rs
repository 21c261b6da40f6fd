//! How a worker picks tasks that run on contexts, and how time passes for them.

use super::local::{Chosen, LookUp, Wakes};
use super::{ContextFigures, ContextNotice, JobPlan, RealtimeTable, RealtimeWorker};
use crate::base::error::ContextRefused;
use crate::base::time::Nanos;
use crate::sched::run_queue::{PickHooks, RunQueue, RunQueues, TaskGuard};
use crate::sched::task::{Binding, ContextIndex, Lane, Task, TaskRef, Traits};
use crate::sched::timers::{Expire, NEVER};
use parcae_core::context::Params;
use std::ptr::NonNull;
use std::sync::Weak;

impl RunQueues {
    /// Admits a context. The first one makes the table.
    pub(crate) fn admit_context(
        &self,
        params: Params,
        workers: usize,
        deterministic: bool,
        end: Weak<dyn Expire>,
        now: Nanos,
    ) -> Result<ContextIndex, ContextRefused> {
        let make = || Box::new(RealtimeTable::new(workers, self.slots(), deterministic));
        let admitted = self.realtime.get_or_init(make).admit(params, workers, end, now)?;
        self.expect(Lane::Realtime);
        Ok(admitted)
    }

    /// The part of each worker that is promised to contexts, in thousandths.
    pub(crate) fn promised(&self, workers: usize) -> Vec<u64> {
        self.realtime().map_or_else(|| vec![0; workers], |table| table.promised(workers))
    }

    /// Ends a context. Returns the task that waits for its events, to be woken; `None` if it had
    /// ended before.
    pub(crate) fn revoke_context(
        &self,
        context: ContextIndex,
        now: Nanos,
    ) -> Option<Option<TaskRef>> {
        let revoked = self.realtime()?.revoke(context, now);
        self.nudge(self.worker_of(context));
        revoked
    }

    /// The worker has to look at its contexts again. The caller announces it, as a push.
    pub(crate) fn nudge(&self, worker: usize) {
        if let Some(table) = self.realtime() {
            table.nudge(worker);
        }
        self.interrupt(worker);
    }

    /// Whether a worker has been [nudged](RunQueues::nudge) and has not looked since then.
    pub(in crate::sched::run_queue) fn is_nudged(&self, worker: usize) -> bool {
        self.realtime().is_some_and(|table| table.is_nudged(worker))
    }

    /// The task that waits for events of a context, to be woken.
    pub(crate) fn take_context_waiter(&self, context: ContextIndex) -> Option<TaskRef> {
        self.realtime()?.take_waiter(context)
    }

    /// The last reference to a context is gone.
    pub(crate) fn release_context(&self, context: ContextIndex, now: Nanos) {
        if let Some(table) = self.realtime() {
            table.release(context, now);
        }
    }

    /// The figures of a context.
    pub(crate) fn context_figures(&self, context: ContextIndex, now: Nanos) -> ContextFigures {
        self.realtime().map(|table| table.figures(context, now)).unwrap_or_default()
    }

    /// The next event of a context, which wakes `waiter` if there is none.
    pub(crate) fn context_notice(
        &self,
        context: ContextIndex,
        waiter: Option<TaskRef>,
    ) -> Option<ContextNotice> {
        self.realtime()?.take_notice(context, waiter)
    }

    /// The worker of a context.
    pub(crate) fn worker_of(&self, context: ContextIndex) -> usize {
        self.realtime().map_or(0, |table| table.home(context).0)
    }

    /// Whether there ever was a context.
    pub(crate) fn has_contexts(&self) -> bool {
        self.realtime().is_some()
    }

    /// The worker that alone may run this task.
    ///
    /// # Safety
    ///
    /// The caller owns the task, which runs on a context.
    pub(crate) unsafe fn home_of(&self, task: NonNull<Task>) -> usize {
        // SAFETY: as the caller says.
        let binding = unsafe { task.as_ref() }.traits.get().binding;
        binding.context().map_or(0, |context| self.worker_of(context))
    }
}

impl RunQueue {
    /// Calls `act` with the part of this worker in the table of contexts. `act` does not use the
    /// queues.
    pub(super) fn with_realtime<R>(
        &self,
        table: &RealtimeTable,
        act: impl FnOnce(&mut RealtimeWorker) -> R,
    ) -> R {
        // SAFETY: a run queue is used by the thread of its worker; and as `act` says.
        act(unsafe { table.local(self.worker) })
    }

    /// The next task that runs on a context.
    pub(in crate::sched::run_queue) fn pick_realtime(
        &self,
        table: &RealtimeTable,
        hooks: &impl PickHooks,
    ) -> Option<NonNull<Task>> {
        hooks.has_tenants();
        if hooks.is_due() {
            return None; // a deadline may wake a task that is more urgent: the loop acts on it
        }
        table.take_nudge(self.worker);
        self.empty_inbox_pinned(hooks);
        self.sort_realtime(table, hooks);
        self.end_realtime_run(table, hooks); // of a task that has ended
        if self.with_realtime(table, |local| local.is_clean()) {
            return None;
        }
        let now = hooks.now();
        let (task, until, earliest) = loop {
            let (found, wakes) = self.with_realtime(table, |local| {
                let mut contexts = table.of(self.worker);
                (local.choose(&mut contexts, now), contexts.collect())
            });
            let found = match found {
                Chosen::Nothing { earliest } => Some((None, NEVER, earliest)),
                Chosen::Task { task, until, earliest } => {
                    Some((Some(TaskGuard::new(self, task)), until, earliest))
                }
                Chosen::Revoked(task) => {
                    // SAFETY: chosen, hence ours and in no queue.
                    unsafe {
                        if !self.release_borrower(table, task, true, hooks) {
                            if task.as_ref().is_pinned() {
                                hooks.becomes_stranger();
                            }
                            self.release_from_context(task);
                        }
                    }
                    None
                }
            };
            wake_all(wakes, hooks);
            if let Some(found) = found {
                break found;
            }
        };
        if self.with_realtime(table, |local| local.must_arm(earliest, now)) {
            hooks.arm_release(earliest);
        }
        let task = task?.give();
        self.count_realtime_pick(hooks);
        self.realtime_begins(table, task, hooks);
        self.all().running.begins(self.worker, task, 0);
        hooks.look_up_at(until);
        Some(task)
    }

    /// A task whose context was revoked waits with the tasks that have none, from now on.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned).
    unsafe fn release_from_context(&self, task: NonNull<Task>) {
        // SAFETY: the caller owns the task, and its traits with it.
        let traits = unsafe { &task.as_ref().traits };
        let free = Traits { lane: Lane::Normal, binding: Binding::STAYS, ..traits.get() };
        traits.set(free);
        // SAFETY: as the caller says.
        unsafe { self.push_pinned(task, Lane::Normal) };
    }

    /// Whether tasks of contexts are not in the chains of their contexts yet.
    pub(in crate::sched::run_queue) fn has_unsorted(&self) -> bool {
        // SAFETY: the reference ends with the statement.
        unsafe { !self.pinned()[Lane::Realtime as usize].is_empty() }
    }

    /// Every so many picks the worker looks for events of descriptors.
    fn count_realtime_pick(&self, hooks: &impl PickHooks) {
        let tick = self.tick.get() - 1;
        self.tick.set(tick);
        if tick == 0 {
            self.look_around(hooks);
        }
    }

    /// A task without a context was picked, while there are contexts.
    pub(in crate::sched::run_queue) fn best_effort_begins(
        &self,
        table: &RealtimeTable,
        task: NonNull<Task>,
        hooks: &impl PickHooks,
    ) {
        self.realtime_begins(table, task, hooks);
        if self.all().tenants().is_none() {
            self.all().running.begins(self.worker, task, u32::MAX);
        }
        hooks.look_up_at(NEVER);
    }

    fn realtime_begins(&self, table: &RealtimeTable, task: NonNull<Task>, hooks: &impl PickHooks) {
        // SAFETY: picked, hence ours.
        let this = unsafe { task.as_ref() };
        self.with_realtime(table, |local| local.run_begins(hooks.ops_left(this)));
        if table.deterministic {
            this.signal.hint(); // its turn is cut at its first checkpoint
        }
    }

    /// Moves tasks from `pinned` to the chains of their contexts, which are woken. Borrowers whose
    /// loan is over go to the queues of their own kind.
    pub(super) fn sort_realtime(&self, table: &RealtimeTable, hooks: &impl PickHooks) {
        // SAFETY: here and below, the reference ends with the statement.
        while let Some(task) = unsafe { self.pinned()[Lane::Realtime as usize].pop_front() } {
            // SAFETY: popped, hence ours.
            unsafe {
                if !self.release_borrower(table, task, false, hooks) {
                    self.add_realtime(table, task, hooks.now());
                }
            }
        }
    }

    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned).
    unsafe fn add_realtime(&self, table: &RealtimeTable, task: NonNull<Task>, now: Nanos) {
        // SAFETY: as the caller says.
        let binding = unsafe { task.as_ref() }.traits.get().binding;
        let slot = binding.context().map_or(0, |context| table.home(context).1);
        self.with_realtime(table, |local| {
            // SAFETY: as the caller says.
            unsafe { local.add(&mut table.of(self.worker), slot, task, now) };
        });
    }

    /// Stops the context that runs and charges it.
    fn end_realtime_run(&self, table: &RealtimeTable, hooks: &impl PickHooks) {
        if self.with_realtime(table, |local| local.run.is_none()) {
            return;
        }
        let now = hooks.now();
        let (ended, wakes) = self.with_realtime(table, |local| {
            let mut contexts = table.of(self.worker);
            (local.end_run(&mut contexts, now), contexts.collect())
        });
        wake_all(wakes, hooks);
        let Some((took, end)) = ended else { return };
        if let Some(end) = end {
            hooks.expire_now(end);
        }
        self.spent_on_context(took);
    }

    /// The task that was picked leaves its stack or has ended, with so many ops left in its turn.
    pub(crate) fn run_ends(&self, left: u64, hooks: &impl PickHooks) {
        let Some(table) = self.all().realtime() else { return self.tenant_run_ends(left) };
        hooks.pass(self.with_realtime(table, |local| {
            let used = local.pass(left);
            local.pass_all();
            used
        }));
        if self.with_realtime(table, |local| local.run.is_none()) {
            return self.tenant_run_ends(left);
        }
        self.sort_realtime(table, hooks);
        self.end_realtime_run(table, hooks);
    }

    /// The running task begins a turn of at most so many ops; returns how many it gets.
    pub(crate) fn task_turn_begins(&self, most: u64, hooks: &impl PickHooks) -> u64 {
        let Some(table) = self.all().realtime() else { return self.tenant_task_turn_begins(most) };
        hooks.pass(self.with_realtime(table, |local| local.pass_all()));
        let runs = self.with_realtime(table, |local| local.run.is_some());
        let most = if runs { most } else { self.tenant_task_turn_begins(most) };
        let most = if table.deterministic { self.cut_realtime(table, most, hooks) } else { most };
        self.with_realtime(table, |local| local.run_begins(most));
        most
    }

    /// The part of so many ops before the next deadline or the end of the budget.
    fn cut_realtime(&self, table: &RealtimeTable, most: u64, hooks: &impl PickHooks) -> u64 {
        let budget = self.with_realtime(table, |local| local.budget_ops(hooks.now()));
        most.min(budget).min(hooks.ops_until_deadline()).max(1)
    }

    /// The running task looks up at a checkpoint, because its signal was raised. So many ops are
    /// left in its turn.
    pub(crate) fn look_up(&self, left: u64, hooks: &impl PickHooks) -> LookUp {
        self.empty_inbox_pinned(hooks);
        if let Some(table) = self.all().realtime() {
            match self.look_up_realtime(table, left, hooks) {
                LookUp::GoOn => {}
                answer => return answer,
            }
        }
        if self.is_preempted() { LookUp::Yield } else { LookUp::GoOn }
    }

    fn look_up_realtime(&self, table: &RealtimeTable, left: u64, hooks: &impl PickHooks) -> LookUp {
        hooks.pass(self.with_realtime(table, |local| local.pass(left)));
        self.sort_realtime(table, hooks);
        let now = hooks.now();
        let ((yields, until), wakes) = self.with_realtime(table, |local| {
            let mut contexts = table.of(self.worker);
            (local.look_up(&mut contexts, now), contexts.collect())
        });
        wake_all(wakes, hooks);
        if yields {
            return LookUp::Yield;
        }
        if !table.deterministic {
            hooks.look_up_at(until);
            return LookUp::GoOn;
        }
        let most = self.cut_realtime(table, left.max(1), hooks);
        if most >= left || self.is_preempted() {
            return LookUp::GoOn;
        }
        self.with_realtime(table, |local| local.run_begins(most));
        LookUp::Cut(most)
    }

    /// The task that runs has ended the present job of its context: the next one.
    pub(crate) fn next_job(
        &self,
        context: ContextIndex,
        left: u64,
        hooks: &impl PickHooks,
    ) -> Option<JobPlan> {
        let table = self.all().realtime()?;
        hooks.pass(self.with_realtime(table, |local| local.pass(left)));
        let plan = table.next_job(context, hooks.now())?;
        if plan.number > 0 {
            let (_, slot) = table.home(context);
            let expect = |local: &mut RealtimeWorker| {
                local.expect_job(&table.of(self.worker), slot, plan.release);
            };
            self.with_realtime(table, expect);
        }
        Some(plan)
    }

    /// A task that runs on a context was woken on this worker.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned).
    pub(in crate::sched::run_queue) unsafe fn push_realtime(&self, task: NonNull<Task>) {
        // Sorted at the next pick, which knows the time; and looked at by the running task.
        // SAFETY: as the caller says.
        unsafe { self.push_pinned(task, Lane::Realtime) };
        self.all().running.interrupt(self.worker);
    }

    /// Whether no task is in a chain of a context.
    pub(in crate::sched::run_queue) fn has_clean_contexts(&self) -> bool {
        let Some(table) = self.all().realtime() else { return true };
        self.with_realtime(table, |local| local.is_clean())
    }
}

fn wake_all(wakes: Wakes, hooks: &impl PickHooks) {
    wakes.into_iter().flatten().for_each(|task| hooks.wake(task));
}
