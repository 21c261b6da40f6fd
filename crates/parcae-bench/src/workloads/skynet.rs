//! `skynet`: a tree of tasks in which each spawns ten and adds up their results; 1,000,000 leaves.
//!
//! Parents wait while their children run, so this is about tasks that wait as much as about
//! spawning: on parcae each of them has a stack. `budget` counts every resource: a nursery in each
//! inner task, with a pool that is filled from the one above. `channel` has no joins: each task
//! sends its sum to its parent, which receives ten.

use super::runtimes::{self, AsyncExecutor, Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::channel::{self, Sender};
use parcae::prelude::*;
use parcae::profile::Service;
use std::pin::Pin;
use std::time::Instant;
use tokio::sync::mpsc;

pub(super) static SKYNET: Workload = Workload {
    name: "skynet",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("w1", "a tree of 1,111,111 tasks, ten to each parent; one worker", &sides::<1>()),
        variant("w2", "a tree of 1,111,111 tasks, ten to each parent; two workers", &sides::<2>()),
        variant("channel_w1", "the same, sums sent over channels; one worker", &channels::<1>()),
        variant("channel_w2", "the same, sums sent over channels; two workers", &channels::<2>()),
        variant("budget_w1", "the same, with all resources counted; one worker", &counted::<1>()),
        variant("budget_w2", "the same, with all resources counted; two workers", &counted::<2>()),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "ns/task", better: Better::Lower, sides }
}

const fn sides<const WORKERS: usize>() -> [Side; 4] {
    [
        Side::new(Peer::Parcae, |scale| parcae(WORKERS, scale, NurseryOpts::new())),
        Side::new(Peer::Tokio, |scale| futures::<Tokio>(WORKERS, scale)),
        Side::new(Peer::AsyncExecutor, |scale| futures::<AsyncExecutor>(WORKERS, scale)),
        Side::new(Peer::Rayon, |scale| rayon(WORKERS, scale)),
    ]
}

const fn counted<const WORKERS: usize>() -> [Side; 1] {
    [Side::new(Peer::Parcae, |scale| parcae(WORKERS, scale, bounded()))]
}

const fn channels<const WORKERS: usize>() -> [Side; 2] {
    [
        Side::new(Peer::Parcae, |scale| parcae_channels(WORKERS, scale)),
        Side::new(Peer::Tokio, |scale| tokio_channels(WORKERS, scale)),
    ]
}

const FAN_OUT: usize = 10;

/// Counted, and never used up. Each task gets enough to spawn its children.
fn bounded() -> NurseryOpts {
    let all = Budget { ops: 1 << 50, memory: 1 << 50, spawn_count: 1 << 50, ..Budget::ZERO };
    let each = Budget { ops: 100, memory: 1 << 10, spawn_count: FAN_OUT as u64, ..Budget::ZERO };
    NurseryOpts::new().budget(all).slice(each)
}

/// Times a tree, and checks its sum. Nanoseconds per task.
fn timed(
    scale: &Scale,
    tree: impl FnOnce(usize) -> Result<usize, Failure>,
) -> Result<f64, Failure> {
    let leaves = scale.of(1_000_000);
    let start = Instant::now();
    let sum = tree(leaves)?;
    let time = start.elapsed();
    let expected = leaves * (leaves - 1) / 2;
    if sum != expected {
        return Err(format!("the leaves add up to {sum} instead of {expected}").into());
    }
    let tasks =
        std::iter::successors(Some(leaves), |&n| (n > 1).then_some(n / FAN_OUT)).sum::<usize>();
    Ok(time.as_nanos() as f64 / tasks as f64)
}

/// The first leaves of the children of a task that has `size` leaves, the first being `first`.
fn children(first: usize, size: usize) -> impl Iterator<Item = usize> {
    (0..FAN_OUT).map(move |child| first + child * (size / FAN_OUT))
}

