//! What the system says about a thread of this process.

use std::time::Duration;

/// What a thread does at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// On a processor, or waiting for one.
    Runs,
    /// In a system call that waits.
    Blocked,
}

/// None if the system does not tell.
pub(super) fn thread_state(tid: i32) -> Option<ThreadState> {
    parse_state(&read(tid, "stat")?)
}

/// How long the thread has been on a processor. None if the system does not count it.
pub(super) fn on_cpu(tid: i32) -> Option<Duration> {
    parse_on_cpu(&read(tid, "schedstat")?)
}

/// How long the calling thread has been on a processor.
pub(super) fn own_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local; every system that we run on has this clock, and zero is a fine answer otherwise.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn read(tid: i32, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok()
}

/// The name of the thread is in parentheses and may contain anything; the state is the letter after it.
fn parse_state(stat: &str) -> Option<ThreadState> {
    let (_, rest) = stat.rsplit_once(')')?;
    match rest.trim_start().chars().next()? {
        'R' => Some(ThreadState::Runs),
        'S' | 'D' => Some(ThreadState::Blocked),
        // Stopped, traced, gone: nothing that a task does.
        _ => None,
    }
}

/// Nanoseconds on a processor, nanoseconds in the queue for one, turns.
fn parse_on_cpu(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_thread_does_not_confuse() {
        assert_eq!(parse_state("7 (a) R (b)) S 1 2"), Some(ThreadState::Blocked));
        assert_eq!(parse_state("7 (parcae-0) R 1 2"), Some(ThreadState::Runs));
        assert_eq!(parse_state("7 (parcae-0) T 1 2"), None);
        assert_eq!(parse_state(""), None);
        assert_eq!(parse_on_cpu("1500 20 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(parse_on_cpu("0 x"), Some(Duration::ZERO));
        assert_eq!(parse_on_cpu(""), None);
    }
}
