//! Deadlocks: those that are proven, those that are possible, and waits that only look like one.

use super::*;

#[test]
fn two_locks_in_the_wrong_order_are_a_deadlock() {
    seeds(|rt| {
        let outcome = rt.run(|cx| {
            let (a, b) = (Mutex::new(()), Mutex::new(()));
            cx.nursery(|n| {
                let (a, b) = (&a, &b);
                for (name, first, second) in [("ab", a, b), ("ba", b, a)] {
                    n.spawn_with(SpawnOpts::new().name(name), move |cx| {
                        let _first = first.lock()?;
                        cx.sleep(Duration::from_secs(1))?;
                        let _second = second.lock()?;
                        Ok(())
                    })?;
                }
                Ok(())
            })
        });
        let found = deadlock(outcome);
        assert!(found.all);
        let text = found.to_string();
        assert!(text.contains("waits for task") && text.contains("`ba`"), "{text}");
        let mutex =
            |task: &&TaskSnapshot| task.wait.as_ref().is_some_and(|wait| wait.what == "mutex");
        assert_eq!(found.tasks.iter().filter(mutex).count(), 2);
    });
}

#[test]
fn part_of_a_program_deadlocks_while_the_rest_goes_on() {
    let rt = Runtime::builder().workers(2).on_deadlock(OnDeadlock::Ignore).build().unwrap();
    let go_on = Arc::new(AtomicBool::new(true));
    let busy = Arc::clone(&go_on);
    let busy = rt.handle().spawn(move |cx| {
        while busy.load(Ordering::Relaxed) {
            cx.yield_now()?;
        }
        Ok(())
    });
    // Locked twice; a circle of channels within a family; a lock whose holder waits for who wants
    // it.
    let twice = rt.handle().spawn(|_| {
        let lock = Mutex::new(());
        let _guard = lock.lock()?;
        let _again = lock.lock()?;
        Ok(())
    });
    let circle = rt.handle().spawn(|cx| {
        let ((a_tx, a_rx), (b_tx, b_rx)) = (channel::<u32>(0), channel::<u32>(0));
        cx.nursery(|n| {
            n.spawn(move |_| Ok(b_tx.send(a_rx.recv()?)?))?;
            n.spawn(move |_| Ok(a_tx.send(b_rx.recv()?)?))?;
            Ok(())
        })
    });
    let holder = rt.handle().spawn(|cx| {
        let lock = RwLock::new(());
        cx.nursery(|n| {
            let lock = &lock;
            let guard = lock.write()?;
            let wants = n.spawn(move |_| discard(lock.read()))?;
            wants.join()?;
            drop(guard);
            Ok(())
        })
    });
    dump_when(&rt, |dump| is_waiting(dump, 6));
    let found = rt.find_deadlock().expect("three of them");
    assert_eq!((found.tasks.len(), found.all), (6, false), "{found}");
    assert_eq!(found.certainty, Certainty::Possible);
    assert!(found.to_string().starts_with("possible deadlock: these tasks wait"), "{found}");
    assert!(found.to_string().contains("waits for itself: task"), "{found}");
    go_on.store(false, Ordering::Relaxed);
    busy.unwrap().join().unwrap();
    for task in [twice, circle, holder] {
        task.unwrap().cancel();
    }
}

