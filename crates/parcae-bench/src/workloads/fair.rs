//! `fair`: the cost of the fair queue, compared with a simple one on a `BTreeMap`.
//!
//! A turn is a scheduler's work per slice: pick, charge, put back. Weights are random, so requests
//! are due in no simple order; turns are of random length up to a request, so that about half of
//! them end one. All entities are always runnable.
//!
//! The peer is fair by virtual time and has no deadlines: a `BTreeMap` by (virtual time,
//! entity), whose first is next. That is less than ours does (no requests, no bound on what
//! comes and goes, no groups), and the least that a fair queue can do. The same policy as
//! ours on a `BTreeMap` was tried and is left out: it has to look for the first eligible one
//! from the front, which is O(n), and did not come to an end among 100 000.

use super::nanos_per;
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use parcae_core::fair::{FairQueue, GroupId, Limits, Node, Params, Slot, Weight};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

pub(super) static FAIR: Workload = Workload {
    name: "fair",
    rounds: Rounds { full: 9, quick: 2 },
    variants: &[
        Variant {
            name: "turn_n8",
            about: "pick, charge, put back among 8 entities",
            unit: "ns/turn",
            better: Better::Lower,
            sides: &sides::<8>(),
        },
        Variant {
            name: "turn_n64",
            about: "the same among 64",
            unit: "ns/turn",
            better: Better::Lower,
            sides: &sides::<64>(),
        },
        Variant {
            name: "turn_n1k",
            about: "the same among 1000",
            unit: "ns/turn",
            better: Better::Lower,
            sides: &sides::<1_000>(),
        },
        Variant {
            name: "turn_n100k",
            about: "the same among 100 000, after each has had some turns",
            unit: "ns/turn",
            better: Better::Lower,
            sides: &sides::<100_000>(),
        },
        Variant {
            name: "charge",
            about: "charge alone, many times in one turn",
            unit: "ns/charge",
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, charge)],
        },
        Variant {
            name: "nap_n64",
            about: "pick, charge, sleep, wake among 64",
            unit: "ns/nap",
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, nap)],
        },
    ],
};

const fn sides<const N: usize>() -> [Side; 2] {
    [Side::new(Peer::Parcae, turns::<Parcae, N>), Side::new(Peer::Std, turns::<Tree, N>)]
}

/// Turns per measurement, and before it.
const TURNS: usize = 1_000_000;
/// The length of all requests.
const SLICE: u64 = Limits::NANOS.slice;

/// A fair queue whose entities are all runnable.
trait Queue {
    fn with(weights: &[u32]) -> Self;
    /// Picks an entity and charges it `used`. Returns its number.
    fn turn(&mut self, used: u64) -> usize;
}

fn turns<Q: Queue, const N: usize>(scale: &Scale) -> Result<f64, Failure> {
    let mut random = Random(N as u64);
    let weights: Vec<u32> = (0..N).map(|_| 256 + random.next() as u32 % 4_096).collect();
    let lengths: Vec<u64> = (0..4_096).map(|_| 1_000 + random.next() % (SLICE - 1_000)).collect();
    let mut queue = Q::with(&weights);
    for turn in 0..scale.of(TURNS).max(4 * N) {
        queue.turn(lengths[turn % lengths.len()]);
    }
    let turns = scale.of(TURNS);
    let mut heavy = 0_u64;
    let start = Instant::now();
    for turn in 0..turns {
        let used = lengths[turn % lengths.len()];
        let who = queue.turn(used);
        heavy += if weights[who] > 2_304 { used } else { 0 };
    }
    let figure = nanos_per(start, turns);
    // By how much it may be off depends on how many there are; that it is not absurd does not.
    let all: u64 = weights.iter().map(|&w| u64::from(w)).sum();
    let share: u64 = weights.iter().filter(|&&w| w > 2_304).map(|&w| u64::from(w)).sum();
    let expected = share as f64 / all as f64;
    let total: u64 = (0..turns).map(|turn| lengths[turn % lengths.len()]).sum();
    let had = heavy as f64 / total as f64;
    if (had - expected).abs() > 0.1 {
        return Err(format!("the heavy had {had:.3} instead of {expected:.3}").into());
    }
    Ok(figure)
}

fn charge(scale: &Scale) -> Result<f64, Failure> {
    let mut queue = Parcae::with(&[1_024, 2_048, 512]).0;
    let id = queue.pick().ok_or("no entity is runnable")?;
    let charges = scale.of(10 * TURNS);
    let start = Instant::now();
    for used in 0..charges {
        let _ = black_box(queue.charge(id, (used % 7) as u64)?);
    }
    Ok(nanos_per(start, charges))
}

fn nap(scale: &Scale) -> Result<f64, Failure> {
    let mut queue = Parcae::with(&[1_024; 64]).0;
    let naps = scale.of(TURNS);
    let mut before = queue.pick().ok_or("no entity is runnable")?;
    let start = Instant::now();
    for _ in 0..naps {
        let _ = queue.charge(before, SLICE / 2)?;
        queue.sleep(before)?;
        let id = queue.pick().ok_or("no entity is runnable")?;
        let _ = queue.wake(before)?;
        before = id;
    }
    Ok(nanos_per(start, naps))
}

struct Parcae(FairQueue<Vec<Slot>, Vec<Node>>);

impl Queue for Parcae {
    fn with(weights: &[u32]) -> Parcae {
        let slots = vec![Slot::EMPTY; weights.len()];
        let nodes = vec![Node::EMPTY; Node::needed(weights.len())];
        let mut queue = FairQueue::new(slots, nodes, Limits::NANOS).expect("the limits hold");
        for &weight in weights {
            let weight = Weight::new(weight).expect("in range");
            let id = queue.add(GroupId::ROOT, Params::weight(weight)).expect("there is a slot");
            let _ = queue.wake(id).expect("it is asleep");
        }
        Parcae(queue)
    }

    fn turn(&mut self, used: u64) -> usize {
        let id = self.0.pick().expect("all are runnable");
        let _ = self.0.charge(id, used).expect("it runs");
        id.index()
    }
}

/// A queue by virtual time alone on a `BTreeMap`: the least service over weight is next.
struct Tree {
    waiting: BTreeMap<(u64, usize), ()>,
    weights: Vec<u64>,
    running: Option<(u64, usize)>,
}

impl Queue for Tree {
    fn with(weights: &[u32]) -> Tree {
        Tree {
            waiting: (0..weights.len()).map(|e| ((0, e), ())).collect(),
            weights: weights.iter().map(|&weight| u64::from(weight)).collect(),
            running: None,
        }
    }

    fn turn(&mut self, used: u64) -> usize {
        if let Some(back) = self.running.take() {
            self.waiting.insert(back, ());
        }
        let ((v, e), ()) = self.waiting.pop_first().expect("all are runnable");
        self.running = Some((v + (used << 20) / self.weights[e], e));
        e
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
