//! `pingpong` and `channel`: values passed between tasks.
//!
//! `pingpong`: two tasks send a number back and forth over two channels. `channel`: some tasks send
//! as many values as they can, others receive them. Channels for futures run on tokio's scheduler,
//! which has as many workers as parcae; those for threads on as many threads as there are tasks,
//! whatever the number of workers. tokio's own channel has one receiver and no rendezvous. A result
//! of `channel` is the time for one value, sent and received; of `pingpong`, for a round trip.
//!
//! `apart`: the first task keeps its worker busy until the other one has started elsewhere, so that
//! they run on two workers at first. Tasks of parcae stay there; the peers may bring theirs
//! together later.

use super::nanos_per;
use super::runtimes::{self, Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::channel::{Receiver, Sender, channel, unbounded};
use parcae::prelude::Runtime;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(super) static PINGPONG: Workload = Workload {
    name: "pingpong",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("rendezvous_1", "round trip over two rendezvous channels, one worker", {
            &pingpong_rendezvous::<1>()
        }),
        variant("rendezvous_2", "round trip over two rendezvous channels, two workers", {
            &pingpong_rendezvous::<2>()
        }),
        variant("capacity1_1", "round trip over two channels of capacity 1, one worker", {
            &with_may(pingpong_buffered::<1>())
        }),
        variant("capacity1_2", "round trip over two channels of capacity 1, two workers", {
            &pingpong_buffered::<2>()
        }),
        variant("apart_0", "round trip over two rendezvous channels, on two workers", {
            &[
                Side::new(Peer::Parcae, parcae_pingpong::<2, 0, APART>),
                Side::new(Peer::Kanal, pingpong::<Kanal, 2, 0, APART>),
            ]
        }),
        variant("apart_1", "round trip over two channels of capacity 1, on two workers", {
            &[
                Side::new(Peer::Parcae, parcae_pingpong::<2, 1, APART>),
                Side::new(Peer::Tokio, pingpong::<Mpsc, 2, 1, APART>),
                Side::new(Peer::Kanal, pingpong::<Kanal, 2, 1, APART>),
            ]
        }),
    ],
};

pub(super) static CHANNEL: Workload = Workload {
    name: "channel",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("spsc_1", "one sender, one receiver, capacity 1024, one worker", {
            &one_receiver::<1, 1, BOUNDED>()
        }),
        variant("spsc_2", "one sender, one receiver, capacity 1024, two workers", {
            &one_receiver::<2, 1, BOUNDED>()
        }),
        variant("mpsc4_2", "four senders, one receiver, capacity 1024, two workers", {
            &one_receiver::<2, 4, BOUNDED>()
        }),
        variant("mpmc4_1", "four senders, four receivers, capacity 1024, one worker", {
            &many_receivers::<1>()
        }),
        variant("mpmc4_2", "four senders, four receivers, capacity 1024, two workers", {
            &many_receivers::<2>()
        }),
        variant("unbounded_1", "one sender, one receiver, unbounded, one worker", {
            &one_receiver::<1, 1, UNBOUNDED>()
        }),
        variant("unbounded_2", "one sender, one receiver, unbounded, two workers", {
            &one_receiver::<2, 1, UNBOUNDED>()
        }),
    ],
};

/// Where the two tasks of a round trip begin.
type Start = u8;
const ANYWHERE: Start = 0;
const APART: Start = 1;

const BOUNDED: usize = 1024;
const UNBOUNDED: usize = usize::MAX;

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "ns", better: Better::Lower, sides }
}

const fn pingpong_rendezvous<const WORKERS: usize>() -> [Side; 4] {
    [
        Side::new(Peer::Parcae, parcae_pingpong::<WORKERS, 0, ANYWHERE>),
        Side::new(Peer::CrossbeamChannel, crossbeam_pingpong::<0>),
        Side::new(Peer::Flume, pingpong::<Flume, WORKERS, 0, ANYWHERE>),
        Side::new(Peer::Kanal, pingpong::<Kanal, WORKERS, 0, ANYWHERE>),
    ]
}

