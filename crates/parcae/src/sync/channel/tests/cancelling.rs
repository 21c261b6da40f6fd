//! Cancelled and timed-out operations have no effect.

use super::*;
use std::time::Duration;

/// Runs a victim beside its partner and cancels it after `turns`, for all `turns` until it ends by
/// itself before that: so it is cancelled at every one of its wait points, and between them.
pub(crate) fn at_every_point(seed: u64, scenario: impl Fn(u64) -> Result<bool>) -> Result<()> {
    for turns in 0..200 {
        if scenario(turns + seed % 3)? {
            return Ok(());
        }
    }
    panic!("it never ended by itself");
}

// rule: S4-KIND-6, S4-WAIT-8
#[test]
fn a_sender_cancelled_at_any_point_keeps_what_it_did_not_send() {
    deterministic(200, |cx, seed| {
        for capacity in [0, 1, 2] {
            at_every_point(seed, |turns| {
                let (tx, rx) = channel(capacity);
                let (sent, got, finished) = cx.nursery(|n| {
                    let sender = n.spawn(move |_| {
                        let mut kept = None;
                        for i in 0..6 {
                            if let Err(error) = tx.send(i) {
                                assert!(error.is_cancelled());
                                kept = Some(error.into_inner());
                                break;
                            }
                        }
                        Ok(kept)
                    })?;
                    let receiver = n.spawn(|_| rx.iter().collect::<Result<Vec<i32>>>())?;
                    pause(cx, turns)?;
                    let finished = sender.is_finished();
                    sender.cancel();
                    // One that has not started has sent nothing.
                    let kept = match sender.join() {
                        Ok(kept) => kept,
                        Err(error) if error.is_cancelled() => Some(0),
                        Err(error) => return Err(error),
                    };
                    Ok((kept.unwrap_or(6), receiver.join()?, finished))
                })?;
                assert_eq!(got, (0..sent).collect::<Vec<_>>());
                Ok(finished)
            })?;
        }
        Ok(())
    });
}

#[test]
fn a_receiver_cancelled_at_any_point_takes_nothing_with_it() {
    deterministic(200, |cx, seed| {
        for capacity in [0, 1, 2] {
            at_every_point(seed, |turns| {
                let (tx, rx) = channel(capacity);
                let finished = cx.nursery(|n| {
                    let (heir, log) = (rx.clone(), std::sync::Mutex::new(Vec::new()));
                    let log = std::sync::Arc::new(log);
                    let mine = std::sync::Arc::clone(&log);
                    let victim = n.spawn(move |_| {
                        for _ in 0..4 {
                            match rx.recv() {
                                Ok(value) => mine.lock().unwrap().push(value),
                                Err(error) => {
                                    assert!(error.is_cancelled());
                                    break;
                                }
                            }
                        }
                        Ok(())
                    })?;
                    n.spawn(move |_| (0..6).try_for_each(|i| Ok(tx.send(i)?)))?;
                    pause(cx, turns)?;
                    let finished = victim.is_finished();
                    victim.cancel();
                    let _ = victim.join();
                    let mut all = std::mem::take(&mut *log.lock().unwrap());
                    for value in heir {
                        all.push(value?);
                    }
                    assert_eq!(all, (0..6).collect::<Vec<_>>());
                    Ok(finished)
                })?;
                Ok(finished)
            })?;
        }
        Ok(())
    });
}

