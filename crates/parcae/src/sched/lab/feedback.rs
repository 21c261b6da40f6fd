//! Feedback: schedules that showed something new are kept, and changed a little.
//!
//! For long hunts. A schedule is *new* if it has two or three operations on one object, one after
//! another, from places and tasks in an order that no schedule had before. The choices of such a
//! schedule are kept. The next schedule takes one of the kept lists, drops or moves some of its
//! choices, follows the rest, and adds others at random. The first list is empty: the default
//! policy.
//!
//! On the corpus, whose bugs are shallow, it needs more schedules than the default portfolio
//! (`parcae-corpus feedback` compares them), so it is not part of it.
//!
//! A schedule depends on its list and its seed, so the list is the memory that a token needs.

use super::op::Op;
use super::script::{ChoicePhase, Deviation};
use super::strategy::{Choice, Chooser, rng};
use crate::base::rng::{Rng, mix};
use std::collections::{HashMap, HashSet};
use std::panic::Location;

/// The most lists that are kept, and the most choices of one. A token has to hold a list.
const LISTS: usize = 512;
const LONGEST: usize = 48;

/// [`Strategy::Feedback`](super::Strategy::Feedback).
pub(super) struct FeedbackSearch {
    rng: Rng,
    /// Chooses among the kept lists; goes on from schedule to schedule.
    picks: Rng,
    kept: Vec<Vec<Deviation>>,
    seen: HashSet<u64>,
    /// The list that the next schedule changes.
    base: Vec<Deviation>,
    script: HashMap<(u64, u32, ChoicePhase), u64>,
    /// One choice of so many is made at random.
    rate: usize,
    /// The choices of this schedule.
    made: Vec<Deviation>,
    is_new: bool,
    /// The last two operations on each object.
    last: HashMap<u32, [PlacedOp; 2]>,
}

/// An operation on an object: the task, and the operation with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PlacedOp {
    task: u32,
    place: u64,
}

impl FeedbackSearch {
    pub(super) fn new() -> FeedbackSearch {
        FeedbackSearch {
            rng: rng(0),
            picks: rng(1),
            kept: Vec::new(),
            seen: HashSet::new(),
            base: Vec::new(),
            script: HashMap::new(),
            rate: 1,
            made: Vec::new(),
            is_new: false,
            last: HashMap::new(),
        }
    }

    /// The list of the schedule: the base without some of its choices, with others moved.
    fn change(&mut self) {
        let mut list = self.base.clone();
        for _ in 0..self.rng.below(4) {
            if list.is_empty() {
                break;
            }
            let at = self.rng.below(list.len());
            match self.rng.below(4) {
                0 => drop(list.remove(at)),
                1 => list[at].ops = list[at].ops.saturating_sub(1 + self.rng.below(3) as u32),
                2 => list[at].ops += 1 + self.rng.below(3) as u32,
                _ => list.truncate(at),
            }
        }
        self.script = list.iter().map(|d| ((d.path, d.ops, d.phase), d.target)).collect();
    }

    fn note(&mut self, at: (u64, u32), phase: ChoicePhase, target: u64) {
        let (path, ops) = at;
        self.made.push(Deviation { path, ops, phase, target });
    }

    fn sees(&mut self, feature: u64) {
        self.is_new |= self.seen.insert(feature);
    }
}

impl Chooser for FeedbackSearch {
    fn begin(&mut self, seed: u64) {
        self.rng = rng(seed);
        self.made.clear();
        self.last.clear();
        self.is_new = false;
        self.rate = [32, 8, 3, 2][self.rng.below(4)];
        self.change();
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let phase = if choice.current.is_some() { ChoicePhase::Before } else { ChoicePhase::Left };
        let target = self.script.get(&(choice.last.0, choice.last.1, phase));
        let listed = target.and_then(|&path| choice.enabled.iter().position(|e| e.path == path));
        let chosen = match listed {
            Some(listed) => listed,
            None if self.rng.below(self.rate) == 0 => self.rng.below(choice.enabled.len()),
            None => choice.usual(),
        };
        if chosen != choice.usual() {
            self.note(choice.last, phase, choice.enabled[chosen].path);
        }
        chosen
    }

