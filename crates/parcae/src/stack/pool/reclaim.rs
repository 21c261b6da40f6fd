//! Memory of idle stacks, on its way back to the system.
//!
//! A stack whose memory is being returned is in no list: its slot belongs to the thread that makes
//! the system call, which is not made under the lock of the class. `trimming` counts such slots, so
//! that a thread that finds all lists empty waits for them before it reports that there are no more
//! stacks.

use super::{Class, PoolShared, lock};
use crate::stack::arena::{SlotList, StackSlot};
use crate::stack::opts::TrustDomain;
use crate::stack::sys::Range;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// How many stacks give their memory back in one system call. The call takes a third of a
/// microsecond per stack, and the list of them a kilobyte of the caller's stack.
pub(super) const TOGETHER: usize = 64;

/// Returns the memory of all idle stacks in the shared pool to the system; their number.
pub(super) fn trim(shared: &PoolShared) -> usize {
    /// How many stacks are out of the lists at a time. Other threads can take the rest.
    const BATCH: usize = TOGETHER;
    let mut count = 0;
    for class in &shared.classes {
        // Only stacks that are idle now, not those released while this runs.
        let mut left = lock(class).with_memory();
        while left > 0 {
            let mut batch = SlotList::default();
            let mut locked = lock(class);
            while batch.len() < BATCH.min(left)
                && let Some(slot) = locked.pop_with_memory()
            {
                batch.push(slot);
            }
            locked.trimming += batch.len();
            drop(locked);
            if batch.len() == 0 {
                break;
            }
            left -= batch.len();
            count += batch.len();
            give_memory_back(shared, batch).put_into(&mut lock(class));
        }
    }
    count
}

/// Idle slots on their way into the free lists.
pub(super) struct Trimmed {
    warm: SlotList,
    cold: SlotList,
}

impl Trimmed {
    pub(super) fn put_into(mut self, class: &mut Class) {
        class.trimming -= self.warm.len() + self.cold.len();
        while let Some(slot) = self.warm.pop() {
            class.warm.push(slot);
        }
        while let Some(slot) = self.cold.pop() {
            class.cold.push(slot);
        }
    }
}

/// Returns the memory of up to `most` surplus stacks of a class to the system; their number.
pub(super) fn give_surplus_back(shared: &PoolShared, class: &Mutex<Class>, most: usize) -> usize {
    let mut batch = SlotList::default();
    let mut locked = lock(class);
    while batch.len() < most
        && let Some(slot) = locked.surplus.pop()
    {
        batch.push(slot);
    }
    let count = batch.len();
    locked.trimming += count;
    drop(locked);
    if count > 0 {
        give_memory_back(shared, batch).put_into(&mut lock(class));
    }
    count
}

/// Returns the memory of idle stacks to the system, with one call for each [`TOGETHER`] of
/// them. That is cheaper than one call per stack, and much cheaper in a process with several
/// threads, where each call has to invalidate their TLBs. Neighbours are one range: the guards
/// in between hold no memory and stay.
pub(super) fn give_memory_back(shared: &PoolShared, mut slots: SlotList) -> Trimmed {
    let mut trimmed = Trimmed { warm: SlotList::default(), cold: SlotList::default() };
    let Some(first) = slots.pop() else { return trimmed };
    let mut group = [first; TOGETHER];
    let mut len = 1;
    loop {
        let next = slots.pop();
        if let Some(slot) = next.filter(|_| len < TOGETHER) {
            group[len] = slot;
            len += 1;
            continue;
        }
        // SAFETY: slots of live arenas, owned by this call.
        group[..len].sort_unstable_by_key(|slot| unsafe { (*slot.as_ptr()).top });
        let together = discard_together(shared, &group[..len]);
        for &slot in &group[..len] {
            // If the call for all of them failed, try the stacks one by one.
            if together || (len > 1 && discard_together(shared, &[slot])) {
                shared.trims.fetch_add(1, Ordering::Relaxed); // a statistic
                // SAFETY: as above. The memory reads as zero now.
                unsafe { (*slot.as_ptr()).domain = TrustDomain::BLANK };
                trimmed.cold.push(slot);
            } else {
                // Locked memory cannot be returned; the stack stays usable.
                trimmed.warm.push(slot);
            }
        }
        let Some(slot) = next else { return trimmed };
        (group[0], len) = (slot, 1);
    }
}

/// Returns the memory of at most [`TOGETHER`] stacks, in the order of their addresses, to the
/// system. The caller owns them, and nothing on them is in use. Returns whether the system call
/// succeeded for all of them.
fn discard_together(shared: &PoolShared, stacks: &[NonNull<StackSlot>]) -> bool {
    let Some(first) = stacks.first() else { return true };
    // SAFETY: slots of live arenas, which the caller owns.
    let whole = |slot: &NonNull<StackSlot>| unsafe {
        let bottom = StackSlot::bottom(*slot);
        Range { addr: bottom, len: (*slot.as_ptr()).top.offset_from_unsigned(bottom) }
    };
    let mut ranges = [whole(first); TOGETHER];
    let mut count = 1;
    for pair in stacks.windows(2) {
        let next = whole(&pair[1]);
        // SAFETY: as above.
        if unsafe { StackSlot::are_neighbours(pair[0], pair[1]) } {
            let range = &mut ranges[count - 1];
            range.len = next.addr.addr().get() + next.len - range.addr.addr().get();
        } else {
            ranges[count] = next;
            count += 1;
        }
    }
    shared.sys.discard_all(&ranges[..count]).is_ok()
}
