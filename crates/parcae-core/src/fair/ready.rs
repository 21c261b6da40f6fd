//! Those who wait in a group, in order of their deadlines; finds the earliest *eligible*.
//!
//! A B+ tree. Its root is part of the group, so few entities are a flat array without
//! further memory; more of them take [`Node`]s from the queue's pool. Keys are (deadline,
//! slot), hence unique.
//!
//! # Why one way down suffices
//!
//! An entry of an inner node knows the least v of its subtree, and a subtree has an eligible
//! entity if and only if that one is eligible. In every node the first eligible entry is
//! therefore the right one: all before it have nobody, all after it have later deadlines.
//! No step is ever taken back.
//!
//! # What it costs
//!
//! A binary search per level to insert or remove, a scan per level to pick; two and a half
//! levels at a thousand entities, four to five at a hundred thousand. Least v's are mended on
//! the way back, which ends as soon as one of them is right.
//!
//! # Rejected
//!
//! An AVL tree with its links in the slots needs no other memory, but took two to three
//! times as long: three times the levels, each a cache line of its own and a branch that
//! cannot be foreseen.

use super::node::{Entry, Key, LEAST, Node, ORDER, Pool};
use super::slot::NIL;

/// The most levels below a root: 4¹² is 2²⁴.
const MAX_HEIGHT: usize = 12;

/// Two nodes with no more than this together become one.
const MERGED: usize = ORDER * 3 / 4;

/// Those who wait. See the module's header.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    root: Node,
    /// Levels below the root; 0 while it is a leaf.
    height: usize,
}

/// The way from the root to an entry of a leaf: the node of each level, [`NIL`] for the root,
/// and the entry in it.
struct Path {
    nodes: [u32; MAX_HEIGHT + 1],
    at: [usize; MAX_HEIGHT + 1],
}

impl Ready {
    pub(super) const EMPTY: Ready = Ready { root: Node::EMPTY, height: 0 };

    pub(super) fn insert(&mut self, pool: &mut Pool<'_>, key: Key, v: u64) {
        if self.root.is_full() {
            self.grow(pool);
        }
        let mut path = self.seek(pool, key);
        let mut entry = Entry { key, v, child: NIL };
        let mut level = self.height;
        path.at[level] = self.node(pool, path.nodes[level]).rank(0, key);
        loop {
            let (n, at) = (path.nodes[level], path.at[level]);
            if !self.node(pool, n).is_full() {
                self.node_mut(pool, n).insert(at, entry);
                break;
            }
            // The upper half becomes a node of its own, an entry behind this one's. This is
            // not the root, which has room.
            let new = pool.take();
            let (left, right) = pool.pair(n, new);
            left.split(ORDER / 2, right);
            if at <= ORDER / 2 {
                left.insert(at, entry);
            } else {
                right.insert(at - ORDER / 2, entry);
            }
            entry = Entry { key: right.key(0), v: right.least(), child: new };
            let least = left.least();
            level -= 1;
            let parent = path.nodes[level];
            self.node_mut(pool, parent).set_v(path.at[level], least);
            path.at[level] += 1;
        }
        // What was inserted at this level may be the least of all that is below the next.
        while level > 0 {
            level -= 1;
            if !self.node_mut(pool, path.nodes[level]).lower(path.at[level], v) {
                return;
            }
        }
    }

    pub(super) fn remove(&mut self, pool: &mut Pool<'_>, key: Key) {
        let mut path = self.seek(pool, key);
        let leaf = self.node(pool, path.nodes[self.height]);
        path.at[self.height] = leaf.rank(0, key) - 1;
        debug_assert_eq!(leaf.key(path.at[self.height]), key, "it waits here");
        self.cut(pool, &path);
    }

    /// Takes out the eligible one with the earliest deadline, and returns its slot. There
    /// is one whenever there is any, if `eligible` is that of an average over those who
    /// wait here and the one that runs.
    pub(super) fn pop(
        &mut self,
        pool: &mut Pool<'_>,
        eligible: impl Fn(u64) -> bool,
    ) -> Option<u32> {
        let mut path = Path { nodes: [NIL; MAX_HEIGHT + 1], at: [0; MAX_HEIGHT + 1] };
        for level in 0..=self.height {
            let node = self.node(pool, path.nodes[level]);
            path.at[level] = node.find(&eligible)?;
            if level < self.height {
                path.nodes[level + 1] = node.child(path.at[level]);
            }
        }
        Some(self.cut(pool, &path))
    }

