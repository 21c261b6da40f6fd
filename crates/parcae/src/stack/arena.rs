//! Arenas: one mapping cut into guarded stacks of one size, and their slots.

use super::error::{Limit, StackError};
use super::guard::{GuardKind, GuardPolicy, Guards};
use super::opts::TrustDomain;
use super::pool::PoolShared;
use super::registry::{self, Geometry};
use super::size::StackSize;
use super::sys::Sys;
use super::valgrind;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

/// The record of one stack, kept outside of it. Written by the owner of the slot only; the module
/// header of `stack` says who that is.
pub(super) struct StackSlot {
    /// The next slot in the list that holds this one.
    pub(super) next: Option<NonNull<StackSlot>>,
    /// The address above the stack.
    pub(super) top: NonNull<u8>,
    /// The arena, which outlives the slot.
    pub(super) arena: NonNull<Arena>,
    /// The domain whose data may still be on the stack.
    pub(super) domain: TrustDomain,
    /// Valgrind's number for the stack; 0 elsewhere.
    valgrind: u32,
    /// The guard below the stack, once there is one.
    pub(super) guard: Option<GuardKind>,
}

impl StackSlot {
    /// The lowest address of the stack.
    ///
    /// # Safety
    ///
    /// `slot` is a slot of a live arena.
    pub(super) unsafe fn bottom(slot: NonNull<StackSlot>) -> NonNull<u8> {
        // SAFETY: a slot's arena outlives it; the stack below `top` is that long.
        unsafe { (*slot.as_ptr()).top.sub((*(*slot.as_ptr()).arena.as_ptr()).stack_len) }
    }

    /// Whether `next` is the next stack above `one`, with nothing but its guard between them.
    ///
    /// # Safety
    ///
    /// Both are slots of live arenas.
    pub(super) unsafe fn are_neighbours(one: NonNull<StackSlot>, next: NonNull<StackSlot>) -> bool {
        // SAFETY: a slot's arena outlives it; tops of one arena are in one mapping.
        unsafe {
            let (one, next) = (&*one.as_ptr(), &*next.as_ptr());
            let arena = &*one.arena.as_ptr();
            one.arena == next.arena
                && next.top.addr().get().wrapping_sub(one.top.addr().get())
                    == arena.stack_len + arena.guard_size
        }
    }

    /// Gives a slot its guard when it is used for the first time.
    ///
    /// # Safety
    ///
    /// The caller owns the slot, and its stack is unused.
    pub(super) unsafe fn harden(
        slot: NonNull<StackSlot>,
        guards: &Guards,
        sys: &dyn Sys,
    ) -> Result<GuardKind, StackError> {
        // SAFETY: the caller owns the slot; its arena outlives it; the guard lies
        // directly below the stack.
        unsafe {
            let arena = (*slot.as_ptr()).arena;
            let bottom = StackSlot::bottom(slot);
            let guard_size = (*arena.as_ptr()).guard_size;
            let kind = guards.install(sys, bottom.sub(guard_size), guard_size)?;
            let top = (*slot.as_ptr()).top;
            (*slot.as_ptr()).valgrind = valgrind::register(bottom.as_ptr(), top.as_ptr()) as u32;
            (*slot.as_ptr()).guard = Some(kind);
            Ok(kind)
        }
    }
}

/// A LIFO list of slots that the holder of the list owns.
#[derive(Default)]
pub(super) struct SlotList {
    head: Option<NonNull<StackSlot>>,
    len: usize,
}

impl SlotList {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a slot; the list owns it from now on.
    pub(super) fn push(&mut self, slot: NonNull<StackSlot>) {
        // SAFETY: the caller hands over a slot that it owns.
        unsafe { (*slot.as_ptr()).next = self.head };
        self.head = Some(slot);
        self.len += 1;
    }

    /// Removes the slot that was added last.
    pub(super) fn pop(&mut self) -> Option<NonNull<StackSlot>> {
        let slot = self.head?;
        // SAFETY: slots in the list are owned by it.
        self.head = unsafe { (*slot.as_ptr()).next };
        self.len -= 1;
        Some(slot)
    }

