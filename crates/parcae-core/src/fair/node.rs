//! The memory of the tree: nodes of up to [`ORDER`] entries, and the pool of free ones.

use super::slot::NIL;

/// Entries of a node. Measured: with 8 there are more levels to go down, with 32 more
/// entries to move; at 1000 and at 100 000 entities 16 was the fastest of the three.
pub(super) const ORDER: usize = 16;

/// What a node that is not a root has at least. A quarter, not half: so that a node that was
/// just merged is not soon split again.
pub(super) const LEAST: usize = ORDER / 4;

/// A deadline, and the slot that breaks a tie.
pub(super) type Key = (u64, u32);

/// Whether `a` goes before `b`. Deadlines wrap around, so it is the difference that counts.
#[inline]
pub(super) fn before(a: Key, b: Key) -> bool {
    let difference = a.0.wrapping_sub(b.0).cast_signed();
    difference < 0 || (difference == 0 && a.1 < b.1)
}

/// The lesser of two virtual times.
#[inline]
fn lesser(a: u64, b: u64) -> u64 {
    if b.wrapping_sub(a).cast_signed() < 0 { b } else { a }
}

/// An entity in a leaf, or a subtree in an inner node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Of the entity. Of a subtree: nothing in it goes before this, except that the first
    /// entry of a node has no lower end.
    pub(super) key: Key,
    /// Of the entity; the least of the subtree.
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
    // An array for each, because a search looks at one of them only.
    deadline: [u64; ORDER],
    v: [u64; ORDER],
    index: [u32; ORDER],
    child: [u32; ORDER],
    len: usize,
}

impl Node {
    /// A node that nobody uses.
    pub const EMPTY: Node = Node {
        deadline: [0; ORDER],
        v: [0; ORDER],
        index: [NIL; ORDER],
        child: [NIL; ORDER],
        len: 0,
    };

    /// How many nodes a queue needs beside so many slots: a third as many, and none if the
    /// entries fit into a root.
    ///
    /// Every node but a root has at least 4 entries: there are at most n/4 leaves, n/16
    /// nodes above them and so on, together less than n/3.
    pub const fn needed(slots: usize) -> usize {
        if slots <= ORDER { 0 } else { slots / 3 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == ORDER
    }

    pub(super) fn key(&self, at: usize) -> Key {
        (self.deadline[at], self.index[at])
    }

    pub(super) fn set_key(&mut self, at: usize, key: Key) {
        (self.deadline[at], self.index[at]) = key;
    }

    pub(super) fn v(&self, at: usize) -> u64 {
        self.v[at]
    }

    pub(super) fn set_v(&mut self, at: usize, v: u64) {
        self.v[at] = v;
    }

    pub(super) fn child(&self, at: usize) -> u32 {
        self.child[at]
    }

    fn entry(&self, at: usize) -> Entry {
        Entry { key: self.key(at), v: self.v[at], child: self.child[at] }
    }

    fn set(&mut self, at: usize, entry: Entry) {
        self.set_key(at, entry.key);
        (self.v[at], self.child[at]) = (entry.v, entry.child);
    }

    /// How many entries do not go after `key`, where the first `skip` are known not to.
    #[inline]
    pub(super) fn rank(&self, skip: usize, key: Key) -> usize {
        let (mut low, mut high) = (skip, self.len);
        while low < high {
            #[cfg(test)]
            super::tests::compared();
            let middle = low.midpoint(high);
            if before(key, self.key(middle)) { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// The first entry whose v passes.
    #[inline]
    pub(super) fn find(&self, passes: &impl Fn(u64) -> bool) -> Option<usize> {
        self.v[..self.len].iter().position(|&v| {
            #[cfg(test)]
            super::tests::compared();
            passes(v)
        })
    }

    /// The least v of all entries. There is one.
    pub(super) fn least(&self) -> u64 {
        self.v[..self.len].iter().copied().reduce(lesser).unwrap_or_default()
    }

    /// That the least v of the subtree at `at` is not above `v`; whether it was.
    pub(super) fn lower(&mut self, at: usize, v: u64) -> bool {
        let lowers = v.wrapping_sub(self.v[at]).cast_signed() < 0;
        if lowers {
            self.v[at] = v;
        }
        lowers
    }

    pub(super) fn insert(&mut self, at: usize, entry: Entry) {
        let end = self.len;
        self.deadline.copy_within(at..end, at + 1);
        self.v.copy_within(at..end, at + 1);
        self.index.copy_within(at..end, at + 1);
        self.child.copy_within(at..end, at + 1);
        self.set(at, entry);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, at: usize) -> Entry {
        let entry = self.entry(at);
        let end = self.len;
        self.deadline.copy_within(at + 1..end, at);
        self.v.copy_within(at + 1..end, at);
        self.index.copy_within(at + 1..end, at);
        self.child.copy_within(at + 1..end, at);
        self.len -= 1;
        entry
    }

    /// Moves the entries from `at` on to the empty node `to`.
    pub(super) fn split(&mut self, at: usize, to: &mut Node) {
        for from in at..self.len {
            to.set(from - at, self.entry(from));
        }
        to.len = self.len - at;
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
            node.child[0] = next;
            next = n as u32;
        }
        next
    }

    /// An empty node. There is one: that is what [`Node::needed`] is for.
    pub(super) fn take(&mut self) -> u32 {
        let taken = *self.free;
        let node = &mut self.nodes[taken as usize];
        *self.free = node.child[0];
        node.len = 0;
        taken
    }

    pub(super) fn give_back(&mut self, n: u32) {
        self.nodes[n as usize].child[0] = *self.free;
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
