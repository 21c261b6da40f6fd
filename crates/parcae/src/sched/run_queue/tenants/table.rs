//! The table of all tenants, and the queue of each that all workers share.

use super::registry::TenantRegistry;
use super::shares::ShareWindow;
use super::upkeep::{BlockingAccount, UpkeepAccounts, UpkeepKind};
use super::{DEFAULT, FairWorker};
use crate::base::shim::atomic::{AtomicU32, Ordering};
use crate::base::time::Nanos;
#[cfg(doc)]
use crate::sched::queue::Inject;
use crate::sched::queue::TenantQueue;
use crate::sched::task::Task;
use parcae_core::fair::{Latency, Limits, Weight};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

/// One tenant.
pub(super) struct TenantSlot {
    /// Which tenant has the slot; never 0 for a slot that was used. Written under the lock of the
    /// registry, as the next three.
    pub(super) identity: AtomicU32,
    pub(super) parent: AtomicU32,
    pub(super) weight: AtomicU32,
    /// The length of its requests, in the unit of the table.
    pub(super) slice: AtomicU32,
    pub(super) queue: TenantQueue<Task>,
    /// Shared with blocking calls that have not ended.
    pub(super) account: Arc<TenantAccount>,
}

/// The account of a tenant. Relaxed throughout: each worker adds at the end of a turn, and readers
/// want figures.
#[derive(Default)]
pub(super) struct TenantAccount {
    /// In the unit of the table: ops, or nanoseconds.
    pub(super) charged: AtomicU64,
    pub(super) ops: AtomicU64,
    pub(super) turns: AtomicU64,
    /// Turns that a wake has ended.
    pub(super) preempted: AtomicU64,
    /// Blocking calls that have ended, and their time.
    pub(super) calls: AtomicU64,
    pub(super) blocked: AtomicU64,
    /// How often it was given to another tenant.
    pub(super) owners: AtomicU64,
}

/// Used by one worker alone.
struct Private(UnsafeCell<FairWorker>);

// SAFETY: `TenantTable::local` demands the thread of the worker.
unsafe impl Sync for Private {}
// SAFETY: made by the thread that opens the first tenant, before any worker uses it; the tasks in
// it may be handed to other threads.
unsafe impl Send for Private {}

/// All tenants of a scheduler. Its size is fixed.
pub(crate) struct TenantTable {
    /// The unit of charges: ops, or nanoseconds.
    pub(super) charges: ChargeUnit,
    /// Accounts of the runtime itself.
    pub(super) upkeep: UpkeepAccounts,
    pub(super) slots: Box<[TenantSlot]>,
    /// Slots that were ever used; the others have no task.
    used: AtomicUsize,
    /// Raised after a weight or a slice has changed.
    changes: AtomicU32,
    pub(super) registry: Mutex<TenantRegistry>,
    pub(super) window: Mutex<ShareWindow>,
    workers: Box<[Private]>,
    /// Ready tasks of each tenant on each worker after its last turn there. Relaxed: figures.
    ready: Box<[AtomicU32]>,
}

/// How exactly turns of tenants follow the clock; see
/// [`Builder::charging`](crate::runtime::Builder::charging).
///
/// A turn is always charged by the clock, so both keep the same shares in the long run. Under the
/// deterministic executor charges are ops, and both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Charging {
    /// The length of a turn is estimated from ops, which tasks count anyway; the clock is asked
    /// every few switches and at the end of the turn.
    #[default]
    Hybrid,
    /// The clock is asked at every switch: a turn ends with the first task that reaches its end.
    /// Costs a reading of the clock for each switch, about as much as a yield.
    Exact,
}

/// The unit in which turns are charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sched::run_queue) enum ChargeUnit {
    Ops,
    Nanos,
}

impl ChargeUnit {
    pub(super) fn limits(self) -> Limits {
        match self {
            ChargeUnit::Ops => Limits::OPS,
            ChargeUnit::Nanos => Limits::NANOS,
        }
    }

    /// The length of requests of this latency, if it is allowed.
    pub(super) fn slice(self, latency: Latency) -> Option<u32> {
        let limits = self.limits();
        let slice = match latency {
            Latency::Sensitive => limits.min_slice,
            Latency::Normal => limits.slice,
            Latency::Batch => limits.max_slice,
            Latency::Slice(slice) => slice,
        };
        let allowed = (limits.min_slice..=limits.max_slice).contains(&slice);
        if allowed { u32::try_from(slice).ok() } else { None }
    }
}

/// A boxed slice of `len` values; `None` if there is no memory for it.
pub(super) fn boxed<T>(len: usize, make: impl FnMut() -> T) -> Option<Box<[T]>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).ok()?;
    all.resize_with(len, make);
    Some(all.into_boxed_slice())
}

impl TenantTable {
    /// A table for so many tenants and workers; `None` if there is no memory for it.
    pub(in crate::sched::run_queue) fn new(
        charges: ChargeUnit,
        charging: Charging,
        tenants: usize,
        workers: usize,
    ) -> Option<TenantTable> {
        let slot = || TenantSlot {
            identity: AtomicU32::new(0),
            parent: AtomicU32::new(0),
            weight: AtomicU32::new(Weight::NORMAL.get()),
            slice: AtomicU32::new(charges.limits().slice as u32),
            queue: TenantQueue::new(),
            account: Arc::default(),
        };
        let mut locals = Vec::new();
        locals.try_reserve_exact(workers).ok()?;
        for worker in 0..workers {
            locals.push(Private(UnsafeCell::new(FairWorker::new(
                worker, charges, charging, tenants,
            )?)));
        }
        Some(TenantTable {
            charges,
            upkeep: UpkeepAccounts::default(),
            slots: boxed(tenants + 1, slot)?,
            used: AtomicUsize::new(1),
            changes: AtomicU32::new(0),
            registry: Mutex::new(TenantRegistry::new(tenants)?),
            window: Mutex::new(ShareWindow::new(tenants)?),
            workers: locals.into(),
            ready: boxed(workers * (tenants + 1), || AtomicU32::new(0))?,
        })
    }

