//! One operation at a time: what each does, on an empty, a full and a half-full channel.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

// rule: S4-KIND-2
#[test]
fn a_buffer_holds_just_its_capacity_in_order() {
    for capacity in [1, 2, 3, 5, 100] {
        let (tx, rx) = channel(capacity);
        for i in 0..capacity {
            assert_eq!((tx.len(), rx.is_empty()), (i, i == 0));
            tx.try_send(i).unwrap();
        }
        let full = tx.try_send(usize::MAX).unwrap_err();
        assert!(matches!(full.reason(), Reason::WouldWait));
        assert_eq!(full.into_parts().0, usize::MAX);
        for i in 0..capacity {
            assert_eq!(rx.try_recv().unwrap(), i);
        }
        assert!(matches!(rx.try_recv().unwrap_err().reason(), Reason::WouldWait));
        assert_eq!(rx.capacity(), Some(capacity));
    }
    let (tx, rx) = unbounded();
    (0..10_000).for_each(|i| tx.try_send(i).unwrap());
    assert_eq!((rx.capacity(), rx.len()), (None, 10_000));
}

// rule: S0-STATE-3, S0-VYIELD-2, S4-CHAN-2, S4-CHAN-4, S4-KIND-4, S4-WAIT-5
#[test]
fn a_rendezvous_holds_nothing_and_needs_both() {
    let (tx, rx) = channel(0);
    assert!(tx.try_send(1).is_err());
    assert!(rx.try_recv().is_err());
    let late = tx.send_timeout(2, Duration::from_millis(1)).unwrap_err();
    assert!(late.is_timeout() && !late.is_closed() && !late.is_cancelled());
    assert!(rx.try_recv().is_err(), "what timed out is not there");
    everywhere(|cx, _| {
        let (tx, rx) = channel(0);
        let taken = AtomicUsize::new(0);
        cx.nursery(|n| {
            n.spawn(|_| {
                for i in 1..=20 {
                    tx.send(i)?;
                    // Counted after the receive of the same value began, before the next can end.
                    assert!(taken.load(Ordering::SeqCst) + 1 >= i);
                }
                Ok(())
            })?;
            for i in 1..=20 {
                assert_eq!(rx.recv()?, i);
                taken.store(i, Ordering::SeqCst);
            }
            Ok(())
        })
    });
}

// rule: S4-KIND-4
#[test]
fn a_rendezvous_send_does_not_end_before_its_receive_begins() {
    deterministic(300, |cx, seed| {
        let (tx, rx) = channel(0);
        let started = AtomicUsize::new(0);
        cx.nursery(|n| {
            n.spawn(|_| {
                tx.send(())?;
                assert_eq!(started.load(Ordering::SeqCst), 1);
                Ok(())
            })?;
            pause(cx, seed % 7)?;
            started.store(1, Ordering::SeqCst);
            Ok(rx.recv()?)
        })
    });
}

// rule: S4-CHAN-1, S4-KIND-3
#[test]
fn try_operations_meet_a_partner_that_waits() {
    deterministic(100, |cx, _| {
        let (tx, rx) = channel(0);
        cx.nursery(|n| {
            let got = n.spawn(|_| Ok(rx.recv()?))?;
            while tx.try_send(5).is_err() {
                cx.yield_now()?;
            }
            assert_eq!(got.join()?, 5);
            n.spawn(|_| Ok(tx.send(6)?))?;
            let got = loop {
                match rx.try_recv() {
                    Ok(got) => break got,
                    Err(_) => cx.yield_now()?,
                }
            };
            assert_eq!(got, 6);
            Ok(())
        })
    });
}

