//! A lock for a few instructions.
//!
//! Locks of channels and wait queues are held while a value and some indices are moved, and taken
//! three times for each value that a task waits for. The standard library's lock costs two
//! read-modify-writes, because unlocking has to find out whether a thread sleeps on it. No thread
//! sleeps on this lock: unlocking is a store.
//!
//! # Contention
//!
//! A thread that finds the lock taken spins for [`FIRST`] hints, about the length of a section (a
//! hint takes 10 to 40 ns), and tries again. A holder that has it then, too, takes the lock again
//! and again, as both ends of a channel on two processors do. Two threads that try at every moment
//! take the cache lines from each other for every section, which costs both more than they wait.
//! So the thread spins for [`LATER`] hints, twice as many in each further round: meanwhile the
//! holder does many sections with all lines at hand. (A value between four senders and four
//! receivers on two processors took 75 to 130 ns with rounds that began at one hint and doubled.
//! Over seven placements of senders and receivers, where a line takes 360 ns there and back, 8 and
//! 64 hints took 51 to 53 ns in the geometric mean, 2 and 128 hints 47 to 49.)
//!
//! If the lock is still taken after [`SPINS`] rounds, its holder was most likely preempted: the
//! thread yields the processor [`YIELDS`] times, then naps for [`NAP`] at a time. A nap lets a
//! holder of lower realtime priority run on the same processor, which a yield does not. There are
//! no wake-ups, so none can be lost; the price is up to one nap more when a holder is preempted for
//! long.
//!
//! # Tags
//!
//! A free lock has a *tag*: 0, or a number of the worker that did the last recorded operation on
//! the guarded object (`sched::journal`). A recorded operation takes the lock with
//! [`lock_as`](Lock::lock_as), whose compare-and-swap expects the caller's own tag. So it costs the
//! same whether or not it is recorded, as long as one worker uses the object, and it fails where
//! the worker changes: there the caller is told, under the lock. Every other section leaves the tag
//! as it is. Where nothing is recorded all tags are 0.
//!
//! # Not for
//!
//! Sections that run code of the program, that wait, or that are long. The lock is not fair, and a
//! panic does not poison it: the guarded value is consistent between any two statements that may
//! panic.
//!
//! Under loom [`Lock`] is loom's mutex, which its scheduler understands; [`Word`] is modelled by
//! itself.

#[cfg(any(test, not(loom)))]
use crate::base::shim::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use crate::base::shim::cell::UnsafeCell;
#[cfg(not(loom))]
use std::marker::PhantomData;
#[cfg(not(loom))]
use std::ops::{Deref, DerefMut};
#[cfg(not(loom))]
use std::panic::{RefUnwindSafe, UnwindSafe};
#[cfg(not(loom))]
use std::time::Duration;

/// The tag of an object of which no operation is recorded. Tags are even.
pub(crate) const UNTAGGED: u32 = 0;
/// The word of a lock that is taken; any other one is the tag of a free lock.
#[cfg(any(test, not(loom)))]
const TAKEN: u32 = 1;

/// Spin-loop hints of the first round.
#[cfg(not(loom))]
const FIRST: u32 = 2;
/// Spin-loop hints of the second round; each further round is twice as long.
#[cfg(not(loom))]
const LATER: u32 = 128;
/// Rounds of spinning before the thread yields.
#[cfg(not(loom))]
const SPINS: u32 = 4;
/// Yields before the thread naps.
#[cfg(not(loom))]
const YIELDS: u32 = 16;
#[cfg(not(loom))]
const NAP: Duration = Duration::from_micros(50);

/// State of a lock: free, with its tag, or taken.
#[cfg(any(test, not(loom)))]
struct Word(AtomicU32);

#[cfg(any(test, not(loom)))]
impl Word {
    /// Takes the lock if it is free and has this tag.
    #[inline(always)]
    fn try_take(&self, tag: u32) -> bool {
        // Acquire: pairs with the Release in `give_back`.
        self.0.compare_exchange(tag, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    fn give_back(&self, tag: u32) {
        self.0.store(tag, Ordering::Release); // pairs with the Acquire in `try_take`
    }

    /// Takes the lock if it is free, whatever its tag. Does not take the cache line away from a
    /// holder.
    #[cfg(any(test, not(loom)))]
    fn try_take_any(&self) -> bool {
        let tag = self.0.load(Ordering::Relaxed); // a hint; `try_take` decides
        tag != TAKEN && self.try_take(tag)
    }

    #[cfg(not(loom))]
    #[cold]
    fn take_contended(&self) {
        if self.try_take_any() {
            return; // it has another tag
        }
        let mut round = 0_u32;
        loop {
            if round < SPINS {
                let hints = if round == 0 { FIRST } else { LATER << (round - 1) };
                (0..hints).for_each(|_| std::hint::spin_loop());
            } else if round < SPINS + YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
            if self.try_take_any() {
                return;
            }
            round = round.saturating_add(1);
        }
    }
}

/// A value that one thread at a time may use, for a few instructions.
#[cfg(not(loom))]
pub(crate) struct Lock<T> {
    word: Word,
    /// The tag that the lock has when it is free again. Used by the holder.
    tag: UnsafeCell<u32>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used by one thread at a time.
#[cfg(not(loom))]
unsafe impl<T: Send> Sync for Lock<T> {}
// As the header says of panics.
#[cfg(not(loom))]
impl<T> RefUnwindSafe for Lock<T> {}
#[cfg(not(loom))]
impl<T> UnwindSafe for Lock<T> {}

#[cfg(not(loom))]
impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        let (word, tag) = (Word(AtomicU32::new(UNTAGGED)), UnsafeCell::new(UNTAGGED));
        Lock { word, tag, value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        if !self.word.try_take(UNTAGGED) {
            self.word.take_contended();
        }
        Guard(self, PhantomData)
    }

    /// As [`lock`](Lock::lock), for an operation of a worker with this tag. If the last one was
    /// that of another worker, `taken_over` is called with its tag, under the lock; it neither
    /// waits nor panics.
    /// A caller with the tag [`UNTAGGED`] is not recorded, and leaves the tag as it is.
    #[inline(always)]
    pub(crate) fn lock_as(&self, tag: u32, taken_over: fn(u32)) -> Guard<'_, T> {
        if !self.word.try_take(tag) {
            self.take_over(tag, taken_over);
        }
        Guard(self, PhantomData)
    }

    #[cold]
    #[inline(never)]
    fn take_over(&self, tag: u32, taken_over: fn(u32)) {
        self.word.take_contended();
        if tag == UNTAGGED {
            return;
        }
        // SAFETY: this thread has the lock.
        let before = self.tag.with_mut(|place| unsafe { place.replace(tag) });
        if before != tag && before != UNTAGGED {
            taken_over(before);
        }
    }

    /// `None` if the lock is taken.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        // Not `then_some`, which would make and drop a guard, and so release another thread's lock.
        self.word.try_take_any().then(|| Guard(self, PhantomData))
    }
}

