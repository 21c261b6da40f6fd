//! What all workers of one scheduler share.

mod clock;
mod events;
mod gate;

use crate::base::error::TaskId;
use crate::sched::deque::Stealer;
use crate::sched::events::{EventKind, EventLog, Tracer, TracerOpts, spans};
use crate::sched::executor::thread_set::ThreadSet;
use crate::sched::host::Host;
use crate::sched::idle::{Idle, Notified, Parker, Poller};
use crate::sched::monitor::{MonitorParker, WorkerThread};
use crate::sched::run_queue::{RunQueues, Victims};
use crate::sched::task::group::Group;
use crate::sched::task::slab::{OutOfRecords, Slab};
use crate::sched::task::state::{RecordHandle, Woken};
use crate::sched::task::{Priority, Start, Task, TaskRef, Traits};
use crate::sched::timers::{REAL_UNIT, STEP, TimerThread, Timers};
use crate::sched::worker::faults::{FaultPoint, contain, fault_in_loop};
use crate::sched::worker::stats::{Stats, WorkerStats};
use crate::sched::worker::{self, Deferred};
use crate::stack::{StackPool, StackSize};
use gate::Gate;
use std::any::{Any, TypeId};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How a scheduler is set up.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    pub(crate) seed: u64,
    pub(crate) victims: Victims,
    /// How long a worker looks for work before it sleeps.
    pub(crate) spin: Duration,
    pub(crate) stack_size: StackSize,
    pub(crate) deterministic: bool,
    /// Slots for temporary workers, and how long such a worker waits for work before it retires.
    pub(crate) temporary: usize,
    pub(crate) temporary_idle: Duration,
    /// The signal by which a worker is probed; `None` if workers are not probed.
    pub(crate) probe_signal: Option<i32>,
    /// Whether the times of workers, tasks and nurseries are measured.
    pub(crate) measure_times: bool,
}

/// What others see of a worker.
pub(crate) struct Remote {
    pub(crate) poller: Poller,
    pub(crate) thread: WorkerThread,
    pub(crate) stats: Stats,
    /// Work that tasks which ended there have left to their worker.
    pub(crate) deferred: Box<dyn Deferred>,
}

/// What all workers share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// Of the workers, then of temporary ones.
    pub(crate) remotes: Box<[Remote]>,
    /// Where the monitor sleeps.
    pub(crate) monitor: MonitorParker,
    /// Where tasks come in from outside.
    pub(crate) gate: Gate,
    pub(crate) queues: RunQueues,
    pub(crate) idle: Idle,
    pub(crate) slab: Slab,
    /// Whoever looks at tasks from outside has it: one at a time, or one would miss what the other holds still.
    pub(crate) looking: std::sync::Mutex<()>,
    pub(crate) stacks: StackPool,
    /// Set once: workers leave when they have nothing to do.
    pub(crate) stopping: AtomicBool,
    /// Tasks spawned from outside, for their ids; upper half of the id space.
    outside: AtomicU64,
    /// Where the deterministic executor sleeps when nobody can run.
    pub(crate) conductor: Parker,
    pub(crate) log: Option<EventLog>,
    pub(crate) tracer: Tracer,
    /// What a deadline's time is counted from.
    pub(crate) started: Instant,
    pub(crate) timers: Timers,
    pub(crate) timer_thread: Arc<TimerThread>,
    /// This, for threads that do not keep it alive.
    pub(crate) me: Weak<Shared>,
    /// The root nursery's terms, for observers; opaque here. Set once, by the runtime.
    pub(crate) root: OnceLock<Weak<dyn Any + Send + Sync>>,
    /// What the clock said when somebody last read it, roughly.
    pub(crate) coarse: AtomicU64,
    /// The storeys above the scheduler.
    pub(crate) host: Box<dyn Host>,
    /// The threads of the workers; empty under the deterministic executor. Set once.
    thread_set: OnceLock<Weak<ThreadSet>>,
    /// Where workers are to panic.
    #[cfg(test)]
    pub(crate) faults: worker::faults::Faults,
}

/// Why a task does not come in from outside.
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

/// Ids of tasks spawned from outside start here.
const OUTSIDE: u64 = TaskId::OUTSIDE;

