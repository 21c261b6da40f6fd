//! `yield`: the cost of a yield, on one worker.
//!
//! Alone, a task goes through its scheduler and comes back. With two, each yield is a switch to the
//! other. A thousand are more than fit into the first-level cache with their stacks. First every
//! task yields uncounted until all have started and have their stacks. That may take many yields:
//! not every scheduler lets new tasks in before those that yield. All are spawned by a task of the
//! scheduler, because may starves tasks from outside.

use super::runtimes::{self, AsyncExecutor, Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::engine;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub(super) static YIELD: Workload = Workload {
    name: "yield",
    rounds: Rounds { full: 7, quick: 2 },
    variants: &[
        Variant {
            name: "t1",
            about: "one task yields alone; one worker",
            unit: "ns/yield",
            better: Better::Lower,
            sides: &sides::<1>(),
        },
        Variant {
            name: "t2",
            about: "two tasks yield to each other; one worker",
            unit: "ns/yield",
            better: Better::Lower,
            sides: &sides::<2>(),
        },
        Variant {
            name: "t1000",
            about: "1000 tasks yield in turn; one worker",
            unit: "ns/yield",
            better: Better::Lower,
            sides: &sides::<1000>(),
        },
    ],
};

const fn sides<const TASKS: usize>() -> [Side; 4] {
    [
        Side::new(Peer::Parcae, parcae::<TASKS>),
        Side::new(Peer::Tokio, futures::<Tokio, TASKS>),
        Side::new(Peer::AsyncExecutor, futures::<AsyncExecutor, TASKS>),
        Side::new(Peer::May, may::<TASKS>),
    ]
}

/// Yields of all tasks together.
const YIELDS: usize = 1_000_000;
/// After so many yields a task no longer waits for others to start.
const STARVED: usize = 100_000;

/// A number of tasks that start counting together and stop together.
struct Race {
    tasks: usize,
    each: usize,
    ready: AtomicUsize,
    done: AtomicUsize,
    starved: AtomicBool,
    start: OnceLock<Instant>,
    end: OnceLock<Instant>,
}

impl Race {
    fn new(tasks: usize, scale: &Scale) -> Arc<Race> {
        Arc::new(Race {
            tasks,
            each: scale.of(YIELDS) / tasks,
            ready: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            starved: AtomicBool::new(false),
            start: OnceLock::new(),
            end: OnceLock::new(),
        })
    }

    /// A task has started. The clock starts with the last one.
    fn ready(&self) {
        if self.ready.fetch_add(1, Ordering::Relaxed) + 1 == self.tasks {
            self.start.get_or_init(Instant::now);
        }
    }

    /// Whether a task has to wait for others to start, after so many times.
    #[inline]
    fn has_to_wait(&self, times: usize) -> bool {
        if self.ready.load(Ordering::Relaxed) == self.tasks {
            return false;
        }
        if times == STARVED {
            self.starved.store(true, Ordering::Relaxed);
        }
        times < STARVED
    }

    /// A task has yielded so often.
    fn done(&self, yields: usize) {
        if self.done.fetch_add(yields, Ordering::Relaxed) + yields == self.tasks * self.each {
            self.end.get_or_init(Instant::now);
        }
    }

    fn nanos(&self) -> Result<f64, Failure> {
        if self.starved.load(Ordering::Relaxed) {
            return Err("some tasks yielded for ever before others started".into());
        }
        let (Some(&start), Some(&end)) = (self.start.get(), self.end.get()) else {
            return Err("not all tasks have yielded as often as they should".into());
        };
        Ok((end - start).as_nanos() as f64 / (self.tasks * self.each) as f64)
    }
}

/// A task whose yield is a call.
#[inline(always)]
fn run(race: &Race, yield_now: fn()) {
    yield_now();
    race.ready();
    let mut waits = 0;
    while race.has_to_wait(waits) {
        yield_now();
        waits += 1;
    }
    let mut yields = 0;
    while yields < race.each {
        yield_now();
        yields += 1;
    }
    race.done(yields);
}

fn parcae<const TASKS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let race = Race::new(TASKS, scale);
    runtimes::parcae(1)?.run(|| {
        engine::scope(|scope| {
            for _ in 0..TASKS {
                scope.spawn(|| run(&race, engine::yield_now));
            }
        });
    });
    race.nanos()
}

fn may<const TASKS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let race = Race::new(TASKS, scale);
    let all = Arc::clone(&race);
    runtimes::may_run(move || {
        let spawned = (0..TASKS).map(|_| {
            let race = Arc::clone(&all);
            runtimes::may(move || run(&race, may::coroutine::yield_now))
        });
        for task in spawned.collect::<Vec<_>>() {
            task.join().expect("no task panics");
        }
    })?;
    race.nanos()
}

fn futures<R: Futures, const TASKS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let race = Race::new(TASKS, scale);
    let runtime = R::start(1)?;
    let spawner = runtime.spawner();
    let all = Arc::clone(&race);
    runtime.run(async move {
        let spawned = (0..TASKS).map(|_| spawner.spawn(task::<R>(Arc::clone(&all))));
        for task in spawned.collect::<Vec<_>>() {
            task.await;
        }
    });
    race.nanos()
}

async fn task<R: Futures>(race: Arc<Race>) {
    R::Spawner::yield_now().await;
    race.ready();
    let mut waits = 0;
    while race.has_to_wait(waits) {
        R::Spawner::yield_now().await;
        waits += 1;
    }
    let mut yields = 0;
    while yields < race.each {
        R::Spawner::yield_now().await;
        yields += 1;
    }
    race.done(yields);
}
