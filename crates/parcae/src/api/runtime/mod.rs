//! A runtime: workers, and the root of every task.
//!
//! A [`Runtime`] is a value. Any number of them live side by side; none is global. It is made
//! by a [`Builder`], runs root tasks with [`run`](Runtime::run), and ends when it is dropped:
//! the tasks that are left are cancelled and waited for; [`shutdown`](Runtime::shutdown) waits no
//! longer than it is told. A [`Handle`] starts root tasks from other threads.

mod builder;
mod explore;
mod root;
mod shutdown;

pub use builder::{BuildError, Builder};
pub use explore::explore;
pub use root::RootTask;
pub use shutdown::Shutdown;

use crate::api::engine::Engine;
use crate::base::error::Result;
use crate::sched::Shared;
use crate::sched::worker::stats::WorkerStats;
use crate::scope::budget::{Ceiling, Standing};
use crate::scope::cancel::{CancelReason, CancelToken};
use crate::scope::cap::{
    Audit, BudgetLimits, CapBudget, CapChannel, CapSpawn, ChannelLimits, Delegation, Mint,
    SpawnLimits, TaskPermit,
};
use crate::scope::cx::{self, Cx, Terms};
use crate::scope::nursery::{Account, Nursery, NurseryOpts, SpawnOpts};
use crate::scope::profile::{Profile, Service, Sovereign, Spawns, SpawnsFreely};
use crate::view::inspect::{Deadlock, Detector, Dump, PAUSE};
use crate::view::stats::Snapshot;
use crate::view::trace::{self, Recording, Streaming, TraceError, TraceOpts};
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Workers that run tasks, and what tasks run under.
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
/// Dropping it cancels the tasks that are left and waits for them. A task that does not come to a cancel point
/// is waited for as long as it takes.
pub struct Runtime<P: Profile = Service> {
    inner: Arc<Inner>,
    _profile: PhantomData<P>,
}

pub(crate) struct Inner {
    engine: Engine,
    /// Counted: root tasks use it, and do not keep the engine.
    terms: Arc<Terms>,
    mint: Mint,
}

impl Inner {
    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Makes sure that the workers are watched: for tasks that do not come in through the engine.
    pub(crate) fn watch(&self) {
        self.engine.watch();
    }
}

impl Runtime {
    /// What makes a runtime; of another profile after [`Builder::profile`].
    pub fn builder() -> Builder<Service> {
        Builder::new()
    }
}

impl<P: Profile> Runtime<P> {
    /// Runs a closure as a root task and returns its result. Blocks the calling thread, from
    /// which the closure may borrow.
    ///
    /// Under the deterministic executor this thread does all the work, and has to be the one that
    /// built the runtime.
    ///
    /// # Errors
    ///
    /// What the task failed with; a panic is an error too.
    ///
    /// # Panics
    ///
    /// On a task of the same runtime, which would wait for itself: use a nursery there.
    #[track_caller]
    pub fn run<R: Send>(&self, task: impl FnOnce(&Cx<P>) -> Result<R> + Send) -> Result<R> {
        root::run(&self.inner, SpawnOpts::new(), None, task)
    }

