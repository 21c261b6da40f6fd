//! `actor`: messages and calls to an actor, its start and stop, its restart.
//!
//! The peer of `tell` and `call` is a task of tokio with a bounded channel, and a channel for one
//! value for the answer: all that an actor library on tokio is built from, without the library.
//! Mailboxes hold 64 messages on both sides. A result is the time for one message, call, actor or
//! restart.

#[cfg(feature = "actor-peers")]
mod peers;

use super::nanos_per;
use super::runtimes::{self, Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::profile::Cluster;
use parcae_actor::{
    Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Child, Next, Reply, Supervise, System,
};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot as tokio_oneshot};

pub(super) static ACTOR: Workload = Workload {
    name: "actor",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("tell", "messages to one actor, one worker", &TELL),
        variant("call", "a call and its reply, one worker", &CALL),
        variant("start", "an actor from start to stop, one worker", &START),
        variant("restart", "a failure and the restart, until the next call", &RESTART),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "ns", better: Better::Lower, sides }
}

#[cfg(not(feature = "actor-peers"))]
mod sides {
    use super::*;

    pub(super) static TELL: [Side; 2] =
        [Side::new(Peer::Parcae, tell), Side::new(Peer::Tokio, tokio_tell)];
    pub(super) static CALL: [Side; 2] =
        [Side::new(Peer::Parcae, call), Side::new(Peer::Tokio, tokio_call)];
    pub(super) static START: [Side; 1] = [Side::new(Peer::Parcae, start)];
}

#[cfg(feature = "actor-peers")]
mod sides {
    use super::peers::{of_actix, of_kameo, of_ractor};
    use super::*;

    pub(super) static TELL: [Side; 5] = [
        Side::new(Peer::Parcae, tell),
        Side::new(Peer::Tokio, tokio_tell),
        Side::new(Peer::Ractor, of_ractor::tell),
        Side::new(Peer::Kameo, of_kameo::tell),
        Side::new(Peer::Actix, of_actix::tell),
    ];
    pub(super) static CALL: [Side; 5] = [
        Side::new(Peer::Parcae, call),
        Side::new(Peer::Tokio, tokio_call),
        Side::new(Peer::Ractor, of_ractor::call),
        Side::new(Peer::Kameo, of_kameo::call),
        Side::new(Peer::Actix, of_actix::call),
    ];
    pub(super) static START: [Side; 4] = [
        Side::new(Peer::Parcae, start),
        Side::new(Peer::Ractor, of_ractor::start),
        Side::new(Peer::Kameo, of_kameo::start),
        Side::new(Peer::Actix, of_actix::start),
    ];
}

use sides::{CALL, START, TELL};

static RESTART: [Side; 1] = [Side::new(Peer::Parcae, restart)];

const MESSAGES: usize = 500_000;
const CALLS: usize = 200_000;
const STARTS: usize = 50_000;
const RESTARTS: usize = 5_000;
const CAPACITY: usize = 64;
const LONG: Duration = Duration::from_secs(60);

/// Adds numbers up.
struct Sum(usize);

enum Msg {
    Add(usize),
    Get(Reply<usize>),
    Fail,
}

impl Actor for Sum {
    type Msg = Msg;

    fn handle(&mut self, _: &mut ActorCx<'_, Msg>, msg: Msg) -> parcae::Result<Next> {
        match msg {
            Msg::Add(n) => self.0 += n,
            Msg::Get(reply) => reply.send(self.0),
            Msg::Fail => return Err(parcae::Error::msg("on request")),
        }
        Ok(Next::Continue)
    }
}

fn in_system(body: impl FnOnce(&System<'_>) -> parcae::Result<f64> + Send) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Cluster>(1)?;
    let spec = Supervise::one_for_one().restarts(u32::MAX, Duration::from_secs(1));
    let opts = ActorsOpts::new().supervise(spec).restarts(u64::MAX);
    Ok(rt.run(|cx| cx.actors(opts, body))?)
}

fn tell(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(MESSAGES);
    in_system(|system| {
        let sum = system.start(ActorOpts::new("sum"), |_| Ok(Sum(0)))?;
        let start = Instant::now();
        for _ in 0..count {
            sum.tell(Msg::Add(1))?;
        }
        assert_eq!(sum.call(LONG, Msg::Get)?, count);
        Ok(nanos_per(start, count))
    })
}

fn call(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(CALLS);
    in_system(|system| {
        let sum = system.start(ActorOpts::new("sum"), |_| Ok(Sum(1)))?;
        let start = Instant::now();
        for _ in 0..count {
            assert_eq!(sum.call(LONG, Msg::Get)?, 1);
        }
        Ok(nanos_per(start, count))
    })
}

fn start(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(STARTS);
    in_system(|system| {
        let start = Instant::now();
        for _ in 0..count {
            let opts = ActorOpts::new("").child(Child::temporary());
            let actor = system.start(opts, |_| Ok(Sum(0)))?;
            let watch = actor.watch();
            actor.stop()?;
            watch.wait()?;
        }
        Ok(nanos_per(start, count))
    })
}

fn restart(scale: &Scale) -> Result<f64, Failure> {
    let count = scale.of(RESTARTS);
    in_system(|system| {
        let actor = system.start(ActorOpts::new("sum"), |_| Ok(Sum(1)))?;
        let start = Instant::now();
        for _ in 0..count {
            actor.tell(Msg::Fail)?;
            assert_eq!(actor.call(LONG, Msg::Get)?, 1);
        }
        Ok(nanos_per(start, count))
    })
}

enum TokioMsg {
    Add(usize),
    Get(tokio_oneshot::Sender<usize>),
}

async fn serve(mut mailbox: mpsc::Receiver<TokioMsg>, mut sum: usize) {
    while let Some(msg) = mailbox.recv().await {
        match msg {
            TokioMsg::Add(n) => sum += n,
            TokioMsg::Get(reply) => drop(reply.send(sum)),
        }
    }
}

fn tokio_tell(scale: &Scale) -> Result<f64, Failure> {
    let runtime = Tokio::start(1)?;
    let (spawner, count) = (runtime.spawner(), scale.of(MESSAGES));
    Ok(runtime.run(async move {
        let (sum, mailbox) = mpsc::channel(CAPACITY);
        let server = Spawner::spawn(&spawner, serve(mailbox, 0));
        let client = Spawner::spawn(&spawner, async move {
            let start = Instant::now();
            for _ in 0..count {
                sum.send(TokioMsg::Add(1)).await.expect("the server receives");
            }
            let (reply, replied) = tokio_oneshot::channel();
            sum.send(TokioMsg::Get(reply)).await.expect("the server receives");
            assert_eq!(replied.await.expect("the server answers"), count);
            nanos_per(start, count)
        });
        let nanos = client.await;
        server.await;
        nanos
    }))
}

fn tokio_call(scale: &Scale) -> Result<f64, Failure> {
    let runtime = Tokio::start(1)?;
    let (spawner, count) = (runtime.spawner(), scale.of(CALLS));
    Ok(runtime.run(async move {
        let (sum, mailbox) = mpsc::channel(CAPACITY);
        let server = Spawner::spawn(&spawner, serve(mailbox, 1));
        let client = Spawner::spawn(&spawner, async move {
            let start = Instant::now();
            for _ in 0..count {
                let (reply, replied) = tokio_oneshot::channel();
                sum.send(TokioMsg::Get(reply)).await.expect("the server receives");
                assert_eq!(replied.await.expect("the server answers"), 1);
            }
            nanos_per(start, count)
        });
        let nanos = client.await;
        server.await;
        nanos
    }))
}
