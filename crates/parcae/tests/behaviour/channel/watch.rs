//! Watched values and broadcasts: changes in place, waiting for a value, the end of all watchers,
//! and positions of subscribers.

use crate::support::explored;
use parcae::channel::{broadcast, watch};
use parcae::prelude::*;
use parcae::{Result, time};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn no_change_in_place_is_lost() {
    explored(0..60, |rt| {
        let (count, watcher) = watch(0);
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..4 {
                    n.spawn(|cx| {
                        for _ in 0..5 {
                            count.modify(|count| *count += 1);
                            cx.checkpoint()?;
                        }
                        Ok(())
                    })?;
                }
                Ok(())
            })
        })?;
        assert_eq!(*watcher.get(), 20);
        Ok(())
    })
    .unwrap();
    // Between threads, where the copy really races with other changes.
    let (count, watcher) = watch(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..500).for_each(|_| count.modify(|count| *count += 1)));
        }
    });
    assert_eq!(*watcher.get(), 2_000);
}

#[test]
fn a_change_that_is_none_wakes_nobody() {
    let (value, mut watcher) = watch(1);
    assert!(!value.modify_if(|value| {
        *value = 7; // of the copy
        false
    }));
    assert!(!watcher.has_changed() && *value.get() == 1);
    assert!(watcher.changed_timeout(Duration::ZERO).unwrap_err().is_timeout());
    assert!(value.modify_if(|value| {
        *value = 7;
        true
    }));
    assert_eq!(*watcher.changed().unwrap(), 7);
}

/// A change from within a change: the outer one is tried again on the newer value.
#[test]
fn a_change_sees_the_value_that_it_replaces() {
    let (value, _watcher) = watch(1);
    let mut calls = 0;
    value.modify(|copy| {
        calls += 1;
        if calls == 1 {
            value.set(10);
        }
        *copy += 1;
    });
    assert_eq!((*value.get(), calls), (11, 2));
}

#[test]
fn a_value_is_waited_for() {
    explored(0..100, |rt| {
        let (level, watcher) = watch(0);
        rt.run(|cx| {
            cx.nursery(|n| {
                let waiters: Result<Vec<_>> = (0..3)
                    .map(|i| {
                        let mut watcher = watcher.clone();
                        n.spawn(move |_| Ok(*watcher.wait_for(|&level| level >= i * 10)?))
                    })
                    .collect();
                for now in 0..=20 {
                    level.set(now);
                    cx.checkpoint()?;
                }
                for (i, waiter) in (0..).zip(waiters?) {
                    assert!(waiter.join()? >= i * 10);
                }
                Ok(())
            })
        })?;
        // The present value counts, seen or not; a closed one too.
        let mut watcher = watcher;
        watcher.mark_unchanged();
        assert_eq!(*watcher.wait_for(|&level| level == 20)?, 20);
        assert!(!watcher.has_changed());
        drop(level);
        assert_eq!(*watcher.wait_for(|&level| level == 20)?, 20);
        assert!(watcher.wait_for(|&level| level > 20).unwrap_err().is_closed());
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_setter_waits_until_all_watchers_are_gone() {
    explored(0..100, |rt| {
        let (value, watcher) = watch(0);
        rt.run(move |cx| {
            assert_eq!(value.watchers(), 1);
            cx.nursery(|n| {
                for i in 0..3 {
                    let mut watcher = watcher.clone();
                    n.spawn(move |_| {
                        while *watcher.changed()? <= i {}
                        Ok(())
                    })?;
                }
                drop(watcher);
                let value = &value;
                let setter = n.spawn(move |cx| {
                    for now in 1..=3 {
                        value.set(now);
                        cx.sleep(SECOND)?;
                    }
                    Ok(())
                })?;
                value.closed()?;
                assert_eq!(value.watchers(), 0);
                setter.join()
            })?;
            value.closed()?; // at once
            let again = value.watcher();
            assert_eq!(value.watchers(), 1);
            let waits = cx.timeout(SECOND, || value.closed());
            assert!(waits.unwrap_err().is_timed_out());
            drop(again);
            Ok(())
        })
    })
    .unwrap();
    let (value, watcher) = watch(0); // threads
    let dropper = std::thread::spawn(move || drop(watcher));
    value.closed().unwrap();
    dropper.join().unwrap();
}

/// The end of another watcher is no change.
#[test]
fn watchers_do_not_wake_each_other_by_their_end() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    rt.run(|cx| {
        let (value, mut watcher) = watch(0);
        cx.nursery(|n| {
            let other = value.watcher();
            let waiter = n.spawn(move |_| {
                parcae::select! {
                    changed(watcher) -> changed => Ok(*changed?),
                    timeout(SECOND * 5) => Ok(-1),
                }?
            })?;
            cx.sleep(SECOND)?;
            drop(other);
            cx.sleep(SECOND)?;
            assert!(!waiter.is_finished());
            value.set(4);
            assert_eq!(waiter.join()?, 4);
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn subscribers_know_what_is_left_and_start_anew() {
    let (tx, mut rx) = broadcast(3);
    assert!(rx.is_empty());
    for value in 0..5 {
        tx.send(value).unwrap();
    }
    let (clone, mut late) = (rx.clone(), rx.resubscribe());
    assert_eq!((rx.len(), clone.len(), late.len(), tx.subscribers()), (3, 3, 0, 3));
    assert_eq!(rx.recv().unwrap_err().missed(), Some(2));
    assert_eq!((rx.recv().unwrap(), rx.len()), (2, 2));
    tx.send(5).unwrap();
    assert_eq!((rx.len(), late.len(), late.recv().unwrap()), (3, 1, 5));
    assert!(late.recv_deadline(time::now()).unwrap_err().is_timeout());
    drop((clone, late));
    assert_eq!(tx.subscribers(), 1);
}
