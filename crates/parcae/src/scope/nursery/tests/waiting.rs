//! Waiting for the end of a child in all ways, by all kinds of waiters.

use super::*;
use crate::scope::join::Joinable as _;
use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Lets others run, a number of times.
fn pause(cx: &Cx, turns: u64) -> Result<()> {
    (0..turns).try_for_each(|_| cx.yield_now())
}

#[test]
fn a_timeout_gives_the_handle_back() {
    deterministic(|cx| {
        cx.nursery(|n| {
            let slow = n.spawn(|cx| cx.sleep(Duration::from_secs(60)).map(|()| 7))?;
            let slow = slow.join_timeout(Duration::from_secs(59)).expect_err("a second early");
            assert!(!slow.is_finished());
            assert_eq!(slow.join_timeout(LONG).expect("in time")?, 7);
            let slow = n.spawn(|cx| cx.sleep(Duration::from_secs(60)).map(|()| 8))?;
            let slow = slow.join_timeout(Duration::ZERO).expect_err("at once");
            assert_eq!(slow.join()?, 8, "by the way of the handle that was waited for");
            Ok(())
        })
    });
    threads(|cx| {
        cx.nursery(|n| {
            let waits = n.spawn(asleep)?;
            let waits = waits.join_timeout(Duration::from_micros(200)).expect_err("for ever");
            waits.cancel();
            assert!(waits.join_timeout(LONG).expect("cancelled").unwrap_err().is_cancelled());
            Ok(())
        })
    });
}

#[test]
fn a_wait_with_a_timeout_is_a_cancel_point_and_the_failure_of_the_child_comes_first() {
    everywhere(|cx| {
        let outcome = cx.nursery(|n| {
            let waits = n.spawn(asleep)?;
            let waiter = n.spawn(move |_| match waits.join_timeout(LONG) {
                Ok(result) => result,
                Err(_) => panic!("an hour has passed"),
            })?;
            pause(cx, 3)?;
            waiter.cancel();
            assert!(waiter.join().unwrap_err().is_cancelled());
            n.wind_down();
            Ok(())
        });
        outcome?;
        let failed = cx.nursery(|n| {
            let fails = n.spawn(|cx| {
                pause(cx, 3)?;
                Err::<(), _>(oops())
            })?;
            match fails.join_timeout(LONG) {
                Ok(result) => result,
                Err(_) => panic!("an hour has passed"),
            }
        });
        assert!(failed.unwrap_err().to_string().starts_with("oops"));
        Ok(())
    });
}

#[test]
fn threads_and_tasks_of_other_runtimes_join() {
    let (rt, other) = (
        Runtime::builder().workers(2).build().unwrap(),
        Runtime::builder().workers(1).build().unwrap(),
    );
    for round in 0..50 {
        rt.run(|cx| {
            cx.nursery(|n| {
                let mut children = Vec::new();
                for i in 0..3 {
                    children.push(n.spawn(move |cx| pause(cx, round % 7).map(|()| i))?);
                }
                let [c, b, a] = [(); 3].map(|()| children.pop().unwrap());
                std::thread::scope(|s| {
                    let thread = s.spawn(|| a.join());
                    let task = s.spawn(|| other.run(|_| b.join()));
                    let future = s.spawn(|| crate::block_on(c.into_future()));
                    assert_eq!(thread.join().unwrap()?, 0);
                    assert_eq!(task.join().unwrap()?, 1);
                    assert_eq!(future.join().unwrap()??, 2);
                    Ok(())
                })
            })
        })
        .unwrap();
    }
}

#[test]
fn a_cancelled_task_of_another_runtime_stops_waiting() {
    let (rt, other) =
        (Runtime::builder().build().unwrap(), Runtime::builder().workers(1).build().unwrap());
    rt.run(|cx| {
        cx.nursery(|n| {
            let waits = n.spawn(asleep)?;
            std::thread::scope(|s| {
                let waiter = s.spawn(|| {
                    other.run(|cx| {
                        cx.nursery(|n| {
                            n.cancel();
                            waits.join()
                        })
                    })
                });
                assert!(waiter.join().unwrap().unwrap_err().is_cancelled());
            });
            n.wind_down();
            Ok(())
        })
    })
    .unwrap();
}

