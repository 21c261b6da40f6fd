//! How a runtime is set up.

mod limits;

use super::{Handle, Runtime, RuntimeInner};
use crate::api::engine::{Engine, EngineError, EngineOpts};
use crate::base::error::Result;
use crate::sched::Victims;
use crate::scope::budget::{Budget, OnExhausted, Pool};
use crate::scope::cancel::Node;
use crate::scope::cap::{AuditLevel, Mint};
use crate::scope::cx::{Preempt, Terms};
use crate::scope::profile::Profile;
use crate::stack::{StackError, StackSize};
use crate::view::inspect::OnDeadlock;
use crate::view::stats::Measure;
use crate::view::sysmon::{StallHook, StallReport, is_realtime};
use std::any::Any;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Sets up a [`Runtime`]. Whatever is not set has a default that suits a server.
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
    /// What `PARCAE_SEED` says, if it is no number.
    wrong_seed: Option<String>,
    _profile: PhantomData<P>,
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
            _profile: PhantomData,
        }
    }

    /// Another profile, with its defaults: see [`profile`](crate::profile).
    pub fn profile<Q: Profile>(self) -> Builder<Q> {
        let Builder { engine, budget, on_exhausted, stack_size, interval, audit, .. } = self;
        let (slice, preempt, wrong_seed) = (self.slice, self.preempt, self.wrong_seed);
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
            _profile: PhantomData,
        }
    }

    /// How many workers run tasks: 1 to 1024. As many as the machine runs in parallel, if it is not set.
    pub fn workers(mut self, workers: usize) -> Builder<P> {
        self.engine.workers = workers;
        self
    }

    /// What random choices start from, such as whom to steal from. With threads that makes runs similar;
    /// only [`deterministic`](Builder::deterministic) makes them equal.
    pub fn seed(mut self, seed: u64) -> Builder<P> {
        self.engine.seed = seed;
        self
    }

    /// Runs all workers in turn on the thread that builds the runtime, in an order that follows from the
    /// seed: the same seed, number of workers and program give the same run. For tests.
    ///
    /// The environment variable `PARCAE_SEED` overrides the seed, to run a failure again.
    pub fn deterministic(mut self, seed: u64) -> Builder<P> {
        self.engine.seed = seed;
        match seed_of_the_environment() {
            Ok(given) => self.engine.seed = given.unwrap_or(seed),
            Err(BuildError::Seed { text }) => self.wrong_seed = Some(text),
            Err(_) => unreachable!("nothing else can be wrong with it"),
        }
        self.engine.deterministic = true;
        self
    }

    /// Whether tasks let others run at random checkpoints, from the seed: for tests, above all under the
    /// [deterministic](Builder::deterministic) executor. [`Preempt::Never`] if it is not set;
    /// [`explore`](Builder::explore) has [`Preempt::Randomly`] then.
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

    /// How much stack a task gets, if nobody says otherwise.
    pub fn stack_size(mut self, size: StackSize) -> Builder<P> {
        self.stack_size = Some(size);
        self
    }

    /// The most stacks that workers and tasks may use at the same time: one for each worker, and at least
    /// one more. A task for which there is none fails.
    pub fn max_stacks(mut self, stacks: usize) -> Builder<P> {
        self.engine.max_stacks = stacks;
        self
    }

    /// Whom a worker without work steals from.
    pub fn victims(mut self, victims: Victims) -> Builder<P> {
        self.engine.victims = victims;
        self
    }

    /// How long a worker looks for work before it sleeps, as long as that pays: 20 µs if nothing is said. Now and then it looks for
    /// five times as long, to find out whether that would. Up to an hour.
    pub fn spin(mut self, time: Duration) -> Builder<P> {
        self.engine.spin = time;
        self
    }

    /// The most threads for calls that block, 1 to 65 536; see [`blocking`](crate::blocking()). They
    /// start when they are needed. 128 if it is not set.
    pub fn blocking_threads(mut self, threads: usize) -> Builder<P> {
        self.engine.blocking.threads = threads;
        self
    }

    /// How many calls that block may be queued while all threads are busy. Tasks that have more wait for
    /// room. 1024 if it is not set, and at most 1 048 576.
    pub fn blocking_queue(mut self, calls: usize) -> Builder<P> {
        self.engine.blocking.queue = calls;
        self
    }

    /// How long a thread for calls that block waits for the next before it ends. 10 seconds if it is not
    /// set.
    pub fn blocking_idle(mut self, time: Duration) -> Builder<P> {
        self.engine.blocking.idle = time;
        self
    }

    /// The most temporary workers. One is started when a worker is stuck while tasks wait that others could run, and
    /// retires when it has had nothing to do for a second. 8 if it is not set; none with 0; 1024 at most.
    pub fn temporary_workers(mut self, workers: usize) -> Builder<P> {
        self.engine.monitor.temporary = workers;
        self
    }

    /// How long a worker may be stuck in one task before that is [reported](Builder::on_stall). 1 second if it is not
    /// set, and at least a millisecond; [`Duration::MAX`] switches reports off.
    pub fn stall_after(mut self, time: Duration) -> Builder<P> {
        self.engine.monitor.stall_after = (time < Duration::MAX).then_some(time);
        self
    }

    /// Who is told when a worker is stuck: a task computes without a checkpoint, or blocks its thread. Called once for
    /// each stall, and not more often than once a second (or once in the time of
    /// [`stall_after`](Builder::stall_after), if that is shorter), on a thread of the runtime that runs no tasks. If it
    /// is not set, reports are written to the standard error.
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
    ///     let kind = stalls.recv()?; // blocks the worker, until that is noticed
    ///     assert!(matches!(kind, StallKind::Blocked | StallKind::Starved)); // as busy as the machine is
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn on_stall(mut self, hook: impl Fn(&StallReport) + Send + Sync + 'static) -> Builder<P> {
        self.engine.monitor.hook = StallHook::new(hook);
        self
    }

    /// The realtime signal by which a stuck worker is asked where it is. `SIGRTMIN` + 9 if it is not set. Its handler is
    /// installed with the first report, passes on what is not meant for it, and has calls restarted. Calls that the
    /// system does not restart (`poll`, `epoll_wait`, `select` …) return `EINTR` once.
    pub fn stall_signal(mut self, signal: i32) -> Builder<P> {
        self.engine.monitor.signal = Some(signal);
        self
    }

    /// Stuck workers are not asked where they are: reports have no backtrace and do not name the task. For programs
    /// whose calls must not be interrupted, and for those with JIT compilers on systems with an old unwinder.
    pub fn no_stall_signal(mut self) -> Builder<P> {
        self.engine.monitor.signal = None;
        self
    }

    /// What all tasks together may use. Unlimited if it is not set.
    pub fn budget(mut self, budget: Budget) -> Builder<P> {
        self.budget = budget;
        self
    }

    /// How much a child draws at a time from a nursery that counts, if the nursery does not say
    /// otherwise ([`NurseryOpts::slice`](crate::NurseryOpts::slice)). [`Budget::CHILD`] if it is not
    /// set, with which it cannot spawn.
    pub fn slice(mut self, budget: Budget) -> Builder<P> {
        self.slice = Some(budget);
        self
    }

    /// What happens to a root task that has used up its budget.
    pub fn on_exhausted(mut self, policy: OnExhausted) -> Builder<P> {
        self.on_exhausted = policy;
        self
    }

    /// How many ops a task does before it lets others run: 1 to `u32::MAX - 1`.
    pub fn yield_interval(mut self, ops: u64) -> Builder<P> {
        self.interval = Some(ops);
        self
    }

    /// What is written down about the use of capabilities.
    pub fn audit(mut self, level: AuditLevel) -> Builder<P> {
        self.audit = level;
        self
    }

    /// What happens to tasks that wait in vain; see [`inspect`](crate::inspect#deadlocks). If nobody says otherwise they
    /// are reported, with threads only if that is proven; under the deterministic executor they fail.
    pub fn on_deadlock(mut self, on: OnDeadlock) -> Builder<P> {
        self.engine.on_deadlock = Some(on);
        self
    }

    /// The metrics that [`Runtime::stats`] contains. Counters are always kept. *Times* cost some tens
    /// of nanoseconds for each switch between tasks.
    pub fn measure(mut self, measure: Measure) -> Builder<P> {
        self.engine.measure = measure;
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says which option is wrong, or what the system refused.
    pub fn build(self) -> Result<Runtime<P>, BuildError> {
        if let Some(text) = self.wrong_seed {
            return Err(BuildError::Seed { text });
        }
        let interval = self.interval.unwrap_or(P::YIELD_INTERVAL);
        limits::check(&self.engine, interval)?;
        if self.budget.ops == 0 {
            return Err(BuildError::NoOps);
        }
        if let Some(signal) = self.engine.monitor.signal.filter(|&signal| !is_realtime(signal)) {
            return Err(BuildError::StallSignal { signal });
        }
        let (workers, measure) = (self.engine.workers, self.engine.measure);
        let stack_size = self.stack_size.unwrap_or(P::STACK);
        let engine =
            Engine::new(EngineOpts { stack_size, ..self.engine }).map_err(|error| match error {
                EngineError::Workers(_) => unreachable!("{workers} workers were allowed"),
                EngineError::Stack(error) => BuildError::Stack(error),
                EngineError::Thread(error) => BuildError::Thread(error),
            })?;
        let shared = engine.shared();
        let clock = move || shared.now();
        let mint = Mint::new(AUDIT_ENTRIES, self.audit, Box::new(clock));
        let pool = Arc::new(Pool::new(self.budget, None));
        let terms = Terms {
            nursery: 0,
            owner: 0,
            shared: engine.shared(),
            node: Node::root(),
            usual: pool.usual(P::ROOT),
            pool,
            grant: P::ROOT,
            child_grant: self.slice.unwrap_or(P::CHILD),
            issuer: mint.issuer(),
            on_exhausted: self.on_exhausted,
            on_exhausted_child: None,
            interval,
            preempt: self.preempt.unwrap_or_default(),
            name: None,
            tally: engine.root_tally().filter(|_| measure == Measure::Times),
        };
        let terms = Arc::new(terms);
        let root: Weak<dyn Any + Send + Sync> = Arc::downgrade(&terms) as _;
        let _ = terms.shared.root.set(root); // the first and only time
        Ok(Runtime { handle: Handle::new(Arc::new(RuntimeInner { engine, terms, mint })) })
    }
}

