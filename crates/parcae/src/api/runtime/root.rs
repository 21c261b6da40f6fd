//! Root tasks: children of the runtime itself, which is their nursery.

use super::RuntimeInner;
use crate::base::error::{ContextRefused, Error, ErrorKind, IslandRefused, Result, discard};
use crate::sched::Shared;
use crate::sched::task::{Start, Task, TaskRef, Traits};
use crate::scope::budget::{Budget, BudgetPool, Ceiling, Resource, Slice};
use crate::scope::cancel::{CancelNode, CancelToken, OwnNode};
use crate::scope::cap::TaskPermit;
use crate::scope::cx::parking::Deadline;
use crate::scope::cx::{self, Cx, Frame, Origin, PoolOwner, TaskSettings};
use crate::scope::errand::Errand;
use crate::scope::join::{Joinable, with_place};
use crate::scope::life::{self, Birth, Leaving};
use crate::scope::nursery::{Account, NamedBudget, SpawnOpts};
use crate::scope::profile::Profile;
use crate::wait::{End, Ends, Polled, TaskEnd, Waiter};
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Runs a root task and waits for it.
#[track_caller]
pub(super) fn run<P: Profile, R: Send>(
    inner: &Arc<RuntimeInner>,
    opts: SpawnOpts,
    task: impl FnOnce(&Cx<P>) -> Result<R> + Send,
) -> Result<R> {
    if let Some(reason) = inner.settings.node.reason() {
        return Err(Error::cancelled(reason));
    }
    inner.engine.check_outside();
    check_unbound(&opts)?;
    let plan = Plan::new::<P>(inner, opts, None)?;
    let traits = plan.traits;
    let body = move |record, start| {
        let own_node = OwnNode::default();
        plan.carry_out(record, start, &own_node, task, |output| output)
    };
    inner.engine.run_task(traits, body)?
}

/// Starts a root task that belongs to the runtime; by a capability, if one is shown.
///
/// The usual task, without a budget of its own, costs one allocation: the [`RootSlot`] that it
/// shares with its handle. The slot keeps the settings, so that the worker touches no reference
/// count but the slot's; and the handle usually lets go of it last, so that it is freed by the
/// thread that allocated it.
#[track_caller]
pub(super) fn spawn<P: Profile, T: Send + 'static>(
    inner: &Arc<RuntimeInner>,
    opts: SpawnOpts,
    cap: Option<(Ceiling, TaskPermit)>,
    task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'static,
) -> Result<RootTask<T>> {
    if inner.settings.node.is_cancelled() {
        return Err(Error::new(ErrorKind::ShuttingDown));
    }
    check_unbound(&opts)?;
    if cap.is_some() || opts.budget.is_some() {
        return spawn_named(inner, opts, cap, task);
    }
    let settings = &inner.spawn_settings;
    let traits = opts.traits(settings.shared.usual_traits());
    let paid = pay_for_spawn(settings)?;
    let origin = Origin { name: opts.name, spawned_at: Location::caller() };
    let slot = RootSlot::new(settings, None, origin);
    let answer = Arc::clone(&slot);
    settings.shared.roots.spawned();
    let spawned = inner.engine.spawn_task(traits, move |record, start| {
        let settings = &*answer.settings;
        let account = settings.pool.draw(settings.grant, Resource::Ops);
        let (own_node, origin) = (Some(&answer.node), answer.origin.clone());
        let pool_owner = PoolOwner::Other;
        let birth =
            Birth { record, start, settings, account: &account, pool_owner, origin, own_node };
        let keep = |output| answer.keep(output);
        // SAFETY: this is the task; the slot outlives the call, and the account was drawn.
        let (output, leaving) = unsafe { live(birth, task, keep) };
        settings.shared.roots.ended();
        leaving.finish();
        if let Some(output) = output {
            answer.set(output);
        }
    });
    let (task, id) = spawned.inspect_err(|_| {
        settings.shared.roots.ended();
        if paid == PaidBy::Runtime {
            settings.pool.unspawn(Budget::ZERO);
        }
    })?;
    Ok(RootTask { slot, polled: Polled::default(), task, id })
}

