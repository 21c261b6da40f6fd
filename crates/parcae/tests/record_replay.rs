//! Runs on threads that are recorded, and repeated in the lab.
//!
//! Each program here has races, so its outcome differs from run to run. It returns everything that
//! its tasks have seen, in order, and the replay has to return the same.

use parcae::channel::{channel, oneshot};
use parcae::lab::{Explore, FailureKind, Record, RecordError, RecordOpts};
use parcae::prelude::*;
use parcae::sync::atomic::{AtomicU64, Ordering::SeqCst};
use parcae::sync::{Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore};
use parcae::task::Placement;
use parcae::time;
use std::collections::HashSet;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Mutex as Slot;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

const WORKERS: usize = 3;

fn recording(opts: RecordOpts) -> Runtime {
    Runtime::builder().workers(WORKERS).record(opts).build().unwrap()
}

/// Runs the program on threads and repeats it from its record, so many times. Every replay has to
/// see what the recorded run has seen. Returns how many different outcomes there were.
fn repeats<S: PartialEq + Debug + Send>(
    times: usize,
    program: impl Fn(&Runtime) -> parcae::Result<S> + Sync,
) -> usize {
    let (mut outcomes, mut changes) = (HashSet::new(), 0);
    for _ in 0..times {
        let rt = recording(RecordOpts::new());
        let on_threads = program(&rt).unwrap();
        let record = rt.record().unwrap();
        assert_eq!(record.lost(), 0);
        changes += record.changes();
        let slot = Slot::new(None);
        let replay = Explore::new().retrace(&record, |rt| {
            *slot.lock().unwrap() = Some(program(rt)?);
            Ok(())
        });
        let replay = replay.unwrap();
        assert_eq!(replay.strayed, None);
        replay.outcome.unwrap();
        let in_lab = slot.into_inner().unwrap().unwrap();
        assert_eq!(in_lab, on_threads);
        outcomes.insert(format!("{on_threads:?}"));
    }
    println!("{times} runs, {} outcomes, {changes} changes of worker", outcomes.len());
    outcomes.len()
}

/// Runs tasks that begin together, on threads on all workers. Returns their results in order.
fn together<S: Send>(
    rt: &Runtime,
    tasks: usize,
    body: impl Fn(&Cx, usize) -> parcae::Result<S> + Sync,
) -> parcae::Result<Vec<S>> {
    let start = Barrier::new(tasks);
    // Not recorded, and not needed in the replay: there one task after the other passes.
    let (arrived, is_on_threads) = (AtomicUsize::new(0), rt.record().is_some());
    rt.run(|cx| {
        cx.nursery(|n| {
            let (start, arrived, body) = (&start, &arrived, &body);
            let spawn = |at| {
                n.spawn_with(SpawnOpts::new().placement(Placement::Spread), move |cx| {
                    arrived.fetch_add(1, SeqCst);
                    while is_on_threads && arrived.load(SeqCst) < tasks.min(WORKERS) {
                        std::thread::yield_now(); // keeps its worker
                    }
                    start.wait()?;
                    body(cx, at)
                })
            };
            let handles: Vec<_> = (0..tasks).map(spawn).collect::<parcae::Result<_>>()?;
            handles.into_iter().map(|handle| handle.join()).collect()
        })
    })
}

#[test]
fn atomics_are_seen_as_on_threads() {
    repeats(40, |rt| {
        let count = AtomicU64::new(0);
        let seen = together(rt, 4, |cx, _| {
            let mut seen = Vec::new();
            for _ in 0..200 {
                let before = count.load(SeqCst);
                seen.push(before);
                count.store(before + 1, SeqCst); // loses additions
                if before % 16 == 0 {
                    cx.yield_now()?;
                }
            }
            Ok(seen)
        })?;
        Ok((seen, count.into_inner()))
    });
}