/// What `PARCAE_SEED` says, if it is set.
pub(super) fn seed_of_the_environment() -> Result<Option<u64>, BuildError> {
    let Ok(text) = std::env::var("PARCAE_SEED") else { return Ok(None) };
    let hexadecimal = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    match hexadecimal.unwrap_or_else(|| text.parse()) {
        Ok(seed) => Ok(Some(seed)),
        Err(_) => Err(BuildError::Seed { text }),
    }
}

/// How many entries the audit log keeps.
const AUDIT_ENTRIES: usize = 4096;

/// Why a runtime could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting has a value that it cannot have.
    Setting {
        /// The method of [`Builder`] that sets it.
        name: &'static str,
        /// What was asked for.
        value: String,
        /// What it takes.
        allowed: String,
    },
    /// The environment variable `PARCAE_SEED` is no number.
    Seed {
        /// What it says.
        text: String,
    },
    /// Stuck workers are asked by a realtime signal.
    StallSignal {
        /// What was asked for.
        signal: i32,
    },
    /// A budget without ops: nothing could run.
    NoOps,
    /// Stacks.
    Stack(StackError),
    /// A thread could not be started.
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
                "`Builder::budget` without ops: nothing could run; leave what is not to be bounded at \
                 `Budget::UNLIMITED`",
            ),
            BuildError::Stack(error) => write!(f, "stacks for the workers: {error}"),
            BuildError::Thread(error) => write!(
                f,
                "a thread for a worker could not be started: {error}; lower `Builder::workers` or raise the \
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
