//! `shares`: whether tenants of weights 1, 2 and 4 do one, two and four sevenths of the work.
//!
//! Each tenant has the same tasks. A task does work of a microsecond, counts it for its tenant, and
//! comes to a checkpoint (in tokio: `consume_budget`), over and over. A thread outside reads the
//! counts every 10 ms. Work counts, not the clock of the scheduler: wrong charges are found out.
//!
//! The *error* of a window is the largest difference, over the tenants, between the part of the
//! work that a tenant has done and the part that its weight stands for, in percent of all work. The
//! *index* is Jain's, of work over weight: 1 if each has the share of its weight, 1/3 if one has
//! everything. A figure is the median over the windows. Turns are of 0.7 ms, a window of 10 ms has
//! 14 of them, so that one turn more or less is an error of 7 %.
//!
//! tokio has no weights, and `fifo` leaves them out: both give each task the same, which is an
//! error of 24 %. The costs of shares are in `policy`.

use super::runtimes::{self, Futures, Spawner, Tokio};
use super::scale::{arithmetic, steps_per_micro};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::policy::Weight;
use parcae::prelude::*;
use parcae::profile::Service;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

pub(super) static SHARES: Workload = Workload {
    name: "shares",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        error("hogs_100ms", "error in 100 ms, tasks that compute", &both::<HOGS, 1, 10>()),
        error("hogs_10ms", "the same in 10 ms", &both::<HOGS, 1, 1>()),
        index("hogs_index_100ms", "Jain's index of the same in 100 ms", &indices::<10>()),
        index("hogs_index_10ms", "the same in 10 ms", &indices::<1>()),
        error("hogs_100ms_w2", "error in 100 ms on two workers", &both::<HOGS, 2, 10>()),
        error("sleepers_100ms", "one computes, four nap after 20 µs", &both::<SLEEPERS, 1, 10>()),
        error("sleepers_10ms", "the same in 10 ms", &both::<SLEEPERS, 1, 1>()),
        error("yielders_100ms", "all yield after each µs", &both::<YIELDERS, 1, 10>()),
        error("yielders_10ms", "the same in 10 ms", &both::<YIELDERS, 1, 1>()),
        error("fifo_100ms", "hogs without shares", &[Side::new(Peer::Parcae, fifo)]),
    ],
};

const fn error(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "%", better: Better::Lower, sides }
}

const fn index(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "index", better: Better::Higher, sides }
}

const fn both<const LOAD: u8, const WORKERS: usize, const STEPS: usize>() -> [Side; 2] {
    [
        Side::new(Peer::Parcae, |scale| {
            Ok(median(&parcae(scale, LOAD, WORKERS, true)?, STEPS, largest_error))
        }),
        Side::new(Peer::Tokio, |scale| {
            Ok(median(&tokio(scale, LOAD, WORKERS)?, STEPS, largest_error))
        }),
    ]
}

const fn indices<const STEPS: usize>() -> [Side; 2] {
    [
        Side::new(Peer::Parcae, |scale| Ok(median(&parcae(scale, HOGS, 1, true)?, STEPS, jain))),
        Side::new(Peer::Tokio, |scale| Ok(median(&tokio(scale, HOGS, 1)?, STEPS, jain))),
    ]
}

fn fifo(scale: &Scale) -> Result<f64, Failure> {
    Ok(median(&parcae(scale, HOGS, 1, false)?, 10, largest_error))
}

/// The kinds of tasks: they differ in the step after each microsecond of work.
const HOGS: u8 = 0;
const SLEEPERS: u8 = 1;
const YIELDERS: u8 = 2;

const WEIGHTS: [u32; 3] = [1, 2, 4];
/// Tasks of each tenant and worker; sleepers have one more, which computes.
const TASKS: usize = 4;
/// How long a sleeper sleeps, and after how many microseconds of work.
const NAP: Duration = Duration::from_millis(1);
const NAP_AFTER: u64 = 20;
/// The time between two readings, the readings of one measurement, and those before it.
const STEP: Duration = Duration::from_millis(10);
const READINGS: usize = 200;
const WARM_UP: usize = 50;

/// Counts of each tenant at one moment, or their differences.
type Work = [u64; 3];

/// The work of a tenant, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// Shared by all tasks, and the thread that reads.
#[derive(Default)]
struct Scene {
    counts: [Count; 3],
    over: AtomicBool,
    steps: usize,
}

impl Scene {
    fn new() -> Arc<Scene> {
        Arc::new(Scene { steps: steps_per_micro(), ..Scene::default() })
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed) // a task sees it a moment later
    }

    /// A microsecond of work.
    fn work(&self, tenant: usize) {
        black_box(arithmetic(black_box(self.steps)));
        // Relaxed, here and in `read`: a count orders nothing.
        self.counts[tenant].0.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Work {
        [0, 1, 2].map(|tenant: usize| self.counts[tenant].0.load(Ordering::Relaxed)) // see `work`
    }

    /// Reads now and then, until there is enough. Returns the work between each two readings.
    fn watch(&self, scale: &Scale) -> Vec<Work> {
        // At least one window of 100 ms.
        let count = WARM_UP + scale.of(READINGS).max(10);
        let mut readings = vec![self.read()];
        for _ in 0..count {
            thread::sleep(STEP);
            readings.push(self.read());
        }
        self.over.store(true, Ordering::Relaxed); // see `goes_on`
        readings[WARM_UP..].windows(2).map(|pair| difference(pair[1], pair[0])).collect()
    }
}

