//! Async ends: any executor, any waker, dropped at any time.

use super::*;
use crate::block_on;
use crate::channel::oneshot;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// An executor made by hand: polls on this thread, and parks it in between.
fn run_here<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

fn is_send<T: Send>(value: T) -> T {
    value
}

/// Tasks at one end, another executor at the other: each value arrives once, in order.
#[test]
fn tasks_and_async_code_talk() {
    let rt = crate::support::runtime(2);
    for capacity in [0, 1, 16] {
        let ((to, there), (from, back)) = (channel(capacity), channel(capacity));
        let echo = rt.spawn(move |_| {
            for value in &there {
                from.send(value?)?;
            }
            Ok(())
        });
        run_here(async {
            for i in 0..500_u32 {
                is_send(to.send_async(i)).await.unwrap();
                assert_eq!(is_send(back.recv_async()).await.unwrap(), i);
            }
            drop(to);
            assert!(back.recv_async().await.unwrap_err().is_closed());
        });
        echo.unwrap().join().unwrap();
    }
}

/// Both ends async, under many seeds, several of each: none is lost, each sender's values in order.
#[test]
fn async_ends_meet_each_other() {
    everywhere(|cx, seed| {
        for capacity in [0, 1, 3] {
            let (tx, rx) = channel(capacity);
            let mut all = cx.nursery(|n| {
                let mut receivers = Vec::new();
                for sender in 0..3_u64 {
                    let tx = tx.clone();
                    n.spawn(move |cx| {
                        for i in 0..10 {
                            pause(cx, (seed + sender + i) % 3)?;
                            block_on(tx.send_async(sender * 100 + i))??;
                        }
                        Ok(())
                    })?;
                }
                for receiver in 0..2_u64 {
                    let rx = rx.clone();
                    receivers.push(n.spawn(move |cx| {
                        let mut got = Vec::new();
                        while let Ok(value) = block_on(rx.recv_async())? {
                            got.push(value);
                            pause(cx, (seed / 3 + receiver) % 2)?;
                        }
                        Ok(got)
                    })?);
                }
                drop((tx, rx));
                let mut all = Vec::new();
                for receiver in receivers {
                    let got = receiver.join()?;
                    for sender in 0..3 {
                        let own = got.iter().filter(|&&value| value / 100 == sender);
                        assert!(own.is_sorted(), "{got:?}");
                    }
                    all.extend(got);
                }
                Ok(all)
            })?;
            all.sort_unstable();
            let sent = (0..3).flat_map(|sender| (0..10).map(move |i| sender * 100 + i));
            assert_eq!(all, sent.collect::<Vec<u64>>());
        }
        Ok(())
    });
}

/// A task that awaits is cancelled after each number of turns: a value that it did not get is there
/// for the next receiver, and one that it did not send is not.
#[test]
fn a_cancelled_future_loses_no_value() {
    deterministic(150, |cx, seed| {
        for capacity in [0, 1] {
            cancelling::at_every_point(seed, |turns| {
                let ((tx, rx), got) = (channel(capacity), std::sync::Mutex::new(Vec::new()));
                let (taken, finished) = cx.nursery(|n| {
                    let (theirs, got) = (rx.clone(), &got);
                    let receiver = n.spawn(move |_| {
                        for _ in 0..4 {
                            let value = block_on(theirs.recv_async())??;
                            got.lock().unwrap().push(value);
                        }
                        Ok(())
                    })?;
                    let sender = n.spawn(move |_| {
                        (0..4).try_for_each(|i: u32| Ok(block_on(tx.send_async(i))??))
                    })?;
                    pause(cx, turns)?;
                    let finished = receiver.is_finished();
                    receiver.cancel();
                    if let Err(error) = receiver.join() {
                        assert!(error.is_cancelled(), "{error}");
                    }
                    let mut taken = std::mem::take(&mut *got.lock().unwrap());
                    while taken.len() < 4 {
                        taken.push(rx.recv()?);
                    }
                    sender.join()?;
                    Ok((taken, finished))
                })?;
                assert_eq!(taken, [0, 1, 2, 3]);
                Ok(finished)
            })?;
        }
        Ok(())
    });
}

