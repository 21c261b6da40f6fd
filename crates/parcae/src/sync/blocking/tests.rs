//! Calls that block: on threads, because the deterministic executor makes them in place.

use super::*;
use crate::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

fn one_worker(threads: usize, queue: usize) -> Runtime {
    Runtime::builder().workers(1).blocking_threads(threads).blocking_queue(queue).build().unwrap()
}

#[test]
fn the_worker_runs_others_meanwhile() {
    let rt = one_worker(4, 4);
    let sum = rt.run(|cx| {
        let (sender, receiver) = mpsc::channel();
        cx.nursery(|n| {
            let blocked = n.spawn(move |_| blocking(move || receiver.iter().sum::<i32>()))?;
            for i in 0..10 {
                sender.send(i)?; // the only worker is ours
                cx.yield_now()?;
            }
            drop(sender);
            blocked.join()
        })
    });
    assert_eq!(sum.unwrap(), 45);
}

#[test]
fn a_panic_of_the_call_is_an_error_of_the_task() {
    for rt in [one_worker(1, 1), Runtime::builder().deterministic(1).build().unwrap()] {
        for _ in 0..3 {
            let outcome = rt.run(|_| {
                let panicked = blocking(|| std::panic::resume_unwind(Box::new("on purpose")));
                let error: Error = match panicked {
                    Ok(()) => unreachable!(),
                    Err(error) => error,
                };
                assert!(error.is_panic());
                blocking(|| 7)
            });
            assert_eq!(outcome.unwrap(), 7);
        }
    }
    assert_eq!(blocking(|| 8).unwrap(), 8); // not on a task
}

#[test]
fn no_more_threads_than_allowed_and_no_longer_queue() {
    let rt = one_worker(2, 3);
    let (running, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..50 {
                n.spawn(|cx| {
                    blocking(|| {
                        most.fetch_max(
                            running.fetch_add(1, Ordering::Relaxed) + 1,
                            Ordering::Relaxed,
                        );
                        thread::yield_now();
                        running.fetch_sub(1, Ordering::Relaxed);
                    })?;
                    let pool = cx.frame().settings().shared.part::<BlockingPool>().unwrap();
                    assert!(pool.threads() <= 2 && pool.inner.lock().queue.len() <= 5);
                    done.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
    assert!(most.into_inner() <= 2);
    assert_eq!(done.into_inner(), 50);
}

#[test]
fn idle_threads_retire_and_come_back() {
    let rt = Runtime::builder().workers(1).blocking_idle(Duration::from_micros(1)).build().unwrap();
    rt.run(|cx| {
        for _ in 0..3 {
            blocking(|| ())?;
            while cx.frame().settings().shared.part::<BlockingPool>().unwrap().threads() > 0 {
                cx.yield_now()?;
            }
        }
        Ok(())
    })
    .unwrap();
}

/// A call that borrows is waited for: its data is still there when it ends.
#[test]
fn a_call_that_has_begun_is_waited_for() {
    let rt = one_worker(1, 1);
    let (begun, let_go) = (AtomicBool::new(false), AtomicBool::new(false));
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
            let task = n.spawn(|cx| {
                let mut local = [0; 64];
                let result = blocking(|| {
                    begun.store(true, Ordering::Release);
                    while !let_go.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                    local.fill(7);
                    local.len()
                });
                assert!(local.iter().all(|&byte| byte == 7));
                assert!(cx.checkpoint().unwrap_err().is_cancelled());
                result
            })?;
            while !begun.load(Ordering::Acquire) {
                cx.yield_now()?;
            }
            task.cancel();
            for _ in 0..10 {
                cx.yield_now()?;
            }
            assert!(!task.is_finished());
            let_go.store(true, Ordering::Release);
            let error = task.join().unwrap_err();
            assert!(error.is_cancelled());
            let said = error.to_string();
            assert!(said.contains(&format!("the blocking call at {}", file!())), "{said}");
            assert!(said.contains("was waited for because it may borrow"), "{said}");
            Ok(())
        })
    })
    .unwrap();
}

/// The other half of the rule: a call that fails by itself says so, and in a shield the result
/// comes out.
#[test]
fn a_call_that_is_waited_for_reports_its_panic_and_in_a_shield_its_result() {
    let rt = one_worker(2, 1);
    let (begun, let_go) = (AtomicUsize::new(0), AtomicBool::new(false));
    let wait = || {
        begun.fetch_add(1, Ordering::Release);
        while !let_go.load(Ordering::Acquire) {
            thread::yield_now();
        }
    };
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
            let panics = n.spawn(|_| {
                blocking(|| {
                    wait();
                    std::panic::resume_unwind(Box::new("on purpose"))
                })
            })?;
            let shielded = n.spawn(|cx| {
                cx.shield(|| {
                    blocking(|| {
                        wait();
                        7
                    })
                })
            })?;
            while begun.load(Ordering::Acquire) < 2 {
                cx.yield_now()?;
            }
            panics.cancel();
            shielded.cancel();
            for _ in 0..10 {
                cx.yield_now()?;
            }
            let_go.store(true, Ordering::Release);
            let panicked: Result<()> = panics.join();
            assert!(panicked.unwrap_err().is_panic());
            assert_eq!(shielded.join()?, 7);
            Ok(())
        })
    })
    .unwrap();
}