    fn node<'a>(&'a self, pool: &'a Pool<'_>, n: u32) -> &'a Node {
        if n == NIL { &self.root } else { &pool.nodes[n as usize] }
    }

    fn node_mut<'a>(&'a mut self, pool: &'a mut Pool<'_>, n: u32) -> &'a mut Node {
        if n == NIL { &mut self.root } else { &mut pool.nodes[n as usize] }
    }

    /// The way to the leaf where `key` is or belongs; the place in the leaf is left open.
    fn seek(&self, pool: &Pool<'_>, key: Key) -> Path {
        let mut path = Path { nodes: [NIL; MAX_HEIGHT + 1], at: [0; MAX_HEIGHT + 1] };
        for level in 0..self.height {
            let node = self.node(pool, path.nodes[level]);
            path.at[level] = node.rank(1, key) - 1;
            path.nodes[level + 1] = node.child(path.at[level]);
        }
        path
    }

    /// One level more: what is in the root goes into two nodes below it.
    fn grow(&mut self, pool: &mut Pool<'_>) {
        let (low, high) = (pool.take(), pool.take());
        let (left, right) = pool.pair(low, high);
        self.root.split(ORDER / 2, right);
        self.root.split(0, left);
        for (at, (child, node)) in [(low, &*left), (high, &*right)].into_iter().enumerate() {
            self.root.insert(at, Entry { key: node.key(0), v: node.least(), child });
        }
        self.height += 1;
    }

    /// Takes out the entry to which `path` leads; returns its slot.
    fn cut(&mut self, pool: &mut Pool<'_>, path: &Path) -> u32 {
        let mut level = self.height;
        let gone = self.node_mut(pool, path.nodes[level]).remove(path.at[level]);
        while level > 0 {
            let child = path.nodes[level];
            level -= 1;
            let (parent, at) = (path.nodes[level], path.at[level]);
            if self.node(pool, child).len() < LEAST {
                self.level_out(pool, parent, at, level + 1 < self.height);
            } else if self.node(pool, parent).v(at) == gone.v {
                let least = self.node(pool, child).least();
                self.node_mut(pool, parent).set_v(at, least);
            } else {
                break; // nobody above knows the one that is gone
            }
        }
        if self.height > 0 && self.root.len() == 1 {
            let child = self.root.child(0);
            self.root.clone_from(&pool.nodes[child as usize]);
            pool.give_back(child);
            self.height -= 1;
        }
        gone.key.1
    }

    /// The child of `parent` at `at` has too few entries: it gets some of a neighbour's, or
    /// becomes one with it.
    fn level_out(&mut self, pool: &mut Pool<'_>, parent: u32, at: usize, inner: bool) {
        let node = self.node(pool, parent);
        let at = at.min(node.len() - 2);
        let (low, high, between) = (node.child(at), node.child(at + 1), node.key(at + 1));
        let (left, right) = pool.pair(low, high);
        if inner {
            right.set_key(0, between); // it will not be the first any more
        }
        let all = left.len() + right.len();
        let keep = if all <= MERGED { all } else { all / 2 };
        left.spread(right, keep);
        let (left_least, right_least, key) = (left.least(), right.least(), right.key(0));
        if keep == all {
            pool.give_back(high);
        }
        let node = self.node_mut(pool, parent);
        node.set_v(at, left_least);
        if keep == all {
            node.remove(at + 1);
        } else {
            node.set_v(at + 1, right_least);
            node.set_key(at + 1, key);
        }
    }
}

#[cfg(test)]
impl Ready {
    /// Everybody who waits, in order; fails if the tree is not sound.
    pub(super) fn audit(&self, nodes: &[Node]) -> std::vec::Vec<(Key, u64)> {
        let mut found = std::vec::Vec::new();
        self.walk(nodes, &self.root, self.height, &mut found);
        assert!(found.is_sorted_by(|a, b| super::node::before(a.0, b.0)), "out of order");
        found
    }

    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// How many nodes it uses.
    pub(super) fn nodes(&self, nodes: &[Node]) -> usize {
        fn below(nodes: &[Node], node: &Node, height: usize) -> usize {
            let inner = if height == 0 { 0 } else { node.len() };
            (0..inner).map(|at| 1 + below(nodes, &nodes[node.child(at) as usize], height - 1)).sum()
        }
        below(nodes, &self.root, self.height)
    }

    fn walk(
        &self,
        nodes: &[Node],
        node: &Node,
        height: usize,
        found: &mut std::vec::Vec<(Key, u64)>,
    ) {
        for at in 0..node.len() {
            if height == 0 {
                found.push((node.key(at), node.v(at)));
                continue;
            }
            let child = &nodes[node.child(at) as usize];
            assert!(child.len() >= LEAST, "a node with {} entries", child.len());
            assert_eq!(child.least(), node.v(at), "least v");
            let first = found.len();
            self.walk(nodes, child, height - 1, found);
            if at > 0 {
                assert!(!super::node::before(found[first].0, node.key(at)), "lower end");
                assert!(super::node::before(found[first - 1].0, node.key(at)), "upper end");
            }
        }
    }
}
