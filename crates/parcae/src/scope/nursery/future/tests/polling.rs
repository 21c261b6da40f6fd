//! Polls, wakes and ends.

use super::*;
use crate::channel::channel;

#[test]
fn results_come_by_join_and_await() {
    on_seeds(50, |rt| {
        let got = rt.run(|cx| {
            cx.nursery(|n| {
                let a = n.spawn_future(async { Ok(20) })?;
                let b = n.spawn_future_with(SpawnOpts::new().name("b"), async { Ok(22) })?;
                let sum = n.spawn_future(async move { Ok(a.await? + b.await?) })?;
                sum.join()
            })
        })?;
        assert_eq!(got, 42);
        Ok(())
    });
}

#[test]
fn an_error_is_a_failure_of_the_nursery() {
    on_seeds(30, |rt| {
        let error = rt.run(|cx| {
            cx.nursery(|n| {
                // Cancelled by the other.
                n.spawn_future(std::future::pending::<crate::Result<()>>())?;
                n.spawn_future(async {
                    countdown(3).await?;
                    Err::<(), _>(crate::Error::msg("no"))
                })?;
                Ok(())
            })
        });
        assert!(error.unwrap_err().to_string().starts_with("no"));
        let kept = rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                let bad = n.spawn_future(async { Err::<(), _>(crate::Error::msg("no")) })?;
                let good = n.spawn_future(countdown(2))?;
                assert!(bad.join().is_err());
                good.join()
            })
        });
        assert_eq!(kept?, "done");
        Ok(())
    });
}

#[test]
fn a_wake_during_a_poll_causes_another_one() {
    on_seeds(30, |rt| {
        assert_eq!(rt.run(|cx| cx.nursery(|n| n.spawn_future(countdown(20))?.join()))?, "done");
        Ok(())
    });
    let rt = Runtime::builder().workers(2).build().unwrap();
    let done = rt.run(|cx| cx.nursery(|n| n.spawn_future(countdown(2_000))?.join()));
    assert_eq!(done.unwrap(), "done");
}

#[test]
fn a_future_that_wakes_itself_lets_others_run() {
    for seed in 0..20 {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn_future(countdown(u32::MAX))?;
                cx.yield_now()?;
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
    }
}

#[test]
fn an_early_wake_of_the_task_is_no_poll() {
    let polls = AtomicUsize::new(0);
    let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
    let outcome = rt.run(|cx| {
        cx.nursery(|n| {
            let child = n.spawn_future(poll_fn(|_| -> Poll<crate::Result<()>> {
                polls.fetch_add(1, Ordering::Relaxed);
                Poll::Pending
            }))?;
            for _ in 0..10 {
                cx.yield_now()?;
                child.wake_early();
            }
            cx.yield_now()?;
            n.cancel();
            Ok(())
        })
    });
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!(polls.into_inner(), 1);
}

#[test]
fn wakers_outlive_task_nursery_and_runtime() {
    for seed in 0..20 {
        let kept = StdMutex::new(Vec::new());
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        rt.run(|cx| {
            cx.nursery(|n| {
                for rounds in 0..4 {
                    let (mut left, kept) = (rounds, &kept);
                    n.spawn_future(poll_fn(move |context| {
                        kept.lock().unwrap().push(context.waker().clone());
                        if left == 0 {
                            return Poll::Ready(Ok(()));
                        }
                        left -= 1;
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }))?;
                }
                Ok(())
            })?;
            // The records have new tasks now: stale wakes must not disturb them.
            for waker in kept.lock().unwrap().iter() {
                waker.wake_by_ref();
            }
            cx.nursery(|n| n.spawn_future(countdown(3))?.join())
        })
        .unwrap();
        drop(rt);
        let kept = kept.into_inner().unwrap();
        std::thread::scope(|scope| {
            for waker in kept {
                scope.spawn(move || waker.wake()); // and dropped elsewhere
            }
        });
    }
}

#[test]
fn a_panic_in_a_poll_or_a_destructor_fails_the_child() {
    struct Bomb(Dropped);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.0.fetch_add(1, Ordering::SeqCst);
            panic!("dropped");
        }
    }
    on_seeds(20, |rt| {
        let dropped = Dropped::default();
        let outcome = rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                let guard = dropped.guard();
                let polled = n.spawn_future(async move {
                    let _guard = guard;
                    countdown(1).await?;
                    panic!("polled");
                    #[allow(unreachable_code)]
                    Ok(())
                })?;
                let error = polled.join().unwrap_err();
                assert!(error.is_panic() && error.to_string().contains("polled"), "{error}");
                // A destructor that panics when the future is done, or dropped while it waits.
                let bomb = Bomb(dropped.clone());
                let done = n.spawn_future(poll_fn(move |_| {
                    let _bomb = &bomb;
                    Poll::Ready(Ok(()))
                }))?;
                assert!(done.join().unwrap_err().to_string().contains("dropped"));
                let bomb = Bomb(dropped.clone());
                let waits = n.spawn_future(async move {
                    let _bomb = bomb;
                    std::future::pending::<crate::Result<()>>().await
                })?;
                cx.yield_now()?;
                waits.cancel();
                waits.join().unwrap_err();
                Ok(())
            })
        });
        outcome?;
        assert_eq!(dropped.count(), 3);
        Ok(())
    });
}

