//! The builder of a runtime: settings, their defaults, and the errors of building.

mod limits;

use super::{Handle, KeptRuntime, Runtime, RuntimeInner};
use crate::api::engine::{Engine, EngineError, EngineOpts};
#[cfg(feature = "record")]
use crate::api::lab::RecordOpts;
use crate::base::error::Result;
use crate::base::lent::MaybeLent;
use crate::sched::lab::Lab;
use crate::sched::run_queue::Charging;
use crate::sched::task::TenantIndex;
use crate::sched::{SocketBackend, Victims};
use crate::scope::budget::{Budget, BudgetPool, OnExhausted, Slice};
use crate::scope::cancel::CancelNode;
use crate::scope::cap::{AuditLevel, IoAuthority, Mint};
use crate::scope::cx::{self, Preempt, TaskSettings, TurnLength};
use crate::scope::profile::Profile;
use crate::stack::{self, StackError, StackSize};
use crate::view::inspect::OnDeadlock;
use crate::view::stats::Measure;
use crate::view::sysmon::{StallHook, StallReport, is_realtime};
use std::any::Any;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Configures and starts a [`Runtime`]. The defaults suit a server.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder()
///     .workers(4)
///     .budget(Budget { memory: 1 << 30, ..Budget::UNLIMITED })
///     .build()?;
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder<P: Profile> {
    engine: EngineOpts,
    budget: Budget,
    on_exhausted: OnExhausted,
    stack_size: Option<StackSize>,
    interval: Option<u64>,
    audit: AuditLevel,
    slice: Option<Budget>,
    pub(super) preempt: Option<Preempt>,
    /// The value of `PARCAE_SEED`, if it is not a number.
    wrong_seed: Option<String>,
    #[cfg(feature = "record")]
    record: Option<RecordOpts>,
    /// A builder is used by any thread, whatever the type of the profile.
    _profile: PhantomData<fn() -> P>,
}

impl<P: Profile> Builder<P> {
    pub(super) fn new() -> Builder<P> {
        Builder {
            engine: EngineOpts::default(),
            budget: Budget::UNLIMITED,
            on_exhausted: OnExhausted::Refill,
            stack_size: None,
            interval: None,
            audit: AuditLevel::default(),
            slice: None,
            preempt: None,
            wrong_seed: None,
            #[cfg(feature = "record")]
            record: None,
            _profile: PhantomData,
        }
    }

    /// Chooses another profile, with its defaults: see [`profile`](crate::profile).
    pub fn profile<Q: Profile>(self) -> Builder<Q> {
        let Builder { engine, budget, on_exhausted, stack_size, interval, audit, .. } = self;
        let (slice, preempt, wrong_seed) = (self.slice, self.preempt, self.wrong_seed);
        #[cfg(feature = "record")]
        let record = self.record;
        Builder {
            engine,
            budget,
            on_exhausted,
            stack_size,
            interval,
            audit,
            slice,
            preempt,
            wrong_seed,
            #[cfg(feature = "record")]
            record,
            _profile: PhantomData,
        }
    }

    /// Number of workers, 1 to 1024. Default: the parallelism of the machine.
    pub fn workers(mut self, workers: usize) -> Builder<P> {
        self.engine.workers = workers;
        self
    }

    /// Seed of random choices, such as the victim of a steal. Runs on threads with the same seed
    /// are similar; only [`deterministic`](Builder::deterministic) makes them equal.
    pub fn seed(mut self, seed: u64) -> Builder<P> {
        self.engine.seed = seed;
        self
    }

    /// Runs all workers in turn on the thread that builds the runtime, in an order that follows
    /// from the seed: the same seed, number of workers and program give the same run. For tests.
    ///
    /// The environment variable `PARCAE_SEED` overrides the seed, to repeat a failure.
    pub fn deterministic(mut self, seed: u64) -> Builder<P> {
        self.engine.seed = seed;
        match seed_of_the_environment() {
            Ok(given) => self.engine.seed = given.unwrap_or(seed),
            Err(BuildError::Seed { text }) => self.wrong_seed = Some(text),
            Err(_) => unreachable!("a seed has no other error"),
        }
        self.engine.deterministic = true;
        self
    }

