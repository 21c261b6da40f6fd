//! Operations of the other kinds of channels, cancelled at each of their wait points: they have no
//! effect, and leave no waiter behind.

use super::cancelling::at_every_point;
use super::*;
use std::sync::Mutex;
use std::time::Duration;

/// Spawns a victim, cancels it after `turns`, and says whether it had ended by itself before that.
fn cancel_after<'scope>(
    cx: &Cx,
    n: &'scope Nursery<'scope, '_>,
    turns: u64,
    victim: impl FnOnce(&Cx) -> Result<()> + Send + 'scope,
) -> Result<bool> {
    let victim = n.spawn(victim)?;
    pause(cx, turns)?;
    let finished = victim.is_finished();
    victim.cancel();
    match victim.join() {
        Err(error) if !error.is_cancelled() => Err(error),
        _ => Ok(finished),
    }
}

#[test]
fn a_oneshot_keeps_its_value_for_the_next_who_asks() {
    deterministic(200, |cx, seed| {
        at_every_point(seed, |turns| {
            let (tx, rx) = oneshot();
            let got = Mutex::new(None);
            cx.nursery(|n| {
                n.spawn(move |cx| {
                    pause(cx, 3)?;
                    Ok(tx.send(7)?)
                })?;
                let finished = cancel_after(cx, n, turns, |_| {
                    *got.lock().unwrap() = Some(rx.recv()?);
                    Ok(())
                })?;
                let value = got.lock().unwrap().take();
                assert_eq!(value.map_or_else(|| rx.recv(), Ok)?, 7);
                assert!(rx.recv().unwrap_err().is_closed(), "once");
                Ok(finished)
            })
        })
    });
}

#[test]
fn a_subscriber_goes_on_where_it_was() {
    deterministic(200, |cx, seed| {
        at_every_point(seed, |turns| {
            let (tx, mut rx) = broadcast(8);
            let mut other = rx.clone();
            let mut got = Vec::new();
            cx.nursery(|n| {
                n.spawn(move |cx| {
                    for i in 0..4 {
                        cx.yield_now()?;
                        tx.send(i)?;
                    }
                    Ok(())
                })?;
                let shared = Mutex::new((&mut rx, &mut got));
                let finished = cx.nursery(|n| {
                    cancel_after(cx, n, turns, |_| {
                        // No other task wants the lock before this one has ended.
                        let (rx, got) = &mut *shared.lock().unwrap();
                        for _ in 0..3 {
                            got.push(rx.recv()?);
                        }
                        Ok(())
                    })
                })?;
                while let Ok(value) = rx.recv() {
                    got.push(value);
                }
                assert_eq!(got, [0, 1, 2, 3]);
                assert_eq!(other.recv()?, 0, "another has its own place");
                Ok(finished)
            })
        })
    });
}

#[test]
fn a_watcher_sees_the_newest_after_a_wait_that_was_given_up() {
    deterministic(200, |cx, seed| {
        at_every_point(seed, |turns| {
            let (level, watcher) = watch(0);
            let watcher = Mutex::new((watcher, 0));
            cx.nursery(|n| {
                n.spawn(move |cx| {
                    for i in 1..=4 {
                        cx.yield_now()?;
                        level.set(i);
                    }
                    Ok(())
                })?;
                let finished = cancel_after(cx, n, turns, |_| {
                    let (watcher, last) = &mut *watcher.lock().unwrap();
                    for _ in 0..2 {
                        match watcher.changed() {
                            Ok(value) => *last = *value,
                            Err(error) if error.is_closed() => break, // the newest was the last
                            Err(error) => return Err(error.into()),
                        }
                    }
                    Ok(())
                })?;
                let (watcher, last) = &mut *watcher.lock().unwrap();
                while let Ok(value) = watcher.changed() {
                    assert!(*value > *last, "nothing twice");
                    *last = *value;
                }
                assert_eq!(*last, 4, "the last is not missed");
                Ok(finished)
            })
        })
    });
}

#[test]
fn a_borrower_leaves_the_items_to_others() {
    deterministic(200, |cx, seed| {
        at_every_point(seed, |turns| {
            let pool = Pool::new(1, || Ok(0_u32));
            let finished = cx.nursery(|n| {
                n.spawn(|cx| {
                    for _ in 0..3 {
                        let mut item = pool.borrow()?;
                        cx.yield_now()?;
                        *item += 1;
                    }
                    Ok(())
                })?;
                cancel_after(cx, n, turns, |cx| {
                    for _ in 0..2 {
                        let _item = pool.borrow()?;
                        cx.yield_now()?;
                    }
                    Ok(())
                })
            })?;
            assert_eq!((pool.available(), *pool.borrow()?), (1, 3), "one item, and its permit");
            Ok(finished)
        })
    });
}

#[test]
fn a_send_with_a_timeout_is_given_up_as_a_whole() {
    deterministic(200, |cx, seed| {
        at_every_point(seed, |turns| {
            let (tx, rx) = channel(0);
            let kept = Mutex::new(Vec::new());
            let (got, finished) = cx.nursery(|n| {
                let receiver = n.spawn(|cx| {
                    let mut got = Vec::new();
                    while let Ok(value) = rx.recv() {
                        got.push(value);
                        cx.yield_now()?;
                    }
                    Ok(got)
                })?;
                let (kept, tx) = (&kept, tx);
                let finished = cancel_after(cx, n, turns, move |_| {
                    for i in 0..4 {
                        let time = Duration::from_micros(1 + seed % 3);
                        if let Err(error) = tx.send_timeout(i, time) {
                            kept.lock().unwrap().push(error.into_inner());
                        }
                    }
                    Ok(())
                })?;
                Ok((receiver.join()?, finished))
            })?;
            let mut all = kept.into_inner().unwrap();
            all.extend(got);
            all.sort_unstable();
            // One that has not started has done neither.
            assert!(all == [0, 1, 2, 3] || all.is_empty(), "each here or there: {all:?}");
            Ok(finished)
        })
    });
}