#[test]
fn values_of_channels_arrive_as_on_threads() {
    repeats(40, |rt| {
        let (tx, rx) = channel(3);
        together(rt, 5, |_, at| {
            let mut got = Vec::new();
            match at {
                0..3 => (0..100).try_for_each(|i| tx.send(at * 1_000 + i))?,
                _ => {
                    for _ in 0..150 {
                        got.push(rx.recv()?);
                    }
                }
            }
            Ok(got)
        })
    });
}

#[test]
fn locks_are_taken_as_on_threads() {
    repeats(40, |rt| {
        let (order, shared, permits) =
            (Mutex::new(Vec::new()), RwLock::new(0_u64), Semaphore::new(2));
        let seen = together(rt, 4, |cx, at| {
            let mut seen = Vec::new();
            for i in 0..60 {
                order.lock()?.push(at);
                let _permit = permits.acquire()?;
                if (i + at) % 5 == 0 {
                    *shared.write()? += 1;
                } else {
                    seen.push(*shared.read()?);
                }
                if i % 20 == 0 {
                    cx.yield_now()?;
                }
                if let Some(mut order) = order.try_lock() {
                    order.push(100 + at);
                }
            }
            Ok(seen)
        })?;
        Ok((seen, order.into_inner()))
    });
}

#[test]
fn signals_reach_the_same_tasks_as_on_threads() {
    repeats(40, |rt| {
        let (bell, turns) = (Notify::new(), Mutex::new(Vec::new()));
        together(rt, 3, |cx, at| {
            for i in 0..200 {
                match at {
                    0 => bell.notify_one(),
                    _ if bell.try_wait() => turns.lock()?.push((at, i)),
                    _ => cx.yield_now()?,
                }
            }
            Ok(())
        })?;
        Ok(turns.into_inner())
    });
}

#[test]
fn times_are_those_of_the_recorded_run() {
    repeats(40, |rt| {
        let (began, log) = (Slot::new(None), Mutex::new(Vec::new()));
        together(rt, 3, |cx, at| {
            for _ in 0..40 {
                // The first clock of the run is the origin: a replay has another one.
                let mut log = log.lock()?;
                let now = time::now();
                log.push((at, now - *began.lock().unwrap().get_or_insert(now)));
                drop(log);
                cx.yield_now()?;
            }
            Ok(())
        })?;
        Ok(log.into_inner())
    });
}

#[test]
fn selects_sleeps_and_timeouts_end_as_on_threads() {
    repeats(200, |rt| {
        let (left, left_end) = channel(1);
        let (right, right_end) = channel(2);
        let (late, late_end) = channel(1);
        let order = Mutex::new(Vec::new());
        let (left, right, late) = (&left, &right, &late);
        let seen = together(rt, 5, |_, at| {
            let mut seen = Vec::new();
            let us = |us| Duration::from_micros(us);
            for i in 0..24 {
                match at {
                    0 => seen.push(usize::from(left.send_timeout(i, us(100)).is_ok())),
                    1 => seen.push(usize::from(right.send_timeout(100 + i, us(100)).is_ok())),
                    2 | 3 => seen.push(parcae::select! {
                        recv(left_end) -> value => value?,
                        recv(right_end) -> value => value?,
                        timeout(us(30)) => 1_000,
                    }?),
                    _ => seen.push(late_end.recv_timeout(us(20)).unwrap_or(2_000)),
                }
                if i % 6 == at {
                    time::sleep(us(10 * i as u64))?;
                    late.try_send(300 + at).ok();
                }
                if let Some(mut order) = order.try_lock() {
                    order.push((at, i));
                }
            }
            Ok(seen)
        })?;
        Ok((seen, order.into_inner()))
    });
}