/// Access to the guarded value until it is dropped. Stays on the thread that took the lock.
#[cfg(not(loom))]
#[must_use = "the lock is released at once"]
pub(crate) struct Guard<'l, T>(&'l Lock<T>, PhantomData<*const ()>);

#[cfg(not(loom))]
impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        self.0.value.with(|value| unsafe { &*value })
    }
}

#[cfg(not(loom))]
impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the guard is borrowed mutably.
        self.0.value.with_mut(|value| unsafe { &mut *value })
    }
}

#[cfg(not(loom))]
impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread has the lock.
        let tag = self.0.tag.with(|tag| unsafe { *tag });
        self.0.word.give_back(tag);
    }
}

/// The lock in models of the guarded value.
#[cfg(loom)]
pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard as Guard;

#[cfg(loom)]
impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn lock_as(&self, _: u32, _: fn(u32)) -> Guard<'_, T> {
        self.lock()
    }

    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.0.try_lock().ok()
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::base::shim::cell::UnsafeCell;
    use crate::base::shim::explore;
    use loom::sync::Arc;
    use loom::thread;

    struct World(Word, UnsafeCell<usize>);

    // SAFETY: the cell is used under the word.
    unsafe impl Sync for World {}
    // SAFETY: as above.
    unsafe impl Send for World {}

    /// Counts under the lock, if it is free, and leaves it with this tag.
    fn count(world: &World, tag: u32) -> usize {
        if !world.0.try_take_any() {
            return 0;
        }
        // SAFETY: this thread has the lock.
        world.1.with_mut(|n| unsafe { *n += 1 });
        world.0.give_back(tag);
        1
    }

    /// Three threads try, twice each: sections do not overlap, and each sees the effects of the
    /// earlier ones.
    #[test]
    fn one_at_a_time() {
        explore("lock::one_at_a_time", None, || {
            let world = Arc::new(World(Word(AtomicU32::new(UNTAGGED)), UnsafeCell::new(0)));
            let threads: Vec<_> = [2, 4]
                .map(|tag| {
                    let world = Arc::clone(&world);
                    thread::spawn(move || count(&world, tag) + count(&world, tag))
                })
                .into_iter()
                .collect();
            let mut done = count(&world, UNTAGGED);
            done += threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>();
            // SAFETY: all others have ended.
            assert_eq!(world.1.with(|n| unsafe { *n }), done);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;

    /// Counts the calls; used by one test.
    static TAKEN_OVER: AtomicU32 = AtomicU32::new(0);

    /// Takes the lock with a tag. Returns whether the caller was told that the tag was another.
    fn takes_over(lock: &Lock<()>, tag: u32) -> bool {
        let before = TAKEN_OVER.load(Ordering::Relaxed);
        drop(lock.lock_as(tag, |_| {
            TAKEN_OVER.fetch_add(1, Ordering::Relaxed);
        }));
        TAKEN_OVER.load(Ordering::Relaxed) > before
    }

    #[test]
    fn a_tag_tells_where_the_worker_changes() {
        let lock = Lock::new(());
        assert_eq!(
            [2, 2, 4, 4, 2].map(|tag| takes_over(&lock, tag)),
            [
                false, // the first operation
                false, true, false, true,
            ]
        );
        // Sections that are not recorded leave the tag.
        drop(lock.lock());
        drop(lock.try_lock().unwrap());
        assert!(!takes_over(&lock, UNTAGGED));
        assert_eq!([2, 4].map(|tag| takes_over(&lock, tag)), [false, true]);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let lock = Lock::new(0_usize);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..20_000).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 80_000);
    }

    #[test]
    fn those_who_nap_get_it_in_the_end_one_by_one() {
        let (lock, waiting, inside) = (Lock::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|s| {
            let held = lock.lock();
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock().is_none(), "who failed has given nothing back");
            for _ in 0..2 {
                s.spawn(|| {
                    waiting.fetch_add(1, Ordering::Release);
                    let mut value = lock.lock();
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two at a time");
                    std::thread::sleep(NAP * 20); // the other looks meanwhile
                    inside.fetch_sub(1, Ordering::Relaxed);
                    *value += 1;
                });
            }
            while waiting.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
            std::thread::sleep(NAP * 40); // past spinning and yielding
            drop(held);
        });
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn a_panic_gives_it_back() {
        let lock = Lock::new(1);
        let panics = || {
            let _held = lock.lock();
            panic!("inside");
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(lock.try_lock().is_some_and(|value| *value == 1));
    }
}