const fn pingpong_buffered<const WORKERS: usize>() -> [Side; 6] {
    [
        Side::new(Peer::Parcae, parcae_pingpong::<WORKERS, 1, ANYWHERE>),
        Side::new(Peer::Tokio, pingpong::<Mpsc, WORKERS, 1, ANYWHERE>),
        Side::new(Peer::CrossbeamChannel, crossbeam_pingpong::<1>),
        Side::new(Peer::Flume, pingpong::<Flume, WORKERS, 1, ANYWHERE>),
        Side::new(Peer::Kanal, pingpong::<Kanal, WORKERS, 1, ANYWHERE>),
        Side::new(Peer::AsyncChannel, pingpong::<AsyncChannel, WORKERS, 1, ANYWHERE>),
    ]
}

/// With the side of may, which has one worker.
const fn with_may(sides: [Side; 6]) -> [Side; 7] {
    let [a, b, c, d, e, f] = sides;
    [a, b, Side::new(Peer::May, may_pingpong), c, d, e, f]
}

const fn one_receiver<const WORKERS: usize, const TX: usize, const CAPACITY: usize>() -> [Side; 6] {
    [
        Side::new(Peer::Parcae, parcae_stream::<WORKERS, TX, 1, CAPACITY>),
        Side::new(Peer::Tokio, stream::<Mpsc, WORKERS, TX, 1, CAPACITY>),
        Side::new(Peer::CrossbeamChannel, crossbeam_stream::<TX, 1, CAPACITY>),
        Side::new(Peer::Flume, stream::<Flume, WORKERS, TX, 1, CAPACITY>),
        Side::new(Peer::Kanal, stream::<Kanal, WORKERS, TX, 1, CAPACITY>),
        Side::new(Peer::AsyncChannel, stream::<AsyncChannel, WORKERS, TX, 1, CAPACITY>),
    ]
}

const fn many_receivers<const WORKERS: usize>() -> [Side; 5] {
    [
        Side::new(Peer::Parcae, parcae_stream::<WORKERS, 4, 4, BOUNDED>),
        Side::new(Peer::CrossbeamChannel, crossbeam_stream::<4, 4, BOUNDED>),
        Side::new(Peer::Flume, stream::<Flume, WORKERS, 4, 4, BOUNDED>),
        Side::new(Peer::Kanal, stream::<Kanal, WORKERS, 4, 4, BOUNDED>),
        Side::new(Peer::AsyncChannel, stream::<AsyncChannel, WORKERS, 4, 4, BOUNDED>),
    ]
}

/// How many values are sent in total.
fn values(scale: &Scale) -> usize {
    scale.of(200_000)
}