// rule: S0-CHECK-3, S4-KIND-5
#[test]
fn operations_of_a_cancelled_task_do_not_start_unless_shielded() {
    everywhere(|cx, _| {
        let (tx, rx) = channel(2);
        let outcome = cx.nursery(|n| {
            n.cancel();
            for error in [tx.send(1).unwrap_err(), tx.try_send(1).unwrap_err()] {
                assert!(error.is_cancelled() && error.into_inner() == 1);
            }
            assert!(rx.recv().unwrap_err().is_cancelled());
            assert!(rx.is_empty());
            cx.shield(|| tx.send(2))?;
            assert_eq!(cx.shield(|| rx.recv())?, 2);
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

#[test]
fn timeouts_have_no_effect_and_waits_end_in_virtual_time() {
    deterministic(100, |cx, _| {
        let (tx, rx) = channel(1);
        assert!(rx.recv_timeout(Duration::from_secs(3_600)).unwrap_err().is_timeout());
        assert!(rx.recv_timeout(Duration::ZERO).unwrap_err().is_timeout());
        tx.send(1)?;
        let late = tx.send_timeout(2, Duration::from_secs(3_600)).unwrap_err();
        assert!(late.is_timeout());
        assert!(matches!(crate::Error::from(late).kind(), ErrorKind::TimedOut));
        assert_eq!((rx.recv()?, rx.len()), (1, 0));
        cx.nursery(|n| {
            n.spawn(|cx| {
                cx.sleep(Duration::from_secs(60))?;
                Ok(tx.send(3)?)
            })?;
            assert!(rx.recv_timeout(Duration::from_secs(59)).unwrap_err().is_timeout());
            assert_eq!(rx.recv_timeout(Duration::from_secs(59))?, 3);
            Ok(())
        })
    });
}

#[test]
fn a_timeout_against_a_hand_off_loses_nothing() {
    everywhere(|cx, seed| {
        let (tx, rx) = channel(0);
        let got = cx.nursery(|n| {
            let receiver = n.spawn(move |_| {
                let mut got = Vec::new();
                loop {
                    match rx.recv_timeout(Duration::from_micros(1 + seed % 40)) {
                        Ok(value) => got.push(value),
                        Err(error) if error.is_timeout() => {}
                        Err(_) => return Ok(got),
                    }
                }
            })?;
            n.spawn(move |cx| {
                for i in 0..10 {
                    let mut value = i;
                    while let Err(error) = tx.send_timeout(value, Duration::from_micros(seed % 30))
                    {
                        assert!(error.is_timeout());
                        value = error.into_inner();
                        cx.yield_now()?;
                    }
                }
                Ok(())
            })?;
            receiver.join()
        })?;
        assert_eq!(got, (0..10).collect::<Vec<_>>());
        Ok(())
    });
}

// rule: S4-WAIT-7
#[test]
fn a_cancelled_waiter_passes_the_turn_to_the_next() {
    deterministic(200, |cx, seed| {
        let (tx, rx) = channel(0);
        cx.nursery(|n| {
            let first = n.spawn(|_| Ok(rx.recv()?))?;
            while tx.shared().core.waiting().1 < 1 {
                cx.yield_now()?;
            }
            let second = n.spawn(|_| Ok(rx.recv()?))?;
            pause(cx, seed % 4)?;
            first.cancel();
            pause(cx, seed / 4 % 4)?;
            tx.send(5)?;
            // The first has it if it was served before it noticed; otherwise the second has.
            match first.join() {
                Ok(value) => {
                    assert_eq!(value, 5);
                    tx.send(6)?;
                    assert_eq!(second.join()?, 6);
                }
                Err(error) => {
                    assert!(error.is_cancelled());
                    assert_eq!(second.join()?, 5);
                }
            }
            assert_eq!(tx.shared().core.waiting(), (0, 0));
            Ok(())
        })
    });
}

#[test]
fn a_task_that_panics_does_not_wait_in_its_destructors() {
    struct Sends(Sender<u8>, std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl Drop for Sends {
        fn drop(&mut self) {
            let error = self.0.send(1).unwrap_err();
            self.1.store(!error.is_closed(), std::sync::atomic::Ordering::Relaxed);
        }
    }
    everywhere(|cx, _| {
        let (tx, rx) = channel(0);
        let told = std::sync::Arc::default();
        let sends = Sends(tx, std::sync::Arc::clone(&told));
        let outcome = cx.nursery(|n| {
            n.spawn(move |_| -> Result<()> {
                let _sends = sends;
                std::panic::resume_unwind(Box::new("gone"))
            })?;
            Ok(())
        });
        assert!(outcome.unwrap_err().is_panic());
        drop(rx);
        assert!(told.load(std::sync::atomic::Ordering::Relaxed));
        Ok(())
    });
}