impl Shared {
    pub(crate) fn new(
        config: Config,
        stacks: StackPool,
        stealers: Vec<Stealer<Task>>,
        host: Box<dyn Host>,
    ) -> Arc<Shared> {
        Arc::new_cyclic(|me| Shared::with(config, stacks, stealers, host, Weak::clone(me)))
    }

    fn with(
        config: Config,
        stacks: StackPool,
        stealers: Vec<Stealer<Task>>,
        host: Box<dyn Host>,
        me: Weak<Shared>,
    ) -> Shared {
        let unit = if config.deterministic { STEP } else { REAL_UNIT };
        let remote = |_| Remote {
            poller: Poller::default(),
            thread: WorkerThread::new(),
            stats: Stats::default(),
            deferred: host.deferred(),
        };
        let workers = stealers.len();
        let tracer = TracerOpts { log: config.deterministic, times: config.measure_times };
        Shared {
            remotes: (0..workers).map(remote).collect(),
            queues: RunQueues::new(stealers, config.workers, config.victims),
            monitor: MonitorParker::new(),
            gate: Gate::new(),
            idle: Idle::new(config.workers, config.temporary),
            slab: Slab::new(),
            looking: std::sync::Mutex::default(),
            stacks,
            stopping: AtomicBool::new(false),
            outside: AtomicU64::new(OUTSIDE),
            conductor: Parker::default(),
            log: config.deterministic.then(EventLog::new),
            tracer: Tracer::new(workers, tracer),
            started: Instant::now(),
            timers: Timers::new(config.workers + config.temporary, unit),
            timer_thread: TimerThread::new(),
            me,
            root: OnceLock::new(),
            coarse: AtomicU64::new(0),
            host,
            thread_set: OnceLock::new(),
            #[cfg(test)]
            faults: worker::faults::Faults::default(),
            config,
        }
    }

    /// Counts it once more, for a caller who knows that somebody keeps it.
    pub(crate) fn counted(&self) -> Arc<Shared> {
        self.me.upgrade().unwrap_or_else(|| unreachable!("a scheduler that nobody keeps"))
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

    /// What a task is like if nobody says otherwise.
    #[inline]
    pub(crate) fn usual_traits(&self) -> Traits {
        Traits { priority: Priority::Normal, migratable: false, stack: self.config.stack_size }
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
        // Until it is counted and queued.
        let _entered = self.gate.enter().ok_or(SpawnRefused::ShuttingDown)?;
        // SAFETY: as the caller says.
        let task = unsafe { self.make_outside(group, traits, handle, closure)? };
        self.submit(traits.priority, task.task);
        Ok(task)
    }

    /// A task that is in no queue, from a thread that is not a worker. It counts as live. The caller has entered the
    /// gate, or knows otherwise that nobody waits for the last task to end.
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
        spans::spawned(id);
        Ok(task)
    }

    /// Puts a task that any worker may take into the global queue.
    pub(crate) fn submit(&self, priority: Priority, task: NonNull<Task>) {
        // SAFETY: the caller owns the task and gives it to the queue.
        unsafe { self.queues.push_global(priority, task) };
        self.notify_any();
    }

    /// Number of slots that may have work: those of the workers, and of temporary workers.
    #[inline]
    pub(crate) fn active_slots(&self) -> usize {
        self.queues.active()
    }

    /// The counters of each worker. Temporary ones that were never needed are not shown.
    pub(crate) fn worker_stats(&self) -> Vec<WorkerStats> {
        let all = self.remotes.iter().map(|remote| remote.stats.snapshot()).enumerate();
        let shown = |index, stats| index < self.config.workers || stats != WorkerStats::default();
        all.filter(|&(index, stats)| shown(index, stats)).map(|(_, stats)| stats).collect()
    }

    /// Makes sure that somebody looks at work that any worker can take.
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

    /// Wakes a task, from anywhere. Idempotent; early, late and stale wakes are all right.
    pub(crate) fn unpark(&self, task: TaskRef) {
        // SAFETY: records live as long as the scheduler.
        let woken = unsafe { (*task.task.as_ptr()).state.unpark(task.generation) };
        self.follow_up(task.task, woken);
    }

