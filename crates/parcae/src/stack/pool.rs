//! The shared pool: size classes and growth. `reclaim` returns memory to the system, `trimmer`
//! does so in the background.
//!
//! The free lists and the arenas of a class are protected by the class's mutex. The atomics of
//! [`PoolShared`] are counts: each change is one read-modify-write, so the count itself is exact,
//! and no other memory access is ordered by it. All of them are therefore Relaxed and have no
//! partner.

mod reclaim;
mod trimmer;

pub(crate) use trimmer::{Pace, Trimmer};

use super::arena::{Arena, SlotList, StackSlot};
use super::cache::{CacheCount, StackCache};
use super::error::StackError;
use super::guard::{GuardKind, Guards};
use super::handle::Stack;
use super::opts::{OnOverflow, StackOpts, TrustDomain, Zeroing};
use super::overflow;
use super::size::{CLASSES, StackSize};
use super::stats::StackStats;
use super::sys::{Linux, Sys, page_size};
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Size of the first arena of a class. It costs address space only; if the reservation fails, a
/// smaller one is tried.
const FIRST_ARENA: usize = 64 << 20;
/// Arenas double in size up to this.
const LARGEST_ARENA: usize = 1 << 30;
/// The fewest stacks of an arena, whatever their size.
const FEWEST_STACKS: usize = 4;

/// A pool of stacks that threads share. Cloning it gives another handle to the same
/// pool.
///
/// A worker that starts and ends many fibers takes its stacks through a
/// [`StackCache`], which needs no lock.
#[derive(Clone)]
pub struct StackPool {
    shared: Arc<PoolShared>,
}

/// The state that all handles, caches and stacks of a pool share.
pub(super) struct PoolShared {
    pub(super) sys: Box<dyn Sys>,
    pub(super) guards: Guards,
    pub(super) guard_size: usize,
    pub(super) page: usize,
    pub(super) zeroing: Zeroing,
    on_overflow: OnOverflow,
    pub(super) max_stacks: usize,
    keep_warm: usize,
    /// How many threads give surplus memory back in the background. Written before the locks of all
    /// classes are taken, read under one of them: see [`Trimmer`].
    trimmers: AtomicUsize,
    classes: [Mutex<Class>; CLASSES],
    /// For each cache, the number of stacks that it holds.
    caches: Mutex<Vec<Arc<CacheCount>>>,
    /// Slots outside of the shared free lists; `max_stacks` limits them.
    out: AtomicUsize,
    // Statistics.
    reserved: AtomicUsize,
    arenas: AtomicUsize,
    created: AtomicUsize,
    unguarded: AtomicUsize,
    pub(super) quarantined: AtomicUsize,
    trims: AtomicU64,
    wipes: AtomicU64,
}

/// One size class. Its slots are in at most one of these lists.
#[derive(Default)]
struct Class {
    /// Idle, memory kept; the last one back is the first one out.
    warm: SlotList,
    /// Idle and above the watermark, memory kept until a trimmer gives it back.
    surplus: SlotList,
    /// The shortest that `surplus` was since the trimmer's last tick: so many are not needed.
    unneeded: usize,
    /// Idle, memory given back.
    cold: SlotList,
    /// Taken from an arena but still without a guard: its installation failed.
    raw: SlotList,
    /// The newest arena, linked to the older ones.
    arenas: Option<NonNull<Arena>>,
    /// Idle, but out of the lists while their memory is given back.
    trimming: usize,
    /// Size of the next arena.
    next_arena: usize,
}

// SAFETY: the pointers are to arenas and slots that the pool owns and that are only
// followed under the class's mutex; nothing in them is bound to a thread.
unsafe impl Send for Class {}

impl StackPool {
    /// A pool with the default options.
    ///
    /// # Errors
    ///
    /// If not even one page of address space can be reserved.
    pub fn new() -> Result<StackPool, StackError> {
        StackPool::with(StackOpts::new())
    }

    /// A pool with these options. Reserves nothing yet.
    ///
    /// # Errors
    ///
    /// [`StackError::GuardSize`] for a guard of more than 64 MiB;
    /// [`StackError::Reserve`] if not even one page can be reserved.
    pub fn with(opts: StackOpts) -> Result<StackPool, StackError> {
        StackPool::on(opts, Box::new(Linux::new()), |_| {})
    }

