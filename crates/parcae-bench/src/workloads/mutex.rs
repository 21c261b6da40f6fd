//! `mutex`: the cost of an uncontended lock, and of a contended one.
//!
//! A free lock is locked and unlocked in a loop. Contenders do the same with one lock, on two
//! workers, and yield after every eighth time, so that all of them take part; the critical section
//! is one addition. The standard library's mutex has a thread for each contender. may has one
//! worker here, and takes part only without contention.

use super::nanos_per;
use super::runtimes::{self, Futures, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::prelude::*;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

pub(super) static MUTEX: Workload = Workload {
    name: "mutex",
    rounds: Rounds { full: 7, quick: 2 },
    variants: &[
        Variant {
            name: "free",
            about: "lock and unlock without contention; one task",
            unit: "ns/lock",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, parcae_free),
                Side::new(Peer::Tokio, tokio_free),
                Side::new(Peer::May, may_free),
                Side::new(Peer::Std, std_free),
            ],
        },
        Variant {
            name: "c2",
            about: "2 contenders for one lock; two workers",
            unit: "ns/lock",
            better: Better::Lower,
            sides: &contended::<2>(),
        },
        Variant {
            name: "c64",
            about: "64 contenders for one lock; two workers",
            unit: "ns/lock",
            better: Better::Lower,
            sides: &contended::<64>(),
        },
    ],
};

const fn contended<const TASKS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, parcae_contended::<TASKS>),
        Side::new(Peer::Tokio, tokio_contended::<TASKS>),
        Side::new(Peer::Std, std_contended::<TASKS>),
    ]
}

/// Locks of a free mutex.
const FREE: usize = 5_000_000;
/// Locks of all contenders together.
const LOCKS: usize = 500_000;
/// Locks between two yields.
const TURN: usize = 8;

fn parcae_free(scale: &Scale) -> Result<f64, Failure> {
    let locks = scale.of(FREE);
    let rt = Runtime::builder().workers(1).build()?;
    let nanos = rt.run(|_| {
        let mutex = parcae::sync::Mutex::new(0_usize);
        let start = Instant::now();
        for _ in 0..locks {
            *black_box(&mutex).lock()? += 1;
        }
        Ok(nanos_per(start, locks))
    });
    nanos.map_err(|error| error.to_string().into())
}

fn tokio_free(scale: &Scale) -> Result<f64, Failure> {
    let locks = scale.of(FREE);
    Ok(Tokio::start(1)?.run(async move {
        let mutex = tokio::sync::Mutex::new(0_usize);
        let start = Instant::now();
        for _ in 0..locks {
            *black_box(&mutex).lock().await += 1;
        }
        nanos_per(start, locks)
    }))
}

fn may_free(scale: &Scale) -> Result<f64, Failure> {
    let locks = scale.of(FREE);
    runtimes::may_run(move || {
        let mutex = may::sync::Mutex::new(0_usize);
        let start = Instant::now();
        for _ in 0..locks {
            *black_box(&mutex).lock().expect("no task panics") += 1;
        }
        nanos_per(start, locks)
    })
}

fn std_free(scale: &Scale) -> Result<f64, Failure> {
    let locks = scale.of(FREE);
    let mutex = std::sync::Mutex::new(0_usize);
    let start = Instant::now();
    for _ in 0..locks {
        *black_box(&mutex).lock().expect("no thread panics") += 1;
    }
    Ok(nanos_per(start, locks))
}

fn parcae_contended<const TASKS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let each = scale.of(LOCKS) / TASKS;
    let rt = Runtime::builder().workers(2).build()?;
    let mutex = parcae::sync::Mutex::new(0_usize);
    let nanos = rt.run(|cx| {
        let start = Instant::now();
        cx.nursery(|n| {
            for _ in 0..TASKS {
                n.spawn(|cx| {
                    for i in 0..each {
                        *mutex.lock()? += 1;
                        if i % TURN == 0 {
                            cx.yield_now()?;
                        }
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        Ok(nanos_per(start, each * TASKS))
    });
    expect(mutex.into_inner(), each * TASKS)?;
    nanos.map_err(|error| error.to_string().into())
}

fn tokio_contended<const TASKS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let each = scale.of(LOCKS) / TASKS;
    let mutex = Arc::new(tokio::sync::Mutex::new(0_usize));
    let runtime = Tokio::start(2)?;
    let (spawner, shared) = (runtime.spawner(), Arc::clone(&mutex));
    let nanos = runtime.run(async move {
        let start = Instant::now();
        let tasks = (0..TASKS).map(|_| {
            let mutex = Arc::clone(&shared);
            spawner.spawn(async move {
                for i in 0..each {
                    *mutex.lock().await += 1;
                    if i % TURN == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no task panics");
        }
        nanos_per(start, each * TASKS)
    });
    let locked = *mutex.blocking_lock();
    expect(locked, each * TASKS)?;
    Ok(nanos)
}

fn std_contended<const TASKS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let each = scale.of(LOCKS) / TASKS;
    let mutex = std::sync::Mutex::new(0_usize);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..TASKS {
            scope.spawn(|| {
                for i in 0..each {
                    *mutex.lock().expect("no thread panics") += 1;
                    if i % TURN == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let nanos = nanos_per(start, each * TASKS);
    expect(mutex.into_inner().expect("no thread panics"), each * TASKS)?;
    Ok(nanos)
}

/// Fails if the lock did not exclude.
fn expect(counted: usize, locks: usize) -> Result<(), Failure> {
    if counted == locks {
        Ok(())
    } else {
        Err(format!("{counted} additions under the lock instead of {locks}").into())
    }
}
