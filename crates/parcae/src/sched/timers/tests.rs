//! The wheel against an ordered map.

use super::deadlines::{FOREVER, NEVER, Rest, SharedWheel};
use super::wheel::{LAST, Tick, TimerEntry, Wheel};
use crate::base::rng::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A wheel and what it should hold.
struct Pair {
    wheel: Wheel<u64>,
    /// By tick, and of one tick in the order in which they came.
    oracle: BTreeMap<(Tick, u64), TimerEntry>,
    /// Values that were put in and not removed; they may have fired.
    entries: Vec<(Tick, u64, TimerEntry)>,
    elapsed: Tick,
    next_id: u64,
    removed: bool,
}

impl Pair {
    fn new() -> Pair {
        Pair {
            wheel: Wheel::new(),
            oracle: BTreeMap::new(),
            entries: Vec::new(),
            elapsed: 0,
            next_id: 0,
            removed: false,
        }
    }

    fn insert(&mut self, tick: Tick) {
        let id = self.next_id;
        self.next_id += 1;
        let entry = self.wheel.insert(tick, id);
        let tick = tick.clamp(self.elapsed, LAST);
        self.oracle.insert((tick, id), entry);
        self.entries.push((tick, id, entry));
        self.check();
    }

    /// Removes a value that is there, has fired, or was removed before.
    fn remove(&mut self, which: usize) {
        if self.entries.is_empty() {
            return;
        }
        let (tick, id, entry) = self.entries[which % self.entries.len()];
        let expected = self.oracle.remove(&(tick, id)).map(|_| id);
        assert_eq!(self.wheel.remove(entry), expected);
        self.removed = true;
        self.check();
    }

    fn advance(&mut self, by: Tick) {
        self.elapsed = self.elapsed.saturating_add(by).min(LAST);
        while let Some(first) = self.oracle.first_entry() {
            if first.key().0 > self.elapsed {
                break;
            }
            let ((tick, id), _) = first.remove_entry();
            assert_eq!(
                self.wheel.pop(self.elapsed),
                Some(id),
                "of tick {tick} at {}",
                self.elapsed
            );
        }
        assert_eq!(self.wheel.pop(self.elapsed), None);
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.wheel.counts(), (self.next_id, self.oracle.len()));
        let expected = self.oracle.first_key_value().map(|((tick, _), _)| *tick);
        let next = self.wheel.next();
        assert_eq!(next.is_some(), expected.is_some());
        assert!(next <= expected, "{next:?} is later than {expected:?}");
        if !self.removed {
            assert_eq!(next, expected);
        }
    }
}

/// A number of every size.
fn any_size(rng: &Rng) -> Tick {
    rng.next() >> (4 + rng.below(60))
}

// rule: S4-SLEEP-2
#[test]
fn long_runs_agree_with_an_ordered_map() {
    for seed in 0..if cfg!(debug_assertions) { 100 } else { 1_000 } {
        let rng = Rng::new(seed, 0);
        let mut pair = Pair::new();
        for _ in 0..1_000 {
            match rng.below(8) {
                0..4 => pair.insert(pair.elapsed.saturating_add(any_size(&rng))),
                4 => pair.insert(pair.elapsed.saturating_sub(any_size(&rng))),
                5 | 6 => pair.remove(rng.below(1 << 20)),
                _ => pair.advance(any_size(&rng) >> rng.below(40)),
            }
        }
        pair.advance(LAST);
        assert!(pair.oracle.is_empty());
    }
}

// rule: S4-SLEEP-2
#[test]
fn nothing_is_lost_at_the_edges_of_the_levels() {
    for level in 1..10 {
        let edge: Tick = 1 << (6 * level);
        for multiple in [1, 2, 63] {
            let edge = edge * multiple;
            for start in [0, 1, edge.saturating_sub(65), edge - 64, edge - 63, edge - 2, edge - 1] {
                let mut pair = Pair::new();
                pair.advance(start);
                for tick in [edge - 1, edge, edge + 1, edge + 63, edge + 64, 2 * edge, edge - 64] {
                    pair.insert(tick);
                    pair.insert(tick);
                }
                for at in [edge - 2, edge - 1, edge, edge + 1, edge + 62, edge + 63, edge + 64] {
                    pair.advance(at.saturating_sub(pair.elapsed));
                }
                pair.advance(2 * edge);
                assert!(pair.oracle.is_empty());
            }
        }
    }
}

