//! From a closure to a task that runs and leaves its result.

use super::spawn_opts::NamedBudget;
use super::{
    ChildCost, Nursery, NurseryCore, NurseryEvent, OnFailure, Paid, SpawnOpts, TaskHandle,
};
use crate::base::error::{Error, ErrorKind, IslandRefused, Rank, Result, discard};
use crate::base::reason::CancelReason;
use crate::sched::task::group::Group;
use crate::sched::task::state::RecordHandle;
use crate::sched::task::{Outcome, Placement, Start, Task, TaskRef, Traits};
use crate::sched::worker;
use crate::scope::budget::{Budget, Ceiling};
use crate::scope::cancel::OnCancel;
use crate::scope::cap::{CapSpawn, ContextNode, TaskPermit};
use crate::scope::cx::{self, Cx, Frame, Origin, PoolOwner, TaskSettings};
use crate::scope::errand::Errand;
use crate::scope::life::{self, Birth, Ending, Leaving};
use crate::scope::profile::{Profile, Sovereign, Spawns, SpawnsFreely};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

impl<'scope, P: SpawnsFreely> Nursery<'scope, '_, P> {
    /// Spawns a child.
    ///
    /// The handle gives the child's result to the caller of [`join`](TaskHandle::join). It may be
    /// dropped: the child runs nevertheless, and the nursery waits for it.
    ///
    /// Not a checkpoint: a loop of spawns needs one of its own. A task that was lent the nursery
    /// and has a budget of its own pays for the spawn, too.
    ///
    /// # Errors
    ///
    /// If the nursery is cancelled, or there is no budget or no memory for another child.
    #[track_caller]
    #[inline]
    pub fn spawn<T, F>(&'scope self, child: F) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    {
        self.start((), child)
    }

    /// Spawns a child with options: a name, a priority, a stack size, a budget of its own.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let error = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let opts = SpawnOpts::new()
    ///             .name("parser")
    ///             .budget(Budget { ops: 100, ..Budget::UNLIMITED });
    ///         n.spawn_with(opts, |cx| cx.forever(|| Ok(())))?.join()
    ///     })
    /// }).unwrap_err();
    /// assert_eq!(error.task().and_then(|task| task.name()), Some("parser"));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Nursery::spawn), and if the nursery has less than the budget that the
    /// options name.
    #[track_caller]
    pub fn spawn_with<T, F>(
        &'scope self,
        opts: SpawnOpts,
        child: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    {
        self.start_with(opts, None, child)
    }
}

impl<'scope> Nursery<'scope, '_, Sovereign> {
    /// Spawns a child under a capability.
    ///
    /// The child draws on the nursery like its siblings, under the same policy, up to the
    /// capability's `task_budget` in all. The children that it spawns in turn draw on the same
    /// amount. It may spawn as often as the `task_budget` says.
    ///
    /// ```
    /// use parcae::cap::{Delegation, SpawnLimits};
    /// use parcae::profile::Sovereign;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().profile::<Sovereign>().build()?;
    /// let limits = SpawnLimits { max_tasks: 8, task_budget: Budget::CHILD.with_spawn_count(3) };
    /// let cap = rt.cap_spawn(limits, Delegation::Forbidden);
    /// let error = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         // Nested, by the same capability.
    ///         n.spawn(&cap, |cx| cx.nursery(|n| n.spawn(&cap, |_| Ok(()))?.join()))?.join()?;
    ///         n.spawn(&cap, |cx| cx.forever(|| Ok(())))?.join()
    ///     })
    /// }).unwrap_err();
    /// let text = error.to_string();
    /// assert!(text.contains("capability #1, whose `task_budget` is its whole budget"));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the capability is revoked or has no place left; otherwise as in the other profiles.
    #[track_caller]
    pub fn spawn<T, F>(&'scope self, cap: &CapSpawn, child: F) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<Sovereign>) -> Result<T> + Send + 'scope,
    {
        if cap.task_budget() != Budget::UNLIMITED {
            return self.spawn_with(cap, SpawnOpts::new(), child);
        }
        cap.check_issuer(&self.core.settings.issuer)?;
        self.start(cap.admit()?, child)
    }

    /// Like [`spawn`](Nursery::spawn), with options. A budget is lowered to the limit of the
    /// capability.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Nursery::spawn).
    #[track_caller]
    pub fn spawn_with<T, F>(
        &'scope self,
        cap: &CapSpawn,
        opts: SpawnOpts,
        child: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<Sovereign>) -> Result<T> + Send + 'scope,
    {
        self.start_with(opts, Some(self.authorize(cap)?), child)
    }
}

