//! Tasks: the record, the closure in it, and the group that waits for it.
//!
//! A record is 128 bytes: one cache line for the scheduler, one for the closure, which is boxed if
//! it is larger. Records live in slabs (`slab.rs`), whose memory keeps its type until the scheduler
//! is gone, so that a stale handle may always read a state word. A task has no stack before its
//! first wait: it is called on the strand of the worker that takes it, and keeps that strand if it
//! parks or yields.
//!
//! The memory of the closure is reused for the strand of a suspended task and for the result of an
//! ended one. `overlay.rs` has the phases; [`TaskMarks`] say which one it is.

pub(crate) mod frame;
pub(crate) mod group;
pub(crate) mod joiner;
mod overlay;
pub(crate) mod signal;
pub(crate) mod slab;
pub(crate) mod state;
mod view;
pub(crate) mod waker;

pub use view::TaskState;

use crate::base::error::discard;
use crate::sched::queue::{Link, Linked};
use crate::stack::fiber::strand::Strand;
use crate::stack::{StackError, StackSize};
use frame::FramePtr;
use group::Group;
use joiner::Joiner;
use overlay::Overlay;
use signal::TaskSignal;
use state::{Generation, RecordHandle, StateWord};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// How urgent a task is. A hint: no task starves (see `run_queue`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Priority {
    /// Runs when no other task is ready, and occasionally otherwise.
    Low,
    /// The default: in the order of the queues.
    Normal,
    /// Runs before the others.
    High,
}

/// The worker that starts a task. A task stays on the worker that has started it, unless it is a
/// future or [`migratable`](crate::SpawnOpts::migratable), so the choice decides how it talks to
/// others: by a switch on the same worker, or from one processor to another at several times the
/// cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Placement {
    /// The spawner's worker, or another one that has nothing to do and sees the task wait there for
    /// more than a moment.
    #[default]
    Any,
    /// The spawner's worker, and no other. For a task that talks to its spawner, or to siblings
    /// with the same placement, more than it computes. It starts when the spawner waits, yields or
    /// ends, however long that takes. Without effect where the spawner is no task.
    Near,
    /// The first worker that has nothing else to do. For a task that computes beside its spawner.
    /// The spawner's worker prefers the tasks that it has of its own; a yield of the spawner does
    /// not wait for the start of such a child.
    Spread,
}

/// The queue that a task waits in: by its priority, and whether it belongs to a tenant
/// (`run_queue::tenants`). Those without a tenant have the numbers of their priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Lane {
    Low,
    Normal,
    High,
    /// Of tasks that run on a scheduling context, whatever their priority (`run_queue::realtime`).
    Realtime,
    TenantLow,
    TenantNormal,
    TenantHigh,
}

impl Lane {
    /// How many there are.
    pub(crate) const COUNT: usize = 7;

    /// The lane of this priority, of the same tenant or none.
    pub(crate) fn with_priority(self, priority: Priority) -> Lane {
        if self == Lane::Realtime {
            return self;
        }
        match (self.is_tenant(), priority) {
            (false, Priority::Low) => Lane::Low,
            (false, Priority::Normal) => Lane::Normal,
            (false, Priority::High) => Lane::High,
            (true, Priority::Low) => Lane::TenantLow,
            (true, Priority::Normal) => Lane::TenantNormal,
            (true, Priority::High) => Lane::TenantHigh,
        }
    }

    #[inline]
    pub(crate) fn is_tenant(self) -> bool {
        self >= Lane::TenantLow
    }

    pub(crate) fn priority(self) -> Priority {
        match self {
            Lane::Low | Lane::TenantLow => Priority::Low,
            Lane::Normal | Lane::TenantNormal | Lane::Realtime => Priority::Normal,
            Lane::High | Lane::TenantHigh => Priority::High,
        }
    }
}

/// Names a tenant; 0 is the default entity, which is no tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TenantIndex(u16);

impl TenantIndex {
    /// Of tasks without a share.
    pub(crate) const DEFAULT: TenantIndex = TenantIndex(0);

    pub(crate) fn is_tenant(self) -> bool {
        self.0 != 0
    }

    /// The tenant with this index, which is below 2¹⁶.
    pub(crate) fn new(index: usize) -> TenantIndex {
        TenantIndex(index as u16)
    }

