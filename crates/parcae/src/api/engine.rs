//! A scheduler with its executor: the base of a runtime.
//!
//! With the feature `internals` this module is public, and so is [`scope`](fn@scope): tasks without
//! nurseries, for the scheduler's own tests and measurements. That is not a public interface. It is
//! hidden, incomplete, and changes without notice.

pub mod bench_only;
mod scoped;

pub use scoped::{Scope, park, scope, worker_index, yield_now};

use crate::api::host::RuntimeHost;
use crate::sched::deque::deque;
use crate::sched::executor::deterministic::Conductor;
use crate::sched::executor::threads::{Drained, ThreadExecutor};
use crate::sched::idle::Parker;
use crate::sched::lab::Lab;
use crate::sched::run_queue::Charging;
use crate::sched::task::state::{LetGo, RecordHandle};
use crate::sched::task::{Start, Task, TaskRef, Traits};
use crate::sched::timers::REAL_UNIT;
use crate::sched::worker::stats::WorkerStats;
use crate::sched::worker::{self, Worker};
use crate::sched::{Config, Shared, SocketBackend, SpawnRefused, Victims};
use crate::scope::tally::{Tallies, Tally};
use crate::stack::{StackError, StackOpts, StackPool, StackSize};
use crate::view::inspect::OnDeadlock;
use crate::view::stats::Measure;
use crate::wait::{End, WaitNode, Waiter};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub use crate::sched::worker::Cancelled;
pub use crate::sync::blocking::BlockingLimits;
use crate::sync::blocking::BlockingPool;
pub use crate::view::sysmon::MonitorOpts;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct EngineOpts {
    /// Number of workers.
    pub workers: usize,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Choice of victims.
    pub victims: Victims,
    /// How long a worker spins before it sleeps.
    pub spin: Duration,
    /// Deadlines are rounded up to a multiple of this time.
    pub timer_grain: Duration,
    /// Reserved size of a stack.
    pub stack_size: StackSize,
    /// Virtual workers on one thread.
    pub deterministic: bool,
    /// How tasks use sockets.
    pub sockets: SocketBackend,
    /// The lab that chooses the next task; with virtual workers only.
    pub lab: Option<Arc<Lab>>,
    /// The most stacks that tasks and workers may use.
    pub max_stacks: usize,
    /// The most tenants that are open at once.
    pub max_tenants: usize,
    /// How exactly their turns follow the clock.
    pub charging: Charging,
    /// Threads for calls that block.
    pub blocking: BlockingLimits,
    /// Action on a deadlock; `None` for the default of the executor.
    pub on_deadlock: Option<OnDeadlock>,
    /// Extent of measurements.
    pub measure: Measure,
    /// The monitor of the workers.
    pub monitor: MonitorOpts,
    /// Words of the journal of each worker; `None` for none.
    #[cfg(feature = "record")]
    pub journal: Option<usize>,
}

impl Default for EngineOpts {
    fn default() -> EngineOpts {
        EngineOpts {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            seed: 0,
            victims: Victims::Random,
            spin: Duration::from_micros(20),
            timer_grain: Duration::from_nanos(REAL_UNIT),
            stack_size: StackSize::SERVICE,
            deterministic: false,
            sockets: SocketBackend::Epoll,
            lab: None,
            max_stacks: usize::MAX,
            max_tenants: 256,
            charging: Charging::Hybrid,
            blocking: BlockingLimits::default(),
            on_deadlock: None,
            measure: Measure::Counters,
            monitor: MonitorOpts::default(),
            #[cfg(feature = "record")]
            journal: None,
        }
    }
}

/// Why an engine could not be made.
#[derive(Debug)]
pub enum EngineError {
    /// The number of workers is not between 1 and 1024.
    Workers(usize),
    /// Stacks.
    Stack(StackError),
    /// A thread could not be started.
    Thread(io::Error),
}

/// The most temporary workers: as many as workers.
const MAX_TEMPORARY: usize = 1024;

/// A scheduler.
pub struct Engine {
    shared: Arc<Shared>,
    executor: Executor,
}

enum Executor {
    Threads(ThreadExecutor),
    Deterministic(Mutex<Conductor>),
}

