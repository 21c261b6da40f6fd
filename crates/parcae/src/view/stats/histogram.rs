//! Histograms of a snapshot: the counts of all workers together, in time instead of ticks.

use crate::sched::events::Rate;
use crate::sched::events::histogram::{BUCKETS, HistogramCounts, lowest};
use std::time::Duration;

/// A histogram of durations in a [`Snapshot`](super::Snapshot), exact to a sixteenth of each value.
///
/// ```
/// use parcae::prelude::*;
/// use parcae::stats::Measure;
///
/// let rt = Runtime::builder().workers(1).measure(Measure::Times).build()?;
/// rt.run(|cx| (0..100).try_for_each(|_| cx.yield_now()))?;
/// let runs = rt.stats().run_length;
/// assert!(runs.count() >= 1);
/// assert!(runs.quantile(0.5) <= runs.quantile(0.99));
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Lower and upper bound of each bucket that is not empty, in nanoseconds, and its count.
    buckets: Vec<(u64, u64, u64)>,
    sum: u64,
}

impl Histogram {
    /// The counts of all of these together.
    pub(super) fn of<'r>(all: impl Iterator<Item = &'r HistogramCounts>, rate: Rate) -> Histogram {
        let (mut counts, mut sum) = ([0; BUCKETS], 0_u64);
        for recorded in all {
            sum = sum.saturating_add(recorded.add_to(&mut counts));
        }
        let filled = counts.into_iter().enumerate().filter(|&(_, count)| count > 0);
        let bounds = |at| (rate.nanos(lowest(at)), rate.nanos(lowest(at + 1)));
        let buckets = filled.map(|(at, count)| (bounds(at).0, bounds(at).1, count)).collect();
        Histogram { buckets, sum: rate.nanos(sum) }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.2).sum()
    }

    /// Sum of all values.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// The average; zero without values.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.sum.checked_div(self.count()).unwrap_or(0))
    }

    /// The quantile for this part of all values: 0.5 for the median. Zero without values.
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

    /// Number of values that are not longer than this.
    pub fn up_to(&self, length: Duration) -> u64 {
        let most = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.buckets.iter().filter(|bucket| bucket.0.midpoint(bucket.1) <= most).map(|b| b.2).sum()
    }

    /// The buckets that are not empty: lower bound, upper bound, count.
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

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_values(
            mut values in proptest::collection::vec(0..1_u64 << 40, 1..200),
            part in 0.0..1.0_f64,
        ) {
            let (one, two) = (HistogramCounts::default(), HistogramCounts::default());
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