    /// A runtime for a lab: deterministic, whatever the environment says.
    pub(crate) fn lab(mut self, lab: Arc<Lab>) -> Builder<P> {
        self.engine.deterministic = true;
        self.engine.lab = Some(lab);
        self
    }

    pub(super) fn worker_count(&self) -> usize {
        self.engine.workers
    }

    /// One worker whose tasks the lab chooses, with turns as on threads.
    pub(crate) fn bare_with_turns(mut self) -> Builder<P> {
        self.engine.workers = 1;
        self.preempt = Some(Preempt::Never);
        self
    }

    /// Records the run, so that the lab can repeat it: see [`Explore::retrace`]. With the feature
    /// `record`. Not under the
    /// deterministic executor, whose runs are repeated by their seeds.
    ///
    /// The record has the turns of tasks, and the order of operations on each object of
    /// [`sync`](crate::sync) and [`channel`](crate::channel) where the worker changes.
    ///
    /// ```
    /// use parcae::lab::RecordOpts;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().workers(2).record(RecordOpts::new()).build()?;
    /// rt.run(|cx| cx.yield_now())?;
    /// assert!(!rt.record().unwrap().is_empty());
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// [`Explore::retrace`]: crate::lab::Explore::retrace
    #[cfg(feature = "record")]
    pub fn record(mut self, opts: RecordOpts) -> Builder<P> {
        self.engine.journal = Some(opts.most_words());
        self.record = Some(opts);
        self
    }

    /// One worker whose tasks the lab chooses, and a point at each checkpoint: turns have one op.
    pub(crate) fn bare(mut self) -> Builder<P> {
        self.engine.workers = 1;
        self.interval = Some(1);
        self.preempt = Some(Preempt::Never);
        self
    }

