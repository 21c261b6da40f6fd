//! Two tasks that are forced onto two workers: their waits end while they look, while they park,
//! and while they are parked.

use super::*;
use crate::base::rng::Rng;
use std::sync::atomic::{AtomicBool, Ordering};

const ROUNDS: usize = 3_000;

/// Runs both ends of a conversation on two workers. Each has a pause that it makes now and then,
/// about as long as a task looks before it parks.
fn apart(
    asks: impl FnOnce(&dyn Fn()) -> Result<()> + Send,
    answers: impl FnOnce(&dyn Fn()) -> Result<()> + Send,
) {
    fn pausing(seed: u64) -> impl Fn() {
        let rng = Rng::new(seed, 0);
        move || {
            if rng.below(4) == 0 {
                (0..rng.below(200)).for_each(|_| std::hint::spin_loop());
            }
        }
    }
    let started = AtomicBool::new(false);
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|_| {
                started.store(true, Ordering::Release);
                answers(&pausing(1))
            })?;
            while !started.load(Ordering::Acquire) {
                std::thread::yield_now(); // keeps this worker: the other task starts elsewhere
            }
            asks(&pausing(2))
        })
    })
    .unwrap();
}

/// Questions and answers over two channels arrive once each and in order.
#[test]
fn round_trips_between_two_workers() {
    for capacity in [0, 1, 2] {
        let ((ping, pinged), (pong, ponged)) = (channel(capacity), channel(capacity));
        let asks = move |pause: &dyn Fn()| -> Result<()> {
            for i in 0..ROUNDS {
                ping.send(i)?;
                pause();
                assert_eq!(ponged.recv()?, i);
            }
            Ok(())
        };
        let answers = move |pause: &dyn Fn()| -> Result<()> {
            for (i, value) in pinged.iter().enumerate() {
                let value = value?;
                assert_eq!(value, i);
                pause();
                pong.send(value)?;
            }
            Ok(())
        };
        apart(asks, answers);
    }
}

/// One way, so that the receiver waits for values and the sender for room.
#[test]
fn streams_between_two_workers() {
    for capacity in [0, 1, 3] {
        let (tx, rx) = channel(capacity);
        let sends = move |pause: &dyn Fn()| -> Result<()> {
            (0..ROUNDS).try_for_each(|i| {
                pause();
                Ok(tx.send(i)?)
            })
        };
        let receives = move |pause: &dyn Fn()| -> Result<()> {
            for expected in 0..ROUNDS {
                pause();
                assert_eq!(rx.recv()?, expected);
            }
            rx.recv().unwrap_err();
            Ok(())
        };
        apart(sends, receives);
    }
}

/// The reply to each request comes over a oneshot of its own.
#[test]
fn requests_between_two_workers() {
    let (ask, asked) = channel::<(usize, OneSender<usize>)>(1);
    let asks = move |pause: &dyn Fn()| -> Result<()> {
        for i in 0..ROUNDS {
            let (answer, answered) = oneshot();
            ask.send((i, answer))?;
            pause();
            assert_eq!(answered.recv()?, 2 * i);
        }
        Ok(())
    };
    let answers = move |pause: &dyn Fn()| -> Result<()> {
        for request in &asked {
            let (i, answer) = request?;
            pause();
            answer.send(2 * i)?;
        }
        Ok(())
    };
    apart(asks, answers);
}