    /// Adds the slots of another list, which is empty afterwards.
    pub(super) fn append(&mut self, other: &mut SlotList) {
        while let Some(slot) = other.pop() {
            self.push(slot);
        }
    }

    /// Keeps the `keep` slots that were added last and returns the others, whose
    /// memory is colder.
    pub(super) fn split_off_oldest(&mut self, keep: usize) -> SlotList {
        if self.len <= keep {
            return SlotList::default();
        }
        if keep == 0 {
            return std::mem::take(self);
        }
        let Some(mut last_kept) = self.head else {
            return SlotList::default();
        };
        for _ in 1..keep {
            // SAFETY: owned by the list, which is longer than `keep`.
            match unsafe { (*last_kept.as_ptr()).next } {
                Some(next) => last_kept = next,
                None => return SlotList::default(),
            }
        }
        // SAFETY: as above.
        let head = unsafe { (*last_kept.as_ptr()).next.take() };
        let len = self.len - keep;
        self.len = keep;
        SlotList { head, len }
    }
}

/// One mapping of equal stacks. The record and the slots are one heap block.
pub(super) struct Arena {
    pub(super) size: StackSize,
    /// The size in bytes; more than the class says where a page is larger.
    stack_len: usize,
    pub(super) guard_size: usize,
    /// The pool; valid while any slot is outside of its free lists.
    pub(super) shared: *const PoolShared,
    /// The next arena of the same class.
    pub(super) next: Option<NonNull<Arena>>,
    base: NonNull<u8>,
    len: usize,
    count: usize,
    /// How many slots were handed out at least once: those below this index.
    pub(super) used: usize,
    tail_guard: GuardKind,
    entry: &'static registry::ArenaEntry,
}

