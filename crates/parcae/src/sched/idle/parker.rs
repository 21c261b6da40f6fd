//! A futex with a token: one thread sleeps, any thread wakes it.
//!
//! Not modelled: loom has no futex. The word is a token of one bit. `unpark` sets it and then
//! wakes; `park` takes it and sleeps only while the kernel, too, sees it unset. So an unpark
//! before, during or after the decision to sleep makes the next `park` return, and none is lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Where one thread sleeps. An `unpark` that comes first makes the next `park` return.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Parker {
    /// 1 while an unpark is pending.
    word: AtomicU32,
}

impl Parker {
    /// Sleeps until unparked.
    pub(crate) fn park(&self) {
        self.park_until(None);
    }

    /// Sleeps until unparked, or until a point in time: then false.
    pub(crate) fn park_until(&self, until: Option<Instant>) -> bool {
        // Acquire: pairs with the Release in `unpark`.
        while self.word.swap(0, Ordering::Acquire) == 0 {
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
            // SAFETY: waits on our own word; returns at once unless it is 0. The time is null or
            // on our stack.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.word.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    0,
                    timeout,
                );
            }
        }
        true
    }

    /// Wakes the thread that sleeps here, or the next one that would.
    pub(crate) fn unpark(&self) {
        // Release: pairs with the Acquire in `park_until`.
        self.word.store(1, Ordering::Release);
        // SAFETY: wakes waiters on our own word.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
    }
}
