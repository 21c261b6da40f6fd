//! The memory of the tree: nodes of up to [`ORDER`] entries, and the pool of free ones.

use super::slot::NIL;

/// Entries of a node: 16 deadlines are two cache lines. 32, with fewer levels and more to move in
/// each, made no clear difference.
pub(super) const ORDER: usize = 16;

/// The least entries of a node that is not a root. A quarter, not half, so that a node that was
/// just merged is not soon split again.
pub(super) const LEAST: usize = ORDER / 4;

/// A deadline, and the slot that breaks a tie. Deadlines wrap around: it is the difference
/// that counts.
pub(super) type Key = (u64, u32);

/// Whether `a` goes before `b`.
#[cfg(test)]
pub(super) fn before(a: Key, b: Key) -> bool {
    let difference = a.0.wrapping_sub(b.0).cast_signed();
    difference < 0 || (difference == 0 && a.1 < b.1)
}

/// The lesser of two virtual times.
#[inline]
pub(super) fn lesser(a: u64, b: u64) -> u64 {
    if b.wrapping_sub(a).cast_signed() < 0 { b } else { a }
}

/// An entity in a leaf, or a subtree in an inner node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// The key of the entity, or a lower bound of the subtree's keys; meaningless at the left edge
    /// of the tree.
    pub(super) key: Key,
    /// The v of the entity, or the least v of the subtree.
    pub(super) v: u64,
    /// The node of the subtree.
    pub(super) child: u32,
}

/// Memory for a part of the queue's tree, needed beside more than 16 entities.
///
/// ```
/// use parcae_core::fair::{FairQueue, Limits, Node, Slot};
///
/// let nodes = [Node::EMPTY; Node::needed(1_000)];
/// FairQueue::new([Slot::EMPTY; 1_000], nodes, Limits::OPS)?;
/// FairQueue::new([Slot::EMPTY; 16], [], Limits::OPS)?; // few need none
/// # Ok::<(), parcae_core::fair::FairError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Node {
    /// By themselves, so that a search finds them in two cache lines.
    deadlines: [u64; ORDER],
    rest: [Rest; ORDER],
    len: usize,
}

/// An [`Entry`] without its deadline.
#[derive(Debug, Clone, Copy)]
struct Rest {
    v: u64,
    index: u32,
    child: u32,
}

impl Node {
    /// An unused node.
    pub const EMPTY: Node = Node {
        deadlines: [0; ORDER],
        rest: [Rest { v: 0, index: NIL, child: NIL }; ORDER],
        len: 0,
    };

