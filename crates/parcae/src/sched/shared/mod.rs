//! The state that all workers of one scheduler share: queues, idle workers, task records, timers,
//! the tracer. The rest of a runtime belongs to its `host`.

mod clock;
mod events;
mod gate;
mod reset;
mod roots;

use crate::base::error::TaskId;
use crate::sched::deque::Stealer;
use crate::sched::events::{EventKind, EventLog, Tracer, TracerOpts, spans};
use crate::sched::executor::thread_set::ThreadSet;
use crate::sched::host::Host;
use crate::sched::idle::{Idle, Notified, Parker, Poller, SocketBackend};
#[cfg(feature = "record")]
use crate::sched::journal::Journal;
use crate::sched::lab::Lab;
use crate::sched::monitor::{MonitorParker, WorkerThread};
use crate::sched::run_queue::{Charging, RunQueues, Victims};
use crate::sched::task::group::Group;
use crate::sched::task::signal::request_end;
use crate::sched::task::slab::{OutOfRecords, Slab};
use crate::sched::task::state::{RecordHandle, Woken};
use crate::sched::task::{Binding, Lane, Start, Task, TaskRef, Traits};
use crate::sched::timers::{NEVER, Nanos, REAL_UNIT, STEP, SignalTimer, TimerThread, Timers};
use crate::sched::worker::faults::{FaultPoint, contain, fault_in_loop};
use crate::sched::worker::stats::{Stats, WorkerStats};
use crate::sched::worker::{self, Deferred, Worker};
use crate::stack::{StackPool, StackSize};
use gate::Gate;
use roots::RootCount;
use std::any::{Any, TypeId};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Settings of a scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    pub(crate) seed: u64,
    pub(crate) victims: Victims,
    /// The longest time that a worker spins before it sleeps.
    pub(crate) spin: Duration,
    /// A tick of real time, to which deadlines are rounded up.
    pub(crate) timer_grain: Duration,
    pub(crate) stack_size: StackSize,
    /// The most tenants that are open at once.
    pub(crate) max_tenants: usize,
    /// How exactly their turns follow the clock.
    pub(crate) charging: Charging,
    pub(crate) deterministic: bool,
    /// How tasks use sockets; not used by the scheduler itself.
    #[cfg_attr(not(feature = "io"), allow(dead_code, reason = "read by the base of parcae-io"))]
    pub(crate) sockets: SocketBackend,
    /// Slots for temporary workers, and how long such a worker waits for work before it retires.
    pub(crate) temporary: usize,
    pub(crate) temporary_idle: Duration,
    /// The signal by which a worker is probed; `None` if workers are not probed.
    pub(crate) probe_signal: Option<i32>,
    /// Whether the times of workers, tasks and nurseries are measured.
    pub(crate) measure_times: bool,
    /// Words of the journal of each worker; `None` without a journal.
    #[cfg(feature = "record")]
    pub(crate) journal: Option<usize>,
}

/// The part of a worker that other threads reach.
pub(crate) struct Remote {
    pub(crate) poller: Poller,
    pub(crate) thread: WorkerThread,
    pub(crate) stats: Stats,
    /// Work that ended tasks have left to the worker.
    pub(crate) deferred: Box<dyn Deferred>,
}

