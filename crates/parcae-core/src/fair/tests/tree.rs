//! The tree by itself: sound after every change, and no more looks than it promises.

use super::super::slot::{NIL, Slot};
use super::super::tree::Tree;
use super::{Rng, comparisons};
use proptest::prelude::*;
use std::vec::Vec;

/// Appends the slots of a subtree in order; fails if its heights, minima or balance are
/// not what they should be. Returns (height, least v).
pub(in super::super) fn audit(slots: &[Slot], e: u32, order: &mut Vec<u32>) -> (u8, Option<u64>) {
    if e == NIL {
        return (0, None);
    }
    let slot = &slots[e as usize];
    let (left, low) = audit(slots, slot.left, order);
    order.push(e);
    let (right, high) = audit(slots, slot.right, order);
    assert!(left.abs_diff(right) <= 1, "slot {e} is out of balance: {left} and {right}");
    assert_eq!(slot.height, left.max(right) + 1, "height of slot {e}");
    let earlier = |a: u64, b: u64| if a.wrapping_sub(b).cast_signed() < 0 { a } else { b };
    let least = [low, high].into_iter().flatten().fold(slot.v, earlier);
    assert_eq!(slot.min_v, least, "least v below slot {e}");
    (slot.height, Some(least))
}

fn sorted(slots: &[Slot], mut members: Vec<u32>) -> Vec<u32> {
    members.sort_by_key(|&e| (slots[e as usize].deadline, e));
    members
}

/// Slots with small random times, so that equal ones are common.
fn slots(n: usize, rng: &mut Rng) -> Vec<Slot> {
    (0..n).map(|_| Slot { deadline: rng.below(40), v: rng.below(40), ..Slot::EMPTY }).collect()
}

proptest! {
    #[test]
    fn any_sequence_keeps_it_sound(
        seed in any::<u64>(),
        steps in prop::collection::vec((0..3_u8, any::<u32>()), 1..300),
    ) {
        let mut slots = slots(48, &mut Rng(seed));
        let (mut tree, mut members) = (Tree::EMPTY, Vec::<u32>::new());
        for (what, which) in steps {
            match what {
                0 => {
                    let e = which % slots.len() as u32;
                    if !members.contains(&e) {
                        tree.insert(&mut slots, e);
                        members.push(e);
                    }
                }
                1 if !members.is_empty() => {
                    let e = members.swap_remove(which as usize % members.len());
                    tree.remove(&mut slots, e);
                }
                _ => {
                    let limit = u64::from(which % 44);
                    let expected = sorted(&slots, members.clone())
                        .into_iter()
                        .find(|&e| slots[e as usize].v <= limit);
                    let popped = tree.pop(&mut slots, |v| v <= limit);
                    prop_assert_eq!(popped, expected);
                    members.retain(|&e| Some(e) != popped);
                }
            }
            let mut order = Vec::new();
            audit(&slots, tree.root, &mut order);
            prop_assert_eq!(order, sorted(&slots, members.clone()));
        }
    }
}

#[test]
fn comparisons_grow_with_the_logarithm() {
    for n in [64, 1_000, 10_000, 100_000_usize] {
        let mut rng = Rng(n as u64);
        let mut slots: Vec<Slot> = (0..n)
            .map(|_| Slot { deadline: rng.next() >> 2, v: rng.next() >> 2, ..Slot::EMPTY })
            .collect();
        let mut tree = Tree::EMPTY;
        let log = (n as f64).log2();
        let (mut most_insert, mut most_remove) = (0, 0);
        for e in 0..n as u32 {
            most_insert = most_insert.max(comparisons(|| tree.insert(&mut slots, e)).1);
        }
        let mut order = Vec::new();
        let (height, _) = audit(&slots, tree.root, &mut order);
        for e in (0..n as u32).step_by(3) {
            most_remove = most_remove.max(comparisons(|| tree.remove(&mut slots, e)).1);
        }
        assert!(f64::from(height) <= 1.45 * log + 1.0, "height {height} of {n}");
        assert!(most_insert as f64 <= 1.45 * log + 1.0, "{most_insert} to insert among {n}");
        assert!(most_remove as f64 <= 1.45 * log + 1.0, "{most_remove} to remove among {n}");
    }
}

#[test]
fn draining_is_in_order() {
    let mut slots = slots(100, &mut Rng(3));
    let mut tree = Tree::EMPTY;
    for e in 0..100 {
        tree.insert(&mut slots, e);
    }
    let mut drained = Vec::new();
    tree.drain(&slots, |e| drained.push(e));
    assert_eq!(drained, sorted(&slots, (0..100).collect()));
    assert_eq!(tree.root, NIL);
}