    /// The number of nodes for a queue with `slots` slots: a third as many, and none if the entries
    /// fit into a root.
    ///
    /// Every node but a root has at least 4 entries: there are at most n/4 leaves, n/16
    /// nodes above them and so on, together less than n/3.
    pub const fn needed(slots: usize) -> usize {
        if slots <= ORDER { 0 } else { slots / 3 }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == ORDER
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> Key {
        (self.deadlines[at], self.rest[at].index)
    }

    pub(super) fn set_key(&mut self, at: usize, key: Key) {
        (self.deadlines[at], self.rest[at].index) = key;
    }

    #[inline]
    pub(super) fn v(&self, at: usize) -> u64 {
        self.rest[at].v
    }

    #[inline]
    pub(super) fn set_v(&mut self, at: usize, v: u64) {
        self.rest[at].v = v;
    }

    #[inline]
    pub(super) fn child(&self, at: usize) -> u32 {
        self.rest[at].child
    }

    /// How many entries do not go after `key`, if the first `known` do not.
    ///
    /// Looks at all of them: loads that wait for nothing, and no branch that could be
    /// foreseen wrongly, are sooner done than the four steps of a binary search, each of
    /// which may wait for memory. Equal deadlines are rare and come after.
    #[inline]
    pub(super) fn rank(&self, known: usize, key: Key) -> usize {
        #[cfg(test)]
        (0..self.len).for_each(|_| super::tests::compared());
        let deadlines = &self.deadlines[..self.len];
        let goes_before = |&&deadline: &&u64| deadline.wrapping_sub(key.0).cast_signed() < 0;
        let mut rank = known + deadlines.iter().skip(known).filter(goes_before).count();
        while rank < self.len && deadlines[rank] == key.0 && self.rest[rank].index <= key.1 {
            rank += 1;
        }
        rank
    }

    /// The first entry whose v passes.
    #[inline]
    pub(super) fn find(&self, passes: &impl Fn(u64) -> bool) -> Option<usize> {
        self.rest[..self.len].iter().position(|rest| {
            #[cfg(test)]
            super::tests::compared();
            passes(rest.v)
        })
    }

    /// The least v of all entries. There is one.
    pub(super) fn least(&self) -> u64 {
        self.rest[..self.len].iter().map(|rest| rest.v).reduce(lesser).unwrap_or_default()
    }

    pub(super) fn insert(&mut self, at: usize, entry: Entry) {
        self.deadlines.copy_within(at..self.len, at + 1);
        self.rest.copy_within(at..self.len, at + 1);
        let Entry { key: (deadline, index), v, child } = entry;
        self.deadlines[at] = deadline;
        self.rest[at] = Rest { v, index, child };
        self.len += 1;
    }

    pub(super) fn remove(&mut self, at: usize) -> Entry {
        let entry = Entry { key: self.key(at), v: self.v(at), child: self.child(at) };
        self.deadlines.copy_within(at + 1..self.len, at);
        self.rest.copy_within(at + 1..self.len, at);
        self.len -= 1;
        entry
    }

    /// Moves the entries from `at` on to the empty node `to`.
    pub(super) fn split(&mut self, at: usize, to: &mut Node) {
        to.len = self.len - at;
        to.deadlines[..to.len].copy_from_slice(&self.deadlines[at..self.len]);
        to.rest[..to.len].copy_from_slice(&self.rest[at..self.len]);
        self.len = at;
    }

    /// Spreads the entries of this node and the next one, `right`, so that this one has
    /// `keep` of them.
    pub(super) fn spread(&mut self, right: &mut Node, keep: usize) {
        while self.len < keep {
            let entry = right.remove(0);
            self.insert(self.len, entry);
        }
        while self.len > keep {
            let entry = self.remove(self.len - 1);
            right.insert(0, entry);
        }
    }
}

impl Default for Node {
    fn default() -> Node {
        Node::EMPTY
    }
}

/// The nodes of a queue, and the first free one: the others follow by their first child.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) nodes: &'a mut [Node],
    pub(super) free: &'a mut u32,
}

impl Pool<'_> {
    /// Makes all nodes free; returns the first.
    pub(super) fn clear(nodes: &mut [Node]) -> u32 {
        let mut next = NIL;
        for (n, node) in nodes.iter_mut().enumerate().rev() {
            node.rest[0].child = next;
            next = n as u32;
        }
        next
    }

    /// An empty node. There is one: that is what [`Node::needed`] is for.
    pub(super) fn take(&mut self) -> u32 {
        let taken = *self.free;
        let node = &mut self.nodes[taken as usize];
        *self.free = node.rest[0].child;
        node.len = 0;
        taken
    }

    pub(super) fn give_back(&mut self, n: u32) {
        self.nodes[n as usize].rest[0].child = *self.free;
        *self.free = n;
    }

    /// Two different nodes at once.
    pub(super) fn pair(&mut self, a: u32, b: u32) -> (&mut Node, &mut Node) {
        let (a, b) = (a as usize, b as usize);
        if a < b {
            let (low, high) = self.nodes.split_at_mut(b);
            (&mut low[a], &mut high[0])
        } else {
            let (low, high) = self.nodes.split_at_mut(a);
            (&mut high[0], &mut low[b])
        }
    }
}
