//! The tenants of one worker: its fair queue, the tasks that only it may run, and the turn of the
//! tenant that runs.

use super::super::round::PickShares;
use super::table::{ChargeUnit, Charging, TenantSlot, TenantTable, boxed};
use super::{CLOCK_INTERVAL, DEFAULT, LEAST_RUN};
use crate::base::shim::atomic::Ordering;
use crate::base::time::Nanos;
use crate::sched::queue::Chain;
use crate::sched::run_queue::FAIRNESS;
use crate::sched::task::{Priority, Task};
use parcae_core::fair::{
    EntityId, FairError, FairQueue, GroupId, GroupSlot, Latency, Node, Params, Slot, View, Weight,
    Woken,
};
use std::ptr::NonNull;
use std::sync::TryLockError;

/// The rate of a tenant that has not run: two nanoseconds per op.
const FIRST_RATE: u64 = 2 << RATE_SHIFT;
/// Rates have so many binary digits behind the point.
const RATE_SHIFT: u32 = 8;
/// The rate of a turn counts for a fraction of 2 to this power in the average.
const RATE_WINDOW: u32 = 3;
/// The least and the greatest rate: an eighth of a nanosecond and 16 µs. Where checkpoints are
/// further apart, a turn is a few ops anyway.
const RATES: std::ops::RangeInclusive<u64> = FIRST_RATE / 16..=FIRST_RATE << 13;

/// Picks of the fair queue between two looks at the demand on all workers.
const DEMAND_INTERVAL: u32 = 8;

type Fair = FairQueue<Box<[Slot]>, Box<[Node]>, Box<[GroupSlot]>>;

/// A tenant on one worker.
struct TenantMember {
    /// The identity that it was made for; 0 if the worker has not met the tenant.
    identity: u32,
    parent: usize,
    group: GroupId,
    /// The entity of its own tasks.
    leaf: EntityId,
    /// Its weight and latency, by the changes that were adopted last.
    params: Params,
    /// Started tasks that only this worker may run, by priority.
    started: [Chain<Task>; 3],
    /// The order of started and unstarted tasks.
    order: [PickShares; 3],
    pops: u32,
    /// Nanoseconds per op, as a moving average.
    rate: u64,
    /// Ready tasks of it and the tenants inside: on this worker, and on all.
    demand: (u32, u32),
}

/// The turn of a tenant.
struct TenantTurn {
    /// The tenant that runs; `None` between two turns.
    member: Option<usize>,
    /// Ops that it has used, without the run that is not over.
    used: u64,
    /// Ops after which it ends.
    ops: u64,
    /// The rest of the request at its beginning, in the unit of charges.
    rest: u64,
    /// The length of the requests of the tenant.
    slice: u32,
    began: Nanos,
    /// Picks since it began.
    picks: u32,
    /// A tenant that preempts was woken.
    preempted: bool,
    /// The time on the clock has reached the request.
    late: bool,
}

/// The tenants of one worker.
pub(super) struct FairWorker {
    worker: usize,
    charges: ChargeUnit,
    /// Picks in a turn between two looks at the clock.
    clock_interval: u32,
    fair: Fair,
    members: Box<[TenantMember]>,
    /// The tenant of a leaf, by the index of its entity.
    member_of: Box<[u16]>,
    /// The changes of weights that it has adopted.
    changes: u32,
    turn: TenantTurn,
    /// The task that was picked last.
    running: Option<NonNull<Task>>,
    /// Ops that were left in the turn of that task when its run began, or its turn.
    left: u64,
    /// Picks of the fair queue; every eighth also looks for tasks to steal.
    fair_picks: u32,
}

