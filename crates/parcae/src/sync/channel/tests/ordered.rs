//! Ordered channels: tasks end as they like, results come in order, and no task is left behind.

use super::cancelling::at_every_point;
use super::*;
use crate::base::rng::Rng;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

// rule: S4-KIND-7, S4-ORD-1, S4-ORD-4, S4-ORD-6
#[test]
fn results_come_in_the_order_of_sending() {
    deterministic(1_000, in_order);
    threads(40, in_order);
}

fn in_order(cx: &Cx, seed: u64) -> Result<()> {
    let capacity = seed as usize % 4;
    let (ended, live, most) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
    let got = cx.nursery(|n| {
        let (tasks, results) = ordered(capacity);
        let receiver = n.spawn(move |cx| {
            let mut got = Vec::new();
            for result in results {
                got.push(result?);
                pause(cx, seed % 3)?;
            }
            Ok(got)
        })?;
        for i in 0..20 {
            let turns = Rng::new(seed, i).below(8) as u64;
            most.fetch_max(live.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (ended, live) = (&ended, &live);
            tasks.send_task(n, move |cx| {
                pause(cx, turns)?;
                ended.lock().unwrap().push(i);
                live.fetch_sub(1, Ordering::SeqCst);
                Ok(i)
            })?;
        }
        drop(tasks);
        receiver.join()
    })?;
    assert_eq!(got, (0..20).collect::<Vec<_>>());
    // In the channel, with the receiver, and the one that is sent.
    assert!(most.into_inner() <= capacity + 2, "the work runs ahead no further than that");
    let mut ended = ended.into_inner().unwrap();
    ended.sort_unstable();
    assert_eq!(ended, got);
    Ok(())
}

// rule: S4-ORD-1, S4-ORD-2
#[test]
fn tasks_overtake_each_other_and_a_slow_one_hides_those_behind_it() {
    deterministic(100, |cx, _| {
        let ended = Mutex::new(Vec::new());
        cx.nursery(|n| {
            let (tasks, mut results) = ordered(3);
            for (i, seconds) in [(0, 30), (1, 20), (2, 10)] {
                let ended = &ended;
                tasks.send_task(n, move |cx| {
                    cx.sleep(Duration::from_secs(seconds))?;
                    ended.lock().unwrap().push(i);
                    Ok(i)
                })?;
            }
            assert!(results.recv_timeout(Duration::from_secs(25)).unwrap_err().is_timeout());
            assert_eq!((*ended.lock().unwrap()).clone(), [2, 1]);
            assert!(matches!(results.try_recv().unwrap_err().reason(), Reason::WouldWait));
            assert_eq!(results.len(), 3, "a receive that failed has had no effect");
            tasks.close();
            assert_eq!(results.by_ref().collect::<Result<Vec<_>>>()?, [0, 1, 2]);
            assert!(results.is_empty() && results.recv().unwrap_err().is_closed());
            Ok(())
        })
    });
}

#[test]
fn failures_of_tasks_are_results_and_those_of_the_channel_are_not() {
    everywhere(|cx, seed| {
        let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
        let outcome = cx.nursery_with(opts, |n| {
            let (tasks, mut results) = ordered(2);
            let receiver = n.spawn(move |_| {
                let mut told = Vec::new();
                loop {
                    match results.recv() {
                        Ok(Ok(value)) => told.push(format!("{value}")),
                        Ok(Err(error)) => told.push(format!("failed: {}", error.is_panic())),
                        Err(error) => {
                            told.push(crate::Error::from(error).to_string());
                            return Ok(told);
                        }
                    }
                }
            })?;
            for i in 0..4 {
                tasks.send_task(n, move |cx| {
                    pause(cx, (seed + i) % 3)?;
                    match i {
                        1 => Err(crate::Error::msg("no")),
                        2 => std::panic::resume_unwind(Box::new("no")),
                        _ => Ok(i),
                    }
                })?;
            }
            tasks.close_with(crate::Error::msg("that was all"));
            receiver.join()
        })?;
        assert_eq!(outcome, ["0", "failed: false", "failed: true", "3", "that was all"]);
        Ok(())
    });
}

#[test]
fn a_failure_in_a_nursery_that_fails_fast_ends_everybody() {
    everywhere(|cx, seed| {
        let outcome = cx.nursery(|n| {
            let (tasks, results) = ordered(1);
            n.spawn(move |_| results.into_iter().try_for_each(|result| result.map(drop)))?;
            for i in 0.. {
                tasks.send_task(n, move |cx| {
                    pause(cx, seed % 3)?;
                    if i == 3 { Err(crate::Error::msg("three")) } else { Ok(i) }
                })?;
            }
            Ok(())
        });
        assert!(outcome.unwrap_err().to_string().starts_with("three"));
        Ok(())
    });
}

// rule: S4-ORD-7, S4-ORD-8
#[test]
fn a_task_that_cannot_be_sent_is_joined() {
    everywhere(|cx, seed| {
        let ran = AtomicUsize::new(0);
        cx.nursery(|n| {
            let ran = &ran;
            let work = move |cx: &Cx| {
                pause(cx, seed % 5)?;
                Ok(ran.fetch_add(1, Ordering::SeqCst) + 1)
            };
            let (tasks, results) = ordered(1);
            tasks.send_task(n, work)?;
            let error = tasks.send_task_timeout(n, Duration::from_micros(5), work).unwrap_err();
            assert!(error.is_timeout() && !error.is_closed());
            // Both have run, and there is none beside them.
            assert!(error.into_result().expect("it was spawned").is_ok());
            results.close();
            let error = tasks.send_task_with(n, SpawnOpts::new().name("late"), work).unwrap_err();
            assert!(error.is_closed() && error.to_string().contains("not sent"));
            assert!(error.into_result().expect("it was spawned")? >= 2);
            let handle = n.spawn(work)?;
            let back = tasks.send(handle).unwrap_err().into_inner();
            assert!(back.join().is_ok());
            let back = tasks.try_send(n.spawn(work)?).unwrap_err();
            assert!(back.is_closed());
            drop(results);
            Ok(())
        })?;
        assert_eq!(ran.into_inner(), 5);
        Ok(())
    });
}

// rule: S4-ORD-8
#[test]
fn a_sender_that_is_cancelled_ends_its_task_and_waits_for_it() {
    deterministic(200, |cx, seed| {
        at_every_point(seed, |turns| {
            let begun = [const { AtomicBool::new(false) }; 3];
            let over = [const { AtomicBool::new(false) }; 3];
            let finished = cx.nursery(|n| {
                let (begun, over) = (&begun, &over);
                let victim = n.spawn(move |cx| {
                    cx.nursery(|n| {
                        let (tasks, results) = ordered(0);
                        n.spawn(move |_| results.into_iter().try_for_each(|r| r.map(drop)))?;
                        for i in 0..3 {
                            let sent = tasks.send_task(n, move |cx| {
                                begun[i].store(true, Ordering::SeqCst);
                                let paused = pause(cx, 5);
                                over[i].store(true, Ordering::SeqCst);
                                paused.map(|()| i)
                            });
                            if let Err(error) = sent {
                                assert!(error.is_cancelled());
                                let [begun, over] =
                                    [begun, over].map(|of| of[i].load(Ordering::SeqCst));
                                assert_eq!(begun, over, "it was waited for");
                                return match error.into_result() {
                                    // It has ended, by itself or because it was asked to.
                                    Some(Err(error)) => Err(error),
                                    Some(Ok(_)) | None => Ok(()),
                                };
                            }
                        }
                        Ok(())
                    })
                })?;
                pause(cx, turns)?;
                let finished = victim.is_finished();
                victim.cancel();
                if let Err(error) = victim.join() {
                    assert!(error.is_cancelled());
                }
                Ok(finished)
            })?;
            let [begun, over] = [begun, over].map(|of| of.map(|of| of.into_inner()));
            assert_eq!(begun, over, "none is left behind");
            Ok(finished)
        })
    });
}

#[test]
fn a_receiver_cancelled_at_any_point_leaves_the_rest_to_its_heir() {
    deterministic(200, |cx, seed| {
        for capacity in [0, 1, 3] {
            at_every_point(seed, |turns| {
                let got = Mutex::new(Vec::new());
                let finished = cx.nursery(|n| {
                    let (tasks, results) = ordered(capacity);
                    let results = std::sync::Arc::new(Mutex::new(results));
                    let (mine, got) = (std::sync::Arc::clone(&results), &got);
                    let victim = n.spawn(move |_| {
                        for _ in 0..3 {
                            // No other task wants the lock before this one has ended.
                            let result = mine.lock().unwrap().recv();
                            match result {
                                Ok(value) => got.lock().unwrap().push(value?),
                                Err(error) => {
                                    assert!(error.is_cancelled());
                                    break;
                                }
                            }
                        }
                        Ok(())
                    })?;
                    let heir = n.spawn(move |cx| {
                        pause(cx, turns)?;
                        let finished = victim.is_finished();
                        victim.cancel();
                        let _ = victim.join();
                        let mut results = results.lock().unwrap();
                        for result in results.by_ref() {
                            got.lock().unwrap().push(result?);
                        }
                        Ok(finished)
                    })?;
                    for i in 0..6 {
                        tasks.send_task(n, move |cx| pause(cx, (seed + i) % 4).map(|()| i))?;
                    }
                    drop(tasks);
                    heir.join()
                })?;
                assert_eq!(got.into_inner().unwrap(), (0..6).collect::<Vec<_>>());
                Ok(finished)
            })?;
        }
        Ok(())
    });
}

#[test]
fn a_result_is_paid_for_once_and_attempts_are_free() {
    let budget = Budget { channel_ops: 100, ..Budget::UNLIMITED };
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    rt.run_with(SpawnOpts::new().budget(budget), |cx| {
        let left = || cx.budget().channel_ops;
        let few = Budget { channel_ops: 3, ..Budget::UNLIMITED };
        let value = cx.nursery_with(NurseryOpts::new().budget(few), |n| {
            let (tasks, mut results) = ordered(2);
            tasks.send_task(n, |cx| cx.sleep(LONG).map(|()| 1))?;
            for _ in 0..5 {
                assert!(results.try_recv().is_err());
                assert!(results.recv_timeout(Duration::from_secs(1)).unwrap_err().is_timeout());
            }
            results.recv()?
        })?;
        assert_eq!((value, left()), (1, 98), "a send and a receive");
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_receiver_that_goes_leaves_the_tasks_to_their_nursery() {
    everywhere(|cx, seed| {
        let ran = AtomicUsize::new(0);
        cx.nursery(|n| {
            let (tasks, results) = ordered(4);
            let other = tasks.clone();
            for i in 0..4 {
                let (tasks, ran) = (if i % 2 == 0 { &tasks } else { &other }, &ran);
                tasks.send_task(n, move |cx| {
                    pause(cx, seed % 4)?;
                    ran.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                })?;
            }
            drop(results);
            Ok(())
        })?;
        assert_eq!(ran.into_inner(), 4);
        Ok(())
    });
}
