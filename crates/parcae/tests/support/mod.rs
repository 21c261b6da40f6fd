//! The harness of the tests: schedules to run under, an end to every wait, and small task bodies.
//!
//! | need | use |
//! |---|---|
//! | all schedules, and those of the lab | [`everywhere`], [`everywhere_seeded`] |
//! | all schedules that workers have | [`on_workers`], [`with_runtimes`] |
//! | a test of a runtime, under seeds and in the lab | [`explored`] |
//! | only the deterministic executor, only threads, only the lab | [`deterministic`], [`threads`], [`in_the_lab`] |
//! | another engine, profile or builder | [`schedules`], which calls with a [`Schedule`] |
//! | a test that could hang | [`must_end`]; everything above has a watchdog |
//! | a process of its own | [`child`] |
//! | a program that a machine may lack | [`tools`] |
//!
//! A failure under the deterministic executor names its seed. `PARCAE_SEED=n` runs that seed alone.
//!
//! Integration tests include this file as a module. The unit tests of the crate include it too,
//! where the crate calls itself `parcae`, so there is one harness.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

pub mod child;
pub mod tools;
mod watchdog;

use parcae::lab::Explore;
use parcae::prelude::*;
use parcae::profile::{Profile, Service};
use parcae::runtime::SocketBackend;
use parcae::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[allow(unused_imports, reason = "as above")]
pub use watchdog::{LIMIT, Watchdog, must_end, stuck};

/// Numbers of workers that most tests run with.
pub const WORKERS: [usize; 3] = [1, 2, 4];

/// Seeds for each number of workers. Release builds are fast enough for more.
pub const SEEDS: u64 = if cfg!(debug_assertions) { 40 } else { 100 };

/// Schedules of the lab: each of its strategies has some. `PARCAE_SCHEDULES=x100` has more.
pub const LAB_SCHEDULES: u64 = if cfg!(debug_assertions) { 20 } else { 200 };

/// Runs of [`deterministic`].
pub const DETERMINISTIC_RUNS: u64 = WORKERS.len() as u64 * SEEDS;

/// Runs on threads for each number of workers.
pub const REPEATS: u64 = 5;

/// How one run is scheduled: by a seed, or by threads.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub workers: usize,
    /// The seed of the deterministic executor; `None` on threads.
    pub seed: Option<u64>,
    /// The backend of sockets on threads: half of the runs have each. Of no effect without them.
    pub sockets: SocketBackend,
}

impl Schedule {
    /// By a seed.
    pub fn seeded(workers: usize, seed: u64) -> Schedule {
        Schedule { workers, seed: Some(seed), sockets: SocketBackend::Epoll }
    }

    /// On threads, for the run with this number.
    pub fn threads(workers: usize, number: u64) -> Schedule {
        let sockets =
            if number.is_multiple_of(2) { SocketBackend::Epoll } else { SocketBackend::Ring };
        Schedule { workers, seed: None, sockets }
    }

    /// A builder for this schedule.
    pub fn builder(self) -> parcae::runtime::Builder<Service> {
        let builder = Runtime::builder().workers(self.workers).sockets(self.sockets);
        match self.seed {
            Some(seed) => builder.deterministic(seed),
            None => builder,
        }
    }
}

/// The seeds below `count`, or the one that `PARCAE_SEED` names.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let only = std::env::var("PARCAE_SEED").ok().and_then(|text| text.parse().ok());
    only.map_or(0..count, |seed: u64| seed..seed + 1)
}

/// Runs `test` with each number of workers: with so many seeds, then so many times on threads.
pub fn schedules(workers: &[usize], seed_count: u64, repeats: u64, test: impl Fn(Schedule)) {
    let _watchdog = Watchdog::start();
    for &workers in workers {
        for seed in seeds(seed_count) {
            naming_the_seed(workers, seed, || test(Schedule::seeded(workers, seed)));
        }
        for number in 0..repeats {
            test(Schedule::threads(workers, number));
        }
    }
}

/// Calls `test`; if it panics, says how to run the same schedule again.
pub fn naming_the_seed(workers: usize, seed: u64, test: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(test)) {
        // Not by macro: the seed is wanted even where output is captured.
        let line = format!("{workers} workers: PARCAE_SEED={seed} reproduces it\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        resume_unwind(payload);
    }
}

/// Runs `test` with a new runtime for every schedule.
pub fn with_runtimes(test: impl Fn(Arc<Runtime>)) {
    schedules(&WORKERS, SEEDS, REPEATS, |schedule| test(watched(schedule.builder())));
}

/// Runs `test` as a root task under every schedule, those of the lab first.
pub fn everywhere(test: impl Fn(&Cx) -> Result<()> + Sync) {
    in_the_lab(&test);
    on_workers(test);
}

/// The part of [`everywhere`] that has workers. For tests of the order in which workers run tasks,
/// of the length of turns, or of waits that end in a deadlock.
pub fn on_workers(test: impl Fn(&Cx) -> Result<()> + Sync) {
    with_runtimes(|rt| run(&rt, &test));
}

/// Runs `test` as a root task under the strategies of the lab.
pub fn in_the_lab(test: impl Fn(&Cx) -> Result<()> + Sync) {
    hunt(|rt| rt.run(|cx| test(cx)));
}

/// As [`parcae::explore`], after some schedules of the lab.
pub fn explored(
    seeds: std::ops::Range<u64>,
    test: impl Fn(&Runtime) -> Result<()> + Sync,
) -> Result<()> {
    hunt(&test);
    parcae::explore(seeds, test)
}

fn hunt(test: impl Fn(&Runtime) -> Result<()> + Sync) {
    hunt_on(Runtime::builder(), test);
}