    /// As [`run`](Runtime::run), with options for the root task: a name, a priority, a stack size, a budget of its own out of
    /// the runtime's.
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
    /// As for [`run`](Runtime::run), and if the runtime has less than the budget that the options name.
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
        root::run(&self.inner, opts, None, task)
    }

    /// Opens a nursery for the calling thread: runs `body` in it as a root task and waits for all
    /// children. The same as [`run`](Runtime::run) with [`Cx::nursery_with`] in it.
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

    /// What starts tasks from other threads.
    pub fn handle(&self) -> Handle<P> {
        Handle { inner: Arc::clone(&self.inner), _profile: PhantomData }
    }

    /// What cancels everything that runs here, and everything that would run later: a token is turned once and for ever,
    /// so this is for the end of the program. Root tasks that run are asked to end; after that
    /// [`run`](Runtime::run) and [`Handle::spawn`] refuse with an error, and nothing is left to do with the runtime but to look at
    /// its counters and to drop it.
    ///
    /// To end what runs now and go on, cancel less: [`RootTask::cancel`] for a root task,
    /// [`Nursery::cancel`](crate::Nursery::cancel) for a nursery, or a token of your own that is given to each nursery
    /// which it should end ([`NurseryOpts::token`](crate::NurseryOpts::token)).
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.token().cancel();
    /// assert!(rt.run(|_| Ok(())).unwrap_err().is_cancelled());
    /// assert!(matches!(rt.handle().spawn(|_| Ok(())).unwrap_err().kind(), ErrorKind::ShuttingDown));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Ctrl-C
    ///
    /// To stop early and keep what is done, do not cancel this token: `run` would return an error instead of the results.
    /// Give a token of your own to the nursery that does the work, leave results outside of it as they come,
    /// and cancel the token from the thread that waits for the signal. The example `ctrl_c` in the repository is a whole
    /// program with such a thread; with the crate `ctrlc` it is `ctrlc::set_handler(move || stop.cancel())`.
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
    ///                 cx.sleep(Duration::from_secs(job))?; // work, with points at which it can be cancelled
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
    /// assert!(outcome.unwrap_err().is_cancelled()); // so it was not all of it
    /// assert_eq!(*done.lock().unwrap(), [0, 1, 2]);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.inner.terms.node)
    }

    /// What random choices started from: the seed that was given, or the one in `PARCAE_SEED`. For messages about a run that
    /// has to be repeated.
    pub fn seed(&self) -> u64 {
        self.inner.terms.shared.config.seed
    }

    /// How the budget of the runtime stands.
    pub fn budget(&self) -> Standing {
        cx::live_standing(&self.inner.terms.shared, &self.inner.terms.pool)
    }

    /// What recharges the budget of the runtime, by the authority of a
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
    /// let cap = rt.cap_budget(BudgetLimits { total: some, per_request: some }, Delegation::Forbidden);
    /// let task = rt.handle().spawn(|cx| (0..5_000).try_for_each(|_| cx.checkpoint()))?;
    /// let task = task.join_timeout(std::time::Duration::from_millis(1)).unwrap_err(); // suspended
    /// rt.account().recharge(&cap, some)?;
    /// task.join()?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn account(&self) -> Account {
        Account::of(&self.inner.terms, &self.inner.terms.pool)
    }

    /// The counters of each worker.
    pub fn stats(&self) -> Vec<WorkerStats> {
        self.inner.engine.stats()
    }

    /// All figures at once: counters of the workers; times, nurseries and histograms where
    /// [`Builder::measure`] asks for them. See [`stats`](crate::stats).
    pub fn snapshot(&self) -> Snapshot {
        self.inner.engine.with_shared(Snapshot::of)
    }

    /// Records what happens from now on; the last of it, when there is more than the options have room for. See
    /// [`trace`](mod@crate::trace).
    ///
    /// # Errors
    ///
    /// If another recording has not been stopped.
    pub fn trace(&self, opts: TraceOpts) -> Result<Recording, TraceError> {
        trace::start(self.inner.engine.shared(), &opts)
    }

    /// Records what happens from now on into a file, for <https://ui.perfetto.dev>.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::trace::TraceOpts;
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let path = std::env::temp_dir().join(format!("trace-{}.json", std::process::id()));
    /// let streaming = rt.trace_to(&path, TraceOpts::new().max_bytes(1 << 20))?;
    /// rt.run(|cx| cx.sleep(std::time::Duration::from_millis(1)))?;
    /// let streamed = streaming.stop()?;
    /// assert_eq!(streamed.bytes, std::fs::metadata(&path)?.len());
    /// assert_eq!(streamed.lost, 0);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If another recording has not been stopped, or the file cannot be created.
    pub fn trace_to(
        &self,
        path: impl AsRef<Path>,
        opts: TraceOpts,
    ) -> Result<Streaming, TraceError> {
        trace::start_streaming(self.inner.engine.shared(), path.as_ref(), &opts)
    }

    /// All tasks: what they wait for, where, and for how long. Needs no worker to cooperate, so it also shows a
    /// runtime that is stuck. See [`inspect`](crate::inspect).
    pub fn dump(&self) -> Dump {
        self.inner.engine.with_shared(Dump::of)
    }

    /// Looks for tasks that wait in vain, or [possibly](crate::inspect::Certainty) do: who holds a lock or the end of a
    /// channel is a guess. Takes a tenth of a second, and blocks the calling thread for it.
    pub fn find_deadlock(&self) -> Option<Deadlock> {
        self.inner.engine.with_shared(|shared| Detector::scan_twice(shared, PAUSE))
    }

    pub(crate) fn shared(&self) -> Weak<Shared> {
        Arc::downgrade(&self.inner.engine.shared())
    }

    /// What it is made of.
    #[cfg(test)]
    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// Tasks that have not ended.
    pub fn live_tasks(&self) -> u64 {
        self.inner.engine.live()
    }

    /// Under the deterministic executor, all that happened so far: the same bytes for the same seed, number of workers
    /// and program. Empty otherwise.
    pub fn event_log(&self) -> Vec<u8> {
        self.inner.engine.log()
    }

    /// Ends the runtime: lets no more tasks in, cancels those that are there, and waits until they have ended, but no
    /// longer than this. Then its threads end too. What has not ended by then is left behind and named.
    ///
    /// May be called from anywhere, and more than once: a later call waits again for what is left. On a task of the
    /// same runtime it does not wait, since it would wait for itself: it returns at once with what is left. Nothing can
    /// stop a task that neither waits nor comes to a checkpoint: its thread goes on, with the memory that it uses, until
    /// it ends by itself.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let task = rt.handle().spawn(|cx| cx.sleep(Duration::from_secs(1_000)))?;
    /// let shutdown = rt.shutdown(Duration::from_secs(10));
    /// assert!(shutdown.is_complete(), "{shutdown}");
    /// assert!(task.join().unwrap_err().is_cancelled());
    /// assert!(rt.handle().spawn(|_| Ok(())).is_err());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn shutdown(&self, within: Duration) -> Shutdown {
        shutdown::shutdown(&self.inner, within)
    }

    /// Mints a capability to spawn. Whoever has the runtime has all authority in it, and gives
    /// parts of it away like this.
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
        self.inner.mint.spawn(limits, delegation)
    }

    /// Mints a capability to recharge budgets; see [`Account`].
    pub fn cap_budget(&self, limits: BudgetLimits, delegation: Delegation) -> CapBudget {
        self.inner.mint.budget(limits, delegation)
    }

    /// Mints a capability to create channels.
    pub fn cap_channel(&self, limits: ChannelLimits, delegation: Delegation) -> CapChannel {
        self.inner.mint.channel(limits, delegation)
    }

    /// What capabilities were minted, used, refused and revoked.
    pub fn audit(&self) -> Audit {
        self.inner.mint.audit()
    }
}

