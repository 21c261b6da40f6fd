//! `select`: the cost of waiting for the first of four channels.
//!
//! `ready4`: there are values in all four, put there beforehand, and one task takes them out by
//! selecting without waiting. `idle4`: all four are empty and have room for one value; another task
//! sends to each in turn, and waits for an answer before it goes on, so every select waits. A
//! figure there is a value selected and answered.
//!
//! parcae and tokio have one worker. tokio's side polls the four receivers from a changing one on,
//! which is what its `select!` expands to. crossbeam-channel and flume select on threads: with
//! `idle4` there are two.

use super::nanos_per;
use super::runtimes::{Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::channel::{Receiver, Sender, channel};
use parcae::prelude::Runtime;
use std::future::poll_fn;
use std::task::Poll;
use std::thread;
use std::time::Instant;
use tokio::sync::mpsc;

pub(super) static SELECT: Workload = Workload {
    name: "select",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        Variant {
            name: "ready4",
            about: "select from four channels that have values; one task",
            unit: "ns/select",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, parcae_ready),
                Side::new(Peer::Tokio, tokio_ready),
                Side::new(Peer::CrossbeamChannel, crossbeam_ready),
                Side::new(Peer::Flume, flume_ready),
            ],
        },
        Variant {
            name: "idle4",
            about: "select from four empty channels; a value comes and is answered",
            unit: "ns/select",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, parcae_idle),
                Side::new(Peer::Tokio, tokio_idle),
                Side::new(Peer::CrossbeamChannel, crossbeam_idle),
                Side::new(Peer::Flume, flume_idle),
            ],
        },
    ],
};

/// Selects that find a value.
const READY: usize = 100_000;
/// Selects that wait.
const IDLE: usize = 50_000;
/// The same with threads, which are slow.
const IDLE_THREADS: usize = 5_000;

/// Four channels, their ends apart.
fn four<T, R>(mut open: impl FnMut() -> (T, R)) -> ([T; 4], [R; 4]) {
    let [(t0, r0), (t1, r1), (t2, r2), (t3, r3)] = std::array::from_fn(|_| open());
    ([t0, t1, t2, t3], [r0, r1, r2, r3])
}

/// Values enough in each channel for the selects to take all from one.
fn fill<T, E>(senders: &[T; 4], count: usize, mut send: impl FnMut(&T, usize) -> Result<(), E>) {
    for (tx, value) in senders.iter().flat_map(|tx| (0..count).map(move |value| (tx, value))) {
        assert!(send(tx, value).is_ok(), "there is room");
    }
}

fn parcae_select([a, b, c, d]: &[Receiver<usize>; 4]) -> parcae::Result<usize> {
    Ok(parcae::select! {
        recv(a) -> value => value?,
        recv(b) -> value => value?,
        recv(c) -> value => value?,
        recv(d) -> value => value?,
    }?)
}

fn parcae_ready(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(READY);
    let figure = Runtime::builder().workers(1).build()?.run(|_| {
        let (senders, receivers) = four(|| channel(count));
        fill(&senders, count, Sender::send);
        let start = Instant::now();
        for _ in 0..count {
            parcae_select(&receivers)?;
        }
        Ok(nanos_per(start, count))
    });
    Ok(figure?)
}

fn parcae_idle(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(IDLE);
    let figure = Runtime::builder().workers(1).build()?.run(|cx| {
        let (senders, receivers) = four(|| channel(1));
        let (answer, answered) = channel(1);
        cx.nursery(|n| {
            n.spawn(move |_| {
                for _ in 0..count {
                    answer.send(parcae_select(&receivers)?)?;
                }
                Ok(())
            })?;
            let start = Instant::now();
            for i in 0..count {
                senders[i % 4].send(i)?;
                answered.recv()?;
            }
            Ok(nanos_per(start, count))
        })
    });
    Ok(figure?)
}

