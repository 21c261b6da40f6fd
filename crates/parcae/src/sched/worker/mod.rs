//! Workers: they run tasks, one step at a time.
//!
//! The queues of a worker, and the order in which it searches them, are its `RunQueue`
//! (`sched::run_queue`).
//!
//! # A step
//!
//! `step` picks a task and runs it until it ends, yields or parks. Both executors drive it:
//! threads call it in a loop, the deterministic one calls it for one virtual worker at a
//! time. It runs at the base of a strand (see `fiber::strand`), so a task that has not
//! started is simply called. A started task is switched to.
//!
//! # Leaving a stack
//!
//! A task that waits leaves its strand by `leave`, with a follow-up ([`AfterSwitch`]). The
//! follow-up is done *after* the switch, on the next stack of this worker (`settle`): only then is
//! the left stack quiescent, and only then may the task be published as parked or queued. With
//! threads, `leave` picks the next task itself and, if that has a strand, switches straight to it:
//! a yield is one switch. A switch like this races with nothing that the loop would not race with:
//! the next task was taken out of a queue, so no thief can have it, and the task that is left is
//! not published yet. The models of the state word cover the moment of publishing: against a thief
//! (`yield_moves_the_stack`), a wake (`park_against_unpark`) and a shutdown, which is a cancel and
//! a wake (`cancel_against_park`).
//!
//! # Panics in the loop
//!
//! A panic of the runtime itself, at any step, restarts the worker with its queues, and loses no
//! task: [`faults`] lists the guards that put tasks back.
//!
//! # Thread-local data
//!
//! One variable, the current worker, read through [`with_current`]. A strand may come back on
//! another thread (movable tasks), so no `&Worker` is used after a switch: the caller calls
//! `with_current` again.

pub(crate) mod blocks;
mod deferred;
mod due;
pub(crate) mod events;
mod expired;
pub(crate) mod faults;
mod late_joiner;
pub(crate) mod loans;
mod observe;
mod point;
mod reset;
mod rest;
mod run;
mod stacks;
pub(crate) mod stats;
pub(crate) mod turn;

use crate::base::error::TaskId;
use crate::base::rng::Rng;
use crate::sched::deque::DequeOwner;
use crate::sched::events::{EventKind, EventWriter, spans};
use crate::sched::idle::{Linger, SpinPolicy};
use crate::sched::run_queue::RunQueue;
use crate::sched::task::group::Group;
use crate::sched::task::slab::{FreeRecords, OutOfRecords};
use crate::sched::task::state::{OwnParked, RecordHandle};
use crate::sched::task::{Lane, Outcome, Placement, Start, Task, TaskRef, Traits};
use crate::sched::{Remote, Shared};
use crate::stack::StackCache;
use crate::stack::fiber::strand::{Strand, ThreadStack};
use blocks::BlockCache;
pub(crate) use deferred::Deferred;
use due::DueWork;
use expired::Expired;
use faults::{FaultPoint, fault_in_loop};
use late_joiner::LateJoiner;
pub(crate) use point::{
    checkpoint_in_lab, drop_point, forget_address, lab_closes_channel, lab_fault_at_checkpoint,
    lab_number, lab_refuses_spawn, point, point_at, point_at_task, point_from,
};
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::Arc;

/// Number of strands without a task that a worker keeps.
const SPARES: usize = 16;
/// Spare strands that a worker begins with: enough for a root task and three partners that wait for
/// each other.
const WARM: usize = 4;

