//! Picks of a worker while there are tenants.

use super::super::{PickHooks, RunQueue, TaskGuard, TaskSource};
use super::table::{ChargeUnit, TenantTable, tenant_of};
use super::{DEFAULT, FairWorker, UpkeepKind};
use crate::base::time::Nanos;
use crate::sched::queue::Chain;
use crate::sched::task::{Lane, Priority, Task};
use crate::sched::timers::NEVER;
use std::ptr::NonNull;

impl RunQueue {
    /// The part of this worker in the table of tenants.
    ///
    /// # Safety
    ///
    /// The reference is not kept over anything that uses the queues.
    #[allow(clippy::mut_from_ref)]
    unsafe fn fair<'t>(&self, table: &'t TenantTable) -> &'t mut FairWorker {
        // SAFETY: as the caller says; a run queue is used by the thread of its worker.
        unsafe { table.local(self.worker) }
    }

    /// Calls `act` with the part of this worker in the table of tenants, if there are tenants.
    /// `act` does not use the queues.
    fn with_fair<R>(&self, act: impl FnOnce(&mut FairWorker) -> R) -> Option<R> {
        // SAFETY: as the caller says.
        self.all().tenants().map(|table| act(unsafe { self.fair(table) }))
    }

    /// The next task, while there are tenants.
    pub(in crate::sched::run_queue) fn pick_of_tenants(
        &self,
        table: &TenantTable,
        hooks: &impl PickHooks,
    ) -> Option<NonNull<Task>> {
        hooks.has_tenants();
        self.count_pick(hooks);
        self.empty_inbox_pinned(hooks);
        self.sort_tenants(table);
        let now = || hooks.now();
        // SAFETY: here and below, the reference ends with the statement.
        if let Some(tenant) = unsafe { self.fair(table).goes_on(now) } {
            if let Some(task) = self.pop_of(tenant, table, hooks) {
                return Some(self.run_begins(task, table, hooks));
            }
            self.end_tenant_turn(table, hooks);
            // SAFETY: as above.
            unsafe { self.fair(table).sleep(table, tenant) };
        }
        let now = self.end_tenant_turn(table, hooks);
        // SAFETY: as above.
        unsafe { self.fair(table).look(table, |widely| self.has_default(widely)) };
        loop {
            // The default entity's pick may have emptied an inbox.
            self.sort_tenants(table);
            // SAFETY: as above.
            let Some(tenant) = (unsafe { self.fair(table).pick() }) else { break };
            if let Some(task) = self.pop_of(tenant, table, hooks) {
                // SAFETY: as above.
                unsafe { self.fair(table).begin_turn(tenant, now) };
                hooks.look_up_at(NEVER);
                return Some(self.run_begins(task, table, hooks));
            }
            // SAFETY: as above.
            unsafe { self.fair(table).miss(table, tenant) };
        }
        if self.is_closed() {
            return None;
        }
        let task = self.steal(hooks)?;
        Some(self.found_default(task, table, hooks))
    }

    /// Ends the turn of the tenant that runs, and charges it; returns the time.
    fn end_tenant_turn(&self, table: &TenantTable, hooks: &impl PickHooks) -> u64 {
        let now = if table.charges == ChargeUnit::Nanos { hooks.now() } else { 0 };
        // SAFETY: the reference ends with the statement.
        unsafe { self.fair(table).end_turn(table, now) };
        now
    }

    /// A task of the default entity was found while no tenant had one: its turn begins.
    pub(in crate::sched::run_queue) fn found_default(
        &self,
        task: NonNull<Task>,
        table: &TenantTable,
        hooks: &impl PickHooks,
    ) -> NonNull<Task> {
        let guard = TaskGuard::new(self, task);
        let now = self.end_tenant_turn(table, hooks);
        // SAFETY: the reference ends with the statement.
        unsafe { self.fair(table).begin_unpicked(table, DEFAULT, now) };
        self.run_begins(guard.give(), table, hooks)
    }

    fn run_begins(
        &self,
        task: NonNull<Task>,
        table: &TenantTable,
        hooks: &impl PickHooks,
    ) -> NonNull<Task> {
        // SAFETY: picked, hence ours; the reference ends with the statement.
        unsafe {
            let left = hooks.ops_left(task.as_ref());
            let slice = self.fair(table).run_begins(task, left);
            self.all().running.begins(self.worker, task, slice);
        }
        task
    }

    /// The next task of a tenant, or of the default entity.
    fn pop_of(
        &self,
        tenant: usize,
        table: &TenantTable,
        hooks: &impl PickHooks,
    ) -> Option<NonNull<Task>> {
        // A closed worker takes only tasks that began here.
        let is_closed = self.is_closed();
        if tenant == DEFAULT {
            return if is_closed { self.pick_leftover() } else { self.pick_ordered(hooks) };
        }
        let queue = Some(&table.slots[tenant].queue).filter(|_| !is_closed);
        let unstarted =
            |priority: Priority| queue.map_or(0, |queue| queue.len_hint(priority as usize));
        // SAFETY: the reference ends with the statement.
        let task = unsafe {
            let pop = |priority: Priority| queue.and_then(|queue| queue.pop(priority as usize));
            self.fair(table).pop(tenant, unstarted, pop)
        };
        let task = TaskGuard::new(self, task?);
        // SAFETY: popped, hence ours.
        if !unsafe { task.task.as_ref() }.has_started() {
            hooks.took(TaskSource::Global { tasks: 1 });
        }
        Some(task.give())
    }

    /// Moves tasks of tenants from `pinned` to the chains of their tenants, which are woken.
    fn sort_tenants(&self, table: &TenantTable) {
        for lane in [Lane::TenantHigh, Lane::TenantNormal, Lane::TenantLow] {
            // SAFETY: here and below, the reference ends with the statement.
            while let Some(task) = unsafe { self.pinned()[lane as usize].pop_front() } {
                // SAFETY: popped, hence ours; it has not ended.
                unsafe {
                    let tenant = tenant_of(task);
                    self.fair(table).add(table, tenant, lane.priority(), task);
                }
            }
        }
    }

    /// A task of a tenant, or one with a context, was woken on this worker, which alone may run it.
    ///
    /// # Safety
    ///
    /// As for [`push_pinned`](RunQueue::push_pinned).
    #[cold]
    pub(in crate::sched::run_queue) unsafe fn push_of_tenant(
        &self,
        task: NonNull<Task>,
        lane: Lane,
    ) {
        if lane == Lane::Realtime {
            // SAFETY: as the caller says.
            return unsafe { self.push_realtime(task) };
        }
        // SAFETY: as the caller says; the references end with their statements.
        unsafe {
            match self.all().tenants() {
                Some(table) => {
                    let tenant = tenant_of(task);
                    self.fair(table).add(table, tenant, lane.priority(), task);
                }
                None => self.pinned()[lane as usize].push_back(task),
            }
        }
    }

    /// Whether tasks of the default entity are ready; `widely`: also in the deques of other
    /// workers.
    fn has_default(&self, widely: bool) -> bool {
        // SAFETY: the reference ends with the statement.
        let pinned = unsafe { !self.pinned()[..3].iter().all(Chain::is_empty) };
        let own = self.own();
        pinned
            || self.lifo.get().is_some()
            || !self.deque.is_empty()
            || !own.inbox_shared.is_empty()
            || !self.is_closed() && self.all().has_default(widely)
    }

    /// Counts a pick; every [`FAIRNESS`](super::super::FAIRNESS) picks the worker looks at its
    /// clock.
    fn count_pick(&self, hooks: &impl PickHooks) {
        let tick = self.tick.get() - 1;
        self.tick.set(tick);
        if tick == 0 {
            let began = hooks.now();
            self.look_around(hooks);
            self.charge_upkeep(UpkeepKind::Polls, hooks.now().saturating_sub(began));
        }
    }

    /// Charges work of the runtime itself to its own account, and not to the tenant in whose turn
    /// it was done.
    pub(crate) fn charge_upkeep(&self, kind: UpkeepKind, took: Nanos) {
        let Some(table) = self.all().tenants() else { return };
        table.upkeep.add(kind, took);
        // SAFETY: the reference ends with the statement.
        unsafe { self.fair(table).spend_outside(took) };
    }

    /// A task that was about to wait goes on, although the pick in between has found none.
    pub(crate) fn goes_on_unpicked(&self, task: NonNull<Task>, hooks: &impl PickHooks) {
        let Some(table) = self.all().tenants() else { return };
        let now = if table.charges == ChargeUnit::Nanos { hooks.now() } else { 0 };
        // SAFETY: the running task, which has not ended; the reference ends with the statement.
        unsafe {
            let is_tenant = task.as_ref().traits.get().lane.is_tenant();
            let tenant = if is_tenant { tenant_of(task) } else { DEFAULT };
            self.fair(table).begin_unpicked(table, tenant, now);
        }
        self.run_begins(task, table, hooks);
    }

    /// The task that was picked leaves its stack or has ended, with so many ops left in its turn.
    pub(in crate::sched::run_queue) fn tenant_run_ends(&self, left: u64) {
        self.with_fair(|fair| fair.run_ends(left));
    }

    /// The running task begins a turn of at most so many ops; returns how many it gets.
    pub(in crate::sched::run_queue) fn tenant_task_turn_begins(&self, most: u64) -> u64 {
        self.with_fair(|fair| fair.task_turn_begins(most)).unwrap_or(most)
    }

    /// The running task has used ops beyond its turn.
    pub(crate) fn overran(&self, ops: u64, hooks: &impl PickHooks) {
        if self.all().realtime().is_some() {
            hooks.pass(ops);
        }
        self.with_fair(|fair| fair.overran(ops));
    }

    /// Whether the running task should let another tenant run.
    pub(in crate::sched::run_queue) fn is_preempted(&self) -> bool {
        let Some(table) = self.all().tenants() else { return false };
        self.sort_tenants(table);
        self.with_fair(|fair| {
            fair.look_at_queues(table);
            fair.is_preempted()
        })
        .unwrap_or(false)
    }

    /// The worker has run a task on a context for so long: the tenant whose turn it is does not pay
    /// for it.
    pub(in crate::sched::run_queue) fn spent_on_context(&self, took: Nanos) {
        self.with_fair(|fair| fair.spend_outside(took));
    }

    /// Whether no task is in a chain of a tenant.
    pub(in crate::sched::run_queue) fn has_clean_tenants(&self) -> bool {
        self.with_fair(|fair| fair.is_clean()).unwrap_or(true)
    }
}