    pub(crate) fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl From<Priority> for Lane {
    fn from(priority: Priority) -> Lane {
        Lane::Normal.with_priority(priority)
    }
}

/// Properties of a task that are fixed when it is spawned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    pub(crate) lane: Lane,
    pub(crate) binding: Binding,
    /// How much stack it needs.
    pub(crate) stack: StackSize,
}

impl Traits {
    /// Whether it may move to another worker after it has started.
    #[inline(always)]
    pub(crate) fn is_migratable(self) -> bool {
        self.binding == Binding::MOVES
    }
}

/// The tie of a task to a worker. One byte: a record has no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding(u8);

impl Binding {
    /// It stays on the worker that has started it.
    pub(crate) const STAYS: Binding = Binding(0);
    /// It may move to another worker after it has started.
    pub(crate) const MOVES: Binding = Binding(1);
    /// It stays for as long as its future is polled.
    const POLLED: Binding = Binding(2);
    /// The number of contexts that can be named.
    pub(crate) const CONTEXTS: usize = 253;

    pub(crate) fn movable(moves: bool) -> Binding {
        if moves { Binding::MOVES } else { Binding::STAYS }
    }

    /// It runs on this scheduling context, and on the worker of the context.
    pub(crate) fn to(context: ContextIndex) -> Binding {
        Binding(context.0 + 3)
    }

    /// The scheduling context of the task, if it has one.
    pub(crate) fn context(self) -> Option<ContextIndex> {
        self.0.checked_sub(3).map(ContextIndex)
    }

    /// The same, of a task whose future is polled: it stays where it is.
    pub(crate) fn polled(self) -> Binding {
        if self.context().is_some() { self } else { Binding::POLLED }
    }

    /// The same, of a task that may move or not. One with a context never moves.
    pub(crate) fn moving(self, moves: bool) -> Binding {
        if self.context().is_some() { self } else { Binding::movable(moves) }
    }
}

/// Names a scheduling context of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextIndex(u8);

impl ContextIndex {
    /// The context with this index, which is below [`Binding::CONTEXTS`].
    pub(crate) fn new(index: usize) -> ContextIndex {
        ContextIndex(index as u8)
    }

    pub(crate) fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// A record. Fields are written by the owner of the task in its present phase; the state word
/// orders that (see `state.rs`).
#[repr(C, align(64))]
pub(crate) struct Task {
    link: Link<Task>,
    pub(crate) state: StateWord,
    /// For the closure or the result in the overlay.
    call: Cell<Call>,
    pub(crate) group: Cell<Option<NonNull<Group>>>,
    /// Names the task in events; unique in a scheduler. Atomic because observers read it.
    id: AtomicU64,
    pub(crate) traits: Cell<Traits>,
    marks: Cell<TaskMarks>,
    /// Makes the task take the slow path of its next checkpoint.
    pub(crate) signal: TaskSignal,
    overlay: Overlay,
    /// The frame that the task is in; null outside of one.
    frame: Cell<FramePtr>,
    /// The waiter to notify of the end of this task; read if JOIN is set.
    pub(crate) joiner: Cell<Option<Joiner>>,
}

// Debug builds mark links and tag overlays, and atomics of loom are larger.
#[cfg(not(any(debug_assertions, loom)))]
const _: () = assert!(size_of::<Task>() == 128, "two cache lines");
#[cfg(not(any(debug_assertions, loom)))]
const _: () = assert!(std::mem::offset_of!(Task, overlay) == 48, "begins on the first line");

/// Bits about a task, written by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TaskMarks(u8);

impl TaskMarks {
    /// A new task.
    const NEW: TaskMarks = TaskMarks(0);
    /// The closure was moved out of the record. Set when the task is called; stays set until the
    /// record is filled again, or the task has left its stack to be called again.
    const STARTED: u8 = 1;
    /// There is a result in the record. Set by the task; cleared when the result is taken.
    const OUTPUT: u8 = 2;
    /// The task may not move and has waited: its worker counts it (`Worker::pinned`). Set at its
    /// first wait; stays set, unless the task is to be called again and may move.
    const PINNED: u8 = 4;
    /// The task did not wait since a yield at which unstarted tasks were ready. Set by such a
    /// yield; cleared when the task is woken and goes behind others.
    const YIELDED: u8 = 8;
    /// The call has returned, and the task has not ended: there is a closure for its next turn in
    /// the record. Set by the task; cleared by the worker that parks it.
    const AGAIN: u8 = 16;
    /// AGAIN was set once: the next call is not its first turn. Stays set.
    const CALLED: u8 = 32;