    /// Random preemption: tasks yield at checkpoints that the seed selects. For tests, mostly under
    /// the [deterministic](Builder::deterministic) executor. Default: [`Preempt::Never`], and
    /// [`Preempt::Randomly`] in [`explore`](Builder::explore).
    ///
    /// ```
    /// use parcae::runtime::Preempt;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().deterministic(7).preempt(Preempt::Randomly).build()?;
    /// assert_eq!(rt.seed(), 7);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn preempt(mut self, preempt: Preempt) -> Builder<P> {
        self.preempt = Some(preempt);
        self
    }

    /// Stack size of tasks without a size of their own. Default: the size of the profile.
    pub fn stack_size(mut self, size: StackSize) -> Builder<P> {
        self.stack_size = Some(size);
        self
    }

    /// Maximum number of stacks in use by workers and tasks together: at least the number of
    /// workers plus one. A task for which no stack is left fails.
    pub fn max_stacks(mut self, stacks: usize) -> Builder<P> {
        self.engine.max_stacks = stacks;
        self
    }

    /// Maximum number of tenants that are open at once: nurseries with a
    /// [share](crate::NurseryOpts::share), of which those of one name and parent count as one.
    /// Default: 256. The first share allocates the table, about half a kilobyte for each tenant and
    /// worker; without shares it costs nothing. 0 refuses all shares.
    pub fn max_tenants(mut self, tenants: usize) -> Builder<P> {
        self.engine.max_tenants = tenants;
        self
    }

    /// How exactly turns of tenants follow the clock. Default: [`Charging::Hybrid`].
    ///
    /// ```
    /// use parcae::policy::Charging;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().workers(1).charging(Charging::Exact).build()?;
    /// # Ok::<(), parcae::runtime::BuildError>(())
    /// ```
    pub fn charging(mut self, charging: Charging) -> Builder<P> {
        self.engine.charging = charging;
        self
    }

    /// The workers from which an idle worker steals.
    pub fn victims(mut self, victims: Victims) -> Builder<P> {
        self.engine.victims = victims;
        self
    }

    /// The way in which tasks use sockets: read, write, send, accept, connect, with the crate
    /// `parcae-io`. Default: [`SocketBackend::Epoll`], which is as fast or faster on small
    /// messages; a ring may win where system calls are dear. A kernel or a container may forbid
    /// io_uring: [dumps](Runtime::dump) show the backend in force, and `parcae_io::net::backend`
    /// returns it. The deterministic executor simulates sockets, whatever is chosen.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::runtime::SocketBackend;
    ///
    /// let rt = Runtime::builder().sockets(SocketBackend::Ring).build()?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn sockets(mut self, backend: SocketBackend) -> Builder<P> {
        self.engine.sockets = backend;
        self
    }

    /// Time that an idle worker spins before it sleeps, while spinning pays. Occasionally it spins
    /// five times as long, to find out whether longer would pay. Default: 20 µs. Maximum: one hour.
    pub fn spin(mut self, time: Duration) -> Builder<P> {
        self.engine.spin = time;
        self
    }

    /// The precision of deadlines: each is rounded up to a multiple of this time, counted from the
    /// start of the runtime. With a coarser grain a worker wakes up less often, because deadlines
    /// that fall into the same grain pass together; each is late by up to that time. Default: 65.5
    /// µs. Range: 1 µs to 1 s. Virtual time is not affected.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::{Duration, Instant};
    ///
    /// let rt = Runtime::builder().timer_grain(Duration::from_millis(10)).build()?;
    /// let start = Instant::now();
    /// rt.run(|cx| cx.sleep(Duration::from_millis(1)))?; // up to 11 ms
    /// assert!(start.elapsed() >= Duration::from_millis(1)); // never early
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn timer_grain(mut self, grain: Duration) -> Builder<P> {
        self.engine.timer_grain = grain;
        self
    }

    /// Maximum number of threads for blocking calls, 1 to 65 536; see
    /// [`blocking`](crate::blocking()). They start on demand. Default: 128.
    pub fn blocking_threads(mut self, threads: usize) -> Builder<P> {
        self.engine.blocking.threads = threads;
        self
    }

    /// Number of blocking calls that may be queued while all their threads are busy. When the queue
    /// is full, further callers wait. Default: 1024. Maximum: 1 048 576.
    pub fn blocking_queue(mut self, calls: usize) -> Builder<P> {
        self.engine.blocking.queue = calls;
        self
    }

    /// Idle time after which a thread for blocking calls ends. Default: 10 seconds.
    pub fn blocking_idle(mut self, time: Duration) -> Builder<P> {
        self.engine.blocking.idle = time;
        self
    }

    /// Maximum number of temporary workers. One starts when a worker is stuck while other tasks are
    /// ready, and ends after a second without work. Default: 8. Maximum: 1024; 0 switches them off.
    pub fn temporary_workers(mut self, workers: usize) -> Builder<P> {
        self.engine.monitor.temporary = workers;
        self
    }

    /// Time in one task after which a worker counts as stuck and is [reported](Builder::on_stall).
    /// Default: 1 second. Minimum: 1 ms; [`Duration::MAX`] switches reports off.
    pub fn stall_after(mut self, time: Duration) -> Builder<P> {
        self.engine.monitor.stall_after = (time < Duration::MAX).then_some(time);
        self
    }

    /// Callback for stalls: a task computes without a checkpoint, or blocks its thread. It is
    /// called once for each stall, at most once a second (or once per
    /// [`stall_after`](Builder::stall_after), if that is shorter), on a thread of the runtime that
    /// runs no tasks. Default: reports are written to the standard error.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::stall::StallKind;
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (reports, stalls) = mpsc::channel();
    /// let rt = Runtime::builder()
    ///     .stall_after(Duration::from_millis(50))
    ///     .on_stall(move |report| drop(reports.send(report.kind)))
    ///     .build()?;
    /// rt.run(move |_| {
    ///     let kind = stalls.recv()?; // blocks the worker until the stall is reported
    ///     assert!(matches!(kind, StallKind::Blocked | StallKind::Starved)); // depends on the load
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn on_stall(mut self, hook: impl Fn(&StallReport) + Send + Sync + 'static) -> Builder<P> {
        self.engine.monitor.hook = StallHook::new(hook);
        self
    }

    /// Realtime signal that asks a stuck worker for its backtrace. Default: `SIGRTMIN` + 9. The
    /// handler is installed with the first report, forwards foreign signals to the previous
    /// handler, and is set to restart system calls. Calls that the kernel does not restart (`poll`,
    /// `epoll_wait`, `select` …) return `EINTR` once.
    pub fn stall_signal(mut self, signal: i32) -> Builder<P> {
        self.engine.monitor.signal = Some(signal);
        self
    }

    /// Sends no signal to stuck workers: reports have no backtrace and do not name the task. For
    /// programs whose system calls must not be interrupted, and for JIT compilers on systems with
    /// an old unwinder.
    pub fn no_stall_signal(mut self) -> Builder<P> {
        self.engine.monitor.signal = None;
        self
    }

    /// Budget of all tasks together. Default: unlimited.
    pub fn budget(mut self, budget: Budget) -> Builder<P> {
        self.budget = budget;
        self
    }

    /// Slice: the amount that a child draws at a time from the pool of a bounded nursery, unless
    /// [`NurseryOpts::slice`](crate::NurseryOpts::slice) sets it. Default: [`Budget::CHILD`], with
    /// which a child cannot spawn.
    pub fn slice(mut self, budget: Budget) -> Builder<P> {
        self.slice = Some(budget);
        self
    }

    /// Policy for a root task that has exhausted its budget.
    pub fn on_exhausted(mut self, policy: OnExhausted) -> Builder<P> {
        self.on_exhausted = policy;
        self
    }

    /// Length of a turn: the number of ops after which a task yields, 1 to `u32::MAX - 1`.
    pub fn yield_interval(mut self, ops: u64) -> Builder<P> {
        self.interval = Some(ops);
        self
    }

    /// Level of detail of the [audit log](Runtime::audit) of capabilities.
    pub fn audit(mut self, level: AuditLevel) -> Builder<P> {
        self.audit = level;
        self
    }

    /// Policy for deadlocked tasks; see [`inspect`](crate::inspect#deadlocks). Default: on threads,
    /// proven deadlocks are reported; under the deterministic executor the tasks fail.
    pub fn on_deadlock(mut self, on: OnDeadlock) -> Builder<P> {
        self.engine.on_deadlock = Some(on);
        self
    }

    /// The metrics that [`Runtime::stats`] contains. Counters are always kept. *Times* cost some
    /// tens of nanoseconds for each switch between tasks.
    pub fn measure(mut self, measure: Measure) -> Builder<P> {
        self.engine.measure = measure;
        self
    }

    /// As [`build`](Builder::build), on the parts of an earlier runtime of the same lab, which had
    /// the same settings, if they can be used again.
    pub(crate) fn build_on(
        &self,
        kept: Option<KeptRuntime>,
        seed: u64,
    ) -> Result<Runtime<P>, BuildError>
    where
        P: Clone,
    {
        let anew = || self.clone().seed(seed).build();
        let Some(KeptRuntime { mut engine, mint }) = kept else { return anew() };
        let mint = mint.filter(|mint| mint.is_unused(self.audit));
        if self.engine.max_stacks != usize::MAX
            || self.engine.measure == Measure::Times
            || !engine.reset(seed, usize::from(mint.is_some()))
        {
            drop(engine);
            return anew();
        }
        let interval = self.interval.unwrap_or(P::YIELD_INTERVAL);
        Ok(self.assemble(engine, mint, interval))
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// [`BuildError`] names the setting that is out of range, or the resource that the system
    /// refused.
    pub fn build(self) -> Result<Runtime<P>, BuildError> {
        if let Some(text) = &self.wrong_seed {
            return Err(BuildError::Seed { text: text.clone() });
        }
        let interval = self.interval.unwrap_or(P::YIELD_INTERVAL);
        limits::check(&self.engine, interval)?;
        if self.budget.ops == 0 {
            return Err(BuildError::NoOps);
        }
        if let Some(signal) = self.engine.monitor.signal.filter(|&signal| !is_realtime(signal)) {
            return Err(BuildError::StallSignal { signal });
        }
        let workers = self.engine.workers;
        let stack_size = self.stack_size.unwrap_or(P::STACK);
        let engine =
            Engine::new(EngineOpts { stack_size, ..self.engine.clone() }).map_err(|error| {
                match error {
                    EngineError::Workers(_) => unreachable!("{workers} workers were allowed"),
                    EngineError::Stack(error) => BuildError::Stack(error),
                    EngineError::Thread(error) => BuildError::Thread(error),
                }
            })?;
        stack::report_spawned_at(cx::spawned_at);
        Ok(self.assemble(engine, None, interval))
    }

    /// A runtime with this scheduler.
    fn assemble(&self, engine: Engine, mint: Option<Mint>, interval: u64) -> Runtime<P> {
        let measure = self.engine.measure;
        let mint = mint.unwrap_or_else(|| {
            let shared = engine.shared();
            Mint::new(AUDIT_ENTRIES, self.audit, Box::new(move || shared.now()))
        });
        let pool = Arc::new(BudgetPool::new(self.budget, None));
        let preempt = self.preempt.unwrap_or_default();
        let tally = engine.root_tally().filter(|_| measure == Measure::Times);
        let settings = TaskSettings {
            nursery: 0,
            owner: 0,
            shared: MaybeLent::own(engine.shared()),
            node: CancelNode::root(),
            default_grant: pool.default_grant(P::ROOT),
            pool: MaybeLent::own(pool),
            grant: Slice::named(P::ROOT),
            child_grant: self.slice.map_or(Slice::default_of(P::CHILD), Slice::named),
            issuer: MaybeLent::own(mint.issuer()),
            io: MaybeLent::own(P::ID.needs_capability().then(|| Arc::new(IoAuthority::none()))),
            on_exhausted: self.on_exhausted,
            on_exhausted_child: MaybeLent::own(None),
            interval,
            preempt,
            turns: TurnLength::of(preempt, TenantIndex::DEFAULT, &engine.shared()),
            tenant: TenantIndex::DEFAULT,
            context: None,
            reports: tally.is_some() || self.engine.deterministic,
            name: None,
            tally,
        };
        let settings = Arc::new(settings);
        let root: Weak<dyn Any + Send + Sync> = Arc::downgrade(&settings) as _;
        settings.shared.set_root(root);
        let mut spawn_settings = settings.for_root();
        spawn_settings.grant = Slice::default_of(P::ROOT).under(settings.on_exhausted);
        let spawn_settings = Arc::new(spawn_settings);
        let inner = RuntimeInner {
            engine,
            settings,
            spawn_settings,
            mint,
            #[cfg(feature = "record")]
            record: self.record.clone(),
        };
        Runtime { handle: Handle::new(Arc::new(inner)) }
    }
}

