//! The run queues that several threads use: those of each worker, and the global ones.

use crate::base::error::ShareRefused;
use crate::base::time::Nanos;
use crate::sched::deque::Stealer;
use crate::sched::queue::{Inbox, Inject};
use crate::sched::run_queue::realtime::RealtimeTable;
use crate::sched::run_queue::running::RunningTasks;
use crate::sched::run_queue::tenants::{
    BlockingAccount, Charging, TenantRequest, TenantRules, TenantShares, TenantTable, UpkeepKind,
    unit,
};
use crate::sched::task::{Lane, Priority, Task, TenantIndex};
use parcae_core::fair::Weight;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How a worker without work chooses the workers that it steals from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Victims {
    /// At random, from the seed.
    #[default]
    Random,
    /// One after another.
    RoundRobin,
    /// The worker with the most stealable tasks first.
    MostLoaded,
    /// None: a task runs on the worker that it was spawned on. Work does not spread by itself then;
    /// a task that is spawned from outside still goes to any free worker.
    Nobody,
}

/// Where tasks came from, for events and counters.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TaskSource {
    /// The worker's own pinned inbox.
    InboxPinned,
    /// Movable tasks on their way into the deque: out of a shared inbox, or a global batch.
    InboxShared,
    /// A global queue, which may have been empty after all.
    Global {
        /// How many.
        tasks: usize,
    },
    /// The deque of another worker.
    Worker {
        /// That worker.
        victim: usize,
        /// The task to run.
        task: NonNull<Task>,
    },
}

/// The queues of one worker that other threads use. On cache lines of their own: a wake of one
/// worker must not disturb another one that looks at its inbox.
#[cfg_attr(not(feature = "unpadded"), repr(align(128)))]
pub(super) struct WorkerQueues {
    pub(super) stealer: Stealer<Task>,
    /// Woken tasks that only this worker may run.
    pub(super) inbox_pinned: Inbox<Task>,
    /// Woken tasks that last ran here and may run anywhere: an idle worker takes them all.
    pub(super) inbox_shared: Inbox<Task>,
}

/// The queues of all workers, and the global ones.
pub(crate) struct RunQueues {
    victims: Victims,
    /// How many workers are looked at; the queues of the others are empty. Workers first, then
    /// temporary ones.
    active: AtomicUsize,
    workers: Box<[WorkerQueues]>,
    /// One for each priority.
    global: [Inject<Task>; 3],
    /// Whether there ever was a High task, a tenant or a context: then a pick looks further.
    special: AtomicBool,
    /// The tenants; none until the first one is opened.
    tenants: OnceLock<Option<Box<TenantTable>>>,
    /// The contexts; none until the first one is admitted.
    pub(super) realtime: OnceLock<Box<RealtimeTable>>,
    /// The task that each worker runs, while there are tenants or contexts.
    pub(super) running: RunningTasks,
}

impl RunQueues {
    /// The queues of as many workers as there are stealers, of which `active` are looked at.
    pub(crate) fn new(stealers: Vec<Stealer<Task>>, active: usize, victims: Victims) -> RunQueues {
        let queues = |stealer| WorkerQueues {
            stealer,
            inbox_pinned: Inbox::new(),
            inbox_shared: Inbox::new(),
        };
        RunQueues {
            victims,
            active: AtomicUsize::new(active),
            running: RunningTasks::new(stealers.len()),
            workers: stealers.into_iter().map(queues).collect(),
            global: [Inject::new(), Inject::new(), Inject::new()],
            special: AtomicBool::new(false),
            tenants: OnceLock::new(),
            realtime: OnceLock::new(),
        }
    }

    #[inline]
    pub(super) fn of(&self, worker: usize) -> &WorkerQueues {
        &self.workers[worker]
    }

    /// As new. The queues are empty, and no other thread uses them.
    pub(crate) fn reset(&self) {
        self.special.store(false, Ordering::Relaxed); // see `is_special`
    }

    /// How many workers and temporary workers there may be.
    pub(super) fn slots(&self) -> usize {
        self.workers.len()
    }

    #[inline]
    pub(super) fn global(&self, priority: Priority) -> &Inject<Task> {
        &self.global[priority as usize]
    }

    pub(super) fn victims(&self) -> Victims {
        self.victims
    }

    /// How many workers there may be, temporary ones among them.
    #[inline]
    pub(crate) fn active(&self) -> usize {
        // Relaxed: a temporary worker fills its queues after this was raised. The last look before
        // sleep comes behind the fence of the idle protocol, and so does every announcement.
        self.active.load(Ordering::Relaxed)
    }