impl Engine {
    /// Starts a scheduler.
    ///
    /// # Errors
    ///
    /// See [`EngineError`].
    pub fn new(opts: EngineOpts) -> Result<Engine, EngineError> {
        if !(1..=1024).contains(&opts.workers) {
            return Err(EngineError::Workers(opts.workers));
        }
        let make = || StackPool::with(StackOpts::new().max_stacks(opts.max_stacks));
        let stacks = match &opts.lab {
            Some(lab) => lab.stacks(make),
            None => make(),
        };
        let stacks = stacks.map_err(EngineError::Stack)?;
        let usual = if opts.deterministic { OnDeadlock::Fail } else { OnDeadlock::Report };
        // Virtual workers are never stuck, and need no help.
        let temporary = if opts.deterministic { 0 } else { opts.monitor.temporary };
        let slots = opts.workers + temporary.min(MAX_TEMPORARY);
        let (mut owners, stealers): (Vec<_>, Vec<_>) = (0..slots).map(|_| deque()).unzip();
        let temporary = owners.split_off(opts.workers);
        let config = Config {
            workers: opts.workers,
            seed: opts.seed,
            victims: opts.victims,
            spin: opts.spin,
            timer_grain: opts.timer_grain,
            stack_size: opts.stack_size,
            max_tenants: opts.max_tenants,
            charging: opts.charging,
            deterministic: opts.deterministic,
            sockets: opts.sockets,
            measure_times: opts.measure == Measure::Times,
            #[cfg(feature = "record")]
            journal: opts.journal,
            temporary: temporary.len(),
            temporary_idle: opts.monitor.temporary_idle,
            probe_signal: opts.monitor.signal,
        };
        let on_deadlock = opts.on_deadlock.unwrap_or(usual);
        let host = Box::new(RuntimeHost::new(opts.blocking, opts.monitor, on_deadlock));
        let shared = Shared::new(config, stacks, stealers, host, opts.lab);
        let workers: Vec<Worker> = owners
            .into_iter()
            .enumerate()
            .map(|(index, deque)| Worker::new(index, Arc::clone(&shared), deque))
            .collect();
        for worker in &workers {
            worker.ensure_spare().map_err(EngineError::Stack)?;
        }
        let executor = if opts.deterministic {
            Executor::Deterministic(Mutex::new(Conductor::new(&shared, workers)))
        } else {
            let threads = ThreadExecutor::start(&shared, workers, temporary);
            Executor::Threads(threads.map_err(EngineError::Thread)?)
        };
        Ok(Engine { shared, executor })
    }

    /// Makes a scheduler of the lab as a new one with this seed. False if something of the last
    /// schedule is left: then a new one is needed. `others`: references to it that the caller has.
    pub(crate) fn reset(&mut self, seed: u64, others: usize) -> bool {
        let Executor::Deterministic(conductor) = &mut self.executor else { return false };
        let conductor = conductor.get_mut().unwrap_or_else(PoisonError::into_inner);
        // One for the engine, the others for the conductor and its workers.
        let known = 1 + conductor.references() + others;
        if Arc::strong_count(&self.shared) != known || !conductor.is_clean() {
            return false;
        }
        if !self.shared.is_clean() || self.shared.part().is_some_and(BlockingPool::has_threads) {
            return false;
        }
        self.shared.reset(seed);
        conductor.reset(seed);
        true
    }

    /// Runs `root`, which does not unwind, as a task and returns its value. Blocks the calling
    /// thread. Panics as [`run`](Engine::run) does.
    pub(crate) fn run_task<R: Send>(
        &self,
        traits: Traits,
        root: impl FnOnce(NonNull<Task>, Start) -> R + Send,
    ) -> Result<R, SpawnRefused> {
        let conductor = self.conductor();
        let value = Arc::new(Mutex::new(None));
        let theirs = Arc::clone(&value);
        let body = move |task: NonNull<Task>, start: Start| {
            let value = root(task, start);
            *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        };
        let (ended, node) = (Arc::new(EndParker::default()), WaitNode::new(()));
        // SAFETY: this function does not return before the task has ended, nor before the end has
        // woken the parker, which is when the node is out of its queue.
        let task = unsafe { self.submit_joined(traits, &ended, &node, body)? };
        // SAFETY: the record is held until `let_go`.
        let state = unsafe { &task.task.as_ref().state };
        if let Some(conductor) = conductor {
            conductor.run_until(|| state.is_done(task.generation));
        }
        // By its worker, when the task is counted as ended: see `Worker::finish`.
        ended.parker.park();
        debug_assert!(state.is_done(task.generation), "told before it has ended");
        if state.let_go() == LetGo::Done {
            self.shared.recycle(task.task);
        }
        let value = value.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(value.unwrap_or_else(|| unreachable!("the task has run")))
    }