impl FairWorker {
    pub(super) fn new(
        worker: usize,
        charges: ChargeUnit,
        charging: Charging,
        tenants: usize,
    ) -> Option<FairWorker> {
        // A leaf and the entity of a group for each tenant, and as many debts of former tenants.
        let entities = 1 + 3 * tenants;
        let slots = boxed(entities, || Slot::EMPTY)?;
        let nodes = boxed(Node::needed(entities), || Node::EMPTY)?;
        let groups = boxed(tenants + 1, || GroupSlot::EMPTY)?;
        let limits = charges.limits();
        let mut fair = FairQueue::with_groups(slots, nodes, groups, limits).ok()?;
        let leaf = fair.add(GroupId::ROOT, Params::default()).ok()?;
        let member = || TenantMember {
            identity: 0,
            parent: 0,
            group: GroupId::ROOT,
            leaf,
            params: Params::default(),
            started: Default::default(),
            order: Default::default(),
            pops: 0,
            rate: FIRST_RATE,
            demand: (0, 0),
        };
        Some(FairWorker {
            worker,
            charges,
            clock_interval: match charging {
                Charging::Hybrid => CLOCK_INTERVAL,
                Charging::Exact => 1,
            },
            fair,
            members: boxed(tenants + 1, member)?,
            member_of: boxed(entities, || DEFAULT as u16)?,
            changes: 0,
            turn: TenantTurn {
                member: None,
                used: 0,
                ops: 0,
                rest: 0,
                slice: 0,
                began: 0,
                picks: 0,
                preempted: false,
                late: false,
            },
            running: None,
            left: 0,
            fair_picks: 0,
        })
    }

    /// Whether no task is here.
    pub(super) fn is_clean(&self) -> bool {
        self.members.iter().all(|member| member.started.iter().all(Chain::is_empty))
    }

    // ----- members ----------------------------------------------------------------------

    /// Makes sure that the entity of a tenant is that of the tenant which has the slot now.
    fn meet(&mut self, table: &TenantTable, tenant: usize) {
        let slot = &table.slots[tenant];
        // Relaxed: written before the first task of the tenant was queued, which the caller found.
        let identity = slot.identity.load(Ordering::Relaxed);
        if tenant == DEFAULT || self.members[tenant].identity == identity {
            return;
        }
        self.forget(tenant);
        let parent = slot.parent.load(Ordering::Relaxed) as usize; // as above
        self.meet(table, parent);
        let within = self.members[parent].group; // the root's, of the default entity
        let params = params_of(slot);
        let (group, leaf) = match self.enter(within, params) {
            Ok(entered) => entered,
            Err(_) => {
                // Debts of former tenants have taken the last slots.
                self.fair.forgive_removed();
                let entered = self.enter(within, params);
                entered.expect("a slot for each tenant, which was checked when it was opened")
            }
        };
        self.member_of[leaf.index()] = tenant as u16;
        let member = &mut self.members[tenant];
        (member.identity, member.parent, member.params) = (identity, parent, params);
        (member.group, member.leaf) = (group, leaf);
        (member.rate, member.pops, member.order) = (FIRST_RATE, 0, Default::default());
    }

    fn enter(&mut self, within: GroupId, params: Params) -> Result<(GroupId, EntityId), FairError> {
        let group = self.fair.add_group(within, params)?;
        let own = Params { weight: Weight::NORMAL, latency: params.latency };
        match self.fair.add(group, own) {
            Ok(leaf) => Ok((group, leaf)),
            Err(error) => {
                let _ = self.fair.remove_group(group); // it has no member
                Err(error)
            }
        }
    }

    /// Removes the entity of a tenant that no longer exists, and those of tenants inside. Its debt
    /// lingers.
    fn forget(&mut self, tenant: usize) {
        if self.members[tenant].identity == 0 {
            return;
        }
        debug_assert!(self.members[tenant].started.iter().all(Chain::is_empty), "it has ended");
        for inner in 1..self.members.len() {
            if self.members[inner].identity != 0 && self.members[inner].parent == tenant {
                self.forget(inner);
            }
        }
        if self.turn.member == Some(tenant) {
            self.turn.member = None; // its last turn was charged, or is not worth a charge
        }
        let member = &mut self.members[tenant];
        member.identity = 0;
        let removed = self.fair.remove(member.leaf).and(self.fair.remove_group(member.group));
        debug_assert_eq!(removed, Ok(()), "alone in its group");
    }

