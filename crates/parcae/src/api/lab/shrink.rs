//! Shrinking: the deviations without which the failure is another one, or none.
//!
//! A. Zeller, R. Hildebrandt: Simplifying and isolating failure-inducing input (2002). The list of
//! deviations is cut into parts; a part, or everything without it, that fails with the same
//! signature replaces the list. When no part of the finest cut can go, the list is minimal: without
//! any one of its elements the failure does not appear.

use crate::base::rng::Rng;
use crate::sched::lab::{ChoicePhase, Deviation};

/// The most switches, and the most tasks, for which other targets are tried.
const MOST_REDIRECTED: usize = 6;
/// Bounds of the search.
pub(super) const REPLAYS: usize = 6_000;
/// Attempts without success, for each element, after which random changes end.
const VAIN: usize = 120;

/// Reduces a list that fails. `fails` returns the deviations of the repeated run, if it failed in
/// the same way, and `None` if it did not, or if it may not be asked any more.
pub(super) fn shrink(
    found: Vec<Deviation>,
    mut fails: impl FnMut(&[Deviation]) -> Option<Vec<Deviation>>,
) -> Vec<Deviation> {
    let mut list = found;
    if let Some(shorter) = fails(&[]) {
        return shorter;
    }
    let mut parts = 2;
    while list.len() >= 2 && parts <= list.len() {
        let size = list.len().div_ceil(parts);
        let mut reduced = None;
        for at in 0..parts {
            let (from, to) = ((at * size).min(list.len()), ((at + 1) * size).min(list.len()));
            if from == to {
                continue;
            }
            let rest: Vec<Deviation> = [&list[..from], &list[to..]].concat();
            if let Some(used) = fails(&rest) {
                // Deviations that name a task or a point which no longer exists are gone, too.
                reduced = Some(if used.len() < rest.len() { used } else { rest });
                break;
            }
        }
        match reduced {
            Some(rest) => {
                list = rest;
                parts = parts.saturating_sub(1).max(2);
            }
            None if parts == list.len() => break,
            None => parts = (parts * 2).min(list.len()),
        }
    }
    let list = redirect(list, &mut fails);
    polish(list, fails)
}

/// Replaces the list by one or two of its elements with other targets, if they fail as well. A
/// strategy that switches often leaves detours: from one task to a second and then to a third,
/// where a switch to the third would do.
fn redirect(
    list: Vec<Deviation>,
    mut fails: impl FnMut(&[Deviation]) -> Option<Vec<Deviation>>,
) -> Vec<Deviation> {
    let is_switch = |one: &&Deviation| !matches!(one.phase, ChoicePhase::Number(_));
    let switches: Vec<Deviation> = list.iter().filter(is_switch).copied().collect();
    let mut targets: Vec<u64> = switches.iter().flat_map(|one| [one.path, one.target]).collect();
    targets.sort_unstable();
    targets.dedup();
    if list.len() < 2 || switches.len() > MOST_REDIRECTED || targets.len() > MOST_REDIRECTED {
        return list;
    }
    let to = |one: &Deviation, target: u64| Deviation { target, ..*one };
    let turned = |one: Deviation| targets.iter().map(move |&target| to(&one, target));
    for candidate in switches.iter().copied().flat_map(turned) {
        if fails(&[candidate]).is_some() {
            return vec![candidate];
        }
    }
    if list.len() < 3 {
        return list;
    }
    for (at, first) in switches.iter().enumerate() {
        for second in &switches[at + 1..] {
            for one in turned(*first) {
                for other in turned(*second) {
                    if fails(&[one, other]).is_some() {
                        return vec![one, other];
                    }
                }
            }
        }
    }
    list
}

/// Random changes: some elements less, other targets. Leaving out an element at a time gets stuck
/// where two have to go together, or where the rest needs another target. The numbers come from a
/// fixed seed, so that the same failure shrinks to the same run.
fn polish(
    mut list: Vec<Deviation>,
    mut fails: impl FnMut(&[Deviation]) -> Option<Vec<Deviation>>,
) -> Vec<Deviation> {
    let rng = Rng::new(list.len() as u64, 7);
    let mut targets: Vec<u64> = list.iter().flat_map(|one| [one.path, one.target]).collect();
    targets.sort_unstable();
    targets.dedup();
    let mut vain = 0;
    while list.len() > 2 && vain < VAIN * list.len() {
        vain += 1;
        let mut other = list.clone();
        for _ in 0..=rng.below(2) {
            other.remove(rng.below(other.len()));
        }
        for _ in 0..rng.below(3) {
            let at = rng.below(other.len());
            if !matches!(other[at].phase, ChoicePhase::Number(_)) {
                other[at].target = targets[rng.below(targets.len())];
            }
        }
        let Some(used) = fails(&other) else { continue };
        if used.len() < list.len() {
            vain = 0;
        }
        list = if used.len() <= other.len() { used } else { other };
    }
    list
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn list(numbers: impl IntoIterator<Item = u32>) -> Vec<Deviation> {
        let one = |ops| Deviation { path: 7, ops, phase: ChoicePhase::Before, target: 8 };
        numbers.into_iter().map(one).collect()
    }

    #[test]
    fn only_what_is_needed_is_left() {
        let mut asked = 0;
        let found = shrink(list(0..100), |rest| {
            asked += 1;
            let has = |ops| rest.iter().any(|deviation| deviation.ops == ops);
            (has(17) && has(63) && has(64)).then(|| rest.to_vec())
        });
        assert_eq!(found, list([17, 63, 64]));
        assert!(asked < 200 + 3 * VAIN, "{asked}");
    }

    #[test]
    fn a_failure_without_deviations_needs_none() {
        assert_eq!(shrink(list(0..9), |rest| Some(rest.to_vec())), list([]));
    }

    #[test]
    fn a_detour_becomes_one_switch() {
        let switch = |path, target| Deviation { path, ops: 3, phase: ChoicePhase::Before, target };
        let detour = vec![switch(1, 2), switch(2, 1), switch(1, 3)];
        let found = shrink(detour.clone(), |rest| {
            (rest == detour || rest == [switch(2, 3)]).then(|| rest.to_vec())
        });
        assert_eq!(found, [switch(2, 3)]);
    }

    #[test]
    fn nothing_is_taken_away_when_everything_is_needed() {
        let all = list(0..7);
        let found = shrink(all.clone(), |rest| (rest.len() == 7).then(|| rest.to_vec()));
        assert_eq!(found, all);
    }
}
