//! Asking, trying, batches, deadlines; capacities beyond all memory, and memory that is given back.

use super::cancelling::at_every_point;
use super::*;
use crate::{Budget, time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn empty_and_full() {
    let (tx, rx) = channel(2);
    for (values, empty, full) in [(0, true, false), (1, false, false), (2, false, true)] {
        assert_eq!((tx.len(), tx.is_empty(), tx.is_full()), (values, empty, full));
        assert_eq!((rx.len(), rx.is_empty(), rx.is_full()), (values, empty, full));
        let _ = tx.try_send(values);
    }
    let (tx, rx) = channel::<u8>(0);
    assert!(tx.is_empty() && tx.is_full() && rx.is_empty() && rx.is_full());
    let (tx, _rx) = unbounded();
    (0..1_000).for_each(|i| tx.send(i).unwrap());
    assert!(!tx.is_full());
}

#[test]
fn capacities_that_no_memory_has_are_limits_only() {
    for capacity in [1 << 40, usize::MAX / 2, usize::MAX - 1, usize::MAX] {
        let (tx, rx) = channel(capacity);
        assert_eq!(tx.capacity(), (capacity < usize::MAX).then_some(capacity));
        assert_eq!(tx.send_all((0..100).map(|i| [i; 100])).unwrap(), 100);
        assert!((0..100).all(|i| rx.recv().unwrap() == [i; 100]));
        let (tx, rx) = channel(capacity);
        tx.send(()).unwrap();
        assert_eq!((rx.len(), rx.recv().is_ok()), (1, true));
        let pool = Pool::new(capacity, || Ok(7));
        assert_eq!(*pool.borrow().unwrap(), 7);
        assert_eq!(pool.available(), capacity);
        let (tasks, _results) = ordered::<u8>(capacity);
        assert_eq!(tasks.as_sender().capacity(), tx.capacity());
    }
}

#[test]
fn a_drained_channel_has_given_its_memory_back() {
    for (tx, rx) in [unbounded(), channel(1 << 30)] {
        for _ in 0..2 {
            (0..100_000_u64).for_each(|i| tx.send(i).unwrap());
            assert!(tx.shared().core.room() >= 100_000);
            (0..100_000).for_each(|i| assert_eq!(rx.recv().unwrap(), i));
            assert!(tx.shared().core.room() <= 2_048, "{}", tx.shared().core.room());
        }
    }
}

#[test]
fn a_deadline_is_a_point_in_time_of_the_one_who_waits() {
    deterministic(50, |cx, seed| {
        let (tx, rx) = channel(1);
        let at = time::now() + Duration::from_secs(60);
        assert!(rx.recv_deadline(at).unwrap_err().is_timeout());
        assert!(time::now() >= at);
        assert!(rx.recv_deadline(at).unwrap_err().is_timeout(), "one that has passed");
        tx.send_deadline(1, at)?;
        let late = tx.send_deadline(2, at).unwrap_err();
        assert!(late.is_timeout() && late.into_inner() == 2);
        assert_eq!(rx.recv_deadline(at)?, 1, "what is there needs no time");
        let (one, answer) = oneshot();
        assert!(answer.recv_deadline(at).unwrap_err().is_timeout());
        cx.nursery(|n| {
            n.spawn(move |cx| {
                cx.sleep(Duration::from_secs(seed % 7))?;
                Ok(one.send(3)?)
            })?;
            assert_eq!(answer.recv_deadline(time::now() + LONG)?, 3);
            Ok(())
        })
    });
    let (_tx, rx) = channel::<u8>(0);
    let at = time::now() + Duration::from_millis(1);
    assert!(rx.recv_deadline(at).unwrap_err().is_timeout() && time::now() >= at);
}

#[test]
fn what_can_be_had_is_had_and_no_more() {
    everywhere(|cx, seed| {
        let (tx, rx) = channel(2);
        cx.nursery(|n| {
            let sender = n.spawn(|_| Ok(tx.send_all(0..4)?))?;
            let mut got = Vec::new();
            while got.len() < 4 {
                for value in rx.try_iter() {
                    got.push(value?);
                }
                pause(cx, seed % 3)?;
            }
            assert_eq!((got, sender.join()?), (vec![0, 1, 2, 3], 4));
            assert!(rx.try_iter().next().is_none());
            tx.close_with(crate::Error::msg("the end"));
            let mut rest = rx.try_iter();
            assert!(rest.next().unwrap().is_err() && rest.next().is_none());
            Ok(())
        })
    });
}

#[test]
fn a_batch_waits_for_its_first_value_only() {
    everywhere(|cx, seed| {
        for capacity in [0, 2, 8] {
            let (tx, rx) = channel(capacity);
            let got = cx.nursery(|n| {
                n.spawn(move |cx| {
                    for i in 0..10 {
                        pause(cx, (seed + i) % 4)?;
                        tx.send(i)?;
                    }
                    Ok(())
                })?;
                let (mut got, mut batch) = (Vec::new(), Vec::new());
                assert_eq!(rx.recv_many(&mut batch, 0)?, 0);
                loop {
                    match rx.recv_many(&mut batch, 3) {
                        Ok(count) => assert!((1..=3).contains(&count) && batch.len() == count),
                        Err(error) => break assert!(error.is_closed()),
                    }
                    got.append(&mut batch);
                }
                Ok(got)
            })?;
            assert_eq!(got, Vec::from_iter(0..10));
        }
        Ok(())
    });
}

#[test]
fn a_batch_cancelled_at_any_point_loses_nothing() {
    deterministic(100, |cx, seed| {
        at_every_point(seed, |turns| {
            let (tx, rx) = channel(seed as usize % 3);
            let (sent, got) = (AtomicU64::new(0), std::sync::Mutex::new(Vec::new()));
            let finished = cx.nursery(|n| {
                let (sent, got, heir) = (&sent, &got, rx.clone());
                let sender = n.spawn(move |_| {
                    let mut values = (0..6).inspect(|&i| sent.store(i, Ordering::Relaxed));
                    match tx.send_all(&mut values) {
                        Ok(count) => assert_eq!(count, 6),
                        Err(error) => {
                            assert!(error.is_cancelled());
                            let kept = error.into_inner();
                            assert_eq!(kept, sent.load(Ordering::Relaxed), "the first not sent");
                            return Ok(kept);
                        }
                    }
                    Ok(6)
                })?;
                let receiver = n.spawn(move |_| {
                    let mut batch = Vec::new();
                    while rx.recv_many(&mut batch, 2).is_ok() {
                        got.lock().unwrap().append(&mut batch);
                    }
                    assert!(batch.is_empty(), "neither received nor told");
                    Ok(())
                })?;
                pause(cx, turns)?;
                let finished = sender.is_finished() && receiver.is_finished();
                if seed % 2 == 0 {
                    sender.cancel();
                } else {
                    receiver.cancel();
                }
                let _ = receiver.join();
                let mut all = std::mem::take(&mut *got.lock().unwrap());
                for value in heir {
                    all.push(value?);
                }
                // One that has not started has sent nothing.
                let sent = match sender.join() {
                    Ok(sent) => sent,
                    Err(error) if error.is_cancelled() => 0,
                    Err(error) => return Err(error),
                };
                assert_eq!(all, Vec::from_iter(0..sent));
                Ok(finished)
            })?;
            Ok(finished)
        })
    });
}

/// Polling operations that never succeed.
const LOOPS: usize = 9;

fn try_in_one_way(way: usize, tx: &Sender<u8>, rx: &Receiver<u8>) -> Result<()> {
    let mut borrowed = Vec::new();
    let failed = match way {
        0 => rx.try_recv().map(drop).map_err(crate::Error::from),
        1 => tx.try_send(1).map_err(crate::Error::from),
        2 => rx.try_iter().next().map_or(Ok(()), |value| value.map(drop)),
        3 => rx.recv_timeout(Duration::ZERO).map(drop).map_err(crate::Error::from),
        4 => tx.send_deadline(1, time::now()).map_err(crate::Error::from),
        5 => crate::select! { recv(rx) -> _ => panic!("nobody sends"), default => () },
        6 => {
            crate::select! { recv(rx) -> _ => panic!(), send(tx, 1) -> _ => panic!(), default => () }
        }
        7 => {
            crate::select! { recv(rx) -> _ => panic!("nobody sends"), timeout(Duration::ZERO) => () }
        }
        _ => rx
            .recv_many(&mut borrowed, 0)
            .and_then(|_| after(LONG).try_recv())
            .map(drop)
            .map_err(crate::Error::from),
    };
    match failed {
        Err(error) if matches!(error.kind(), ErrorKind::WouldWait | ErrorKind::TimedOut) => Ok(()),
        other => other,
    }
}

#[test]
fn a_loop_of_failing_attempts_ends_with_its_budget() {
    for way in 0..LOOPS {
        let budget = Budget { ops: 1_000, ..Budget::UNLIMITED };
        let rt = Runtime::builder().deterministic(1).budget(budget).build().unwrap();
        let rounds = AtomicU64::new(0);
        let outcome: Result<()> = rt.run(|_| {
            let (tx, rx) = channel(0);
            loop {
                rounds.fetch_add(1, Ordering::Relaxed);
                try_in_one_way(way, &tx, &rx)?;
            }
        });
        assert!(matches!(outcome.unwrap_err().kind(), ErrorKind::BudgetExceeded(_)), "way {way}");
        assert!((500..=1_001).contains(&rounds.into_inner()), "way {way}");
    }
}

#[test]
fn a_loop_of_failing_attempts_lets_others_run_and_is_cancelled() {
    for way in 0..LOOPS {
        let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
        let outcome = rt.run(|cx| {
            let (tx, rx) = channel(0);
            cx.nursery(|n| {
                let busy = n.spawn(|_| -> Result<()> {
                    loop {
                        try_in_one_way(way, &tx, &rx)?;
                    }
                })?;
                // On the only worker: this goes on if the other lets it.
                pause(cx, 20)?;
                busy.cancel();
                assert!(busy.join().unwrap_err().is_cancelled(), "way {way}");
                Ok(())
            })
        });
        outcome.unwrap();
    }
}