/// Keeps the worker of the calling task busy until the other task has started, if they are to be
/// apart.
fn meet<const START: Start>(started: &AtomicBool) {
    while START == APART && !started.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

/// The number of round trips.
fn rallies(scale: &Scale) -> usize {
    scale.of(50_000)
}

// ----- parcae -------------------------------------------------------------------------------

fn runtime(workers: usize) -> Result<Runtime, Failure> {
    Ok(Runtime::builder().workers(workers).build()?)
}

fn parcae_channel(capacity: usize) -> (Sender<usize>, Receiver<usize>) {
    if capacity == UNBOUNDED { unbounded() } else { channel(capacity) }
}

fn parcae_pingpong<const WORKERS: usize, const CAPACITY: usize, const START: Start>(
    scale: &Scale,
) -> Result<f64, Failure> {
    let count = rallies(scale);
    let started = AtomicBool::new(false);
    let figure = runtime(WORKERS)?.run(|cx| {
        let started = &started;
        let ((ping, pinged), (pong, ponged)) = (parcae_channel(CAPACITY), parcae_channel(CAPACITY));
        cx.nursery(|n| {
            n.spawn(move |_| {
                started.store(true, Ordering::Release);
                for value in pinged {
                    pong.send(value?)?;
                }
                Ok(())
            })?;
            meet::<START>(started);
            let start = Instant::now();
            for i in 0..count {
                ping.send(i)?;
                ponged.recv()?;
            }
            let figure = nanos_per(start, count);
            drop(ping);
            Ok(figure)
        })
    });
    Ok(figure?)
}

fn parcae_stream<const WORKERS: usize, const TX: usize, const RX: usize, const CAPACITY: usize>(
    scale: &Scale,
) -> Result<f64, Failure> {
    let count = values(scale);
    let figure = runtime(WORKERS)?.run(|cx| {
        let (tx, rx) = parcae_channel(CAPACITY);
        let start = Instant::now();
        cx.nursery(|n| {
            for _ in 0..TX {
                let tx = tx.clone();
                n.spawn(move |_| (0..count / TX).try_for_each(|i| Ok(tx.send(i)?)))?;
            }
            for _ in 0..RX {
                let rx = rx.clone();
                n.spawn(move |_| rx.iter().try_for_each(|value| value.map(drop)))?;
            }
            drop((tx, rx));
            Ok(())
        })?;
        Ok(nanos_per(start, count))
    });
    Ok(figure?)
}

// ----- may ----------------------------------------------------------------------------------

/// may has no bounded channel. A rally has one value in flight, so the bound does not matter.
fn may_pingpong(scale: &Scale) -> Result<f64, Failure> {
    let count = rallies(scale);
    let figure = runtimes::may_run(move || {
        let ((ping, pinged), (pong, ponged)) = (may_channel(), may_channel());
        let partner = runtimes::may(move || pinged.iter().try_for_each(|value| pong.send(value)));
        let start = Instant::now();
        let rally = |i| ping.send(i).is_ok() && ponged.recv().is_ok();
        let is_whole = (0..count).all(rally);
        let figure = nanos_per(start, count);
        drop(ping);
        (is_whole && matches!(partner.join(), Ok(Ok(())))).then_some(figure)
    })?;
    figure.ok_or_else(|| "a channel of may was closed early".into())
}

fn may_channel() -> (may::sync::mpsc::Sender<usize>, may::sync::mpsc::Receiver<usize>) {
    may::sync::mpsc::channel()
}

// ----- threads ------------------------------------------------------------------------------

fn crossbeam_channel(
    capacity: usize,
) -> (crossbeam_channel::Sender<usize>, crossbeam_channel::Receiver<usize>) {
    if capacity == UNBOUNDED {
        crossbeam_channel::unbounded()
    } else {
        crossbeam_channel::bounded(capacity)
    }
}

fn crossbeam_pingpong<const CAPACITY: usize>(scale: &Scale) -> Result<f64, Failure> {
    let count = rallies(scale) / 10; // threads are slow
    let ((ping, pinged), (pong, ponged)) =
        (crossbeam_channel(CAPACITY), crossbeam_channel(CAPACITY));
    std::thread::scope(|s| {
        s.spawn(move || pinged.iter().try_for_each(|value| pong.send(value)));
        let start = Instant::now();
        for i in 0..count {
            ping.send(i)?;
            ponged.recv()?;
        }
        drop(ping);
        Ok(nanos_per(start, count))
    })
}

fn crossbeam_stream<const TX: usize, const RX: usize, const CAPACITY: usize>(
    scale: &Scale,
) -> Result<f64, Failure> {
    let count = values(scale);
    let (tx, rx) = crossbeam_channel(CAPACITY);
    let start = Instant::now();
    std::thread::scope(|s| {
        for _ in 0..TX {
            let tx = tx.clone();
            s.spawn(move || (0..count / TX).try_for_each(|i| tx.send(i)));
        }
        for _ in 0..RX {
            let rx = rx.clone();
            s.spawn(move || rx.iter().for_each(drop));
        }
        drop((tx, rx));
    });
    Ok(nanos_per(start, count))
}

// ----- futures ------------------------------------------------------------------------------

/// Channels for futures.
trait Mail: 'static {
    type Tx: Clone + Send + Sync + 'static;
    type Rx: Send + 'static;

    fn open(capacity: usize) -> (Self::Tx, Self::Rx);
    fn send(tx: &Self::Tx, value: usize) -> impl Future<Output = ()> + Send;
    fn recv(rx: &mut Self::Rx) -> impl Future<Output = Option<usize>> + Send;
    /// The receivers, of which there may be only one.
    fn share(rx: Self::Rx, count: usize) -> Vec<Self::Rx>;
}

/// tokio's own channel; the unbounded one is a different type.
struct Mpsc;

#[derive(Clone)]
enum MpscTx {
    Bounded(tokio::sync::mpsc::Sender<usize>),
    Unbounded(tokio::sync::mpsc::UnboundedSender<usize>),
}

enum MpscRx {
    Bounded(tokio::sync::mpsc::Receiver<usize>),
    Unbounded(tokio::sync::mpsc::UnboundedReceiver<usize>),
}

impl Mail for Mpsc {
    type Tx = MpscTx;
    type Rx = MpscRx;