    /// Called under the lock of the thread set, before the queues of a new worker are used and
    /// after those of a retired one are empty.
    pub(crate) fn set_active(&self, active: usize) {
        self.active.store(active, Ordering::Relaxed); // see `active`
    }

    /// Whether a task in one worker's deque may be taken by others.
    #[inline]
    pub(crate) fn steals(&self) -> bool {
        self.active() > 1 && self.victims != Victims::Nobody
    }

    /// Adds a task that any worker may run. The caller then announces it to the idle protocol.
    ///
    /// # Safety
    ///
    /// The task is live, in no queue, the caller's to hand over, and has not started or may move.
    #[inline]
    pub(crate) unsafe fn push_global(&self, lane: Lane, task: NonNull<Task>) {
        // SAFETY: as the caller says.
        unsafe {
            if lane > Lane::Normal {
                self.push_special(lane, task);
            } else {
                self.global[lane as usize].push(task);
            }
        }
    }

    /// A task of this lane is about to enter a queue for the first time.
    #[inline]
    pub(super) fn expect(&self, lane: Lane) {
        if lane > Lane::Normal {
            self.special.store(true, Ordering::Relaxed); // see `is_special`
        }
    }

    /// Adds a High task, or one of a tenant or with a context.
    ///
    /// # Safety
    ///
    /// As for [`push_global`](RunQueues::push_global).
    #[inline(never)]
    unsafe fn push_special(&self, lane: Lane, task: NonNull<Task>) {
        self.expect(lane);
        // SAFETY: as the caller says.
        unsafe {
            match self.tenants().filter(|_| lane.is_tenant()) {
                Some(tenants) => {
                    if let Some(slice) = tenants.push(task) {
                        // The first task of the tenant: it may preempt another one.
                        self.running.interrupt_longest(self.active(), slice);
                    }
                }
                None if lane == Lane::Realtime => {
                    let home = self.home_of(task);
                    self.push_inbox_pinned(home, task);
                    self.interrupt(home);
                }
                None => self.global(lane.priority()).push(task),
            }
        }
    }

    /// Whether there may be a High task, a tenant or a context. False if the program has none.
    #[inline(always)]
    pub(super) fn is_special(&self) -> bool {
        // Relaxed: a worker that misses the first push takes the task at a later pick, as it would
        // if it looked at the queue a moment too early. The last look before sleep does not ask.
        self.special.load(Ordering::Relaxed)
    }

    /// The tenants, if there are any.
    pub(super) fn tenants(&self) -> Option<&TenantTable> {
        self.tenants.get()?.as_deref()
    }

    /// The contexts, if there are any.
    pub(super) fn realtime(&self) -> Option<&RealtimeTable> {
        self.realtime.get().map(|table| &**table)
    }

    /// Makes a worker look up at the next checkpoint of the task that it runs.
    pub(crate) fn interrupt(&self, worker: usize) {
        self.running.interrupt(worker);
    }

    /// How urgent a task of a tenant is, or one with a context, that was woken for another worker:
    /// the slices of its tenant, 0 of a context.
    ///
    /// # Safety
    ///
    /// The caller owns the task.
    pub(crate) unsafe fn slice_of(&self, task: NonNull<Task>) -> u32 {
        // SAFETY: as the caller says.
        let lane = unsafe { task.as_ref() }.traits.get().lane;
        match self.tenants().filter(|_| lane.is_tenant()) {
            // SAFETY: as the caller says.
            Some(tenants) => unsafe { tenants.slice_of(task) },
            None if lane == Lane::Realtime => 0,
            None => u32::MAX,
        }
    }

    /// A task with slices of this length waits for a worker: it looks up, if the task may preempt
    /// the one that it runs.
    pub(crate) fn interrupt_longer(&self, worker: usize, slice: u32) {
        match slice {
            0 => self.running.interrupt(worker),
            slice => self.running.interrupt_longer(worker, slice),
        }
    }

    /// Opens a tenant. The first one makes the table for `max` tenants.
    pub(crate) fn open_tenant(
        &self,
        request: TenantRequest,
        max: usize,
        deterministic: bool,
        charging: Charging,
    ) -> Result<TenantIndex, ShareRefused> {
        let tenant = self.make_tenants(max, deterministic, charging)?.open(request)?;
        self.special.store(true, Ordering::Relaxed); // see `is_special`
        Ok(tenant)
    }

    /// The table of tenants, which is made for `max` tenants if there is none.
    fn make_tenants(
        &self,
        max: usize,
        deterministic: bool,
        charging: Charging,
    ) -> Result<&TenantTable, ShareRefused> {
        if max == 0 {
            return Err(ShareRefused::Off);
        }
        let make =
            || TenantTable::new(unit(deterministic), charging, max, self.slots()).map(Box::new);
        self.tenants.get_or_init(make).as_deref().ok_or(ShareRefused::OutOfMemory)
    }

