//! `parked`, `million`: the memory of a queued task, and of a waiting one.
//!
//! One worker. A task spawns all others without yielding, so that they are queued; then it yields
//! until each of them waits, for a semaphore or for its waker. Resident memory is read before,
//! between and after. A queued task of parcae is a record; one that waits has a stack too, of which
//! the touched pages count. Futures only have a record; what these wait for is as small as can be,
//! and a real one grows with everything that it keeps.
//!
//! `event_100k` is parcae alone, through its public API: such a wait has more frames on its stack,
//! which are to stay on one page all the same.
//!
//! No handles to tasks are kept, except parcae's wakers, whose memory is allocated and written
//! before the first reading. Page tables are not part of the figures: see `memory`.

use super::runtimes::{self, AsyncExecutor, Futures, Spawner, TIMEOUT, Tally, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Side, Variant, Workload};
use crate::machine;
use parcae::engine;
use parcae::profile::Service;
use parcae::sync::Event;
use parcae::task::Waker;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Semaphore;

pub(super) static PARKED: Workload = Workload {
    name: "parked",
    rounds: Rounds { full: 3, quick: 1 },
    variants: &[
        variant("queued_1k", "resident memory per task that has not started, of 1000", {
            &sides::<1000, false>()
        }),
        variant("parked_1k", "resident memory per task that waits, of 1000", {
            &sides::<1000, true>()
        }),
        variant("queued_100k", "resident memory per task that has not started, of 100,000", {
            &sides::<100_000, false>()
        }),
        variant("parked_100k", "resident memory per task that waits, of 100,000", {
            &sides::<100_000, true>()
        }),
        variant("event_100k", "resident memory per task that waits for an event, of 100,000", {
            &[Side::new(Peer::Parcae, |_| parcae_event(100_000))]
        }),
    ],
};

/// A separate workload, because it takes gigabytes and minutes, and is not for quick runs.
pub(super) static MILLION: Workload = Workload {
    name: "million",
    rounds: Rounds { full: 1, quick: 0 },
    variants: &[
        variant("queued", "resident memory per task that has not started, of 1,000,000", {
            &sides::<1_000_000, false>()
        }),
        variant("parked", "resident memory per task that waits, of 1,000,000", {
            &sides::<1_000_000, true>()
        }),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "B/task", better: Better::Lower, sides }
}

const fn sides<const TASKS: usize, const PARKED: bool>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |_| parcae::<PARKED>(TASKS)),
        Side::new(Peer::Tokio, |_| futures::<Tokio, PARKED>(TASKS)),
        Side::new(Peer::AsyncExecutor, |_| futures::<AsyncExecutor, PARKED>(TASKS)),
    ]
}

/// A generous estimate of a waiting task's memory, for the check before the start.
const BYTES_EACH: u64 = 12 << 10;

/// Fails if there is too little memory for `count` tasks.
pub(super) fn check_memory(tasks: usize) -> Result<(), Failure> {
    let (needed, available) = (tasks as u64 * BYTES_EACH, machine::available_bytes()?);
    if needed <= available {
        return Ok(());
    }
    Err(format!("{available} bytes of memory are available, {needed} may be needed").into())
}

/// Resident memory, after the heap has returned what it kept from earlier rounds. Call it on the
/// thread that will allocate the tasks: each thread has its own part of the heap.
pub(super) fn baseline() -> Reading {
    #[cfg(target_env = "gnu")]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            safe fn mallopt(parameter: c_int, value: c_int) -> c_int;
            safe fn malloc_trim(keep: usize) -> c_int;
        }
        const M_TRIM_THRESHOLD: c_int = -1;
        // By itself glibc raises this to some 64 MiB, and `malloc_trim` leaves the end of the
        // heap of a thread alone. Freeing something large does not, beyond the threshold.
        mallopt(M_TRIM_THRESHOLD, 128 << 10);
        drop(std::hint::black_box(vec![1_u8; 100 << 10]));
        malloc_trim(0);
    }
    resident()
}

/// Readings of the resident memory. Text, because a failure does not cross threads.
pub(super) type Reading = Result<u64, String>;

pub(super) fn resident() -> Reading {
    machine::resident_bytes_exact().map_err(|failure| failure.to_string())
}