    pub(super) fn on(
        opts: StackOpts,
        sys: Box<dyn Sys>,
        adjust: impl FnOnce(&mut Guards),
    ) -> Result<StackPool, StackError> {
        if opts.guard_size > StackSize::MAX.bytes() {
            return Err(StackError::GuardSize { requested: opts.guard_size });
        }
        let page = page_size();
        let mut guards = Guards::probe(opts.guard, &*sys)?;
        adjust(&mut guards);
        let shared = PoolShared {
            guards,
            guard_size: opts.guard_size.max(1).next_multiple_of(page),
            page,
            zeroing: opts.zeroing,
            on_overflow: opts.on_overflow,
            max_stacks: opts.max_stacks,
            keep_warm: opts.keep_warm,
            trimmers: AtomicUsize::new(0),
            classes: std::array::from_fn(|_| Mutex::new(Class::default())),
            caches: Mutex::new(Vec::new()),
            out: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            arenas: AtomicUsize::new(0),
            created: AtomicUsize::new(0),
            unguarded: AtomicUsize::new(0),
            quarantined: AtomicUsize::new(0),
            trims: AtomicU64::new(0),
            wipes: AtomicU64::new(0),
            sys,
        };
        if shared.reports_overflows() {
            overflow::arm_process();
        }
        Ok(StackPool { shared: Arc::new(shared) })
    }

    /// A stack of this size, for the default trust domain.
    ///
    /// # Errors
    ///
    /// [`StackError`] says which limit was hit; the pool is unchanged.
    pub fn acquire(&self, size: StackSize) -> Result<Stack, StackError> {
        self.acquire_for(size, TrustDomain::DEFAULT)
    }

    /// A stack of this size, for a trust domain: cleared first if the pool's
    /// [`Zeroing`] asks for it and another domain used it before.
    ///
    /// # Errors
    ///
    /// [`StackError`] says which limit was hit; the pool is unchanged.
    pub fn acquire_for(&self, size: StackSize, domain: TrustDomain) -> Result<Stack, StackError> {
        let slot = self.shared.take_one(size)?;
        // SAFETY: just taken, so owned by this call.
        Ok(unsafe { self.shared.hand_out(slot, domain) })
    }

    /// A cache for one worker: stacks come and go without locks or system calls.
    pub fn cache(&self) -> StackCache {
        StackCache::new(Arc::clone(&self.shared))
    }

    /// A new trust domain, different from all others of this process.
    pub fn trust_domain(&self) -> TrustDomain {
        // Per process, not per pool, so that domains of different pools are never equal.
        static NEXT: AtomicU64 = AtomicU64::new(TrustDomain::DEFAULT.0 + 1);
        TrustDomain(NEXT.fetch_add(1, Ordering::Relaxed)) // only unique
    }

    /// How this pool guards its stacks on this system.
    pub fn guard(&self) -> GuardKind {
        self.shared.guards.kind
    }

    /// A snapshot of the counters. Takes each class's lock for a moment.
    pub fn stats(&self) -> StackStats {
        let shared = &*self.shared;
        let (mut warm, mut cold) = (0, 0);
        for class in &shared.classes {
            let class = lock(class);
            warm += class.warm.len() + class.surplus.len();
            cold += class.cold.len();
        }
        let cached: usize = lock(&shared.caches).iter().map(|count| count.get()).sum();
        // Relaxed, here and below: statistics, see the header.
        let quarantined = shared.quarantined.load(Ordering::Relaxed);
        let idle_or_abandoned = cached + quarantined;
        StackStats {
            reserved: shared.reserved.load(Ordering::Relaxed), // a statistic
            arenas: shared.arenas.load(Ordering::Relaxed),     // a statistic
            created: shared.created.load(Ordering::Relaxed),   // a statistic
            // Relaxed: a count.
            in_use: shared.out.load(Ordering::Relaxed).saturating_sub(idle_or_abandoned),
            quarantined,
            cached,
            warm,
            cold,
            trims: shared.trims.load(Ordering::Relaxed), // a statistic
            wipes: shared.wipes.load(Ordering::Relaxed), // a statistic
            unguarded: shared.unguarded.load(Ordering::Relaxed), // a statistic
        }
    }

    /// [`StackStats::quarantined`] alone.
    pub(crate) fn quarantined(&self) -> usize {
        self.shared.quarantined.load(Ordering::Relaxed) // a statistic
    }

    /// Resident memory of the stacks of this pool, in bytes. Slow, since it counts page by page:
    /// for diagnosis.
    ///
    /// # Errors
    ///
    /// If the system call that reports residency fails.
    pub fn resident(&self) -> io::Result<usize> {
        let shared = &*self.shared;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(16 * 1024)?;
        buffer.resize(16 * 1024, 0);
        let mut pages = 0;
        for class in &shared.classes {
            let class = lock(class);
            let mut next = class.arenas;
            while let Some(arena) = next {
                // SAFETY: arenas in the list are live; the class is locked.
                unsafe {
                    pages += Arena::resident_pages(arena, &*shared.sys, shared.page, &mut buffer)
                        .map_err(io::Error::from_raw_os_error)?;
                    next = (*arena.as_ptr()).next;
                }
            }
        }
        Ok(pages * shared.page)
    }

