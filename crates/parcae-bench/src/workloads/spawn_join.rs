//! `spawn_join`: throughput of nearly empty tasks, below the public API: parcae's side uses the
//! scheduler without nurseries, handles, budgets and results. `nursery` and `outside` measure the
//! calls that programs make.
//!
//! Each task counts itself and ends. They are spawned by a task that waits for them all (`many`,
//! `round1k`), or by a thread that is no worker (`outside`). The variants with two workers show the
//! cost of sharing; a second worker cannot gain anything here.
//!
//! One round goes before the clock starts. Without it the schedulers that allocate from the
//! process's heap would find it as warm as their predecessors left it, while parcae's records
//! are the engine's own and would be paid for, a page fault for every 32 of them.
//!
//! Tasks are awaited in the scheduler's own way: by a scope of parcae or rayon, by one join after
//! another for the rest. may takes part with one worker only, see [`runtimes`], and not in `many`:
//! every coroutine has a stack from its spawn on, and 65530 mappings, the default limit, are enough
//! for some 32000.

use super::runtimes::{self, AsyncExecutor, Countdown, Futures, Spawner, Tally, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::engine;
use std::time::{Duration, Instant};

pub(super) static SPAWN_JOIN: Workload = Workload {
    name: "spawn_join",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("many_w1", "engine: 1,000,000 tasks, then waits for all; one worker", &MANY_W1),
        variant("many_w2", "engine: 1,000,000 tasks, then waits for all; two workers", &MANY_W2),
        variant(
            "round1k_w1",
            "engine: 500 times 1000 tasks, waits for each 1000; one worker",
            &ROUND_W1,
        ),
        variant(
            "round1k_w2",
            "engine: 500 times 1000 tasks, waits for each 1000; two workers",
            &ROUND_W2,
        ),
        variant(
            "outside_w1",
            "engine: by another thread, 10,000 before each wait; one worker",
            &OUT_W1,
        ),
        variant(
            "outside_w2",
            "engine: by another thread, 10,000 before each wait; two workers",
            &OUT_W2,
        ),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "M/s", better: Better::Higher, sides }
}

static MANY_W1: [Side; 4] = many::<1>();
static MANY_W2: [Side; 4] = many::<2>();
static ROUND_W1: [Side; 5] = [
    Side::new(Peer::Parcae, |scale| parcae(1, &Plan::round1k(scale))),
    Side::new(Peer::Tokio, |scale| futures::<Tokio>(1, &Plan::round1k(scale))),
    Side::new(Peer::AsyncExecutor, |scale| futures::<AsyncExecutor>(1, &Plan::round1k(scale))),
    Side::new(Peer::May, |scale| may(&Plan::round1k(scale))),
    Side::new(Peer::Rayon, |scale| rayon(1, &Plan::round1k(scale))),
];
static ROUND_W2: [Side; 4] = [
    Side::new(Peer::Parcae, |scale| parcae(2, &Plan::round1k(scale))),
    Side::new(Peer::Tokio, |scale| futures::<Tokio>(2, &Plan::round1k(scale))),
    Side::new(Peer::AsyncExecutor, |scale| futures::<AsyncExecutor>(2, &Plan::round1k(scale))),
    Side::new(Peer::Rayon, |scale| rayon(2, &Plan::round1k(scale))),
];
static OUT_W1: [Side; 5] = [
    Side::new(Peer::Parcae, outside_parcae::<1>),
    Side::new(Peer::Tokio, outside_futures::<Tokio, 1>),
    Side::new(Peer::AsyncExecutor, outside_futures::<AsyncExecutor, 1>),
    Side::new(Peer::May, outside_may),
    Side::new(Peer::Rayon, outside_rayon::<1>),
];
static OUT_W2: [Side; 4] = [
    Side::new(Peer::Parcae, outside_parcae::<2>),
    Side::new(Peer::Tokio, outside_futures::<Tokio, 2>),
    Side::new(Peer::AsyncExecutor, outside_futures::<AsyncExecutor, 2>),
    Side::new(Peer::Rayon, outside_rayon::<2>),
];

const fn many<const WORKERS: usize>() -> [Side; 4] {
    [
        Side::new(Peer::Parcae, |scale| parcae(WORKERS, &Plan::many(scale))),
        Side::new(Peer::Tokio, |scale| futures::<Tokio>(WORKERS, &Plan::many(scale))),
        Side::new(Peer::AsyncExecutor, |scale| {
            futures::<AsyncExecutor>(WORKERS, &Plan::many(scale))
        }),
        Side::new(Peer::Rayon, |scale| rayon(WORKERS, &Plan::many(scale))),
    ]
}

