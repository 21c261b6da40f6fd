//! A balanced search tree over slots, by deadline, that finds the earliest *eligible* one.
//!
//! The links are in the slots, so a tree needs no memory and inserting cannot fail. It is
//! an AVL tree: the heights of siblings differ by at most one, and it is at most 1.44 log₂ n
//! high. Keys are (deadline, slot index), hence unique, and deadlines are compared by their
//! wrapped difference.
//!
//! # Why one way down suffices
//!
//! Each slot knows the least `v` of its subtree. A subtree has an eligible slot if and only
//! if its least `v` is eligible. So on the way down: if the left subtree has one, the answer
//! is there, for everything there has an earlier deadline; otherwise it is this slot if
//! eligible; otherwise it is on the right. No step is ever taken back.
//!
//! # Walking back
//!
//! There are no links upwards. Who inserts or removes comes from the root and remembers its
//! way; afterwards the same way back restores heights and minima, and stops where nothing
//! changed, because what is above depends only on what is below.

use super::slot::{NIL, Slot};

/// The highest that a tree can be: 1.44 · log₂(2²⁴ + 2) is below 35.
const MAX_HEIGHT: usize = 36;

/// Whether `a` goes before `b`.
#[inline]
pub(super) fn before(a: (u64, u32), b: (u64, u32)) -> bool {
    #[cfg(test)]
    super::tests::compared();
    let difference = a.0.wrapping_sub(b.0).cast_signed();
    difference < 0 || (difference == 0 && a.1 < b.1)
}

/// The way from the root to a slot.
struct Path {
    slots: [u32; MAX_HEIGHT],
    len: usize,
}

impl Path {
    const fn new() -> Path {
        Path { slots: [NIL; MAX_HEIGHT], len: 0 }
    }

    fn push(&mut self, e: u32) {
        self.slots[self.len] = e;
        self.len += 1;
    }

    fn last(&self) -> Option<u32> {
        self.slots[..self.len].last().copied()
    }

    fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        Some(self.slots[self.len])
    }
}

/// A tree: the slot at its root.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    pub(super) root: u32,
}

impl Tree {
    pub(super) const EMPTY: Tree = Tree { root: NIL };

    pub(super) fn insert(&mut self, slots: &mut [Slot], e: u32) {
        let slot = &mut slots[e as usize];
        (slot.left, slot.right, slot.height, slot.min_v) = (NIL, NIL, 1, slot.v);
        let key = (slot.deadline, e);
        let mut path = Path::new();
        let mut link = &mut self.root;
        while *link != NIL {
            let at = *link;
            path.push(at);
            let here = &mut slots[at as usize];
            let left = before(key, (here.deadline, at));
            link = if left { &mut here.left } else { &mut here.right };
        }
        *link = e;
        self.mend(slots, path, usize::MAX);
    }

    pub(super) fn remove(&mut self, slots: &mut [Slot], e: u32) {
        let key = (slots[e as usize].deadline, e);
        let mut path = Path::new();
        let mut at = self.root;
        while at != e {
            path.push(at);
            let here = &slots[at as usize];
            at = if before(key, (here.deadline, at)) { here.left } else { here.right };
        }
        self.cut(slots, path, e);
    }

    /// Takes out the eligible slot with the earliest deadline.
    pub(super) fn pop(
        &mut self,
        slots: &mut [Slot],
        eligible: impl Fn(u64) -> bool,
    ) -> Option<u32> {
        let mut path = Path::new();
        let mut at = self.root;
        loop {
            let here = slots.get(at as usize)?;
            if slots.get(here.left as usize).is_some_and(|left| eligible(left.min_v)) {
                path.push(at);
                at = here.left;
            } else if eligible(here.v) {
                break;
            } else {
                path.push(at);
                at = here.right;
            }
        }
        self.cut(slots, path, at);
        Some(at)
    }