    /// Returns the memory of all idle stacks in the shared pool to the system, and the number of
    /// those stacks. Stacks in the caches of workers keep their memory.
    pub fn trim(&self) -> usize {
        reclaim::trim(&self.shared)
    }

    /// From now on surplus memory is given back by the owner of the result, and not by the thread
    /// that releases a stack.
    pub(crate) fn trimmer(&self) -> Trimmer {
        // Relaxed: releasing threads look at it under the lock of a class. One that does not see
        // it yet gives memory back by itself.
        self.shared.trimmers.fetch_add(1, Ordering::Relaxed);
        Trimmer { pool: self.clone() }
    }
}

impl Class {
    /// Number of idle stacks that keep their memory.
    fn with_memory(&self) -> usize {
        self.warm.len() + self.surplus.len()
    }

    /// Takes an idle stack that has its memory still.
    fn pop_with_memory(&mut self) -> Option<NonNull<StackSlot>> {
        self.warm.pop().or_else(|| self.pop_surplus())
    }

    fn pop_surplus(&mut self) -> Option<NonNull<StackSlot>> {
        let slot = self.surplus.pop()?;
        self.unneeded = self.unneeded.min(self.surplus.len());
        Some(slot)
    }
}

impl fmt::Debug for StackPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackPool")
            .field("guard", &self.guard())
            .field("stats", &self.stats())
            .finish()
    }
}

impl PoolShared {
    /// Takes one slot out of the pool, creating it if necessary. The caller owns the slot and its
    /// strong reference to the pool.
    pub(super) fn take_one(
        self: &Arc<PoolShared>,
        size: StackSize,
    ) -> Result<NonNull<StackSlot>, StackError> {
        if !self.count_out() {
            return Err(StackError::PoolLimit { max_stacks: self.max_stacks });
        }
        let mut failed = None;
        let slot = loop {
            let mut class = lock(&self.classes[size.class()]);
            if let Some(slot) = class.pop_with_memory().or_else(|| class.cold.pop()) {
                break slot;
            }
            match failed.take() {
                None => match self.make_slot(size, class) {
                    Ok(slot) => break slot,
                    Err(error) => failed = Some(error),
                },
                // Idle stacks exist; another thread is returning their memory right now.
                Some(error) if class.trimming > 0 => {
                    failed = Some(error);
                    drop(class);
                    std::thread::yield_now();
                }
                Some(error) => {
                    self.out.fetch_sub(1, Ordering::Relaxed); // a count
                    return Err(error);
                }
            }
        };
        std::mem::forget(Arc::clone(self));
        Ok(slot)
    }

