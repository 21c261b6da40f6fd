//! The runtime: workers, and the root of every task.
//!
//! A [`Runtime`] is a value. Several of them can exist side by side, and none is global. A
//! [`Builder`] configures and starts it, [`run`](Runtime::run) executes a root task, and dropping
//! the runtime cancels the remaining tasks and waits for them. [`shutdown`](Runtime::shutdown) does
//! the same with a time limit.
//!
//! # Authority
//!
//! The owner of a [`Runtime`] may do everything: run and cancel tasks, shut down, inspect, mint
//! capabilities, recharge budgets. A [`Handle`] may start tasks and nothing else, so it can be
//! given to other threads and libraries. A runtime dereferences to its handle: starting tasks is
//! written once, and the owner can do it too.
//!
//! In the profile [`Sovereign`](crate::profile::Sovereign) every spawn takes a [`CapSpawn`], by a
//! handle too. [`run`](Runtime::run), [`run_with`](Runtime::run_with) and
//! [`nursery`](Runtime::nursery) start a root task without one: they belong to the owner, who could
//! mint it. A handle has none of the three.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | [`Runtime`]: run, end, mint |
//! | `handle.rs` | [`Handle`] |
//! | `observe.rs` | metrics, traces, dumps |
//! | `builder.rs`, `builder/limits.rs` | settings and their ranges |
//! | `root.rs` | root tasks |
//! | `shutdown.rs` | the phases of a shutdown |
//! | `explore.rs` | one test under many seeds |

mod builder;
mod explore;
mod handle;
mod observe;
mod root;
mod shutdown;

pub use builder::{BuildError, Builder};
pub use explore::explore;
pub use handle::Handle;
pub use root::RootTask;
pub use shutdown::Shutdown;

use crate::api::engine::Engine;
#[cfg(feature = "record")]
use crate::api::lab::RecordOpts;
use crate::base::error::{Error, ErrorKind, Result};
use crate::scope::budget::Standing;
use crate::scope::cancel::{CancelReason, CancelToken};
use crate::scope::cap::{
    Audit, BudgetLimits, CapBudget, CapChannel, CapContext, CapExec, CapFs, CapNet, CapShare,
    CapSpawn, ChannelLimits, ContextOpts, CpuLease, Delegation, ExecLimits, FsLimits, FsPlace,
    LeaseOpts, Mint, NetLimits, ShareLimits, SpawnLimits,
};
use crate::scope::cx::{self, Cx, TaskSettings};
use crate::scope::island::{Island, IslandPlan};
use crate::scope::nursery::{Account, Nursery, NurseryOpts, SpawnOpts};
use crate::scope::profile::{Profile, Service, Spawns};
use crate::view::policy::{self, PolicyDesk, PolicyOpts, PolicyPart};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Workers that run tasks, with the budget, the capabilities and the settings of all of them.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().workers(2).build()?;
/// let answer = rt.run(|cx| {
///     cx.nursery(|n| {
///         let six = n.spawn(|_| Ok(6))?;
///         let seven = n.spawn(|_| Ok(7))?;
///         Ok(six.join()? * seven.join()?)
///     })
/// })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// The owner of a runtime has all authority over it. A [`Handle`], to which a runtime dereferences,
/// only starts tasks; [`handle`](Runtime::handle) makes one to give away.
///
/// Dropping the runtime cancels the remaining tasks and waits for them, without a time limit: a
/// task that reaches no cancel point delays the drop until it ends. Use
/// [`shutdown`](Runtime::shutdown) to bound the wait.
pub struct Runtime<P: Profile = Service> {
    handle: Handle<P>,
}

/// The state that a runtime shares with its handles. The last of them ends the workers.
pub(crate) struct RuntimeInner {
    engine: Engine,
    /// Counted on its own: root tasks hold it and do not keep the engine alive.
    settings: Arc<TaskSettings>,
    /// The same for tasks that handles spawn: they share what is left with each other.
    spawn_settings: Arc<TaskSettings>,
    mint: Mint,
    /// Options of its record, if there is one.
    #[cfg(feature = "record")]
    record: Option<RecordOpts>,
}

/// The parts of a runtime of the lab that serve the next schedule too.
pub(crate) struct KeptRuntime {
    engine: Engine,
    mint: Option<Mint>,
}