/// Some schedules of the lab, on a runtime of any profile.
pub fn hunt_on<P: Profile + Clone>(
    builder: parcae::runtime::Builder<P>,
    test: impl Fn(&Runtime<P>) -> Result<()> + Sync,
) {
    // Some tests work for a long time, so that budgets end.
    let hunt = Explore::new().schedules(LAB_SCHEDULES).steps(60_000);
    let hunt = hunt.time(Duration::from_secs(5));
    if let Err(failure) = hunt.run_on(builder, test) {
        panic!("{failure}");
    }
}

/// Runs `test` as a root task under the deterministic executor only.
pub fn deterministic(test: impl Fn(&Cx) -> Result<()> + Sync) {
    schedules(&WORKERS, SEEDS, 0, |schedule| run(&watched(schedule.builder()), &test));
}

/// Runs `test` as a root task on threads only.
pub fn threads(test: impl Fn(&Cx) -> Result<()> + Sync) {
    schedules(&WORKERS, 0, REPEATS, |schedule| run(&watched(schedule.builder()), &test));
}

/// Runs `test` as a root task that is told its seed, or its number among the runs on threads. The
/// number of workers goes with the seed, so that more seeds can be afforded.
pub fn everywhere_seeded(test: impl Fn(&Cx, u64) -> Result<()> + Sync) {
    hunt(|rt| rt.run(|cx| test(cx, rt.seed() % 1_000)));
    on_workers_seeded(test);
}

/// The part of [`everywhere_seeded`] that has workers. For tests that count random choices, which a
/// strategy of the lab makes as it likes.
pub fn on_workers_seeded(test: impl Fn(&Cx, u64) -> Result<()> + Sync) {
    deterministic_seeded(300, &test);
    threads_numbered(20, &test);
}

/// The part of [`everywhere_seeded`] under the deterministic executor.
pub fn deterministic_seeded(count: u64, test: impl Fn(&Cx, u64) -> Result<()> + Sync) {
    let _watchdog = Watchdog::start();
    for seed in seeds(count) {
        let workers = WORKERS[(seed % 3) as usize];
        let rt = watched(Schedule::seeded(workers, seed).builder());
        naming_the_seed(workers, seed, || run(&rt, |cx| test(cx, seed)));
    }
}

/// The part of [`everywhere_seeded`] on threads. All runs share one runtime for each backend of
/// sockets; a number has both, with different numbers of workers.
pub fn threads_numbered(times: u64, test: impl Fn(&Cx, u64) -> Result<()> + Sync) {
    let _watchdog = Watchdog::start();
    for workers in WORKERS {
        let [even, odd] =
            [0, 1].map(|number| watched(Schedule::threads(workers, number).builder()));
        for time in 0..times {
            let rt = if (time + workers as u64).is_multiple_of(2) { &even } else { &odd };
            run(rt, |cx| test(cx, time));
        }
    }
}

/// Runs a root task and panics as it did, or with its error.
pub fn run(rt: &Runtime, test: impl Fn(&Cx) -> Result<()> + Sync) {
    succeed(rt.run(|cx| test(cx)));
}

/// Panics as the task did, or with its error.
pub fn succeed(outcome: Result<()>) {
    if let Err(error) = outcome {
        fail(&error);
    }
}

/// Panics as the task of this error did, or with the error.
pub fn fail(error: &Error) -> ! {
    match error.take_panic() {
        Some(payload) => resume_unwind(payload),
        None => panic!("{error:?}"),
    }
}

/// Builds a runtime that is dumped if its test hangs.
pub fn watched(builder: parcae::runtime::Builder<Service>) -> Arc<Runtime> {
    let rt = Arc::new(builder.build().unwrap());
    watchdog::watch(&rt);
    rt
}

/// A runtime on threads. With one worker no temporary worker helps.
pub fn runtime(workers: usize) -> Arc<Runtime> {
    let temporary = if workers == 1 { 0 } else { 8 };
    watched(Runtime::builder().workers(workers).temporary_workers(temporary))
}

/// A deterministic runtime with one worker.
pub fn seeded(seed: u64) -> Arc<Runtime> {
    watched(Runtime::builder().workers(1).deterministic(seed))
}

/// The kind of the error that `outcome` must be.
pub fn kind_of<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind().clone()
}

/// A budget that limits ops and nothing else.
pub fn ops(ops: u64) -> Budget {
    Budget { ops, ..Budget::UNLIMITED }
}

/// A nursery with so many ops, whose tasks are suspended when these are spent.
pub fn suspending(budget: u64) -> NurseryOpts {
    NurseryOpts::new().budget(ops(budget)).on_exhausted(OnExhausted::Suspend)
}

/// Spends so many ops.
pub fn work(cx: &Cx, ops: u64) -> Result<()> {
    (0..ops).try_for_each(|_| cx.checkpoint())
}

/// Computes until it is cancelled or out of budget.
pub fn forever(cx: &Cx) -> Result<()> {
    loop {
        cx.checkpoint()?;
    }
}

/// Parks until it is cancelled.
pub fn asleep(cx: &Cx) -> Result<()> {
    loop {
        cx.park()?;
    }
}

/// Yields until `done`.
pub fn until(cx: &Cx, done: impl Fn() -> bool) -> Result<()> {
    while !done() {
        cx.yield_now()?;
    }
    Ok(())
}

/// Computes for `n` rounds, with a checkpoint in each.
#[budgeted]
pub fn rounds(n: u64) -> u64 {
    let mut sum = 0;
    for round in 0..n {
        sum += round;
    }
    sum
}

/// Counts its drop.
pub struct Counts<'c>(pub &'c AtomicUsize);

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Yields so many times.
pub fn pause(cx: &Cx, turns: u64) -> Result<()> {
    (0..turns).try_for_each(|_| cx.yield_now())
}