// rule: S4-KIND-2, S4-PARK-1, S4-WAIT-3, S4-WAKE-1
#[test]
fn those_who_wait_are_served_in_order() {
    deterministic(100, |cx, _| {
        let (tx, rx) = channel(0);
        let order = std::sync::Mutex::new(Vec::new());
        cx.nursery(|n| {
            for i in 0..6 {
                let (order, rx) = (&order, &rx);
                n.spawn(move |_| {
                    let value: i32 = rx.recv()?;
                    order.lock().unwrap().push((i, value));
                    Ok(())
                })?;
                while tx.shared().core.waiting().1 <= i {
                    cx.yield_now()?;
                }
            }
            (0..6).try_for_each(|value| tx.try_send(value))?;
            Ok(())
        })?;
        let mut order = order.into_inner().unwrap();
        order.sort_unstable();
        assert!(order.iter().all(|&(i, value)| i as i32 == value), "{order:?}");
        // And senders, who find their values in the buffer in the order of arrival.
        let (tx, rx) = channel(1);
        cx.nursery(|n| {
            tx.send(0)?;
            for i in 1..6 {
                let tx = &tx;
                n.spawn(move |_| Ok(tx.send(i)?))?;
                while rx.shared().core.waiting().0 < i {
                    cx.yield_now()?;
                }
            }
            (0..6).for_each(|i| assert_eq!(rx.try_recv().unwrap(), i));
            Ok(())
        })
    });
}

#[test]
fn drop_new_gives_back_and_drop_old_makes_room() {
    for capacity in [1, 2, 3, 7] {
        let (tx, rx) = ChannelOpts::bounded(capacity).overflow(Overflow::DropNew).build();
        let refused: Vec<usize> =
            (0..10).filter_map(|i| tx.send(i).err().map(SendError::into_inner)).collect();
        assert_eq!(refused, (capacity..10).collect::<Vec<_>>());
        tx.close();
        assert_eq!(rx.iter().map(Result::unwrap).collect::<Vec<_>>(), Vec::from_iter(0..capacity));

        let (tx, rx) = ChannelOpts::bounded(capacity).overflow(Overflow::DropOld).build();
        (0..10).try_for_each(|i| tx.send(i)).unwrap();
        assert_eq!((rx.len(), rx.dropped()), (capacity, 10 - capacity as u64));
        tx.close();
        let kept = rx.iter().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(kept, Vec::from_iter(10 - capacity..10));
    }
    let (tx, rx) = ChannelOpts::bounded(0).overflow(Overflow::DropOld).build();
    tx.send(1).unwrap();
    assert_eq!((rx.len(), rx.dropped()), (0, 1));
    let (tx, _rx) = ChannelOpts::bounded(0).overflow(Overflow::DropNew).build();
    assert_eq!(tx.send(1).unwrap_err().into_inner(), 1);
}

#[test]
fn dropping_channels_give_to_a_receiver_that_waits() {
    for overflow in [Overflow::DropNew, Overflow::DropOld] {
        deterministic(50, |cx, _| {
            let (tx, rx) = ChannelOpts::bounded(0).overflow(overflow).build();
            cx.nursery(|n| {
                let got = n.spawn(|_| Ok(rx.recv()?))?;
                while tx.shared().core.waiting().1 == 0 {
                    cx.yield_now()?;
                }
                tx.send(9)?;
                assert_eq!(got.join()?, 9);
                assert_eq!(rx.dropped(), 0);
                Ok(())
            })
        });
    }
}

#[test]
fn values_of_any_size_arrive_whole() {
    #[derive(Debug, PartialEq, Clone, Copy)]
    struct Large([u64; 300]);
    let large = |i: u64| Large(std::array::from_fn(|at| i << 32 | at as u64));
    everywhere(|cx, _| {
        for capacity in [0, 1, 4] {
            let (tx, rx) = channel(capacity);
            let (units, units_rx) = channel(capacity);
            cx.nursery(|n| {
                n.spawn(|_| {
                    for i in 0..10 {
                        tx.send(large(i))?;
                        units.send(())?;
                    }
                    Ok(())
                })?;
                for i in 0..10 {
                    assert_eq!(rx.recv()?, large(i));
                    units_rx.recv()?;
                }
                Ok(())
            })?;
        }
        Ok(())
    });
}

/// Counts how often it was dropped; may panic as it is.
struct Counted(Arc<AtomicUsize>, bool);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        if self.1 {
            panic!("dropped");
        }
    }
}

