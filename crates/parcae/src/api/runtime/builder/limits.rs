//! The ranges of the settings of a [`Builder`](super::Builder).
//!
//! They are checked before the first thread starts: a value that cannot work is an error that names
//! the setting, instead of an abort, an endless wait or a silently reduced value later. With all
//! settings in range a runtime can be built, run, shut down and dropped.

use super::BuildError;
use crate::api::engine::EngineOpts;
use crate::scope::cx::LONGEST_SLICE;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Workers: indices are 16 bits wide, and 1024 workers share one queue already.
const WORKERS: RangeInclusive<usize> = 1..=1024;
/// Temporary workers: as many as workers.
const TEMPORARY: RangeInclusive<usize> = 0..=1024;
/// Tenants: their number is 16 bits wide, and the table is in memory whole.
const TENANTS: RangeInclusive<usize> = 0..=4096;
/// A worker that spins longer than this occupies its processor for good.
const SPIN: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
/// The grain of deadlines: the kernel is no finer, and a second of lateness is too much for most.
const GRAIN: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(1);
/// Threads for blocking calls: the maximum exceeds the default limit of a process.
const BLOCKING_THREADS: RangeInclusive<usize> = 1..=65_536;
/// Queued blocking calls. The queue is allocated at the first call: 48 bytes for each.
const BLOCKING_QUEUE: RangeInclusive<usize> = 0..=1 << 20;
/// The monitor wakes up every 10 ms, and every millisecond while a worker may be stuck.
const STALL_AFTER: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::MAX;
/// A checkpoint, the hottest path of all, counts ops in 32 bits.
const INTERVAL: RangeInclusive<u64> = 1..=LONGEST_SLICE;

/// Returns an error for the first setting that is out of range.
pub(super) fn check(opts: &EngineOpts, interval: u64) -> Result<(), BuildError> {
    number("workers", opts.workers, WORKERS)?;
    number("temporary_workers", opts.monitor.temporary, TEMPORARY)?;
    number("max_tenants", opts.max_tenants, TENANTS)?;
    number("blocking_threads", opts.blocking.threads, BLOCKING_THREADS)?;
    number("blocking_queue", opts.blocking.queue, BLOCKING_QUEUE)?;
    number("yield_interval", interval, INTERVAL)?;
    // One stack for the loop of each worker, and one for a task to start on.
    number("max_stacks", opts.max_stacks, opts.workers + 1..=usize::MAX)?;
    time("spin", opts.spin, SPIN)?;
    time("timer_grain", opts.timer_grain, GRAIN)?;
    time("stall_after", opts.monitor.stall_after.unwrap_or(Duration::MAX), STALL_AFTER)
}

fn number<N: PartialOrd + Display>(
    name: &'static str,
    value: N,
    range: RangeInclusive<N>,
) -> Result<(), BuildError> {
    let show = N::to_string;
    refuse_outside(name, &value, &range, show)
}

fn time(
    name: &'static str,
    value: Duration,
    range: RangeInclusive<Duration>,
) -> Result<(), BuildError> {
    let show = |time: &Duration| match *time {
        Duration::MAX => "`Duration::MAX`".to_owned(),
        time => format!("{time:?}"),
    };
    refuse_outside(name, &value, &range, show)
}

