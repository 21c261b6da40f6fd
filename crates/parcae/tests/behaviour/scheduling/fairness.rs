//! Tasks go on while others misbehave: blocked workers, noisy neighbours, a thousand waiters. No
//! test asserts a time; progress is counted against the progress that was possible.

use parcae::channel::channel;
use parcae::prelude::*;
use parcae::runtime::Builder;
use parcae::stall::StallKind;
use parcae::sync::Semaphore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Service = parcae::profile::Service;

fn quiet() -> Builder<Service> {
    Runtime::builder().stall_after(Duration::MAX)
}

/// Beats from outside, one task for each, while the runtime is in trouble, until `enough` is set.
/// Returns how many were sent, and how many of them came while the trouble lasted: the caller ends
/// it after this.
fn beats(rt: &Runtime, trouble: impl FnOnce(), enough: &AtomicBool) -> (u64, u64) {
    let handle = rt.handle();
    std::thread::scope(|s| {
        let beating = s.spawn(move || {
            let (mut sent, came) = (0, Arc::new(AtomicU64::new(0)));
            while !enough.load(Ordering::Acquire) {
                let came = Arc::clone(&came);
                let beat = handle.spawn(move |_| {
                    came.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
                beat.unwrap();
                sent += 1;
                std::thread::sleep(Duration::from_millis(40));
            }
            // They come, however long a busy machine takes.
            let deadline = Instant::now() + Duration::from_secs(300);
            while came.load(Ordering::Relaxed) < sent && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            (sent, came.load(Ordering::Relaxed))
        });
        trouble();
        beating.join().unwrap()
    })
}

/// A hundred tasks block their threads without a word, on two workers. Meanwhile others run.
// rule: S4-SYSMON-3
#[test]
fn kidnapped_workers_are_replaced() {
    const TASKS: usize = 100;
    let rt = quiet().workers(2).temporary_workers(TASKS + 8).build().unwrap();
    let (enough, blocked) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
    let release = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (blocked, release) = (Arc::clone(&blocked), Arc::clone(&release));
            let task = rt.handle().spawn(move |_| {
                blocked.fetch_add(1, Ordering::Relaxed);
                let mut open = release.0.lock().unwrap();
                while !*open {
                    open = release.1.wait(open).unwrap();
                }
                Ok(())
            });
            task.unwrap()
        })
        .collect();
    // All hundred block at the same time: so many threads were found for them. Then a while of
    // beats.
    let deadline = Instant::now() + Duration::from_secs(300);
    while blocked.load(Ordering::Relaxed) < TASKS {
        assert!(Instant::now() < deadline, "only {blocked:?} of {TASKS} got a thread");
        std::thread::sleep(Duration::from_millis(1));
    }
    let trouble = || {
        std::thread::sleep(Duration::from_millis(1_500));
        enough.store(true, Ordering::Release);
    };
    let (sent, came) = beats(&rt, trouble, &enough);
    *release.0.lock().unwrap() = true;
    release.1.notify_all();
    for task in tasks {
        task.join().unwrap();
    }
    assert_eq!(came, sent, "all beats come");
}

/// The same while the hundred are still arriving: in the end, other workers have taken every
/// movable task.
#[test]
fn a_movable_heart_beats_through_a_kidnapping() {
    let rt = quiet().workers(2).temporary_workers(40).build().unwrap();
    let over = AtomicBool::new(false);
    let beaten = AtomicU64::new(0);
    rt.run(|cx| {
        cx.nursery(|n| {
            // SAFETY: nothing on its stack is bound to a thread, and it uses no thread-local data.
            let movable = unsafe { SpawnOpts::new().migratable() };
            n.spawn_with(movable, |cx| {
                while !over.load(Ordering::Acquire) {
                    cx.sleep(Duration::from_millis(10))?;
                    beaten.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })?;
            cx.nursery(|m| {
                for _ in 0..30 {
                    m.spawn(|_| {
                        std::thread::sleep(Duration::from_millis(300)); // undeclared
                        Ok(())
                    })?;
                }
                Ok(())
            })?;
            over.store(true, Ordering::Release);
            Ok(())
        })
    })
    .unwrap();
    assert!(beaten.into_inner() > 0, "the heart stood still");
}

/// Fifteen tasks compute without a checkpoint, on four workers. Meanwhile others run.
// rule: S4-SYSMON-3
#[test]
fn noisy_neighbours_do_not_stop_the_others() {
    const HOGS: usize = 15;
    let rt = quiet().workers(4).temporary_workers(HOGS + 4).build().unwrap();
    let (over, hogs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..HOGS)
        .map(|_| {
            let (over, hogs) = (Arc::clone(&over), Arc::clone(&hogs));
            let task = rt.handle().spawn(move |_| {
                hogs.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                Ok(())
            });
            task.unwrap()
        })
        .collect();
    let (enough, seen) = (AtomicBool::new(false), Arc::clone(&hogs));
    let trouble = || {
        let deadline = Instant::now() + Duration::from_secs(100);
        // On two processors it takes a while until each had its share.
        while hogs.load(Ordering::Relaxed) < HOGS && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(1_500));
        enough.store(true, Ordering::Release);
    };
    let (sent, came) = beats(&rt, trouble, &enough);
    let all = seen.load(Ordering::Relaxed);
    over.store(true, Ordering::Release);
    for task in tasks {
        task.join().unwrap();
    }
    assert_eq!(all, HOGS, "the trouble did not come");
    assert_eq!(came, sent, "all beats come");
}

