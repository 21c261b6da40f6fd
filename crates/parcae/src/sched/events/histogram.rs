//! Log-linear histograms: counts of durations.
//!
//! There are 16 buckets of equal width between two powers of two, and one bucket per value below
//! 16. So a value is known to a sixteenth of itself at any magnitude, and counting one takes a few
//! instructions and no search.
//!
//! Each worker counts into its own [`HistogramCounts`], in ticks; `view::stats` sums them up and
//! converts ticks to time.

use super::counter::Counter;

/// Buckets between two powers of two.
const SUB: u64 = 16;
/// Power of two from which all values fall into the last bucket: a day of ticks at 3 GHz.
const TOP: u32 = 48;
/// Number of buckets.
pub(crate) const BUCKETS: usize = (TOP as usize - 3) * SUB as usize;

#[inline]
fn bucket(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let power = value.ilog2();
    let place = (u64::from(power) - 3) * SUB + (value >> (power - 4)) % SUB;
    (place as usize).min(BUCKETS - 1)
}

/// The smallest value of a bucket.
pub(crate) fn lowest(bucket: usize) -> u64 {
    let (row, place) = (bucket as u64 / SUB, bucket as u64 % SUB);
    if row == 0 { place } else { (SUB + place) << (row - 1) }
}

/// Counts of one worker, its only writer.
#[derive(Debug)]
pub(crate) struct HistogramCounts {
    counts: Box<[Counter]>,
    sum: Counter,
}

impl Default for HistogramCounts {
    fn default() -> HistogramCounts {
        let counts = std::iter::repeat_with(Counter::default).take(BUCKETS).collect();
        HistogramCounts { counts, sum: Counter::default() }
    }
}

impl HistogramCounts {
    /// Counts a value, in ticks. Called by the owner.
    pub(crate) fn add(&self, value: u64) {
        self.counts[bucket(value)].bump();
        self.sum.add(value);
    }

    /// Adds the counts of all buckets to `counts`, and returns the sum of all values.
    pub(crate) fn add_to(&self, counts: &mut [u64; BUCKETS]) -> u64 {
        for (total, count) in counts.iter_mut().zip(&self.counts) {
            *total += count.get();
        }
        self.sum.get()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for at in 0..BUCKETS - 1 {
            assert_eq!(bucket(lowest(at)), at);
            assert_eq!(bucket(lowest(at + 1) - 1), at);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn a_value_is_known_to_a_sixteenth(value in 0..1_u64 << TOP) {
            let (low, high) = (lowest(bucket(value)), lowest(bucket(value) + 1));
            prop_assert!(low <= value && value < high);
            prop_assert!(high - low == 1 || (high - low) * SUB <= low);
        }
    }
}
