//! `nursery`: `spawn_join` through the public API, with nurseries, budgets and capabilities.
//!
//! `round1k` has one nursery for all rounds: it spawns 1000 tasks, joins their handles, and again.
//! `many` drops the handles and leaves the waiting to the end of the nursery; `joined` keeps a
//! million of them and joins one after the other. The peers do what
//! comes closest: tokio a `JoinSet`, rayon, may and the standard library a scope for each round.
//! Threads of the standard library are fewer: a hundredth of the rounds.
//!
//! `budget` counts every resource; `cap` is the Sovereign profile, in which every spawn shows a
//! capability. Both are to be held against `round1k`.

use super::runtimes::{self, Futures, Tally, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::cap::{Delegation, SpawnLimits};
use parcae::prelude::*;
use parcae::profile::{Service, Sovereign};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

pub(super) static NURSERY: Workload = Workload {
    name: "nursery",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("many_w1", "1,000,000 tasks, ended by the nursery; one worker", &many::<1>()),
        variant("many_w2", "1,000,000 tasks, ended by the nursery; two workers", &many::<2>()),
        variant("joined_w1", "1,000,000 tasks, their handles kept and joined; one worker", {
            &joined::<1>()
        }),
        variant("joined_w2", "1,000,000 tasks, their handles kept and joined; two workers", {
            &joined::<2>()
        }),
        variant("round1k_w1", "1000 times 1000 tasks, each joined; one worker", &ROUND_W1),
        variant("round1k_w2", "1000 times 1000 tasks, each joined; two workers", &ROUND_W2),
        variant("budget_w1", "the same, with all resources counted; one worker", &counted::<1>()),
        variant("budget_w2", "the same, with all resources counted; two workers", &counted::<2>()),
        variant("cap_w1", "the same, each by a capability; one worker", &by_cap::<1>()),
        variant("cap_w2", "the same, each by a capability; two workers", &by_cap::<2>()),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "M/s", better: Better::Higher, sides }
}

static ROUND_W1: [Side; 5] = [
    Side::new(Peer::Parcae, |scale| service(1, Plan::round1k(scale), Budget::UNLIMITED)),
    Side::new(Peer::Tokio, |scale| join_set(1, Plan::round1k(scale))),
    Side::new(Peer::May, |scale| may(Plan::round1k(scale))),
    Side::new(Peer::Rayon, |scale| rayon(1, Plan::round1k(scale))),
    Side::new(Peer::Std, |scale| threads(Plan::threads(scale))),
];
static ROUND_W2: [Side; 3] = [
    Side::new(Peer::Parcae, |scale| service(2, Plan::round1k(scale), Budget::UNLIMITED)),
    Side::new(Peer::Tokio, |scale| join_set(2, Plan::round1k(scale))),
    Side::new(Peer::Rayon, |scale| rayon(2, Plan::round1k(scale))),
];

const fn many<const WORKERS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| dropped(WORKERS, Plan::many(scale))),
        Side::new(Peer::Tokio, |scale| join_set(WORKERS, Plan::many(scale))),
        Side::new(Peer::Rayon, |scale| rayon(WORKERS, Plan::many(scale))),
    ]
}

const fn joined<const WORKERS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, |scale| service(WORKERS, Plan::many(scale), Budget::UNLIMITED)),
        Side::new(Peer::Tokio, |scale| join_set(WORKERS, Plan::many(scale))),
        Side::new(Peer::Rayon, |scale| rayon(WORKERS, Plan::many(scale))),
    ]
}

const fn counted<const WORKERS: usize>() -> [Side; 1] {
    [Side::new(Peer::Parcae, |scale| service(WORKERS, Plan::round1k(scale), PLENTY))]
}

const fn by_cap<const WORKERS: usize>() -> [Side; 1] {
    [Side::new(Peer::Parcae, |scale| sovereign(WORKERS, Plan::round1k(scale)))]
}