#[test]
fn what_may_still_end_is_no_deadlock() {
    let rt = Runtime::builder().workers(2).on_deadlock(OnDeadlock::Ignore).build().unwrap();
    let notify = Arc::new(Notify::new());
    let release = Arc::clone(&notify);
    // Receives from a sibling that may yet send; waits for a lock whose holder sleeps; with a
    // timeout; by declaration.
    let family = rt.handle().spawn(move |cx| {
        let (tx, rx) = channel::<u32>(0);
        cx.nursery(|n| {
            n.spawn(move |_| Ok(rx.recv()?))?;
            n.spawn(move |_| {
                release.wait()?;
                Ok(tx.send(1)?)
            })?;
            Ok(())
        })
    });
    let lock = rt.handle().spawn(|cx| {
        let lock = Mutex::new(());
        cx.nursery(|n| {
            let lock = &lock;
            n.spawn(move |cx| {
                let _guard = lock.lock()?;
                cx.sleep(Duration::from_secs(600))
            })?;
            n.spawn(move |cx| {
                while lock.try_lock().is_some() {
                    cx.yield_now()?; // until the other has it
                }
                discard(lock.lock())
            })?;
            Ok(())
        })
    });
    let patient = rt.handle().spawn(|cx| {
        let (_tx, rx) = channel::<u32>(0);
        let _ = rx.recv_timeout(Duration::from_secs(600));
        cx.checkpoint()
    });
    let declared = rt.handle().spawn(|cx| {
        let (_tx, rx) = channel::<u32>(0);
        discard(cx.external(|| rx.recv()))
    });
    dump_when(&rt, |dump| is_waiting(dump, 8));
    if let Some(found) = rt.find_deadlock() {
        panic!("{found}");
    }
    notify.notify_one();
    family.unwrap().join().unwrap();
    lock.unwrap().cancel();
    patient.unwrap().cancel();
    declared.unwrap().cancel();
}

#[test]
fn channels_of_other_threads_are_not_suspected() {
    let rt = Runtime::builder().workers(1).on_deadlock(OnDeadlock::Ignore).build().unwrap();
    let (tx, rx) = unbounded::<u32>();
    let reads = rt.handle().spawn(move |_| Ok(rx.recv()?)).unwrap();
    dump_when(&rt, |dump| is_waiting(dump, 1));
    assert!(rt.find_deadlock().is_none());
    tx.send(1).unwrap();
    assert_eq!(reads.join().unwrap(), 1);
}

#[test]
fn all_asleep_is_told_at_once_and_only_then() {
    seeds(|rt| {
        // No task is left to return a permit.
        let outcome = rt.run(|_| discard(Semaphore::new(0).acquire()));
        assert!(deadlock(outcome).all);
        // Time passes: not all are asleep before it has.
        let outcome = rt.run(|cx| {
            let notify = Notify::new();
            cx.nursery(|n| {
                let notify = &notify;
                let woken = n.spawn(move |_| notify.wait())?;
                cx.sleep(Duration::from_secs(3))?;
                notify.notify_one();
                woken.join()
            })
        });
        outcome.unwrap();
        // A task that was ended releases what it holds: the runtime works as before.
        let told = AtomicBool::new(false);
        let outcome: crate::Result<()> = rt.run(|cx| {
            let (_tx, rx) = channel::<u32>(0);
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                let waits = n.spawn(move |_| Ok(rx.recv()?))?;
                let error = waits.join().unwrap_err();
                told.store(matches!(error.kind(), ErrorKind::Deadlock(_)), Ordering::Relaxed);
                Err(error)
            })
        });
        assert!(outcome.is_err() && told.into_inner());
        assert_eq!(rt.run(|_| Ok(7)).unwrap(), 7);
    });
}

/// Two tasks that join each other; the outcome of one of them.
fn join_each_other(rt: &Runtime) -> crate::Result<()> {
    let (to_a, a_gets) = channel::<crate::RootTask<()>>(1);
    let (to_b, b_gets) = channel::<crate::RootTask<()>>(1);
    let (both, outcome) = channel::<crate::Result<()>>(2);
    let [a, b] = [a_gets, b_gets].map(|gets| {
        let both = both.clone();
        rt.handle().spawn(move |_| {
            let joined = gets.recv()?.join();
            Ok(both.send(joined)?)
        })
    });
    to_a.send(b?)?;
    to_b.send(a?)?;
    outcome.recv()?
}