fn difference(now: Work, old: Work) -> Work {
    [0, 1, 2].map(|tenant: usize| now[tenant] - old[tenant])
}

/// Whether this task of a tenant naps. The first one of sleepers computes.
fn naps(load: u8, task: usize) -> bool {
    load == SLEEPERS && task > 0
}

fn tasks(load: u8, workers: usize) -> usize {
    (TASKS + usize::from(load == SLEEPERS)) * workers
}

fn parcae(scale: &Scale, load: u8, workers: usize, shares: bool) -> Result<Vec<Work>, Failure> {
    let rt = runtimes::runtime::<Service>(workers)?;
    let scene = Scene::new();
    thread::scope(|threads| {
        let watching = threads.spawn(|| scene.watch(scale));
        let ran = rt.run(|cx| {
            cx.nursery(|all| {
                for (tenant, weight) in WEIGHTS.into_iter().enumerate() {
                    let scene = &scene;
                    all.spawn(move |cx| {
                        let mut opts = NurseryOpts::new();
                        if shares {
                            opts = opts.share(Weight::new(1024 * weight).expect("a weight"));
                        }
                        cx.nursery_with(opts, |n| {
                            (0..tasks(load, workers)).try_for_each(|task| {
                                n.spawn(move |cx| fiber(cx, scene, tenant, load, naps(load, task)))
                                    .map(drop)
                            })
                        })
                    })?;
                }
                Ok(())
            })
        });
        let work = watching.join().map_err(|_| "the reader has panicked")?;
        ran?;
        Ok(work)
    })
}

fn fiber(cx: &Cx, scene: &Scene, tenant: usize, load: u8, naps: bool) -> parcae::Result<()> {
    let mut done = 0;
    while scene.goes_on() {
        scene.work(tenant);
        done += 1;
        if naps && done % NAP_AFTER == 0 {
            cx.sleep(NAP)?;
        } else if load == YIELDERS {
            cx.yield_now()?;
        } else {
            cx.checkpoint()?;
        }
    }
    Ok(())
}

fn tokio(scale: &Scale, load: u8, workers: usize) -> Result<Vec<Work>, Failure> {
    let rt = Tokio::with_timers(workers)?;
    let (scene, spawner) = (Scene::new(), rt.spawner());
    let all = (0..3).flat_map(|tenant| (0..tasks(load, workers)).map(move |task| (tenant, task)));
    for (tenant, task) in all {
        let scene = Arc::clone(&scene);
        spawner.detach(async move {
            let (naps, mut done) = (naps(load, task), 0);
            while scene.goes_on() {
                scene.work(tenant);
                done += 1;
                if naps && done % NAP_AFTER == 0 {
                    ::tokio::time::sleep(NAP).await;
                } else if load == YIELDERS {
                    ::tokio::task::yield_now().await;
                } else {
                    ::tokio::task::coop::consume_budget().await;
                }
            }
        });
    }
    Ok(scene.watch(scale))
}

/// The median over windows of so many steps. Windows without any work are left out: the machine
/// did something else.
fn median(work: &[Work], steps: usize, of: fn(Work) -> f64) -> f64 {
    let sum = |window: &[Work]| {
        window.iter().fold([0; 3], |sum: Work, step| [0, 1, 2].map(|t: usize| sum[t] + step[t]))
    };
    let windows = work.chunks_exact(steps).map(sum).filter(|work| work.iter().sum::<u64>() > 0);
    let mut values: Vec<f64> = windows.map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn largest_error(work: Work) -> f64 {
    let (all, weights) = (work.iter().sum::<u64>() as f64, WEIGHTS.iter().sum::<u32>());
    let errors = work.into_iter().zip(WEIGHTS).map(|(work, weight)| {
        (work as f64 / all - f64::from(weight) / f64::from(weights)).abs() * 100.0
    });
    errors.fold(0.0, f64::max)
}

/// Jain's index of work over weight.
fn jain(work: Work) -> f64 {
    let parts = work.into_iter().zip(WEIGHTS).map(|(work, weight)| work as f64 / f64::from(weight));
    let (sum, squares) = parts.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (3.0 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_and_index_are_those_of_the_text() {
        assert!(largest_error([1, 2, 4]) < 1e-9 && (jain([1, 2, 4]) - 1.0).abs() < 1e-9);
        // All the same: a third instead of four sevenths.
        assert!((largest_error([5, 5, 5]) - 100.0 * (4.0 / 7.0 - 1.0 / 3.0)).abs() < 1e-9);
        // One has everything.
        assert!((jain([0, 0, 9]) - 1.0 / 3.0).abs() < 1e-9);
        assert!((largest_error([0, 0, 9]) - 100.0 * 3.0 / 7.0).abs() < 1e-9);
    }

    #[test]
    fn windows_are_added_up_and_empty_ones_left_out() {
        let work = [[1, 0, 0], [0, 2, 4], [0, 0, 0], [0, 0, 0], [7, 0, 0], [0, 0, 0]];
        // Exact, empty, all for the lightest: the middle of two is the larger one.
        assert!((median(&work, 2, largest_error) - 100.0 * 6.0 / 7.0).abs() < 1e-9);
        assert!(median(&work[..4], 2, largest_error) < 1e-9);
        assert!(median(&work[2..4], 2, largest_error).is_nan());
    }
}