    fn open(capacity: usize) -> (MpscTx, MpscRx) {
        if capacity == UNBOUNDED {
            let (tx, rx) = tokio::sync::mpsc::unbounded_channel();
            return (MpscTx::Unbounded(tx), MpscRx::Unbounded(rx));
        }
        let (tx, rx) = tokio::sync::mpsc::channel(capacity);
        (MpscTx::Bounded(tx), MpscRx::Bounded(rx))
    }

    async fn send(tx: &MpscTx, value: usize) {
        match tx {
            MpscTx::Bounded(tx) => tx.send(value).await.expect("open"),
            MpscTx::Unbounded(tx) => tx.send(value).expect("open"),
        }
    }

    async fn recv(rx: &mut MpscRx) -> Option<usize> {
        match rx {
            MpscRx::Bounded(rx) => rx.recv().await,
            MpscRx::Unbounded(rx) => rx.recv().await,
        }
    }

    fn share(rx: MpscRx, _: usize) -> Vec<MpscRx> {
        vec![rx]
    }
}

/// Channels with the same interface.
macro_rules! mail {
    ($Name:ident, $Tx:ty, $Rx:ty, $bounded:path, $unbounded:path, $send:ident, $recv:ident) => {
        struct $Name;

        impl Mail for $Name {
            type Tx = $Tx;
            type Rx = $Rx;

            fn open(capacity: usize) -> ($Tx, $Rx) {
                if capacity == UNBOUNDED { $unbounded() } else { $bounded(capacity) }
            }

            async fn send(tx: &$Tx, value: usize) {
                tx.$send(value).await.expect("open");
            }

            async fn recv(rx: &mut $Rx) -> Option<usize> {
                rx.$recv().await.ok()
            }

            fn share(rx: $Rx, count: usize) -> Vec<$Rx> {
                vec![rx; count]
            }
        }
    };
}

mail!(
    Flume,
    flume::Sender<usize>,
    flume::Receiver<usize>,
    flume::bounded,
    flume::unbounded,
    send_async,
    recv_async
);
mail!(
    Kanal,
    kanal::AsyncSender<usize>,
    kanal::AsyncReceiver<usize>,
    kanal::bounded_async,
    kanal::unbounded_async,
    send,
    recv
);
mail!(
    AsyncChannel,
    async_channel::Sender<usize>,
    async_channel::Receiver<usize>,
    async_channel::bounded,
    async_channel::unbounded,
    send,
    recv
);

fn pingpong<M: Mail, const WORKERS: usize, const CAPACITY: usize, const START: Start>(
    scale: &Scale,
) -> Result<f64, Failure> {
    let count = rallies(scale);
    let runtime = Tokio::start(WORKERS)?;
    let spawner = runtime.spawner();
    let started = Arc::new(AtomicBool::new(false));
    Ok(runtime.run(async move {
        let begins = Arc::clone(&started);
        let ((ping, mut pinged), (pong, mut ponged)) = (M::open(CAPACITY), M::open(CAPACITY));
        let partner = Spawner::spawn(&spawner, async move {
            begins.store(true, Ordering::Release);
            while let Some(value) = M::recv(&mut pinged).await {
                M::send(&pong, value).await;
            }
        });
        if START == APART {
            // tokio lets others steal a task only when another one has taken its slot.
            spawner.detach(async {});
        }
        meet::<START>(&started);
        let start = Instant::now();
        for i in 0..count {
            M::send(&ping, i).await;
            M::recv(&mut ponged).await;
        }
        let figure = nanos_per(start, count);
        drop(ping);
        partner.await;
        figure
    }))
}

fn stream<
    M: Mail,
    const WORKERS: usize,
    const TX: usize,
    const RX: usize,
    const CAPACITY: usize,
>(
    scale: &Scale,
) -> Result<f64, Failure> {
    let count = values(scale);
    let runtime = Tokio::start(WORKERS)?;
    let spawner = Arc::new(runtime.spawner());
    Ok(runtime.run(async move {
        let (tx, rx) = M::open(CAPACITY);
        let start = Instant::now();
        let mut tasks = Vec::new();
        for _ in 0..TX {
            let tx = tx.clone();
            tasks.push(spawner.spawn(async move {
                for i in 0..count / TX {
                    M::send(&tx, i).await;
                }
            }));
        }
        drop(tx);
        for mut rx in M::share(rx, RX) {
            tasks.push(spawner.spawn(async move { while M::recv(&mut rx).await.is_some() {} }));
        }
        for task in tasks {
            task.await.expect("no task panics");
        }
        nanos_per(start, count)
    }))
}
