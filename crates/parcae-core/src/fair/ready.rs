//! Those who wait in a group: a flat array while they are few, a tree when they are many.
//!
//! Up to [`FLAT`] entries lie in one sorted array that is scanned from the earliest
//! deadline: the answer is nearly always among the first, and there is nothing to balance.
//! The next one turns the array into a [`Tree`]; it becomes an array again at half that
//! number, so that a queue whose length wavers around the border does not change its form
//! all the time. Changing it is a bounded amount of work.

use super::slot::{NIL, Slot};
use super::tree::{Tree, before};

/// As many as the array takes. Measured: at 16 array and tree cost the same for random
/// weights, below that the array is faster.
pub(super) const FLAT: usize = 16;

/// What the array knows of a slot.
#[derive(Debug, Clone, Copy)]
struct Entry {
    deadline: u64,
    v: u64,
    index: u32,
}

/// Those who wait. See the module's header.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    len: usize,
    form: Form,
    /// Sorted by (deadline, index) while the form is `Flat`.
    flat: [Entry; FLAT],
    tree: Tree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Flat,
    Tree,
}

impl Ready {
    pub(super) const EMPTY: Ready = Ready {
        len: 0,
        form: Form::Flat,
        flat: [Entry { deadline: 0, v: 0, index: NIL }; FLAT],
        tree: Tree::EMPTY,
    };

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn insert(&mut self, slots: &mut [Slot], e: u32) {
        if self.form == Form::Flat && self.len == FLAT {
            self.form = Form::Tree;
            for entry in self.flat {
                self.tree.insert(slots, entry.index);
            }
        }
        match self.form {
            Form::Tree => self.tree.insert(slots, e),
            Form::Flat => {
                let Slot { deadline, v, .. } = slots[e as usize];
                // From the end: new requests are mostly due last.
                let mut at = self.len;
                while at > 0 {
                    let last = self.flat[at - 1];
                    if before((last.deadline, last.index), (deadline, e)) {
                        break;
                    }
                    self.flat[at] = last;
                    at -= 1;
                }
                self.flat[at] = Entry { deadline, v, index: e };
            }
        }
        self.len += 1;
    }

    pub(super) fn remove(&mut self, slots: &mut [Slot], e: u32) {
        match self.form {
            Form::Tree => {
                self.tree.remove(slots, e);
                self.len -= 1;
                self.flatten(slots);
            }
            Form::Flat => {
                if let Some(at) = self.flat[..self.len].iter().position(|entry| entry.index == e) {
                    self.take(at);
                }
            }
        }
    }

    /// Takes out the eligible one with the earliest deadline. There is one whenever there
    /// is any, if `eligible` is that of an average over these and nobody else.
    pub(super) fn pop(
        &mut self,
        slots: &mut [Slot],
        eligible: impl Fn(u64) -> bool,
    ) -> Option<u32> {
        let eligible = |v| {
            #[cfg(test)]
            super::tests::compared();
            eligible(v)
        };
        match self.form {
            Form::Tree => {
                let e = self.tree.pop(slots, eligible)?;
                self.len -= 1;
                self.flatten(slots);
                Some(e)
            }
            Form::Flat => {
                let at = self.flat[..self.len].iter().position(|entry| eligible(entry.v))?;
                let e = self.flat[at].index;
                self.take(at);
                Some(e)
            }
        }
    }

    fn take(&mut self, at: usize) {
        self.flat.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }

    /// Back to the array, once there is plenty of room in it.
    fn flatten(&mut self, slots: &[Slot]) {
        if self.len > FLAT / 2 {
            return;
        }
        let flat = &mut self.flat;
        let mut at = 0;
        self.tree.drain(slots, |e| {
            let Slot { deadline, v, .. } = slots[e as usize];
            flat[at] = Entry { deadline, v, index: e };
            at += 1;
        });
        self.form = Form::Flat;
    }

    /// Everybody who waits, in order of deadline; and, as a tree, whether it is a sound one.
    #[cfg(test)]
    pub(super) fn audit(&self, slots: &[Slot]) -> std::vec::Vec<u32> {
        match self.form {
            Form::Flat => {
                for entry in &self.flat[..self.len] {
                    let slot = &slots[entry.index as usize];
                    assert_eq!((entry.deadline, entry.v), (slot.deadline, slot.v));
                }
                self.flat[..self.len].iter().map(|entry| entry.index).collect()
            }
            Form::Tree => {
                let mut order = std::vec::Vec::new();
                super::tests::tree::audit(slots, self.tree.root, &mut order);
                order
            }
        }
    }
}