/// A worker. It stays at one address as long as its scheduler exists, and is used by one thread.
pub(crate) struct Worker {
    pub(crate) index: usize,
    /// The state of its parked tasks.
    own_parked: OwnParked,
    pub(crate) shared: Arc<Shared>,
    /// The part of this worker that other threads see, in `shared`.
    remote: NonNull<Remote>,
    queue: RunQueue,
    /// The task that runs; none in the loop.
    current: Cell<Option<NonNull<Task>>>,
    /// The strand whose stack the thread is on; none on the thread's own.
    strand: Cell<Option<NonNull<Strand>>>,
    spares: Cell<Option<NonNull<Strand>>>,
    /// The same, while the lab is asked whether a task gets a stack.
    hidden_spares: Cell<Option<Option<NonNull<Strand>>>>,
    spare_count: Cell<usize>,
    /// Number of pinned tasks that have waited here and not ended.
    pinned: Cell<usize>,
    /// Number of those that run on a scheduling context.
    bound: Cell<usize>,
    after_switch: Cell<AfterSwitch>,
    /// Children that ended here and are not counted yet; all of one group.
    ended: Cell<EndedChildren>,
    /// A joiner of one of them, to be woken when they are counted.
    late_joiner: LateJoiner,
    /// Work that is due before the worker turns to another task.
    due: DueWork,
    /// A task that was picked on a stack that could not run it.
    handoff: Cell<Option<NonNull<Task>>>,
    /// In the lab: a task was begun since the executor let this worker go on.
    acted: Cell<bool>,
    /// Under the deterministic executor: the worker fell asleep.
    asleep: Cell<bool>,
    /// Under the deterministic executor: the worker was chosen while it slept, and counts
    /// as a searcher until it has found something.
    searching: Cell<bool>,
    /// Tasks whose timers have fired and that are not woken yet.
    expired: Expired,
    spin: SpinPolicy,
    lingering: Linger,
    records: UnsafeCell<FreeRecords>,
    blocks: BlockCache,
    stacks: UnsafeCell<StackCache>,
    pub(crate) rng: Rng,
    next_id: Cell<u64>,
    pub(crate) thread_stack: ThreadStack,
    /// A task that has run, and was not finished because the runtime has panicked.
    unfinished: Cell<Option<(NonNull<Task>, Outcome)>>,
    pub(crate) events: EventWriter,
}

/// The follow-up of a switch: for the strand that was left, and the task on it.
#[derive(Debug, Clone, Copy)]
enum AfterSwitch {
    Nothing,
    /// The strand has no task: keep it or give it back.
    Spare(NonNull<Strand>),
    /// The task waits to be woken.
    Park(NonNull<Task>),
    /// The task may go on anywhere.
    Requeue(NonNull<Task>),
}

/// Children of one group that have ended.
#[derive(Debug, Clone, Copy)]
struct EndedChildren {
    group: Option<NonNull<Group>>,
    children: usize,
}

impl EndedChildren {
    const NONE: EndedChildren = EndedChildren { group: None, children: 0 };
}

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// Ran a task, or a part of one.
    Ran,
    /// Found nothing to run.
    Idle,
}

/// The task was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub, reason = "public with that feature"))]
pub struct Cancelled;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
    /// On a thread that works for a task: the task, as `scope::errand` describes it. Null on
    /// workers, whose tasks are found by `CURRENT`.
    static ERRAND: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
}

/// The errand of this thread, or null.
pub(crate) fn errand() -> *const () {
    ERRAND.with(Cell::get)
}

/// Sets the errand of this thread, or none with null; returns the previous one.
pub(crate) fn set_errand(errand: *const ()) -> *const () {
    ERRAND.with(|current| current.replace(errand))
}

/// The worker that runs on this thread, or null. Never inlined: the address of a thread-local
/// variable must not be kept across a switch.
#[inline(never)]
fn current() -> *const Worker {
    CURRENT.with(Cell::get)
}

/// Calls `act` with the worker that runs on this thread; `None` if there is none.
///
/// If `act` switches, the reference is stale afterwards: the task may continue on another thread.
/// So `act` does not use the worker after a switch. The worker itself outlives its tasks.
#[inline]
pub(crate) fn with_current<R>(act: impl FnOnce(&Worker) -> R) -> Option<R> {
    // SAFETY: set by `make_current` to a worker that outlives its time as current.
    unsafe { current().as_ref() }.map(act)
}

/// The worker that runs on this thread.
///
/// # Safety
///
/// The caller does not use it after a switch: see [`with_current`].
#[inline(always)]
pub(crate) unsafe fn here<'w>() -> Option<&'w Worker> {
    // SAFETY: as in `with_current`.
    unsafe { current().as_ref() }
}

/// Calls `act` with the worker that runs on this thread, if it belongs to this scheduler.
#[inline]
pub(crate) fn with_current_of<R>(shared: &Shared, act: impl FnOnce(Option<&Worker>) -> R) -> R {
    // SAFETY: as in `with_current`.
    let worker = unsafe { current().as_ref() };
    act(worker.filter(|worker| std::ptr::eq(Arc::as_ptr(&worker.shared), shared)))
}

/// Whether this thread is a worker of this scheduler.
pub(crate) fn is_current_of(shared: &Shared) -> bool {
    with_current_of(shared, |worker| worker.is_some())
}

/// The task that runs on this thread. Never inlined, as [`current`].
#[inline(never)]
pub(crate) fn running() -> Option<NonNull<Task>> {
    // SAFETY: as in `with_current`.
    unsafe { CURRENT.with(Cell::get).as_ref() }?.current.get()
}