#[test]
fn the_next_tick_is_exact_after_a_cascade() {
    let mut wheel = Wheel::new();
    let first = wheel.insert(1_000, 'a');
    wheel.insert(1_010, 'b');
    assert_eq!(wheel.next(), Some(1_000));
    assert_eq!(wheel.remove(first), Some('a'));
    assert_eq!(wheel.next(), Some(1_000), "too early, by what was taken back");
    assert_eq!(wheel.pop(1_000), None);
    assert_eq!(wheel.next(), Some(1_010));
    assert_eq!(wheel.pop(1_010), Some('b'));
    assert_eq!(wheel.next(), None);
}

#[test]
fn an_entry_of_an_earlier_life_takes_nothing_back() {
    let mut wheel = Wheel::new();
    let first = wheel.insert(3, 'a');
    assert_eq!(wheel.pop(3), Some('a'));
    let second = wheel.insert(5, 'b');
    assert_eq!(wheel.remove(first), None);
    assert_eq!(wheel.remove(second), Some('b'));
    assert_eq!(wheel.remove(second), None);
}

// rule: S4-SLEEP-7
#[test]
fn a_deadline_within_a_tick_is_rounded_up() {
    let ring = SharedWheel::new(10);
    let fire = |now| {
        let mut fired = Vec::new();
        assert_eq!(ring.fire(now, usize::MAX, |what| fired.push(what)), Rest::Nothing);
        fired
    };
    ring.insert(20, 'b');
    let (_, is_first) = ring.insert(11, 'a');
    assert!(!is_first, "the same tick");
    assert_eq!((ring.next(), fire(19)), (20, vec![]));
    assert_eq!(fire(20), ['b', 'a']);
    assert_eq!((ring.next(), ring.overdue(5)), (NEVER, NEVER));
    // No more than asked for at once.
    for _ in 0..100 {
        ring.insert(30, 'c');
    }
    let mut fired = 0;
    assert_eq!(ring.fire(30, 50, |_| fired += 1), Rest::Unknown);
    assert_eq!((fired, fire(30).len(), fire(FOREVER).len()), (50, 50, 0));
}

/// How many, without taking minutes.
const MANY: u64 = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };

// rule: S4-SLEEP-8
#[test]
fn a_million_come_and_go_and_their_memory_is_given_back() {
    let rng = Rng::new(7, 7);
    let mut wheel = Wheel::new();
    let mut entries: Vec<_> =
        (0..MANY).map(|id| wheel.insert(rng.next() % 1_000_000, id)).collect();
    assert!(wheel.take_surplus().is_none(), "in use");
    // Every other one is disarmed.
    let taken_back = entries.drain(..).step_by(2).filter(|&e| wheel.remove(e).is_some()).count();
    assert_eq!(taken_back as u64, MANY / 2);
    let (mut now, mut fired) = (0, 0);
    while let Some(next) = wheel.next() {
        now = next;
        while wheel.pop(now).is_some() {
            fired += 1;
        }
    }
    assert!(now < 1_000_000);
    assert_eq!(fired, MANY / 2);
    let stale = wheel.insert(now, 0);
    assert_eq!(wheel.pop(now), Some(0));
    assert!(wheel.take_surplus().is_some());
    assert_eq!(wheel.remove(stale), None, "its node is gone");
    wheel.insert(now + 1, 1);
    assert_eq!(wheel.remove(stale), None, "nor is it another's");
    assert_eq!(wheel.pop(now + 1), Some(1));
    assert!(wheel.take_surplus().is_none(), "a few are kept");
}

#[derive(Debug, Clone)]
enum Op {
    Insert(Tick),
    Remove(usize),
    Advance(Tick),
}

fn op() -> impl Strategy<Value = Op> {
    let size = || (any::<u64>(), 4_u32..64).prop_map(|(number, shift)| number >> shift);
    prop_oneof![
        3 => size().prop_map(Op::Insert),
        2 => any::<usize>().prop_map(Op::Remove),
        2 => size().prop_map(Op::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_agrees_with_an_ordered_map(ops in prop::collection::vec(op(), 0..60)) {
        let mut pair = Pair::new();
        for op in ops {
            match op {
                Op::Insert(ahead) => pair.insert(pair.elapsed.saturating_add(ahead)),
                Op::Remove(which) => pair.remove(which),
                Op::Advance(by) => pair.advance(by),
            }
        }
    }
}
