//! Channels for one value, for all, and for the newest.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[test]
fn a_oneshot_delivers_once_or_says_that_it_will_not() {
    everywhere(|cx, seed| {
        let (tx, rx) = oneshot();
        cx.nursery(|n| {
            n.spawn(move |cx| {
                pause(cx, seed % 4)?;
                Ok(tx.send(5)?)
            })?;
            assert_eq!(rx.recv()?, 5);
            assert!(rx.recv().unwrap_err().is_closed());
            Ok(())
        })?;
        let (tx, rx) = oneshot::<u8>();
        drop(tx);
        assert!(rx.recv().unwrap_err().is_closed());
        let (tx, rx) = oneshot();
        assert!(rx.recv_timeout(Duration::from_micros(3)).unwrap_err().is_timeout());
        assert!(rx.try_recv().is_err() && !tx.is_closed());
        drop(rx);
        assert!(tx.is_closed());
        assert_eq!(tx.send(6).unwrap_err().into_inner(), 6);
        let (tx, rx) = oneshot();
        tx.send(7)?;
        let got = crate::select! { recv(rx.as_receiver()) -> v => v?, default => 0 }?;
        assert_eq!(got, 7);
        Ok(())
    });
}

/// A select, a future and `as_receiver` make a channel of a oneshot: at any time, and for any fate
/// of its ends.
#[test]
fn a_oneshot_that_is_used_as_a_channel_delivers_all_the_same() {
    everywhere(|cx, seed| {
        for (bridge_first, sends) in [(true, true), (true, false), (false, true), (false, false)] {
            let value = Arc::new(seed);
            let (tx, rx) = oneshot::<Arc<u64>>();
            if bridge_first {
                assert!(!rx.as_receiver().try_recv().unwrap_err().is_closed());
                assert!(!tx.is_closed());
            }
            if sends {
                assert!(tx.send(Arc::clone(&value)).is_ok());
            } else {
                drop(tx);
            }
            let theirs = rx.as_receiver().clone();
            match seed % 3 {
                0 => assert_eq!(rx.recv().is_ok(), sends),
                1 => assert_eq!(theirs.recv().is_ok(), sends),
                _ => {
                    drop(rx);
                    assert_eq!(Arc::strong_count(&value), 1 + usize::from(sends));
                    assert_eq!(theirs.recv().is_ok(), sends, "a clone outlives it");
                }
            }
            assert!(theirs.recv().unwrap_err().is_closed());
            drop(theirs);
            assert_eq!(Arc::strong_count(&value), 1, "dropped once");
        }
        // The receiver goes, its clone stays; then that goes as well.
        let (tx, rx) = oneshot();
        let clone = rx.as_receiver().clone();
        drop(rx);
        assert!(!tx.is_closed());
        drop(clone);
        assert!(tx.is_closed());
        assert_eq!(tx.send(3).unwrap_err().into_inner(), 3);
        // A task that waits when another one makes the channel.
        let (tx, rx) = oneshot();
        let got = cx.nursery(|n| {
            let rx = &rx;
            let waits = n.spawn(move |_| Ok(rx.recv().is_ok()))?;
            let asks = n.spawn(move |cx| {
                pause(cx, seed % 3)?;
                Ok(rx.as_receiver().recv().is_ok())
            })?;
            pause(cx, seed % 5)?;
            tx.send(4)?;
            Ok([waits.join()?, asks.join()?])
        })?;
        assert_eq!(got.into_iter().filter(|&got| got).count(), 1, "one of them");
        Ok(())
    });
}

/// The memory of a oneshot is kept by the worker or given back, whichever end goes last, and for
/// values that fit a block and that do not.
#[test]
fn the_value_of_a_oneshot_is_dropped_once_whichever_end_goes_first() {
    fn ends<T>(value: &Arc<u64>, seed: u64, wrap: impl Fn(Arc<u64>) -> T) {
        for _ in 0..100 {
            let (tx, rx) = oneshot();
            match seed % 4 {
                0 => {
                    assert!(tx.send(wrap(Arc::clone(value))).is_ok());
                    drop(rx);
                }
                1 => {
                    drop(rx);
                    assert!(tx.send(wrap(Arc::clone(value))).is_err());
                }
                2 => drop((tx, rx)),
                _ => {
                    assert!(tx.send(wrap(Arc::clone(value))).is_ok());
                    assert!(rx.recv().is_ok() && rx.try_recv().is_err());
                }
            }
        }
        assert_eq!(Arc::strong_count(value), 1);
    }
    everywhere(|_, seed| {
        let value = Arc::new(seed);
        ends(&value, seed, |value| value);
        ends(&value, seed, |value| (value, [0_u64; 40]));
        Ok(())
    });
}

