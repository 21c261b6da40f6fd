//! The weighted average of virtual times, and the quantities derived from it: eligibility, lag, and
//! the placement of an entity with a given lag.
//!
//! ```text
//!   V = zero + sum / weight        sum = Σ wᵢ (vᵢ − zero)        weight = Σ wᵢ
//! ```
//!
//! over all counted entities. `zero` is a moving origin: only differences to it are multiplied, and
//! since it follows V they stay small even when virtual time wraps around at 2⁶⁴. Shifting it
//! changes neither V nor any lag.
//!
//! # Why nothing overflows
//!
//! An entity is dispatched when it is eligible, so at `v ≤ V`, and runs for at most 2⁴⁰ units
//! ([`MAX_RUN`](super::MAX_RUN)): it ends below V + 2⁶⁰. An entity behind V is behind by less than
//! the longest run, by the bound on lag. Kept lag is at most 2³⁸ units, which places no entity
//! further away than 2⁵⁹. So `|v − zero| < 2⁶²`, and with at most 2²⁴ entities of weight at most
//! 2²⁰ every product below fits into 128 bits.

use super::scale::{SHIFT, Weight};

/// The most lag, positive or negative, that is kept for a sleeping entity, in real units.
pub(super) const MAX_LAG: i64 = 1 << 38;

/// When an entity is this far from the origin, the origin moves.
const FAR: i64 = 1 << 56;

/// V of the counted entities. See the module's header.
#[derive(Debug, Clone)]
pub(super) struct Average {
    zero: u64,
    sum: i128,
    weight: u64,
}

impl Average {
    pub(super) const fn starting_at(zero: u64) -> Average {
        Average { zero, sum: 0, weight: 0 }
    }

    /// How far `v` is from the origin.
    #[inline]
    fn key(&self, v: u64) -> i128 {
        i128::from(v.wrapping_sub(self.zero).cast_signed())
    }

    /// Adds an entity.
    pub(super) fn add(&mut self, v: u64, weight: Weight) {
        self.sum += self.key(v) * i128::from(weight.get());
        self.weight += u64::from(weight.get());
    }

    /// Removes an entity. When none is left, V keeps its value.
    pub(super) fn remove(&mut self, v: u64, weight: Weight) {
        if self.weight == u64::from(weight.get()) {
            *self = Average::starting_at(v);
            return;
        }
        self.sum -= self.key(v) * i128::from(weight.get());
        self.weight -= u64::from(weight.get());
    }

    /// A counted entity moved forward by `by`, to `v`.
    #[inline]
    pub(super) fn advance(&mut self, v: u64, by: u64, weight: Weight) {
        self.sum += i128::from(by) * i128::from(weight.get());
        if v.wrapping_sub(self.zero).cast_signed() > FAR {
            self.follow();
        }
    }

    /// Whether an entity at `v` is eligible: `v ≤ V`, without dividing.
    ///
    /// Exact, so the entity at the minimum is always eligible: the least `v` is not above the
    /// average.
    #[inline]
    pub(super) fn eligible(&self, v: u64) -> bool {
        self.key(v) * i128::from(self.weight) <= self.sum
    }

    /// V, rounded down.
    pub(super) fn now(&self) -> u64 {
        self.zero.wrapping_add(self.offset() as u64)
    }

    /// V − zero, rounded down. Below 2⁶³ either way.
    fn offset(&self) -> i64 {
        div_floor(self.sum, self.weight).0 as i64
    }

    /// Moves the origin to V. Afterwards `0 ≤ sum < weight`.
    fn follow(&mut self) {
        let by = self.offset();
        self.zero = self.zero.wrapping_add(by as u64);
        self.sum -= i128::from(by) * i128::from(self.weight);
    }

    /// The lag of an entity at `v`: the service that it is owed, in real units · 2²⁰, rounded down,
    /// that is, against it.
    pub(super) fn lag(&self, v: u64, weight: Weight) -> i64 {
        let (whole, rest) =
            div_floor(self.sum - self.key(v) * i128::from(self.weight), self.weight);
        let weight = i128::from(weight.get());
        let lag = weight * whole + div_floor(weight * rest, self.weight).0;
        let most = i128::from(MAX_LAG << SHIFT);
        lag.clamp(-most, most) as i64
    }

    /// The virtual time at which to add an entity so that its lag is then `lag`.
    ///
    /// Counting it moves V towards it, by `w / (W + w)` of its distance. The distance is therefore
    /// `(W + w) / W` times the distance to a fixed V; without that factor lag would shrink with
    /// every sleep. Rounded against the entity, except that lag 0 is eligible.
    pub(super) fn place(&mut self, lag: i64, weight: Weight) -> u64 {
        if self.weight == 0 {
            return self.zero; // alone, it is owed nothing
        }
        self.follow();
        if lag == 0 {
            return self.zero;
        }
        let (own, all) = (i128::from(weight.get()), i128::from(self.weight));
        let distance = self.sum * own - i128::from(lag) * (all + own);
        let offset = -((-distance).div_euclid(own * all)); // rounded up
        self.zero.wrapping_add(offset as u64)
    }
}

/// `a / b` and the rest, rounded down. Mostly both fit into a machine word, where dividing
/// is several times cheaper than in 128 bits.
fn div_floor(a: i128, b: u64) -> (i128, i128) {
    match (i64::try_from(a), i64::try_from(b)) {
        (_, Ok(0)) => (0, 0),
        (Ok(a), Ok(b)) => (i128::from(a.div_euclid(b)), i128::from(a.rem_euclid(b))),
        _ => (a.div_euclid(i128::from(b)), a.rem_euclid(i128::from(b))),
    }
}