    /// Adopts changed weights and slices, and divides weights among workers by demand.
    fn adopt_changes(&mut self, table: &TenantTable) {
        let is_due = self.fair_picks.is_multiple_of(DEMAND_INTERVAL) && table.has_several_workers();
        let is_changed = table.changes() != self.changes && self.copy_params(table);
        if !is_changed && !is_due {
            return;
        }
        self.look_at_demand(table);
        let default = &self.members[DEFAULT];
        self.set_weight(default.leaf, divided(Weight::NORMAL, default.demand));
        for tenant in table.tenants() {
            let (member, slot) = (&self.members[tenant], &table.slots[tenant]);
            // Relaxed: a tenant that has just got the slot is met with its first task.
            if member.identity == 0 || member.identity != slot.identity.load(Ordering::Relaxed) {
                continue;
            }
            let Ok(entity) = self.fair.entity_of(member.group) else { continue };
            let (params, leaf) = (member.params, member.leaf);
            self.set_weight(entity, divided(params.weight, member.demand));
            for entity in [entity, leaf] {
                let _ = self.fair.set_latency(entity, params.latency); // checked when it was opened
            }
        }
    }

    /// Copies the weights and latencies of all tenants, as they are between two changes. False if a
    /// change is being made at this moment: then the end of the next turn sees it, whole.
    fn copy_params(&mut self, table: &TenantTable) -> bool {
        let whole = match table.registry.try_lock() {
            Ok(registry) => Some(registry),
            Err(TryLockError::Poisoned(registry)) => Some(registry.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if whole.is_none() {
            return false;
        }
        self.changes = table.changes();
        for tenant in table.tenants() {
            self.members[tenant].params = params_of(&table.slots[tenant]);
        }
        true
    }

    /// Reads how many tasks of each tenant were ready, here and on all workers.
    fn look_at_demand(&mut self, table: &TenantTable) {
        for tenant in 0..table.tenants().end {
            self.members[tenant].demand = table.ready(self.worker, tenant);
        }
        for tenant in table.tenants() {
            let (here, all) = table.ready(self.worker, tenant);
            let mut outer = self.members[tenant].parent;
            while self.members[tenant].identity != 0 && outer != DEFAULT {
                let demand = &mut self.members[outer].demand;
                *demand = (demand.0 + here, demand.1 + all);
                outer = self.members[outer].parent;
            }
        }
    }

    /// Gives an entity another weight, unless it is about the same.
    fn set_weight(&mut self, entity: EntityId, weight: Weight) {
        let is_near = |view: View| {
            let (old, new) = (view.weight.get(), weight.get());
            old == new || new != 1 && old.abs_diff(new) <= new / 16
        };
        if !self.fair.view(entity).is_ok_and(is_near) {
            let _ = self.fair.reweight(entity, weight); // it lives
        }
    }

    /// Makes a tenant runnable here; true if it preempts the one that runs.
    fn rouse(&mut self, tenant: usize) -> bool {
        // An error means that it is runnable already.
        matches!(self.fair.wake(self.members[tenant].leaf), Ok(Woken::Preempts))
            && self.turn.member.is_some()
    }

    /// Adds a started task that only this worker may run.
    ///
    /// # Safety
    ///
    /// The task is live, in no queue, the caller's to hand over, and one of this tenant.
    pub(super) unsafe fn add(
        &mut self,
        table: &TenantTable,
        tenant: usize,
        priority: Priority,
        task: NonNull<Task>,
    ) {
        self.meet(table, tenant);
        // SAFETY: as the caller says.
        unsafe { self.members[tenant].started[priority as usize].push_back(task) };
        if self.rouse(tenant) {
            self.preempt();
        }
    }

    /// Ends the turn at the next checkpoint of the task that runs.
    fn preempt(&mut self) {
        self.turn.preempted = true;
        if let Some(task) = self.running {
            // SAFETY: records live as long as the scheduler. The task may have ended; then the next
            // one in the record looks for nothing.
            unsafe { task.as_ref() }.signal.hint();
        }
    }

    /// Takes the next started task of a tenant, or `unstarted` one of its queue that all share.
    pub(super) fn pop(
        &mut self,
        tenant: usize,
        unstarted: impl Fn(Priority) -> usize,
        pop: impl Fn(Priority) -> Option<NonNull<Task>>,
    ) -> Option<NonNull<Task>> {
        use Priority::{High, Low, Normal};
        let member = &mut self.members[tenant];
        member.pops = member.pops.wrapping_add(1);
        // No priority starves another one.
        let reversed = member.pops.is_multiple_of(FAIRNESS);
        let order = if reversed { [Low, Normal, High] } else { [High, Normal, Low] };
        for priority in order {
            let (chain, order) =
                (&mut member.started[priority as usize], &mut member.order[priority as usize]);
            let started = chain.len();
            if started == 0 {
                *order = PickShares::default();
            } else if order.is_started_next(unstarted(priority), started) {
                return chain.pop_front();
            }
            if let Some(task) = pop(priority) {
                return Some(task);
            }
            if started > 0 {
                order.is_started_next(0, started);
                return chain.pop_front();
            }
        }
        None
    }

    // ----- turns ------------------------------------------------------------------------

    /// The tenant whose turn goes on.
    pub(super) fn goes_on(&mut self, now: impl FnOnce() -> Nanos) -> Option<usize> {
        let turn = &mut self.turn;
        let member = turn.member?;
        turn.picks += 1;
        if self.charges == ChargeUnit::Nanos && turn.picks.is_multiple_of(self.clock_interval) {
            turn.late = now().saturating_sub(turn.began) >= turn.rest;
        }
        let is_over = turn.preempted || turn.late || turn.used >= turn.ops;
        if is_over { None } else { Some(member) }
    }

    /// Ends the turn, and charges it.
    pub(super) fn end_turn(&mut self, table: &TenantTable, now: Nanos) {
        let Some(tenant) = self.turn.member.take() else { return };
        let (used, member) = (self.turn.used, &mut self.members[tenant]);
        let charge = match self.charges {
            ChargeUnit::Ops => used,
            ChargeUnit::Nanos => now.saturating_sub(self.turn.began),
        };
        if self.charges == ChargeUnit::Nanos && used > 0 {
            let rate = (charge << RATE_SHIFT) / used;
            let average = match member.rate {
                FIRST_RATE => rate, // a guess, which may be wrong by a thousand times
                old => old - (old >> RATE_WINDOW) + (rate >> RATE_WINDOW),
            };
            member.rate = average.clamp(*RATES.start(), *RATES.end());
        }
        let ready: usize = member.started.iter().map(Chain::len).sum();
        let charged = self.fair.charge(member.leaf, charge);
        debug_assert!(charged.is_ok(), "the tenant that runs");
        table.slots[tenant].account.add(charge, used, self.turn.preempted);
        // The tasks of the default entity are not counted here: it has run, so there was one.
        table.set_ready(self.worker, tenant, if tenant == DEFAULT { 1 } else { ready });
    }

    /// The worker has spent so much time on something else in the middle of a turn: the tenant is
    /// not charged for it.
    pub(super) fn spend_outside(&mut self, took: Nanos) {
        self.turn.began = self.turn.began.saturating_add(took);
    }

    /// Wakes the tenants that have a task in a queue that all workers share, and the default entity
    /// if it `has_default`.
    pub(super) fn look(&mut self, table: &TenantTable, has_default: impl FnOnce(bool) -> bool) {
        self.fair_picks = self.fair_picks.wrapping_add(1);
        self.adopt_changes(table);
        if has_default(self.fair_picks.is_multiple_of(8)) {
            self.rouse(DEFAULT);
        }
        for tenant in table.tenants() {
            if table.slots[tenant].queue.waiting() > 0 {
                self.meet(table, tenant);
                self.rouse(tenant);
            }
        }
    }

    /// Wakes the tenants that have a task in a queue that all workers share, in the middle of a
    /// turn.
    pub(super) fn look_at_queues(&mut self, table: &TenantTable) {
        for tenant in table.tenants() {
            if table.slots[tenant].queue.waiting() > 0 {
                self.meet(table, tenant);
                let preempts = self.rouse(tenant);
                if preempts {
                    self.turn.preempted = true;
                }
            }
        }
    }

    /// The tenant that runs next.
    pub(super) fn pick(&mut self) -> Option<usize> {
        let leaf = self.fair.pick()?;
        Some(usize::from(self.member_of[leaf.index()]))
    }

    /// The tenant that was picked has no task.
    pub(super) fn miss(&mut self, table: &TenantTable, tenant: usize) {
        table.set_ready(self.worker, tenant, 0);
        let missed = self.fair.miss(self.members[tenant].leaf);
        debug_assert_eq!(missed, Ok(()), "it was picked");
    }

    /// The tenant whose turn has ended has no task left here.
    pub(super) fn sleep(&mut self, table: &TenantTable, tenant: usize) {
        table.set_ready(self.worker, tenant, 0);
        let _ = self.fair.sleep(self.members[tenant].leaf); // an error: it sleeps already
    }

    /// The turn of the tenant that was picked begins.
    pub(super) fn begin_turn(&mut self, tenant: usize, now: Nanos) {
        let rest = self.fair.rest().max(1);
        let ops = match self.charges {
            ChargeUnit::Ops => rest,
            ChargeUnit::Nanos => (rest << RATE_SHIFT) / self.members[tenant].rate,
        };
        self.turn = TenantTurn {
            member: Some(tenant),
            used: 0,
            ops: ops.max(1),
            rest,
            slice: self.slice_of(tenant),
            began: now,
            picks: 0,
            preempted: false,
            late: false,
        };
    }

    /// The length of the requests of a tenant.
    fn slice_of(&self, tenant: usize) -> u32 {
        let view = self.fair.view(self.members[tenant].leaf);
        view.map_or(u32::MAX, |view| u32::try_from(view.slice).unwrap_or(u32::MAX))
    }

    /// A task of a tenant, or of the default entity, runs although the fair queue has found none.
    pub(super) fn begin_unpicked(&mut self, table: &TenantTable, tenant: usize, now: Nanos) {
        self.meet(table, tenant);
        self.rouse(tenant);
        if let Ok(Some(picked)) = self.fair.pick_preferring(self.members[tenant].leaf) {
            self.begin_turn(usize::from(self.member_of[picked.index()]), now);
        }
    }

    // ----- runs of tasks ----------------------------------------------------------------

    /// A task was picked, which has so many ops left in its turn.
    /// Returns the length of the requests of its tenant.
    pub(super) fn run_begins(&mut self, task: NonNull<Task>, left: u64) -> u32 {
        if self.running.is_some() {
            self.turn.used += LEAST_RUN; // the last task has ended, uncounted
        }
        (self.running, self.left) = (Some(task), left);
        self.turn.slice
    }

    /// The task that was picked leaves, with so many ops left in its turn.
    pub(super) fn run_ends(&mut self, left: u64) {
        let ran = self.left.saturating_sub(left);
        self.turn.used += ran.max(LEAST_RUN);
        (self.running, self.left) = (None, 0);
    }

    /// The running task begins a turn of at most so many ops. Returns how many it gets: no more
    /// than its tenant has left.
    pub(super) fn task_turn_begins(&mut self, most: u64) -> u64 {
        if self.turn.member.is_none() || self.running.is_none() {
            return most;
        }
        self.turn.used += self.left; // all of the last turn
        let rest = self.turn.ops.saturating_sub(self.turn.used);
        self.left = most.min(rest.max(LEAST_RUN));
        self.left
    }

    /// The running task has used ops beyond its turn.
    pub(super) fn overran(&mut self, ops: u64) {
        self.turn.used = self.turn.used.saturating_add(ops);
    }

    /// Whether the running task should let another tenant run.
    pub(super) fn is_preempted(&self) -> bool {
        self.turn.preempted && self.turn.member.is_some()
    }
}

/// The part of a weight for a worker that has so many of all ready tasks. A tenant with tasks on
/// several workers would have its share on each of them otherwise.
fn divided(weight: Weight, (here, all): (u32, u32)) -> Weight {
    let here = u64::from(here.max(1));
    let all = u64::from(all).max(here);
    let part = u64::from(weight.get()) * here / all;
    Weight::new(part as u32).unwrap_or(Weight::MIN)
}

/// The parameters of a tenant's entity.
fn params_of(slot: &TenantSlot) -> Params {
    // Relaxed: as `TenantSlot::identity`, or read under the lock of the registry.
    let (weight, slice) = (slot.weight.load(Ordering::Relaxed), slot.slice.load(Ordering::Relaxed));
    let weight = Weight::new(weight).unwrap_or_default(); // was one
    Params { weight, latency: Latency::Slice(slice.into()) }
}

#[cfg(all(test, not(loom)))]
mod tests;