fn parcae(workers: usize, scale: &Scale, opts: NurseryOpts) -> Result<f64, Failure> {
    fn node(cx: &Cx, first: usize, size: usize) -> parcae::Result<usize> {
        if size == 1 {
            return Ok(first);
        }
        cx.nursery(|n| {
            let mut spawned = [const { None }; FAN_OUT];
            for (slot, first) in spawned.iter_mut().zip(children(first, size)) {
                *slot = Some(n.spawn(move |cx| node(cx, first, size / FAN_OUT))?);
            }
            spawned.into_iter().flatten().map(TaskHandle::join).sum()
        })
    }
    let rt = runtimes::runtime::<Service>(workers)?;
    timed(scale, |leaves| {
        Ok(rt.run(|cx| cx.nursery_with(opts, |n| n.spawn(move |cx| node(cx, 0, leaves))?.join()))?)
    })
}

fn parcae_channels(workers: usize, scale: &Scale) -> Result<f64, Failure> {
    fn node(cx: &Cx, first: usize, size: usize, up: &Sender<usize>) -> parcae::Result<()> {
        if size == 1 {
            return Ok(up.send(first)?);
        }
        let (sender, receiver) = channel::channel(FAN_OUT);
        cx.nursery(|n| {
            for first in children(first, size) {
                let sender = &sender;
                n.spawn(move |cx| node(cx, first, size / FAN_OUT, sender))?;
            }
            let mut sum = 0;
            for _ in 0..FAN_OUT {
                sum += receiver.recv()?;
            }
            Ok(up.send(sum)?)
        })
    }
    let rt = runtimes::runtime::<Service>(workers)?;
    timed(scale, |leaves| {
        let (sender, receiver) = channel::channel(1);
        rt.run(|cx| node(cx, 0, leaves, &sender))?;
        Ok(receiver.recv()?)
    })
}

fn tokio_channels(workers: usize, scale: &Scale) -> Result<f64, Failure> {
    fn node(
        first: usize,
        size: usize,
        up: mpsc::Sender<usize>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if size == 1 {
                return up.send(first).await.expect("the parent receives");
            }
            let (sender, mut receiver) = mpsc::channel(FAN_OUT);
            for first in children(first, size) {
                tokio::spawn(node(first, size / FAN_OUT, sender.clone()));
            }
            let mut sum = 0;
            for _ in 0..FAN_OUT {
                sum += receiver.recv().await.expect("ten children send");
            }
            up.send(sum).await.expect("the parent receives");
        })
    }
    let runtime = Tokio::start(workers)?;
    timed(scale, |leaves| {
        let sum = runtime.run(async move {
            let (sender, mut receiver) = mpsc::channel(1);
            node(0, leaves, sender).await;
            receiver.recv().await
        });
        Ok(sum.ok_or("no sum was sent")?)
    })
}

fn rayon(workers: usize, scale: &Scale) -> Result<f64, Failure> {
    fn node(first: usize, size: usize) -> usize {
        if size == 1 {
            return first;
        }
        let mut sums = [0; FAN_OUT];
        rayon::scope(|scope| {
            for (sum, first) in sums.iter_mut().zip(children(first, size)) {
                scope.spawn(move |_| *sum = node(first, size / FAN_OUT));
            }
        });
        sums.iter().sum()
    }
    let pool = runtimes::rayon(workers)?;
    timed(scale, |leaves| Ok(pool.install(|| node(0, leaves))))
}

fn futures<R: Futures>(workers: usize, scale: &Scale) -> Result<f64, Failure> {
    fn node<S: Spawner>(
        spawner: S,
        first: usize,
        size: usize,
    ) -> Pin<Box<dyn Future<Output = usize> + Send>> {
        Box::pin(async move {
            if size == 1 {
                return first;
            }
            let mut spawned = Vec::with_capacity(FAN_OUT);
            for first in children(first, size) {
                spawned.push(spawner.spawn(node(spawner.clone(), first, size / FAN_OUT)));
            }
            let mut sum = 0;
            for task in spawned {
                sum += task.await;
            }
            sum
        })
    }
    let runtime = R::start(workers)?;
    timed(scale, |leaves| Ok(runtime.run(node(runtime.spawner(), 0, leaves))))
}