/// Counted, and never used up.
const PLENTY: Budget =
    Budget { ops: 1 << 50, memory: 1 << 50, spawn_count: 1 << 50, channel_ops: 0, syscalls: 0 };

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
        Plan { rounds: scale.of(1000), tasks: 1000 }
    }

    fn threads(scale: &Scale) -> Plan {
        Plan { rounds: scale.of(10), tasks: 1000 }
    }

    /// Times the rounds, after one that does not count: see `spawn_join`.
    fn timed<E>(self, mut round: impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
        round()?;
        let start = Instant::now();
        for _ in 0..self.rounds {
            round()?;
        }
        Ok(start.elapsed())
    }

    /// Millions of tasks per second, if they and the warm-up have run since `tally`.
    fn rate(self, tally: &Tally, time: Duration) -> Result<f64, Failure> {
        tally.expect((1 + self.rounds) * self.tasks)?;
        Ok((self.rounds * self.tasks) as f64 / time.as_secs_f64() / 1e6)
    }
}

fn count() -> parcae::Result<()> {
    Tally::count();
    Ok(())
}

fn service(workers: usize, plan: Plan, budget: Budget) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(workers)?;
    let tally = Tally::now();
    let time = rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(budget), |n| {
            let mut spawned = Vec::with_capacity(plan.tasks);
            plan.timed(|| {
                for _ in 0..plan.tasks {
                    spawned.push(n.spawn(|_| count())?);
                }
                spawned.drain(..).try_for_each(TaskHandle::join)
            })
        })
    })?;
    plan.rate(&tally, time)
}

fn sovereign(workers: usize, plan: Plan) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Sovereign>(workers)?;
    let limits = SpawnLimits { max_tasks: 1 << 20, task_budget: Budget::UNLIMITED };
    let cap = rt.cap_spawn(limits, Delegation::Forbidden);
    let tally = Tally::now();
    let time = rt.run(|cx| {
        cx.nursery(|n| {
            let mut spawned = Vec::with_capacity(plan.tasks);
            plan.timed(|| {
                for _ in 0..plan.tasks {
                    spawned.push(n.spawn(&cap, |_| count())?);
                }
                spawned.drain(..).try_for_each(TaskHandle::join)
            })
        })
    })?;
    plan.rate(&tally, time)
}

/// A nursery for each round, and no handles.
fn dropped(workers: usize, plan: Plan) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(workers)?;
    let tally = Tally::now();
    let time = rt.run(|cx| {
        plan.timed(|| {
            cx.nursery(|n| {
                for _ in 0..plan.tasks {
                    n.spawn(|_| count())?;
                }
                Ok(())
            })
        })
    })?;
    plan.rate(&tally, time)
}

fn rayon(workers: usize, plan: Plan) -> Result<f64, Failure> {
    let pool = runtimes::rayon(workers)?;
    let tally = Tally::now();
    let time = pool.install(|| {
        plan.timed(|| {
            rayon::scope(|scope| {
                for _ in 0..plan.tasks {
                    scope.spawn(|_| Tally::count());
                }
            });
            Ok::<_, Failure>(())
        })
        .map_err(|failure| failure.to_string())
    })?;
    plan.rate(&tally, time)
}

fn may(plan: Plan) -> Result<f64, Failure> {
    let tally = Tally::now();
    let time = runtimes::may_run(move || {
        plan.timed(|| {
            may::coroutine::scope(|scope| {
                for _ in 0..plan.tasks {
                    // SAFETY: needs next to no stack, and does not wait.
                    drop(unsafe { scope.spawn(Tally::count) });
                }
            });
            Ok::<_, String>(())
        })
    })??;
    plan.rate(&tally, time)
}

fn threads(plan: Plan) -> Result<f64, Failure> {
    let tally = Tally::now();
    let time = plan.timed(|| {
        std::thread::scope(|scope| {
            for _ in 0..plan.tasks {
                std::thread::Builder::new().spawn_scoped(scope, Tally::count_shared)?;
            }
            Ok::<_, Failure>(())
        })
    })?;
    plan.rate(&tally, time)
}

fn join_set(workers: usize, plan: Plan) -> Result<f64, Failure> {
    let runtime = Tokio::start(workers)?;
    let tally = Tally::now();
    let time = runtime.run(async move {
        let mut set = JoinSet::new();
        let mut start = Instant::now();
        for round in 0..=plan.rounds {
            if round == 1 {
                start = Instant::now(); // round 0 was the warm-up
            }
            for _ in 0..plan.tasks {
                set.spawn(async { Tally::count() });
            }
            while set.join_next().await.is_some() {}
        }
        start.elapsed()
    });
    plan.rate(&tally, time)
}