    #[inline]
    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// How a task ended: with a payload if it panicked.
pub(crate) type Outcome = Result<(), Box<dyn std::any::Any + Send>>;

/// The purpose of calling a task's closure.
#[derive(Debug)]
pub(crate) enum Start {
    /// To do its work.
    Run,
    /// To drop its values: there is no stack for it. Boxed: one word, for the usual task too.
    Refused(Box<StackError>),
}

/// Calls the closure in the record, or drops the result; either is moved out.
pub(crate) type Call = unsafe fn(NonNull<Task>, Start) -> Outcome;

// SAFETY: a record does not move, and a task is in one queue at a time.
unsafe impl Linked for Task {
    unsafe fn link(this: NonNull<Task>) -> NonNull<Link<Task>> {
        // SAFETY: a field of a live record.
        unsafe { NonNull::new_unchecked(&raw mut (*this.as_ptr()).link) }
    }
}

/// A reference to a task: its record, and the generation of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskRef {
    pub(crate) task: NonNull<Task>,
    pub(crate) generation: Generation,
}

// SAFETY: used through the state word only, which is made for that.
unsafe impl Send for TaskRef {}
// SAFETY: as above.
unsafe impl Sync for TaskRef {}

impl Task {
    /// A free record.
    pub(crate) fn free() -> Task {
        Task {
            link: Link::new(),
            state: StateWord::new(),
            call: Cell::new(nothing),
            group: Cell::new(None),
            id: AtomicU64::new(0),
            traits: Cell::new(Traits {
                lane: Lane::Normal,
                binding: Binding::STAYS,
                stack: StackSize::SERVICE,
            }),
            marks: Cell::new(TaskMarks::NEW),
            signal: TaskSignal::new(),
            overlay: Overlay::new(),
            frame: Cell::new(std::ptr::null()),
            joiner: Cell::new(None),
        }
    }

    /// Makes a free record a task that is about to be queued.
    ///
    /// # Safety
    ///
    /// The caller holds the record. Values that the closure borrows outlive the task; values that
    /// it owns may be sent to another thread.
    #[inline]
    pub(crate) unsafe fn fill<F: FnOnce(NonNull<Task>, Start)>(
        task: NonNull<Task>,
        group: Option<NonNull<Group>>,
        traits: Traits,
        id: u64,
        handle: RecordHandle,
        closure: F,
    ) -> TaskRef {
        // SAFETY: the caller holds the record.
        unsafe {
            let this = &*task.as_ptr();
            this.group.set(group);
            this.traits.set(traits);
            this.id.store(id, Ordering::Relaxed); // published with the task
            this.marks.set(TaskMarks::NEW);
            this.overlay.clear();
            this.overlay.put_closure(closure);
            this.call.set(call::<F>);
            TaskRef { task, generation: this.state.spawn(handle) }
        }
    }

    /// The number of the task. A caller that does not keep the task alive may get that of the
    /// record's next task.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed) // Relaxed: published with the task
    }

    fn mark(&self, bit: u8) {
        self.marks.set(TaskMarks(self.marks.get().0 | bit));
    }

    /// Whether the closure was moved out of the record. Asked by the task's owner.
    #[inline]
    pub(crate) fn has_started(&self) -> bool {
        self.marks.get().has(TaskMarks::STARTED)
    }

    /// The strand of a suspended task; none if it has not started.
    ///
    /// # Safety
    ///
    /// The caller owns the task, which does not run.
    #[inline]
    pub(crate) unsafe fn strand(&self) -> Option<NonNull<Strand>> {
        // SAFETY: a task that has started and does not run is suspended.
        if self.has_started() { Some(unsafe { self.overlay.strand() }) } else { None }
    }

