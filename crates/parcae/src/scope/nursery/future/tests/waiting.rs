//! Waits inside a poll, the end of the nursery, and what observers see.

use super::*;
use crate::channel::channel;
use std::cell::RefCell;
use std::rc::Rc;

/// A call that waits parks the task with a stack. The wake of another future of the same task is
/// not lost meanwhile.
#[test]
fn a_poll_may_wait_like_any_task() {
    on_seeds(100, |rt| {
        let ((tx, rx), (go, gone)) = (channel::<u32>(1), channel::<u32>(1));
        let mailbox = Mailbox::default();
        let sum = rt.run(|cx| {
            cx.nursery(|n| {
                let mailbox = &mailbox;
                let child = n.spawn_future(async move {
                    let waits = async {
                        countdown(1).await?;
                        Ok::<_, crate::Error>(rx.recv()?) // blocks the task, not the worker
                    };
                    let (number, waited) = both(mailbox.receive(), waits).await;
                    Ok(number + waited?)
                })?;
                n.spawn(move |cx| {
                    cx.yield_now()?;
                    mailbox.send(40); // perhaps while it waits in `recv`
                    Ok(go.send(1)?)
                })?;
                n.spawn(move |_| {
                    gone.recv()?;
                    Ok(tx.send(2)?)
                })?;
                child.join()
            })
        })?;
        assert_eq!(sum, 42);
        Ok(())
    });
}

#[test]
fn a_poll_may_sleep_lock_and_open_a_nursery() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let lock = crate::sync::Mutex::new(0);
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..50 {
                n.spawn_future(async {
                    let mut held = lock.lock()?;
                    crate::time::sleep(std::time::Duration::from_micros(50))?;
                    *held += 1;
                    drop(held);
                    countdown(1).await?;
                    *lock.lock()? += 1;
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(lock.into_inner(), 100);
}

crate::task_local! {
    static NOTES: RefCell<Vec<Rc<u32>>> = RefCell::default();
}

/// Local values need not be `Send`: a task with one does not move.
#[test]
fn a_task_with_local_values_stays_on_its_worker() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (tx, rx) = channel(8);
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..16 {
                let rx = rx.clone();
                n.spawn_future(async move {
                    NOTES.with(|notes| notes.borrow_mut().push(Rc::new(0)));
                    let home = std::thread::current().id();
                    let mut count = 1;
                    while let Ok(value) = rx.recv_async().await {
                        assert_eq!(std::thread::current().id(), home);
                        NOTES.with(|notes| notes.borrow_mut().push(Rc::new(value)));
                        count += 1;
                    }
                    assert_eq!(NOTES.with(|notes| notes.borrow().len()), count);
                    Ok(())
                })?;
            }
            drop(rx);
            (0..2_000).try_for_each(|i| tx.send(i))?;
            drop(tx);
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn the_nursery_waits_for_parked_futures() {
    on_seeds(30, |rt| {
        let (ended, mailbox) = (AtomicUsize::new(0), Mailbox::default());
        rt.run(|cx| {
            cx.nursery(|outer| {
                let (ended, mailbox) = (&ended, &mailbox);
                outer.spawn(move |cx| {
                    cx.nursery(|n| {
                        n.spawn_future(async move {
                            mailbox.receive().await;
                            ended.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        })?;
                        Ok(())
                    })?;
                    assert_eq!(ended.load(Ordering::SeqCst), 1);
                    Ok(())
                })?;
                cx.yield_now()?;
                mailbox.send(1);
                Ok(())
            })
        })
    });
}

#[test]
fn dumps_show_what_waits() {
    let rt = Runtime::builder().workers(2).deterministic(5).build().unwrap();
    let text = rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("lane"), |n| {
            let pending = std::future::pending::<crate::Result<()>>;
            n.spawn_future_with(SpawnOpts::new().name("connection 7"), pending())?;
            n.spawn_future(pending())?;
            (0..5).try_for_each(|_| cx.yield_now())?;
            let text = rt.dump().to_string();
            n.wind_down();
            Ok(text)
        })
    });
    let text = text.unwrap();
    assert!(text.contains("connection 7") && text.contains("for a future"), "{text}");
    assert!(text.contains("waiting.rs"), "{text}");
}

/// Under the deterministic executor a future that no task can wake is a deadlock.
#[test]
fn a_future_that_waits_for_ever_is_told_so() {
    for seed in 0..20 {
        let dropped = Dropped::default();
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        let error = rt.run(|cx| {
            cx.nursery(|n| {
                let guard = dropped.guard();
                n.spawn_future_with(SpawnOpts::new().name("stuck"), async move {
                    let _guard = guard;
                    std::future::pending::<crate::Result<()>>().await
                })?
                .join()
            })
        });
        let error = error.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Deadlock(_)), "{error}");
        assert!(error.to_string().contains("stuck"), "{error}");
        assert_eq!(dropped.count(), 1);
    }
}
