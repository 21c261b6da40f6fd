//! The tree by itself: sound after every change, no more memory and no more looks than it
//! promises.

use super::super::node::{Key, Node, Pool};
use super::super::ready::Ready;
use super::{Rng, comparisons};
use proptest::prelude::*;
use std::vec::Vec;

/// A tree with its own pool, beside a list.
struct Pair {
    tree: Ready,
    nodes: Vec<Node>,
    free: u32,
    model: Vec<(Key, u64)>,
}

impl Pair {
    fn new(entities: usize) -> Pair {
        let mut nodes = std::vec![Node::EMPTY; Node::needed(entities)];
        let free = Pool::clear(&mut nodes);
        Pair { tree: Ready::EMPTY, nodes, free, model: Vec::new() }
    }

    fn insert(&mut self, key: Key, v: u64) {
        let mut pool = Pool { nodes: &mut self.nodes, free: &mut self.free };
        self.tree.insert(&mut pool, key, v);
        let at = self.model.partition_point(|entry| entry.0 < key);
        self.model.insert(at, (key, v));
    }

    fn remove(&mut self, at: usize) {
        let mut pool = Pool { nodes: &mut self.nodes, free: &mut self.free };
        self.tree.remove(&mut pool, self.model.remove(at).0);
    }

    /// Finds the first that passes, and leaves it there. Returns its place.
    fn look(&mut self, limit: u64) -> Option<usize> {
        let pool = Pool { nodes: &mut self.nodes, free: &mut self.free };
        let first = self.tree.first(&pool, |v| v <= limit);
        let at = self.model.iter().position(|entry| entry.1 <= limit);
        assert_eq!(first, at.map(|at| self.model[at].0.1));
        at
    }

    fn pop(&mut self, limit: u64) {
        if let Some(at) = self.look(limit) {
            self.remove(at);
        }
    }

    fn update(&mut self, at: usize, by: u64) {
        let mut pool = Pool { nodes: &mut self.nodes, free: &mut self.free };
        let (key, v) = &mut self.model[at];
        *v += by;
        self.tree.update(&mut pool, *key, *v);
    }

    fn compare(&self) {
        assert_eq!(self.tree.audit(&self.nodes), self.model);
    }
}

proptest! {
    #[test]
    fn any_sequence_keeps_it_sound(
        steps in prop::collection::vec((0..7_u8, 0..60_u64, 0..60_u64, any::<usize>()), 1..600),
    ) {
        let mut pair = Pair::new(400);
        let mut next = 0;
        for (what, deadline, v, which) in steps {
            match what {
                0 | 1 if pair.model.len() < 400 => {
                    pair.insert((deadline, next), v);
                    next += 1;
                }
                2 if !pair.model.is_empty() => pair.remove(which % pair.model.len()),
                3 if !pair.model.is_empty() => pair.update(which % pair.model.len(), v),
                4 => {
                    // Found, then looked for in vain, then changed: not by the way of the
                    // search that failed.
                    let found = pair.look(v);
                    pair.look(v / 16);
                    if let Some(at) = found {
                        pair.update(at, deadline);
                    }
                }
                5 => {
                    if let Some(at) = pair.look(v) {
                        pair.update(at, deadline); // what a turn does
                    }
                }
                _ => pair.pop(v),
            }
            pair.compare();
        }
    }
}

/// Grows and shrinks, at either end and in the middle, down to nothing.
#[test]
fn it_grows_and_shrinks_within_its_memory() {
    for seed in 0..6 {
        let (mut rng, mut pair) = (Rng(seed), Pair::new(3_000));
        for round in 0..6 {
            while pair.model.len() < 3_000 {
                let deadline = match seed % 3 {
                    0 => rng.below(1_000),
                    1 => 1_000_000 + u64::from(round) * 5_000 + pair.model.len() as u64,
                    _ => 1_000_000 - pair.model.len() as u64,
                };
                let index = round * 3_000 + pair.model.len() as u32;
                pair.insert((deadline, index), rng.below(1_000));
                if pair.model.len() % 97 == 0 {
                    pair.compare();
                }
            }
            assert!(pair.tree.nodes(&pair.nodes) <= Node::needed(3_000));
            let keep = if round == 5 { 0 } else { rng.below(600) as usize };
            while pair.model.len() > keep {
                match rng.below(3) {
                    0 => pair.remove(0),
                    1 => pair.remove(pair.model.len() - 1),
                    _ => pair.pop(rng.below(1_100)),
                }
                if pair.model.len() % 97 == 0 {
                    pair.compare();
                }
            }
        }
        assert_eq!(pair.tree.height(), 0);
        let mut free = 0;
        let mut pool = Pool { nodes: &mut pair.nodes, free: &mut pair.free };
        while *pool.free != u32::MAX {
            pool.take();
            free += 1;
        }
        assert_eq!(free, Node::needed(3_000), "all nodes came back");
    }
}

/// The worst case of memory: as thin as the tree may become.
#[test]
fn the_thinnest_tree_fits_into_its_memory() {
    let mut pair = Pair::new(4_000);
    for n in 0..4_000 {
        pair.insert((u64::from(n), n), 0);
    }
    // Every leaf is brought down to its least, then filled up at one end only.
    for at in (0..3_000).rev() {
        if at % 4 != 0 {
            pair.remove(at);
        }
    }
    pair.compare();
    let mut next = 4_000;
    while pair.model.len() < 4_000 {
        pair.insert((u64::from(next), next), 0);
        next += 1;
    }
    pair.compare();
    assert!(pair.tree.nodes(&pair.nodes) <= Node::needed(4_000));
}

// rule: S3-EEVDF-7
#[test]
fn comparisons_grow_with_the_logarithm() {
    for n in [16, 64, 1_000, 10_000, 100_000_usize] {
        let mut rng = Rng(n as u64);
        let mut pair = Pair::new(n);
        let mut keys: Vec<Key> = (0..n as u32).map(|e| (rng.next() >> 2, e)).collect();
        let (mut most_insert, mut most_remove, mut most_first) = (0, 0, 0);
        let Pair { tree, nodes, free, .. } = &mut pair;
        let mut pool = Pool { nodes, free };
        for &key in &keys {
            let looks = comparisons(|| tree.insert(&mut pool, key, rng.below(1_000))).1;
            most_insert = most_insert.max(looks);
        }
        let height = tree.height();
        for key in keys.split_off(n / 2) {
            most_remove = most_remove.max(comparisons(|| tree.remove(&mut pool, key)).1);
        }
        for _ in 0..n / 3 {
            let limit = rng.below(1_000);
            most_first = most_first.max(comparisons(|| tree.first(&pool, |v| v <= limit)).1);
        }
        // Nodes are half full or more after random insertions: eight ways at each level.
        let levels = (n as f64).log2() / 3.0 + 1.0;
        assert!(height as f64 <= levels, "height {height} of {n}");
        let limit = 16.0 * levels;
        assert!(most_insert as f64 <= limit, "{most_insert} to insert among {n}");
        assert!(most_remove as f64 <= limit, "{most_remove} to remove among {n}");
        assert!(most_first as f64 <= limit, "{most_first} to find the first among {n}");
    }
}
