//! Tasks: the record, the closure in it, and the group that waits for it.
//!
//! A record is 128 bytes: a cache line of what the scheduler needs, and a line for the
//! closure, which is boxed if it is larger. Records live in slabs (`slab.rs`) whose memory
//! stays what it is until the scheduler is gone, so that a stale handle may always look at
//! one. A task has no stack until it waits for the first time: it is called on the strand
//! of the worker that takes it, and keeps that strand if it parks or yields.

pub(crate) mod group;
pub(crate) mod slab;
pub(crate) mod state;

use crate::fiber::strand::Strand;
use crate::queue::{Link, Linked};
use crate::stack::StackError;
use group::Group;
use state::{Generation, StateWord};
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// How urgent a task is. A hint: nobody starves (see `worker::pick`).
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
    /// Names the task in logs; unique in a scheduler.
    pub(crate) id: Cell<u64>,
    pub(crate) traits: Cell<Traits>,
    /// Before the task starts its closure, or a box with it; after that the strand on which it
    /// waits, from its first wait on.
    place: UnsafeCell<MaybeUninit<Place>>,
}

/// As much as is left of two cache lines. The first two words are on the first line: a task
/// with a small closure touches only that.
#[repr(C, align(16))]
struct Place([u8; 80]);

// Links carry a mark in debug builds.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Task>() == 128, "two cache lines");
#[cfg(not(debug_assertions))]
const _: () = assert!(std::mem::offset_of!(Task, place) == 48, "begins on the first line");

/// How a task ended: with a payload if it panicked.
pub(crate) type Outcome = Result<(), Box<dyn std::any::Any + Send>>;

/// What to do with a closure.
#[derive(Clone, Copy)]
enum Do {
    Run,
    Drop,
}

/// Moves the closure out of the record and runs or drops it.
type Call = unsafe fn(NonNull<Task>, Do) -> Outcome;

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
            id: Cell::new(0),
            traits: Cell::new(Traits { priority: Priority::Normal, migratable: false }),
            place: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Makes a free record a task that is about to be queued.
    ///
    /// # Safety
    ///
    /// The caller holds the record. What the closure borrows outlives the task; what it owns
    /// may be sent to another thread.
    #[inline]
    pub(crate) unsafe fn fill<F: FnOnce()>(
        task: NonNull<Task>,
        group: Option<NonNull<Group>>,
        traits: Traits,
        id: u64,
        closure: F,
    ) -> TaskRef {
        // SAFETY: the caller holds the record.
        unsafe {
            let this = &*task.as_ptr();
            this.group.set(group);
            this.traits.set(traits);
            this.id.set(id);
            let place = this.place.get();
            if fits::<F>() {
                place.cast::<F>().write(closure);
                this.call.set(Some(call_inline::<F>));
            } else {
                place.cast::<Box<F>>().write(Box::new(closure));
                this.call.set(Some(call_boxed::<F>));
            }
            TaskRef { task, generation: this.state.spawn() }
        }
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
    fn has_started(&self) -> bool {
        self.call.get().is_none()
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

    /// Drops the task's closure unrun, because there is no stack for it.
    ///
    /// # Safety
    ///
    /// As for [`run`](Task::run).
    #[cold]
    pub(crate) unsafe fn refuse(task: NonNull<Task>, error: StackError) -> Outcome {
        // SAFETY: as the caller says.
        unsafe {
            if let Some(call) = (*task.as_ptr()).call.take() {
                call(task, Do::Drop)?;
            }
        }
        Err(Box::new(error))
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
                Some(call) => call(task, Do::Run),
                None => unreachable!("a task runs once"),
            }
        }
    }
}

const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Place>() && align_of::<F>() <= align_of::<Place>()
}

/// # Safety
///
/// The record holds an `F` inline, which is moved out.
unsafe fn call_inline<F: FnOnce()>(task: NonNull<Task>, what: Do) -> Outcome {
    // SAFETY: as the caller says.
    let closure = unsafe { (*task.as_ptr()).place.get().cast::<F>().read() };
    finish_with(closure, what)
}

/// # Safety
///
/// The record holds a boxed `F`, which is moved out.
unsafe fn call_boxed<F: FnOnce()>(task: NonNull<Task>, what: Do) -> Outcome {
    // SAFETY: as the caller says.
    let closure = unsafe { (*task.as_ptr()).place.get().cast::<Box<F>>().read() };
    finish_with(*closure, what)
}

#[inline]
fn finish_with<F: FnOnce()>(closure: F, what: Do) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| match what {
        Do::Run => closure(),
        Do::Drop => drop(closure),
    }))
}