impl Arena {
    /// Maps an arena for `count` stacks.
    pub(super) fn map(
        shared: &Arc<PoolShared>,
        size: StackSize,
        count: usize,
    ) -> Result<NonNull<Arena>, StackError> {
        let sys = &*shared.sys;
        let guard_size = shared.guard_size;
        let stack_len = size.bytes().max(shared.page);
        let stride = stack_len + guard_size;
        let len = count * stride + guard_size;
        let layout = Arena::layout(count).ok_or(StackError::Heap { bytes: usize::MAX })?;

        let base = sys.reserve(len).map_err(|errno| StackError::Reserve {
            bytes: len,
            limit: Limit::diagnose(errno, len),
        })?;
        // Kernels without huge pages answer EINVAL, which is fine.
        let _ = sys.forbid_huge_pages(base, len);
        let undo = |error| {
            let _ = sys.unreserve(base, len);
            error
        };
        // SAFETY: the last guard of the mapping.
        let tail = unsafe { base.add(count * stride) };
        let tail_guard = match shared.guards.policy {
            GuardPolicy::Off => GuardKind::Off,
            _ => shared.guards.install(sys, tail, guard_size).map_err(undo)?,
        };
        let forget = |error| {
            if tail_guard == GuardKind::Mprotect {
                Guards::forget_mprotect(1);
            }
            undo(error)
        };
        // SAFETY: the layout is not empty.
        let block = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }.cast::<Arena>())
            .ok_or_else(|| forget(StackError::Heap { bytes: layout.size() }))?;
        let geometry = Geometry {
            base: base.as_ptr().expose_provenance(),
            len,
            stride,
            // Without guards or reports, the handler has nothing to find here.
            guard: if shared.reports_overflows() { guard_size } else { 0 },
        };
        let Some(entry) = registry::insert(geometry) else {
            // SAFETY: allocated above with this layout.
            unsafe { std::alloc::dealloc(block.as_ptr().cast(), layout) };
            return Err(forget(StackError::Heap { bytes: size_of::<registry::ArenaEntry>() }));
        };
        let arena = Arena {
            size,
            stack_len,
            guard_size,
            shared: Arc::as_ptr(shared),
            next: None,
            base,
            len,
            count,
            used: 0,
            tail_guard,
            entry,
        };
        // SAFETY: the block begins with room for the record.
        unsafe { block.write(arena) };
        Ok(block)
    }

    /// Hands out a slot that was never used, without a guard yet.
    ///
    /// # Safety
    ///
    /// `arena` is live, and the caller holds its class's lock.
    pub(super) unsafe fn next_unused(arena: NonNull<Arena>) -> Option<NonNull<StackSlot>> {
        // SAFETY: the lock makes this thread the only one to touch `used`; the slot
        // array has `count` places behind the record, and the mapping `count` stacks.
        unsafe {
            let this = arena.as_ptr();
            let index = (*this).used;
            if index == (*this).count {
                return None;
            }
            (*this).used += 1;
            let stride = (*this).stack_len + (*this).guard_size;
            let slot = Arena::slots(arena).add(index);
            slot.write(StackSlot {
                next: None,
                top: (*this).base.add((index + 1) * stride),
                arena,
                domain: TrustDomain::BLANK,
                valgrind: 0,
                guard: None,
            });
            Some(slot)
        }
    }

    /// Counts the resident pages of all slots that were ever used.
    ///
    /// # Safety
    ///
    /// `arena` is live, and the caller holds its class's lock.
    pub(super) unsafe fn resident_pages(
        arena: NonNull<Arena>,
        sys: &dyn Sys,
        page: usize,
        buffer: &mut [u8],
    ) -> Result<usize, i32> {
        // SAFETY: see above; only reads.
        let (base, used) = unsafe {
            let this = &*arena.as_ptr();
            (this.base, (this.stack_len + this.guard_size) * this.used)
        };
        let chunk = buffer.len() * page;
        let mut resident = 0;
        for start in (0..used).step_by(chunk) {
            let len = chunk.min(used - start);
            let pages = &mut buffer[..len / page];
            // SAFETY: inside the mapping.
            sys.residency(unsafe { base.add(start) }, len, pages)?;
            resident += pages.iter().filter(|&&byte| byte & 1 == 1).count();
        }
        Ok(resident)
    }

    /// Unmaps an arena.
    ///
    /// # Safety
    ///
    /// `arena` is live, all its slots are in the free lists, and it is not used again.
    pub(super) unsafe fn unmap(arena: NonNull<Arena>, sys: &dyn Sys) {
        // SAFETY: the caller gives the arena up; slots below `used` were written.
        unsafe {
            let this = arena.as_ptr();
            let mut mprotected = u64::from((*this).tail_guard == GuardKind::Mprotect);
            for index in 0..(*this).used {
                let slot = Arena::slots(arena).add(index).as_ptr();
                if (*slot).guard == Some(GuardKind::Mprotect) {
                    mprotected += 1;
                }
                if (*slot).guard.is_some() {
                    valgrind::deregister(u64::from((*slot).valgrind));
                }
            }
            Guards::forget_mprotect(mprotected);
            (*this).entry.remove();
            if sys.unreserve((*this).base, (*this).len).is_err() {
                // Unmapping a part of a merged mapping needs one more mapping, which may exceed
                // the limit. Then keep the address range and return its memory.
                let _ = sys.discard((*this).base, (*this).len);
            }
            if let Some(layout) = Arena::layout((*this).count) {
                std::alloc::dealloc(this.cast(), layout);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn layout(count: usize) -> Option<Layout> {
        let slots = Layout::array::<StackSlot>(count).ok()?;
        Some(Layout::new::<Arena>().extend(slots).ok()?.0)
    }

    fn slots(arena: NonNull<Arena>) -> NonNull<StackSlot> {
        // A slot needs no more alignment than the record, so it follows at once.
        const { assert!(align_of::<StackSlot>() <= align_of::<Arena>()) };
        // SAFETY: the block is larger than the record.
        unsafe { arena.add(1).cast() }
    }
}