    /// The task is about to leave its strand.
    ///
    /// # Safety
    ///
    /// The caller owns the task, which runs on `strand`.
    #[inline]
    pub(crate) unsafe fn suspend(&self, strand: NonNull<Strand>) {
        // SAFETY: as the caller says.
        unsafe { self.overlay.set_strand(strand) };
    }

    /// Records that the task is pinned to its worker, which counts it. Called by that worker.
    #[inline]
    pub(crate) fn pin(&self) {
        self.mark(TaskMarks::PINNED);
    }

    /// Takes [`pin`](Task::pin) back. Called by the same worker.
    pub(crate) fn unpin(&self) {
        self.marks.set(TaskMarks(self.marks.get().0 & !TaskMarks::PINNED));
    }

    /// The task has left its stack without an end: `closure` has the state of its next turn, for
    /// which the worker calls `call` when the task was woken. Until then an observer may
    /// [read](Task::peek_again) it.
    ///
    /// # Safety
    ///
    /// The caller is the task, which returns to its worker after this and has no frame. `call`
    /// takes a `C` out. A task that may move is `Send` with it.
    pub(crate) unsafe fn call_again<C>(task: NonNull<Task>, closure: C, call: Call) {
        // SAFETY: as the caller says.
        unsafe {
            let this = task.as_ref();
            this.overlay.clear();
            this.overlay.put_closure(closure);
            this.call.set(call);
            let marks = this.marks.get().0 & !TaskMarks::STARTED;
            this.marks.set(TaskMarks(marks | TaskMarks::AGAIN | TaskMarks::CALLED));
        }
    }

    /// Takes the state of the next turn out: the turn begins.
    ///
    /// # Safety
    ///
    /// Called by the `call` of [`call_again`](Task::call_again), with the same type.
    pub(crate) unsafe fn take_again<C>(task: NonNull<Task>) -> C {
        // SAFETY: as the caller says.
        unsafe { task.as_ref().overlay.take_closure() }
    }

    /// Reads the state of the next turn of a task that is parked between two turns.
    ///
    /// # Safety
    ///
    /// The caller observes the task, which is [between turns](Task::is_between_calls), with this
    /// type.
    pub(crate) unsafe fn peek_again<C, R>(&self, look: impl FnOnce(&mut C) -> R) -> R {
        // SAFETY: as the caller says.
        unsafe { self.overlay.peek_closure(look) }
    }

    /// Whether the task has left its stack to be called again. Asked by its owner, or an observer.
    pub(crate) fn is_between_calls(&self) -> bool {
        self.marks.get().has(TaskMarks::CALLED) && !self.has_started()
    }

    /// Whether a context may be lent to it: it stays on its worker, has none, and is called once,
    /// so that its traits are its own until it ends. Asked by its owner.
    pub(crate) fn may_borrow(&self) -> bool {
        self.traits.get().binding == Binding::STAYS && !self.marks.get().has(TaskMarks::CALLED)
    }

    /// Whether the call that has just returned was one of several, and not the last. Asked by the
    /// task's owner.
    #[inline(always)]
    pub(crate) fn is_to_be_called_again(&self) -> bool {
        self.marks.get().has(TaskMarks::AGAIN)
    }

    /// The worker parks a task that is to be called again.
    pub(crate) fn clear_again(&self) {
        self.marks.set(TaskMarks(self.marks.get().0 & !TaskMarks::AGAIN));
    }