    /// Sets the rules of a policy for tenants, also those that are opened later.
    pub(crate) fn set_tenant_rules(
        &self,
        rules: TenantRules,
        max: usize,
        deterministic: bool,
        charging: Charging,
    ) -> Result<(), ShareRefused> {
        self.make_tenants(max, deterministic, charging)?.set_rules(Some(rules));
        Ok(())
    }

    /// Tenants get what they ask for again.
    pub(crate) fn drop_tenant_rules(&self) {
        if let Some(table) = self.tenants() {
            table.set_rules(None);
        }
    }

    /// A nursery of this tenant has ended.
    pub(crate) fn close_tenant(&self, tenant: TenantIndex) {
        if let Some(table) = self.tenants() {
            table.close(tenant);
        }
    }

    /// Changes the weight of an open tenant.
    pub(crate) fn reweight_tenant(&self, tenant: TenantIndex, weight: Weight) {
        if let Some(table) = self.tenants() {
            table.reweight(tenant, weight);
        }
    }

    /// The account for a blocking call of this tenant; `None` if there never was a tenant.
    pub(crate) fn blocking_account(&self, tenant: TenantIndex) -> Option<BlockingAccount> {
        self.tenants().map(|table| table.blocking_account(tenant.get()))
    }

    /// Charges work of the runtime that was done outside of its workers.
    pub(crate) fn charge_upkeep(&self, kind: UpkeepKind, took: Nanos) {
        if let Some(table) = self.tenants() {
            table.charge_upkeep(kind, took);
        }
    }

    /// Whether there ever was a tenant.
    pub(crate) fn has_tenants(&self) -> bool {
        self.tenants().is_some()
    }

    /// The figures of all tenants; `None` if there never was one.
    pub(crate) fn read_tenants(&self, workers: usize) -> Option<TenantShares> {
        self.tenants().map(|table| table.read(workers))
    }

    /// Adds a task that was woken and that only `worker` may run. The caller then announces it to
    /// that worker.
    ///
    /// # Safety
    ///
    /// The task is live, in no queue, and the caller's to hand over.
    #[inline]
    pub(crate) unsafe fn push_inbox_pinned(&self, worker: usize, task: NonNull<Task>) {
        // Every push is announced, not only the first one into an empty inbox.
        // SAFETY: as the caller says.
        let _was_empty = unsafe { self.of(worker).inbox_pinned.push(task) };
    }

    /// Adds a task that was woken, last ran on `worker` and may move. The caller then announces it
    /// to that worker and to the others.
    ///
    /// # Safety
    ///
    /// As for [`push_inbox_pinned`](RunQueues::push_inbox_pinned); the task may move.
    #[inline]
    pub(crate) unsafe fn push_inbox_shared(&self, worker: usize, task: NonNull<Task>) {
        // SAFETY: as the caller says; announced as above.
        let _was_empty = unsafe { self.of(worker).inbox_shared.push(task) };
    }

    /// Whether there is work that a worker without any could take.
    pub(crate) fn has_work(&self) -> bool {
        self.has_default(true) || self.tenants().is_some_and(TenantTable::has_work)
    }

    /// The same, of tasks without a tenant; `widely`: also in the queues of workers.
    pub(super) fn has_default(&self, widely: bool) -> bool {
        let steals = self.victims != Victims::Nobody;
        let stealable = |worker: &WorkerQueues| steals && worker.stealer.len_hint() > 0;
        self.global.iter().any(|global| !global.is_empty())
            || widely
                && self.workers[..self.active()]
                    .iter()
                    .any(|worker| !worker.inbox_shared.is_empty() || stealable(worker))
    }

    /// The last look before sleep: whether there is work that `worker` may take.
    pub(crate) fn has_work_for(&self, worker: usize) -> bool {
        self.has_pinned(worker)
            || self.is_nudged(worker)
            || !self.is_closed(worker) && self.has_work()
    }

    /// Whether tasks that only `worker` may run wait in its inbox.
    pub(crate) fn has_pinned(&self, worker: usize) -> bool {
        !self.of(worker).inbox_pinned.is_empty()
    }

    /// Approximate number of tasks of `worker` that could be stolen.
    pub(crate) fn stealable(&self, worker: usize) -> usize {
        self.of(worker).stealer.len_hint()
    }

    /// Approximate number of tasks in the global queues.
    pub(crate) fn global_len(&self) -> usize {
        let global: usize = self.global.iter().map(|global| global.len_hint()).sum();
        global + self.tenants().map_or(0, TenantTable::waiting)
    }
}
