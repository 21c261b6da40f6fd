//! Workers: who runs tasks, one step at a time.
//!
//! # What a worker owns
//!
//! | queue | holds | taken by |
//! |---|---|---|
//! | `lifo` | the pinned task that was woken last | the worker; at most [`LIFO_STREAK`] times in a row |
//! | `local` | started tasks that may not move, by priority | the worker |
//! | `deque` | unstarted tasks, and started ones that may move | the worker (newest), thieves (oldest) |
//! | `inbox` | pinned tasks woken by others | the worker |
//! | `mail` | movable tasks woken by others | the worker, or any worker before it sleeps |
//! | `inject`, shared | spawned from outside; overflow; yielded movable tasks | everybody |
//!
//! A task that yields goes behind what was ready: to the back of `local`, or of the global
//! queue. Every [`FAIRNESS`] picks the worker looks at what it would otherwise get to last:
//! the global queues of every priority, its inboxes, the oldest of its own deque.
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
//! A task that waits leaves its strand by `leave`, saying what is to become of it
//! ([`Left`]). That is done *after* the switch, by whoever runs next on this worker
//! (`settle`): only then is the stack quiescent, and only then may the task be published as
//! parked or queued. With threads, `leave` picks the next task itself and, if that has a
//! strand, switches straight to it: a yield is one switch.
//!
//! # Panics in the loop
//!
//! A panic of the runtime itself, at whichever step, restarts the worker with its queues, and loses
//! no task: see [`faults`] for what is in hand when, and who puts it back.
//!
//! # Thread-local data
//!
//! One variable, the current worker, read through [`current`], which is never inlined. A
//! strand may come back on another thread (movable tasks), so nothing here keeps a `&Worker`
//! over a switch: after each, the worker is asked for again.

pub(crate) mod accounts;
pub(crate) mod events;
pub(crate) mod faults;
mod observe;
mod patience;
pub(crate) mod pick;
mod stacks;
pub(crate) mod stats;

use crate::base::error::{TaskId, discard};
use crate::base::rng::Rng;
use crate::sched::deque::Owner;
use crate::sched::events::{EventKind, EventWriter, spans};
use crate::sched::queue::Chain;
use crate::sched::task::group::Group;
use crate::sched::task::slab::{FreeRecords, OutOfRecords};
use crate::sched::task::state::{Finished, Handle};
use crate::sched::task::waker::Wake;
use crate::sched::task::{Outcome, Priority, Start, Task, TaskRef, Traits};
use crate::sched::{Remote, Shared};
use crate::scope::budget::{Budget, Pool};
use crate::stack::fiber::strand::{Strand, ThreadStack};
use crate::stack::{StackCache, StackSize};
use faults::{Batch, Counts, Hand, Step, Unfinished};
use patience::Patience;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// How often the worker looks at the queues that it would get to last. A prime, so that it
/// does not fall in step with a loop of the program; the number is Go's.
pub(crate) const FAIRNESS: u32 = 61;
/// How many times in a row a task just woken may go before those that waited.
pub(crate) const LIFO_STREAK: u32 = 3;
/// How many strands without a task a worker keeps.
const SPARES: usize = 16;