    /// Whether [`pin`](Task::pin) was called. Asked by the task's owner.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.marks.get().has(TaskMarks::PINNED)
    }

    /// The task yields while unstarted tasks are ready. Called by its owner.
    pub(crate) fn set_yielded(&self) {
        self.mark(TaskMarks::YIELDED);
    }

    /// The task was woken. Called by its owner.
    #[inline]
    pub(crate) fn clear_yielded(&self) {
        self.marks.set(TaskMarks(self.marks.get().0 & !TaskMarks::YIELDED));
    }

    /// Whether the children that it has spawned so far have all started: it has not started itself,
    /// or has yielded since. If not, they may have. Asked by the task's owner.
    pub(crate) fn has_no_new_children(&self) -> bool {
        !self.has_started() || self.marks.get().has(TaskMarks::YIELDED)
    }

    /// The task enters a frame; or leaves it, with null.
    ///
    /// # Safety
    ///
    /// The caller is the task. The frame stays where it is until the task has left it.
    #[inline]
    pub(crate) unsafe fn set_frame(&self, frame: FramePtr) {
        self.frame.set(frame);
    }

    /// The frame that the task is in; null outside of one. Asked by the task's owner: the frame is
    /// live for as long as the record names it.
    #[inline]
    pub(crate) fn frame(&self) -> FramePtr {
        self.frame.get()
    }

    /// Runs the task's closure here and now.
    ///
    /// # Safety
    ///
    /// The caller owns the task, and this is the first time.
    #[inline]
    pub(crate) unsafe fn run(task: NonNull<Task>) -> Outcome {
        // SAFETY: filled by `fill`; the caller owns the task.
        unsafe { Task::start(task, Start::Run) }
    }

    /// Calls the task's closure to report that there is no stack for the task.
    ///
    /// # Safety
    ///
    /// As for [`run`](Task::run).
    #[cold]
    pub(crate) unsafe fn refuse(task: NonNull<Task>, error: StackError) -> Outcome {
        // SAFETY: as the caller says.
        unsafe { Task::start(task, Start::Refused(Box::new(error.clone())))? };
        Err(Box::new(error))
    }

    /// # Safety
    ///
    /// As for [`run`](Task::run).
    #[inline]
    unsafe fn start(task: NonNull<Task>, start: Start) -> Outcome {
        // SAFETY: as the caller says.
        unsafe {
            let this = task.as_ref();
            debug_assert!(!this.has_started(), "a task runs once");
            this.mark(TaskMarks::STARTED);
            (this.call.get())(task, start)
        }
    }

    /// Whether there is a result in the record of a task that has ended.
    pub(crate) fn has_output(&self) -> bool {
        self.marks.get().has(TaskMarks::OUTPUT)
    }

    /// Stores the task's result in its record, for the holder of its handle. If the handle is
    /// dropped before, `unheard` gets the result.
    ///
    /// # Safety
    ///
    /// The caller is the task, or its worker: the task has started and does not wait any more.
    /// `unheard` takes a `T`.
    #[inline]
    pub(crate) unsafe fn put_output<T>(task: NonNull<Task>, output: T, unheard: Call) {
        // SAFETY: as the caller says.
        unsafe {
            let this = task.as_ref();
            this.overlay.put_output(output);
            this.call.set(unheard);
            this.mark(TaskMarks::OUTPUT);
        }
    }

    /// Takes the result out again.
    ///
    /// # Safety
    ///
    /// The caller has the record of a task that has ended, in which a `T` was put.
    #[inline]
    pub(crate) unsafe fn take_output<T>(task: NonNull<Task>) -> T {
        // SAFETY: as the caller says.
        unsafe {
            let this = task.as_ref();
            this.marks.set(TaskMarks(this.marks.get().0 & !TaskMarks::OUTPUT));
            this.overlay.take_output()
        }
    }

    /// Reads the result in place.
    ///
    /// # Safety
    ///
    /// The task has ended, a `T` was put into its record, and is not taken during the call.
    pub(crate) unsafe fn peek_output<T, R>(task: NonNull<Task>, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: as the caller says.
        unsafe { task.as_ref().overlay.peek_output(look) }
    }

    /// Drops a result that was not taken, if there is one.
    ///
    /// # Safety
    ///
    /// The caller has the record of a task that has ended.
    #[inline]
    pub(crate) unsafe fn drop_output(task: NonNull<Task>) {
        // SAFETY: as the caller says. The call takes the result and drops it.
        unsafe {
            let this = task.as_ref();
            if this.has_output() {
                discard((this.call.get())(task, Start::Run));
            }
        }
    }
}

/// The call of a free record.
///
/// # Safety
///
/// None needed: it does not return.
unsafe fn nothing(_: NonNull<Task>, _: Start) -> Outcome {
    unreachable!("a record without a task was called")
}

/// # Safety
///
/// The record holds an `F`, which is moved out; the caller owns the task.
unsafe fn call<F: FnOnce(NonNull<Task>, Start)>(task: NonNull<Task>, start: Start) -> Outcome {
    // SAFETY: as the caller says.
    let closure: F = unsafe { task.as_ref().overlay.take_closure() };
    catch_unwind(AssertUnwindSafe(|| closure(task, start)))
}