/// Bytes per task from the two readings that were made on the way.
fn growth(
    tasks: usize,
    (before, after): (Reading, Reading),
    tally: &Tally,
) -> Result<f64, Failure> {
    tally.expect(tasks)?;
    Ok(after?.saturating_sub(before?) as f64 / tasks as f64)
}

fn parcae<const PARKED: bool>(tasks: usize) -> Result<f64, Failure> {
    check_memory(tasks)?;
    let engine = runtimes::parcae(1)?;
    let wakers: Vec<Mutex<Option<Waker>>> = (0..tasks).map(|_| Mutex::new(None)).collect();
    let (waiting, open) = (AtomicUsize::new(0), AtomicBool::new(!PARKED));
    let tally = Tally::now();
    // Not on the worker: the first task, this one, makes the engine allocate for a thousand.
    let before = baseline();
    let after = engine.run(|| {
        engine::scope(|scope| {
            for waker in &wakers {
                scope.spawn(|| {
                    if !open.load(Ordering::Acquire) {
                        *lock(waker) = Some(Waker::current());
                        waiting.fetch_add(1, Ordering::Relaxed);
                    }
                    while !open.load(Ordering::Acquire) {
                        // These are never cancelled.
                        let _ = engine::park();
                    }
                    Tally::count();
                });
            }
            if !PARKED {
                return resident();
            }
            let start = Instant::now();
            while waiting.load(Ordering::Relaxed) < tasks && start.elapsed() < TIMEOUT {
                engine::yield_now();
            }
            let after = resident();
            let complete = waiting.load(Ordering::Relaxed) == tasks;
            open.store(true, Ordering::Release);
            for waker in &wakers {
                let waker = lock(waker).take();
                waker.inspect(Waker::wake);
            }
            if complete { after } else { Err("not all tasks came to wait".to_owned()) }
        })
    });
    growth(tasks, (before, after), &tally)
}

fn parcae_event(tasks: usize) -> Result<f64, Failure> {
    check_memory(tasks)?;
    let rt = runtimes::runtime::<Service>(1)?;
    let (event, waiting) = (Event::new(), AtomicUsize::new(0));
    let tally = Tally::now();
    let before = baseline();
    let after = rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..tasks {
                n.spawn(|_| {
                    waiting.fetch_add(1, Ordering::Relaxed);
                    event.wait()?;
                    Tally::count();
                    Ok(())
                })?;
            }
            let start = Instant::now();
            while waiting.load(Ordering::Relaxed) < tasks && start.elapsed() < TIMEOUT {
                cx.yield_now()?;
            }
            let complete = waiting.load(Ordering::Relaxed) == tasks;
            let after = if complete { resident() } else { Err("not all tasks wait".to_owned()) };
            event.set();
            Ok(after)
        })
    })?;
    growth(tasks, (before, after), &tally)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State that the tasks of a scheduler of futures share.
struct Gate {
    waiting: AtomicUsize,
    done: AtomicUsize,
    open: Semaphore,
}

fn futures<R: Futures, const PARKED: bool>(tasks: usize) -> Result<f64, Failure> {
    check_memory(tasks)?;
    let runtime = R::start(1)?;
    let gate = Arc::new(Gate {
        waiting: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        open: Semaphore::new(0),
    });
    let spawner = runtime.spawner();
    let tally = Tally::now();
    let readings = runtime.run(async move {
        let before = baseline();
        for _ in 0..tasks {
            let gate = Arc::clone(&gate);
            spawner.detach(async move {
                gate.waiting.fetch_add(1, Ordering::Relaxed);
                // Never closed; and given back, it lets the next one in.
                drop(gate.open.acquire().await);
                Tally::count();
                gate.done.fetch_add(1, Ordering::Release);
            });
        }
        let start = Instant::now();
        let mut after = if PARKED { Ok(0) } else { resident() };
        if PARKED {
            while gate.waiting.load(Ordering::Relaxed) < tasks && start.elapsed() < TIMEOUT {
                R::Spawner::yield_now().await;
            }
            after = resident();
            if gate.waiting.load(Ordering::Relaxed) < tasks {
                after = Err("not all tasks came to wait".to_owned());
            }
        }
        gate.open.add_permits(1);
        while gate.done.load(Ordering::Acquire) < tasks && start.elapsed() < 2 * TIMEOUT {
            R::Spawner::yield_now().await;
        }
        (before, after)
    });
    growth(tasks, readings, &tally)
}
