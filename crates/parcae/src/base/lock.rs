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
//! # Not for
//!
//! Sections that run code of the program, that wait, or that are long. The lock is not fair, and a
//! panic does not poison it: the guarded value is consistent between any two statements that may
//! panic.
//!
//! Under loom [`Lock`] is loom's mutex, which its scheduler understands; [`Word`] is modelled by
//! itself.

#[cfg(any(test, not(loom)))]
use crate::base::shim::atomic::{AtomicUsize, Ordering};
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

#[cfg(any(test, not(loom)))]
const FREE: usize = 0;
#[cfg(any(test, not(loom)))]
const TAKEN: usize = 1;

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

/// State of a lock: free or taken.
#[cfg(any(test, not(loom)))]
struct Word(AtomicUsize);

#[cfg(any(test, not(loom)))]
impl Word {
    #[inline]
    fn try_take(&self) -> bool {
        // Acquire: pairs with the Release in `give_back`.
        self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn give_back(&self) {
        self.0.store(FREE, Ordering::Release); // pairs with the Acquire in `try_take`
    }

    /// Whether the lock seems to be free. Does not take the cache line away from the holder.
    #[cfg(not(loom))]
    fn looks_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) == FREE // a hint; `try_take` decides
    }

    #[cfg(not(loom))]
    #[cold]
    fn take_contended(&self) {
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
            if self.looks_free() && self.try_take() {
                return;
            }
            round = round.saturating_add(1);
        }
    }
}

/// A value that one thread at a time may use, for a few instructions. The word comes first, for
/// values that care which of their fields are on its cache line.
#[cfg(not(loom))]
#[repr(C)]
pub(crate) struct Lock<T> {
    word: Word,
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
        Lock { word: Word(AtomicUsize::new(FREE)), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        if !self.word.try_take() {
            self.word.take_contended();
        }
        Guard(self, PhantomData)
    }

    /// `None` if the lock is taken.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        // Not `then_some`, which would make and drop a guard, and so release another thread's lock.
        self.word.try_take().then(|| Guard(self, PhantomData))
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
        self.0.word.give_back();
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

    /// Counts under the lock, if it is free.
    fn count(world: &World) -> usize {
        if !world.0.try_take() {
            return 0;
        }
        // SAFETY: this thread has the lock.
        world.1.with_mut(|n| unsafe { *n += 1 });
        world.0.give_back();
        1
    }

    /// Three threads try, twice each: sections do not overlap, and each sees the effects of the
    /// earlier ones.
    #[test]
    fn one_at_a_time() {
        explore("lock::one_at_a_time", None, || {
            let world = Arc::new(World(Word(AtomicUsize::new(FREE)), UnsafeCell::new(0)));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let world = Arc::clone(&world);
                    thread::spawn(move || count(&world) + count(&world))
                })
                .collect();
            let mut done = count(&world);
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
                    assert!(lock.try_lock().is_none(), "it is taken, and not only left free");
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
