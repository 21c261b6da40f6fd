//! Cancelling a future: before it starts, while it waits, while it is polled.

use super::*;
use crate::channel::channel;

#[test]
fn a_parked_future_is_dropped_where_it_waits() {
    on_seeds(50, |rt| {
        let (dropped, polls) = (Dropped::default(), AtomicUsize::new(0));
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..3 {
                    let (guard, polls) = (dropped.guard(), &polls);
                    n.spawn_future(async move {
                        let _guard = guard;
                        poll_fn(|_| -> Poll<crate::Result<()>> {
                            polls.fetch_add(1, Ordering::SeqCst);
                            Poll::Pending
                        })
                        .await
                    })?;
                }
                while polls.load(Ordering::SeqCst) < 3 {
                    cx.yield_now()?;
                }
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!((dropped.count(), polls.into_inner()), (3, 3));
        Ok(())
    });
}

#[test]
fn a_future_that_has_not_started_is_not_polled() {
    let (dropped, polls) = (Dropped::default(), AtomicUsize::new(0));
    let rt = Runtime::builder().workers(1).deterministic(3).build().unwrap();
    let outcome = rt.run(|cx| {
        cx.nursery(|n| {
            let (guard, polls) = (dropped.guard(), &polls);
            n.spawn_future(async move {
                let _guard = guard;
                polls.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })?;
            n.cancel();
            Ok(())
        })
    });
    assert!(outcome.unwrap_err().is_cancelled());
    assert_eq!((dropped.count(), polls.into_inner()), (1, 0));
}

/// In a running poll, operations of the library say that the task is cancelled. A future that goes
/// on to wait is dropped at the end of the poll.
#[test]
fn a_running_poll_gets_the_error_from_operations() {
    on_seeds(30, |rt| {
        let (told, dropped) = (AtomicUsize::new(0), Dropped::default());
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                let token = n.token();
                let (_tx, rx) = channel::<u32>(1);
                let (told, guard) = (&told, dropped.guard());
                n.spawn_future::<(), _>(async move {
                    let _guard = guard;
                    token.cancel();
                    let error = rx.recv_async().await.unwrap_err();
                    assert!(crate::Error::from(error).is_cancelled());
                    told.fetch_add(1, Ordering::SeqCst);
                    std::future::pending::<()>().await; // of another library
                    unreachable!("polled after its cancellation")
                })?
                .join()
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!((told.into_inner(), dropped.count()), (1, 1));
        Ok(())
    });
}

#[test]
fn a_handle_cancels_one_future() {
    on_seeds(30, |rt| {
        let dropped = Dropped::default();
        rt.run(|cx| {
            cx.nursery(|n| {
                let guard = dropped.guard();
                let child = n.spawn_future(async move {
                    let _guard = guard;
                    std::future::pending::<crate::Result<()>>().await
                })?;
                let other = n.spawn_future(countdown(5))?;
                cx.yield_now()?;
                child.cancel();
                assert!(child.join().unwrap_err().is_cancelled());
                other.join().map(drop)
            })
        })?;
        assert_eq!(dropped.count(), 1);
        Ok(())
    });
}

#[test]
fn a_deadline_ends_a_future() {
    let rt = Runtime::builder().workers(1).deterministic(0).build().unwrap();
    let error = rt.run(|cx| {
        let opts = NurseryOpts::new().timeout(std::time::Duration::from_secs(5));
        cx.nursery_with(opts, |n| {
            n.spawn_future(std::future::pending::<crate::Result<()>>())?.join()
        })
    });
    assert!(error.unwrap_err().is_cancelled());
}

/// Cancels against wakes, on threads: every future ends, and is dropped once.
#[test]
fn cancel_against_wakes_on_threads() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..200 {
        let dropped = Dropped::default();
        let boxes: Vec<Mailbox> = (0..16).map(|_| Mailbox::default()).collect();
        std::thread::scope(|scope| {
            let boxes = &boxes;
            let outcome = rt.run(|cx| {
                cx.nursery(|n| {
                    for mailbox in boxes {
                        let guard = dropped.guard();
                        n.spawn_future(async move {
                            let _guard = guard;
                            loop {
                                mailbox.receive().await;
                            }
                            #[allow(unreachable_code)]
                            Ok(())
                        })?;
                    }
                    cx.yield_now()?;
                    scope.spawn(|| boxes.iter().for_each(|mailbox| mailbox.send(1)));
                    n.cancel();
                    Ok(())
                })
            });
            assert!(outcome.unwrap_err().is_cancelled());
        });
        assert_eq!(dropped.count(), 16);
    }
}

/// A destructor runs on the task: it may use the library, whose waits end at once.
#[test]
fn destructors_run_on_the_task() {
    struct Last(crate::channel::Sender<u32>, Dropped);
    impl Drop for Last {
        fn drop(&mut self) {
            assert!(crate::scope::cx::Here::new().frame().is_some());
            assert!(self.0.send(1).is_err(), "cancelled");
            self.1.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    on_seeds(20, |rt| {
        let dropped = Dropped::default();
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                let (tx, _rx) = channel(0);
                let last = Last(tx, dropped.clone());
                n.spawn_future(async move {
                    let _last = last;
                    std::future::pending::<crate::Result<()>>().await
                })?;
                cx.yield_now()?;
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(dropped.count(), 1);
        Ok(())
    });
}