#[test]
fn stolen_tasks_run_as_on_threads() {
    repeats(100, |rt| {
        let order = Mutex::new(Vec::new());
        rt.run(|cx| {
            cx.nursery(|n| {
                for at in 0..12 {
                    let order = &order;
                    n.spawn(move |cx| {
                        let mut sum = at as u64;
                        for i in 0..2_000 {
                            sum = std::hint::black_box(sum.rotate_left(5) ^ i);
                            cx.checkpoint()?;
                        }
                        order.lock()?.push(at * 10);
                        cx.nursery(|n| {
                            for j in 1..4 {
                                n.spawn(move |_| Ok(order.lock()?.push(at * 10 + j)))?;
                            }
                            Ok(())
                        })
                    })?;
                }
                Ok(())
            })
        })?;
        Ok(order.into_inner())
    });
}

#[test]
fn ends_of_channels_and_cells_are_seen_as_on_threads() {
    repeats(100, |rt| {
        let cell = OnceCell::new();
        let (tx, rx) = channel(2);
        let senders: Vec<_> = (0..2).map(|_| Slot::new(Some(tx.clone()))).collect();
        drop(tx);
        let pairs = || oneshot::<usize>();
        let (ask, answers): (Vec<_>, Vec<_>) = [pairs(), pairs()].into_iter().unzip();
        let (ask, answers): (Vec<_>, Vec<_>) = (
            ask.into_iter().map(|end| Slot::new(Some(end))).collect(),
            answers.into_iter().map(|end| Slot::new(Some(end))).collect(),
        );
        together(rt, 4, |_, at| {
            let mut seen = vec![*cell.get_or_init(|| at)?];
            if at < 2 {
                let tx = senders[at].lock().unwrap().take().unwrap();
                (0..10).for_each(|i| seen.push(usize::from(tx.try_send(at * 100 + i).is_ok())));
                drop(tx);
                let answer = answers[at].lock().unwrap().take().unwrap();
                seen.push(answer.recv().unwrap_or(7));
            } else {
                seen.extend(std::iter::from_fn(|| rx.recv().ok()));
                let ask = ask[at - 2].lock().unwrap().take().unwrap();
                seen.push(usize::from(ask.send(at).is_ok()));
            }
            Ok(seen)
        })
    });
}

#[test]
fn the_first_of_several_failures_is_that_of_the_recorded_run() {
    repeats(100, |rt| {
        let (arrived, is_on_threads) = (AtomicUsize::new(0), rt.record().is_some());
        let count = AtomicU64::new(0);
        let error = rt.run(|cx| {
            cx.nursery(|n| {
                for at in 0..WORKERS {
                    let (arrived, count) = (&arrived, &count);
                    n.spawn_with(SpawnOpts::new().placement(Placement::Spread), move |_| {
                        arrived.fetch_add(1, SeqCst);
                        while is_on_threads && arrived.load(SeqCst) < WORKERS {
                            std::thread::yield_now(); // keeps its worker
                        }
                        count.fetch_add(1, SeqCst);
                        Err::<(), _>(parcae::Error::msg(format!("task {at}")))
                    })?;
                }
                Ok(())
            })
        });
        // The rest has the number of the task, which a replay numbers anew.
        let error = error.unwrap_err().to_string();
        let first = error.split(" (").next().map(str::to_owned);
        Ok((first, count.into_inner()))
    });
}

/// Two tasks take turns at a counter without a lock.
fn loses_additions(rt: &Runtime, tasks: u64) -> parcae::Result<()> {
    let count = AtomicU64::new(0);
    together(rt, tasks as usize, |cx, _| {
        for _ in 0..500 {
            let seen = count.load(SeqCst);
            count.store(seen + 1, SeqCst);
            if seen % 50 == 0 {
                cx.yield_now()?; // so that no task is done before the others have begun
            }
        }
        Ok(())
    })?;
    let counted = count.into_inner();
    rt.run(|_| {
        assert!(counted == tasks * 500, "lost {} additions", tasks * 500 - counted);
        Ok(())
    })
}

fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("parcae-{}-{name}.pcrec", std::process::id()))
}

