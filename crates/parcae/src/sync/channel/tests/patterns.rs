//! Channels as programs use them: pipelines, worker pools, requests with replies, and storms of
//! wake-ups. The ideas come from the test suites of Go, of crossbeam and of the scheduler in C.

use super::*;
use crate::sched::task::waker::Waker;
use crate::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A sieve: each prime has a task that passes on what it does not divide.
#[test]
fn a_pipeline_that_grows_a_stage_per_prime() {
    everywhere(|cx, seed| {
        let primes = cx.nursery(|n| {
            let (tx, mut numbers) = channel(seed as usize % 3);
            n.spawn(move |_| {
                let mut i = 2;
                while tx.send(i).is_ok() {
                    i += 1;
                }
                Ok(())
            })?;
            let mut primes = Vec::new();
            for _ in 0..12 {
                let prime = numbers.recv()?;
                primes.push(prime);
                let (tx, rest) = channel(seed as usize % 3);
                let before = std::mem::replace(&mut numbers, rest);
                n.spawn(move |_| {
                    for number in before {
                        let number = number?;
                        if number % prime != 0 && tx.send(number).is_err() {
                            break; // the receiver is gone: stop, and so on up the chain
                        }
                    }
                    Ok(())
                })?;
            }
            Ok(primes)
        })?;
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37]);
        Ok(())
    });
}

