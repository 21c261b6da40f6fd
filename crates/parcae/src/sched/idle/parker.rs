//! A word with a token: one thread sleeps, any thread wakes it.
//!
//! The thread sleeps on the word itself, by a futex, or in a poller of descriptors. The word says
//! which:
//!
//! | value | means | set by |
//! |---|---|---|
//! | EMPTY | no unpark is pending; the thread is awake, or sleeps in the futex | the thread |
//! | TOKEN | an unpark is pending | any thread |
//! | IN_POLLER | no unpark is pending; the thread sleeps in the poller, or is about to | the thread |
//!
//! # Why no unpark is lost
//!
//! *Futex.* `unpark` sets TOKEN and then wakes; `park` takes it and sleeps only while the kernel,
//! too, sees the word EMPTY. So an unpark before, during or after the decision to sleep makes the
//! next `park` return.
//!
//! *Poller.* The thread changes EMPTY to IN_POLLER before it sleeps, and an unpark sets TOKEN, both
//! by one read-modify-write of the word. If the unpark comes first, the thread finds TOKEN and does
//! not sleep. If it comes second, it finds IN_POLLER and rings the poller's bell. The bell keeps
//! its ring until a sleep has seen it, so the sleep that was announced ends, even if it has not
//! begun. Of several unparks the first rings; the others find TOKEN, and the ring is on its way. A
//! ring that comes when the thread has left the poller for another reason ends one later sleep
//! early, which every sleeper expects.
//!
//! A thread that has a poller never sleeps in the futex again, so a waker that finds EMPTY and
//! wakes the futex in vain finds it awake: its token ends the next sleep.
//!
//! The futex is not modelled: loom has none. The word with a poller is (`super::models`).

use crate::base::shim::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const EMPTY: u32 = 0;
const TOKEN: u32 = 1;
const IN_POLLER: u32 = 2;

/// Where one thread sleeps. An `unpark` that comes first makes the next `park` return.
#[derive(Debug)]
#[cfg_attr(not(feature = "unpadded"), repr(align(64)))]
pub(crate) struct Parker {
    word: AtomicU32,
}

impl Default for Parker {
    fn default() -> Parker {
        Parker { word: AtomicU32::new(EMPTY) }
    }
}

impl Parker {
    /// Forgets an earlier call of `unpark`.
    pub(crate) fn clear(&self) {
        self.word.store(EMPTY, Ordering::Relaxed); // by the only thread that uses it
    }

    /// Sleeps until unparked.
    pub(crate) fn park(&self) {
        self.park_until(None);
    }

    /// Sleeps until unparked, or until a point in time: then false.
    pub(crate) fn park_until(&self, until: Option<Instant>) -> bool {
        // Acquire: pairs with the Release in `unpark_or`.
        while self.word.swap(EMPTY, Ordering::Acquire) != TOKEN {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            // Measured by the monotonic clock, from now.
            let timeout = left.map(|left| libc::timespec {
                tv_sec: left.as_secs().min(1 << 40) as libc::time_t,
                tv_nsec: left.subsec_nanos().into(),
            });
            let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: waits on our own word; returns at once unless it is EMPTY. The time is null
            // or on our stack.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.address(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    EMPTY,
                    timeout,
                );
            }
        }
        true
    }

    /// Announces that the thread sleeps in its poller. False if an unpark was pending: it is taken,
    /// and the thread does not sleep.
    pub(crate) fn enter_poller(&self) -> bool {
        // Release: pairs with the Acquire in `unpark_or`, which then sees the poller. Acquire, also
        // of a failure: pairs with its Release.
        let entered =
            self.word.compare_exchange(EMPTY, IN_POLLER, Ordering::AcqRel, Ordering::Acquire);
        if entered.is_err() {
            // Acquire: pairs with the Release in `unpark_or` of a thread that came since, and found
            // TOKEN.
            self.word.swap(EMPTY, Ordering::Acquire);
        }
        entered.is_ok()
    }

    /// The thread has slept in its poller. Whether it was unparked meanwhile.
    pub(crate) fn leave_poller(&self) -> bool {
        // Acquire: pairs with the Release in `unpark_or`.
        self.word.swap(EMPTY, Ordering::Acquire) == TOKEN
    }

    /// Wakes the thread that sleeps here, or the next one that would.
    pub(crate) fn unpark(&self) {
        self.unpark_or(|| unreachable!("the thread has no poller"));
    }

    /// As [`unpark`](Parker::unpark), for a thread that may sleep in a poller: then `ring` wakes
    /// it.
    pub(crate) fn unpark_or(&self, ring: impl FnOnce()) {
        // Release: pairs with the Acquires of the thread. Acquire: pairs with the Release in
        // `enter_poller`.
        if self.word.swap(TOKEN, Ordering::AcqRel) == IN_POLLER {
            ring();
            return;
        }
        // SAFETY: wakes waiters on our own word.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.address(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
    }

    /// The address of the word, as the futex knows it.
    fn address(&self) -> *const u32 {
        (&raw const self.word).cast()
    }
}
