//! `interactive`: how long a request takes from a thread outside until a task has worked 20 µs for
//! it, alone and beside eight tasks that compute, on one worker.
//!
//! Requests come one after the other, with pauses of half a millisecond to one and a half. With
//! shares the interactive task and the eight are two tenants of the same weight, and the first asks
//! for short slices. `fifo` has no shares; neither has tokio. All tasks come to a checkpoint (in
//! tokio: `consume_budget`) after each microsecond of work.

use super::runtimes::{self, Futures, Spawner, TIMEOUT, Tokio};
use super::scale::{arithmetic, steps_per_micro};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::channel::channel;
use parcae::policy::{Latency, Weight};
use parcae::prelude::*;
use parcae::profile::Service;
use std::hint::{self, black_box};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(super) static INTERACTIVE: Workload = Workload {
    name: "interactive",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant(
            "alone_p99",
            "request to answer, nothing else runs",
            "ns/request",
            &[
                Side::new(Peer::Parcae, |scale| parcae(scale, 0, true)),
                Side::new(Peer::Tokio, |scale| tokio(scale, 0)),
            ],
        ),
        variant(
            "beside_p99",
            "the same beside eight tasks that compute",
            "ns/request",
            &[
                Side::new(Peer::Parcae, |scale| parcae(scale, HOGS, true)),
                Side::new(Peer::Tokio, |scale| tokio(scale, HOGS)),
            ],
        ),
        variant(
            "slowdown_p99",
            "beside them over alone",
            "×",
            &[
                Side::new(Peer::Parcae, |scale| {
                    Ok(parcae(scale, HOGS, true)? / parcae(scale, 0, true)?)
                }),
                Side::new(Peer::Tokio, |scale| Ok(tokio(scale, HOGS)? / tokio(scale, 0)?)),
            ],
        ),
        variant(
            "fifo_slowdown_p99",
            "the same without shares",
            "×",
            &[Side::new(Peer::Parcae, |scale| {
                Ok(parcae(scale, HOGS, false)? / parcae(scale, 0, false)?)
            })],
        ),
    ],
};

const fn variant(
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    sides: &'static [Side],
) -> Variant {
    Variant { name, about, unit, better: Better::Lower, sides }
}

/// Tasks that compute.
const HOGS: usize = 8;
/// Microseconds of work for a request.
const WORK: usize = 20;
const REQUESTS: usize = 2_000;

/// Shared by all tasks and the thread that asks.
struct Scene {
    epoch: Instant,
    steps: usize,
    /// How long the last request took; 0 until it is answered.
    took: AtomicU64,
    over: AtomicBool,
}

impl Scene {
    fn new() -> Arc<Scene> {
        let (took, over) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Scene { epoch: Instant::now(), steps: steps_per_micro(), took, over })
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn micro(&self) {
        black_box(arithmetic(black_box(self.steps)));
    }

    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed) // a task sees it a moment later
    }

    fn answer(&self, asked: u64) {
        // Release: pairs with the Acquire in `ask`.
        self.took.store(self.now().saturating_sub(asked).max(1), Ordering::Release);
    }

    /// Asks one after the other; the ninety-ninth percentile of the times.
    fn ask(&self, scale: &Scale, send: impl Fn(u64) -> bool) -> Result<f64, Failure> {
        let count = scale.of(REQUESTS);
        let mut times = Vec::with_capacity(count);
        for request in 0..count as u64 {
            // In no step with the turns of the scheduler.
            thread::sleep(Duration::from_micros(500 + request * 7919 % 1000));
            let asked = self.now();
            if !send(asked) {
                return Err("the task has left".into());
            }
            let start = Instant::now();
            let took = loop {
                // Acquire: pairs with the Release in `answer`.
                match self.took.swap(0, Ordering::Acquire) {
                    0 if start.elapsed() > TIMEOUT => return Err("no answer".into()),
                    0 => hint::spin_loop(),
                    took => break took,
                }
            };
            times.push(took);
        }
        times.sort_unstable();
        Ok(times[count * 99 / 100] as f64)
    }
}

fn parcae(scale: &Scale, hogs: usize, shares: bool) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(1)?;
    let scene = Scene::new();
    let (tx, rx) = channel::<u64>(1);
    let share = |opts: NurseryOpts| if shares { opts.share(Weight::NORMAL) } else { opts };
    thread::scope(|threads| {
        let scene = &scene;
        let asking = threads.spawn(move || {
            let p99 = scene.ask(scale, |asked| tx.send(asked).is_ok());
            scene.over.store(true, Ordering::Relaxed); // see `goes_on`
            p99.map_err(|failure| failure.to_string())
        });
        let ran = rt.run(|cx| {
            cx.nursery(|all| {
                all.spawn(move |cx| {
                    let mut opts = share(NurseryOpts::new());
                    if shares {
                        opts = opts.latency(Latency::Sensitive);
                    }
                    cx.nursery_with(opts, |n| {
                        n.spawn(move |cx| {
                            while let Ok(asked) = rx.recv() {
                                for _ in 0..WORK {
                                    scene.micro();
                                    cx.checkpoint()?;
                                }
                                scene.answer(asked);
                            }
                            Ok(())
                        })
                        .map(drop)
                    })
                })?;
                cx.nursery_with(share(NurseryOpts::new()), |n| {
                    (0..hogs).try_for_each(|_| {
                        n.spawn(move |cx| {
                            while scene.goes_on() {
                                scene.micro();
                                cx.checkpoint()?;
                            }
                            Ok(())
                        })
                        .map(drop)
                    })
                })
            })
        });
        let p99 = asking.join().map_err(|_| "the asking thread has panicked")?;
        ran?;
        Ok(p99?)
    })
}

fn tokio(scale: &Scale, hogs: usize) -> Result<f64, Failure> {
    let rt = Tokio::start(1)?;
    let (scene, spawner) = (Scene::new(), rt.spawner());
    let (tx, mut rx) = ::tokio::sync::mpsc::channel::<u64>(1);
    let own = Arc::clone(&scene);
    spawner.detach(async move {
        while let Some(asked) = rx.recv().await {
            for _ in 0..WORK {
                own.micro();
                ::tokio::task::coop::consume_budget().await;
            }
            own.answer(asked);
        }
    });
    for _ in 0..hogs {
        let own = Arc::clone(&scene);
        spawner.detach(async move {
            while own.goes_on() {
                own.micro();
                ::tokio::task::coop::consume_budget().await;
            }
        });
    }
    let p99 = scene.ask(scale, |asked| tx.blocking_send(asked).is_ok());
    scene.over.store(true, Ordering::Relaxed); // see `goes_on`
    p99
}
