//! The counted entities of a group, ordered by deadline; finds the earliest *eligible* one.
//!
//! A B+ tree. Its root is part of the group, so few entities are a flat array without
//! further memory; more of them take [`Node`]s from the queue's pool. Keys are (deadline,
//! slot), hence unique.
//!
//! The one that runs stays in the tree, with the v that it had when it was picked. When it
//! goes back, its v is corrected, and only if its request was served does it move.
//!
//! # Why one way down suffices
//!
//! An entry of an inner node knows the least v of its subtree, and a subtree has an eligible entity
//! if and only if that one is eligible. In every node the first eligible entry is therefore the
//! right one: the entries before it have no eligible entity, those after it have later deadlines.
//! The search never backtracks.
//!
//! # Keys that wrap around
//!
//! Entries of inner nodes have the lower end of their subtree as a key, which is not raised when
//! the subtree changes. It could thus be left behind by more than half of the range of virtual
//! time, and would then seem to lie ahead. But the key between two subtrees has live entities on
//! both sides, so it is not behind them. The keys of first entries are never read: the parent's
//! entry has the same bound, and at the left edge of the tree there is no bound.
//!
//! # Costs
//!
//! At most sixteen comparisons per level; three levels for a thousand entities, five for a hundred
//! thousand. The least v's are updated on the way back, which ends as soon as one of them is
//! unchanged.
//!
//! # Rejected
//!
//! An AVL tree with its links in the slots needs no other memory, but took more than one and a half
//! times as long: three times the levels, each with its own cache line and an unpredictable branch.

use super::node::{Entry, Key, LEAST, Node, ORDER, Pool, lesser};
use super::slot::NIL;

/// The most levels below a root: 4¹² is 2²⁴.
const MAX_HEIGHT: usize = 12;

/// Two nodes with no more than this together become one.
const MERGED: usize = ORDER * 3 / 4;

/// The counted entities. See the module's header.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    root: Node,
    /// Levels below the root; 0 while it is a leaf.
    height: usize,
    /// The entity that was found last, and its path, if nothing has moved since: the next search is
    /// usually for the running entity.
    known: Key,
    way: Path,
}

/// The key of no entity.
const NOBODY: Key = (0, NIL);

/// The way from the root to a place in a leaf: the node of each level, [`NIL`] for the root,
/// and the entry in it; in the leaf, the entry behind the one that is meant.
#[derive(Debug, Clone, Copy)]
struct Path {
    nodes: [u32; MAX_HEIGHT + 1],
    at: [u8; MAX_HEIGHT + 1],
}

impl Path {
    const NEW: Path = Path { nodes: [NIL; MAX_HEIGHT + 1], at: [0; MAX_HEIGHT + 1] };

    /// The node and the entry of a level.
    fn at(&self, level: usize) -> (u32, usize) {
        (self.nodes[level], usize::from(self.at[level]))
    }
}

impl Ready {
    pub(super) const EMPTY: Ready =
        Ready { root: Node::EMPTY, height: 0, known: NOBODY, way: Path::NEW };

    pub(super) fn insert(&mut self, pool: &mut Pool<'_>, key: Key, v: u64) {
        if self.root.is_full() {
            self.grow(pool);
        }
        let path = self.seek(pool, key);
        self.known = NOBODY;
        let mut entry = Entry { key, v, child: NIL };
        let mut level = self.height;
        let mut at = path.at(level).1;
        loop {
            let n = path.nodes[level];
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
            let (parent, split) = path.at(level);
            self.node_mut(pool, parent).set_v(split, least);
            at = split + 1;
        }
        // Further up it is enough to know whether the new one is the least of all.
        for level in (0..level).rev() {
            let (n, at) = path.at(level);
            let node = self.node_mut(pool, n);
            let least = lesser(node.v(at), v);
            if least == node.v(at) {
                return;
            }
            node.set_v(at, least);
        }
    }