#[test]
fn a_failure_on_threads_is_kept_in_a_file_and_fails_the_same_way_again() {
    let file = place("failure");
    let error = (0..200).find_map(|_| {
        let rt = recording(RecordOpts::new().file(&file));
        loses_additions(&rt, 3).err()
    });
    let error = error.expect("an addition is lost in one of many runs");
    let record = Record::load(&file).unwrap();
    for _ in 0..5 {
        let replay = Explore::new().retrace(&record, |rt| loses_additions(rt, 3)).unwrap();
        assert_eq!(replay.strayed, None);
        let failure = replay.outcome.unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Panic);
        // The same number of lost additions.
        let lost =
            |text: &str| text[text.find("lost ").unwrap()..].lines().next().unwrap().to_owned();
        assert_eq!(lost(&failure.error().to_string()), lost(&error.to_string()));
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_changed_program_is_noticed_and_the_difference_is_named() {
    let program = |rt: &Runtime, tasks, extra| -> parcae::Result<()> {
        together(rt, tasks, |cx, at| {
            if at == 0 && extra {
                cx.nursery(|n| n.spawn(|_| Ok(()))?.join())?;
            }
            cx.yield_now()
        })?;
        Ok(())
    };
    let rt = recording(RecordOpts::new());
    program(&rt, 3, false).unwrap();
    let record = rt.record().unwrap();
    let replay = |tasks, extra| {
        let replay = Explore::new().retrace(&record, |rt| program(rt, tasks, extra)).unwrap();
        replay.outcome.unwrap();
        replay.strayed
    };
    assert_eq!(replay(3, false), None);
    let more = replay(3, true).unwrap();
    assert!(more.difference.contains("spawns a task"), "{more}");
    assert!(more.to_string().contains("strayed from the record: task "), "{more}");
    let less = replay(2, false).unwrap();
    assert!(less.worker < WORKERS && less.difference.contains("recorded run"), "{less}");
}

#[test]
fn memory_is_bounded_and_a_replay_goes_on_after_the_end_of_a_record() {
    let rt = recording(RecordOpts::new().words(1024));
    let program = |rt: &Runtime| {
        let count = AtomicU64::new(0);
        together(rt, 3, |cx, at| {
            (0..2_000).try_for_each(|i| {
                count.fetch_add(1, SeqCst);
                // On one worker too, so that there are turns to write down.
                if at < i { cx.nursery(|n| n.spawn(|_| Ok(()))?.join()) } else { Ok(()) }
            })
        })
        .map(drop)
    };
    program(&rt).unwrap();
    let record = rt.record().unwrap();
    assert!(record.lost() > 0, "{record:?}");
    let replay = Explore::new().retrace(&record, program).unwrap();
    replay.outcome.unwrap();
    assert!(replay.segments > 0);
    assert_eq!(replay.strayed, None);
}

#[test]
fn a_file_that_is_no_record_is_refused() {
    let file = place("damaged");
    std::fs::write(&file, "a text").unwrap();
    assert!(matches!(Record::load(&file), Err(RecordError::NotARecord)));
    let rt = recording(RecordOpts::new());
    rt.run(|cx| cx.yield_now()).unwrap();
    rt.record().unwrap().save(&file).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(Record::load(&file).unwrap(), rt.record().unwrap());
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let error = Record::load(&file).unwrap_err();
    assert!(matches!(error, RecordError::Truncated), "{error}");
    std::fs::remove_file(&file).unwrap();
    let error = Record::load(&file).unwrap_err().to_string();
    assert!(error.contains("damaged.pcrec"), "{error}");
}

#[test]
fn nothing_is_recorded_unless_asked_for() {
    assert!(Runtime::builder().workers(1).build().unwrap().record().is_none());
    let deterministic = Runtime::builder().deterministic(1).record(RecordOpts::new());
    assert!(deterministic.build().unwrap().record().is_none());
}
