//! Dumps of tasks, and detection of deadlocks.

use super::*;
use crate::prelude::*;
use crate::support::{schedules, watched};
use crate::sync::channel::{ChannelOpts, channel, unbounded};
use crate::sync::time;
use crate::sync::{Mutex, Notify, RwLock, Semaphore};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `test` under the deterministic executor, with many seeds.
fn seeds(test: impl Fn(&Runtime)) {
    schedules(&[1, 2, 3], 20, 0, |schedule| test(&watched(schedule.builder())));
}

/// Only whether it has worked.
fn discard<T, E: Into<crate::Error>>(outcome: std::result::Result<T, E>) -> crate::Result<()> {
    outcome.map(drop).map_err(Into::into)
}

fn deadlock(outcome: crate::Result<()>) -> DeadlockReport {
    let error = outcome.expect_err("a deadlock");
    match error.kind() {
        ErrorKind::Deadlock(deadlock) => deadlock.clone(),
        other => panic!("not a deadlock but {other:?}"),
    }
}

/// A dump, once it satisfies the condition.
fn dump_when(rt: &Runtime, ready: impl Fn(&Dump) -> bool) -> Dump {
    for _ in 0..20_000 {
        let dump = rt.dump();
        if ready(&dump) {
            return dump;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    panic!("did not come to: {}", rt.dump());
}

fn named<'d>(dump: &'d Dump, name: &str) -> &'d TaskSnapshot {
    dump.tasks.iter().find(|task| task.name.as_deref() == Some(name)).expect(name)
}

fn is_waiting(dump: &Dump, count: usize) -> bool {
    dump.tasks.iter().filter(|task| task.wait.is_some()).count() == count
}