/// Refuses to bind a root task to a context.
fn check_unbound(opts: &SpawnOpts) -> Result<()> {
    match opts.context {
        Some(_) => Err(Error::new(ErrorKind::ContextRefused(ContextRefused::Root))),
        None => Ok(()),
    }
}

/// As [`spawn`], with a budget of its own or by a capability.
#[track_caller]
fn spawn_named<P: Profile, T: Send + 'static>(
    inner: &Arc<RuntimeInner>,
    opts: SpawnOpts,
    cap: Option<(Ceiling, TaskPermit)>,
    task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'static,
) -> Result<RootTask<T>> {
    let (ceiling, permit) = cap.unzip();
    let plan = Plan::new::<P>(inner, opts, ceiling)?;
    let slot = RootSlot::new(&inner.settings, plan.loan.to.clone(), plan.origin.clone());
    let answer = Arc::clone(&slot);
    let (task, id) = inner.engine.spawn_task(plan.traits, move |record, start| {
        let keep = |output| answer.keep(output);
        let output = plan.carry_out(record, start, &answer.node, task, keep);
        drop(permit);
        if let Some(output) = output {
            answer.set(output);
        }
    })?;
    Ok(RootTask { slot, polled: Polled::default(), task, id })
}

/// The payer of a spawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PaidBy {
    /// The task that spawns.
    Task,
    /// The runtime's pool.
    Runtime,
}

/// Charges for the spawn of a root task. A root task is a child of the runtime, whose budget pays
/// for it. A task that spawns one pays for the spawn itself, as for a child. A task of another
/// runtime pays too, beside the budget of this one.
fn pay_for_spawn(settings: &TaskSettings) -> Result<PaidBy> {
    let here = cx::Here::new();
    let Some(frame) = here.frame() else {
        Errand::check_spawn(None)?;
        pay(settings)?;
        return Ok(PaidBy::Runtime);
    };
    frame.refuse_contained()?;
    frame.refuse_sealed(IslandRefused::Spawn)?;
    if Arc::ptr_eq(&frame.settings().shared, &settings.shared) {
        frame.charge(Budget::SPAWN)?;
        return Ok(PaidBy::Task);
    }
    pay(settings)?;
    frame.charge(Budget::SPAWN).inspect_err(|_| settings.pool.unspawn(Budget::ZERO))?;
    Ok(PaidBy::Runtime)
}

/// Runs a root task from beginning to end.
///
/// # Safety
///
/// As for [`life::live`].
unsafe fn live<P: Profile, R, K>(
    birth: Birth<'_>,
    task: impl FnOnce(&Cx<P>) -> Result<R>,
    keep: impl FnOnce(Result<R>) -> K,
) -> (K, Leaving) {
    let settings = birth.settings;
    if let Some(tally) = &settings.tally {
        tally.spawned();
    }
    let sign = |error, frame: &Frame| frame.sign(error);
    let keep = |_: &Frame, output, _| keep(output);
    // SAFETY: as the caller says.
    unsafe { life::live(birth, task, sign, keep) }
}

/// The prepared start of a root task with a budget of its own, or of one that is waited for.
struct Plan {
    settings: TaskSettings,
    /// Budget that was drawn for it.
    loan: Loan,
    origin: Origin,
    traits: Traits,
    counted: CountedRoot,
}

/// A root task that is counted until this is dropped.
struct CountedRoot(Arc<Shared>);

impl CountedRoot {
    fn new(shared: &Arc<Shared>) -> CountedRoot {
        shared.roots.spawned();
        CountedRoot(Arc::clone(shared))
    }
}

impl Drop for CountedRoot {
    fn drop(&mut self) {
        self.0.roots.ended();
    }
}

/// Budget that was moved from the runtime's pool to a root task. The rest returns on drop: after
/// the task, or if there was none.
struct Loan {
    from: Arc<BudgetPool>,
    /// The first account of the task.
    account: Budget,
    /// Where that is, if the task has a pool of its own.
    to: Option<Arc<BudgetPool>>,
    /// The task has run; if not, its spawn is paid back.
    used: bool,
    /// The payer of the spawn.
    paid: PaidBy,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut drawn = self.account;
        let mut left = drawn;
        if let Some(to) = &self.to {
            let closed = to.close();
            drawn.absorb(closed.topped_up);
            left = closed.left;
        } else if self.used {
            return; // given back by the task's frame
        }
        if !self.used && self.paid == PaidBy::Runtime {
            self.from.unspawn(Budget::ZERO);
        }
        self.from.settle(drawn, left);
    }
}

