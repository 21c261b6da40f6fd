//! The registry of arenas, which the signal handler reads to find the stack of a faulting address.
//!
//! A signal handler can take no lock and allocate nothing, and a signal's disposition belongs to
//! the process. So the registry is a table that belongs to the process; beside that of generated
//! code there is no other. It is a list that only grows, whose entries are reused and never freed.
//! Pools write to it when they map and unmap an arena; only handlers, backtraces of generated code
//! and debuggers read it.
//!
//! States of an entry: *free* (`base` = 0), *claimed* (`base` = 1, being filled by
//! one thread), *live* (`base` is the arena's address). `version` grows by one whenever an
//! entry is claimed. A reader that sees `version` change while it reads has mixed the fields of
//! two arenas, and skips the entry.

use std::alloc::Layout;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

const FREE: usize = 0;
const CLAIMED: usize = 1;

/// One arena, as the handler sees it.
#[derive(Debug)]
#[repr(C)]
pub(super) struct ArenaEntry {
    version: AtomicUsize,
    base: AtomicUsize,
    len: AtomicUsize,
    stride: AtomicUsize,
    guard: AtomicUsize,
    /// Set once, before the entry is published in [`HEAD`].
    next: AtomicPtr<ArenaEntry>,
}

// The numbers in tools/gdb/parcae.py, which walks the list from `HEAD`.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(ArenaEntry, base) == 8);
    assert!(offset_of!(ArenaEntry, len) == 16);
    assert!(offset_of!(ArenaEntry, stride) == 24);
    assert!(offset_of!(ArenaEntry, guard) == 32);
    assert!(offset_of!(ArenaEntry, next) == 40);
};

/// Where an arena's stacks are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    /// First address: the guard of the first stack.
    pub(super) base: usize,
    /// Length in bytes.
    pub(super) len: usize,
    /// From one guard to the next.
    pub(super) stride: usize,
    /// Size of a guard.
    pub(super) guard: usize,
}

static HEAD: AtomicPtr<ArenaEntry> = AtomicPtr::new(std::ptr::null_mut());

/// Registers an arena. `None` if there is no heap memory for an entry.
pub(super) fn insert(arena: Geometry) -> Option<&'static ArenaEntry> {
    let entry = match entries().find(|entry| entry.claim()) {
        Some(entry) => entry,
        None => publish_new()?,
    };
    // Relaxed: ordered by the Release store of `base` below.
    entry.len.store(arena.len, Ordering::Relaxed);
    entry.stride.store(arena.stride, Ordering::Relaxed);
    entry.guard.store(arena.guard, Ordering::Relaxed);
    // Release: pairs with the Acquire load of `base` in `find`.
    entry.base.store(arena.base, Ordering::Release);
    Some(entry)
}

/// Finds the arena that `addr` lies in. Async-signal-safe.
pub(super) fn find(addr: usize) -> Option<Geometry> {
    entries().find_map(|entry| {
        // Acquire: the loads below come after this one. Pairs with the Release in `claim`.
        let version = entry.version.load(Ordering::Acquire);
        // Acquire: pairs with the Release store in `insert`.
        let base = entry.base.load(Ordering::Acquire);
        // Relaxed: ordered by the Acquire load of `base` above and the fence below.
        let arena = Geometry {
            base,
            len: entry.len.load(Ordering::Relaxed), // as said above
            stride: entry.stride.load(Ordering::Relaxed), // as said above
            guard: entry.guard.load(Ordering::Relaxed), // as said above
        };
        // The loads above come before the second load of the version. Pairs with the fence in
        // `claim`: a reader that has read a field of a later arena sees the later version.
        fence(Ordering::Acquire);
        // Relaxed: ordered by the fence above.
        let whole = entry.version.load(Ordering::Relaxed) == version;
        let inside = addr.checked_sub(base).is_some_and(|offset| offset < arena.len);
        (whole && base > CLAIMED && inside).then_some(arena)
    })
}

impl ArenaEntry {
    /// Removes an arena, before it is unmapped.
    pub(super) fn remove(&self) {
        // Release: pairs with the Acquire in `claim`, so that the next owner's stores come after
        // this owner's.
        self.base.store(FREE, Ordering::Release);
    }

    fn claim(&self) -> bool {
        // Relaxed first check: most entries are live, and a CAS would take their cache line.
        let claimed = self.base.load(Ordering::Relaxed) == FREE
            // Acquire: pairs with the Release in `remove`.
            && self
                .base
                .compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if claimed {
            self.version.fetch_add(1, Ordering::Release); // pairs with the loads in `find`
            fence(Ordering::Release); // before the new fields; pairs with the fence in `find`
        }
        claimed
    }
}

fn entries() -> impl Iterator<Item = &'static ArenaEntry> {
    let mut next = HEAD.load(Ordering::Acquire); // pairs with the Release in `publish_new`
    std::iter::from_fn(move || {
        // SAFETY: entries are never freed, and were filled before they were
        // published with Release.
        let entry = unsafe { next.as_ref() }?;
        next = entry.next.load(Ordering::Relaxed); // set before publication
        Some(entry)
    })
}

/// Adds an entry, already claimed by the caller.
fn publish_new() -> Option<&'static ArenaEntry> {
    let layout = Layout::new::<ArenaEntry>();
    // SAFETY: the layout is not empty.
    let entry = unsafe { std::alloc::alloc(layout) }.cast::<ArenaEntry>();
    if entry.is_null() {
        return None;
    }
    let fresh = ArenaEntry {
        version: AtomicUsize::new(0),
        base: AtomicUsize::new(CLAIMED),
        len: AtomicUsize::new(0),
        stride: AtomicUsize::new(0),
        guard: AtomicUsize::new(0),
        next: AtomicPtr::new(std::ptr::null_mut()),
    };
    // SAFETY: newly allocated with the type's layout; never freed, hence 'static.
    let entry = unsafe {
        entry.write(fresh);
        &*entry
    };
    let mut head = HEAD.load(Ordering::Relaxed); // only a guess for the CAS below
    loop {
        entry.next.store(head, Ordering::Relaxed); // published by the CAS below
        let this = std::ptr::from_ref(entry).cast_mut();
        // Release: pairs with the Acquire load in `entries`.
        match HEAD.compare_exchange_weak(head, this, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return Some(entry),
            Err(now) => head = now,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn a_reader_never_sees_parts_of_two_arenas() {
        // Two arenas alternate in one entry; length and stride tell them apart.
        let first = Geometry { base: 1 << 40, len: 1 << 20, stride: 1 << 12, guard: 64 };
        let second = Geometry { base: 1 << 41, len: 1 << 30, stride: 1 << 13, guard: 128 };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for arena in [first, second] {
                        insert(arena).expect("an entry").remove();
                    }
                }
            });
            let end = Instant::now() + Duration::from_millis(300);
            while Instant::now() < end {
                for arena in [first, second] {
                    if let Some(found) = find(arena.base + 5) {
                        assert_eq!(found.len, arena.len);
                        assert_eq!(found.stride, arena.stride);
                        assert_eq!(found.guard, arena.guard);
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