#[test]
fn all_subscribers_see_all_or_know_what_they_missed() {
    everywhere(|cx, seed| {
        let (tx, rx) = broadcast(1 + seed as usize % 5);
        cx.nursery(|n| {
            let subscribers = [0_u64; 3].map(|_| {
                let mut rx = rx.clone();
                n.spawn(move |cx| {
                    let (mut seen, mut missed, mut next) = (0, 0, 0);
                    loop {
                        match rx.recv() {
                            Ok(value) => {
                                assert_eq!(
                                    value, next,
                                    "in order, without a gap that was not reported"
                                );
                                next += 1;
                                seen += 1;
                            }
                            Err(error) => match error.missed() {
                                Some(n) => {
                                    missed += n;
                                    next += n;
                                }
                                None => {
                                    assert!(error.is_closed());
                                    return Ok(seen + missed);
                                }
                            },
                        }
                        pause(cx, (seed + next) % 3)?;
                    }
                })
            });
            drop(rx);
            let other = tx.clone();
            for i in 0..20 {
                let tx = if i % 2 == 0 { &tx } else { &other };
                assert_eq!(tx.send(i)?, tx.subscribers().max(3));
                pause(cx, seed % 3)?;
            }
            drop((tx, other));
            for subscriber in subscribers {
                assert_eq!(subscriber?.join()?, 20, "seen and missed");
            }
            Ok(())
        })
    });
}

#[test]
fn a_subscriber_sees_what_comes_after_it_and_unseen_values_go() {
    let count = Arc::new(());
    let (tx, mut rx) = broadcast(2);
    (0..3).for_each(|_| assert_eq!(tx.send(Arc::clone(&count)).unwrap(), 1));
    assert_eq!(Arc::strong_count(&count), 3, "two are kept");
    let mut late = tx.subscribe();
    assert!(matches!(late.try_recv().unwrap_err().reason(), Reason::WouldWait));
    assert!(late.recv_timeout(Duration::from_millis(1)).unwrap_err().is_timeout());
    assert_eq!(rx.try_recv().unwrap_err().missed(), Some(1));
    drop(rx.try_recv().unwrap());
    drop((rx, late));
    assert_eq!(Arc::strong_count(&count), 1);
    assert_eq!(tx.send(Arc::clone(&count)).unwrap(), 0, "to nobody");
    assert_eq!(Arc::strong_count(&count), 1);
    let mut again = tx.subscribe();
    tx.send(Arc::clone(&count)).unwrap();
    drop(tx);
    assert!(again.recv().is_ok());
    assert!(again.recv().unwrap_err().is_closed());
}

#[test]
fn watchers_see_the_newest_and_never_an_older_one() {
    everywhere(|cx, seed| {
        let (level, watcher) = watch(0_u64);
        cx.nursery(|n| {
            let watchers = [(); 3].map(|()| {
                let mut watcher = watcher.clone();
                n.spawn(move |cx| {
                    let mut last = 0;
                    while let Ok(value) = watcher.changed() {
                        assert!(*value > last);
                        last = *value;
                        pause(cx, seed % 3)?;
                    }
                    Ok(last)
                })
            });
            for i in 1..=10 {
                assert_eq!(*level.set(i), i - 1);
                pause(cx, (seed + i) % 3)?;
            }
            drop(level);
            for watcher in watchers {
                assert_eq!(watcher?.join()?, 10, "the last one is not missed");
            }
            Ok(())
        })
    });
    let (level, mut watcher) = watch(1);
    assert!(!watcher.has_changed());
    assert!(watcher.changed_timeout(Duration::from_millis(1)).unwrap_err().is_timeout());
    let other = level.clone();
    other.set(2);
    drop(other);
    assert!(watcher.has_changed() && !level.watcher().has_changed());
    assert_eq!((*watcher.get(), *level.get(), *watcher.changed().unwrap()), (2, 2, 2));
}

#[test]
fn cancelled_waits_leave_nothing_behind() {
    deterministic(200, |cx, seed| {
        let (tx, rx) = broadcast(4);
        let (level, watcher) = watch(0);
        let ended = AtomicUsize::new(0);
        let outcome = cx.nursery(|n| {
            for _ in 0..2 {
                let (mut rx, mut watcher, ended) = (rx.clone(), watcher.clone(), &ended);
                n.spawn(move |_| {
                    assert!(rx.recv().unwrap_err().is_cancelled());
                    assert!(watcher.changed().unwrap_err().is_cancelled());
                    ended.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            pause(cx, seed % 6)?;
            n.cancel();
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        let mut rx = rx;
        tx.send(1)?;
        level.set(1);
        assert_eq!((rx.recv()?, *watcher.get()), (1, 1));
        Ok(())
    });
}
