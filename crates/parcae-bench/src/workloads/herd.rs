//! `herd`: many waiters of one object; one is woken, or all.
//!
//! 1000 tasks wait, on one worker. `one`: a task wakes one of them and yields until that one waits
//! again; the result is the time from one wake to the next. `all`: it wakes all of them, and yields
//! until all wait again; the result is that time per waiter. For the standard library it is a
//! condition variable, with a thread for each of 64 waiters.

use super::nanos_per;
use super::runtimes::{Futures, Spawner, TIMEOUT, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

pub(super) static HERD: Workload = Workload {
    name: "herd",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        Variant {
            name: "one",
            about: "one of 1000 waiters is woken, and waits again; one worker",
            unit: "ns/wake",
            better: Better::Lower,
            sides: &sides::<ONE>(),
        },
        Variant {
            name: "all",
            about: "1000 waiters are woken at once, and wait again; one worker",
            unit: "ns/waiter",
            better: Better::Lower,
            sides: &sides::<HERD_SIZE>(),
        },
    ],
};

/// Tasks that wait.
const HERD_SIZE: usize = 1000;
/// Threads that wait.
const THREADS: usize = 64;
/// How many are woken at a time, if not all.
const ONE: usize = 1;
/// Wakes of one.
const SINGLE: usize = 50_000;
/// Wakes of all.
const TOGETHER: usize = 100;

const fn sides<const WOKEN: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, parcae::<WOKEN>),
        Side::new(Peer::Tokio, tokio::<WOKEN>),
        Side::new(Peer::Std, std::<WOKEN>),
    ]
}

/// State that the waiters and the waker share.
struct Herd {
    size: usize,
    /// How often a waiter has begun to wait.
    waits: AtomicUsize,
    over: AtomicBool,
}

impl Herd {
    fn new(size: usize) -> Herd {
        Herd { size, waits: AtomicUsize::new(0), over: AtomicBool::new(false) }
    }

    /// Records that the caller is about to wait; false if the measurement is over. No wake may come
    /// before the wait.
    fn stays(&self) -> bool {
        self.waits.fetch_add(1, Ordering::Release);
        !self.over.load(Ordering::Acquire)
    }

    /// Whether all wait again after a number of wakes.
    fn is_settled(&self, woken: usize) -> bool {
        self.waits.load(Ordering::Acquire) >= self.size + woken
    }

    /// The number of wakes, and how many waiters each wakes.
    fn plan<const WOKEN: usize>(&self, scale: &Scale) -> (usize, usize) {
        if WOKEN == ONE { (scale.of(SINGLE), 1) } else { (scale.of(TOGETHER), self.size) }
    }
}

/// An object to wait for.
trait Signal {
    /// Waits again and again, until it is over.
    fn attend(&self, herd: &Herd);
    fn wake_one(&self);
    fn wake_all(&self);
}

impl Signal for parcae::sync::Notify {
    fn attend(&self, herd: &Herd) {
        while herd.stays() {
            self.wait().expect("nobody cancels");
        }
    }

    fn wake_one(&self) {
        self.notify_one();
    }

    fn wake_all(&self) {
        self.notify_all();
    }
}

/// The waker holds the lock; otherwise a waiter that has been counted might not wait yet.
impl Signal for (Mutex<()>, Condvar) {
    fn attend(&self, herd: &Herd) {
        let mut guard = self.0.lock().expect("nobody panics");
        while herd.stays() {
            guard = self.1.wait(guard).expect("nobody panics");
        }
    }

    fn wake_one(&self) {
        let _guard = self.0.lock().expect("nobody panics");
        self.1.notify_one();
    }

    fn wake_all(&self) {
        let _guard = self.0.lock().expect("nobody panics");
        self.1.notify_all();
    }
}

/// Wakes, and yields until the woken tasks wait again: nanoseconds per woken task.
fn drive<const WOKEN: usize>(
    herd: &Herd,
    scale: &Scale,
    signal: &impl Signal,
    let_others_run: impl Fn(),
) -> Result<f64, String> {
    let (times, each) = herd.plan::<WOKEN>(scale);
    let begun = Instant::now();
    let settled = |woken| {
        while !herd.is_settled(woken) && begun.elapsed() < TIMEOUT {
            let_others_run();
        }
        herd.is_settled(woken)
    };
    let mut complete = settled(0);
    let start = Instant::now();
    for i in 1..=times {
        if WOKEN == ONE {
            signal.wake_one();
        } else {
            signal.wake_all();
        }
        complete = complete && settled(i * each);
    }
    let figure = nanos_per(start, times * each);
    herd.over.store(true, Ordering::Release);
    signal.wake_all();
    if complete { Ok(figure) } else { Err("not all waiters came back to wait".to_owned()) }
}

fn parcae<const WOKEN: usize>(scale: &Scale) -> Result<f64, Failure> {
    let (herd, notify) = (Herd::new(HERD_SIZE), parcae::sync::Notify::new());
    let figure = Runtime::builder().workers(1).build()?.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..HERD_SIZE {
                n.spawn(|_| {
                    notify.attend(&herd);
                    Ok(())
                })?;
            }
            let let_others_run = || cx.yield_now().expect("nobody cancels");
            Ok(drive::<WOKEN>(&herd, scale, &notify, let_others_run))
        })
    });
    Ok(figure??)
}

fn std<const WOKEN: usize>(scale: &Scale) -> Result<f64, Failure> {
    let scale = if WOKEN == ONE { Scale::new(true) } else { *scale }; // threads take long
    let (herd, condition) = (Herd::new(THREADS), (Mutex::new(()), Condvar::new()));
    let figure = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| condition.attend(&herd));
        }
        drive::<WOKEN>(&herd, &scale, &condition, thread::yield_now)
    });
    Ok(figure?)
}

fn tokio<const WOKEN: usize>(scale: &Scale) -> Result<f64, Failure> {
    let shared = Arc::new((Herd::new(HERD_SIZE), tokio::sync::Notify::new()));
    let (times, each) = shared.0.plan::<WOKEN>(scale);
    let runtime = Tokio::start(1)?;
    let spawner = runtime.spawner();
    let figure = runtime.run(async move {
        let waiter = |_| {
            let shared = Arc::clone(&shared);
            Spawner::spawn(&spawner, async move {
                while shared.0.stays() {
                    shared.1.notified().await;
                }
            })
        };
        let waiters: Vec<_> = (0..HERD_SIZE).map(waiter).collect();
        let (herd, notify) = &*shared;
        let begun = Instant::now();
        let settled = async |woken| {
            while !herd.is_settled(woken) && begun.elapsed() < TIMEOUT {
                tokio::task::yield_now().await;
            }
            herd.is_settled(woken)
        };
        let mut complete = settled(0).await;
        let start = Instant::now();
        for i in 1..=times {
            if WOKEN == ONE {
                notify.notify_one();
            } else {
                notify.notify_waiters();
            }
            complete = complete && settled(i * each).await;
        }
        let figure = nanos_per(start, times * each);
        herd.over.store(true, Ordering::Release);
        notify.notify_waiters();
        for waiter in waiters {
            waiter.await;
        }
        if complete { Ok(figure) } else { Err("not all waiters came back to wait") }
    });
    Ok(figure?)
}