impl<P: Profile> Runtime<P> {
    /// For adapters: see [`foreign`](crate::api::foreign).
    pub(crate) fn erase(self) -> Runtime<Service> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: moved out of what is not dropped.
        let inner = unsafe { std::ptr::read(&raw const this.inner) };
        Runtime { inner, _profile: PhantomData }
    }
}

impl<P: Profile> Drop for Runtime<P> {
    fn drop(&mut self) {
        self.inner.terms.node.cancel(CancelReason::Shutdown);
    }
}

impl<P: Profile> fmt::Debug for Runtime<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("profile", &P::ID)
            .field("engine", &self.inner.engine)
            .finish_non_exhaustive()
    }
}

/// Starts tasks of a [`Runtime`] from any thread. As long as there is one the runtime's workers stay.
pub struct Handle<P: Profile = Service> {
    inner: Arc<Inner>,
    _profile: PhantomData<P>,
}

impl<P: Profile> Handle<P> {
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// As [`Runtime::shutdown`].
    pub fn shutdown(&self, within: Duration) -> Shutdown {
        shutdown::shutdown(&self.inner, within)
    }

    /// What cancels everything that runs there, for ever; see [`Runtime::token`].
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.inner.terms.node)
    }
}

impl<P: SpawnsFreely> Handle<P> {
    /// As [`Runtime::run`].
    ///
    /// # Errors
    ///
    /// What the task failed with; or that the runtime is shutting down.
    ///
    /// # Panics
    ///
    /// On a task of the same runtime.
    #[track_caller]
    pub fn run<R: Send>(&self, task: impl FnOnce(&Cx<P>) -> Result<R> + Send) -> Result<R> {
        root::run(&self.inner, SpawnOpts::new(), None, task)
    }

