//! `ask`: a question over a channel, the answer over a channel for one value.
//!
//! One task serves: it receives a question with the way of its answer, and answers. Another asks
//! one question after the other, and waits for each answer. The peer does the same with its own two
//! channels. A result is the time for one question with its answer.

use super::nanos_per;
use super::runtimes::{self, Futures, Spawner, Tokio};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae::channel::{OneSender, channel, oneshot};
use parcae::profile::Service;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot as tokio_oneshot};

pub(super) static ASK: Workload = Workload {
    name: "ask",
    rounds: Rounds { full: 5, quick: 1 },
    variants: &[
        variant("w1", "a question and its answer, capacity 16, one worker", &sides::<1>()),
        variant("w2", "a question and its answer, capacity 16, two workers", &sides::<2>()),
    ],
};

const fn variant(name: &'static str, about: &'static str, sides: &'static [Side]) -> Variant {
    Variant { name, about, unit: "ns", better: Better::Lower, sides }
}

const fn sides<const WORKERS: usize>() -> [Side; 2] {
    [
        Side::new(Peer::Parcae, |scale| parcae(WORKERS, scale)),
        Side::new(Peer::Tokio, |scale| tokio(WORKERS, scale)),
    ]
}

const CAPACITY: usize = 16;
const QUESTIONS: usize = 200_000;

fn parcae(workers: usize, scale: &Scale) -> Result<f64, Failure> {
    let rt = runtimes::runtime::<Service>(workers)?;
    let count = scale.of(QUESTIONS);
    let nanos = rt.run(|cx| {
        let (ask, asked) = channel::<(usize, OneSender<usize>)>(CAPACITY);
        cx.nursery(|n| {
            n.spawn(move |_| {
                for question in &asked {
                    let (number, answer) = question?;
                    answer.send(number + 1)?;
                }
                Ok(())
            })?;
            let client = n.spawn(move |_| {
                let start = Instant::now();
                for number in 0..count {
                    let (answer, answered) = oneshot();
                    ask.send((number, answer))?;
                    assert_eq!(answered.recv()?, number + 1);
                }
                Ok(nanos_per(start, count))
            })?;
            client.join()
        })
    })?;
    Ok(nanos)
}

fn tokio(workers: usize, scale: &Scale) -> Result<f64, Failure> {
    let runtime = Tokio::start(workers)?;
    let (spawner, count) = (runtime.spawner(), scale.of(QUESTIONS));
    Ok(runtime.run(async move {
        let (ask, mut asked) = mpsc::channel::<(usize, tokio_oneshot::Sender<usize>)>(CAPACITY);
        let server = Spawner::spawn(&spawner, async move {
            while let Some((number, answer)) = asked.recv().await {
                answer.send(number + 1).expect("the client waits");
            }
        });
        let client = Spawner::spawn(&spawner, async move {
            let start = Instant::now();
            for number in 0..count {
                let (answer, answered) = tokio_oneshot::channel();
                ask.send((number, answer)).await.expect("the server receives");
                assert_eq!(answered.await.expect("the server answers"), number + 1);
            }
            nanos_per(start, count)
        });
        let nanos = client.await;
        server.await;
        nanos
    }))
}