#[test]
fn one_task_polls_several_futures() {
    on_seeds(50, |rt| {
        let got = rt.run(|cx| {
            cx.nursery(|n| {
                let ((tx, rx), (to, from)) = (channel::<u32>(0), channel::<u32>(1));
                let joined = n.spawn_future(async move {
                    let (a, b) = both(rx.recv_async(), from.recv_async()).await;
                    Ok(a? + b?)
                })?;
                n.spawn(move |_| Ok(to.send(2)?))?;
                n.spawn(move |_| Ok(tx.send(40)?))?;
                joined.join()
            })
        })?;
        assert_eq!(got, 42);
        Ok(())
    });
}

#[test]
fn futures_and_fibers_pass_messages_on_threads() {
    for workers in [1, 2, 4] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let (there, back) = (Mailbox::default(), Mailbox::default());
        let ((tx, rx), (reply, replies)) = (channel::<u32>(1), channel::<u32>(1));
        rt.run(|cx| {
            cx.nursery(|n| {
                let (there, back) = (&there, &back);
                n.spawn_future(async move {
                    for _ in 0..3_000 {
                        back.send(there.receive().await + 1);
                    }
                    Ok(())
                })?;
                n.spawn_future(async move {
                    for i in 0..3_000 {
                        there.send(i);
                        assert_eq!(back.receive().await, i + 1);
                    }
                    Ok(())
                })?;
                n.spawn_future(async move {
                    while let Ok(value) = rx.recv_async().await {
                        reply.send_async(value + 1).await?;
                    }
                    Ok(())
                })?;
                for i in 0..3_000 {
                    tx.send(i)?;
                    assert_eq!(replies.recv()?, i + 1);
                }
                drop(tx);
                Ok(())
            })
        })
        .unwrap();
    }
}

#[test]
fn woken_from_a_thread_while_it_is_polled() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (there, back) = (Mailbox::default(), Mailbox::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5_000 {
                back.send(crate::block_on(there.receive()).unwrap() + 1);
            }
        });
        let (there, back) = (&there, &back);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn_future(async move {
                    for i in 0..5_000 {
                        there.send(i);
                        assert_eq!(back.receive().await, i + 1);
                    }
                    Ok(())
                })?;
                Ok(())
            })
        })
        .unwrap();
    });
}

/// A parked future goes on where there is room.
#[test]
fn parked_futures_move_between_workers() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let seen = StdMutex::new(std::collections::HashSet::new());
    rt.run(|cx| {
        cx.nursery(|n| {
            let (tx, rx) = channel(64);
            for _ in 0..64 {
                let (rx, seen) = (rx.clone(), &seen);
                n.spawn_future(async move {
                    while rx.recv_async().await.is_ok() {
                        seen.lock().unwrap().insert(std::thread::current().id());
                        let began = std::time::Instant::now();
                        while began.elapsed() < std::time::Duration::from_micros(50) {}
                    }
                    Ok(())
                })?;
            }
            drop(rx);
            (0..20_000).try_for_each(|i| {
                let enough = seen.lock().unwrap().len() > 1;
                if enough { Ok(()) } else { Ok(tx.send(i)?) }
            })
        })
    })
    .unwrap();
    assert!(seen.into_inner().unwrap().len() > 1);
}

#[test]
fn same_seed_same_run() {
    let log = |seed| {
        let rt = Runtime::builder().workers(3).deterministic(seed).build().unwrap();
        rt.run(|cx| {
            cx.nursery(|n| {
                let (tx, rx) = channel(2);
                for i in 0..10 {
                    let (tx, rx) = (tx.clone(), rx.clone());
                    n.spawn_future(async move {
                        countdown(i % 4).await?;
                        Ok(tx.send_async(i).await?)
                    })?;
                    n.spawn_future(async move { Ok(rx.recv_async().await?) })?;
                }
                Ok(())
            })
        })
        .unwrap();
        rt.event_log()
    };
    let logs: Vec<_> = (0..20).map(log).collect();
    assert_eq!(logs, (0..20).map(log).collect::<Vec<_>>());
    assert!(logs.windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn the_lab_runs_futures() {
    crate::check(|rt: &Runtime| {
        let total = crate::sync::atomic::AtomicU64::new(0);
        rt.run(|cx| {
            cx.nursery(|n| {
                let (tx, rx) = channel(1);
                let total = &total;
                n.spawn_future(async move {
                    while let Ok(value) = rx.recv_async().await {
                        total.fetch_add(value, Ordering::SeqCst);
                    }
                    Ok(())
                })?;
                for value in 1..=3 {
                    let tx = tx.clone();
                    n.spawn_future(async move { Ok(tx.send_async(value).await?) })?;
                }
                drop(tx);
                Ok(())
            })
        })?;
        assert_eq!(total.load(Ordering::SeqCst), 6);
        Ok(())
    });
}