impl RuntimeInner {
    pub(crate) fn settings(&self) -> &TaskSettings {
        &self.settings
    }

    /// A root task has failed, or the test around the runtime: its record is kept.
    #[cold]
    fn run_failed(&self) {
        #[cfg(feature = "record")]
        if let Some(record) = &self.record {
            self.engine.with_shared(|shared| record.run_failed(shared));
        }
    }

    /// Starts the monitor of the workers, for tasks that do not come in through the engine.
    pub(crate) fn watch(&self) {
        self.engine.watch();
    }
}

impl Runtime {
    /// A builder with default settings. [`Builder::profile`] chooses another profile.
    pub fn builder() -> Builder<Service> {
        Builder::new()
    }
}

impl<P: Profile> Runtime<P> {
    /// Runs a closure as a root task, blocks the calling thread until it ends, and returns its
    /// result. The closure may borrow from the caller.
    ///
    /// The deterministic executor does all work on this thread, which must be the one that built
    /// the runtime.
    ///
    /// # Errors
    ///
    /// The error of the task. A panic of the task is an error too.
    ///
    /// # Panics
    ///
    /// On a task of the same runtime, which would wait for itself. Use a nursery there.
    #[track_caller]
    pub fn run<R: Send>(&self, task: impl FnOnce(&Cx<P>) -> Result<R> + Send) -> Result<R> {
        self.run_with(SpawnOpts::new(), task)
    }

    /// As [`run`](Runtime::run), with options for the root task: a name, a priority, a stack size,
    /// a budget of its own out of the runtime's.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().on_exhausted(OnExhausted::Fail).build()?;
    /// let import = SpawnOpts::new().name("import").budget(Budget::UNLIMITED.with_ops(1_000));
    /// let error = rt.run_with(import, |cx| cx.forever(|| Ok(()))).unwrap_err();
    /// assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)));
    /// assert_eq!(error.task().and_then(|task| task.name()), Some("import"));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`run`](Runtime::run), and if the runtime has less than the requested budget.
    ///
    /// # Panics
    ///
    /// As [`run`](Runtime::run).
    #[track_caller]
    pub fn run_with<R: Send>(
        &self,
        opts: SpawnOpts,
        task: impl FnOnce(&Cx<P>) -> Result<R> + Send,
    ) -> Result<R> {
        root::run(self.inner(), opts, task).inspect_err(|_| self.inner().run_failed())
    }

