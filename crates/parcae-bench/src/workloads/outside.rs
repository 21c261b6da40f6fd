//! `outside`: root tasks that a thread which is no worker starts and joins, through the public API.
//!
//! The thread spawns 10,000 tasks by a handle of the runtime, keeps theirs, and joins one after the
//! other. `spawn_join` has the same for the scheduler below the public API, without results and
//! handles. The peers spawn in the same way, and block the thread for each task that has not ended.

use super::runtimes::{self, AsyncExecutor, Futures, Spawner, Tally, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use futures_lite::future;
use parcae::profile::Service;
use parcae::runtime::RootTask;
use std::time::Instant;

pub(super) static OUTSIDE: Workload = Workload {
    name: "outside",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant(
            "joined_w1",
            "root tasks by another thread, each joined; one worker",
            &sides::<1>(),
        ),
        variant("joined_w2", "root tasks by another thread, each joined; two workers", {
            &sides::<2>()
        }),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "M/s", better: Better::Higher, sides }
}

const fn sides<const WORKERS: usize>() -> [Side; 3] {
    [
        Side::new(Peer::Parcae, parcae::<WORKERS>),
        Side::new(Peer::Tokio, futures::<Tokio, WORKERS>),
        Side::new(Peer::AsyncExecutor, futures::<AsyncExecutor, WORKERS>),
    ]
}

/// Tasks before each wait.
const TASKS: usize = 10_000;

/// Times rounds of tasks, after one that does not count. Millions of tasks per second.
fn timed<H>(
    scale: &Scale,
    mut spawn: impl FnMut() -> Result<H, Failure>,
    mut join: impl FnMut(H) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let rounds = scale.of(40);
    let tally = Tally::now();
    let mut spawned = Vec::with_capacity(TASKS);
    let mut start = Instant::now();
    for round in 0..=rounds {
        if round == 1 {
            start = Instant::now(); // round 0 was the warm-up
        }
        for _ in 0..TASKS {
            spawned.push(spawn()?);
        }
        spawned.drain(..).try_for_each(&mut join)?;
    }
    let time = start.elapsed();
    tally.expect((1 + rounds) * TASKS)?;
    Ok((rounds * TASKS) as f64 / time.as_secs_f64() / 1e6)
}

fn parcae<const WORKERS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(WORKERS)?;
    let handle = rt.handle();
    let task = |_: &parcae::Cx| {
        Tally::count();
        Ok(())
    };
    timed(scale, || Ok(handle.spawn(task)?), |task: RootTask<()>| Ok(task.join()?))
}

fn futures<R: Futures, const WORKERS: usize>(scale: &Scale) -> Result<f64, Failure> {
    let runtime = R::start(WORKERS)?;
    let spawner = runtime.spawner();
    let spawn = || Ok(spawner.spawn(async { Tally::count() }));
    timed(scale, spawn, |task| {
        future::block_on(task);
        Ok(())
    })
}
