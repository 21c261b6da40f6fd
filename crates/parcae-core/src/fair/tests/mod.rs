//! The queue against plain models, and against entities that cheat.

mod bounds;
mod extremes;
mod greed;
mod groups;
mod oracle;
mod protocol;
mod ready;

use super::*;
use core::cell::Cell;
use std::vec::Vec;

std::thread_local! {
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

/// Counts one look at a slot, while searching or picking.
pub(super) fn compared() {
    COMPARED.set(COMPARED.get() + 1);
}

/// How many looks `f` took.
fn comparisons<T>(f: impl FnOnce() -> T) -> (T, u64) {
    let before = COMPARED.get();
    let value = f();
    (value, COMPARED.get() - before)
}

/// A small generator of numbers (splitmix64), so that a seed names a run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

type Queue = FairQueue<Vec<Slot>, Vec<Node>, Vec<GroupSlot>>;

const LIMITS: Limits = Limits { min_slice: 100, slice: 1_000, max_slice: 10_000, min_charge: 10 };

fn queue(entities: usize) -> Queue {
    queue_with(entities, 8, LIMITS)
}

fn queue_with(entities: usize, groups: usize, limits: Limits) -> Queue {
    let slots = std::vec![Slot::EMPTY; entities];
    let nodes = std::vec![Node::EMPTY; Node::needed(entities)];
    FairQueue::with_groups(slots, nodes, std::vec![GroupSlot::EMPTY; groups], limits).unwrap()
}

fn weight(weight: u32) -> Params {
    Params::weight(Weight::new(weight).unwrap())
}

fn slice(slice: u64) -> Params {
    Params { latency: Latency::Slice(slice), ..Params::default() }
}

/// Adds to the root and wakes.
fn awake(queue: &mut Queue, params: Params) -> EntityId {
    let id = queue.add(GroupId::ROOT, params).unwrap();
    let _ = queue.wake(id).unwrap();
    id
}

/// Runs what is picked for as long as it wants, `turns` times; returns who had what by slot.
fn run(queue: &mut Queue, turns: usize, mut wants: impl FnMut(EntityId) -> u64) -> Vec<u64> {
    let mut had = std::vec![0; queue.slots.len()];
    for _ in 0..turns {
        let id = queue.pick().expect("somebody is runnable");
        let used = wants(id);
        let _ = queue.charge(id, used).unwrap();
        had[id.index()] += used;
    }
    had
}