    fn does_at(&mut self, task: u32, op: Op, site: Option<&'static Location<'static>>) {
        if op.object == 0 {
            return;
        }
        let site = site.map_or(0, |site| u64::from(site.line()) << 16 | u64::from(site.column()));
        let now = PlacedOp { task, place: mix(site << 8 | op.kind as u64) };
        let [first, second] = self.last.get(&op.object).copied().unwrap_or_default();
        if second != PlacedOp::default() && second.task != task {
            let pair = mix(second.place ^ mix(now.place));
            self.sees(pair);
            let order = u64::from(first.task == task) << 1 | u64::from(first.task == second.task);
            self.sees(mix(first.place ^ mix(pair ^ order)));
        }
        self.last.insert(op.object, [second, now]);
    }

    fn number(&mut self, at: (u64, u32, u32), below: usize) -> usize {
        let (path, ops, nth) = at;
        let phase = ChoicePhase::Number(nth);
        let number = match self.script.get(&(path, ops, phase)) {
            Some(&number) => (number as usize).min(below - 1),
            None if self.rng.below(2) == 0 => self.rng.below(below),
            None => 0,
        };
        if number != 0 {
            self.note((path, ops), phase, number as u64);
        }
        number
    }

    fn end(&mut self) -> bool {
        if self.is_new && self.made.len() <= LONGEST {
            let list = std::mem::take(&mut self.made);
            match self.kept.len() < LISTS {
                true => self.kept.push(list),
                false => {
                    let at = self.picks.below(LISTS);
                    self.kept[at] = list;
                }
            }
        }
        let lists = self.kept.len();
        self.base = match lists > 0 && self.picks.below(8) > 0 {
            // Half of the time one of the youngest.
            true if self.picks.below(2) == 0 => {
                self.kept[lists - 1 - self.picks.below(lists.min(8))].clone()
            }
            true => self.kept[self.picks.below(lists)].clone(),
            false => Vec::new(),
        };
        true
    }

    fn memory(&self) -> Vec<u64> {
        let words = |d: &Deviation| {
            let phase = match d.phase {
                ChoicePhase::Before => 0,
                ChoicePhase::Left => 1,
                ChoicePhase::Number(nth) => 2 + u64::from(nth),
            };
            [d.path, d.ops.into(), phase, d.target]
        };
        self.base.iter().flat_map(words).collect()
    }

    fn remember(&mut self, memory: &[u64]) {
        let deviation = |words: &[u64; 4]| {
            let [path, ops, phase, target] = *words;
            let phase = match phase {
                0 => ChoicePhase::Before,
                1 => ChoicePhase::Left,
                nth => ChoicePhase::Number((nth - 2) as u32),
            };
            Deviation { path, ops: ops as u32, phase, target }
        };
        self.base = memory.as_chunks::<4>().0.iter().map(deviation).collect();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sched::lab::OpKind;

    fn access(search: &mut FeedbackSearch, task: u32, kind: OpKind) {
        search.does_at(task, Op { kind, object: 1 }, Some(Location::caller()));
    }

    #[test]
    fn a_schedule_with_a_new_pair_is_kept_and_the_same_one_is_not() {
        let mut search = FeedbackSearch::new();
        for (round, kept) in [(0, 1), (1, 1), (2, 2)] {
            search.begin(round);
            access(&mut search, 1, OpKind::Load);
            // In the last round the pair is another one.
            access(&mut search, 2, if round < 2 { OpKind::Store } else { OpKind::Load });
            search.end();
            assert_eq!(search.kept.len(), kept, "round {round}");
        }
        // Operations of one task are no pair.
        search.begin(3);
        access(&mut search, 1, OpKind::Update);
        access(&mut search, 1, OpKind::Update);
        assert!(!search.is_new);
    }

    #[test]
    fn the_memory_holds_the_list() {
        let phases = [ChoicePhase::Before, ChoicePhase::Left, ChoicePhase::Number(3)];
        let list = phases.map(|phase| Deviation { path: 9, ops: 4, phase, target: 7 });
        let mut search = FeedbackSearch::new();
        search.base = list.to_vec();
        let mut again = FeedbackSearch::new();
        again.remember(&search.memory());
        assert_eq!(again.base, list);
        // The same list and seed give the same script.
        search.begin(5);
        again.begin(5);
        assert_eq!((search.script, search.rate), (again.script, again.rate));
    }
}