    /// As [`Runtime::run_with`].
    ///
    /// # Errors
    ///
    /// As for [`run`](Handle::run), and if the runtime has less than the budget that the options name.
    ///
    /// # Panics
    ///
    /// On a task of the same runtime.
    #[track_caller]
    pub fn run_with<R: Send>(
        &self,
        opts: SpawnOpts,
        task: impl FnOnce(&Cx<P>) -> Result<R> + Send,
    ) -> Result<R> {
        root::run(&self.inner, opts, None, task)
    }

    /// Starts a root task, which belongs to the runtime and is waited for when that is dropped.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let handle = rt.handle();
    /// let task = std::thread::spawn(move || handle.spawn(|_| Ok(42))).join().unwrap()?;
    /// assert_eq!(task.join()?, 42);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the runtime is shutting down, or has no budget or memory for another task.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'static,
    ) -> Result<RootTask<T>> {
        self.spawn_with(SpawnOpts::new(), task)
    }

    /// As [`spawn`](Handle::spawn), with options: a name, a priority, a stack size, a budget of its own out of the runtime's.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let urgent = SpawnOpts::new().name("heartbeat").priority(Priority::High);
    /// assert_eq!(rt.handle().spawn_with(urgent, |_| Ok(1))?.join()?, 1);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Handle::spawn), and if the runtime has less than the budget that the options name.
    #[track_caller]
    pub fn spawn_with<T: Send + 'static>(
        &self,
        opts: SpawnOpts,
        task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'static,
    ) -> Result<RootTask<T>> {
        root::spawn(&self.inner, opts, None, task)
    }
}

impl Handle<Sovereign> {
    /// As [`Runtime::run`], by the authority of a capability.
    ///
    /// # Errors
    ///
    /// As in the other profiles, and if the capability does not allow it.
    ///
    /// # Panics
    ///
    /// On a task of the same runtime.
    #[track_caller]
    pub fn run<R: Send>(
        &self,
        cap: &CapSpawn,
        task: impl FnOnce(&Cx<Sovereign>) -> Result<R> + Send,
    ) -> Result<R> {
        self.run_with(cap, SpawnOpts::new(), task)
    }

    /// As [`run`](Handle::run), with options. The task gets no more than the capability's
    /// `task_budget`.
    ///
    /// # Errors
    ///
    /// As for [`run`](Handle::run), and if the runtime has less than the budget that the options name.
    ///
    /// # Panics
    ///
    /// On a task of the same runtime.
    #[track_caller]
    pub fn run_with<R: Send>(
        &self,
        cap: &CapSpawn,
        opts: SpawnOpts,
        task: impl FnOnce(&Cx<Sovereign>) -> Result<R> + Send,
    ) -> Result<R> {
        root::run(&self.inner, opts, Some(self.authorize(cap)?), task)
    }

    /// A place for one task under a capability, and what bounds it.
    fn authorize(&self, cap: &CapSpawn) -> Result<(Ceiling, TaskPermit)> {
        cap.check_issuer(&self.inner.terms.issuer)?;
        let permit = cap.admit()?;
        Ok((cap.ceiling(), permit))
    }

    /// Starts a root task by the authority of a capability.
    ///
    /// # Errors
    ///
    /// As in the other profiles, and if the capability does not allow it.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        &self,
        cap: &CapSpawn,
        task: impl FnOnce(&Cx<Sovereign>) -> Result<T> + Send + 'static,
    ) -> Result<RootTask<T>> {
        self.spawn_with(cap, SpawnOpts::new(), task)
    }

    /// As [`spawn`](Handle::spawn), with options. The task gets no more than the capability's `task_budget`.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Handle::spawn), and if the runtime has less than the budget that the options name.
    #[track_caller]
    pub fn spawn_with<T: Send + 'static>(
        &self,
        cap: &CapSpawn,
        opts: SpawnOpts,
        task: impl FnOnce(&Cx<Sovereign>) -> Result<T> + Send + 'static,
    ) -> Result<RootTask<T>> {
        root::spawn(&self.inner, opts, Some(self.authorize(cap)?), task)
    }
}

impl<P: Profile> Clone for Handle<P> {
    fn clone(&self) -> Handle<P> {
        Handle { inner: Arc::clone(&self.inner), _profile: PhantomData }
    }
}

impl<P: Profile> fmt::Debug for Handle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("profile", &P::ID).finish_non_exhaustive()
    }
}
