//! From a closure to a task that runs and leaves its result.

use super::opts::Own;
use super::{Core, Nursery, OnFailure, Paid, SpawnOpts, TaskHandle};
use crate::budget::{Budget, Ceiling};
use crate::cancel::CancelReason;
use crate::cap::{CapSpawn, TaskPermit};
use crate::cx::{Cx, Frame, Kinship, Origin, Terms};
use crate::error::{Error, ErrorKind, Result, discard};
use crate::profile::{Profile, Sovereign, Spawns, SpawnsFreely};
use crate::stats::End;
use crate::task::group::Group;
use crate::task::state::Handle as Held;
use crate::task::{Outcome, Start, Task, TaskRef, Traits};
use crate::worker;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

impl<'scope, P: SpawnsFreely> Nursery<'scope, '_, P> {
    /// Spawns a child.
    ///
    /// The handle gives the child's result to whoever [joins](TaskHandle::join) it. It may be
    /// dropped: the child runs all the same, and the nursery waits for it.
    ///
    /// # Errors
    ///
    /// If the nursery was cancelled, or there is no budget for another child, or no memory.
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
    ///     cx.nursery_with(NurseryOpts::new().on_exhausted(OnExhausted::Fail), |n| {
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
    /// Spawns a child by the authority of a capability.
    ///
    /// The child gets what other children of the nursery get, and more of it as the nursery's
    /// policy says, but in all no more than the capability's `task_budget`; so do the children that it spawns in turn, all
    /// together. It may spawn, as often as the `task_budget` says.
    ///
    /// ```
    /// use parcae::cap::{Delegation, SpawnLimits};
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().profile::<Sovereign>().build()?;
    /// let limits = SpawnLimits { max_tasks: 8, task_budget: Budget::CHILD.with_spawn_count(3) };
    /// let cap = rt.cap_spawn(limits, Delegation::Forbidden);
    /// let error = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         n.spawn(&cap, |cx| cx.nursery(|n| n.spawn(&cap, |_| Ok(()))?.join()))?.join()?; // nested, by the same
    ///         n.spawn(&cap, |cx| cx.forever(|| Ok(())))?.join()
    ///     })
    /// }).unwrap_err();
    /// assert!(error.to_string().contains("under spawn capability #1, whose `task_budget` is all"));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the capability was revoked or has as many tasks as it allows; and as in the other
    /// profiles.
    #[track_caller]
    pub fn spawn<T, F>(&'scope self, cap: &CapSpawn, child: F) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<Sovereign>) -> Result<T> + Send + 'scope,
    {
        if cap.task_budget() != Budget::UNLIMITED {
            return self.spawn_with(cap, SpawnOpts::new(), child);
        }
        cap.check_issuer(&self.core.terms.issuer)?;
        self.start(cap.admit()?, child)
    }

    /// As [`spawn`](Nursery::spawn), with options. A budget is lowered to what the capability
    /// allows for a task, and is refilled up to that.
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

/// What a child is spawned by, and keeps until it has ended.
pub(super) trait Authority: Send {
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

/// What an unusual child starts with, beside its closure.
struct Extra {
    origin: Origin,
    account: Budget,
    /// A budget of its own.
    own: Option<Terms>,
    permit: Option<TaskPermit>,
}

impl<'scope, P: Spawns> Nursery<'scope, '_, P> {
    /// A place for one task under a capability, and what bounds it.
    pub(super) fn authorize(&self, cap: &CapSpawn) -> Result<(Ceiling, TaskPermit)> {
        cap.check_issuer(&self.core.terms.issuer)?;
        let permit = cap.admit()?;
        Ok((cap.ceiling(), permit))
    }

    /// The usual child: its record's first line has room for two words, the place where it was
    /// spawned and one that it captures, or a permit.
    #[track_caller]
    #[inline]
    pub(super) fn start<T, F>(
        &'scope self,
        by: impl Authority,
        child: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    {
        let terms = &self.core.terms;
        self.check_open()?;
        let spawned_at = Location::caller();
        if let Paid::Other(account) = self.core.pay()? {
            // Not what is usual: that has to be noted.
            let origin = Origin { name: None, spawned_at };
            let extra = Extra { origin, account, own: None, permit: by.into_permit() };
            return self.start_unusual(self.core.traits, extra, child);
        }
        let task = self.submit(self.core.traits, &terms.usual, move |task, start| {
            // SAFETY: a child of this nursery.
            let core = unsafe { Core::of(task) };
            let (terms, origin) = (&core.terms, Origin { name: None, spawned_at });
            run::<P, T, F>(task, start, core, Kinship::Child, terms, terms.usual, origin, child);
            drop(by);
        })?;
        Ok(TaskHandle::new(task, &self.core, None))
    }

    #[track_caller]
    pub(super) fn start_with<T, F>(
        &'scope self,
        opts: SpawnOpts,
        cap: Option<(Ceiling, TaskPermit)>,
        child: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: FnOnce(&Cx<P>) -> Result<T> + Send + 'scope,
    {
        let terms = &self.core.terms;
        self.check_open()?;
        self.core.refund();
        let (ceiling, permit) = cap.unzip();
        let own = Own::of(terms, opts.budget, ceiling);
        let account = terms.pool.spawn(own.map_or(terms.grant, |own| own.first));
        let account = account.map_err(|short| self.core.short(short))?;
        if let Err(short) = own.map_or(Ok(()), |own| own.check(account)) {
            terms.pool.unspawn(account, 1);
            return Err(self.core.short(short));
        }
        let own = own.map(|own| terms.with_budget(own, account));
        let traits = opts.traits(self.core.traits);
        let origin = Origin { name: opts.name, spawned_at: Location::caller() };
        self.start_unusual(traits, Extra { origin, account, own, permit }, child)
    }

    fn start_unusual<T, F>(
        &'scope self,
        traits: Traits,
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
        let task = self.submit(traits, &account, move |task, start| {
            // SAFETY: a child of this nursery.
            let core = unsafe { Core::of(task) };
            let Extra { origin, account, own, permit } = *extra;
            match own {
                None => {
                    let terms = &core.terms;
                    run::<P, T, F>(
                        task,
                        start,
                        core,
                        Kinship::Child,
                        terms,
                        account,
                        origin,
                        child,
                    );
                }
                Some(own) => {
                    let all = own.pool.draw_all();
                    run::<P, T, F>(task, start, core, Kinship::Apart, &own, all, origin, child);
                    let closed = own.pool.close();
                    let mut drawn = account;
                    drawn.absorb(closed.topped_up);
                    core.terms.pool.settle(drawn, closed.left);
                }
            }
            drop(permit);
        })?;
        Ok(TaskHandle::new(task, &self.core, pool))
    }

    /// Puts a child into a queue, which has been paid for with `account`.
    #[inline]
    fn submit<F>(&self, traits: Traits, account: &Budget, closure: F) -> Result<TaskRef>
    where
        F: FnOnce(NonNull<Task>, Start) + Send,
    {
        let core = NonNull::from(&self.core).cast::<Group>();
        // Only the owner: others on its thread would not be counted after `close`.
        let owner = self.core.group.owner();
        let here = worker::current_of(&self.core.terms.shared).filter(|w| w.runs(owner));
        let spawned = match here {
            // SAFETY: the nursery waits for the child, which therefore does not outlive 'scope.
            Some(worker) => unsafe { worker.spawn(Some(core), traits, Held::Held, closure) }
                .map_err(|_| ErrorKind::OutOfMemory),
            // SAFETY: as above; the thread that owns the nursery waits.
            None if self.owner.is_none() => unsafe {
                let shared = &self.core.terms.shared;
                shared.spawn_outside_as(Some(core), traits, Held::Held, closure)
            }
            .map_err(ErrorKind::from),
            None => Err(ErrorKind::NurseryNotActive),
        };
        match spawned {
            Ok(task) => {
                // Counted when it is certain; the bias covers a child that has ended already.
                self.core.group.add();
                if let Some(tally) = &self.core.terms.tally {
                    tally.spawned();
                }
                Ok(task)
            }
            Err(kind) => {
                self.core.terms.pool.unspawn(*account, 1);
                Err(Error::new(kind))
            }
        }
    }

    #[inline]
    fn check_open(&self) -> Result<()> {
        if self.core.terms.node.is_cancelled() { Err(self.not_open()) } else { Ok(()) }
    }

    #[cold]
    fn not_open(&self) -> Error {
        let reason = self.core.terms.node.reason();
        reason.map_or_else(|| Error::new(ErrorKind::NurseryNotActive), Error::cancelled)
    }
}

/// Runs a child from beginning to end: everything that is its own is gone when this returns,
/// but for its result.
#[inline]
#[allow(clippy::too_many_arguments)] // what differs between the ways to spawn
fn run<P: Profile, T, F>(
    task: NonNull<Task>,
    start: Start,
    core: &Core,
    kinship: Kinship,
    terms: &Terms,
    account: Budget,
    origin: Origin,
    child: F,
) where
    F: FnOnce(&Cx<P>) -> Result<T>,
{
    // SAFETY: the terms outlive the frame; the account was drawn for it; this is the task.
    let cx: Cx<P> = Cx::new(unsafe { Frame::new(task, terms, account, kinship, origin) });
    let frame = cx.frame();
    frame.enter();
    let refused = match start {
        Start::Run => frame.check_cancelled(), // before its first run it ends without one
        Start::Refused(error) => Err(Error::new(ErrorKind::NoStack(error))),
    };
    let output = catch_unwind(AssertUnwindSafe(|| match refused {
        // What it has allocated and keeps, its result too, is paid for in the end.
        Ok(()) => child(&cx).and_then(|value| frame.pay_for_memory().map(|()| value)),
        Err(error) => {
            drop(child);
            Err(error)
        }
    }));
    let output = output.unwrap_or_else(|payload| Err(Error::from_panic(payload)));
    let told_to = frame.cancel_reason().is_some();
    let output = output.map_err(|error| error.in_task(|| frame.info()));
    // SAFETY: the running task. Asked once: if the handle goes after that, `unheard` is called.
    let held = unsafe { task.as_ref().state.is_held() };
    let has_failed = output.as_ref().is_err_and(|error| !(told_to && error.is_cancelled()));
    frame.span().end(output.as_ref().err());
    if let Some(tally) = &terms.tally {
        tally.ended(if has_failed { End::Failed } else { End::Well });
    }
    let failure = catch_unwind(AssertUnwindSafe(|| {
        if let Err(error) = &output
            && has_failed
        {
            failed(core, held, error);
        }
    }));
    // What nobody takes is dropped while the task is still one, and may wait.
    let output = if held {
        Some(output)
    } else {
        discard(output);
        None
    };
    let tail = catch_unwind(AssertUnwindSafe(|| frame.leave())).and(failure);
    if let Some(output) = output {
        // SAFETY: the running task: its record is its own, its closure was moved out of it, and it
        // does not wait any more.
        unsafe { Task::put_output(task, output, unheard::<T>) };
    }
    if let Err(payload) = tail {
        resume_unwind(payload); // a failure of the runtime: now that there is a result
    }
}

/// What a child's failure means for its siblings.
#[cold]
fn failed(core: &Core, held: bool, error: &Error) {
    match core.on_failure {
        OnFailure::FailFast => {
            core.failed(error.clone());
            core.cancel(CancelReason::Failure);
        }
        // Whoever has the handle hears of it.
        _ if held => {}
        _ => core.failed(error.clone()),
    }
}

/// Drops a result whose handle went between the child's last look and its end.
///
/// # Safety
///
/// The record of a child that has ended and is not counted, with a `Result<T>` in it.
unsafe fn unheard<T>(task: NonNull<Task>, _: Start) -> Outcome {
    // SAFETY: as the caller says.
    let (core, output) = unsafe { (Core::of(task), Task::take_output::<Result<T>>(task)) };
    if let Err(error) = &output
        && core.on_failure != OnFailure::FailFast
        && !error.is_cancelled()
    {
        core.failed(error.clone());
    }
    catch_unwind(AssertUnwindSafe(|| drop(output)))
}