/// Yields the task that runs on this thread to others. Does nothing if there is none, or no other.
#[inline(never)] // the address of the variable is used before the switch only
pub(crate) fn yield_now() {
    if let Some(task) = running() {
        // SAFETY: it runs here; the address of the variable is not used after the switch.
        unsafe { yield_inlined(task) };
    }
}

/// As [`yield_now`], without a call.
///
/// # Safety
///
/// The task runs on this thread. The caller is a function that is never inlined, calls this once,
/// not in a loop, and uses no thread-local variable after it.
#[inline(always)]
pub(crate) unsafe fn yield_inlined(task: NonNull<Task>) {
    if !must_not_switch() {
        // SAFETY: as the caller says.
        let (worker, here) = unsafe { place_of(task) };
        worker.yield_task(task, here);
    }
}

/// The task that runs on this thread waits to be unparked, whether or not it was cancelled; may
/// return early. The caller has made sure that it may [switch](must_not_switch).
#[inline(never)] // as above
pub(crate) fn wait() {
    if let Some(task) = running() {
        // SAFETY: it runs here; the address of the variable is not used after the switch.
        unsafe { wait_inlined(task) };
    }
}

/// As [`wait`], without a call.
///
/// # Safety
///
/// As for [`yield_inlined`].
#[inline(always)]
pub(crate) unsafe fn wait_inlined(task: NonNull<Task>) {
    // SAFETY: as the caller says.
    let (worker, here) = unsafe { place_of(task) };
    worker.after_switch.set(AfterSwitch::Park(task));
    worker.leave(task, here, EventKind::Park);
}

/// The worker and the strand of the running task.
///
/// # Safety
///
/// The task runs on this thread. The worker is not used after a switch.
#[inline(always)]
unsafe fn place_of<'w>(task: NonNull<Task>) -> (&'w Worker, NonNull<Strand>) {
    // SAFETY: the thread of a running task is a worker, as in `with_current`, and the task is on a
    // strand.
    unsafe {
        let worker = CURRENT.with(Cell::get);
        debug_assert!(worker.as_ref().is_some_and(|worker| worker.current.get() == Some(task)));
        (&*worker, (*worker).strand.get().unwrap_unchecked())
    }
}

/// The lowest address that the stack of the running task may reach; 0 outside of tasks.
pub(crate) fn stack_end() -> usize {
    let strand = with_current(|worker| worker.strand.get()).flatten();
    // SAFETY: the strand that this runs on.
    strand.map_or(0, |strand| unsafe { strand.as_ref() }.stack_end())
}

/// Labels the stack with the name of its task, for the report of an overflow.
pub(crate) fn label_stack(name: &str) {
    if let Some(strand) = with_current(|worker| worker.strand.get()).flatten() {
        // SAFETY: the strand that this runs on.
        unsafe { strand.as_ref() }.label(name);
    }
}

/// Whether the thread is unwinding. The count of panics belongs to the thread, so it must not
/// switch to another stack. The caller will try again; the task that it waits for runs on another
/// worker, or after the unwind.
pub(crate) fn must_not_switch() -> bool {
    let panicking = std::thread::panicking();
    if panicking {
        std::thread::yield_now();
    }
    panicking
}