/// The first of them that has a value, from the `start`th on.
async fn tokio_select(receivers: &mut [mpsc::Receiver<usize>; 4], start: usize) -> usize {
    poll_fn(|context| {
        for at in 0..4 {
            if let Poll::Ready(value) = receivers[(start + at) % 4].poll_recv(context) {
                return Poll::Ready(value.expect("open"));
            }
        }
        Poll::Pending
    })
    .await
}

fn tokio_ready(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(READY);
    Ok(Tokio::start(1)?.run(async move {
        let (senders, mut receivers) = four(|| mpsc::channel(count));
        fill(&senders, count, mpsc::Sender::try_send);
        let start = Instant::now();
        for i in 0..count {
            tokio_select(&mut receivers, i).await;
        }
        nanos_per(start, count)
    }))
}

fn tokio_idle(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(IDLE);
    let runtime = Tokio::start(1)?;
    let spawner = runtime.spawner();
    Ok(runtime.run(async move {
        let (senders, mut receivers) = four(|| mpsc::channel(1));
        let (answer, mut answered) = mpsc::channel(1);
        let partner = Spawner::spawn(&spawner, async move {
            for i in 0..count {
                let value = tokio_select(&mut receivers, i / 2).await;
                answer.send(value).await.expect("open");
            }
        });
        let start = Instant::now();
        for i in 0..count {
            senders[i % 4].send(i).await.expect("open");
            answered.recv().await;
        }
        let figure = nanos_per(start, count);
        partner.await;
        figure
    }))
}

fn crossbeam_select([a, b, c, d]: &[crossbeam_channel::Receiver<usize>; 4]) -> usize {
    crossbeam_channel::select! {
        recv(a) -> value => value,
        recv(b) -> value => value,
        recv(c) -> value => value,
        recv(d) -> value => value,
    }
    .expect("open")
}

fn crossbeam_ready(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(READY);
    let (senders, receivers) = four(|| crossbeam_channel::bounded(count));
    fill(&senders, count, crossbeam_channel::Sender::send);
    let start = Instant::now();
    for _ in 0..count {
        crossbeam_select(&receivers);
    }
    Ok(nanos_per(start, count))
}

fn crossbeam_idle(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(IDLE_THREADS);
    let (senders, receivers) = four(|| crossbeam_channel::bounded(1));
    let (answer, answered) = crossbeam_channel::bounded(1);
    let select = || answer.send(crossbeam_select(&receivers)).expect("open");
    Ok(on_threads(count, select, |i| {
        senders[i % 4].send(i).expect("open");
        answered.recv().expect("open");
    }))
}

fn flume_select(receivers: &[flume::Receiver<usize>; 4]) -> usize {
    let selector = receivers.iter().fold(flume::Selector::new(), |selector, rx| {
        selector.recv(rx, |value| value.expect("open"))
    });
    selector.wait()
}

fn flume_ready(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(READY);
    let (senders, receivers) = four(|| flume::bounded(count));
    fill(&senders, count, flume::Sender::send);
    let start = Instant::now();
    for _ in 0..count {
        flume_select(&receivers);
    }
    Ok(nanos_per(start, count))
}

fn flume_idle(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(IDLE_THREADS);
    let (senders, receivers) = four(|| flume::bounded(1));
    let (answer, answered) = flume::bounded(1);
    let select = || answer.send(flume_select(&receivers)).expect("open");
    Ok(on_threads(count, select, |i| {
        senders[i % 4].send(i).expect("open");
        answered.recv().expect("open");
    }))
}

/// One thread selects, this one sends and waits for the answer.
fn on_threads(count: usize, select: impl Fn() + Send, mut send: impl FnMut(usize)) -> f64 {
    thread::scope(|scope| {
        scope.spawn(move || (0..count).for_each(|_| select()));
        let start = Instant::now();
        (0..count).for_each(&mut send);
        nanos_per(start, count)
    })
}