fn refuse_outside<T: PartialOrd>(
    name: &'static str,
    value: &T,
    range: &RangeInclusive<T>,
    show: impl Fn(&T) -> String,
) -> Result<(), BuildError> {
    if range.contains(value) {
        return Ok(());
    }
    let allowed = format!("{} to {}", show(range.start()), show(range.end()));
    Err(BuildError::Setting { name, value: show(value), allowed })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::prelude::*;
    use crate::runtime::BuildError;
    use std::sync::mpsc;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    fn builder() -> crate::runtime::Builder<crate::scope::profile::Service> {
        Runtime::builder().workers(2)
    }

    #[track_caller]
    fn refused(
        builder: crate::runtime::Builder<crate::scope::profile::Service>,
        name: &str,
        parts: &[&str],
    ) {
        let error = builder.build().map(drop).unwrap_err();
        let BuildError::Setting { name: told, .. } = &error else { panic!("{error}") };
        assert_eq!(*told, name);
        let text = error.to_string();
        assert!(text.contains(&format!("`Builder::{name}`")), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
    }

    #[test]
    fn a_value_out_of_its_range_is_named_with_the_range() {
        refused(builder().workers(0), "workers", &["is 0", "1 to 1024"]);
        refused(builder().workers(1025), "workers", &["1025"]);
        refused(builder().workers(usize::MAX), "workers", &["18446744073709551615"]);
        refused(builder().temporary_workers(1025), "temporary_workers", &["1025", "0 to 1024"]);
        refused(builder().blocking_threads(0), "blocking_threads", &["1 to 65536"]);
        refused(builder().blocking_threads(usize::MAX), "blocking_threads", &["65536"]);
        refused(builder().blocking_queue(1 << 40), "blocking_queue", &["1099511627776", "1048576"]);
        refused(builder().blocking_queue(usize::MAX), "blocking_queue", &["0 to 1048576"]);
        refused(builder().yield_interval(0), "yield_interval", &["is 0", "1 to 4294967294"]);
        refused(builder().yield_interval(u64::MAX), "yield_interval", &["4294967294"]);
        refused(builder().max_stacks(0), "max_stacks", &["is 0", "3 to"]);
        refused(builder().max_stacks(2), "max_stacks", &["is 2", "3 to"]);
        refused(builder().spin(MINUTE * 61), "spin", &["3660s", "0ns to 3600s"]);
        refused(builder().spin(Duration::MAX), "spin", &["`Duration::MAX`", "3600s"]);
        let fine = Duration::from_nanos(999);
        refused(builder().timer_grain(fine), "timer_grain", &["999ns", "1µs to 1s"]);
        refused(builder().timer_grain(MINUTE), "timer_grain", &["60s", "1µs to 1s"]);
        let none = Duration::ZERO;
        refused(builder().stall_after(none), "stall_after", &["0ns", "1ms to `Duration::MAX`"]);
    }

    /// Builds, runs, shuts down and drops on another thread, and aborts the process on a hang.
    #[track_caller]
    fn ends(
        what: &str,
        build: impl FnOnce() -> crate::runtime::Builder<crate::scope::profile::Service> + Send,
    ) {
        let (told, ended) = mpsc::channel();
        std::thread::scope(|s| {
            s.spawn(move || {
                let rt = build().build().unwrap();
                let sum = rt.run(|cx| {
                    cx.sleep(Duration::from_micros(100))?;
                    let called = crate::blocking(|| 1)?;
                    let spawned = cx.nursery(|n| {
                        let children: Vec<_> =
                            (0..4).map(|_| n.spawn(|cx| cx.yield_now().map(|()| 1))).collect();
                        children.into_iter().map(|child| child?.join()).sum::<crate::Result<u32>>()
                    })?;
                    Ok(called + spawned)
                });
                assert_eq!(sum.unwrap(), 5);
                let _sleeps = rt.handle().spawn(|cx| cx.sleep(Duration::MAX)).unwrap();
                let shutdown = rt.shutdown(MINUTE);
                assert!(shutdown.is_complete(), "{shutdown}");
                drop(rt);
                told.send(()).unwrap();
            });
            // The scope would wait for a thread that hangs.
            if ended.recv_timeout(MINUTE * 2).is_err() {
                let line = format!("{what}: does not end, or has failed\n");
                let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
                std::process::abort();
            }
        });
    }

    #[test]
    fn extremes_run_shut_down_and_drop() {
        ends("spin 1 h", || builder().spin(MINUTE * 60));
        ends("spin 0", || builder().spin(Duration::ZERO));
        ends("one worker, spin 1 h", || builder().workers(1).spin(MINUTE * 60));
        ends("finest timers", || builder().timer_grain(Duration::from_micros(1)));
        ends("coarsest timers", || builder().timer_grain(Duration::from_secs(1)));
        ends("no temporary workers", || builder().temporary_workers(0));
        ends("1024 temporary workers", || builder().temporary_workers(1024));
        ends("one thread, no queue", || builder().blocking_threads(1).blocking_queue(0));
        ends("large queue", || builder().blocking_threads(65_536).blocking_queue(1 << 20));
        ends("threads that never retire", || builder().blocking_idle(Duration::MAX));
        ends("threads that retire at once", || builder().blocking_idle(Duration::ZERO));
        ends("interval 1", || builder().yield_interval(1));
        ends("longest interval", || builder().yield_interval(u64::from(u32::MAX) - 1));
        ends("stalls at once", || builder().stall_after(Duration::from_millis(1)).on_stall(|_| ()));
        ends("no stalls", || builder().stall_after(Duration::MAX));
        ends("late stalls", || builder().stall_after(Duration::MAX - Duration::from_nanos(1)));
        ends("largest stacks", || builder().stack_size(crate::stack::StackSize::MAX));
    }

    /// With the minimum of stacks a task runs, and there is none for a second task that waits.
    #[test]
    fn the_fewest_stacks_are_enough_to_end() {
        let rt = Runtime::builder().workers(1).max_stacks(2).build().unwrap();
        assert_eq!(rt.run(|cx| cx.yield_now().map(|()| 7)).unwrap(), 7);
        let crowded = rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..4 {
                    n.spawn(|cx| cx.sleep(Duration::from_millis(1)))?;
                }
                Ok(())
            })
        });
        assert!(matches!(crowded.unwrap_err().kind(), ErrorKind::NoStack(_)));
        assert!(rt.shutdown(MINUTE).is_complete());
    }

    /// A deadline beyond the range of the clock never expires; it does not lie in the past.
    #[test]
    fn the_longest_shutdown_waits_and_ends() {
        let rt = Runtime::builder().deterministic(5).build().unwrap();
        let task = rt.handle().spawn(|cx| cx.shield(|| cx.sleep(Duration::from_secs(3)))).unwrap();
        assert!(rt.shutdown(Duration::MAX).is_complete());
        assert!(task.is_finished());
        let rt = builder().build().unwrap();
        let task = rt.handle().spawn(|cx| cx.sleep(Duration::MAX)).unwrap();
        assert!(rt.shutdown(Duration::MAX).is_complete());
        assert!(task.join().unwrap_err().is_cancelled());
    }
}
