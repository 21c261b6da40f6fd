//! The handle to one stack.

use super::arena::{SlotList, StackSlot};
use super::overflow::{self, LABEL_SIZE, Label};
use super::pool::PoolShared;
use super::{GuardKind, StackError, StackSize};
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A stack that its holder may run on. Dropping it gives it back to its pool.
///
/// The memory is between [`bottom`](Stack::bottom) and [`top`](Stack::top); the guard
/// is below the bottom. Contents are arbitrary.
pub struct Stack {
    slot: NonNull<StackSlot>,
}

// SAFETY: a stack is memory that only its holder uses; the slot belongs to the holder
// too, and the pool that it points to is shared by threads.
unsafe impl Send for Stack {}
// SAFETY: shared access only reads fields that no one changes while the stack is held.
unsafe impl Sync for Stack {}

impl Stack {
    /// # Safety
    ///
    /// The caller owns the slot, with its count of the pool, and gives both to the stack.
    pub(super) unsafe fn new(slot: NonNull<StackSlot>) -> Stack {
        Stack { slot }
    }

    /// The size class.
    pub fn size(&self) -> StackSize {
        // SAFETY: a held slot's arena is live.
        unsafe { (*(*self.slot.as_ptr()).arena.as_ptr()).size }
    }

    /// The address above the stack, where it begins. Page-aligned.
    pub fn top(&self) -> *mut u8 {
        // SAFETY: the slot is held.
        unsafe { (*self.slot.as_ptr()).top.as_ptr() }
    }

    /// The lowest address of the stack, directly above its guard. Page-aligned.
    pub fn bottom(&self) -> *mut u8 {
        // SAFETY: the slot is held.
        unsafe { StackSlot::bottom(self.slot).as_ptr() }
    }

    /// The guard below this stack.
    pub fn guard(&self) -> GuardKind {
        // SAFETY: the slot is held.
        unsafe { (*self.slot.as_ptr()).guard.unwrap_or(GuardKind::Off) }
    }

    /// The deepest use of the stack since its memory was last given back to the system, in bytes,
    /// rounded up to whole pages. Costs a system call.
    ///
    /// Earlier users of the same stack count too: the result is a size that would have been enough
    /// for all of them.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn high_water(&self) -> io::Result<usize> {
        // SAFETY: a held slot keeps its pool alive.
        let shared = unsafe { &*self.shared() };
        // SAFETY: the slot is held.
        let bottom = unsafe { StackSlot::bottom(self.slot) };
        let len = self.top().addr() - bottom.addr().get();
        let mut pages = Vec::new();
        pages.try_reserve_exact(len / shared.page)?;
        pages.resize(len / shared.page, 0);
        shared.sys.residency(bottom, len, &mut pages).map_err(io::Error::from_raw_os_error)?;
        let untouched = pages.iter().take_while(|&&byte| byte & 1 == 0).count();
        Ok(len - untouched * shared.page)
    }

    /// Prepares this thread for running on the stack: overflow reports need a signal stack.
    pub(crate) fn arm_thread(&self) -> Result<(), StackError> {
        // SAFETY: a held slot keeps its pool alive.
        if unsafe { (*self.shared()).reports_overflows() } {
            overflow::arm_thread()
        } else {
            Ok(())
        }
    }

    /// The label at the top of the stack, which names its user in overflow reports.
    pub(crate) fn label(&self) -> &Label {
        // SAFETY: the top of the stack is mapped and aligned, all users of a stack start below
        // the label, and any bytes are a valid label.
        unsafe { &*self.top().sub(LABEL_SIZE).cast::<Label>() }
    }

    /// The address below which frames may begin: below the label, and shifted by a few cache lines
    /// so that the hot ends of many stacks do not compete for the same cache sets.
    pub(crate) fn usable_top(&self) -> *mut u8 {
        const LINE: usize = 64;
        const COLOURS: usize = 8;
        let stride = self.size().bytes();
        let colour = (self.top().addr() / stride) % COLOURS;
        // SAFETY: less than 1 KiB below the top, and no stack is that small.
        unsafe { self.top().sub(LABEL_SIZE + colour * LINE) }
    }

    /// Retires the stack permanently. It is never used again, and its memory stays unchanged, since
    /// pointers into it may exist. Its reference to the pool keeps all arenas mapped, even when
    /// every other handle is dropped.
    pub(crate) fn quarantine(self) {
        self.label().clear();
        // SAFETY: a held slot keeps its pool alive. Relaxed: a counter for statistics.
        unsafe { (*self.shared()).quarantined.fetch_add(1, Ordering::Relaxed) };
        std::mem::forget(self);
    }

    pub(super) fn slot(&self) -> NonNull<StackSlot> {
        self.slot
    }

    pub(super) fn shared(&self) -> *const PoolShared {
        // SAFETY: a held slot's arena is live.
        unsafe { (*(*self.slot.as_ptr()).arena.as_ptr()).shared }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the stack's strong count, which becomes this handle's.
        let shared = unsafe {
            let shared = self.shared();
            Arc::increment_strong_count(shared);
            Arc::from_raw(shared)
        };
        let mut one = SlotList::default();
        one.push(self.slot);
        PoolShared::take_back(&shared, self.size(), one);
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stack({} at {:p})", self.size(), self.bottom())
    }
}
