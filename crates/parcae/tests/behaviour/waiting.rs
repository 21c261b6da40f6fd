//! No loop without a point: an operation that may be called in a loop charges, lets others run, and
//! sees that its task was cancelled. Those that do not say so in their documentation; the table is
//! in `parcae::sync`.

use parcae::channel::{broadcast, channel, watch};
use parcae::prelude::*;
use parcae::sync::{Condvar, Event, Mutex, Notify, RwLock, Semaphore};
use parcae::{Result, time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

/// One round of a loop.
type Round = Box<dyn Fn(&Cx) -> Result<()> + Send + Sync>;

/// No loop of these tests goes on for so long, unless it has no point.
const TOO_MANY: usize = 200_000;

/// It was too late, as it had to be.
fn late<T, E: Into<parcae::Error>>(outcome: Result<T, E>) -> Result<()> {
    match outcome.map_err(Into::into) {
        Ok(_) => panic!("what cannot be had was had"),
        Err(error) if error.is_timed_out() => Ok(()),
        Err(error) => Err(error),
    }
}

/// It would have had to wait, as it had to.
fn empty<T>(outcome: Result<T, parcae::channel::RecvError>) -> Result<()> {
    match outcome.map_err(parcae::Error::from) {
        Ok(_) => panic!("what cannot be had was had"),
        Err(error) if matches!(error.kind(), ErrorKind::WouldWait) => Ok(()),
        Err(error) => Err(error),
    }
}

fn rounds() -> Vec<(&'static str, Round)> {
    fn boxed(round: impl Fn(&Cx) -> Result<()> + Send + Sync + 'static) -> Round {
        Box::new(round)
    }
    const ZERO: Duration = Duration::ZERO;
    let mutex = Arc::new(Mutex::new(()));
    std::mem::forget(mutex.lock().unwrap());
    let (locked, until) = (Arc::clone(&mutex), Arc::clone(&mutex));
    let read = Arc::new(RwLock::new(()));
    std::mem::forget(read.write().unwrap());
    let write = Arc::clone(&read);
    let semaphore = Semaphore::new(0);
    let (notify, event, token) = (Notify::new(), Event::new(), CancelToken::new());
    let (free, condvar) = (Mutex::new(()), Condvar::new());
    let (sender, receiver) = channel::<u8>(1);
    let (tries, trying) = channel::<u8>(1);
    let (full, _kept) = channel::<u8>(1);
    full.send(1).unwrap();
    let (watched, watcher) = watch(1);
    let (broadcaster, subscriber) = broadcast::<u8>(1);
    let (second, trier) = broadcast::<u8>(1);
    vec![
        ("a park that was woken before", {
            boxed(|cx| {
                cx.waker().wake();
                cx.park()
            })
        }),
        ("a blocking call", boxed(|_| parcae::blocking(|| ()))),
        ("sleep for no time", boxed(|_| time::sleep(ZERO))),
        ("sleep for a nanosecond", boxed(|_| time::sleep(Duration::from_nanos(1)))),
        ("Cx::sleep", boxed(|cx| cx.sleep(ZERO))),
        ("sleep_until", boxed(|_| time::sleep_until(time::now()))),
        ("a late tick", {
            boxed(|_| time::interval_at(time::now(), Duration::from_secs(1)).tick().map(drop))
        }),
        ("timeout", boxed(|cx| cx.timeout(ZERO, || Ok(())))),
        ("a future that wakes itself", {
            boxed(|_| {
                let mut polls = 0;
                parcae::block_on(std::future::poll_fn(|context| {
                    context.waker().wake_by_ref();
                    polls += 1;
                    if polls > TOO_MANY { Poll::Ready(()) } else { Poll::Pending }
                }))?;
                panic!("polled without a point");
            })
        }),
        ("blocking", boxed(|_| parcae::blocking(|| ()))),
        ("blocking_static", boxed(|_| parcae::blocking_static(|| ()))),
        ("checkpoint", boxed(|_| parcae::checkpoint())),
        ("lock_timeout", boxed(move |_| late(locked.lock_timeout(ZERO)))),
        ("lock_deadline", boxed(move |_| late(until.lock_deadline(time::now())))),
        ("read_timeout", boxed(move |_| late(read.read_timeout(ZERO)))),
        ("write_timeout", boxed(move |_| late(write.write_timeout(ZERO)))),
        ("acquire_timeout", boxed(move |_| late(semaphore.acquire_timeout(1, ZERO)))),
        ("Notify::wait_timeout", boxed(move |_| late(notify.wait_timeout(ZERO)))),
        ("Event::wait_timeout", boxed(move |_| late(event.wait_timeout(ZERO)))),
        ("CancelToken::wait_timeout", boxed(move |_| late(token.wait_timeout(ZERO)))),
        ("Condvar::wait_while_timeout", {
            boxed(move |_| late(condvar.wait_while_timeout(free.lock()?, ZERO, |()| true)))
        }),
        ("recv_timeout", {
            boxed(move |_| {
                let _open = &sender;
                late(receiver.recv_timeout(ZERO))
            })
        }),
        ("send_timeout", {
            boxed(move |_| {
                let _open = &_kept;
                late(full.send_timeout(2, ZERO))
            })
        }),
        ("try_recv", {
            boxed(move |_| {
                let _open = &tries;
                empty(trying.try_recv())
            })
        }),
        ("changed_timeout", {
            boxed(move |_| {
                let _open = &watched;
                late(watcher.clone().changed_timeout(ZERO))
            })
        }),
        ("a broadcast's recv_timeout", {
            boxed(move |_| {
                let _open = &broadcaster;
                late(subscriber.clone().recv_timeout(ZERO))
            })
        }),
        ("a broadcast's try_recv", {
            boxed(move |_| {
                let _open = &second;
                empty(trier.clone().try_recv())
            })
        }),
        ("join_timeout", {
            boxed(|cx| {
                cx.nursery(|n| {
                    let mut child = n.spawn(|cx| cx.park())?;
                    for _ in 0..TOO_MANY {
                        match child.join_timeout(ZERO) {
                            Ok(outcome) => return outcome,
                            Err(handle) => child = handle,
                        }
                    }
                    panic!("joined without a point")
                })
            })
        }),
    ]
}

/// Runtimes with one worker: deterministic ones, and one on threads.
fn one_worker(budget: Budget) -> impl Iterator<Item = Runtime> {
    let builder = move || Runtime::builder().workers(1).yield_interval(10).budget(budget);
    let seeded = (0..12).map(move |seed| builder().deterministic(seed).build().unwrap());
    seeded.chain(std::iter::once_with(move || builder().build().unwrap()))
}

fn again_and_again(name: &str, round: &Round, cx: &Cx) -> Result<()> {
    for _ in 0..TOO_MANY {
        round(cx)?;
    }
    panic!("a loop around {name} goes on and on")
}

#[test]
fn a_loop_ends_with_its_budget() {
    for (name, round) in &rounds() {
        // A child has its share: enough for one of "join_timeout".
        let budget = Budget { ops: 1_000, ..Budget::UNLIMITED };
        for rt in one_worker(budget) {
            let error = rt.run(|cx| again_and_again(name, round, cx)).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{name}: {error}");
        }
    }
}

#[test]
fn others_run_beside_a_loop_and_end_it() {
    for (name, round) in &rounds() {
        for rt in one_worker(Budget::UNLIMITED) {
            let steps = AtomicUsize::new(0);
            rt.run(|cx| {
                cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                    let looping = n.spawn(|cx| again_and_again(name, round, cx))?;
                    let sibling = n.spawn(|cx| {
                        for _ in 0..50 {
                            steps.fetch_add(1, Ordering::Relaxed);
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?;
                    sibling.join()?;
                    assert!(!looping.is_finished(), "{name} ended by itself");
                    looping.cancel();
                    let error = looping.join().unwrap_err();
                    assert!(error.is_cancelled(), "{name}: {error}");
                    Ok(())
                })
            })
            .unwrap();
            assert_eq!(steps.into_inner(), 50, "{name}");
        }
    }
}

/// As above, of a root task that runs alone.
#[test]
fn shutdown_ends_a_loop() {
    for (name, round) in rounds() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let begun = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&begun);
        let task = rt.handle().spawn(move |cx| {
            told.store(true, Ordering::Release);
            loop {
                round(cx)?;
            }
        });
        let task: parcae::RootTask<()> = task.unwrap();
        while !begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let report = rt.shutdown(Duration::from_secs(60));
        assert!(report.is_complete(), "{name}: {report:?}");
        assert!(task.join().unwrap_err().is_cancelled(), "{name}");
    }
}

