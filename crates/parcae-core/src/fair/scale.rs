//! Weights and slices, and how real time becomes virtual time.
//!
//! Virtual time is `real · 2²⁰ / weight`. The shift gives the heaviest weight one unit of virtual
//! time per unit of real time, and the lightest 2²⁰, so no entity's time is coarser than the clock.
//! Where charges are small and weights are not powers of two, rounding once per charge would still
//! add up; [`Weight::stretch`] carries the remainder instead.

/// Virtual units per real unit at weight 1, as a power of two.
pub(crate) const SHIFT: u32 = 20;

/// The longest request: in nanoseconds about four seconds. Keeps virtual time in 64 bits.
pub(super) const MAX_SLICE: u64 = u32::MAX as u64;

/// A share of the processor, relative to the other weights in the same group.
///
/// ```
/// use parcae_core::fair::Weight;
///
/// let double = Weight::new(2048).expect("from 1 to 2²⁰");
/// assert!(double > Weight::NORMAL);
/// assert_eq!(Weight::new(0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// The least.
    pub const MIN: Weight = Weight(1);
    /// The default.
    pub const NORMAL: Weight = Weight(1024);
    /// The greatest.
    pub const MAX: Weight = Weight(1 << SHIFT);

    /// From 1 to 2²⁰; nothing else is a weight.
    pub const fn new(weight: u32) -> Option<Weight> {
        if weight >= Weight::MIN.0 && weight <= Weight::MAX.0 { Some(Weight(weight)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Converts real time to virtual time, given the last remainder; returns the new remainder as
    /// well. `real` is below 2⁴³, or the result would not fit.
    #[inline]
    pub(crate) const fn stretch(self, real: u64, remainder: u32) -> (u64, u32) {
        let scaled = (real << SHIFT) + remainder as u64;
        (scaled / self.0 as u64, (scaled % self.0 as u64) as u32)
    }

    /// How far in virtual time a request of this length reaches; at least 1.
    #[inline]
    pub(super) const fn reach(self, slice: u64) -> u64 {
        (slice << SHIFT).div_ceil(self.0 as u64)
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::NORMAL
    }
}

/// How soon an entity wants its turn. It buys a short wait with short turns: the share is
/// the same for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Latency {
    /// The shortest slices that the [`Limits`] allow.
    Sensitive,
    /// [`Limits::slice`].
    #[default]
    Normal,
    /// The longest slices that the [`Limits`] allow: fewer switches.
    Batch,
    /// Slices of this length, if the [`Limits`] allow it.
    Slice(u64),
}

/// The parameters of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Params {
    /// Its share.
    pub weight: Weight,
    /// Its slices.
    pub latency: Latency,
}

impl Params {
    /// A share, with slices of normal length.
    pub const fn weight(weight: Weight) -> Params {
        Params { weight, latency: Latency::Normal }
    }
}

/// The limits of a queue, in the unit of its time.
///
/// The default is for nanoseconds: slices of 0.7 ms, from 0.1 ms to 100 ms, and at least a
/// microsecond per dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The shortest slice; at least 1.
    pub min_slice: u64,
    /// The default slice.
    pub slice: u64,
    /// The longest slice; below 2³². It also is the longest credit that outlasts a sleep.
    pub max_slice: u64,
    /// The least charge of a turn, so that no turn is free; from 1 to `min_slice`. About the cost
    /// of a switch is right.
    pub min_charge: u64,
}

impl Limits {
    /// For time in nanoseconds.
    pub const NANOS: Limits =
        Limits { min_slice: 100_000, slice: 700_000, max_slice: 100_000_000, min_charge: 1_000 };

    /// For time in budget operations.
    pub const OPS: Limits =
        Limits { min_slice: 256, slice: 4_096, max_slice: 65_536, min_charge: 16 };

    pub(super) const fn hold(&self) -> bool {
        1 <= self.min_charge
            && self.min_charge <= self.min_slice
            && self.min_slice <= self.slice
            && self.slice <= self.max_slice
            && self.max_slice <= MAX_SLICE
    }

    /// The slice that is meant, unless it is outside.
    pub(crate) const fn slice_for(&self, latency: Latency) -> Option<u64> {
        match latency {
            Latency::Sensitive => Some(self.min_slice),
            Latency::Normal => Some(self.slice),
            Latency::Batch => Some(self.max_slice),
            Latency::Slice(slice) if self.min_slice <= slice && slice <= self.max_slice => {
                Some(slice)
            }
            Latency::Slice(_) => None,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::NANOS
    }
}
