//! `realtime`: how many jobs of five scheduling contexts miss their deadline beside tasks without
//! one that want all of the worker. The contexts are admitted; together they use 0.7 of it.
//!
//! Under the deterministic executor an op takes a microsecond, and nothing else takes time: a miss
//! is one of the scheduler. On threads a job works for its budget less a fifth, and time that the
//! machine gives to other programs is missing to it: it is charged, so that a job may wait for its
//! next budget (`depleted`). The figures are in percent of all jobs, and each run has to have as
//! many jobs as it should.
//!
//! tokio runs the same jobs as tasks that wait for the ticks of an interval, without any promise.

use super::runtimes::{self, Futures, Spawner, Tokio};
use super::scale::{arithmetic, steps_per_micro};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::cap::CapContext;
use parcae::policy::ContextOpts;
use parcae::prelude::*;
use parcae::profile::Service;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) static REALTIME: Workload = Workload {
    name: "realtime",
    rounds: Rounds { full: 3, quick: 1 },
    variants: &[
        variant(
            "simulated_late",
            "misses in a million simulated jobs",
            &[Side::new(Peer::Parcae, simulated)],
        ),
        variant(
            "threads_late",
            "misses on a thread",
            &[
                Side::new(Peer::Parcae, |scale| Ok(threads(scale)?.late)),
                Side::new(Peer::Tokio, tokio),
            ],
        ),
        variant(
            "threads_depleted",
            "jobs on a thread that used up their budget",
            &[Side::new(Peer::Parcae, |scale| Ok(threads(scale)?.depleted))],
        ),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "%", better: Better::Lower, sides }
}

/// Budgets and periods in milliseconds: utilisation 0.7, 345 jobs in a second.
const SET: [(u64, u64); 5] = [(1, 5), (2, 20), (3, 20), (5, 50), (6, 40)];
const JOBS_PER_SECOND: u64 = 345;
/// Tasks without a context that compute.
const HOGS: usize = 4;
/// Simulated seconds of one runtime: it keeps a log, which would get too long.
const SIMULATED: u64 = 20;
/// Seconds on threads.
const SECONDS: usize = 10;