/// The seed in `PARCAE_SEED`, if it is set.
pub(super) fn seed_of_the_environment() -> Result<Option<u64>, BuildError> {
    let Ok(text) = std::env::var("PARCAE_SEED") else { return Ok(None) };
    let hexadecimal = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    match hexadecimal.unwrap_or_else(|| text.parse()) {
        Ok(seed) => Ok(Some(seed)),
        Err(_) => Err(BuildError::Seed { text }),
    }
}

/// Capacity of the audit log, in entries.
const AUDIT_ENTRIES: usize = 4096;

/// The reason why a runtime could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting is out of its range.
    Setting {
        /// The method of [`Builder`] that sets it.
        name: &'static str,
        /// The given value.
        value: String,
        /// The permitted range.
        allowed: String,
    },
    /// The environment variable `PARCAE_SEED` is not a number.
    Seed {
        /// Its value.
        text: String,
    },
    /// The signal for stuck workers is not a realtime signal.
    StallSignal {
        /// The given signal.
        signal: i32,
    },
    /// The budget has no ops, so no task could run.
    NoOps,
    /// The stacks of the workers could not be allocated.
    Stack(StackError),
    /// The thread of a worker could not be started.
    Thread(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Setting { name, value, allowed } => {
                write!(f, "`Builder::{name}` is {value}; it takes {allowed}")
            }
            BuildError::Seed { text } => {
                write!(f, "PARCAE_SEED is `{text}`; it takes a number, like 42 or 0x2a")
            }
            BuildError::StallSignal { signal } => write!(
                f,
                "signal {signal}: `Builder::stall_signal` takes a realtime signal, {} to {}",
                libc::SIGRTMIN(),
                libc::SIGRTMAX()
            ),
            BuildError::NoOps => f.write_str(
                "`Builder::budget` has no ops, so no task could run; leave components without a \
                 bound at `Budget::UNLIMITED`",
            ),
            BuildError::Stack(error) => {
                write!(f, "cannot allocate stacks for the workers: {error}")
            }
            BuildError::Thread(error) => write!(
                f,
                "cannot start a worker thread: {error}; lower `Builder::workers` or raise the \
                 limit of processes"
            ),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Stack(error) => Some(error),
            BuildError::Thread(error) => Some(error),
            _ => None,
        }
    }
}