/// The state that all workers share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// Seed of all random numbers. Relaxed: only the lab changes it, between two schedules.
    seed: AtomicU64,
    /// Remotes of the workers, then of temporary workers.
    pub(crate) remotes: Box<[Remote]>,
    /// Where the monitor sleeps.
    pub(crate) monitor: MonitorParker,
    /// Counts spawns by threads that are no workers.
    pub(crate) gate: Gate,
    /// Counts root tasks, for observers.
    pub(crate) roots: RootCount,
    pub(crate) queues: RunQueues,
    pub(crate) idle: Idle,
    pub(crate) slab: Slab,
    /// Held by an observer of tasks. Two observers at a time would miss the tasks that the other
    /// one holds still.
    pub(crate) looking: std::sync::Mutex<()>,
    pub(crate) stacks: StackPool,
    /// Set once: workers leave when all tasks have ended.
    pub(crate) stopping: AtomicBool,
    /// The next id of a task that is spawned by a thread which is no worker; upper half of the id
    /// space.
    outside: AtomicU64,
    /// Where the deterministic executor sleeps when no task can run.
    pub(crate) conductor: Parker,
    pub(crate) log: Option<EventLog>,
    /// The record of the run, for a replay; on threads only.
    #[cfg(feature = "record")]
    pub(crate) journal: Option<Journal>,
    /// The lab that chooses the next task; under the deterministic executor only.
    pub(crate) lab: Option<Arc<Lab>>,
    pub(crate) tracer: Tracer,
    /// Time zero of the scheduler.
    pub(crate) started: Instant,
    /// Nanoseconds from `started` to the beginning of the present schedule of a lab; 0 elsewhere.
    /// Relaxed: as `seed`.
    pub(crate) epoch: AtomicU64,
    pub(crate) timers: Timers,
    pub(crate) timer_thread: Arc<TimerThread>,
    /// Makes workers look up in time, if there are tenants or contexts.
    pub(crate) signal_timer: Arc<SignalTimer>,
    /// A weak reference to this, for threads that must not keep it alive.
    pub(crate) me: Weak<Shared>,
    /// The root nursery's settings, for observers; opaque here. Set by the runtime.
    root: std::sync::Mutex<Option<Weak<dyn Any + Send + Sync>>>,
    /// The simulated world of a deterministic runtime; opaque here. Set once, by its first user.
    #[cfg(feature = "io")]
    pub(crate) world: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// The last reading of the clock by any thread, roughly.
    pub(crate) coarse: AtomicU64,
    /// When the deterministic executor calls [`Host::tick`]; never, unless a policy has asked for
    /// it. Relaxed: one thread uses it.
    next_tick: AtomicU64,
    /// The parts of the runtime that workers do not need.
    pub(crate) host: Box<dyn Host>,
    /// The threads of the workers; empty under the deterministic executor. Set once.
    thread_set: OnceLock<Weak<ThreadSet>>,
    /// Steps at which tests make workers panic.
    #[cfg(test)]
    pub(crate) faults: worker::faults::LoopFaults,
}

/// Refusal of a spawn by a thread that is no worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnRefused {
    /// No heap memory for more task records.
    OutOfMemory,
    /// The gate is shut.
    ShuttingDown,
}

impl From<SpawnRefused> for crate::ErrorKind {
    fn from(refused: SpawnRefused) -> crate::ErrorKind {
        match refused {
            SpawnRefused::OutOfMemory => crate::ErrorKind::OutOfMemory,
            SpawnRefused::ShuttingDown => crate::ErrorKind::ShuttingDown,
        }
    }
}

impl From<SpawnRefused> for crate::Error {
    fn from(refused: SpawnRefused) -> crate::Error {
        crate::Error::new(refused.into())
    }
}

/// The first id of tasks that are spawned by threads which are no workers.
const OUTSIDE: u64 = TaskId::OUTSIDE;

impl Shared {
    pub(crate) fn new(
        config: Config,
        stacks: StackPool,
        stealers: Vec<Stealer<Task>>,
        host: Box<dyn Host>,
        lab: Option<Arc<Lab>>,
    ) -> Arc<Shared> {
        Arc::new_cyclic(|me| Shared::with(config, stacks, stealers, host, lab, Weak::clone(me)))
    }

    fn with(
        config: Config,
        stacks: StackPool,
        stealers: Vec<Stealer<Task>>,
        host: Box<dyn Host>,
        lab: Option<Arc<Lab>>,
        me: Weak<Shared>,
    ) -> Shared {
        let grain = Nanos::try_from(config.timer_grain.as_nanos()).unwrap_or(REAL_UNIT).max(1);
        let unit = if config.deterministic { STEP } else { grain };
        let remote = |_| Remote {
            poller: Poller::default(),
            thread: WorkerThread::new(),
            stats: Stats::default(),
            deferred: host.deferred(),
        };
        let workers = stealers.len();
        // The lab compares hashes, and needs the log only of a run that is shown.
        let keeps_log = lab.as_ref().is_none_or(|lab| lab.lock().recorder().is_some());
        #[cfg(feature = "record")]
        let words = config.journal.filter(|_| !config.deterministic);
        #[cfg(feature = "record")]
        let journal = words.map(|words| Journal::new(workers, words));
        let tracer = TracerOpts {
            log: config.deterministic,
            times: config.measure_times,
            #[cfg(feature = "record")]
            journal: journal.is_some(),
        };
        Shared {
            seed: AtomicU64::new(config.seed),
            remotes: (0..workers).map(remote).collect(),
            queues: RunQueues::new(stealers, config.workers, config.victims),
            monitor: MonitorParker::new(),
            gate: Gate::new(),
            roots: RootCount::default(),
            idle: Idle::new(config.workers, config.temporary),
            slab: Slab::new(),
            looking: std::sync::Mutex::default(),
            stacks,
            stopping: AtomicBool::new(false),
            outside: AtomicU64::new(OUTSIDE),
            conductor: Parker::default(),
            log: config.deterministic.then(|| EventLog::new(keeps_log)),
            #[cfg(feature = "record")]
            journal,
            lab,
            tracer: Tracer::new(workers, tracer),
            started: Instant::now(),
            epoch: AtomicU64::new(0),
            timers: Timers::new(config.workers + config.temporary, unit),
            timer_thread: TimerThread::new(),
            signal_timer: SignalTimer::new(workers),
            me,
            root: std::sync::Mutex::default(),
            #[cfg(feature = "io")]
            world: OnceLock::new(),
            coarse: AtomicU64::new(0),
            next_tick: AtomicU64::new(NEVER),
            host,
            thread_set: OnceLock::new(),
            #[cfg(test)]
            faults: worker::faults::LoopFaults::default(),
            config,
        }
    }