/// The number of tasks per round, and of rounds.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    tasks: usize,
}

impl Plan {
    fn many(scale: &Scale) -> Plan {
        Plan { rounds: 1, tasks: scale.of(1_000_000) }
    }

    fn round1k(scale: &Scale) -> Plan {
        Plan { rounds: scale.of(500), tasks: 1000 }
    }

    /// Few enough to be queued all at once for may too.
    fn outside(scale: &Scale) -> Plan {
        Plan { rounds: scale.of(40), tasks: 10_000 }
    }

    /// Millions of tasks per second, if they and the warm-up have run since `tally`.
    fn rate(&self, tally: &Tally, time: Duration) -> Result<f64, Failure> {
        tally.expect((1 + self.rounds) * self.tasks)?;
        Ok((self.rounds * self.tasks) as f64 / time.as_secs_f64() / 1e6)
    }
}

/// Times rounds, after one that does not count.
fn timed(plan: &Plan, mut round: impl FnMut()) -> Duration {
    round();
    let start = Instant::now();
    for _ in 0..plan.rounds {
        round();
    }
    start.elapsed()
}

fn parcae(workers: usize, plan: &Plan) -> Result<f64, Failure> {
    let engine = runtimes::parcae(workers)?;
    let tally = Tally::now();
    let time = engine.run(|| {
        timed(plan, || {
            engine::scope(|scope| {
                for _ in 0..plan.tasks {
                    scope.spawn(Tally::count);
                }
            });
        })
    });
    plan.rate(&tally, time)
}

fn rayon(workers: usize, plan: &Plan) -> Result<f64, Failure> {
    let pool = runtimes::rayon(workers)?;
    let tally = Tally::now();
    let time = pool.install(|| {
        timed(plan, || {
            rayon::scope(|scope| {
                for _ in 0..plan.tasks {
                    scope.spawn(|_| Tally::count());
                }
            });
        })
    });
    plan.rate(&tally, time)
}

fn may(plan: &Plan) -> Result<f64, Failure> {
    let tally = Tally::now();
    let Plan { tasks, .. } = *plan;
    let own = *plan;
    let time = runtimes::may_run(move || {
        let mut spawned = Vec::with_capacity(tasks);
        timed(&own, || {
            spawned.extend((0..tasks).map(|_| runtimes::may(Tally::count)));
            for task in spawned.drain(..) {
                task.join().expect("no task panics");
            }
        })
    })?;
    plan.rate(&tally, time)
}

fn futures<R: Futures>(workers: usize, plan: &Plan) -> Result<f64, Failure> {
    let runtime = R::start(workers)?;
    let spawner = runtime.spawner();
    let tally = Tally::now();
    let Plan { rounds, tasks } = *plan;
    let time = runtime.run(async move {
        let mut spawned = Vec::with_capacity(tasks);
        let mut start = Instant::now();
        for round in 0..=rounds {
            if round == 1 {
                start = Instant::now(); // round 0 was the warm-up
            }
            spawned.extend((0..tasks).map(|_| spawner.spawn(async { Tally::count() })));
            for task in spawned.drain(..) {
                task.await;
            }
        }
        start.elapsed()
    });
    plan.rate(&tally, time)
}

/// Times tasks spawned by this thread. Each has to count down at its end.
fn outside(scale: &Scale, spawn: impl Fn(&'static Countdown)) -> Result<f64, Failure> {
    let plan = Plan::outside(scale);
    let countdown = Countdown::new();
    let tally = Tally::now();
    let mut start = Instant::now();
    for round in 0..=plan.rounds {
        if round == 1 {
            start = Instant::now(); // round 0 was the warm-up
        }
        countdown.set(plan.tasks);
        for _ in 0..plan.tasks {
            spawn(countdown);
        }
        countdown.wait()?;
    }
    plan.rate(&tally, start.elapsed())
}

/// The body of such a task.
#[inline]
fn task(countdown: &Countdown) {
    Tally::count();
    countdown.down();
}

fn outside_parcae<const WORKERS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let engine = runtimes::parcae(WORKERS)?;
    outside(scale, |countdown| engine.spawn(|| task(countdown)))
}

fn outside_rayon<const WORKERS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let pool = runtimes::rayon(WORKERS)?;
    outside(scale, |countdown| pool.spawn(|| task(countdown)))
}

fn outside_may(scale: &Scale) -> Result<f64, Failure> {
    outside(scale, |countdown| drop(runtimes::may(|| task(countdown))))
}

fn outside_futures<R: Futures, const WORKERS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let runtime = R::start(WORKERS)?;
    let spawner = runtime.spawner();
    outside(scale, |countdown| spawner.detach(async { task(countdown) }))
}
