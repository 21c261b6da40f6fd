//! `deque`: the cost of a worker's deque alone, without a scheduler.
//!
//! `last`: a push and the pop of the same item, which is the only one. `deep`: the same on top of a
//! hundred others. `steal`: an item is stolen. `across`: the same, but another thread has pushed
//! it, so that its cache lines come from another core. There is no contention here; tests cover
//! that.

use super::nanos_per;
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use crossbeam_deque as crossbeam;
use parcae::engine::bench_only::{BareOwner, BareStealer, bare_deque};
use std::hint::black_box;
use std::thread;
use std::time::Instant;

pub(super) static DEQUE: Workload = Workload {
    name: "deque",
    rounds: Rounds { full: 15, quick: 3 },
    variants: &[
        variant("last", "push and pop of a single item", "ns/pair", {
            &[Side::new(Peer::Parcae, pairs::<Parcae, 0>), {
                Side::new(Peer::Crossbeam, pairs::<Crossbeam, 0>)
            }]
        }),
        variant("deep", "push and pop, a hundred items below", "ns/pair", {
            &[Side::new(Peer::Parcae, pairs::<Parcae, 100>), {
                Side::new(Peer::Crossbeam, pairs::<Crossbeam, 100>)
            }]
        }),
        variant("steal", "steal of an item pushed by the same thread", "ns/steal", {
            &[Side::new(Peer::Parcae, steals::<Parcae>), {
                Side::new(Peer::Crossbeam, steals::<Crossbeam>)
            }]
        }),
        variant("across", "steal of an item pushed by another thread", "ns/steal", {
            &[Side::new(Peer::Parcae, steals_across::<Parcae>), {
                Side::new(Peer::Crossbeam, steals_across::<Crossbeam>)
            }]
        }),
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

/// The items: pointers, as in a scheduler.
type Item = &'static u64;

static ITEM: u64 = 7;

/// Items that are pushed before they are stolen: the capacity of parcae's deque.
const BATCH: usize = 256;

/// A deque in two halves.
trait Deque {
    type Owner: Send;
    type Thief: Send + Sync;

    fn new() -> (Self::Owner, Self::Thief);
    fn push(owner: &Self::Owner, item: Item);
    fn pop(owner: &Self::Owner) -> Option<Item>;
    fn steal(thief: &Self::Thief) -> Option<Item>;
}

struct Parcae;

impl Deque for Parcae {
    type Owner = BareOwner;
    type Thief = BareStealer;

    fn new() -> (BareOwner, BareStealer) {
        bare_deque()
    }

    #[inline]
    fn push(owner: &BareOwner, item: Item) {
        assert!(owner.push(item), "there is room");
    }

    #[inline]
    fn pop(owner: &BareOwner) -> Option<Item> {
        owner.pop()
    }

    #[inline]
    fn steal(thief: &BareStealer) -> Option<Item> {
        thief.steal()
    }
}

struct Crossbeam;

impl Deque for Crossbeam {
    type Owner = crossbeam::Worker<Item>;
    type Thief = crossbeam::Stealer<Item>;

    fn new() -> (Self::Owner, Self::Thief) {
        let owner = crossbeam::Worker::new_lifo();
        let thief = owner.stealer();
        (owner, thief)
    }

    #[inline]
    fn push(owner: &Self::Owner, item: Item) {
        owner.push(item);
    }

    #[inline]
    fn pop(owner: &Self::Owner) -> Option<Item> {
        owner.pop()
    }

    #[inline]
    fn steal(thief: &Self::Thief) -> Option<Item> {
        thief.steal().success()
    }
}

fn pairs<D: Deque, const BELOW: usize>(scale: &Scale) -> Result<f64, Failure> {
    let (owner, _thief) = D::new();
    for _ in 0..BELOW {
        D::push(&owner, &ITEM);
    }
    let count = scale.of(2_000_000);
    let mut popped = 0;
    let start = Instant::now();
    for _ in 0..count {
        D::push(&owner, black_box(&ITEM));
        popped += usize::from(black_box(D::pop(&owner)).is_some());
    }
    let nanos = nanos_per(start, count);
    expect(popped, count)?;
    Ok(nanos)
}

fn steals<D: Deque>(scale: &Scale) -> Result<f64, Failure> {
    let (owner, thief) = D::new();
    let batches = scale.of(4_000);
    let mut nanos = 0.0;
    for _ in 0..batches {
        fill::<D>(&owner);
        nanos += empty::<D>(&thief)?;
    }
    Ok(nanos / batches as f64)
}

fn steals_across<D: Deque>(scale: &Scale) -> Result<f64, Failure> {
    let (mut owner, thief) = D::new();
    let batches = scale.of(1_000);
    let mut nanos = 0.0;
    for _ in 0..batches {
        // A thread for each batch: the kernel puts it on another core as long as one is free, and
        // when it has ended this thread owns the deque again.
        let fill = || {
            fill::<D>(&owner);
            owner
        };
        let filled = thread::scope(|s| s.spawn(fill).join());
        owner = filled.map_err(|_| "the thread that pushes panicked")?;
        nanos += empty::<D>(&thief)?;
    }
    Ok(nanos / batches as f64)
}

fn fill<D: Deque>(owner: &D::Owner) {
    for _ in 0..BATCH {
        D::push(owner, black_box(&ITEM));
    }
}

/// Steals everything; nanoseconds for each.
fn empty<D: Deque>(thief: &D::Thief) -> Result<f64, Failure> {
    let mut stolen = 0;
    let start = Instant::now();
    for _ in 0..BATCH {
        stolen += usize::from(black_box(D::steal(thief)).is_some());
    }
    let nanos = nanos_per(start, BATCH);
    expect(stolen, BATCH)?;
    Ok(nanos)
}

fn expect(got: usize, wanted: usize) -> Result<(), Failure> {
    if got == wanted { Ok(()) } else { Err(format!("{got} items instead of {wanted}").into()) }
}