// rule: S4-ORD-3
#[test]
fn many_wait_for_one_child() {
    everywhere(|cx| {
        let told = AtomicUsize::new(0);
        cx.nursery(|n| {
            let child = Arc::new(n.spawn(|cx| pause(cx, 5).map(|()| 9))?);
            for i in 0..6 {
                let (child, told) = (Arc::clone(&child), &told);
                n.spawn(move |cx| {
                    pause(cx, i)?;
                    crate::select! { ended(*child) => told.fetch_add(1, Ordering::SeqCst) }?;
                    assert!(child.is_finished());
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert_eq!(told.into_inner(), 6);
        Ok(())
    });
}

/// Polls a future by hand, as an executor does that is not ours.
fn poll_once<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn a_future_of_a_child_wakes_the_last_waker_only() {
    everywhere(|cx| {
        let counts = [(); 3].map(|()| Arc::<Count>::default());
        let wakers = counts.clone().map(Waker::from);
        cx.nursery(|n| {
            let (go, gone) = crate::sync::channel::oneshot::<()>();
            let child = n.spawn(move |_| Ok(gone.recv()?))?;
            let mut future = pin!(child.into_future());
            for waker in &wakers {
                assert!(poll_once(future.as_mut(), waker).is_pending());
            }
            go.send(())?;
            while counts[2].0.load(Ordering::SeqCst) == 0 {
                cx.yield_now()?;
            }
            assert!(matches!(poll_once(future.as_mut(), &wakers[0]), Poll::Ready(Ok(()))));
            Ok(())
        })?;
        assert_eq!(counts.each_ref().map(|count| count.0.load(Ordering::SeqCst)), [0, 0, 1]);
        assert_eq!(counts.each_ref().map(Arc::strong_count), [2, 2, 2], "no waker is kept");
        Ok(())
    });
}

#[test]
fn a_future_that_is_dropped_lets_the_child_run_on() {
    everywhere(|cx| {
        let (count, ran) = (Arc::<Count>::default(), AtomicUsize::new(0));
        cx.nursery(|n| {
            let (go, gone) = crate::sync::channel::oneshot();
            let ran = &ran;
            let child = n.spawn(move |_| {
                gone.recv()?;
                ran.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })?;
            let waker = Waker::from(Arc::clone(&count));
            let mut future = Box::pin(child.into_future());
            assert!(poll_once(future.as_mut(), &waker).is_pending());
            drop(future);
            Ok(go.send(())?)
        })?;
        assert_eq!((ran.into_inner(), count.0.load(Ordering::SeqCst)), (1, 0));
        assert_eq!(Arc::strong_count(&count), 1, "its waker is gone");
        Ok(())
    });
}

/// A foreign executor whose waker panics costs the runtime nothing.
#[test]
fn a_waker_that_panics_harms_nobody() {
    struct Fails;
    impl Wake for Fails {
        fn wake(self: Arc<Fails>) {
            std::panic::resume_unwind(Box::new("a waker"));
        }
    }
    impl Drop for Fails {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("a waker that goes"));
            }
        }
    }
    everywhere(|cx| {
        let value = cx.nursery(|n| {
            let (go, gone) = crate::sync::channel::oneshot();
            let child = n.spawn(move |_| Ok(gone.recv()?))?;
            let mut future = pin!(child.into_future());
            {
                // The only one: dropped when it has been woken.
                let waker = std::mem::ManuallyDrop::new(Waker::from(Arc::new(Fails)));
                assert!(poll_once(future.as_mut(), &waker).is_pending());
            }
            go.send(5)?;
            pause(cx, 20)?;
            let count = Waker::from(Arc::<Count>::default());
            loop {
                match poll_once(future.as_mut(), &count) {
                    Poll::Ready(value) => return value,
                    Poll::Pending => cx.yield_now()?,
                }
            }
        })?;
        assert_eq!(value, 5);
        let workers = cx.frame().settings().shared.worker_stats();
        assert!(workers.iter().all(|worker| worker.restarts == 0), "it got into the worker's loop");
        Ok(())
    });
}

#[test]
fn the_end_goes_with_its_handle() {
    everywhere(|cx| {
        let ends = cx.nursery(|n| {
            let (running, ended, joined) =
                (n.spawn(|cx| pause(cx, 8))?, n.spawn(|_| Ok(()))?, n.spawn(|cx| pause(cx, 2))?);
            let late = n.spawn(|_| Ok(()))?;
            let mut ends = vec![running.weak_end(), ended.weak_end(), joined.weak_end()];
            drop(running);
            while !(ended.is_finished() && late.is_finished()) {
                cx.yield_now()?;
            }
            drop(ended);
            ends.push(late.weak_end()); // made after the end
            late.join()?;
            joined.join()?;
            Ok(ends)
        })?;
        // The notifying worker may still hold it.
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_secs(60) {
            if ends.iter().all(|end| end.strong_count() == 0) {
                return Ok(());
            }
            cx.yield_now()?;
        }
        panic!("an end is left");
    });
}

/// A wait that is cancelled at any point leaves no place behind, and the child to others.
#[test]
fn a_cancelled_wait_leaves_the_child_to_others() {
    deterministic(|cx| {
        for turns in 0..20 {
            cx.nursery(|n| {
                let child = Arc::new(n.spawn(|cx| pause(cx, 10).map(|()| 4))?);
                let victims = [0, 1, 2].map(|way| {
                    let child = Arc::clone(&child);
                    n.spawn(move |_| match way {
                        0 => crate::select! { ended(*child) => () },
                        1 => crate::select! { ended(*child) => (), timeout(LONG) => () },
                        _ => child.wait_until(crate::scope::cx::parking::Deadline::Never).map(drop),
                    })
                });
                pause(cx, turns)?;
                for victim in victims {
                    let victim = victim?;
                    victim.cancel();
                    if let Err(error) = victim.join() {
                        assert!(error.is_cancelled());
                    }
                }
                let child = Arc::into_inner(child).expect("the others have ended");
                let end = child.weak_end();
                assert_eq!(end.upgrade().map_or(0, |end| end.waiting()), 0);
                assert_eq!(child.join()?, 4);
                Ok(())
            })?;
        }
        Ok(())
    });
}

/// More children than a worker's own queue holds, joined in the order in which they were spawned.
#[test]
fn many_children_are_joined_in_order() {
    const CHILDREN: usize = 20_000;
    for workers in [1, 2] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        rt.run(|cx| {
            cx.nursery(|n| {
                let spawned = (0..CHILDREN).map(|i| n.spawn(move |_| Ok(i)));
                let spawned = spawned.collect::<Result<Vec<_>>>()?;
                for (i, child) in spawned.into_iter().enumerate() {
                    assert_eq!(child.join()?, i);
                }
                Ok(())
            })
        })
        .unwrap();
    }
}

/// A joiner that is told later is told before a sibling can keep the worker.
#[test]
fn a_sibling_that_runs_on_does_not_keep_a_joiner_waiting() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    for round in 0..200 {
        let joined = AtomicUsize::new(0);
        let joined = &joined;
        rt.run(|cx| {
            cx.nursery(|n| {
                let waits = |cx: &Cx| {
                    while joined.load(Ordering::Relaxed) == 0 {
                        if round % 2 == 0 { cx.checkpoint()? } else { cx.yield_now()? }
                    }
                    Ok(())
                };
                // The last one that was spawned runs first.
                let others = [n.spawn(waits)?, n.spawn(waits)?];
                n.spawn(|_| Ok(()))?.join()?;
                joined.store(1, Ordering::Relaxed);
                others.into_iter().try_for_each(TaskHandle::join)
            })
        })
        .unwrap();
    }
}