/// Each of them always waits, and neither is charged for anything but that.
#[test]
fn tasks_that_only_signal_each_other_are_charged() {
    for rt in one_worker(Budget { ops: 1_000, ..Budget::UNLIMITED }) {
        let (there, back) = (Notify::new(), Notify::new());
        let signals = AtomicUsize::new(0);
        let play = |from: &Notify, to: &Notify| {
            loop {
                to.notify_one();
                from.wait()?;
                assert!(signals.fetch_add(1, Ordering::Relaxed) < TOO_MANY, "it goes on and on");
            }
        };
        let outcome: Result<()> = rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|_| -> Result<()> { play(&there, &back) })?;
                n.spawn(|_| -> Result<()> { play(&back, &there) })?;
                Ok(())
            })
        });
        let error = outcome.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{error}");
    }
}

/// Async code yields by waking itself, which is fair to other tasks.
#[test]
fn futures_of_tasks_are_polled_in_turn() {
    for rt in one_worker(Budget::UNLIMITED) {
        let order = std::sync::Mutex::new(Vec::new());
        rt.run(|cx| {
            cx.nursery(|n| {
                for task in 0..3 {
                    let order = &order;
                    n.spawn(move |_| {
                        let mut left = 20;
                        parcae::block_on(std::future::poll_fn(|context| {
                            order.lock().unwrap().push(task);
                            left -= 1;
                            context.waker().wake_by_ref();
                            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
                        }))
                    })?;
                }
                Ok(())
            })
        })
        .unwrap();
        let order = order.into_inner().unwrap();
        let longest = order.chunk_by(|a, b| a == b).map(<[_]>::len).max();
        assert!(longest < Some(20), "one after the other: {order:?}");
    }
}

/// A call is not made for a task that is cancelled already.
#[test]
fn a_cancelled_task_makes_no_blocking_call() {
    for workers in [1, 2] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let made = AtomicUsize::new(0);
        let call = || made.fetch_add(1, Ordering::Relaxed);
        let error = rt.nursery(NurseryOpts::new(), |n| {
            n.cancel();
            parcae::blocking(call)
        });
        assert!(error.unwrap_err().is_cancelled());
        rt.nursery(NurseryOpts::new(), |n| {
            let child = n.spawn(|cx| {
                while !cx.is_cancelled() {
                    cx.shield(|| cx.yield_now())?;
                }
                parcae::blocking(call)
            })?;
            child.cancel();
            assert!(child.join().unwrap_err().is_cancelled());
            Ok(())
        })
        .unwrap();
        assert_eq!(made.into_inner(), 0);
    }
}