/// Jobs go out to workers, results come in; a job carries where its answer goes.
#[test]
fn workers_share_jobs_and_answer_each_asker() {
    everywhere(|cx, seed| {
        cx.nursery(|n| {
            let (jobs, queue) = channel::<(u64, OneSender<u64>)>(seed as usize % 3);
            for _ in 0..4 {
                let queue = queue.clone();
                n.spawn(move |cx| {
                    for job in queue {
                        let (number, answer) = job?;
                        pause(cx, number % 3)?;
                        answer.send(number * number)?;
                    }
                    Ok(())
                })?;
            }
            drop(queue);
            for asker in 0..5 {
                let jobs = jobs.clone();
                n.spawn(move |_| {
                    for i in 0..8 {
                        let (answer, answered) = oneshot();
                        jobs.send((asker * 10 + i, answer))?;
                        assert_eq!(answered.recv()?, (asker * 10 + i) * (asker * 10 + i));
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
}

#[test]
fn fan_out_and_fan_in_keep_count() {
    everywhere(|cx, seed| {
        let (out, work) = channel(1 + seed as usize % 4);
        let (back, results) = channel(1 + seed as usize % 4);
        let sum = cx.nursery(|n| {
            n.spawn(move |_| (0..64_u64).try_for_each(|i| Ok(out.send(i)?)))?;
            for _ in 0..16 {
                let (work, back) = (work.clone(), back.clone());
                n.spawn(move |_| {
                    for i in work {
                        back.send(i? * 2)?;
                    }
                    Ok(())
                })?;
            }
            drop((work, back));
            results.iter().sum::<Result<u64>>()
        })?;
        assert_eq!(sum, 64 * 63);
        Ok(())
    });
}

/// Both sides nearly always find the other asleep.
// rule: S4-WAKE-3
#[test]
fn a_ball_goes_back_and_forth_without_a_lost_wake() {
    threads(3, |cx, _| {
        let ((ping, ping_rx), (pong, pong_rx)) = (channel::<u32>(0), channel::<u32>(0));
        cx.nursery(|n| {
            n.spawn(move |_| {
                for ball in ping_rx {
                    pong.send_timeout(ball? + 1, Duration::from_secs(60))?;
                }
                Ok(())
            })?;
            for i in 0..3_000 {
                ping.send(i)?;
                assert_eq!(pong_rx.recv_timeout(Duration::from_secs(60))?, i + 1);
            }
            drop(ping);
            Ok(())
        })
    });
}

/// Capacity 1, many of both: each wake is for the one value or the one place.
#[test]
fn a_place_for_one_wakes_the_right_side() {
    threads(2, |cx, _| {
        let (tx, rx) = channel(1);
        let sum = cx.nursery(|n| {
            let mut receivers = Vec::new();
            for _ in 0..4 {
                let rx = rx.clone();
                receivers.push(n.spawn(move |_| rx.iter().sum::<Result<u64>>())?);
            }
            for _ in 0..4 {
                let tx = tx.clone();
                n.spawn(move |_| (0..1_000).try_for_each(|i| Ok(tx.send(i)?)))?;
            }
            drop((tx, rx));
            receivers.into_iter().map(TaskHandle::join).sum::<Result<u64>>()
        })?;
        assert_eq!(sum, 4 * (0..1_000).sum::<u64>());
        Ok(())
    });
}

/// Closing by every end, against every waiter, with every content: no waiter remains, and all
/// values that were sent are received.
#[test]
fn closing_in_all_constellations() {
    deterministic(300, |cx, seed| {
        for capacity in [0, 1, 3] {
            for (senders, receivers) in [(0, 3), (3, 0), (1, 1), (2, 3)] {
                let (tx, rx) = channel(capacity);
                let (sent, got) = (Mutex::new(0), Mutex::new(0));
                cx.nursery(|n| {
                    for _ in 0..senders {
                        n.spawn(|_| {
                            while tx.send(()).is_ok() {
                                *sent.lock()? += 1;
                            }
                            Ok(())
                        })?;
                    }
                    for _ in 0..receivers {
                        n.spawn(|_| {
                            while rx.recv().is_ok() {
                                *got.lock()? += 1;
                            }
                            Ok(())
                        })?;
                    }
                    pause(cx, seed % 7)?;
                    match seed % 3 {
                        0 => tx.close(),
                        1 => rx.close(),
                        _ => {
                            tx.close_with(crate::Error::msg("enough"));
                            rx.close(); // too late to say something else
                        }
                    }
                    Ok(())
                })?;
                while rx.try_recv().is_ok() {
                    *got.lock()? += 1;
                }
                assert_eq!(sent.into_inner(), got.into_inner());
                assert_eq!(tx.shared().core.waiting(), (0, 0));
                let why = crate::Error::from(rx.recv().unwrap_err());
                assert_eq!(why.to_string() == "enough", seed % 3 == 2);
            }
        }
        Ok(())
    });
}

/// Wakes that mean nothing do not end a wait, and do not cost its place in the line.
// rule: S4-CHAN-6, S4-PARK-4, S4-PARK-6
#[test]
fn a_wait_stands_wakes_that_mean_nothing() {
    type Wait<'s> = &'s (dyn Fn() -> Result<()> + Sync);
    everywhere(|cx, _| {
        let ((tx, rx), (full, full_rx)) = (channel(0), channel(0));
        let ((news, sub), (level, watcher)) = (broadcast(1), watch(0));
        let (sub, watcher) = (std::sync::Mutex::new(sub), std::sync::Mutex::new(watcher));
        let mutex = Mutex::new(());
        let waits: [Wait<'_>; 6] = [
            &|| Ok(rx.recv()?),
            &|| Ok(full.send(())?),
            &|| Ok(sub.lock().unwrap().recv()?),
            &|| watcher.lock().unwrap().changed().map(drop).map_err(Into::into),
            &|| crate::select! { recv(rx) -> v => v?, recv(full_rx) -> _ => panic!("ours") },
            &|| mutex.lock().map(drop),
        ];
        for (i, wait) in waits.into_iter().enumerate() {
            let held = mutex.lock()?;
            let (waker, over) = (std::sync::Mutex::new(None), AtomicBool::new(false));
            cx.nursery(|n| {
                let waiter = n.spawn(|_| {
                    *waker.lock().unwrap() = Some(Waker::current());
                    wait()?;
                    assert!(over.load(Ordering::SeqCst), "ended by a wake that meant nothing");
                    Ok(())
                })?;
                for _ in 0..10 {
                    if let Some(waker) = &*waker.lock().unwrap() {
                        waker.wake();
                    }
                    cx.yield_now()?;
                }
                over.store(true, Ordering::SeqCst);
                match i {
                    0 | 4 => tx.send(())?,
                    1 => full_rx.recv()?,
                    2 => assert_eq!(news.send(())?, 1),
                    3 => drop(level.set(1)),
                    _ => drop(held),
                }
                waiter.join()
            })?;
        }
        Ok(())
    });
}

// rule: S0-COST-5, S0-COST-6
#[test]
fn a_send_and_a_receive_cost_an_op_each() {
    let rt = Runtime::builder().deterministic(1).budget(Budget::SERVICE).build().unwrap();
    rt.run(|cx| {
        let (tx, rx) = channel(1);
        let left = || (cx.budget().ops, cx.budget().channel_ops);
        let (ops, channel_ops) = left();
        tx.send(1)?;
        assert_eq!(left(), (ops - 1, channel_ops - 1));
        rx.recv()?;
        assert_eq!(left(), (ops - 2, channel_ops - 2));
        Ok(())
    })
    .unwrap();
}
