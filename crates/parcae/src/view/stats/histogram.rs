//! Log-linear histograms: how often which length was seen.
//!
//! Between two powers of two there are 16 buckets of the same width, below 16 one for each value. So a value is known to a sixteenth
//! of itself, whatever its size, and adding one is a few instructions and no search.
//!
//! A worker counts into its own ([`Recorder`]); a snapshot adds those of all workers up. What is counted are ticks: how
//! long one takes is known when the snapshot is taken.

use crate::sched::worker::stats::Counter;
use crate::view::trace::Rate;
use std::time::Duration;

/// Buckets between two powers of two.
const SUB: u64 = 16;
/// Values from here on are all in the last bucket: a day, for a counter of 3 GHz.
const TOP: u32 = 48;
const BUCKETS: usize = (TOP as usize - 3) * SUB as usize;

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
fn lowest(bucket: usize) -> u64 {
    let (row, place) = (bucket as u64 / SUB, bucket as u64 % SUB);
    if row == 0 { place } else { (SUB + place) << (row - 1) }
}

/// Counts of one worker, which alone writes them.
#[derive(Debug)]
pub(crate) struct Recorder {
    counts: Box<[Counter]>,
    sum: Counter,
}

impl Default for Recorder {
    fn default() -> Recorder {
        let counts = std::iter::repeat_with(Counter::default).take(BUCKETS).collect();
        Recorder { counts, sum: Counter::default() }
    }
}

impl Recorder {
    /// Counts a value, in ticks. The owner's.
    pub(crate) fn add(&self, value: u64) {
        self.counts[bucket(value)].bump();
        self.sum.add(value);
    }
}

/// How often which length was seen, of a [`Snapshot`](super::Snapshot). Lengths are known to a sixteenth of themselves.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::stats::Measure;
///
/// let rt = Runtime::builder().workers(1).measure(Measure::Times).build()?;
/// rt.run(|cx| (0..100).try_for_each(|_| cx.yield_now()))?;
/// let runs = rt.snapshot().run_length;
/// assert!(runs.count() >= 1);
/// assert!(runs.quantile(0.5) <= runs.quantile(0.99));
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The lowest and the next higher length of each bucket that is not empty, in nanoseconds, and its count.
    buckets: Vec<(u64, u64, u64)>,
    sum: u64,
}

impl Histogram {
    /// What these have counted together.
    pub(super) fn of<'r>(all: impl Iterator<Item = &'r Recorder>, rate: Rate) -> Histogram {
        let (mut counts, mut sum) = (vec![0; BUCKETS], 0_u64);
        for recorder in all {
            sum = sum.saturating_add(recorder.sum.get());
            for (total, count) in counts.iter_mut().zip(&recorder.counts) {
                *total += count.get();
            }
        }
        let filled = counts.into_iter().enumerate().filter(|&(_, count)| count > 0);
        let bounds = |at| (rate.nanos(lowest(at)), rate.nanos(lowest(at + 1)));
        let buckets = filled.map(|(at, count)| (bounds(at).0, bounds(at).1, count)).collect();
        Histogram { buckets, sum: rate.nanos(sum) }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.2).sum()
    }

    /// All of them together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// The average; zero if there are none.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum.checked_div(self.count()).unwrap_or(0))
    }

    /// The length that this part of all is not longer than: 0.5 for the median. Zero if there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        let wanted = (part.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for &(low, high, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(low.midpoint(high));
            }
        }
        Duration::ZERO
    }

    /// How many were not longer than this.
    pub fn up_to(&self, length: Duration) -> u64 {
        let most = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.buckets.iter().filter(|bucket| bucket.0.midpoint(bucket.1) <= most).map(|b| b.2).sum()
    }

    /// The buckets that are not empty: from, to, how many.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, Duration, u64)> {
        let nanos = Duration::from_nanos;
        self.buckets.iter().map(move |&(low, high, count)| (nanos(low), nanos(high), count))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NANOS: Rate = Rate::nanoseconds();

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

        #[test]
        fn quantiles_are_those_of_the_values(
            mut values in proptest::collection::vec(0..1_u64 << 40, 1..200),
            part in 0.0..1.0_f64,
        ) {
            let (one, two) = (Recorder::default(), Recorder::default());
            for (at, &value) in values.iter().enumerate() {
                if at % 2 == 0 { one.add(value) } else { two.add(value) }
            }
            let histogram = Histogram::of([&one, &two].into_iter(), NANOS);
            values.sort_unstable();
            let exact = values[((part * values.len() as f64).ceil().max(1.0) as usize) - 1];
            let found = histogram.quantile(part).as_nanos() as u64;
            prop_assert!(found.abs_diff(exact) <= exact / 16 + 1, "{found} for {exact}");
            prop_assert_eq!(histogram.count(), values.len() as u64);
            prop_assert_eq!(histogram.sum().as_nanos() as u64, values.iter().sum::<u64>());
            prop_assert_eq!(histogram.up_to(Duration::MAX), values.len() as u64);
        }
    }

    #[test]
    fn an_empty_one_has_no_lengths() {
        let empty = Histogram::default();
        assert_eq!((empty.quantile(0.5), empty.mean(), empty.count()), Default::default());
    }
}