/// A worker. Lives at one address as long as its scheduler; used by one thread.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    /// What others see of this worker: its place in `shared`.
    remote: NonNull<Remote>,
    pub(crate) deque: Owner<Task>,
    local: UnsafeCell<[Chain<Task>; 3]>,
    lifo: Cell<Option<NonNull<Task>>>,
    lifo_streak: Cell<u32>,
    tick: Cell<u32>,
    /// The task that runs; none in the loop.
    current: Cell<Option<NonNull<Task>>>,
    /// The strand whose stack the thread is on; none on the thread's own.
    strand: Cell<Option<NonNull<Strand>>>,
    spares: Cell<Option<NonNull<Strand>>>,
    spare_count: Cell<usize>,
    /// Tasks that may not move, have waited here and not ended.
    kept: Cell<usize>,
    left: Cell<Left>,
    /// Children that ended here and are not counted yet; all of one group.
    ended: Cell<Ended>,
    /// Whether `Remote::returned` may have accounts of theirs in it.
    has_returned: Cell<bool>,
    /// A task that was picked on a stack that could not run it.
    handoff: Cell<Option<NonNull<Task>>>,
    /// Under the deterministic executor: the worker fell asleep.
    asleep: Cell<bool>,
    /// Under the deterministic executor: the worker was chosen while it slept, and counts
    /// as a searcher until it has found something.
    searching: Cell<bool>,
    /// Some of the worker's deadlines have passed: the loop acts on them before anything else.
    deadlines_passed: Cell<bool>,
    /// How long to look for work before sleeping; see `wait_for_work`.
    patience: Patience,
    records: UnsafeCell<FreeRecords>,
    stacks: UnsafeCell<StackCache>,
    pub(crate) rng: Rng,
    next_victim: Cell<usize>,
    next_id: Cell<u64>,
    pub(crate) ground: ThreadStack,
    /// A task that has run, and was not finished because the runtime has panicked.
    unfinished: Cell<Option<(NonNull<Task>, Outcome)>>,
    pub(crate) events: EventWriter,
}

/// What is to become of the strand that was just left, and of the task on it.
#[derive(Debug, Clone, Copy)]
enum Left {
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
struct Ended {
    group: Option<NonNull<Group>>,
    children: usize,
}

impl Ended {
    const NONE: Ended = Ended { group: None, children: 0 };
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// Ran a task, or a part of one.
    Ran,
    /// Found nothing to run.
    Idle,
}

/// The task was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// The worker that this thread is at the moment. Never inlined: the address of a
/// thread-local variable must not be remembered over a switch.
#[inline(never)]
pub(crate) fn current() -> Option<&'static Worker> {
    // SAFETY: set by `make_current` to a worker that outlives its time as current. The
    // lifetime is a lie that this module keeps harmless: see the header.
    unsafe { CURRENT.with(Cell::get).as_ref() }
}

/// The task that runs on this thread. Never inlined, as [`current`].
#[inline(never)]
pub(crate) fn running() -> Option<NonNull<Task>> {
    // SAFETY: as above.
    unsafe { CURRENT.with(Cell::get).as_ref() }?.current.get()
}

/// The current worker, if it belongs to this scheduler.
pub(crate) fn current_of(shared: &Shared) -> Option<&'static Worker> {
    current().filter(|worker| std::ptr::eq(Arc::as_ptr(&worker.shared), shared))
}

/// The lowest address that the stack of the running task may reach; 0 outside of tasks.
pub(crate) fn stack_end() -> usize {
    let strand = current().and_then(|worker| worker.strand.get());
    // SAFETY: the strand that this runs on.
    strand.map_or(0, |strand| unsafe { strand.as_ref() }.stack_end())
}

/// Says whose stack this is, for the report of an overflow.
pub(crate) fn label_stack(name: &str) {
    if let Some(strand) = current().and_then(|worker| worker.strand.get()) {
        // SAFETY: the strand that this runs on.
        unsafe { strand.as_ref() }.label(name);
    }
}

/// Whether the thread is unwinding. The count of panics is the thread's, so nothing may be
/// switched to. The caller will ask again; whoever it waits for runs on another worker, or
/// after the unwind.
fn must_not_switch() -> bool {
    let panicking = std::thread::panicking();
    if panicking {
        std::thread::yield_now();
    }
    panicking
}