#[test]
fn a_dump_tells_who_waits_where_for_what() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (tx, rx) = channel::<u32>(3);
    let notify = Arc::new(Notify::new());
    let go = Arc::clone(&notify);
    let root = rt.handle().spawn(move |cx| {
        cx.nursery_with(NurseryOpts::new().name("family"), |n| {
            let (rx, go) = (&rx, &go);
            n.spawn_with(SpawnOpts::new().name("receiver"), move |_| discard(rx.recv()))?;
            n.spawn_with(SpawnOpts::new().name("sleeper"), |_| {
                time::sleep(Duration::from_secs(600))
            })?;
            for _ in 0..10 {
                n.spawn(move |_| go.wait())?;
            }
            Ok(())
        })
    });
    let dump = dump_when(&rt, |dump| is_waiting(dump, 13));
    let receiver = named(&dump, "receiver");
    let wait = receiver.wait.as_ref().unwrap();
    assert_eq!(
        (wait.what, wait.timed, receiver.state),
        ("receiving from channel", false, TaskState::Waiting)
    );
    assert_eq!(wait.note.as_deref(), Some("empty, capacity 3; 1 sender, 1 receiver"));
    assert!(receiver.spawned_at.unwrap().file().ends_with("tests.rs"));
    assert_eq!(receiver.nursery_name.as_deref(), Some("family"));
    let sleep = named(&dump, "sleeper").wait.as_ref().unwrap();
    assert_eq!(sleep.what, "sleeping");
    assert!(sleep.until.is_some_and(|until| until >= Duration::from_secs(600)), "{sleep:?}");
    assert!(dump.to_string().contains("sleeping until 60"), "{dump}");
    let parent =
        dump.tasks.iter().find(|task| Some(task.id) == receiver.owner).expect("its parent");
    assert_eq!(parent.children.len(), 1);
    assert_eq!((parent.children[0].live, parent.children[0].nursery), (12, receiver.nursery));
    let functions = receiver.frames.functions();
    // A closure that was inlined has no path in its name if there are line tables only.
    let is_here = |f: &Function| f.file.as_deref().is_some_and(|f| f.ends_with("inspect/tests.rs"));
    assert!(functions.iter().any(is_here), "{functions:?}");
    let root_nursery = dump.root.as_ref().expect("the runtime is there");
    assert_eq!((root_nursery.state, root_nursery.live), (NurseryState::Open, 1));
    let text = dump.to_string();
    assert!(text.contains("\nroot nursery: Open, 1 live\n"), "{text}");
    assert!(text.contains("and 9 more like it"), "{text}");
    assert!(text.contains("nursery") && text.contains("`family`: Closing, 12 live"), "{text}");
    let json = dump.to_json();
    assert!(
        json.contains(r#""name":"receiver""#)
            && json.contains(r#""what":"receiving from channel""#),
        "{json}"
    );
    drop(tx);
    root.unwrap().cancel();
}

#[test]
fn named_channels_are_shown_by_their_names() {
    seeds(|rt| {
        let failed = rt.run(|cx| {
            let (orders_tx, orders) = ChannelOpts::bounded(1).name("orders").build::<u32>();
            let (meals, meals_rx) = ChannelOpts::bounded(0).name("meals").build::<u32>();
            assert!(format!("{orders:?}").starts_with("Receiver { name: \"orders\", len: 0"));
            cx.nursery(|n| {
                let (orders, meals) = (&orders, &meals);
                n.spawn(move |_| discard(orders.recv()))?;
                n.spawn(move |_| discard(meals.send(1)))?;
                let mut text = String::new();
                while !(text.contains("receiving") && text.contains("sending")) {
                    cx.yield_now()?;
                    text = rt.dump().to_string();
                }
                let empty =
                    "receiving from channel `orders` (empty, capacity 1; 1 sender, 1 receiver)";
                assert!(text.contains(empty), "{text}");
                assert!(text.contains("sending to channel `meals` (unbuffered;"), "{text}");
                let json = rt.dump().to_json();
                assert!(json.contains(r#""name":"orders","note":"empty"#), "{json}");
                Ok(())
            })?; // nobody sends an order or takes a meal
            drop((orders_tx, meals_rx));
            Ok(())
        });
        let report = deadlock(failed).to_string();
        let named = |name| report.contains(&format!("channel `{name}`"));
        assert!(named("orders") && named("meals"), "{report}");
    });
}

#[test]
fn a_task_that_takes_a_dump_is_in_it() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    rt.run_with(SpawnOpts::new().name("looker"), |cx| {
        cx.nursery_with(NurseryOpts::new().name("family"), |n| {
            n.spawn_with(SpawnOpts::new().name("child"), |cx| cx.forever(|| Ok(())))?;
            (0..5).try_for_each(|_| cx.yield_now())?;
            let dump = rt.dump();
            let looker = named(&dump, "looker");
            assert_eq!(looker.children[0].name.as_deref(), Some("family"));
            n.wind_down();
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn a_dump_is_taken_while_all_workers_are_stuck() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (_tx, rx) = channel::<u32>(0);
    let waits = rt.handle().spawn(move |_| discard(rx.recv())).unwrap();
    dump_when(&rt, |dump| is_waiting(dump, 1));
    let stuck = rt.handle().spawn(move |_| {
        while !stopped.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    });
    let dump =
        dump_when(&rt, |dump| dump.tasks.iter().any(|task| task.state == TaskState::Running));
    assert!(is_waiting(&dump, 1), "{dump}");
    stop.store(true, Ordering::Relaxed);
    stuck.unwrap().join().unwrap();
    waits.cancel();
}

/// An observer that reads all the time loses, doubles or delays no wake-up.
#[test]
fn looking_does_not_disturb() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        let looks = s.spawn(|| {
            let mut looks = 0;
            loop {
                rt.dump();
                looks += 1;
                if done.load(Ordering::Relaxed) {
                    break looks;
                }
            }
        });
        for _ in 0..20 {
            let sum = rt.run(|cx| {
                let (tx, rx) = channel::<u64>(1);
                let (back_tx, back_rx) = channel::<u64>(0);
                cx.nursery(|n| {
                    let echo = n.spawn(move |_| {
                        for value in rx.iter() {
                            back_tx.send(value? + 1)?;
                        }
                        Ok(())
                    })?;
                    let mut sum = 0_u64;
                    for value in 0..500 {
                        tx.send(value)?;
                        sum += back_rx.recv()?;
                    }
                    drop(tx);
                    echo.join()?;
                    Ok(sum)
                })
            });
            assert_eq!(sum.unwrap(), (1..=500).sum::<u64>());
        }
        done.store(true, Ordering::Relaxed);
        assert!(looks.join().unwrap() > 0);
    });
}

// rule: S0-EXHAUST-2
#[test]
fn exhausted_tasks_are_shown_with_what_they_lack() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let task = rt.handle().spawn(|cx| {
        let opts = NurseryOpts::new()
            .budget(Budget { ops: 100, ..Budget::UNLIMITED })
            .on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            n.spawn_with(SpawnOpts::new().name("hungry"), |cx| {
                for _ in 0..1_000_000 {
                    cx.checkpoint()?;
                }
                Ok(())
            })?;
            Ok(())
        })
    });
    let of = |dump: &Dump, state| dump.tasks.iter().any(|task| task.state == state);
    let dump = dump_when(&rt, |dump| of(dump, TaskState::Exhausted));
    let hungry = named(&dump, "hungry");
    assert_eq!(hungry.wait.as_ref().unwrap().note.as_deref(), Some("out of ops"));
    assert_eq!(hungry.budget.unwrap().ops, 0);
    task.unwrap().cancel();
}

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

#[test]
fn a_signal_asks_for_a_dump() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let first = rt.dump_on_signal(libc::SIGUSR2).unwrap();
    let second = rt.dump_on_signal(libc::SIGUSR2).unwrap();
    drop(first);
    // SAFETY: a signal that has a handler.
    unsafe { libc::raise(libc::SIGUSR2) };
    drop(second);
    // SAFETY: asks only.
    let now = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGUSR2, std::ptr::null(), &mut now);
        now.sa_sigaction
    };
    assert_eq!(now, libc::SIG_DFL, "as it was before");
    assert!(rt.dump_on_signal(libc::SIGKILL).is_err());
}

/// As many as there are lines, over and over: a line is free again when its thread has ended.
#[test]
fn dumps_on_signals_are_bounded_and_their_places_come_back() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let signal = libc::SIGRTMIN() + 7;
    let until_free = || {
        for _ in 0..5_000 {
            match rt.dump_on_signal(signal) {
                Ok(dumps) => return dumps,
                Err(error) => assert!(error.to_string().contains("drop one"), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("no place comes back");
    };
    for _ in 0..3 {
        // Another test may have some.
        let taken: Vec<_> = (0..28).map(|_| until_free()).collect();
        let more: Vec<_> = (0..5).map_while(|_| rt.dump_on_signal(signal).ok()).collect();
        assert!(more.len() < 5, "no bound");
        drop((taken, more));
    }
}