    /// Takes out `e`, to which `path` leads.
    fn cut(&mut self, slots: &mut [Slot], mut path: Path, e: u32) {
        let Slot { left, right, height, min_v, .. } = slots[e as usize];
        let place = path.len;
        let parent = path.last();
        if left == NIL || right == NIL {
            let child = if left == NIL { right } else { left };
            self.relink(slots, parent, e, child);
        } else {
            // The next in order takes its place: it is leftmost on the right.
            path.push(NIL); // the next in order, once it is known
            let mut next = right;
            while slots[next as usize].left != NIL {
                path.push(next);
                next = slots[next as usize].left;
            }
            if next != right {
                let child = slots[next as usize].right;
                self.relink(slots, path.last(), next, child);
                slots[next as usize].right = right;
            }
            let slot = &mut slots[next as usize];
            // What is above still knows `e`: so its place changed only if this is not so.
            (slot.left, slot.height, slot.min_v) = (left, height, min_v);
            path.slots[place] = next;
            self.relink(slots, parent, e, next);
        }
        self.mend(slots, path, place);
    }

    /// Makes `parent`, or the root, point to `to` where it pointed to `from`.
    fn relink(&mut self, slots: &mut [Slot], parent: Option<u32>, from: u32, to: u32) {
        match parent.map(|parent| &mut slots[parent as usize]) {
            None => self.root = to,
            Some(parent) if parent.left == from => parent.left = to,
            Some(parent) => parent.right = to,
        }
    }

    /// Goes back the way, restoring balance and what slots know of their subtrees. From
    /// `place` upwards it may stop.
    fn mend(&mut self, slots: &mut [Slot], mut path: Path, place: usize) {
        while let Some(e) = path.pop() {
            let known = (slots[e as usize].height, slots[e as usize].min_v);
            update(slots, e);
            let top = balance(slots, e);
            if top != e {
                self.relink(slots, path.last(), e, top);
            } else if path.len <= place
                && known == (slots[e as usize].height, slots[e as usize].min_v)
            {
                return;
            }
        }
    }

    /// All slots in order of deadline, by calling `f`.
    pub(super) fn drain(&mut self, slots: &[Slot], mut f: impl FnMut(u32)) {
        let mut path = Path::new();
        let mut at = core::mem::replace(&mut self.root, NIL);
        loop {
            while at != NIL {
                path.push(at);
                at = slots[at as usize].left;
            }
            let Some(e) = path.pop() else { return };
            f(e);
            at = slots[e as usize].right;
        }
    }
}

fn height(slots: &[Slot], e: u32) -> u8 {
    slots.get(e as usize).map_or(0, |slot| slot.height)
}

/// Height and minimum of `e`, from those of its children.
fn update(slots: &mut [Slot], e: u32) {
    let slot = &slots[e as usize];
    let (mut min_v, mut tallest) = (slot.v, 0);
    for child in [slot.left, slot.right] {
        if let Some(child) = slots.get(child as usize) {
            tallest = tallest.max(child.height);
            if child.min_v.wrapping_sub(min_v).cast_signed() < 0 {
                min_v = child.min_v;
            }
        }
    }
    let slot = &mut slots[e as usize];
    slot.min_v = min_v;
    slot.height = tallest + 1;
}

/// Rotates if one side is two higher; returns who is on top now.
fn balance(slots: &mut [Slot], e: u32) -> u32 {
    let Slot { left, right, .. } = slots[e as usize];
    let (l, r) = (height(slots, left), height(slots, right));
    if l > r + 1 {
        let Slot { left: outer, right: inner, .. } = slots[left as usize];
        if height(slots, inner) > height(slots, outer) {
            slots[e as usize].left = rotate_left(slots, left);
        }
        rotate_right(slots, e)
    } else if r > l + 1 {
        let Slot { left: inner, right: outer, .. } = slots[right as usize];
        if height(slots, inner) > height(slots, outer) {
            slots[e as usize].right = rotate_right(slots, right);
        }
        rotate_left(slots, e)
    } else {
        e
    }
}

/// The right child goes up, `e` goes down to its left.
fn rotate_left(slots: &mut [Slot], e: u32) -> u32 {
    let up = slots[e as usize].right;
    slots[e as usize].right = slots[up as usize].left;
    slots[up as usize].left = e;
    update(slots, e);
    update(slots, up);
    up
}

/// The left child goes up, `e` goes down to its right.
fn rotate_right(slots: &mut [Slot], e: u32) -> u32 {
    let up = slots[e as usize].left;
    slots[e as usize].left = slots[up as usize].right;
    slots[up as usize].right = e;
    update(slots, e);
    update(slots, up);
    up
}
