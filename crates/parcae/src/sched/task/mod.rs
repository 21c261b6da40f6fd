//! Tasks: the record, the closure in it, and the group that waits for it.
//!
//! A record is 128 bytes: a cache line of what the scheduler needs, and a line for the
//! closure, which is boxed if it is larger. Records live in slabs (`slab.rs`) whose memory
//! stays what it is until the scheduler is gone, so that a stale handle may always look at
//! one. A task has no stack until it waits for the first time: it is called on the strand
//! of the worker that takes it, and keeps that strand if it parks or yields.

pub(crate) mod frame;
pub(crate) mod group;
pub(crate) mod joiner;
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
use state::{Generation, Handle, StateWord};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How urgent a task is. A hint: nobody starves (see `run_queue`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Priority {
    /// When there is nothing else, and now and then otherwise.
    Low,
    /// In turn.
    Normal,
    /// Before the others.
    High,
}

/// What is fixed about a task when it is spawned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    pub(crate) priority: Priority,
    /// Whether it may go on on another worker after it has started.
    pub(crate) migratable: bool,
    /// How much stack it needs.
    pub(crate) stack: StackSize,
}

/// A record. Fields are written by whoever owns the task in its present phase; the state
/// word orders that (see `state.rs`).
#[repr(C, align(64))]
pub(crate) struct Task {
    link: Link<Task>,
    pub(crate) state: StateWord,
    /// Runs the closure, or drops it unrun; none once the task has started.
    call: Cell<Option<Call>>,
    pub(crate) group: Cell<Option<NonNull<Group>>>,
    /// Names the task in logs; unique in a scheduler. Atomic for those who look at it from outside.
    id: AtomicU64,
    pub(crate) traits: Cell<Traits>,
    /// Whether its worker counts it among those that it keeps. Written by that worker.
    pub(crate) kept: Cell<bool>,
    /// 0, or more than any count of a checkpoint: the task is to look around. A hint, which
    /// may come to the record's next task.
    pub(crate) signal: AtomicU32,
    /// Before the task starts its closure, or a box with it; after that the strand on which it
    /// waits, from its first wait on.
    place: UnsafeCell<MaybeUninit<Place>>,
    /// Who waits for the end of this one; read if JOIN is set.
    pub(crate) joiner: Cell<Option<Joiner>>,
}

/// As much as is left of two cache lines. The first two words are on the first line: a task
/// with a small closure touches only that. Begins at a multiple of 16.
type Place = [u64; 9];

// Links carry a mark in debug builds.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Task>() == 128, "two cache lines");
#[cfg(not(debug_assertions))]
const _: () = assert!(std::mem::offset_of!(Task, place) == 48, "begins on the first line");

/// How a task ended: with a payload if it panicked.
pub(crate) type Outcome = Result<(), Box<dyn std::any::Any + Send>>;

/// What a task's closure is called for.
#[derive(Debug)]
pub(crate) enum Start {
    /// To do its work.
    Run,
    /// To give up what it owns: there is no stack for it.
    Refused(StackError),
}

/// Moves the closure out of the record and calls it.
pub(crate) type Call = unsafe fn(NonNull<Task>, Start) -> Outcome;

// SAFETY: a record does not move, and a task is in one queue at a time.
unsafe impl Linked for Task {
    unsafe fn link(this: NonNull<Task>) -> NonNull<Link<Task>> {
        // SAFETY: a field of a live record.
        unsafe { NonNull::new_unchecked(&raw mut (*this.as_ptr()).link) }
    }
}