    /// Runs `body` in a nursery as a root task and waits for all children: [`run`](Runtime::run)
    /// with [`Cx::nursery_with`] inside.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let tenant = NurseryOpts::new().name("tenant-7").budget(Budget::SERVICE);
    /// let sum = rt.nursery(tenant, |n| {
    ///     let (a, b) = (n.spawn(|_| Ok(20))?, n.spawn(|_| Ok(22))?);
    ///     Ok(a.join()? + b.join()?)
    /// })?;
    /// assert_eq!(sum, 42);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Cx::nursery_with`].
    ///
    /// # Panics
    ///
    /// As [`run`](Runtime::run).
    #[track_caller]
    pub fn nursery<'env, R: Send>(
        &self,
        opts: NurseryOpts,
        body: impl for<'scope> FnOnce(&'scope Nursery<'scope, 'env, P>) -> Result<R> + Send,
    ) -> Result<R>
    where
        P: Spawns,
    {
        self.run(|cx| cx.nursery_with(opts, body))
    }

    /// A handle that starts tasks from other threads.
    pub fn handle(&self) -> Handle<P> {
        self.handle.clone()
    }

    /// The token that cancels all tasks of the runtime, now and later. A token stays cancelled, so
    /// this ends the useful life of the runtime: running root tasks are cancelled, and afterwards
    /// [`run`](Runtime::run) and [`Handle::spawn`] return an error.
    ///
    /// To cancel less and continue, use [`RootTask::cancel`] for a root task,
    /// [`Nursery::cancel`](crate::Nursery::cancel) for a nursery, or a separate token that is
    /// passed to each nursery which it should end
    /// ([`NurseryOpts::token`](crate::NurseryOpts::token)).
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.token().cancel();
    /// assert!(rt.run(|_| Ok(())).unwrap_err().is_cancelled());
    /// assert!(matches!(rt.spawn(|_| Ok(())).unwrap_err().kind(), ErrorKind::ShuttingDown));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Ctrl-C
    ///
    /// To stop early and keep partial results, do not cancel this token: `run` would return an
    /// error instead of the results. Pass a separate token to the nursery that does the work, store
    /// results outside of the nursery as they arrive, and cancel the token from the thread that
    /// waits for the signal. The example `ctrl_c` in the repository is a complete program with such
    /// a thread. With the crate `ctrlc` it is `ctrlc::set_handler(move || stop.cancel())`.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::sync::Mutex;
    /// use std::time::Duration;
    ///
    /// let (stop, done) = (CancelToken::new(), Mutex::new(Vec::new()));
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// let outcome = rt.run(|cx| {
    ///     cx.nursery_with(NurseryOpts::new().token(&stop), |n| {
    ///         for job in 0..8 {
    ///             let (stop, done) = (&stop, &done);
    ///             n.spawn(move |cx| {
    ///                 cx.sleep(Duration::from_secs(job))?; // work, with cancel points
    ///                 done.lock().unwrap().push(job);
    ///                 if job == 2 {
    ///                     stop.cancel(); // in place of the signal
    ///                 }
    ///                 Ok(())
    ///             })?;
    ///         }
    ///         Ok(())
    ///     })
    /// });
    /// assert!(outcome.unwrap_err().is_cancelled()); // the work is incomplete
    /// assert_eq!(*done.lock().unwrap(), [0, 1, 2]);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.settings().node)
    }

    /// The seed of all random choices: from [`Builder::seed`], [`Builder::deterministic`] or the
    /// environment variable `PARCAE_SEED`. For messages about a run that has to be repeated.
    pub fn seed(&self) -> u64 {
        self.settings().shared.seed()
    }

    /// The state of the runtime's budget: granted, left, held by tasks, spent.
    pub fn budget(&self) -> Standing {
        cx::live_standing(&self.settings().shared, &self.settings().pool)
    }

    /// The account of the runtime. It recharges the runtime's budget by the authority of a
    /// [`CapBudget`].
    ///
    /// ```
    /// use parcae::cap::{BudgetLimits, Delegation};
    /// use parcae::prelude::*;
    ///
    /// let some = Budget { ops: 10_000, ..Budget::ZERO };
    /// let rt = Runtime::builder()
    ///     .budget(Budget { ops: 1_000, ..Budget::UNLIMITED })
    ///     .on_exhausted(OnExhausted::Suspend)
    ///     .build()?;
    /// let limits = BudgetLimits { total: some, per_request: some };
    /// let cap = rt.cap_budget(limits, Delegation::Forbidden);
    /// let task = rt.spawn(|cx| (0..5_000).try_for_each(|_| cx.checkpoint()))?;
    /// let task = task.join_timeout(std::time::Duration::from_millis(1)).unwrap_err(); // suspended
    /// rt.account().recharge(&cap, some)?;
    /// task.join()?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn account(&self) -> Account {
        Account::of(self.settings(), &self.settings().pool)
    }

    /// Ends the runtime within a time limit: refuses new tasks, cancels the existing ones and waits
    /// for them, then ends the threads. The result names the tasks that did not end in time; they
    /// are left behind.
    ///
    /// It may be called from any thread, and repeatedly: a later call waits again for the rest. On
    /// a task of the same runtime it returns at once, since waiting would include itself. A task
    /// that neither waits nor reaches a checkpoint cannot be stopped: its thread and its memory
    /// remain until it ends by itself.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let task = rt.spawn(|cx| cx.sleep(Duration::from_secs(1_000)))?;
    /// let shutdown = rt.shutdown(Duration::from_secs(10));
    /// assert!(shutdown.is_complete(), "{shutdown}");
    /// assert!(task.join().unwrap_err().is_cancelled());
    /// assert!(rt.spawn(|_| Ok(())).is_err());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn shutdown(&self, within: Duration) -> Shutdown {
        shutdown::shutdown(self.inner(), within)
    }

    /// Mints a capability to spawn. The owner of the runtime has all authority in it, and passes
    /// parts of it on in this way.
    ///
    /// ```
    /// use parcae::cap::{Delegation, SpawnLimits};
    /// use parcae::prelude::*;
    /// use parcae::profile::Sovereign;
    ///
    /// let rt = Runtime::builder().profile::<Sovereign>().build()?;
    /// let two = SpawnLimits { max_tasks: 2, task_budget: Budget::UNLIMITED };
    /// let cap = rt.cap_spawn(two, Delegation::Forbidden);
    /// let sum = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let (a, b) = (n.spawn(&cap, |_| Ok(1))?, n.spawn(&cap, |_| Ok(2))?);
    ///         Ok(a.join()? + b.join()?)
    ///     })
    /// })?;
    /// assert_eq!(sum, 3);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn cap_spawn(&self, limits: SpawnLimits, delegation: Delegation) -> CapSpawn {
        self.inner().mint.spawn(limits, delegation)
    }

    /// Mints a capability to recharge budgets; see [`Account`].
    pub fn cap_budget(&self, limits: BudgetLimits, delegation: Delegation) -> CapBudget {
        self.inner().mint.budget(limits, delegation)
    }

    /// Mints a capability to create channels.
    pub fn cap_channel(&self, limits: ChannelLimits, delegation: Delegation) -> CapChannel {
        self.inner().mint.channel(limits, delegation)
    }

    /// Mints a capability to open sockets.
    pub fn cap_net(&self, limits: NetLimits, delegation: Delegation) -> CapNet {
        self.inner().mint.net(limits, delegation)
    }

    /// Mints a capability to use the files beneath a directory. Under the deterministic executor
    /// the directory is one of the simulated disks.
    ///
    /// # Errors
    ///
    /// If there is no such directory.
    pub fn cap_fs(
        &self,
        directory: impl AsRef<std::path::Path>,
        limits: FsLimits,
        delegation: Delegation,
    ) -> Result<CapFs> {
        let place = match self.inner().settings.shared.config.deterministic {
            true => FsPlace::Simulated,
            false => FsPlace::System,
        };
        Ok(self.inner().mint.fs(directory.as_ref(), limits, delegation, place)?)
    }

    /// Mints a capability to start programs.
    pub fn cap_exec(&self, limits: ExecLimits, delegation: Delegation) -> CapExec {
        self.inner().mint.exec(limits, delegation)
    }

    /// Mints a capability to open nurseries with a share of the processors.
    pub fn cap_share(&self, limits: ShareLimits, delegation: Delegation) -> CapShare {
        self.inner().mint.share(limits, delegation)
    }

    /// Admits a scheduling context: a budget of processor time in each period, which one of the
    /// workers can guarantee beside those that it has promised already. At most nine tenths of a
    /// worker are promised; the rest is left to tasks without a context.
    ///
    /// See [`CapContext`] for a program.
    ///
    /// # Errors
    ///
    /// [`ContextRefused`](crate::ErrorKind::ContextRefused): the terms make no sense, the
    /// [policy](Runtime::policy) does not allow them, no worker has so much left, or there are too
    /// many contexts. Then nothing has changed.
    pub fn admit(&self, opts: ContextOpts) -> Result<CapContext> {
        self.admit_by_policy(None, opts)
    }

    /// As [`admit`](Runtime::admit), by the terms that the [policy](Runtime::policy) has for this
    /// name; `opts` without them, or without a policy.
    ///
    /// ```
    /// use parcae::policy::{ContextOpts, ContextTerms, PolicyDecision, PolicyOpts};
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let ms = Duration::from_millis;
    /// let rt = Runtime::builder().build()?;
    /// let policy = rt.policy(PolicyOpts::new())?;
    /// let terms = ContextTerms { budget: ms(2), period: ms(20), deadline: ms(10), band: 0 };
    /// policy.load(&PolicyDecision::rules().context_terms("audio", terms))?;
    /// let audio = rt.admit_as("audio", ContextOpts::new(ms(8), ms(10)))?; // asks for much more
    /// assert_eq!(audio.opts(), ContextOpts::new(ms(2), ms(20)).deadline(ms(10)));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`admit`](Runtime::admit).
    pub fn admit_as(&self, name: &str, opts: ContextOpts) -> Result<CapContext> {
        self.admit_by_policy(Some(name), opts)
    }

    fn admit_by_policy(&self, name: Option<&str>, opts: ContextOpts) -> Result<CapContext> {
        let shared = &self.inner().settings.shared;
        let refused = |why| Error::new(ErrorKind::ContextRefused(why));
        let opts = match shared.part::<PolicyPart>() {
            Some(policy) => policy.check_context(name, opts).map_err(refused)?,
            None => opts,
        };
        self.inner().mint.context(shared, opts)
    }

    /// Gives the runtime a policy: a service that decides about shares and contexts within the
    /// bounds of the operator, and the operator's own rules. The result is the operator's; the
    /// policy ends when it is dropped. See [`policy`](crate::policy).
    ///
    /// # Errors
    ///
    /// If the runtime has a policy already or no room for tenants, or the system refuses a thread.
    pub fn policy(&self, opts: PolicyOpts) -> Result<PolicyDesk> {
        let inner = self.inner();
        policy::open(&inner.engine.shared(), inner.mint.policy(), opts)
    }

    /// Grants a lease of the worker of the named contexts: it is reserved, and takes no more work
    /// of others. [`CpuLease::activate`] puts the lease into force.
    ///
    /// See [`CpuLease`] for a program.
    ///
    /// # Errors
    ///
    /// [`LeaseRefused`](crate::ErrorKind::LeaseRefused): the contexts are on several workers,
    /// others are on theirs, it is leased, or no worker would be left for housekeeping. Then
    /// nothing has changed.
    pub fn lease(&self, opts: LeaseOpts) -> Result<CpuLease> {
        self.inner().mint.lease(&self.inner().settings.shared, opts)
    }

    /// Admits a realtime island: the contexts of all its stages, and its lease, or nothing.
    ///
    /// See [`Island`] for a program.
    ///
    /// # Errors
    ///
    /// As for [`admit`](Runtime::admit) and [`lease`](Runtime::lease), with the name of the stage;
    /// [`IslandRefused`](crate::ErrorKind::IslandRefused) if there is no stage. Then nothing has
    /// changed.
    pub fn admit_island(&self, plan: IslandPlan) -> Result<Island> {
        let inner = self.inner();
        Island::admit(&inner.mint, &inner.settings.shared, plan)
    }

    /// The audit log of capabilities: minted, used, refused, revoked.
    pub fn audit(&self) -> Audit {
        self.inner().mint.audit()
    }

    /// Runs all tasks until they have ended, or wait for ever. Returns the number of those.
    pub(crate) fn drain_for_lab(&self) -> u64 {
        let engine = &self.inner().engine;
        if engine.live() > 0 {
            engine.drain(Duration::MAX);
        }
        engine.live()
    }

    /// Ends the runtime of a schedule, as dropping it would, and keeps its parts for the next.
    /// `None` if a handle or a task is left: then they end with the last of those.
    pub(crate) fn into_kept(self) -> Option<KeptRuntime> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so its handle is moved out once.
        let handle = unsafe { std::ptr::read(&raw const this.handle) };
        handle.settings().node.cancel(CancelReason::Shutdown);
        let RuntimeInner { engine, settings, spawn_settings, mint, .. } =
            Arc::try_unwrap(handle.into_inner()).ok()?;
        if engine.live() > 0 {
            engine.drain(Duration::MAX);
        }
        drop((settings, spawn_settings));
        (engine.live() == 0).then_some(KeptRuntime { engine, mint: Some(mint) })
    }

    /// For adapters: see [`foreign`](crate::api::foreign).
    pub(crate) fn erase(self) -> Runtime<Service> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so its handle is moved out once.
        let handle = unsafe { std::ptr::read(&raw const this.handle) };
        Runtime { handle: handle.erase() }
    }
}

impl<P: Profile> Deref for Runtime<P> {
    type Target = Handle<P>;

    fn deref(&self) -> &Handle<P> {
        &self.handle
    }
}

impl<P: Profile> Drop for Runtime<P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.inner().run_failed();
        }
        self.settings().node.cancel(CancelReason::Shutdown);
    }
}

impl<P: Profile> fmt::Debug for Runtime<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("profile", &P::ID)
            .field("engine", &self.inner().engine)
            .finish_non_exhaustive()
    }
}