    /// The seed of all random numbers.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed) // see `seed`
    }

    /// Sets the root nursery's settings.
    pub(crate) fn set_root(&self, root: Weak<dyn Any + Send + Sync>) {
        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Some(root);
    }

    /// The root nursery's settings, as long as they exist.
    pub(crate) fn root(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.root.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.upgrade()
    }

    /// A counted reference, for a caller that knows the scheduler to be alive.
    pub(crate) fn counted(&self) -> Arc<Shared> {
        self.me.upgrade().unwrap_or_else(|| unreachable!("the scheduler is gone"))
    }

    /// The part of the host that has this type.
    pub(crate) fn part<T: Any>(&self) -> Option<&T> {
        self.host.part(TypeId::of::<T>())?.downcast_ref()
    }

    /// The threads of the workers.
    pub(crate) fn thread_set(&self) -> Option<Arc<ThreadSet>> {
        self.thread_set.get()?.upgrade()
    }

    /// Called once, when the threads are about to start.
    pub(crate) fn set_thread_set(&self, threads: &Arc<ThreadSet>) {
        let _ = self.thread_set.set(Arc::downgrade(threads)); // there is one
    }

    /// The default traits of a task.
    #[inline]
    pub(crate) fn usual_traits(&self) -> Traits {
        Traits { lane: Lane::Normal, binding: Binding::STAYS, stack: self.config.stack_size }
    }

    /// Spawns a task from a thread that is not a worker.
    ///
    /// # Safety
    ///
    /// As for [`Task::fill`].
    pub(crate) unsafe fn spawn_outside<F: FnOnce(NonNull<Task>, Start)>(
        &self,
        group: Option<NonNull<Group>>,
        traits: Traits,
        closure: F,
    ) -> Result<TaskRef, SpawnRefused> {
        // SAFETY: as the caller says.
        unsafe { self.spawn_outside_as(group, traits, RecordHandle::None, closure) }
    }

    /// As [`spawn_outside`](Shared::spawn_outside), with a handle or without.
    ///
    /// # Safety
    ///
    /// As for [`Task::fill`].
    pub(crate) unsafe fn spawn_outside_as<F: FnOnce(NonNull<Task>, Start)>(
        &self,
        group: Option<NonNull<Group>>,
        traits: Traits,
        handle: RecordHandle,
        closure: F,
    ) -> Result<TaskRef, SpawnRefused> {
        // Inside the gate until the task is counted and queued.
        let _entered = self.gate.enter().ok_or(SpawnRefused::ShuttingDown)?;
        // SAFETY: as the caller says.
        let task = unsafe { self.make_outside(group, traits, handle, closure)? };
        self.submit(traits.lane, task.task);
        Ok(task)
    }

    /// Makes a task on a thread that is not a worker, and queues it nowhere. It counts as live. The
    /// caller has entered the gate, or knows otherwise that no shutdown waits for the last task.
    ///
    /// # Safety
    ///
    /// As for [`Task::fill`].
    pub(crate) unsafe fn make_outside<F: FnOnce(NonNull<Task>, Start)>(
        &self,
        group: Option<NonNull<Group>>,
        traits: Traits,
        handle: RecordHandle,
        closure: F,
    ) -> Result<TaskRef, SpawnRefused> {
        let record = self.slab.take().map_err(|OutOfRecords| SpawnRefused::OutOfMemory)?;
        let id = self.outside.fetch_add(1, Ordering::Relaxed); // only its uniqueness counts
        // SAFETY: the record is ours; the rest is the caller's obligation.
        let task = unsafe { Task::fill(record, group, traits, id, handle, closure) };
        self.note_outside(EventKind::Spawn, id, 0);
        if let Some(lab) = &self.lab {
            lab.lock().spawned(id, 0);
        }
        spans::spawned(id);
        Ok(task)
    }

    /// Puts a task that any worker may take into the global queue, or that of its tenant.
    pub(crate) fn submit(&self, lane: Lane, task: NonNull<Task>) {
        if lane == Lane::Realtime {
            return self.submit_realtime(task);
        }
        // SAFETY: the caller owns the task and gives it to the queue.
        unsafe { self.queues.push_global(lane, task) };
        self.notify_any();
    }

    /// Gives a task to the worker of its context.
    #[cold]
    fn submit_realtime(&self, task: NonNull<Task>) {
        // SAFETY: the caller owns the task and gives it to the queue.
        unsafe {
            let home = self.queues.home_of(task);
            self.wake_elsewhere(task, home);
        }
    }

    /// Number of slots that may have work: those of the workers, and of temporary workers.
    #[inline]
    pub(crate) fn active_slots(&self) -> usize {
        self.queues.active()
    }

    /// The counters of each worker, without temporary workers that never ran.
    pub(crate) fn worker_stats(&self) -> Vec<WorkerStats> {
        let all = self.remotes.iter().map(|remote| remote.stats.snapshot()).enumerate();
        let shown = |index, stats| index < self.config.workers || stats != WorkerStats::default();
        all.filter(|&(index, stats)| shown(index, stats)).map(|(_, stats)| stats).collect()
    }

    /// Makes sure that a worker looks for work that any worker can take.
    #[inline]
    pub(crate) fn notify_any(&self) {
        if let Some(worker) = self.idle.notify_any() {
            self.unpark_worker(worker);
        }
    }

    /// Makes sure that this worker looks at work that only it can take.
    pub(crate) fn notify(&self, worker: usize) {
        match self.idle.notify(worker) {
            Notified::Awake => {}
            Notified::Chosen => self.unpark_worker(worker),
            Notified::Raced => self.notify_any(),
        }
    }

    fn unpark_worker(&self, worker: usize) {
        if self.config.deterministic {
            self.conductor.unpark();
        } else {
            self.remotes[worker].poller.call(self.now());
        }
    }

    /// Wakes a task, from any thread. Idempotent; early, late and stale wakes are harmless.
    pub(crate) fn unpark(&self, task: TaskRef) {
        worker::with_current_of(self, |here| match here {
            Some(worker) => worker.unpark(task),
            None => self.unpark_from(None, task),
        });
    }

    /// As [`unpark`](Shared::unpark), by a thread that is this worker of the scheduler, or none.
    #[inline(never)]
    pub(crate) fn unpark_from(&self, here: Option<&Worker>, task: TaskRef) {
        // SAFETY: records live as long as the scheduler.
        let state = unsafe { &(*task.task.as_ptr()).state };
        let woken = match here {
            Some(worker) => state.unpark_on(worker.index, task.generation),
            None => state.unpark(task.generation),
        };
        if let Woken::Enqueue { owner } = woken {
            self.enqueue_woken(here, task.task, owner);
        }
    }

    /// Wakes the task that has this record now. For a waker that does not know the generation: at
    /// worst another task is woken early.
    pub(crate) fn unpark_whoever(&self, task: NonNull<Task>) {
        // SAFETY: records live as long as the scheduler.
        let generation = unsafe { (*task.as_ptr()).state.generation() };
        self.unpark(TaskRef { task, generation });
    }

    /// Frees the record of a task that has ended. The caller owns it.
    pub(crate) fn recycle(&self, record: NonNull<Task>) {
        worker::with_current_of(self, |here| match here {
            Some(worker) => worker.recycle(record),
            None => {
                // SAFETY: the caller owns the record.
                unsafe { (*record.as_ptr()).state.recycle() };
                self.slab.give(record);
            }
        });
    }

    /// Cancels a task, from any thread.
    pub(crate) fn cancel(&self, task: TaskRef) {
        // SAFETY: as above.
        let woken = unsafe { (*task.task.as_ptr()).state.cancel(task.generation) };
        self.follow_up(task.task, woken);
    }

    /// Cancels a task, and makes it take the slow path at its next checkpoint. From any thread.
    pub(crate) fn ask_to_end(&self, task: TaskRef) {
        // SAFETY: records live as long as the scheduler.
        let record = unsafe { &*task.task.as_ptr() };
        let woken = request_end(&record.state, task.generation, &record.signal);
        self.follow_up(task.task, woken);
    }

    /// Wakes a task, and makes it take the slow path at its next checkpoint.
    pub(crate) fn interrupt(&self, task: TaskRef) {
        // SAFETY: records live as long as the scheduler.
        unsafe { (*task.task.as_ptr()).signal.hint() };
        self.unpark(task);
    }

    pub(crate) fn follow_up(&self, task: NonNull<Task>, woken: Woken) {
        if let Woken::Enqueue { owner } = woken {
            worker::with_current_of(self, |here| self.enqueue_woken(here, task, owner));
        }
    }

    /// Queues a task that was woken, and that `owner` ran last.
    #[inline]
    fn enqueue_woken(&self, here: Option<&Worker>, task: NonNull<Task>, owner: usize) {
        // SAFETY: the task is QUEUED and ours to put into a queue.
        let this = unsafe { task.as_ref() };
        let migratable = this.traits.get().is_migratable();
        self.note_woken(here, this, owner);
        if let Some(worker) = here
            && (worker.index == owner || migratable)
        {
            worker.woken(task, migratable);
            return;
        }
        // SAFETY: as above.
        unsafe {
            if migratable && owner >= self.config.workers {
                // The owner may have retired, and its inbox would not be looked at.
                self.submit((*task.as_ptr()).traits.get().lane, task);
            } else if migratable {
                self.queues.push_inbox_shared(owner, task);
                self.notify(owner);
                self.notify_any(); // if the owner is busy, another worker takes it
            } else if (*task.as_ptr()).traits.get().lane > Lane::High {
                self.wake_elsewhere(task, owner);
            } else {
                self.queues.push_inbox_pinned(owner, task);
                self.notify(owner);
            }
        }
    }

    /// Queues a task of a tenant, or one with a context, for a worker that is to look up for it.
    ///
    /// # Safety
    ///
    /// As for [`RunQueues::push_inbox_pinned`].
    #[cold]
    unsafe fn wake_elsewhere(&self, task: NonNull<Task>, owner: usize) {
        // SAFETY: as the caller says. The slice is read before the task is given away.
        unsafe {
            let slice = self.queues.slice_of(task);
            self.queues.push_inbox_pinned(owner, task);
            self.notify(owner);
            self.queues.interrupt_longer(owner, slice);
        }
    }

    /// Writes the event of a task that was woken and is in no queue yet.
    #[inline]
    pub(crate) fn note_woken(&self, here: Option<&Worker>, task: &Task, owner: usize) {
        if self.tracer.is_heard() || cfg!(test) {
            // Contained: the task is in no queue yet, and the caller may have more tasks to wake.
            contain(|| {
                fault_in_loop(self, FaultPoint::Wake);
                self.note_wake(here, task, owner);
            });
        }
    }

    /// Does the deferred work of all workers. For a task that needs its effects at once: it found
    /// its pool empty.
    #[cold]
    pub(crate) fn flush_deferred(&self) {
        for remote in &self.remotes[..self.active_slots()] {
            remote.deferred.flush();
        }
    }

    /// Number of tasks that were spawned and have not ended. Exact if none is spawned or ends
    /// meanwhile.
    pub(crate) fn live(&self) -> u64 {
        // Ended first: a task that ends between the two sums counts as live.
        let ended: u64 = self.remotes.iter().map(|remote| remote.stats.completed()).sum();
        let inside: u64 = self.remotes.iter().map(|remote| remote.stats.spawned()).sum();
        // Acquire: needs no partner, not even `fetch_add`; keeps the load behind the sum of ended
        // tasks.
        let outside = self.outside.load(Ordering::Acquire) - OUTSIDE;
        (inside + outside).saturating_sub(ended)
    }

    /// Whether workers should leave when they have nothing to do.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) // pairs with the Release in `stop`
    }

    /// Lets all workers leave when all tasks have ended. Until then they work and sleep as before;
    /// the worker that finds all tasks ended calls this again.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release); // pairs with the Acquire in `is_stopping`
        // A temporary worker that is just being started sleeps with a timeout, and checks again.
        for worker in 0..self.active_slots() {
            // Awake or asleep: the token ends its next sleep.
            self.remotes[worker].poller.wake();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.timer_thread.stop();
        self.signal_timer.stop();
    }
}