impl Plan {
    /// Plans a root task.
    #[track_caller]
    fn new<P: Profile>(
        inner: &RuntimeInner,
        opts: SpawnOpts,
        ceiling: Option<Ceiling>,
    ) -> Result<Plan> {
        let origin = Origin { name: opts.name.clone(), spawned_at: Location::caller() };
        let traits = opts.traits(inner.settings.shared.usual_traits());
        let mut settings = inner.settings.for_root();
        settings.grant = Slice::default_of(P::ROOT).under(settings.on_exhausted);
        let from = Arc::clone(&settings.pool);
        let own = NamedBudget::of(&settings, opts.budget, ceiling);
        let paid = pay_for_spawn(&settings)?;
        let mut loan = Loan { from, account: Budget::ZERO, to: None, used: false, paid };
        // Without a budget of its own, the task draws when it starts.
        if let Some(own) = own {
            let drawn = loan.from.draw(own.first, Resource::Ops);
            loan.account = drawn;
            own.check(drawn).map_err(Error::short)?;
            settings = settings.with_budget(own, drawn);
            loan.to = Some(Arc::clone(&settings.pool));
        }
        let counted = CountedRoot::new(&settings.shared);
        Ok(Plan { settings, loan, origin, traits, counted })
    }

    /// The task from beginning to end. `keep` is called with its result while it is still a task.
    fn carry_out<P: Profile, R, K>(
        self,
        record: NonNull<Task>,
        start: Start,
        own_node: &OwnNode,
        task: impl FnOnce(&Cx<P>) -> Result<R>,
        keep: impl FnOnce(Result<R>) -> K,
    ) -> K {
        let Plan { settings, mut loan, origin, counted, .. } = self;
        loan.used = true;
        let account = match loan.to {
            None => settings.pool.draw(settings.grant, Resource::Ops),
            Some(_) => settings.pool.draw_all(),
        };
        let (pool_owner, own_node, settings) = (PoolOwner::Other, Some(own_node), &settings);
        let account = &account;
        let birth = Birth { record, start, settings, account, pool_owner, origin, own_node };
        // SAFETY: this is the task; settings and node outlive the call, and the account was drawn.
        let (output, leaving) = unsafe { live(birth, task, keep) };
        drop((loan, counted));
        leaving.finish();
        output
    }
}

/// Charges the runtime's budget for the spawn of a root task. The accounts of ended children are
/// asked for before this gives up.
fn pay(settings: &TaskSettings) -> Result<()> {
    let paid = settings.pool.spawn(Budget::ZERO.into()).or_else(|_| {
        settings.shared.flush_deferred();
        settings.pool.spawn(Budget::ZERO.into())
    });
    paid.map(drop).map_err(Error::short)
}

/// A task that was started by a [`Handle`](super::Handle).
///
/// Dropping it lets the task run on.
pub struct RootTask<T> {
    slot: Arc<RootSlot<T>>,
    polled: Polled,
    task: TaskRef,
    /// Its number: for deadlock detection.
    id: u64,
}

/// The part of a root task that it shares with its handle, in one allocation. It outlives the
/// record, since a handle may outlive the scheduler.
struct RootSlot<T> {
    /// Set before the end is announced; taken once after it.
    output: Mutex<Option<Result<T>>>,
    end: End<Waiter>,
    /// The runtime's, and the task's own pool if it has one.
    settings: Arc<TaskSettings>,
    own: Option<Arc<BudgetPool>>,
    /// Its node, once the handle or the task needs it.
    node: OwnNode,
    origin: Origin,
}

impl<T> RootSlot<T> {
    fn new(
        settings: &Arc<TaskSettings>,
        own: Option<Arc<BudgetPool>>,
        origin: Origin,
    ) -> Arc<RootSlot<T>> {
        Arc::new(RootSlot {
            output: Mutex::new(None),
            end: End::new(),
            settings: Arc::clone(settings),
            own,
            node: OwnNode::default(),
            origin,
        })
    }

