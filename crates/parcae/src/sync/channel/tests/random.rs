//! Random mixes of everything, under many seeds: nothing is lost, nothing comes twice, and each
//! sender's values come in order.

use super::*;
use crate::base::rng::Rng;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A value with a name. Counts how many there are.
struct Value<'l> {
    sender: usize,
    number: usize,
    live: &'l AtomicI64,
}

impl<'l> Value<'l> {
    fn new(sender: usize, number: usize, live: &'l AtomicI64) -> Value<'l> {
        live.fetch_add(1, Ordering::Relaxed);
        Value { sender, number, live }
    }
}

impl Drop for Value<'_> {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Log {
    sent: Mutex<BTreeSet<(usize, usize)>>,
    /// Of each receiver, in order.
    got: Mutex<Vec<Vec<(usize, usize)>>>,
}

fn send<'l>(cx: &Cx, rng: &Rng, tx: &Sender<Value<'l>>, value: Value<'l>) -> bool {
    let outcome = match rng.below(4) {
        0 => tx.try_send(value),
        1 => tx.send_timeout(value, Duration::from_micros(rng.below(30) as u64)),
        _ => tx.send(value),
    };
    let _ = pause(cx, rng.below(3) as u64);
    outcome.is_ok()
}

fn receive<'l>(cx: &Cx, rng: &Rng, rx: &Receiver<Value<'l>>) -> Result<Value<'l>, RecvError> {
    let outcome = match rng.below(4) {
        0 => rx.try_recv(),
        1 => rx.recv_timeout(Duration::from_micros(rng.below(30) as u64)),
        _ => rx.recv(),
    };
    let _ = pause(cx, rng.below(3) as u64);
    outcome
}

fn mix(cx: &Cx, seed: u64) -> Result<()> {
    let rng = Rng::new(seed, 77);
    let (live, log) = (AtomicI64::new(0), Log::default());
    let capacity = [0, 0, 1, 2, 5, UNBOUNDED][rng.below(6)];
    let (tx, rx) = channel(capacity);
    let (senders, receivers) = (1 + rng.below(4), 1 + rng.below(4));
    let (closes, cancels) = (rng.below(3) == 0, rng.below(4));
    let rest = rx.clone();
    // Failures of children are looked at by hand.
    let outcome = cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
        let mut tasks = Vec::new();
        for sender in 0..senders {
            let (tx, log, live) = (tx.clone(), &log, &live);
            let task = n.spawn(move |cx| {
                let rng = Rng::new(seed, sender as u64);
                for number in 0..12 {
                    let value = Value::new(sender, number, live);
                    if send(cx, &rng, &tx, value) {
                        log.sent.lock().unwrap().insert((sender, number));
                    }
                }
                Ok(())
            })?;
            tasks.push((false, task));
        }
        for receiver in 0..receivers {
            let (rx, log) = (rx.clone(), &log);
            let task = n.spawn(move |cx| {
                let rng = Rng::new(seed, 1_000 + receiver as u64);
                let mut got = Vec::new();
                loop {
                    match receive(cx, &rng, &rx) {
                        Ok(value) => got.push((value.sender, value.number)),
                        Err(error) if error.is_closed() || error.is_cancelled() => break,
                        Err(_) => {}
                    }
                }
                log.got.lock().unwrap().push(got);
                Ok(())
            })?;
            tasks.push((true, task));
        }
        drop((tx, rx));
        for _ in 0..cancels {
            pause(cx, rng.below(8) as u64)?;
            tasks.swap_remove(rng.below(tasks.len())).1.cancel();
            if tasks.is_empty() {
                break;
            }
        }
        pause(cx, rng.below(20) as u64)?;
        if closes {
            rest.close();
        }
        // If all receivers were cancelled, senders would wait for ever.
        while tasks.iter().any(|(_, task)| !task.is_finished()) {
            if !tasks.iter().any(|(receives, task)| *receives && !task.is_finished()) {
                rest.close();
            }
            cx.yield_now()?;
        }
        Ok(())
    });
    assert!(outcome.is_ok() || outcome.unwrap_err().is_cancelled());
    let mut left = Vec::new();
    while let Ok(value) = rest.try_recv() {
        left.push((value.sender, value.number));
    }
    drop(rest);
    assert_eq!(live.load(Ordering::Relaxed), 0, "every value was dropped");
    let sent = log.sent.into_inner().unwrap();
    let mut got = log.got.into_inner().unwrap();
    got.push(left);
    let mut all = BTreeSet::new();
    for of_one in &got {
        for sender in 0..senders {
            let numbers = of_one.iter().filter(|(of, _)| *of == sender);
            assert!(numbers.is_sorted(), "FIFO for each sender: {of_one:?}");
        }
        for &value in of_one {
            assert!(all.insert(value), "twice: {value:?}");
        }
    }
    assert_eq!(all, sent);
    Ok(())
}

#[test]
fn nothing_is_lost_nor_doubled() {
    deterministic(2_000, mix);
}

#[test]
fn nothing_is_lost_nor_doubled_on_threads() {
    threads(150, mix);
}