/// In percent of the jobs.
struct Misses {
    late: f64,
    depleted: f64,
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn admit(rt: &Runtime) -> Result<Vec<CapContext>, Failure> {
    let admit = |&(budget, period)| Ok(rt.admit(ContextOpts::new(ms(budget), ms(period)))?);
    SET.iter().map(admit).collect()
}

/// Runs the set for a time. `job` does the work of a budget in milliseconds, `hog` a little work.
fn play(
    rt: &Runtime,
    caps: &[CapContext],
    time: Duration,
    job: impl Fn(&Cx, u64) -> parcae::Result<()> + Sync,
    hog: impl Fn(&Cx) -> parcae::Result<()> + Sync,
) -> parcae::Result<()> {
    let over = AtomicBool::new(false);
    let goes_on = || !over.load(Ordering::Relaxed); // a task sees it a moment later
    rt.run(|cx| {
        cx.nursery(|n| {
            let (job, hog, goes_on) = (&job, &hog, &goes_on);
            for _ in 0..HOGS {
                n.spawn(move |cx| {
                    while goes_on() {
                        hog(cx)?;
                    }
                    Ok(())
                })?;
            }
            for ((budget, _), cap) in SET.iter().zip(caps) {
                n.spawn_with(SpawnOpts::new().context(cap), move |cx| {
                    while goes_on() {
                        cx.next_period()?;
                        job(cx, *budget)?;
                    }
                    Ok(())
                })?;
            }
            cx.sleep(time)?;
            over.store(true, Ordering::Relaxed); // see `goes_on`
            Ok(())
        })
    })
}

/// Sums of the contexts' figures: jobs, late ones, depletions.
fn sums(caps: &[CapContext]) -> [u64; 3] {
    let figures = caps.iter().map(|cap| {
        let stats = cap.stats();
        // A release that got no job at all is a miss, too.
        [stats.jobs + stats.skipped, stats.late + stats.skipped, stats.depletions]
    });
    figures.fold([0; 3], |sum, figure| [0, 1, 2].map(|at: usize| sum[at] + figure[at]))
}

fn simulated(scale: &Scale) -> Result<f64, Failure> {
    let wanted = scale.of(1_000_000) as u64;
    let (mut jobs, mut late, mut seed) = (0, 0, 0);
    while jobs < wanted {
        let builder = Runtime::builder().deterministic(seed).workers(1);
        let rt = builder.yield_interval(1_000).build()?;
        let caps = admit(&rt)?;
        // All of the budget, but for the op of the look at the time.
        let job = |cx: &Cx, budget: u64| (0..budget * 1_000 - 10).try_for_each(|_| cx.checkpoint());
        play(&rt, &caps, ms(1_000 * SIMULATED), job, |cx| cx.checkpoint())?;
        let [all, missed, _] = sums(&caps);
        if all < JOBS_PER_SECOND * SIMULATED - 20 {
            return Err(format!("seed {seed}: {all} jobs in {SIMULATED} s").into());
        }
        (jobs, late, seed) = (jobs + all, late + missed, seed + 1);
    }
    Ok(100.0 * late as f64 / jobs as f64)
}

fn threads(scale: &Scale) -> Result<Misses, Failure> {
    let rt = runtimes::runtime::<Service>(1)?;
    let (caps, steps, time) = (admit(&rt)?, steps_per_micro(), scale.of(SECONDS) as u64);
    let micro = |cx: &Cx| {
        black_box(arithmetic(black_box(steps)));
        cx.checkpoint()
    };
    let job = |cx: &Cx, budget: u64| (0..budget * 800).try_for_each(|_| micro(cx));
    play(&rt, &caps, ms(1_000 * time), job, micro)?;
    let [jobs, late, depleted] = sums(&caps);
    if jobs < JOBS_PER_SECOND * time / 2 {
        return Err(format!("{jobs} jobs in {time} s").into());
    }
    let percent = |count: u64| 100.0 * count as f64 / jobs as f64;
    Ok(Misses { late: percent(late), depleted: percent(depleted) })
}

/// Shared by all tasks on tokio.
struct Scene {
    steps: usize,
    over: AtomicBool,
    jobs: AtomicU64,
    late: AtomicU64,
}

impl Scene {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed) // a task sees it a moment later
    }

    async fn micro(&self) {
        black_box(arithmetic(black_box(self.steps)));
        ::tokio::task::coop::consume_budget().await;
    }
}

fn tokio(scale: &Scale) -> Result<f64, Failure> {
    let rt = Tokio::with_timers(1)?;
    let spawner = rt.spawner();
    let (over, jobs, late) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let scene = Arc::new(Scene { steps: steps_per_micro(), over, jobs, late });
    for _ in 0..HOGS {
        let scene = Arc::clone(&scene);
        spawner.detach(async move {
            while scene.goes_on() {
                scene.micro().await;
            }
        });
    }
    let all = SET.map(|(budget, period)| {
        let scene = Arc::clone(&scene);
        spawner.spawn(async move {
            let mut ticks = ::tokio::time::interval(ms(period));
            while scene.goes_on() {
                let release: Instant = ticks.tick().await.into();
                for _ in 0..budget * 800 {
                    scene.micro().await;
                }
                scene.jobs.fetch_add(1, Ordering::Relaxed); // a figure, as the next one
                let is_late = Instant::now() > release + ms(period);
                scene.late.fetch_add(u64::from(is_late), Ordering::Relaxed);
            }
        })
    });
    std::thread::sleep(ms(1_000 * scale.of(SECONDS) as u64));
    scene.over.store(true, Ordering::Relaxed); // see `goes_on`
    rt.run(async move {
        for task in all {
            task.await.expect("no task panics");
        }
    });
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64; // all have ended
    Ok(100.0 * read(&scene.late) / read(&scene.jobs).max(1.0))
}
