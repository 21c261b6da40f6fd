//! State and processor time of a thread of this process, from the system.

use std::time::Duration;

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadState {
    /// On a processor, or waiting for one.
    Runs,
    /// In a system call that waits.
    Blocked,
}

/// The state of a thread; `None` if the system gives no information.
pub(super) fn thread_state(tid: i32) -> Option<ThreadState> {
    parse_state(&read(tid, "stat")?)
}

/// Processor time of a thread; `None` if the system does not count it.
pub(super) fn on_cpu(tid: i32) -> Option<Duration> {
    parse_on_cpu(&read(tid, "schedstat")?)
}

fn read(tid: i32, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/{file}")).ok()
}

/// The name of the thread is in parentheses and may contain any character; the state is the letter
/// after it.
fn parse_state(stat: &str) -> Option<ThreadState> {
    let (_, rest) = stat.rsplit_once(')')?;
    match rest.trim_start().chars().next()? {
        'R' => Some(ThreadState::Runs),
        'S' | 'D' => Some(ThreadState::Blocked),
        // Stopped, traced, gone: not caused by a task.
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
