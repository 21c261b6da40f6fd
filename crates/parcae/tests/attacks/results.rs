//! Errors and results: each failure is heard of, each result is dropped once.

use crate::help::{in_time, runtime};
use parcae::prelude::*;
use parcae::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_failure_is_heard_of_though_its_handle_is_dropped_just_then() {
    let lost = runtime(2)
        .run(|cx| {
            let mut lost = 0;
            for round in 0..60_000_u64 {
                let started = AtomicBool::new(false);
                let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
                let outcome = cx.nursery_with(opts, |n| {
                    let child = n.spawn(|_| {
                        started.store(true, SeqCst);
                        Err::<(), _>(Error::msg("x"))
                    })?;
                    let start = Instant::now();
                    while !started.load(SeqCst) && start.elapsed() < Duration::from_millis(2) {
                        std::hint::spin_loop();
                    }
                    for _ in 0..(round % 200) * 4 {
                        std::hint::spin_loop();
                    }
                    drop(child);
                    Ok(())
                });
                if outcome.is_ok() {
                    lost += 1;
                }
            }
            Ok(lost)
        })
        .unwrap();
    assert_eq!(lost, 0, "failures that nobody heard of");
}

#[test]
fn an_error_tells_its_task_though_somebody_keeps_a_copy() {
    let kept = Mutex::new(None);
    let e = runtime(1)
        .run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| {
                    let e = Error::msg("a");
                    *kept.lock().unwrap() = Some(e.clone());
                    Err::<(), _>(e)
                })?
                .join()
            })
        })
        .unwrap_err();
    assert!(e.task().is_some());
}

#[test]
fn closures_and_results_are_stored_where_they_are_aligned() {
    #[repr(align(16))]
    #[derive(Clone, Copy)]
    struct Aligned(u128);

    let seven = Aligned(7);
    let outcome = runtime(1).run(|cx| cx.nursery(|n| Ok(n.spawn(move |_| Ok(seven))?.join()?.0)));
    assert_eq!(outcome.unwrap(), 7);
}

/// How many results there are.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// A result that is counted.
struct Counted;

impl Counted {
    fn new() -> Counted {
        LIVE.fetch_add(1, SeqCst);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, SeqCst);
    }
}

type Counts<'s> = TaskHandle<'s, Counted>;

/// Drops it on another thread, which need not wait for the result.
fn drop_elsewhere(handle: Counts<'_>) {
    let _ = thread::scope(|s| {
        s.spawn(move || {
            for _ in 0..100 {
                if handle.is_finished() {
                    break;
                }
                thread::yield_now();
            }
            drop(handle);
        })
        .join()
    });
}

/// Ends with each handle in another way.
fn consume(cx: &Cx, handles: &Mutex<Receiver<Counts<'_>>>, who: usize) -> Result<()> {
    for turn in who.. {
        let received = handles.lock().unwrap().try_recv();
        let handle = match received {
            Ok(handle) => handle,
            Err(TryRecvError::Empty) => {
                cx.yield_now()?;
                continue;
            }
            Err(TryRecvError::Disconnected) => break,
        };
        match turn % 5 {
            0 => drop(handle),
            1 => drop(handle.join()),
            2 => {
                handle.cancel();
                drop(handle.join());
            }
            3 => match handle.try_join() {
                Ok(outcome) => drop(outcome),
                Err(handle) => drop(handle.join()),
            },
            _ => drop_elsewhere(handle),
        }
    }
    Ok(())
}

#[test]
fn results_are_dropped_once_whoever_joins_drops_or_cancels() {
    in_time(|| {
        for workers in [1, 2, 3] {
            let rt = runtime(workers);
            for round in 0..300_usize {
                let _ = rt.run(|cx| {
                    cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                        let (give, handles) = mpsc::channel();
                        let handles = Arc::new(Mutex::new(handles));
                        for who in 0..4 {
                            let handles = Arc::clone(&handles);
                            n.spawn(move |cx| consume(cx, &handles, who))?;
                        }
                        for i in 0..40 {
                            let counted = Counted::new();
                            let child = n.spawn(move |cx| {
                                if i % 3 == 0 {
                                    cx.yield_now()?;
                                }
                                if i % 7 == 0 {
                                    return Err(Error::msg("x"));
                                }
                                Ok(counted)
                            })?;
                            give.send(child).unwrap();
                            if i == 30 && round % 3 == 0 {
                                n.cancel();
                            }
                        }
                        drop(give);
                        Ok(())
                    })
                });
                assert_eq!(LIVE.load(SeqCst), 0, "workers {workers} round {round}");
            }
        }
    });
}