/// A task as others know it: which record, and which of its lives.
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
    /// A record that is nobody's task yet.
    pub(crate) fn free() -> Task {
        Task {
            link: Link::new(),
            state: StateWord::new(),
            call: Cell::new(None),
            group: Cell::new(None),
            id: AtomicU64::new(0),
            traits: Cell::new(Traits {
                priority: Priority::Normal,
                migratable: false,
                stack: StackSize::SERVICE,
            }),
            kept: Cell::new(false),
            signal: AtomicU32::new(0),
            place: UnsafeCell::new(MaybeUninit::uninit()),
            joiner: Cell::new(None),
        }
    }

    /// Makes a free record a task that is about to be queued.
    ///
    /// # Safety
    ///
    /// The caller holds the record. What the closure borrows outlives the task; what it owns
    /// may be sent to another thread.
    #[inline]
    pub(crate) unsafe fn fill<F: FnOnce(NonNull<Task>, Start)>(
        task: NonNull<Task>,
        group: Option<NonNull<Group>>,
        traits: Traits,
        id: u64,
        handle: Handle,
        closure: F,
    ) -> TaskRef {
        // SAFETY: the caller holds the record.
        unsafe {
            let this = &*task.as_ptr();
            this.group.set(group);
            this.traits.set(traits);
            this.id.store(id, Ordering::Relaxed); // published with the task
            Stored::put(task, closure);
            this.call.set(Some(call::<F>));
            TaskRef { task, generation: this.state.spawn(handle) }
        }
    }

    /// The number of the task; of whichever has the record, for one who does not keep it alive.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed) // the caller has the task, or checks its generation after it
    }

    /// Where a task waits that has started; none if it has not.
    ///
    /// # Safety
    ///
    /// The caller owns the task, which does not run.
    #[inline]
    pub(crate) unsafe fn strand(&self) -> Option<NonNull<Strand>> {
        if self.has_started() {
            // SAFETY: a task that has started and does not run has left its strand, and said
            // so by `left`.
            Some(unsafe { self.place.get().cast::<NonNull<Strand>>().read() })
        } else {
            None
        }
    }

    /// Whether the closure was moved out of the record. Asked by the task's owner.
    #[inline]
    pub(crate) fn has_started(&self) -> bool {
        self.call.get().is_none()
    }

    /// Notes where the running task keeps what is its own.
    ///
    /// # Safety
    ///
    /// The caller is the task, which has started.
    #[inline]
    pub(crate) unsafe fn set_frame(&self, frame: FramePtr) {
        // SAFETY: the closure is no longer in the record; the second word is the frame's.
        unsafe { self.place.get().cast::<FramePtr>().add(1).write(frame) };
    }

    /// What `set_frame` noted.
    ///
    /// # Safety
    ///
    /// The caller owns the task, which has started and called `set_frame`.
    #[inline]
    pub(crate) unsafe fn frame(&self) -> FramePtr {
        // SAFETY: as the caller says.
        unsafe { self.place.get().cast::<FramePtr>().add(1).read() }
    }

    /// Notes where the task waits.
    ///
    /// # Safety
    ///
    /// The caller owns the task, which has started.
    #[inline]
    pub(crate) unsafe fn left(&self, strand: NonNull<Strand>) {
        // SAFETY: the closure is no longer in the record, and the place is large enough.
        unsafe { self.place.get().cast::<NonNull<Strand>>().write(strand) };
    }

    /// Calls the task's closure only to tell it that there is no stack for it.
    ///
    /// # Safety
    ///
    /// As for [`run`](Task::run).
    #[cold]
    pub(crate) unsafe fn refuse(task: NonNull<Task>, error: StackError) -> Outcome {
        // SAFETY: as the caller says.
        unsafe {
            if let Some(call) = (*task.as_ptr()).call.take() {
                call(task, Start::Refused(error.clone()))?;
            }
        }
        Err(Box::new(error))
    }

    /// Whether there is a result in the record of a task that has ended.
    pub(crate) fn has_output(&self) -> bool {
        self.call.get().is_some()
    }

    /// Leaves the task's result in its record, for whoever holds its handle; if that is gone by
    /// then, `unheard` takes it.
    ///
    /// # Safety
    ///
    /// The caller is the task, or its worker: the closure was moved out of the record, and the
    /// task does not wait any more. `unheard` takes a `T`.
    #[inline]
    pub(crate) unsafe fn put_output<T>(task: NonNull<Task>, output: T, unheard: Call) {
        // SAFETY: as the caller says: the place is empty.
        unsafe {
            Stored::put(task, output);
            (*task.as_ptr()).call.set(Some(unheard));
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
            (*task.as_ptr()).call.set(None);
            Stored::take(task)
        }
    }

    /// Looks at the result.
    ///
    /// # Safety
    ///
    /// The task has ended, a `T` was put into its record, and nobody takes it during the call.
    pub(crate) unsafe fn peek_output<T, R>(task: NonNull<Task>, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: as the caller says.
        unsafe {
            let place = (*task.as_ptr()).place.get();
            if Stored::fits::<T>() {
                look(&*place.cast::<T>())
            } else {
                look(&*place.cast::<Box<T>>())
            }
        }
    }

    /// Drops a result that nobody took, if there is one.
    ///
    /// # Safety
    ///
    /// The caller has the record of a task that has ended.
    #[inline]
    pub(crate) unsafe fn drop_output(task: NonNull<Task>) {
        // SAFETY: as the caller says: what is called now drops the result.
        unsafe {
            if let Some(call) = (*task.as_ptr()).call.take() {
                discard(call(task, Start::Run));
            }
        }
    }

    /// Runs the task's closure here and now.
    ///
    /// # Safety
    ///
    /// The caller owns the task, and this is the first time.
    #[inline]
    pub(crate) unsafe fn run(task: NonNull<Task>) -> Outcome {
        // SAFETY: filled by `fill`; the caller owns the task.
        unsafe {
            match (*task.as_ptr()).call.take() {
                Some(call) => call(task, Start::Run),
                None => unreachable!("a task runs once"),
            }
        }
    }
}