    /// Spawns a task that notifies an `End` once it counts as ended. The caller holds the task's
    /// record, and waits for that end.
    ///
    /// # Safety
    ///
    /// As for [`Task::fill`]. The node is idle, and stays where it is until `ended` was unparked.
    unsafe fn submit_joined(
        &self,
        traits: Traits,
        ended: &Arc<EndParker>,
        node: &WaitNode<Waiter>,
        task: impl FnOnce(NonNull<Task>, Start),
    ) -> Result<TaskRef, SpawnRefused> {
        self.watch();
        // Until it is counted and queued.
        let _entered = self.shared.gate.enter().ok_or(SpawnRefused::ShuttingDown)?;
        // SAFETY: as the caller says.
        let task = unsafe { self.shared.make_outside(None, traits, RecordHandle::Held, task)? };
        let end = Arc::new(End::new());
        // Not this thread's own token, which the program may use: this one is for nothing else.
        // SAFETY: as the caller says: the node is there until the end was announced.
        unsafe { end.register(node, Waiter::Future(Arc::clone(ended).into()), None) };
        // SAFETY: no other thread knows the record yet.
        let record = unsafe { task.task.as_ref() };
        record.joiner.set(Some(End::joiner(end)));
        record.state.join(); // it is in no queue, so it has not ended
        self.shared.submit(traits.lane, task.task);
        Ok(task)
    }

    /// Makes sure that workers which are threads are watched.
    pub(crate) fn watch(&self) {
        if let Executor::Threads(threads) = &self.executor {
            threads.monitor();
        }
    }

    /// Spawns a task and makes sure that its workers are watched.
    ///
    /// # Safety
    ///
    /// As for [`Task::fill`].
    unsafe fn submit(
        &self,
        traits: Traits,
        task: impl FnOnce(NonNull<Task>, Start),
    ) -> Result<TaskRef, SpawnRefused> {
        self.watch();
        // SAFETY: as the caller says.
        unsafe { self.shared.spawn_outside(None, traits, task) }
    }

    /// Spawns a task from any thread. Returns it with its number, which is 0 if it has ended
    /// already.
    pub(crate) fn spawn_task(
        &self,
        traits: Traits,
        task: impl FnOnce(NonNull<Task>, Start) + Send + 'static,
    ) -> crate::Result<(TaskRef, u64)> {
        // SAFETY: the closure is `'static`; records live as long as the scheduler.
        unsafe {
            let spawned = self.submit(traits, task)?;
            let id = spawned.task.as_ref().id();
            // The number is that of our task if the record still is.
            let same = !spawned.task.as_ref().state.is_done(spawned.generation);
            Ok((spawned, if same { id } else { 0 }))
        }
    }

    /// Lets no more tasks in from outside.
    pub(crate) fn close(&self) {
        self.shared.gate.shut();
    }

    /// After [`close`](Engine::close): waits until all tasks have ended, and ends all threads then.
    pub(crate) fn drain(&self, within: Duration) -> Drained {
        match &self.executor {
            Executor::Threads(threads) => threads.drain(Instant::now().checked_add(within)),
            Executor::Deterministic(conductor) => {
                if worker::is_current_of(&self.shared) {
                    return Drained::Inside;
                }
                let Ok(conductor) = conductor.try_lock() else { return Drained::Inside };
                let deadline = self.shared.later(within);
                conductor.drain(|| self.shared.now() >= deadline);
                if self.live() == 0 { Drained::Ended { calls: 0 } } else { Drained::Late }
            }
        }
    }

    /// The tally of root tasks.
    pub(crate) fn root_tally(&self) -> Option<Arc<Tally>> {
        self.shared.part::<Tallies>().map(Tallies::roots)
    }

    pub(crate) fn with_shared<R>(&self, use_it: impl FnOnce(&Shared) -> R) -> R {
        use_it(&self.shared)
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Panics on a task of this scheduler, which must not wait for it.
    pub(crate) fn check_outside(&self) {
        assert!(
            !worker::is_current_of(&self.shared),
            "a task must not wait for its own runtime: open a nursery"
        );
    }

    /// Checks that the calling thread may wait for tasks, before anything is spawned; the
    /// conductor if it has to drive them itself.
    fn conductor(&self) -> Option<MutexGuard<'_, Conductor>> {
        self.check_outside();
        let Executor::Deterministic(conductor) = &self.executor else { return None };
        // In use by another thread, where this one may not run it anyway; or by this one, further
        // down, which waits for a task of another scheduler that waits for this.
        let conductor = match conductor.try_lock() {
            Ok(conductor) => conductor,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                panic!("a deterministic runtime is running already: it cannot be entered again")
            }
        };
        conductor.check_thread();
        Some(conductor)
    }

    /// The event log, under the deterministic executor.
    pub fn log(&self) -> Vec<u8> {
        self.shared.log.as_ref().map(crate::sched::events::EventLog::bytes).unwrap_or_default()
    }

    /// The counters of each worker.
    pub fn stats(&self) -> Vec<WorkerStats> {
        self.shared.worker_stats()
    }

    /// Tasks that have not ended.
    pub fn live(&self) -> u64 {
        self.shared.live()
    }
}

/// Parks the thread that waits for the end of a task.
#[derive(Default)]
struct EndParker {
    parker: Parker,
}

impl std::task::Wake for EndParker {
    fn wake(self: Arc<EndParker>) {
        self.parker.unpark();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("live", &self.live()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