    /// Keeps the result for the handle. Without a handle the task drops it itself, because a
    /// destructor may wait.
    fn keep(self: &Arc<RootSlot<T>>, output: Result<T>) -> Option<Result<T>> {
        // The task's own count is the last when the handle is gone, and stays it.
        if Arc::strong_count(self) > 1 {
            return Some(output);
        }
        discard(output);
        None
    }

    fn set(&self, output: Result<T>) {
        *self.output.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
        self.end.notify();
    }

    /// The result of a task that has ended, for the first caller.
    fn take(&self) -> Option<Result<T>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> RootTask<T> {
    /// Waits until the task has ended and returns its result. On a task this parks the task, and is
    /// a cancel point; elsewhere it blocks the thread.
    ///
    /// Under the deterministic executor, the thread that built the runtime has to
    /// [run](super::Runtime::run) something meanwhile: no other thread does the work.
    ///
    /// # Errors
    ///
    /// The error of the task, or the cancellation of the caller.
    ///
    /// # Panics
    ///
    /// If it was polled until it was ready: the result is gone then.
    pub fn join(self) -> Result<T> {
        self.wait_until(Deadline::Never)?;
        self.take()
    }

    /// As [`join`](RootTask::join) with a timeout, after which it returns the handle.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let task = rt.spawn(|cx| loop { cx.checkpoint()? } as parcae::Result<()>)?;
    /// let task = task.join_timeout(Duration::from_millis(1)).unwrap_err(); // not yet
    /// task.cancel();
    /// assert!(task.join().unwrap_err().is_cancelled());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The handle, if the time is up.
    pub fn join_timeout(self, time: Duration) -> Result<Result<T>, RootTask<T>> {
        self.take_within(time)
    }

    /// The result if the task has ended, or the handle again. Not a checkpoint: a polling loop
    /// needs one of its own.
    ///
    /// # Errors
    ///
    /// The handle, if the task has not ended.
    pub fn try_join(self) -> Result<Result<T>, RootTask<T>> {
        self.try_take()
    }

    fn take(&self) -> Result<T> {
        let output = self.slot.take().expect("the result was taken by a poll");
        let at = self.slot.node.get().and_then(|node| node.detail());
        output.map_err(|error| with_place(error, at))
    }

    /// Asks the task, and all that it has spawned, to end.
    #[track_caller]
    pub fn cancel(&self) {
        self.node().cancel_at(Location::caller());
    }

    /// The budget that the task draws on: its own, or the runtime's. It recharges a task that is
    /// suspended, by the authority of a [`CapBudget`](crate::cap::CapBudget).
    pub fn account(&self) -> Account {
        let RootSlot { settings, own, .. } = &*self.slot;
        Account::of(settings, own.as_ref().unwrap_or(&settings.pool))
    }

    /// The token that cancels the task.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(self.node())
    }

    fn node(&self) -> &Arc<CancelNode> {
        let RootSlot { settings, node, .. } = &*self.slot;
        node.of(self.task, &settings.shared, &settings.node)
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.slot.end.has_ended()
    }
}

/// For async code on any executor: ready with the task's result when the task has ended. Dropping
/// it detaches the task.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// let task = rt.spawn(|_| Ok(6))?;
/// let answer = async { Ok::<_, parcae::Error>(7 * task.await?) };
/// assert_eq!(parcae::block_on(answer)??, 42);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Panics
///
/// If it is polled again after it was ready.
impl<T> Future for RootTask<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        if this.polled.poll(&this.slot.end, context.waker()) {
            Poll::Ready(this.take())
        } else {
            Poll::Pending
        }
    }
}

impl<T> Drop for RootTask<T> {
    fn drop(&mut self) {
        self.polled.withdraw(&self.slot.end);
    }
}

impl<T> Ends for RootTask<T> {
    fn has_ended(&self) -> bool {
        self.is_finished()
    }

    fn end(&self) -> TaskEnd<'_> {
        TaskEnd(&self.slot.end)
    }
}

impl<T> Joinable for RootTask<T> {
    type Value = T;

    fn identity(&self) -> (u64, &Arc<Shared>) {
        (self.id, &self.slot.settings.shared)
    }

    fn take_result(self) -> Result<T> {
        self.take()
    }
}

impl<T> fmt::Debug for RootTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootTask").field("finished", &self.is_finished()).finish()
    }
}