/// Both forms under a deadline: one is left behind, the other is waited for, and the errors say so.
#[test]
fn a_deadline_ends_the_wait_or_says_why_it_did_not() {
    let rt = one_worker(2, 1);
    // On a busy machine the deadline may pass before the call was submitted; then a longer one is
    // tried. The assertions are about the last attempt.
    let mut deadline = Duration::from_millis(1);
    let (ends, error) = loop {
        let (ends, end) = mpsc::channel::<()>();
        let outcome =
            rt.run(|cx| cx.timeout(deadline, || blocking_static(move || end.recv().is_ok())));
        let error = outcome.unwrap_err();
        if error.to_string().contains("blocking call") || deadline > Duration::from_secs(8) {
            break (ends, error);
        }
        deadline *= 2;
    };
    assert!(error.is_timed_out());
    let said = error.to_string();
    assert!(said.starts_with("deadline exceeded"), "{said}");
    assert!(said.contains(&format!("; the blocking call at {}", file!())), "{said}");
    assert!(said.contains("was left running"), "{said}");
    drop(ends);

    let mut deadline = Duration::from_millis(1);
    let error = loop {
        let ended = AtomicBool::new(false);
        let outcome = rt.run(|cx| {
            let (late, is_late) = mpsc::channel::<()>();
            let token = cx.token();
            cx.timeout(deadline, || {
                let node = cx.token();
                let _told = node.on_cancel(move |_| drop(late)); // after the deadline, for sure
                let ended = &ended;
                blocking(move || {
                    let _ = is_late.recv();
                    ended.store(true, Ordering::Release);
                })
            })
            .inspect_err(|_| assert!(!token.is_cancelled()))
        });
        if ended.load(Ordering::Acquire) || deadline > Duration::from_secs(8) {
            assert!(ended.load(Ordering::Acquire));
            break outcome.unwrap_err();
        }
        deadline *= 2; // as above
    };
    assert!(error.is_timed_out());
    assert!(error.to_string().contains("was waited for because it may borrow"), "{error}");
}

/// The largest queue that can be asked for takes no memory for calls that are not there.
#[test]
fn the_queue_grows_on_demand() {
    for queue in [1 << 10, 1 << 20] {
        let rt = one_worker(1, queue);
        let sum = rt.run(|cx| {
            cx.nursery(|n| {
                let calls: Result<Vec<_>> =
                    (0..100).map(|i| n.spawn(move |_| blocking(move || i))).collect();
                calls?.into_iter().map(|call| call.join()).sum::<Result<i32>>()
            })
        });
        assert_eq!(sum.unwrap(), 4950);
    }
}

/// Cancelled in the queue, or while it waits for room: the call is not made.
#[test]
fn a_call_that_was_cancelled_in_the_queue_is_not_made() {
    for queue in [0, 1, 8] {
        let rt = one_worker(1, queue);
        let (begun, let_go) = (AtomicBool::new(false), AtomicBool::new(false));
        let made = AtomicUsize::new(0);
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                let first = n.spawn(|_| {
                    blocking(|| {
                        begun.store(true, Ordering::Release);
                        while !let_go.load(Ordering::Acquire) {
                            thread::yield_now();
                        }
                    })
                })?;
                while !begun.load(Ordering::Acquire) {
                    cx.yield_now()?;
                }
                let second = n.spawn(|_| blocking(|| made.fetch_add(1, Ordering::Relaxed)))?;
                for _ in 0..10 {
                    cx.yield_now()?;
                }
                second.cancel();
                assert!(second.join().unwrap_err().is_cancelled());
                let_go.store(true, Ordering::Release);
                first.join()?;
                while cx
                    .frame()
                    .settings()
                    .shared
                    .part::<BlockingPool>()
                    .unwrap()
                    .inner
                    .room
                    .available()
                    != 1 + queue
                {
                    cx.yield_now()?; // comes back after the result
                }
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(made.into_inner(), 0);
    }
}

#[test]
fn a_call_that_owns_everything_is_left_behind() {
    let rt = one_worker(2, 1);
    let (sender, receiver) = mpsc::channel::<()>();
    let dropped = Arc::new(());
    let theirs = Arc::clone(&dropped);
    let (begun, begins) = mpsc::channel::<()>();
    let outcome = rt.run(|cx| {
        cx.nursery(|n| {
            let token = n.token();
            std::thread::spawn(move || {
                let _ = begins.recv();
                token.cancel();
            });
            blocking_static(move || {
                let _ = begun.send(());
                let _ = receiver.recv();
                theirs
            })
        })
    });
    let error = outcome.unwrap_err();
    assert!(error.is_cancelled());
    assert_eq!(Arc::strong_count(&dropped), 2);
    drop(sender);
    drop(rt); // waits for it
    assert_eq!(Arc::strong_count(&dropped), 1);
}