/// A thousand tasks wait for one permit; each release wakes one of them, in the order in which they
/// came.
#[test]
fn a_herd_of_a_thousand_is_woken_one_by_one() {
    const HERD: usize = 1_000;
    let rt = quiet().workers(2).build().unwrap();
    let (gate, woken) = (Semaphore::new(0), AtomicUsize::new(0));
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..HERD {
                n.spawn(|_| {
                    gate.acquire()?.forget();
                    woken.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            for released in 1..=HERD {
                gate.add(1);
                while woken.load(Ordering::Relaxed) < released {
                    cx.yield_now()?;
                }
                assert_eq!(woken.load(Ordering::Relaxed), released, "one permit, one task");
            }
            Ok(())
        })
    })
    .unwrap();
    let parked: u64 = rt.stats().counters().parked;
    // Each waits once, and is rarely woken in vain: a release wakes the right task.
    assert!(parked < 3 * HERD as u64, "{parked} parks for {HERD} waits");
}

/// Pairs on channels of their own, with and without others that are busy on theirs: all messages
/// arrive, and no task runs out of turns.
#[test]
fn channels_are_isolated() {
    const PAIRS: usize = 8;
    let messages: u64 = if cfg!(debug_assertions) { 2_000 } else { 25_000 };
    let rt = quiet().workers(2).build().unwrap();
    let sums: Vec<u64> = rt
        .run(|cx| {
            cx.nursery(|n| {
                let mut receivers = Vec::new();
                for pair in 0..PAIRS {
                    // The first pair is alone; the others share.
                    let (sender, receiver) = channel::<u64>(if pair == 0 { 0 } else { 64 });
                    n.spawn(move |_| {
                        for message in 1..=messages {
                            sender.send(message)?;
                        }
                        Ok(())
                    })?;
                    receivers.push(n.spawn(move |_| receiver.iter().sum::<parcae::Result<u64>>())?);
                }
                receivers.into_iter().map(|receiver| receiver.join()).collect()
            })
        })
        .unwrap();
    assert_eq!(sums, vec![messages * (messages + 1) / 2; PAIRS]);
}

/// A runtime in trouble says so, once for each stall, and names the culprit.
// rule: S4-STALL-2
#[test]
fn a_kidnapper_is_named() {
    let names = Arc::new(std::sync::Mutex::new(Vec::new()));
    let named = Arc::clone(&names);
    let rt = Runtime::builder()
        .workers(1)
        .stall_after(Duration::from_millis(100))
        .on_stall(move |report| {
            let name = report.task.as_ref().and_then(|task| task.name().map(String::from));
            named.lock().unwrap().push((name, report.kind));
        })
        .build()
        .unwrap();
    let culprit = (Some("kidnapper".to_owned()), StallKind::Blocked);
    let stalls = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn_with(SpawnOpts::new().name("kidnapper"), |cx| {
                let deadline = Instant::now() + Duration::from_secs(300);
                for stalls in 1.. {
                    std::thread::sleep(Duration::from_millis(400));
                    if names.lock().unwrap().contains(&culprit) || Instant::now() > deadline {
                        return Ok(stalls);
                    }
                    // Another stall: the last was not answered for, or that of a busy machine.
                    cx.yield_now()?;
                }
                unreachable!("it counts for ever")
            })?
            .join()
        })
    });
    drop(rt);
    let names = names.lock().unwrap();
    assert!(names.contains(&culprit), "{names:?}");
    // A machine that has no processor for a worker is reported, too.
    let blocked = names.iter().filter(|(_, kind)| *kind != StallKind::Starved).count();
    assert!(blocked <= stalls.unwrap(), "once for each stall: {names:?}");
}