/// With threads the monitor finds what is certain: while others work, and when all wait.
#[test]
fn threads_fail_what_provably_waits_in_vain() {
    let rt = Runtime::builder().workers(2).on_deadlock(OnDeadlock::Fail).build().unwrap();
    let each_other = deadlock(join_each_other(&rt));
    assert_eq!((each_other.tasks.len(), each_other.certainty), (2, Certainty::Proven));
    let go_on = Arc::new(AtomicBool::new(true));
    let busy = Arc::clone(&go_on);
    let busy = rt.handle().spawn(move |cx| {
        while busy.load(Ordering::Relaxed) {
            cx.yield_now()?;
        }
        Ok(())
    });
    // A child that joins the root which waits for it.
    let (give, gets) = channel::<crate::RootTask<()>>(1);
    let root = rt.handle().spawn(move |cx| {
        cx.nursery(|n| {
            n.spawn(|_| gets.recv()?.join())?;
            Ok(())
        })
    });
    let token = {
        let root = root.unwrap();
        let token = root.token();
        give.send(root).unwrap();
        token
    };
    dump_when(&rt, |dump| dump.tasks.len() == 1); // both have ended, and were not cancelled
    assert!(!token.is_cancelled());
    go_on.store(false, Ordering::Relaxed);
    busy.unwrap().join().unwrap();
}

/// The monitor's verdict after two scans of tasks that do not move.
fn monitor_says(rt: &Runtime) -> Option<Deadlock> {
    rt.engine().with_shared(|shared| {
        let mut detector = Detector::default();
        assert!(detector.scan(shared, Trust::Proof).is_none(), "nothing is found by one look");
        detector.scan(shared, Trust::Proof)
    })
}

/// Whatever a thread may end later is no deadlock, although all tasks wait.
#[test]
fn what_a_thread_may_end_is_not_reported() {
    let rt = Runtime::builder().workers(2).on_deadlock(OnDeadlock::Fail).build().unwrap();
    let event = Arc::new(crate::sync::Event::new());
    let notify = Arc::new(Notify::new());
    let permits = Arc::new(Semaphore::new(0));
    let token = CancelToken::new();
    let lock: &'static Mutex<()> = Box::leak(Box::new(Mutex::new(())));
    let (ends, outside) = std::sync::mpsc::channel::<Box<dyn FnOnce() + Send>>();
    type Body = Box<dyn FnOnce(&Cx) -> crate::Result<()> + Send>;
    let spawn = |task: Body| rt.handle().spawn(move |cx| task(cx)).unwrap();
    let mut tasks = Vec::new();
    tasks.push(spawn(Box::new({
        let event = Arc::clone(&event);
        move |_| event.wait()
    })));
    tasks.push(spawn(Box::new({
        let notify = Arc::clone(&notify);
        move |_| notify.wait()
    })));
    tasks.push(spawn(Box::new({
        let permits = Arc::clone(&permits);
        move |_| discard(permits.acquire())
    })));
    tasks.push(spawn(Box::new({
        let token = token.clone();
        move |_| crate::select! { cancelled(&token) => () }
    })));
    // Made on a task; the other end goes to a thread.
    tasks.push(spawn(Box::new({
        let ends = ends.clone();
        move |_| {
            let (tx, rx) = channel::<u8>(0);
            ends.send(Box::new(move || tx.send(1).unwrap())).unwrap();
            discard(rx.recv())
        }
    })));
    tasks.push(spawn(Box::new({
        let ends = ends.clone();
        move |_| {
            let (tx, rx) = crate::sync::channel::oneshot::<u8>();
            ends.send(Box::new(move || tx.send(1).unwrap())).unwrap();
            discard(rx.recv())
        }
    })));
    // A guard that goes to a thread: the task that took the lock waits for a child that wants it.
    tasks.push(spawn(Box::new(move |cx| {
        let guard = lock.lock()?;
        ends.send(Box::new(move || drop(guard))).unwrap();
        cx.nursery(|n| n.spawn(|_| discard(lock.lock()))?.join())
    })));
    dump_when(&rt, |dump| is_waiting(dump, 8));
    if let Some(found) = monitor_says(&rt) {
        panic!("{found}");
    }
    let possible = rt.find_deadlock();
    assert!(possible.is_none_or(|found| found.certainty == Certainty::Possible));
    event.set();
    notify.notify_one();
    permits.add(1);
    token.cancel();
    outside.iter().take(3).for_each(|end| end());
    for task in tasks {
        task.join().unwrap();
    }
}