    pub(super) fn remove(&mut self, pool: &mut Pool<'_>, key: Key) {
        let path = self.seek(pool, key);
        self.known = NOBODY;
        let mut level = self.height;
        let (n, at) = path.at(level);
        let gone = self.node_mut(pool, n).remove(at - 1);
        debug_assert_eq!(gone.key, key, "it is here");
        while level > 0 {
            let child = path.nodes[level];
            level -= 1;
            let (parent, at) = path.at(level);
            if self.node(pool, child).len() < LEAST {
                self.level_out(pool, parent, at);
            } else if self.node(pool, parent).v(at) == gone.v {
                let least = self.node(pool, child).least();
                self.node_mut(pool, parent).set_v(at, least);
            } else {
                break; // no ancestor refers to the removed one
            }
        }
        if self.height > 0 && self.root.len() == 1 {
            let child = self.root.child(0);
            self.root.clone_from(&pool.nodes[child as usize]);
            pool.give_back(child);
            self.height -= 1;
        }
    }

    /// Corrects the v of an entity, which did not go backwards.
    #[inline]
    pub(super) fn update(&mut self, pool: &mut Pool<'_>, key: Key, v: u64) {
        let path = self.seek(pool, key);
        let (n, behind) = path.at(self.height);
        let leaf = self.node_mut(pool, n);
        debug_assert_eq!(leaf.key(behind - 1), key, "it is here");
        let was = leaf.v(behind - 1);
        leaf.set_v(behind - 1, v);
        for level in (0..self.height).rev() {
            let (n, at) = path.at(level);
            if self.node(pool, n).v(at) != was {
                return; // another entry is the least
            }
            let least = self.node(pool, path.nodes[level + 1]).least();
            self.node_mut(pool, n).set_v(at, least);
        }
    }

    /// The slot of the eligible one with the earliest deadline. There is one if the tree is not
    /// empty and `eligible` is that of the average over its entities.
    pub(super) fn first(&mut self, pool: &Pool<'_>, eligible: impl Fn(u64) -> bool) -> Option<u32> {
        // If the root has an entry that passes, every node below that one has: the way is
        // either not begun or found to its end.
        let mut node = &self.root;
        for level in 0..self.height {
            let at = node.find(&eligible)?;
            let child = node.child(at);
            (self.way.at[level], self.way.nodes[level + 1]) = (at as u8, child);
            node = &pool.nodes[child as usize];
        }
        let at = node.find(&eligible)?;
        self.way.at[self.height] = at as u8 + 1;
        self.known = node.key(at);
        Some(self.known.1)
    }

    #[inline]
    fn node<'a>(&'a self, pool: &'a Pool<'_>, n: u32) -> &'a Node {
        if n == NIL { &self.root } else { &pool.nodes[n as usize] }
    }

    #[inline]
    fn node_mut<'a>(&'a mut self, pool: &'a mut Pool<'_>, n: u32) -> &'a mut Node {
        if n == NIL { &mut self.root } else { &mut pool.nodes[n as usize] }
    }

    /// The way to `key`, or to where it belongs: in the leaf, how many do not go after it.
    #[inline]
    fn seek(&self, pool: &Pool<'_>, key: Key) -> Path {
        if self.known == key {
            return self.way;
        }
        let mut path = Path::NEW;
        let mut node = &self.root;
        for level in 0..self.height {
            let at = node.rank(1, key) - 1;
            path.at[level] = at as u8;
            path.nodes[level + 1] = node.child(at);
            node = &pool.nodes[node.child(at) as usize];
        }
        path.at[self.height] = node.rank(0, key) as u8;
        path
    }

    /// Adds a level: the root's entries move into two nodes below it.
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

    /// The child of `parent` at `at` has too few entries: it gets some of a neighbour's, or
    /// becomes one with it.
    fn level_out(&mut self, pool: &mut Pool<'_>, parent: u32, at: usize) {
        let node = self.node(pool, parent);
        let at = at.min(node.len() - 2);
        let (low, high) = (node.child(at), node.child(at + 1));
        let (left, right) = pool.pair(low, high);
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
    /// All entities in order; panics if the tree is not sound.
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