/// A value in the place of a record, or in a box there if it does not fit.
struct Stored;

impl Stored {
    const fn fits<T>() -> bool {
        size_of::<T>() <= size_of::<Place>() && align_of::<T>() <= 16
    }

    /// # Safety
    ///
    /// The caller owns the place, and there is nothing in it.
    #[inline]
    unsafe fn put<T>(task: NonNull<Task>, value: T) {
        // SAFETY: as the caller says; the place is large and aligned enough.
        unsafe {
            let place = (*task.as_ptr()).place.get();
            if Stored::fits::<T>() {
                place.cast::<T>().write(value);
            } else {
                place.cast::<Box<T>>().write(Box::new(value));
            }
        }
    }

    /// # Safety
    ///
    /// The caller owns the place, and a `T` was put there and not taken since.
    #[inline]
    unsafe fn take<T>(task: NonNull<Task>) -> T {
        // SAFETY: as the caller says.
        unsafe { Stored::take_then(task, || ()) }
    }

    /// As `take`; `then` is called when the place is empty and nothing was freed yet.
    ///
    /// # Safety
    ///
    /// As for `take`.
    #[inline]
    unsafe fn take_then<T>(task: NonNull<Task>, then: impl FnOnce()) -> T {
        // SAFETY: as the caller says.
        unsafe {
            let place = (*task.as_ptr()).place.get();
            if Stored::fits::<T>() {
                let value = place.cast::<T>().read();
                then();
                value
            } else {
                let boxed = place.cast::<Box<T>>().read();
                then();
                *boxed
            }
        }
    }
}

/// # Safety
///
/// The record holds an `F`, which is moved out; the caller owns the task.
unsafe fn call<F: FnOnce(NonNull<Task>, Start)>(task: NonNull<Task>, start: Start) -> Outcome {
    // SAFETY: as the caller says.
    let closure: F = unsafe {
        // The frame's place is empty before anything is freed: the allocator may ask for it.
        Stored::take_then(task, || (*task.as_ptr()).set_frame(std::ptr::null()))
    };
    catch_unwind(AssertUnwindSafe(|| closure(task, start)))
}
