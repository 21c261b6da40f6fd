//! The part of a record whose content changes during the life of a task.
//!
//! | phase | content | written by | read by |
//! |---|---|---|---|
//! | unstarted | the closure, or a box with it | the spawner | the worker that starts the task: moved out |
//! | running | nothing | – | – |
//! | between calls | the state of the next call | the task | the worker that calls it: moved out |
//! | suspended | the strand that the task has left | its worker | the worker that resumes it |
//! | ended | its result, or a box with it; nothing if there is none | the task | the holder of its handle, or its last worker |
//!
//! The record's [`TaskMarks`](super::TaskMarks) say which phase it is: unstarted, or between calls,
//! while STARTED is not set, ended with a result once OUTPUT is set. Debug builds keep a tag beside
//! the content and check it at every access.

use crate::stack::fiber::strand::Strand;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Room for a closure or a result. The first two words are on the first cache line of the record: a
/// task with a small closure touches only that. Begins at a multiple of 16.
type Space = MaybeUninit<[u64; 8]>;

#[repr(C)]
union OverlayContent {
    closure: Space,
    strand: NonNull<Strand>,
    output: Space,
}

/// Kind of the content.
#[cfg(debug_assertions)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OverlayTag {
    Nothing,
    Closure,
    Strand,
    Output,
}

/// The content, and in debug builds its tag. Accessed by the task's owner.
#[repr(C, align(16))]
pub(super) struct Overlay {
    content: UnsafeCell<OverlayContent>,
    #[cfg(debug_assertions)]
    tag: std::cell::Cell<OverlayTag>,
}

/// Whether a value is stored in place; otherwise in a box.
const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<Space>() && align_of::<T>() <= 16
}

/// # Safety
///
/// There is nothing in the space, which is the caller's.
#[inline]
unsafe fn put<T>(space: *mut Space, value: T) {
    // SAFETY: as the caller says; large and aligned enough.
    unsafe {
        if fits::<T>() {
            space.cast::<T>().write(value);
        } else {
            space.cast::<Box<T>>().write(Box::new(value));
        }
    }
}

/// # Safety
///
/// A `T` was put into the space, which is the caller's, and not taken since.
#[inline]
unsafe fn take<T>(space: *mut Space) -> T {
    // SAFETY: as the caller says.
    unsafe { if fits::<T>() { space.cast::<T>().read() } else { *space.cast::<Box<T>>().read() } }
}

impl Overlay {
    pub(super) const fn new() -> Overlay {
        Overlay {
            content: UnsafeCell::new(OverlayContent { output: MaybeUninit::uninit() }),
            #[cfg(debug_assertions)]
            tag: std::cell::Cell::new(OverlayTag::Nothing),
        }
    }

    /// # Safety
    ///
    /// The record is free and the caller's.
    #[inline]
    pub(super) unsafe fn put_closure<F>(&self, closure: F) {
        #[cfg(debug_assertions)]
        assert_eq!(
            self.tag.replace(OverlayTag::Closure),
            OverlayTag::Nothing,
            "a record that is in use"
        );
        // SAFETY: as the caller says.
        unsafe { put(&raw mut (*self.content.get()).closure, closure) };
    }

    /// Moves the closure out: the task starts.
    ///
    /// # Safety
    ///
    /// The caller owns the task, which has not started; its closure is an `F`.
    #[inline]
    pub(super) unsafe fn take_closure<F>(&self) -> F {
        #[cfg(debug_assertions)]
        assert_eq!(
            self.tag.replace(OverlayTag::Nothing),
            OverlayTag::Closure,
            "a task starts once"
        );
        // SAFETY: as the caller says.
        unsafe { take(&raw mut (*self.content.get()).closure) }
    }

    /// Gives access to the closure in place.
    ///
    /// # Safety
    ///
    /// The caller owns or observes the task, which does not run; its closure is a `C`.
    pub(super) unsafe fn peek_closure<C, R>(&self, look: impl FnOnce(&mut C) -> R) -> R {
        #[cfg(debug_assertions)]
        assert_eq!(self.tag.get(), OverlayTag::Closure, "no closure");
        // SAFETY: as the caller says.
        unsafe {
            let space = &raw mut (*self.content.get()).closure;
            if fits::<C>() {
                look(&mut *space.cast::<C>())
            } else {
                look(&mut *space.cast::<Box<C>>())
            }
        }
    }

    /// # Safety
    ///
    /// The caller owns the task, which runs and leaves `strand`.
    #[inline]
    pub(super) unsafe fn set_strand(&self, strand: NonNull<Strand>) {
        #[cfg(debug_assertions)]
        assert!(
            matches!(
                self.tag.replace(OverlayTag::Strand),
                OverlayTag::Nothing | OverlayTag::Strand
            ),
            "a task that is suspended runs"
        );
        // SAFETY: as the caller says: there is nothing else in it.
        unsafe { (*self.content.get()).strand = strand };
    }

    /// # Safety
    ///
    /// The caller owns the task, which is suspended.
    #[inline]
    pub(super) unsafe fn strand(&self) -> NonNull<Strand> {
        #[cfg(debug_assertions)]
        assert_eq!(self.tag.get(), OverlayTag::Strand, "a task that has left no strand");
        // SAFETY: as the caller says.
        unsafe { (*self.content.get()).strand }
    }

    /// # Safety
    ///
    /// The caller is the task, or its worker: it has started and will not be suspended again.
    #[inline]
    pub(super) unsafe fn put_output<T>(&self, output: T) {
        #[cfg(debug_assertions)]
        assert!(
            matches!(
                self.tag.replace(OverlayTag::Output),
                OverlayTag::Nothing | OverlayTag::Strand
            ),
            "a task has one result"
        );
        // SAFETY: as the caller says.
        unsafe { put(&raw mut (*self.content.get()).output, output) };
    }

    /// # Safety
    ///
    /// The task has ended with a `T`, which was not taken; the record is the caller's.
    #[inline]
    pub(super) unsafe fn take_output<T>(&self) -> T {
        #[cfg(debug_assertions)]
        assert_eq!(
            self.tag.replace(OverlayTag::Nothing),
            OverlayTag::Output,
            "a result is taken once"
        );
        // SAFETY: as the caller says.
        unsafe { take(&raw mut (*self.content.get()).output) }
    }

    /// # Safety
    ///
    /// The task has ended with a `T`, which is not taken during the call.
    pub(super) unsafe fn peek_output<T, R>(&self, look: impl FnOnce(&T) -> R) -> R {
        #[cfg(debug_assertions)]
        assert_eq!(self.tag.get(), OverlayTag::Output, "no result");
        // SAFETY: as the caller says.
        unsafe {
            let space = &raw const (*self.content.get()).output;
            if fits::<T>() { look(&*space.cast::<T>()) } else { look(&*space.cast::<Box<T>>()) }
        }
    }

    /// Empties the overlay of a free record, or of a task that runs. A strand that it still names
    /// is gone, or in use.
    #[inline]
    pub(super) fn clear(&self) {
        #[cfg(debug_assertions)]
        assert!(
            matches!(
                self.tag.replace(OverlayTag::Nothing),
                OverlayTag::Nothing | OverlayTag::Strand
            ),
            "a record was freed with a closure or a result in it"
        );
    }
}