    /// Counts one slot as taken out, if the limit allows it.
    fn count_out(&self) -> bool {
        let more = |out| (out < self.max_stacks).then_some(out + 1);
        // Relaxed: the limit holds because the update is one read-modify-write.
        self.out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Moves up to `want` idle slots that still have their memory into `into`.
    pub(super) fn take_warm(
        self: &Arc<PoolShared>,
        size: StackSize,
        want: usize,
        into: &mut SlotList,
    ) {
        let mut class = lock(&self.classes[size.class()]);
        for _ in 0..want {
            if class.with_memory() == 0 || !self.count_out() {
                return;
            }
            if let Some(slot) = class.pop_with_memory() {
                into.push(slot);
                std::mem::forget(Arc::clone(self));
            }
        }
    }

    /// Creates a slot with its guard.
    fn make_slot(
        self: &Arc<PoolShared>,
        size: StackSize,
        mut class: MutexGuard<'_, Class>,
    ) -> Result<NonNull<StackSlot>, StackError> {
        let slot = match class.raw.pop() {
            Some(slot) => slot,
            None => self.unused_slot(size, &mut class)?,
        };
        drop(class); // the guard is a system call: not under the lock
        // SAFETY: the slot is in no list, so this call owns it.
        match unsafe { StackSlot::harden(slot, &self.guards, &*self.sys) } {
            Ok(kind) => {
                // Relaxed: statistics.
                self.created.fetch_add(1, Ordering::Relaxed);
                if kind == GuardKind::Off {
                    self.unguarded.fetch_add(1, Ordering::Relaxed); // a statistic
                }
                Ok(slot)
            }
            Err(error) => {
                lock(&self.classes[size.class()]).raw.push(slot);
                Err(error)
            }
        }
    }

    /// The next slot of the newest arena, or the first of a new one.
    fn unused_slot(
        self: &Arc<PoolShared>,
        size: StackSize,
        class: &mut Class,
    ) -> Result<NonNull<StackSlot>, StackError> {
        if let Some(newest) = class.arenas
            // SAFETY: arenas in the list are live; the class is locked.
            && let Some(slot) = unsafe { Arena::next_unused(newest) }
        {
            return Ok(slot);
        }
        let bytes = class.next_arena.max(FIRST_ARENA);
        let stride = size.bytes() + self.guard_size;
        let mut count = (bytes / stride).max(FEWEST_STACKS);
        let arena = loop {
            match Arena::map(self, size, count) {
                // A smaller reservation may succeed.
                Err(StackError::Reserve { .. } | StackError::Heap { .. }) if count > 1 => {
                    count /= 2;
                }
                result => break result?,
            }
        };
        class.next_arena = (bytes * 2).min(LARGEST_ARENA);
        // SAFETY: newly created, so no other thread can reach it. Relaxed: statistics.
        unsafe {
            (*arena.as_ptr()).next = class.arenas.replace(arena);
            // Relaxed: a statistic.
            self.reserved.fetch_add((*arena.as_ptr()).len(), Ordering::Relaxed);
            self.arenas.fetch_add(1, Ordering::Relaxed); // a statistic
            Arena::next_unused(arena).ok_or(StackError::Heap { bytes: 0 })
        }
    }

    /// Turns a slot into a stack for `domain`, cleared if [`Zeroing`] requires it.
    ///
    /// # Safety
    ///
    /// The caller owns the slot and gives it to the stack.
    pub(super) unsafe fn hand_out(&self, slot: NonNull<StackSlot>, domain: TrustDomain) -> Stack {
        // SAFETY: owned by the caller.
        unsafe {
            let last = (*slot.as_ptr()).domain;
            if last != domain {
                if self.zeroing == Zeroing::BetweenDomains && last != TrustDomain::BLANK {
                    self.wipe(slot);
                }
                (*slot.as_ptr()).domain = domain;
            }
        }
        // SAFETY: as the caller says.
        unsafe { Stack::new(slot) }
    }

    /// Clears a stack.
    ///
    /// # Safety
    ///
    /// The caller owns the slot, and nothing on its stack is in use.
    #[cold]
    unsafe fn wipe(&self, slot: NonNull<StackSlot>) {
        self.wipes.fetch_add(1, Ordering::Relaxed); // a statistic
        // SAFETY: the whole stack belongs to the slot, whose owner is the caller.
        unsafe {
            let bottom = StackSlot::bottom(slot);
            let len = (*slot.as_ptr()).top.offset_from_unsigned(bottom);
            if self.sys.discard(bottom, len).is_err() {
                // The kernel refuses (locked memory): clear it by hand.
                bottom.write_bytes(0, len);
            }
        }
    }

    /// Takes slots of one class back. `slots` owns one strong reference for each.
    pub(super) fn take_back(shared: &Arc<PoolShared>, size: StackSize, mut slots: SlotList) {
        let count = slots.len();
        let class = &shared.classes[size.class()];
        let surplus = {
            let mut class = lock(class);
            let room = shared.keep_warm.saturating_sub(class.warm.len());
            let mut surplus = slots.split_off_oldest(room);
            while let Some(slot) = slots.pop() {
                class.warm.push(slot);
            }
            // Relaxed: ordered by the lock; see `Trimmer`.
            if shared.trimmers.load(Ordering::Relaxed) > 0 {
                class.surplus.append(&mut surplus);
            }
            class.trimming += surplus.len();
            surplus
        };
        if surplus.len() > 0 {
            // System calls: not under the lock.
            let trimmed = reclaim::give_memory_back(shared, surplus);
            trimmed.put_into(&mut lock(class));
        }
        shared.out.fetch_sub(count, Ordering::Relaxed); // a count
        for _ in 0..count {
            // SAFETY: one of the references that came with the slots. `shared` itself is another,
            // so this is never the last.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(shared)) };
        }
    }

    /// Whether the overflow handler reports faults on guards of this pool.
    pub(super) fn reports_overflows(&self) -> bool {
        self.guards.kind != GuardKind::Off && self.on_overflow == OnOverflow::Report
    }

    pub(super) fn register_cache(&self, count: &Arc<CacheCount>) {
        lock(&self.caches).push(Arc::clone(count));
    }

    pub(super) fn unregister_cache(&self, count: &Arc<CacheCount>) {
        lock(&self.caches).retain(|other| !Arc::ptr_eq(other, count));
    }
}

impl Drop for PoolShared {
    fn drop(&mut self) {
        for class in &mut self.classes {
            let class = class.get_mut().unwrap_or_else(PoisonError::into_inner);
            let mut next = class.arenas.take();
            while let Some(arena) = next {
                // SAFETY: a slot outside of the free lists holds a strong reference, and none is
                // left: all slots are in the free lists.
                unsafe {
                    next = (*arena.as_ptr()).next;
                    Arena::unmap(arena, &*self.sys);
                }
            }
        }
    }
}

/// Locks a mutex and ignores poisoning: the list operations under it do not panic, so a panicking
/// thread cannot have left a list half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