/// The authority to spawn a child, kept until the child has ended.
pub(crate) trait Authority: Send {
    fn into_permit(self) -> Option<TaskPermit>;
}

/// The profile's.
impl Authority for () {
    fn into_permit(self) -> Option<TaskPermit> {
        None
    }
}

impl Authority for TaskPermit {
    fn into_permit(self) -> Option<TaskPermit> {
        Some(self)
    }
}

/// Start data of a child with options or with another account, except its closure.
pub(super) struct Extra {
    pub(super) origin: Origin,
    pub(super) account: Budget,
    /// A budget of its own.
    pub(super) own: Option<TaskSettings>,
    pub(super) permit: Option<TaskPermit>,
    /// The context that it is bound to alone, kept until it has ended; and what cancels it then.
    pub(super) bound: Option<(Arc<ContextNode>, OnCancel)>,
}

/// How a child is scheduled.
#[derive(Clone, Copy)]
pub(super) struct Scheduling {
    traits: Traits,
    placement: Placement,
}

impl Scheduling {
    /// As the nursery says.
    #[inline(always)]
    pub(super) fn of(core: &NurseryCore) -> Scheduling {
        Scheduling { traits: core.traits, placement: Placement::Any }
    }
}

impl<'scope, P: Spawns> Nursery<'scope, '_, P> {
    /// A permit for one task under a capability, and the limits of the task.
    pub(crate) fn authorize(&self, cap: &CapSpawn) -> Result<(Ceiling, TaskPermit)> {
        cap.check_issuer(&self.core.settings.issuer)?;
        let permit = cap.admit()?;
        Ok((cap.ceiling(), permit))
    }

    /// The usual child: its record's first line has room for two words, the place where it was
    /// spawned and one that it captures, or a permit.
    #[track_caller]
    #[inline]
    pub(crate) fn start<T, F>(
        &'scope self,
        by: impl Authority,
        child: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    {
        self.core.check_open()?;
        let spawned_at = Location::caller();
        match self.core.pay(spawned_at)? {
            Paid::Default => {}
            Paid::Other(account) => {
                let origin = Origin { name: None, spawned_at };
                let permit = by.into_permit();
                let extra = Extra { origin, account, own: None, permit, bound: None };
                return self.start_extended(Scheduling::of(&self.core), extra, child);
            }
            Paid::Named => {
                return self.start_named(SpawnOpts::new(), None, by.into_permit(), child);
            }
        }
        let grant = &self.core.settings.default_grant;
        let task = self.submit(Scheduling::of(&self.core), grant, move |record, start| {
            // SAFETY: a child of this nursery.
            let core = unsafe { NurseryCore::of(record) };
            let (settings, origin) = (&core.settings, Origin { name: None, spawned_at });
            let (account, pool_owner) = (&settings.default_grant, PoolOwner::Nursery);
            let birth =
                Birth { record, start, settings, account, pool_owner, origin, own_node: None };
            // SAFETY: the task itself; the settings are the nursery's, and the account was paid.
            unsafe { run::<P, T, F>(birth, core, child) };
            drop(by);
        })?;
        Ok(TaskHandle::new(task, &self.core, None))
    }

    #[track_caller]
    pub(crate) fn start_with<T, F>(
        &'scope self,
        opts: SpawnOpts,
        cap: Option<(Ceiling, TaskPermit)>,
        child: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    {
        self.core.check_open()?;
        if self.core.child_cost == ChildCost::Watched {
            self.core.point_of_spawn(Location::caller())?;
        }
        let (ceiling, permit) = cap.unzip();
        self.start_named(opts, ceiling, permit, child)
    }

    /// A child with options, or with a budget of its own.
    #[track_caller]
    fn start_named<T, F>(
        &'scope self,
        opts: SpawnOpts,
        ceiling: Option<Ceiling>,
        permit: Option<TaskPermit>,
        child: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    {
        let (how, extra) = self.named(opts, ceiling, permit)?;
        self.start_extended(how, extra, child)
    }

    /// Pays for a child with options, or with a budget of its own.
    #[track_caller]
    pub(super) fn named(
        &self,
        opts: SpawnOpts,
        ceiling: Option<Ceiling>,
        permit: Option<TaskPermit>,
    ) -> Result<(Scheduling, Extra)> {
        let (core, settings) = (&self.core, &self.core.settings);
        if let Some(context) = &opts.context {
            context.bind(&settings.issuer)?;
        }
        // One that is bound by itself has settings of its own, hence a pool.
        let drawing = opts.context.as_ref().map(|_| Budget::UNLIMITED);
        let budget = opts.budget.or(core.child_budget).or(drawing);
        let own = NamedBudget::of(settings, budget, ceiling);
        let first = own.map_or(settings.grant, |own| own.first);
        let account = core.or_ask_all(|| settings.pool.spawn(first))?;
        let mut own = own.map(|own| settings.with_budget(own, account));
        let bound = match (&mut own, opts.context.clone()) {
            (Some(own), Some(context)) => {
                let follow = own.bind(&context);
                Some((context, follow))
            }
            _ => None,
        };
        let traits = opts.traits(core.traits);
        let how = Scheduling { traits, placement: opts.placement };
        let origin = Origin { name: opts.name, spawned_at: Location::caller() };
        Ok((how, Extra { origin, account, own, permit, bound }))
    }

    fn start_extended<T, F>(
        &'scope self,
        how: Scheduling,
        extra: Extra,
        child: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    {
        let account = extra.account;
        let pool = extra.own.as_ref().map(|own| Arc::clone(&own.pool));
        let extra = Box::new(extra);
        let task = self.submit(how, &account, move |record, start| {
            // SAFETY: a child of this nursery.
            let core = unsafe { NurseryCore::of(record) };
            let Extra { origin, account, own, permit, bound } = *extra;
            match own {
                None => {
                    let (settings, pool_owner) = (&core.settings, PoolOwner::Nursery);
                    let birth = Birth {
                        record,
                        start,
                        settings,
                        account: &account,
                        pool_owner,
                        origin,
                        own_node: None,
                    };
                    // SAFETY: the task itself; the settings are the nursery's, and the account was
                    // paid.
                    unsafe { run_extended::<P, T, F>(birth, core, child) };
                }
                Some(own) => {
                    let (all, pool_owner) = (own.pool.draw_all(), PoolOwner::Other);
                    let settings = &own;
                    let birth = Birth {
                        record,
                        start,
                        settings,
                        account: &all,
                        pool_owner,
                        origin,
                        own_node: None,
                    };
                    // SAFETY: the task itself; the settings outlive the call, and all was drawn.
                    unsafe { run_extended::<P, T, F>(birth, core, child) };
                    settle_own(core, &own, account);
                }
            }
            drop((permit, bound));
        })?;
        Ok(TaskHandle::new(task, &self.core, pool))
    }

    /// Puts a child into a queue, which has been paid for with `account`.
    #[inline]
    pub(super) fn submit<F>(&self, how: Scheduling, account: &Budget, closure: F) -> Result<TaskRef>
    where
        F: FnOnce(NonNull<Task>, Start) + Send,
    {
        let core = NonNull::from(&self.core).cast::<Group>();
        let group = &self.core.group;
        let spawned = worker::with_current_of(&self.core.settings.shared, |here| {
            let Some(worker) = here.filter(|worker| worker.runs(group.owner())) else {
                return self.submit_as_guest(how, closure);
            };
            let Scheduling { traits, placement } = how;
            // SAFETY: the nursery waits for the child, which therefore does not outlive 'scope.
            let spawned =
                unsafe { worker.spawn(Some(core), traits, placement, RecordHandle::Held, closure) };
            // Counted when it is certain; the bias covers a child that has ended already.
            spawned.inspect(|_| group.add()).map_err(|_| Error::new(ErrorKind::OutOfMemory))
        });
        match spawned {
            Ok(task) => {
                if let Some(tally) = &self.core.settings.tally {
                    tally.spawned();
                }
                Ok(task)
            }
            Err(error) => {
                self.core.settings.pool.unspawn(*account);
                Err(error)
            }
        }
    }

    /// As `submit`, for another task or thread than the owner: a child, or a thread that the owner
    /// waits for, or that owns the nursery itself (`foreign`). A task whose budget is not the
    /// nursery's pays for the spawn too: lending it the nursery does not lend it the right to
    /// spawn.
    #[cold]
    fn submit_as_guest<F>(&self, how: Scheduling, closure: F) -> Result<TaskRef>
    where
        F: FnOnce(NonNull<Task>, Start) + Send,
    {
        let Scheduling { traits, placement } = how;
        let core = NonNull::from(&self.core).cast::<Group>();
        let (pool, shared) = (&*self.core.settings.pool, &self.core.settings.shared);
        let place = cx::Here::new();
        match place.frame() {
            Some(frame) if !Arc::ptr_eq(frame.pool(), pool) => {
                frame.refuse_contained()?;
                frame.refuse_sealed(IslandRefused::Spawn)?;
                frame.charge(Budget::SPAWN)?;
            }
            Some(_) => {}
            None => {
                let nursery = Some((self.core.group.owner(), pool));
                Errand::check_spawn(nursery)?;
            }
        }
        self.core.group.add_shared();
        // Asked for now: the task may have waited to pay, and moved.
        let spawned = worker::with_current_of(shared, |here| match here {
            Some(worker) => {
                // SAFETY: the nursery waits for the child, which therefore does not outlive 'scope.
                unsafe { worker.spawn(Some(core), traits, placement, RecordHandle::Held, closure) }
                    .map_err(|_| Error::new(ErrorKind::OutOfMemory))
            }
            None => {
                // SAFETY: as above.
                unsafe { shared.spawn_outside_as(Some(core), traits, RecordHandle::Held, closure) }
                    .map_err(|refused| Error::new(ErrorKind::from(refused)))
            }
        });
        spawned.inspect_err(|_| self.core.group.sub_shared())
    }
}

/// Returns the rest of a budget of its own, of which `account` was paid, when its child has ended.
pub(super) fn settle_own(core: &NurseryCore, own: &TaskSettings, account: Budget) {
    let closed = own.pool.close();
    let mut drawn = account;
    drawn.absorb(closed.topped_up);
    core.settings.pool.settle(drawn, closed.left);
}

/// As [`run`], for children with options, or with another account. Out of line, so that there are
/// two copies of it for each closure, and not one for each way to start.
///
/// # Safety
///
/// As for [`run`].
#[inline(never)]
unsafe fn run_extended<P: Profile, T, F>(birth: Birth<'_>, core: &NurseryCore, child: F)
where
    F: FnOnce(&Cx<P>) -> Result<T>,
{
    // SAFETY: as the caller says.
    unsafe { run(birth, core, child) }
}

/// Runs a child from beginning to end, and leaves its result in its record.
///
/// In optimised builds it is inlined into the call of the usual child, where most of its `Birth` is
/// constant; in others the frames of large closures and results stay apart.
///
/// # Safety
///
/// As for [`life::live`]; the task is a child of the nursery with this core.
#[cfg_attr(not(debug_assertions), inline(always))]
unsafe fn run<P: Profile, T, F>(birth: Birth<'_>, core: &NurseryCore, child: F)
where
    F: FnOnce(&Cx<P>) -> Result<T>,
{
    let record = birth.record;
    let keep = |frame: &Frame, output, ending| keep(core, frame, output, ending);
    let sign = |error, frame: &Frame| core.sign(error, frame);
    // SAFETY: as the caller says.
    let (kept, leaving) = unsafe { life::live(birth, child, sign, keep) };
    // SAFETY: as the caller says; it does not wait any more.
    unsafe { leave_result(record, kept, leaving) };
}

/// The result of a child, if it has a taker; and a failure of the runtime while it was kept.
pub(super) struct KeptResult<T> {
    output: Option<Result<T>>,
    told: std::thread::Result<()>,
}

/// Applies the failure policy to the result of a child, which the running task is, and keeps the
/// result for its taker.
#[inline]
pub(super) fn keep<T>(
    core: &NurseryCore,
    frame: &Frame,
    output: Result<T>,
    ending: Ending,
) -> KeptResult<T> {
    // Asked once: if the handle goes after that, `unheard` is called.
    let held = frame.record().state.is_held();
    let told = catch_unwind(AssertUnwindSafe(|| {
        if let Err(error) = &output
            && ending == Ending::Failed
        {
            failed(core, frame, held, error);
        }
    }));
    // A result without a taker is dropped while the task is still one, and may wait.
    let output = if held {
        Some(output)
    } else {
        discard(output);
        None
    };
    KeptResult { output, told }
}

/// Leaves the result of a child in its record.
///
/// # Safety
///
/// The caller is the task, which has left its frame and does not wait any more.
#[inline]
pub(super) unsafe fn leave_result<T>(record: NonNull<Task>, kept: KeptResult<T>, leaving: Leaving) {
    let KeptResult { output, told } = kept;
    if let Some(output) = output {
        // SAFETY: the running task: its record is its own, its closure was moved out of it, and it
        // does not wait any more.
        unsafe { Task::put_output(record, output, unheard::<T>) };
    }
    // Failures of the runtime: now that there is a result.
    leaving.finish();
    if let Err(payload) = told {
        resume_unwind(payload);
    }
}

/// Applies the failure policy of the nursery.
#[cold]
fn failed(core: &NurseryCore, frame: &Frame, held: bool, error: &Error) {
    match core.on_failure {
        OnFailure::FailFast => {
            core.failed(error.clone());
            if error.rank() != Rank::Late {
                core.cancel(CancelReason::Failure);
            }
        }
        // The holder of the handle gets the error.
        _ if held => {}
        _ => core.failed(error.clone()),
    }
    // Last: it may wait, and neither the siblings nor the order of failures wait for it.
    if let Some(hook) = &core.on_event {
        let event = NurseryEvent::Failed { error: error.clone() };
        frame.run_hook(|| hook.call(&event));
    }
}

/// Drops a result whose handle was dropped between the child's last check and its end.
///
/// # Safety
///
/// The record of a child that has ended and is not counted, with a `Result<T>` in it.
unsafe fn unheard<T>(task: NonNull<Task>, _: Start) -> Outcome {
    // SAFETY: as the caller says.
    let (core, output) = unsafe { (NurseryCore::of(task), Task::take_output::<Result<T>>(task)) };
    if let Err(error) = &output
        && core.on_failure != OnFailure::FailFast
        && !error.ends_cancelled()
    {
        core.failed(error.clone());
    }
    catch_unwind(AssertUnwindSafe(|| drop(output)))
}