    /// Wakes whichever task has this record now. For a waker that does not know which life of it was
    /// meant: at worst somebody is woken for nothing.
    pub(crate) fn unpark_whoever(&self, task: NonNull<Task>) {
        // SAFETY: records live as long as the scheduler.
        let generation = unsafe { (*task.as_ptr()).state.generation() };
        self.unpark(TaskRef { task, generation });
    }

    /// Makes the record of a task that has ended, and that is the caller's, free for another.
    pub(crate) fn recycle(&self, record: NonNull<Task>) {
        match worker::current_of(self) {
            Some(worker) => worker.recycle(record),
            None => {
                // SAFETY: the caller's.
                unsafe { (*record.as_ptr()).state.recycle() };
                self.slab.give(record);
            }
        }
    }

    /// Asks a task to end, from anywhere.
    pub(crate) fn cancel(&self, task: TaskRef) {
        // SAFETY: as above.
        let woken = unsafe { (*task.task.as_ptr()).state.cancel(task.generation) };
        self.follow_up(task.task, woken);
    }

    /// Asks a task to end, and has its next checkpoint look around. From anywhere.
    pub(crate) fn ask_to_end(&self, task: TaskRef) {
        self.cancel(task);
        // After the request, or the checkpoint could look around before there is anything to see.
        // Release: pairs with the Acquire in `attend`. SAFETY: records live as long as the scheduler.
        unsafe { (*task.task.as_ptr()).signal.store(u32::MAX, Ordering::Release) };
    }

    /// Wakes a task, and makes it take the slow path at its next checkpoint.
    pub(crate) fn interrupt(&self, task: TaskRef) {
        // Relaxed: a hint. If the record is another task's by now, that task takes the slow path
        // once for nothing.
        // SAFETY: records live as long as the scheduler.
        unsafe { (*task.task.as_ptr()).signal.store(u32::MAX, Ordering::Relaxed) };
        self.unpark(task);
    }

    pub(crate) fn follow_up(&self, task: NonNull<Task>, woken: Woken) {
        let Woken::Enqueue { owner } = woken else { return };
        // SAFETY: the task is QUEUED and ours to put into a queue.
        let this = unsafe { task.as_ref() };
        let migratable = this.traits.get().migratable;
        let here = worker::current_of(self);
        if self.tracer.is_on() || cfg!(test) {
            // Contained: the task is in no queue yet, and others may have to be woken after it.
            contain(|| {
                fault_in_loop(self, FaultPoint::Wake);
                self.note_wake(here, this, owner);
            });
        }
        if let Some(worker) = here
            && (worker.index == owner || migratable)
        {
            worker.woken(task, migratable);
            return;
        }
        // SAFETY: as above.
        unsafe {
            if migratable && owner >= self.config.workers {
                // That one may have retired; nobody would look at its inbox.
                self.submit((*task.as_ptr()).traits.get().priority, task);
            } else if migratable {
                self.queues.push_inbox_shared(owner, task);
                self.notify(owner);
                self.notify_any(); // if the owner is busy, somebody else takes it
            } else {
                self.queues.push_inbox_pinned(owner, task);
                self.notify(owner);
            }
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

    /// Tasks that were spawned and have not ended. Exact when nothing happens meanwhile.
    pub(crate) fn live(&self) -> u64 {
        // Ended first: a task that ends between the two sums counts as live, not as less.
        let ended: u64 = self.remotes.iter().map(|remote| remote.stats.completed()).sum();
        let inside: u64 = self.remotes.iter().map(|remote| remote.stats.spawned()).sum();
        let outside = self.outside.load(Ordering::Acquire) - OUTSIDE;
        (inside + outside).saturating_sub(ended)
    }

    /// Whether workers should leave when they have nothing to do.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) // pairs with the Release in `stop`
    }

    /// Tells all workers to leave when nothing is left to do. Until then they go on, and sleep
    /// as ever; whoever finds that all tasks have ended calls this again.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // One that is just being started sleeps with a timeout, and looks again.
        for worker in 0..self.active_slots() {
            // Whether or not it sleeps: the token ends its next sleep.
            self.remotes[worker].poller.wake();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.timer_thread.stop();
    }
}