/// Makes a worker the current one of this thread, or none with null; returns the previous one.
#[inline(never)]
pub(crate) fn make_current(worker: *const Worker) -> *const Worker {
    CURRENT.with(|current| current.replace(worker))
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>, deque: DequeOwner<Task>) -> Worker {
        let seed = shared.seed();
        Worker {
            index,
            own_parked: OwnParked::of(index),
            remote: NonNull::from(&shared.remotes[index]),
            // SAFETY: a part of `shared`, which the worker keeps. Executors hand each worker the
            // deque of its stealer.
            queue: unsafe { RunQueue::new(index, &shared.queues, deque) },
            current: Cell::new(None),
            strand: Cell::new(None),
            spares: Cell::new(None),
            hidden_spares: Cell::new(None),
            spare_count: Cell::new(0),
            pinned: Cell::new(0),
            bound: Cell::new(0),
            after_switch: Cell::new(AfterSwitch::Nothing),
            ended: Cell::new(EndedChildren::NONE),
            late_joiner: LateJoiner::new(),
            due: DueWork::new(),
            handoff: Cell::new(None),
            acted: Cell::new(false),
            asleep: Cell::new(false),
            searching: Cell::new(false),
            expired: Expired::new(),
            spin: SpinPolicy::new(shared.config.spin),
            lingering: Linger::new(shared.config.spin),
            records: UnsafeCell::new(FreeRecords::new()),
            blocks: BlockCache::new(),
            stacks: UnsafeCell::new(shared.stacks.cache()),
            rng: Rng::new(seed, index as u64 + 1),
            next_id: Cell::new(index as u64 * TaskId::PER_WORKER + 1),
            thread_stack: ThreadStack::new(),
            unfinished: Cell::new(None),
            events: EventWriter::new(),
            shared,
        }
    }

    #[inline]
    fn remote(&self) -> &Remote {
        // SAFETY: of `shared`, which we keep; it neither moves nor is ever borrowed mutably.
        unsafe { self.remote.as_ref() }
    }

    /// The place where this worker sleeps.
    #[cfg(feature = "io")]
    #[inline]
    pub(crate) fn poller(&self) -> &crate::sched::idle::Poller {
        &self.remote().poller
    }

    #[inline]
    pub(crate) fn stats(&self) -> &stats::Stats {
        &self.remote().stats
    }

    /// Whether this is a worker of that scheduler.
    #[inline(always)]
    pub(crate) fn is_of(&self, shared: NonNull<Shared>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.shared), shared.as_ptr())
    }

    /// Wakes a task of the same scheduler. Called on the worker's thread.
    #[inline(always)]
    pub(crate) fn unpark(&self, task: TaskRef) {
        // SAFETY: records live as long as the scheduler.
        let this = unsafe { task.task.as_ref() };
        if !self.shared.tracer.is_on() && this.state.unpark_own(self.own_parked, task.generation) {
            self.woken_here(task.task);
        } else {
            self.unpark_otherwise(task);
        }
    }

    #[cold]
    fn unpark_otherwise(&self, task: TaskRef) {
        self.shared.unpark_from(Some(self), task);
    }

    /// Whether this task runs here.
    #[inline]
    pub(crate) fn runs(&self, task: TaskRef) -> bool {
        self.current.get() == Some(task.task)
    }

    /// The record of the task that runs.
    #[inline(always)]
    pub(crate) fn running(&self) -> Option<NonNull<Task>> {
        self.current.get()
    }

    /// The task that runs.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        let task = self.current.get()?;
        // SAFETY: the running task is live.
        Some(TaskRef { task, generation: unsafe { (*task.as_ptr()).state.generation() } })
    }

    // ----- spawning -------------------------------------------------------------------

    /// Spawns a task on this worker. With the usual traits and placement it goes to the deque.
    ///
    /// # Safety
    ///
    /// As for [`Task::fill`].
    #[inline]
    pub(crate) unsafe fn spawn<F: FnOnce(NonNull<Task>, Start)>(
        &self,
        group: Option<NonNull<Group>>,
        traits: Traits,
        placement: Placement,
        handle: RecordHandle,
        closure: F,
    ) -> Result<TaskRef, OutOfRecords> {
        let record = self.take_record()?;
        let id = self.fresh_id();
        // SAFETY: the record is ours; the rest is the caller's obligation.
        let task = unsafe { Task::fill(record, group, traits, id, handle, closure) };
        self.stats().spawned_here.bump();
        self.note_spawn(id);
        spans::spawned(id);
        self.enqueue(task.task, traits.lane, placement);
        Ok(task)
    }

    /// A number that no other task or nursery of the scheduler has; never 0.
    #[inline]
    pub(crate) fn fresh_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    /// Queues a new task: usually in the worker's deque.
    #[inline(always)]
    fn enqueue(&self, task: NonNull<Task>, lane: Lane, placement: Placement) {
        match (lane, placement) {
            (Lane::Normal, Placement::Any) => self.enqueue_stealable(task),
            _ => self.enqueue_elsewhere(task, lane, placement),
        }
    }

    /// Queues a new task of another priority or placement than the usual: in the global queue, or
    /// where only this worker takes it.
    #[inline(never)]
    fn enqueue_elsewhere(&self, task: NonNull<Task>, lane: Lane, placement: Placement) {
        if lane == Lane::Realtime {
            return self.shared.submit(lane, task); // to the worker of its context
        }
        match placement {
            // SAFETY: new, hence in no queue and ours to hand over.
            Placement::Near => unsafe { self.queue.push_near(task, lane) },
            Placement::Any | Placement::Spread => self.shared.submit(lane, task),
        }
    }

    /// Queues a task that any worker may run, and wakes one for it.
    #[inline]
    fn enqueue_stealable(&self, task: NonNull<Task>) {
        // SAFETY: new, or woken by the caller: in no queue. Not started, or movable.
        unsafe { self.queue.push_stealable(task) };
        if self.shared.queues.steals() {
            self.shared.notify_any();
        }
    }

    #[inline]
    fn take_record(&self) -> Result<NonNull<Task>, OutOfRecords> {
        // SAFETY: one thread; no other reference at the same time.
        unsafe { (*self.records.get()).take(&self.shared.slab) }
    }

    /// Frees the record of an ended task for reuse. The caller owns the record.
    #[inline]
    pub(crate) fn recycle(&self, record: NonNull<Task>) {
        // SAFETY: one thread; no other reference at the same time. The record is ours.
        unsafe {
            (*record.as_ptr()).state.recycle();
            (*self.records.get()).give(record, &self.shared.slab);
        }
    }

    /// Counts the children of a group that have ended here. Called when the worker turns to
    /// anything else than another child of the group: only then can the group be complete. `None`
    /// if there were none.
    #[inline]
    pub(crate) fn count_ended(&self) -> Option<()> {
        if self.due.has_ended() { self.count_those_ended() } else { None }
    }

    #[inline(never)]
    fn count_those_ended(&self) -> Option<()> {
        fault_in_loop(&self.shared, FaultPoint::Count);
        self.tell_kept();
        self.flush_deferred();
        self.due.clear(DueWork::ENDED);
        let EndedChildren { group, children } = self.ended.replace(EndedChildren::NONE);
        // SAFETY: the group waits for these children; it is not touched after `complete`.
        if let Some(owner) = unsafe { Group::complete(group?.as_ptr(), children) } {
            self.shared.unpark(owner);
        }
        Some(())
    }

    /// The batch of deferred work, to which a child of the running group is about to add. It is
    /// flushed by `count_ended`: the child's nursery waits at least until then.
    #[inline]
    pub(crate) fn defer(&self) -> &dyn Deferred {
        self.due.set(DueWork::DEFERRED);
        &*self.remote().deferred
    }

    #[inline]
    fn flush_deferred(&self) {
        if self.due.take(DueWork::DEFERRED) {
            self.remote().deferred.flush();
        }
    }

    /// A block with the layout of `blocks`, if the worker keeps one.
    #[inline(always)]
    pub(crate) fn take_block(&self) -> Option<NonNull<u8>> {
        self.blocks.take()
    }

    /// Keeps a block. False if it is still the caller's.
    ///
    /// # Safety
    ///
    /// As for [`BlockCache::give`].
    #[inline(always)]
    pub(crate) unsafe fn give_block(&self, block: NonNull<u8>) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.blocks.give(block) }
    }

    // ----- called by tasks -------------------------------------------------------------

    /// Yields the running task, which is on the strand `here`, to other tasks. Does nothing if
    /// there are none.
    #[inline(always)]
    fn yield_task(&self, task: NonNull<Task>, here: NonNull<Strand>) {
        self.stats().yielded.bump();
        // SAFETY: the running task.
        let traits = unsafe { (*task.as_ptr()).traits.get() };
        if traits.is_migratable() {
            self.after_switch.set(AfterSwitch::Requeue(task));
        } else {
            // Private to this worker, so it may be queued before its stack is left.
            // SAFETY: in no other queue.
            unsafe { self.queue.push_pinned(task, traits.lane) };
            debug_assert!(matches!(self.after_switch.get(), AfterSwitch::Nothing), "settled");
        }
        self.leave(task, here, EventKind::Yield);
    }

    /// Waits to be unparked; may return early. Fails if the task was cancelled.
    pub(crate) fn park(&self) -> Result<(), Cancelled> {
        let Some(task) = self.current.get() else { return Ok(()) };
        // SAFETY: the running task.
        let state = unsafe { &(*task.as_ptr()).state };
        if state.is_cancelled() {
            return Err(Cancelled);
        }
        if !must_not_switch()
            && let Some(here) = self.strand.get()
        {
            self.after_switch.set(AfterSwitch::Park(task));
            self.leave(task, here, EventKind::Park);
        }
        if state.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// Queues a task that was woken on this worker, which may run it.
    pub(crate) fn woken(&self, task: NonNull<Task>, migratable: bool) {
        if migratable {
            self.stats().woken.bump();
            // SAFETY: woken, hence ours to put into a queue.
            let lane = unsafe { (*task.as_ptr()).traits.get() }.lane;
            self.enqueue(task, lane, Placement::Any);
        } else {
            self.woken_here(task);
        }
    }

    /// Queues a task that was woken on this worker, and that only this worker may run.
    #[inline(always)]
    fn woken_here(&self, task: NonNull<Task>) {
        self.stats().woken.bump();
        // SAFETY: woken, hence ours to put into a queue.
        unsafe { self.queue.push_woken(task, (*task.as_ptr()).traits.get().lane) };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.trim();
    }
}