/// A guard that another task has: no wait is ended whose lock may still be released.
#[test]
fn a_guard_that_travels_is_no_deadlock() {
    for seed in 0..20 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        let (give, gets) = std::sync::mpsc::channel();
        let (give_back, back) = channel::<()>(0);
        let outside = std::thread::spawn(move || {
            gets.recv().unwrap();
            give_back.send(())
        });
        let outcome = rt.run(|cx| {
            let lock = Mutex::new(());
            cx.nursery(|n| {
                let lock = &lock;
                let guard = lock.lock()?; // taken here, and given to a child
                n.spawn(move |cx| {
                    give.send(()).unwrap();
                    cx.external(|| back.recv())?;
                    drop(guard);
                    Ok(())
                })?;
                n.spawn(move |_| discard(lock.lock()))?.join()
            })
        });
        outcome.unwrap();
        outside.join().unwrap().unwrap();
    }
}

/// Under the deterministic executor there is no outside, wherever it was made that is waited for; a
/// deadline that was taken back and a shield change nothing.
#[test]
fn all_asleep_is_a_deadlock_whatever_for() {
    static NOTIFY: Notify = Notify::new();
    seeds(|rt| {
        let (_tx, rx) = channel::<u32>(0);
        assert!(deadlock(rt.run(|_| discard(rx.recv()))).all);
        assert!(deadlock(rt.run(|_| NOTIFY.wait())).all);
        assert!(deadlock(rt.run(|_| crate::block_on(std::future::pending::<()>()))).all);
        assert!(deadlock(rt.run(|cx| cx.shield(|| discard(rx.recv())))).all);
        let taken_back = rt.run(|cx| {
            cx.nursery(|n| {
                let (token, expiry) = cx.token_with_timeout(Duration::from_secs(1));
                drop(expiry);
                n.spawn(move |cx| {
                    cx.nursery_with(NurseryOpts::new().token(&token), |_| NOTIFY.wait())
                })?;
                Ok(())
            })
        });
        assert!(deadlock(taken_back).all);
        let other = Runtime::builder().workers(1).build().unwrap();
        let (task_tx, task_rx) = channel::<()>(0);
        let elsewhere = other.handle().spawn(move |_| discard(task_rx.recv())).unwrap();
        assert!(deadlock(rt.run(move |_| elsewhere.join())).all);
        drop(task_tx);
    });
}

/// An external wait is exempt, and so are the tasks that wait for its task.
#[test]
fn an_external_wait_is_exempt() {
    for seed in 0..20 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        let (asleep, told) = std::sync::mpsc::channel();
        let (tx, rx) = channel::<u32>(0);
        let sender = std::thread::spawn(move || {
            told.recv().unwrap();
            tx.send(5)
        });
        let got = rt.run(|cx| {
            let (inner_tx, inner_rx) = channel::<u32>(0);
            cx.nursery(|n| {
                let waits = n.spawn(move |_| Ok(inner_rx.recv()?))?;
                n.spawn(move |cx| {
                    asleep.send(()).unwrap();
                    let got = cx.external(|| rx.recv())?;
                    Ok(inner_tx.send(got)?)
                })?;
                waits.join()
            })
        });
        assert_eq!(got.unwrap(), 5);
        sender.join().unwrap().unwrap();
    }
}

/// A shield keeps a task from being told while there is another that can be.
#[test]
fn a_shielded_wait_is_ended_last() {
    static NEVER: Notify = Notify::new();
    seeds(|rt| {
        let closed = AtomicBool::new(false);
        let outcome = rt.run(|cx| {
            let (tx, rx) = channel::<u32>(0);
            let closed = &closed;
            cx.nursery(|n| {
                n.spawn(move |cx| {
                    let ended = cx.shield(|| rx.recv());
                    closed.store(ended.unwrap_err().is_closed(), Ordering::Relaxed);
                    Ok(())
                })?;
                n.spawn(move |_| {
                    let told = NEVER.wait().unwrap_err();
                    assert!(matches!(told.kind(), ErrorKind::Deadlock(_)));
                    drop(tx); // which ends the other's wait
                    Ok(())
                })?;
                Ok(())
            })
        });
        outcome.unwrap();
        assert!(closed.into_inner(), "told, although there was another");
    });
}