/// A dropped future leaves no waiter, and a receive leaves the value.
#[test]
fn a_dropped_future_leaves_no_waiter() {
    let (count, waker) = Count::new();
    let (tx, rx) = channel::<Arc<()>>(1);
    let value = Arc::new(());
    let mut receive = rx.recv_async();
    assert!(poll(&mut receive, &waker).is_pending());
    assert_eq!(rx.shared().core.waiting(), (0, 1));
    tx.send(Arc::clone(&value)).unwrap();
    assert_eq!(count.get(), 1);
    drop(receive); // woken, and dropped before it was polled
    assert_eq!((rx.shared().core.waiting(), rx.len()), ((0, 0), 1), "the value is still there");
    let mut send = tx.send_async(Arc::clone(&value));
    assert!(poll(&mut send, &waker).is_pending());
    assert_eq!((rx.shared().core.waiting(), Arc::strong_count(&value)), ((1, 0), 3));
    drop(send);
    assert_eq!((rx.shared().core.waiting(), Arc::strong_count(&value)), ((0, 0), 2));
    // One that is dropped after its value was received has sent it.
    let mut send = tx.send_async(Arc::clone(&value));
    assert!(poll(&mut send, &waker).is_pending());
    drop(rx.recv().unwrap());
    drop(send);
    drop(rx.recv().unwrap());
    assert_eq!((rx.len(), Arc::strong_count(&value), Arc::strong_count(&count)), (0, 1, 2));
}

/// The waker of the last poll is woken, whichever it is; a poll without need changes nothing.
#[test]
fn the_last_waker_is_woken() {
    let ((old, old_waker), (new, new_waker)) = (Count::new(), Count::new());
    let (tx, rx) = channel(0);
    let (mut receive, mut send) = (rx.recv_async(), tx.send_async(5));
    for _ in 0..3 {
        assert!(poll(&mut receive, &old_waker).is_pending());
    }
    assert!(poll(&mut receive, &new_waker).is_pending());
    assert!(poll(&mut send, &old_waker).is_pending());
    assert_eq!((old.get(), new.get()), (0, 1), "a sender is there");
    assert!(poll(&mut send, &new_waker).is_pending());
    let Poll::Ready(Ok(5)) = poll(&mut receive, &new_waker) else { panic!("not received") };
    assert_eq!(old.get(), 0);
    assert!(new.get() >= 2, "the sender is told");
    let Poll::Ready(Ok(())) = poll(&mut send, &old_waker) else { panic!("not sent") };
}

#[test]
fn closing_ends_both_and_gives_the_value_back() {
    let (count, waker) = Count::new();
    let (tx, rx) = channel(1);
    tx.send(1).unwrap();
    let mut send = tx.send_async(2);
    assert!(poll(&mut send, &waker).is_pending());
    rx.close();
    assert_eq!(count.get(), 1);
    let Poll::Ready(Err(error)) = poll(&mut send, &waker) else { panic!("closed") };
    assert!(error.is_closed());
    assert_eq!(error.into_inner(), 2);
    assert_eq!(run_here(rx.recv_async()).unwrap(), 1, "the rest is received");
    assert!(run_here(rx.recv_async()).unwrap_err().is_closed());
    let (answer, answered) = oneshot::<u8>();
    let mut receive = answered.recv_async();
    assert!(poll(&mut receive, &waker).is_pending());
    drop(answer);
    assert_eq!(count.get(), 2);
    assert!(matches!(poll(&mut receive, &waker), Poll::Ready(Err(_))));
    let (answer, answered) = oneshot();
    answer.send(7).unwrap();
    assert_eq!(run_here(answered.recv_async()).unwrap(), 7);
}

/// On a task a receive that does not wait is a checkpoint, and is charged.
#[test]
fn a_task_pays_for_what_it_awaits() {
    let budget = crate::Budget::UNLIMITED.with_channel_ops(10);
    let rt = Runtime::builder().deterministic(1).budget(budget).build().unwrap();
    let outcome = rt.run(|_| {
        let (tx, rx) = channel(1);
        loop {
            block_on(tx.send_async(1))??;
            block_on(rx.recv_async())??;
        }
        #[allow(unreachable_code)]
        Ok(())
    });
    assert!(matches!(outcome.unwrap_err().kind(), crate::ErrorKind::BudgetExceeded(_)));
}