/// Says which worker this thread is, none with null; returns which one it was.
#[inline(never)]
pub(crate) fn make_current(worker: *const Worker) -> *const Worker {
    CURRENT.with(|current| current.replace(worker))
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>, deque: Owner<Task>) -> Worker {
        let seed = shared.config.seed;
        Worker {
            index,
            remote: NonNull::from(&shared.remotes[index]),
            deque,
            local: UnsafeCell::new(Default::default()),
            lifo: Cell::new(None),
            lifo_streak: Cell::new(0),
            tick: Cell::new(0),
            current: Cell::new(None),
            strand: Cell::new(None),
            spares: Cell::new(None),
            spare_count: Cell::new(0),
            kept: Cell::new(0),
            left: Cell::new(Left::Nothing),
            ended: Cell::new(Ended::NONE),
            has_returned: Cell::new(false),
            handoff: Cell::new(None),
            asleep: Cell::new(false),
            searching: Cell::new(false),
            deadlines_passed: Cell::new(false),
            patience: Patience::new(shared.config.spin),
            records: UnsafeCell::new(FreeRecords::new()),
            stacks: UnsafeCell::new(shared.stacks.cache()),
            rng: Rng::new(seed, index as u64 + 1),
            next_victim: Cell::new(index),
            next_id: Cell::new(index as u64 * TaskId::PER_WORKER + 1),
            ground: ThreadStack::new(),
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

    #[inline]
    pub(crate) fn stats(&self) -> &stats::Stats {
        &self.remote().stats
    }

    /// Whether this task runs here.
    #[inline]
    pub(crate) fn runs(&self, task: TaskRef) -> bool {
        self.current.get() == Some(task.task)
    }

    /// The task that runs.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        let task = self.current.get()?;
        // SAFETY: the running task is live.
        Some(TaskRef { task, generation: unsafe { (*task.as_ptr()).state.generation() } })
    }

    /// # Safety
    ///
    /// The reference is not kept over anything that may use the queues.
    #[allow(clippy::mut_from_ref)]
    unsafe fn local(&self) -> &mut [Chain<Task>; 3] {
        // SAFETY: one thread, and no other reference at the same time (caller).
        unsafe { &mut *self.local.get() }
    }

    // ----- spawning -------------------------------------------------------------------

    /// Spawns a task into this worker's deque.
    ///
    /// # Safety
    ///
    /// As for [`Task::fill`].
    #[inline]
    pub(crate) unsafe fn spawn<F: FnOnce(NonNull<Task>, Start)>(
        &self,
        group: Option<NonNull<Group>>,
        traits: Traits,
        handle: Handle,
        closure: F,
    ) -> Result<TaskRef, OutOfRecords> {
        let record = self.take_record()?;
        let id = self.fresh_id();
        // SAFETY: the record is ours; the rest is the caller's obligation.
        let task = unsafe { Task::fill(record, group, traits, id, handle, closure) };
        self.stats().spawned_here.bump();
        self.note_spawn(id);
        spans::spawned(id);
        self.enqueue(task.task, traits);
        Ok(task)
    }

    /// A number that no other task or nursery of the scheduler has; never 0.
    #[inline]
    pub(crate) fn fresh_id(&self) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        id
    }

    /// Puts a task that anybody may take where it belongs.
    #[inline]
    fn enqueue(&self, task: NonNull<Task>, traits: Traits) {
        if traits.priority != Priority::Normal {
            self.shared.submit(traits.priority, task);
            return;
        }
        if let Err(task) = self.deque.push(task) {
            self.overflow(task);
        }
        if self.shared.steals() {
            self.shared.notify_any();
        }
    }

    /// The deque is full: the older half of it, and the task, go to the global queue.
    #[cold]
    fn overflow(&self, task: NonNull<Task>) {
        let mut batch = Batch::of(self, Chain::new());
        // SAFETY: taken out of the deque, hence ours to put elsewhere.
        self.deque.take_half(|task| unsafe { batch.chain.push_back(task) });
        // SAFETY: never was in the deque.
        unsafe { batch.chain.push_back(task) };
        self.shared.inject[Priority::Normal as usize].push_chain(batch.give());
    }

    #[inline]
    fn take_record(&self) -> Result<NonNull<Task>, OutOfRecords> {
        // SAFETY: one thread; no other reference at the same time.
        unsafe { (*self.records.get()).take(&self.shared.slab) }
    }

    /// Makes the record of a task that has ended, and that is ours, free for another.
    #[inline]
    pub(crate) fn recycle(&self, record: NonNull<Task>) {
        // SAFETY: one thread; no other reference at the same time. The record is ours.
        unsafe {
            (*record.as_ptr()).state.recycle();
            (*self.records.get()).give(record, &self.shared.slab);
        }
    }

    // ----- running --------------------------------------------------------------------

    /// One unit of work: picks a task and runs it until it ends, yields or parks.
    ///
    /// Runs at the base of a strand. May return on another worker: ask for the current one.
    fn step(&self) -> Stepped {
        self.leave_odd_strand();
        self.fault(Step::Begin);
        if self.deadlines_passed.get() {
            self.fire_timers(self.shared.now());
        }
        let next = self.handoff.take().or_else(|| self.pick());
        // Nothing left of the group that ran: its owner may be next.
        let Some(task) = next.or_else(|| self.count_ended().and_then(|()| self.pick())) else {
            return Stepped::Idle;
        };
        let hand = Hand::of(self, task);
        self.fault(Step::Picked);
        if self.searching.take() && self.shared.idle.stop_searching() {
            self.fault(Step::StoppedSearching);
            self.shared.notify_any();
        }
        self.dispatch(hand);
        Stepped::Ran
    }

    /// Runs a task that was picked. May return on another worker.
    #[inline]
    fn dispatch(&self, hand: Hand<'_>) {
        let task = hand.task;
        // SAFETY: picked, hence ours.
        let this = unsafe { &*task.as_ptr() };
        let stack = this.traits.get().stack;
        let mut hand = hand;
        if stack != self.shared.config.stack_size && !this.has_started() {
            match self.dispatch_elsewhere(hand, stack) {
                Some(here) => hand = here,
                None => return,
            }
        }
        this.state.claim(self.index);
        self.current.set(Some(task));
        self.stats().executed.bump();
        // SAFETY: ours, and it does not run.
        match unsafe { this.strand() } {
            Some(strand) => {
                self.count_ended();
                self.note_turn(EventKind::Resume, this);
                self.fault(Step::Resume);
                if let Some(here) = self.strand.get() {
                    hand.give();
                    self.left.set(Left::Spare(here));
                    // SAFETY: the task is ours, and so is its strand; this one is spare.
                    unsafe { self.switch(here, strand) };
                }
            }
            None => {
                if this.group.get() != self.ended.get().group {
                    self.count_ended();
                }
                self.note_turn(EventKind::Start, this);
                self.fault(Step::Start);
                let spare = self.ensure_spare();
                hand.give();
                let outcome = match spare {
                    // SAFETY: claimed, and it has no strand, so it has not run.
                    Ok(()) => unsafe { Task::run(task) },
                    Err(error) => {
                        // What the closure owns is dropped outside of any task: there is no
                        // strand to wait on.
                        self.current.set(None);
                        // SAFETY: as above.
                        unsafe { Task::refuse(task, error) }
                    }
                };
                // The task may have waited, and come back on another worker.
                if let Some(worker) = current() {
                    worker.finish(task, outcome);
                }
            }
        }
    }

    /// Goes on with the loop on a strand of another size, which starts with this task. The task again
    /// if this strand has that size; nothing if it went there, or there is no stack for it and it is refused.
    #[cold]
    fn dispatch_elsewhere<'w>(&self, hand: Hand<'w>, size: StackSize) -> Option<Hand<'w>> {
        let Some(here) = self.strand.get() else { return Some(hand) };
        // SAFETY: the strand that this runs on.
        if unsafe { here.as_ref() }.size() == size {
            return Some(hand);
        }
        // SAFETY: one thread; no other reference at the same time.
        match unsafe { (*self.stacks.get()).acquire(size) } {
            Ok(stack) => {
                self.fault(Step::Elsewhere);
                let to = Strand::new(stack, strand_main);
                self.handoff.set(Some(hand.give()));
                self.left.set(Left::Spare(here));
                // SAFETY: new; this one is spare.
                unsafe { self.switch(here, to) };
            }
            Err(error) => {
                let task = hand.task;
                self.stats().executed.bump();
                // SAFETY: picked, hence ours.
                if unsafe { (*task.as_ptr()).group.get() } != self.ended.get().group {
                    self.count_ended(); // before it is added to those of its own group
                }
                // SAFETY: picked, hence ours; it has not run.
                let outcome = unsafe {
                    (*task.as_ptr()).state.claim(self.index);
                    self.note_turn(EventKind::Start, task.as_ref());
                    Task::refuse(hand.give(), error)
                };
                self.finish(task, outcome);
            }
        }
        None
    }

    /// Leaves a strand that was made for one task, when that has ended.
    #[inline]
    fn leave_odd_strand(&self) {
        let Some(here) = self.strand.get() else { return };
        // SAFETY: the strand that this runs on.
        let odd = unsafe { here.as_ref() }.size() != self.shared.config.stack_size;
        if odd && self.handoff_is_empty() {
            // A task that waits, or the one before, has left a strand of the usual size.
            let to = self.spare();
            self.left.set(Left::Spare(here));
            // SAFETY: spare; so is this one, which is given back and not entered again.
            unsafe { self.switch(here, to) };
        }
    }

    fn handoff_is_empty(&self) -> bool {
        self.handoff.get().is_none()
    }

    /// The closure has returned to the loop below it: the strand is the worker's again.
    #[inline]
    fn finish(&self, task: NonNull<Task>, outcome: Outcome) {
        let unfinished = Unfinished::of(self, task, outcome);
        self.fault(Step::Finish);
        // SAFETY: the task is OWNED by this worker, which just ran it.
        self.note_end_of_turn(EventKind::Finish, unsafe { task.as_ref() });
        let outcome = unfinished.give();
        // SAFETY: as above; the record is not touched after `finish` unless it is ours.
        let (group, finished) = unsafe {
            let this = &*task.as_ptr();
            if this.kept.get() {
                this.kept.set(false);
                self.kept.set(self.kept.get() - 1);
            }
            (this.group.get(), this.state.finish(|| this.joiner.get()))
        };
        self.current.set(None);
        self.stats().ended.bump();
        // In the end, and if telling of it fails: what happens until then may use the group.
        let _counts = Counts { worker: self, group };
        if let Err(payload) = outcome {
            let surplus = match group {
                // SAFETY: the group waits for this task, which is not counted yet.
                Some(group) => unsafe { group.as_ref().panicked(payload) },
                None => Some(payload),
            };
            // Contained: dropping it may panic.
            discard(surplus);
        }
        match finished {
            Finished::Free => {
                // SAFETY: the record is ours.
                unsafe { Task::drop_output(task) };
                self.recycle(task);
                self.fault(Step::Tell);
            }
            Finished::Held(joiner) => {
                if let Some(joiner) = joiner.flatten() {
                    // SAFETY: `finish` has taken JOIN out.
                    unsafe { joiner.tell(&self.shared) };
                }
                self.fault(Step::Tell);
            }
        }
    }

    /// Tells a group which of its children have ended here, when the worker turns to anything else
    /// than another child of it: only then can the group be complete. Says whether
    /// there were any.
    #[inline]
    pub(crate) fn count_ended(&self) -> Option<()> {
        if !self.has_returned.get() && self.ended.get().group.is_none() {
            return None;
        }
        self.count_those_ended()
    }

    #[inline(never)]
    fn count_those_ended(&self) -> Option<()> {
        self.shared.fault_in_loop(Step::Count);
        self.settle_accounts();
        let Ended { group, children } = self.ended.replace(Ended::NONE);
        // SAFETY: the group waits for these children; it is not touched after `complete`.
        if let Some(owner) = unsafe { Group::complete(group?.as_ptr(), children) } {
            self.shared.unpark(owner);
        }
        Some(())
    }

    /// Keeps what a child of the running group has used of its account until `count_ended`: the
    /// pool is that of its nursery, which waits at least until then.
    #[inline]
    pub(crate) fn return_account(&self, pool: &Pool, drawn: &Budget, used: &Budget) {
        self.has_returned.set(true);
        // SAFETY: the pool as above.
        let waiting = unsafe { self.remote().returned.lock().add(pool, drawn, used) };
        waiting.iter().for_each(Wake::wake);
    }

    #[inline]
    fn settle_accounts(&self) {
        if self.has_returned.take() {
            accounts::settle(&self.remote().returned);
        }
    }

    // ----- what a task does -------------------------------------------------------------

    /// Lets others run. Nothing happens if there are none.
    pub(crate) fn yield_now(&self) {
        let Some(task) = self.current.get() else { return };
        if must_not_switch() {
            return;
        }
        self.stats().yielded.bump();
        // SAFETY: the running task.
        let traits = unsafe { (*task.as_ptr()).traits.get() };
        if traits.migratable {
            self.leave(task, Left::Requeue(task), EventKind::Yield);
        } else {
            // Private to this worker, so it may be queued before its stack is left.
            // SAFETY: in no other queue.
            unsafe { self.local()[traits.priority as usize].push_back(task) };
            self.leave(task, Left::Nothing, EventKind::Yield);
        }
    }

    /// Waits to be unparked; may return early. An error if the task was asked to end.
    pub(crate) fn park(&self) -> Result<(), Cancelled> {
        let Some(task) = self.current.get() else { return Ok(()) };
        // SAFETY: the running task.
        let state = unsafe { &(*task.as_ptr()).state };
        if state.is_cancelled() {
            return Err(Cancelled);
        }
        self.wait();
        if state.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// Waits to be unparked, whether or not the task was asked to end; may return early.
    pub(crate) fn wait(&self) {
        if let Some(task) = self.current.get()
            && !must_not_switch()
        {
            self.leave(task, Left::Park(task), EventKind::Park);
        }
    }

    /// A task that was parked was woken on this worker, which may run it.
    pub(crate) fn woken(&self, task: NonNull<Task>, migratable: bool) {
        self.stats().woken.bump();
        if migratable {
            if let Err(task) = self.deque.push(task) {
                self.overflow(task);
            }
            if self.shared.steals() {
                self.shared.notify_any();
            }
            return;
        }
        // SAFETY: QUEUED, and ours to put into a queue.
        let priority = unsafe { (*task.as_ptr()).traits.get().priority };
        // Having just been woken makes nobody more urgent than others of its priority.
        let private = match priority {
            Priority::Normal => self.lifo.replace(Some(task)),
            Priority::Low | Priority::High => Some(task),
        };
        if let Some(task) = private {
            // SAFETY: in no other queue.
            unsafe {
                let priority = (*task.as_ptr()).traits.get().priority;
                self.local()[priority as usize].push_back(task);
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.trim();
    }
}

/// The base of every strand: the loop of whichever worker is on it.
unsafe extern "C" fn strand_main(_: *mut ()) {
    if let Some(strand) = current().and_then(|worker| worker.strand.get()) {
        // SAFETY: just entered for the first time.
        unsafe { strand.as_ref().entered() };
    }
    let mut failed = false;
    loop {
        let turn = catch_unwind(AssertUnwindSafe(|| {
            if std::mem::take(&mut failed)
                && let Some(worker) = current()
            {
                worker.recover();
            }
            loop {
                let Some(worker) = current() else { std::process::abort() };
                worker.settle();
                let stepped = worker.step();
                let Some(worker) = current() else { std::process::abort() };
                if worker.shared.config.deterministic || stepped == Stepped::Idle {
                    worker.rest(stepped);
                }
            }
        }));
        // A panic in the runtime itself: the worker goes on, with its queues and what it had in hand.
        let Err(payload): Result<std::convert::Infallible, _> = turn;
        discard(payload);
        failed = true;
        if let Some(worker) = current() {
            worker.stats().restarts.bump();
        }
    }
}
