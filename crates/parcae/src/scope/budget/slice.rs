//! Slices: how much a task draws from a pool at a time.
//!
//! A child does not draw everything that its nursery has. It draws a slice when it is spawned, and
//! another one when that is used up. There is one rule for all resources that the pool counts:
//!
//! | slice | policy | first slice | later slices |
//! |---|---|---|---|
//! | not named | `Refill`, `Suspend` | min(default, 1/16 of what is left) | the same, of what is left then |
//! | not named | `Fail` | min(default, 1/2 of what is left) | none |
//! | named by `slice` | `Refill`, `Suspend` | min(slice, what is left) | the same |
//! | named by `slice` | `Fail` | min(slice, what is left) | none |
//! | `SpawnOpts::budget`, `child_budget`: resources that are named | any | the budget, or the spawn fails | none |
//! | the same: resources that are unlimited there | `Refill`, `Suspend` | as for other children | the same |
//! | the same | `Fail` | 1/2 of what is left | none |
//!
//! The body of a nursery without a budget of its own shares the pool with the children. It draws a
//! part of what is left at a time, also if its slice is named: otherwise the first checkpoint in
//! the body would take everything from the children.
//!
//! "Default" is `Budget::CHILD` for children and the profile's `ROOT` for root tasks. A part is
//! rounded up, so a task that is spawned begins with one op at least. Root tasks, `Runtime::run`
//! among them, share the runtime's budget by the same rule.
//!
//! # Why a part
//!
//! With the default slice alone the first child of a small pool draws all of it. The second one
//! cannot be spawned although nothing was used. With a sixteenth many siblings begin with similar
//! amounts, and a task that computes until the pool is empty draws about 16 · ln(pool) times. A
//! pool that has sixteen default slices or more gives out whole ones, so the part costs large pools
//! nothing. Under `Fail` a task gets nothing later, so its part is larger.

use super::{Budget, OnExhausted, Resource, UNLIMITED};

/// The amount that a task draws at a time: a part of the pool's rest, within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    /// At least this much, if the pool has it.
    least: Budget,
    /// At most this much, unless `least` is more.
    most: Budget,
    /// The divisor of the pool's rest; 1 for a slice that is named.
    parts: u64,
}

/// Parts of a pool, for a task that can draw again.
const PARTS: u64 = 16;
/// Parts of a pool, for a task that draws once.
const PARTS_ONCE: u64 = 2;

impl Slice {
    /// A slice that the program has named.
    pub(crate) const fn named(budget: Budget) -> Slice {
        Slice { least: Budget::ZERO, most: budget, parts: 1 }
    }

    /// A default, of which a task gets no more than a part of what is left.
    pub(crate) const fn default_of(budget: Budget) -> Slice {
        Slice { least: Budget::ZERO, most: budget, parts: PARTS }
    }

    /// The same under a policy.
    pub(crate) fn under(self, policy: OnExhausted) -> Slice {
        let parts = match policy {
            _ if self.parts == 1 => 1,
            OnExhausted::Fail => PARTS_ONCE,
            _ => PARTS,
        };
        Slice { parts, ..self }
    }

    /// The same with other amounts: `least` in any case, and up to `most`.
    pub(crate) fn between(self, least: Budget, most: Budget) -> Slice {
        Slice { least, most, ..self }
    }

    /// The same for a task that draws once, whatever the program has named.
    pub(crate) fn once(self) -> Slice {
        Slice { parts: PARTS_ONCE, ..self }
    }

    /// The same for a task that draws again, whatever the program has named.
    pub(crate) fn repeatable(self) -> Slice {
        Slice { parts: PARTS, ..self }
    }

    /// The same, but one resource alone, and as much as `needed` of it if there is enough.
    pub(crate) fn only(self, resource: Resource, needed: u64) -> Slice {
        let most = Budget::ZERO.with(resource, self.most.get(resource));
        Slice { least: Budget::ZERO.with(resource, needed), most, ..self }
    }

    /// The same, but no more than `bound`.
    pub(crate) fn min(self, bound: Budget) -> Slice {
        Slice { least: self.least.min(bound), most: self.most.min(bound), ..self }
    }

    /// The most that it comes to.
    pub(crate) fn most(self) -> Budget {
        self.most.max(self.least)
    }

    /// The amount for a pool with so much left. Never more than `most`, also of a resource
    /// that the pool does not count.
    pub(crate) fn of(self, left: Budget) -> Budget {
        let part = left.zip(self.most, |left, most| match left {
            UNLIMITED => most,
            _ => most.min(left.div_ceil(self.parts)),
        });
        part.max(self.least)
    }

    /// The budget that a pool must have for a child that begins with this slice: the cost of the
    /// spawn, and one op to begin with.
    pub(crate) fn with_spawn(self) -> Budget {
        let mut needed = self.least.max(Budget::OP);
        needed.absorb(Budget::SPAWN);
        needed
    }

    /// Whether it names an amount that has to be there.
    pub(crate) fn is_demanding(self) -> bool {
        self.least != Budget::ZERO
    }
}

impl From<Budget> for Slice {
    fn from(budget: Budget) -> Slice {
        Slice::named(budget)
    }
}