#[test]
fn unread_values_are_dropped_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = || Counted(Arc::clone(&count), false);
    let (tx, rx) = channel(8);
    (0..5).for_each(|_| tx.send(counted()).unwrap());
    drop(rx.recv().unwrap());
    assert_eq!(count.load(Ordering::Relaxed), 1);
    drop(rx);
    assert_eq!(count.load(Ordering::Relaxed), 5, "when the last receiver goes");
    drop(tx.send(counted()).unwrap_err());
    assert_eq!(count.load(Ordering::Relaxed), 6);
    drop(tx);
    assert_eq!(count.load(Ordering::Relaxed), 6);
}

#[test]
fn a_panic_in_a_drop_leaves_the_channel_in_order() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = |panics| Counted(Arc::clone(&count), panics);
    let quietly =
        |f: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
    // Pushed out by a newer one: the send has happened, and its value is there.
    let (tx, rx) = ChannelOpts::bounded(1).overflow(Overflow::DropOld).build();
    tx.send(counted(true)).unwrap();
    assert!(quietly(&mut || tx.send(counted(false)).unwrap()));
    assert_eq!((rx.len(), rx.dropped()), (1, 1));
    drop(rx.recv().unwrap());
    assert_eq!(count.load(Ordering::Relaxed), 2);
    // Several in the buffer when the last receiver goes: all are dropped, and senders are told.
    let (tx, rx) = channel(8);
    [true, false, true, false].into_iter().for_each(|panics| tx.send(counted(panics)).unwrap());
    let mut rx = Some(rx);
    assert!(quietly(&mut || drop(rx.take())));
    assert_eq!(count.load(Ordering::Relaxed), 6);
    assert!(tx.is_closed());
}

#[test]
fn handles_are_counted_and_compared() {
    let (tx, rx) = channel::<u8>(1);
    let (other, _rx) = channel(1);
    let tx2 = tx.clone();
    assert!(tx.same_channel(&tx2) && !tx.same_channel(&other));
    assert!(rx.same_channel(&rx.clone()));
    drop(tx);
    assert!(!rx.is_closed());
    let weak = tx2.downgrade();
    drop(weak.upgrade());
    assert!(!rx.is_closed(), "a weak handle that was upgraded and dropped is not the last");
    drop(tx2);
    assert!(rx.is_closed() && weak.clone().upgrade().is_none());
    let (tx, rx) = channel::<u8>(1);
    let weak = rx.downgrade();
    let again = weak.upgrade().unwrap();
    drop(rx);
    assert!(!tx.is_closed());
    drop(again);
    assert!(tx.is_closed() && weak.upgrade().is_none());
}

#[test]
fn many_tasks_share_a_channel_and_nothing_is_lost() {
    everywhere(|cx, seed| {
        for capacity in [0, 1, 3] {
            let (tx, rx) = channel(capacity);
            let sum = cx.nursery(|n| {
                for sender in 0..4 {
                    let tx = tx.clone();
                    n.spawn(move |cx| {
                        for i in 0..25 {
                            tx.send(sender * 25 + i)?;
                            pause(cx, (seed + i) % 3)?;
                        }
                        Ok(())
                    })?;
                }
                drop(tx);
                let rx = &rx;
                let receivers = (0..3)
                    .map(|_| {
                        n.spawn(move |_| {
                            let mut last = [None; 4];
                            let mut sum = 0;
                            for value in rx {
                                let value = value?;
                                let of_sender = &mut last[value as usize / 25];
                                assert!(*of_sender < Some(value), "FIFO for each sender");
                                *of_sender = Some(value);
                                sum += value;
                            }
                            Ok(sum)
                        })
                    })
                    .collect::<Result<Vec<_>>>()?;
                let mut sum = 0;
                for receiver in receivers {
                    sum += receiver.join()?;
                }
                Ok(sum)
            })?;
            assert_eq!(sum, (0..100).sum::<u64>());
        }
        Ok(())
    });
}
