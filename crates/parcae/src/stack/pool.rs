//! The shared pool: size classes, growth, trimming.

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

/// The first arena of a class. Reserved, not used: it costs nothing but addresses,
/// and a smaller one is tried if it cannot be had.
const FIRST_ARENA: usize = 64 << 20;
/// Arenas double in size up to this.
const LARGEST_ARENA: usize = 1 << 30;
/// An arena for huge stacks still holds a few of them.
const FEWEST_STACKS: usize = 4;
/// Among so many idle stacks neighbours are looked for: a cache gives back as many at once.
const TOGETHER: usize = 32;

/// A pool of stacks that threads share. Cloning it gives another handle to the same
/// pool.
///
/// A worker that starts and ends many fibers takes its stacks through a
/// [`StackCache`], which needs no lock.
#[derive(Clone)]
pub struct StackPool {
    shared: Arc<PoolShared>,
}

/// What all handles, caches and stacks of a pool refer to.
pub(super) struct PoolShared {
    pub(super) sys: Box<dyn Sys>,
    pub(super) guards: Guards,
    pub(super) guard_size: usize,
    pub(super) page: usize,
    pub(super) zeroing: Zeroing,
    on_overflow: OnOverflow,
    max_stacks: usize,
    keep_warm: usize,
    classes: [Mutex<Class>; CLASSES],
    /// The caches' own counts of what they hold.
    caches: Mutex<Vec<Arc<CacheCount>>>,
    /// Slots outside of the shared free lists, which `max_stacks` limits. Relaxed: each
    /// change is one read-modify-write, so the account is exact by itself.
    out: AtomicUsize,
    // Counters. Relaxed throughout: figures, on which nothing depends.
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
        StackPool::on(opts, Box::new(Linux), |_| {})
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
        // Relaxed: only its uniqueness counts. Not the pool's, so that a domain of another
        // pool is never mistaken for one of this.
        static NEXT: AtomicU64 = AtomicU64::new(TrustDomain::DEFAULT.0 + 1);
        TrustDomain(NEXT.fetch_add(1, Ordering::Relaxed))
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
            warm += class.warm.len();
            cold += class.cold.len();
        }
        let cached: usize = lock(&shared.caches).iter().map(|count| count.get()).sum();
        let quarantined = shared.quarantined.load(Ordering::Relaxed);
        let idle_or_abandoned = cached + quarantined;
        StackStats {
            reserved: shared.reserved.load(Ordering::Relaxed),
            arenas: shared.arenas.load(Ordering::Relaxed),
            created: shared.created.load(Ordering::Relaxed),
            in_use: shared.out.load(Ordering::Relaxed).saturating_sub(idle_or_abandoned),
            quarantined,
            cached,
            warm,
            cold,
            trims: shared.trims.load(Ordering::Relaxed),
            wipes: shared.wipes.load(Ordering::Relaxed),
            unguarded: shared.unguarded.load(Ordering::Relaxed),
        }
    }

    /// As [`StackStats::quarantined`], without looking at the rest.
    pub(crate) fn quarantined(&self) -> usize {
        self.shared.quarantined.load(Ordering::Relaxed)
    }

    /// Memory that the stacks of this pool really occupy, in bytes, counted page by
    /// page: a slow call, for diagnosis.
    ///
    /// # Errors
    ///
    /// If the system does not say.
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

    /// Gives back the memory of all idle stacks in the shared pool; returns how many
    /// stacks that were. Those in caches of workers keep theirs.
    pub fn trim(&self) -> usize {
        /// How many are out of the lists at a time: others find the rest meanwhile.
        const BATCH: usize = 16;
        let shared = &*self.shared;
        let mut count = 0;
        for class in &shared.classes {
            // What is idle now, and not what comes back meanwhile.
            let mut left = lock(class).warm.len();
            while left > 0 {
                let mut batch = SlotList::default();
                let mut locked = lock(class);
                while batch.len() < BATCH.min(left)
                    && let Some(slot) = locked.warm.pop()
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
                shared.give_memory_back(batch).put_into(&mut lock(class));
            }
        }
        count
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

/// Idle slots on their way into the free lists.
struct Trimmed {
    warm: SlotList,
    cold: SlotList,
}

impl Trimmed {
    fn put_into(mut self, class: &mut Class) {
        class.trimming -= self.warm.len() + self.cold.len();
        while let Some(slot) = self.warm.pop() {
            class.warm.push(slot);
        }
        while let Some(slot) = self.cold.pop() {
            class.cold.push(slot);
        }
    }
}

impl PoolShared {
    /// Takes one slot out of the pool, making one if need be. The caller owns it, and
    /// with it one strong count of the pool.
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
            if let Some(slot) = class.warm.pop().or_else(|| class.cold.pop()) {
                break slot;
            }
            match failed.take() {
                None => match self.make_slot(size, class) {
                    Ok(slot) => break slot,
                    Err(error) => failed = Some(error),
                },
                // There are idle ones, whose memory is just being given back.
                Some(error) if class.trimming > 0 => {
                    failed = Some(error);
                    drop(class);
                    std::thread::yield_now();
                }
                Some(error) => {
                    self.out.fetch_sub(1, Ordering::Relaxed);
                    return Err(error);
                }
            }
        };
        std::mem::forget(Arc::clone(self));
        Ok(slot)
    }

    /// Counts one slot as outside, if the limit allows it.
    fn count_out(&self) -> bool {
        let more = |out| (out < self.max_stacks).then_some(out + 1);
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
            if class.warm.len() == 0 || !self.count_out() {
                return;
            }
            if let Some(slot) = class.warm.pop() {
                into.push(slot);
                std::mem::forget(Arc::clone(self));
            }
        }
    }

    /// A slot that was never used, with its guard.
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
        // SAFETY: the slot is in no list, hence ours.
        match unsafe { StackSlot::harden(slot, &self.guards, &*self.sys) } {
            Ok(kind) => {
                self.created.fetch_add(1, Ordering::Relaxed);
                if kind == GuardKind::Off {
                    self.unguarded.fetch_add(1, Ordering::Relaxed);
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
                // Perhaps less can be had.
                Err(StackError::Reserve { .. } | StackError::Heap { .. }) if count > 1 => {
                    count /= 2;
                }
                result => break result?,
            }
        };
        class.next_arena = (bytes * 2).min(LARGEST_ARENA);
        // SAFETY: newly made; nobody else knows it.
        unsafe {
            (*arena.as_ptr()).next = class.arenas.replace(arena);
            self.reserved.fetch_add((*arena.as_ptr()).len(), Ordering::Relaxed);
            self.arenas.fetch_add(1, Ordering::Relaxed);
            Arena::next_unused(arena).ok_or(StackError::Heap { bytes: 0 })
        }
    }

    /// Turns a slot into a stack for `domain`, cleared if it has to be.
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
        self.wipes.fetch_add(1, Ordering::Relaxed);
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

    /// Takes slots of one class back. `slots` owns one strong count for each.
    pub(super) fn take_back(shared: &Arc<PoolShared>, size: StackSize, mut slots: SlotList) {
        let count = slots.len();
        let class = &shared.classes[size.class()];
        let surplus = {
            let mut class = lock(class);
            let room = shared.keep_warm.saturating_sub(class.warm.len());
            let surplus = slots.split_off_oldest(room);
            class.trimming += surplus.len();
            while let Some(slot) = slots.pop() {
                class.warm.push(slot);
            }
            surplus
        };
        if surplus.len() > 0 {
            let trimmed = shared.give_memory_back(surplus); // system calls: not under the lock
            trimmed.put_into(&mut lock(class));
        }
        shared.out.fetch_sub(count, Ordering::Relaxed);
        for _ in 0..count {
            // SAFETY: one of the counts that came with the slots; `shared` itself is
            // another, so this is never the last.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(shared)) };
        }
    }

    /// Gives the memory of idle stacks back to the system: of neighbours by one call, which is cheaper than one for each, and
    /// much cheaper where other threads run that have to be told. The guard in between is no memory, and stays.
    fn give_memory_back(&self, mut slots: SlotList) -> Trimmed {
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
            // SAFETY: as above.
            let runs = group[..len]
                .chunk_by(|one, next| unsafe { StackSlot::are_neighbours(*one, *next) });
            for run in runs {
                let together = self.give_run_back(run);
                for &slot in run {
                    // What cannot be given back at once is tried one by one.
                    if together || (run.len() > 1 && self.give_run_back(&[slot])) {
                        self.trims.fetch_add(1, Ordering::Relaxed);
                        // SAFETY: as above. The memory reads as zero now.
                        unsafe { (*slot.as_ptr()).domain = TrustDomain::BLANK };
                        trimmed.cold.push(slot);
                    } else {
                        // Locked memory cannot be given back; the stack is as good as before.
                        trimmed.warm.push(slot);
                    }
                }
            }
            let Some(slot) = next else { return trimmed };
            (group[0], len) = (slot, 1);
        }
    }

    /// The same for neighbours, which are owned by the caller, and idle: nothing on them is in use. Whether it could be done.
    fn give_run_back(&self, run: &[NonNull<StackSlot>]) -> bool {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return true };
        // SAFETY: slots of one live arena, the last not below the first.
        unsafe {
            let bottom = StackSlot::bottom(*first);
            let len = (*last.as_ptr()).top.offset_from_unsigned(bottom);
            self.sys.discard(bottom, len).is_ok()
        }
    }

    /// Whether a fault on a guard of this pool is ours to report.
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
                // SAFETY: a slot outside of the free lists holds a strong count, and
                // there is none left: all slots are home.
                unsafe {
                    next = (*arena.as_ptr()).next;
                    Arena::unmap(arena, &*self.sys);
                }
            }
        }
    }
}

/// Locks; a panic of another thread inside is impossible to have left anything half
/// done, since list operations do not panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