    /// Charges work of the runtime that was done outside of its workers.
    pub(in crate::sched::run_queue) fn charge_upkeep(&self, kind: UpkeepKind, took: Nanos) {
        self.upkeep.add(kind, took);
    }

    /// The account for a blocking call of this tenant.
    pub(in crate::sched::run_queue) fn blocking_account(&self, tenant: usize) -> BlockingAccount {
        BlockingAccount::new(&self.slots[tenant].account, &self.slots[DEFAULT].account)
    }

    /// The part of a worker.
    ///
    /// # Safety
    ///
    /// Called on the thread of this worker. The reference is not kept over another call.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn local(&self, worker: usize) -> &mut FairWorker {
        // SAFETY: one thread, and no other reference at the same time (caller).
        unsafe { &mut *self.workers[worker].0.get() }
    }

    /// Whether there is more than one worker.
    pub(super) fn has_several_workers(&self) -> bool {
        self.workers.len() > 1
    }

    /// Notes how many tasks of a tenant were ready on a worker.
    pub(super) fn set_ready(&self, worker: usize, tenant: usize, tasks: usize) {
        let at = worker * self.slots.len() + tenant;
        self.ready[at].store(tasks as u32, Ordering::Relaxed); // figures
    }

    /// Ready tasks of a tenant on this worker, and on all.
    pub(super) fn ready(&self, worker: usize, tenant: usize) -> (u32, u32) {
        let at = |worker: usize| {
            self.ready[worker * self.slots.len() + tenant].load(Ordering::Relaxed) // figures
        };
        (at(worker), (0..self.workers.len()).map(at).sum())
    }

    /// How many of `workers` could run a task of this tenant.
    pub(super) fn busy_workers(&self, tenant: usize, workers: usize) -> usize {
        let ready = |worker: usize| {
            let at = worker * self.slots.len() + tenant;
            self.ready[at].load(Ordering::Relaxed) > 0 // figures
        };
        let busy = (0..self.workers.len()).filter(|&worker| ready(worker)).count();
        (busy + self.slots[tenant].queue.waiting() as usize).min(workers)
    }

    /// The indices of slots that may have tasks, without the default entity.
    pub(super) fn tenants(&self) -> std::ops::Range<usize> {
        // Relaxed: raised before the first task of a slot is pushed and announced. The last look
        // before sleep comes behind the fence of the idle protocol.
        1..self.used.load(Ordering::Relaxed)
    }

    /// Called under the lock of the registry, before the slot is used.
    pub(super) fn use_slot(&self, index: usize) {
        self.used.fetch_max(index + 1, Ordering::Relaxed); // see `tenants`
    }

    /// The number of changes of weights and slices.
    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire) // pairs with the Release of `changed`
    }

    /// A weight or a slice was changed.
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release); // pairs with the Acquire of `changes`
    }

    /// Adds a task that any worker may run. Returns the slice of its tenant, if it is the first one
    /// there.
    ///
    /// # Safety
    ///
    /// As for [`Inject::push`]; the task is one of a tenant.
    pub(in crate::sched::run_queue) unsafe fn push(&self, task: NonNull<Task>) -> Option<u32> {
        // SAFETY: as the caller says. The task is in no queue yet, so its group waits for it.
        unsafe {
            let (tenant, lane) = (tenant_of(task), task.as_ref().traits.get().lane);
            let slot = &self.slots[tenant];
            let is_first = slot.queue.waiting() == 0;
            slot.queue.push(lane.priority() as usize, task);
            // Relaxed: as `TenantSlot::identity`, or released by `changed`.
            is_first.then(|| slot.slice.load(Ordering::Relaxed))
        }
    }

    /// The slice of the tenant of a task.
    ///
    /// # Safety
    ///
    /// As for [`tenant_of`].
    pub(in crate::sched::run_queue) unsafe fn slice_of(&self, task: NonNull<Task>) -> u32 {
        // SAFETY: as the caller says. Relaxed: as in `push`.
        unsafe { self.slots[tenant_of(task)].slice.load(Ordering::Relaxed) }
    }

    /// Whether a task waits that any worker may run. True for every push that happened before.
    pub(in crate::sched::run_queue) fn has_work(&self) -> bool {
        self.tenants().any(|tenant| self.slots[tenant].queue.waiting() > 0)
    }

    /// About how many such tasks there are.
    pub(in crate::sched::run_queue) fn waiting(&self) -> usize {
        self.tenants().map(|tenant| self.slots[tenant].queue.waiting() as usize).sum()
    }
}

/// The index of the tenant that this task belongs to.
///
/// # Safety
///
/// The task has not ended, and the caller owns it.
pub(super) unsafe fn tenant_of(task: NonNull<Task>) -> usize {
    // SAFETY: the group waits for the task.
    unsafe { task.as_ref().group.get().map_or(0, |group| group.as_ref().tenant.get()) }
}
