//! Dumps of tasks, and detection of deadlocks.

mod deadlocks;

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

// rule: S1-BIND-2
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
                let empty = "receiving from channel `orders` (empty, capacity 1; 1 sender, \
                             1 receiver; made by task root.0)";
                assert!(text.contains(empty), "{text}");
                assert!(text.contains("sending to channel `meals` (unbuffered;"), "{text}");
                let json = rt.dump().to_json();
                assert!(json.contains(r#""name":"orders","note":"empty"#), "{json}");
                assert!(json.contains(r#"1 receiver","made_by":"#), "{json}");
                Ok(())
            })?; // no task sends an order or takes a meal
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
