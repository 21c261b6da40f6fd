//! The unit of time, and the processor time of a thread.

use std::time::Duration;

/// A point in time, or a duration: nanoseconds. Points count from the start of the scheduler.
pub(crate) type Nanos = u64;

/// Processor time of the calling thread.
pub(crate) fn own_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local. Every supported system has this clock; without it the answer is 0.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
