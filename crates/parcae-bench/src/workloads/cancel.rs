//! `cancel`: 100,000 waiting tasks are cancelled.
//!
//! The clock starts with the call of cancel and stops when it returns (`told`), or when the last
//! task has ended and all joiners have returned (`ended`). With parcae every task is woken, returns
//! through its own frames and releases its stack; tokio drops a future.

use super::parked::check_memory;
use super::runtimes::{self, Futures, TIMEOUT, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::profile::Service;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

pub(super) static CANCEL: Workload = Workload {
    name: "cancel",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("told_w1", "cancel 100,000 waiting tasks, per task; one worker", &TOLD_W1),
        variant(
            "ended_w1",
            "cancel 100,000 waiting tasks, until all have ended, per task; one worker",
            &ENDED_W1,
        ),
        variant(
            "ended_w2",
            "cancel 100,000 waiting tasks, until all have ended, per task; two workers",
            &ENDED_W2,
        ),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "ns/task", better: Better::Lower, sides }
}

static TOLD_W1: [Side; 2] = [
    Side::new(Peer::Parcae, |scale| Ok(parcae(1, scale)?.told)),
    Side::new(Peer::Tokio, |scale| Ok(tokio(1, scale)?.told)),
];
static ENDED_W1: [Side; 2] = ended::<1>();
static ENDED_W2: [Side; 2] = ended::<2>();

const fn ended<const WORKERS: usize>() -> [Side; 2] {
    [
        Side::new(Peer::Parcae, |scale| Ok(parcae(WORKERS, scale)?.ended)),
        Side::new(Peer::Tokio, |scale| Ok(tokio(WORKERS, scale)?.ended)),
    ]
}

/// Nanoseconds per task, since the call of cancel.
struct Times {
    told: f64,
    ended: f64,
}

impl Times {
    fn per(tasks: usize, [told, ended]: [Duration; 2]) -> Times {
        let each = |time: Duration| time.as_nanos() as f64 / tasks as f64;
        Times { told: each(told), ended: each(ended) }
    }
}

fn parcae(workers: usize, scale: &Scale) -> Result<Times, Failure> {
    let tasks = scale.of(100_000);
    check_memory(tasks)?;
    let rt = runtimes::runtime::<Service>(workers)?;
    let waiting = AtomicUsize::new(0);
    let times = rt.run(|cx| {
        let (mut start, mut told) = (Instant::now(), Duration::ZERO);
        let outcome = cx.nursery(|n| {
            for _ in 0..tasks {
                n.spawn(|cx| {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    cx.park()
                })?;
            }
            while waiting.load(Ordering::Relaxed) < tasks && start.elapsed() < TIMEOUT {
                cx.yield_now()?;
            }
            start = Instant::now();
            n.cancel();
            told = start.elapsed();
            Ok(())
        });
        let ended = start.elapsed();
        match outcome {
            Err(error) if error.is_cancelled() && waiting.load(Ordering::Relaxed) == tasks => {
                Ok([told, ended])
            }
            _ => Err(parcae::Error::msg("not all tasks have begun to wait")),
        }
    })?;
    Ok(Times::per(tasks, times))
}

fn tokio(workers: usize, scale: &Scale) -> Result<Times, Failure> {
    let tasks = scale.of(100_000);
    let runtime = Tokio::start(workers)?;
    let times = runtime.run(async move {
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        for _ in 0..tasks {
            let waiting = Arc::clone(&waiting);
            set.spawn(async move {
                waiting.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<()>().await;
            });
        }
        while waiting.load(Ordering::Relaxed) < tasks {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        set.abort_all();
        let told = start.elapsed();
        while set.join_next().await.is_some() {}
        [told, start.elapsed()]
    });
    Ok(Times::per(tasks, times))
}
