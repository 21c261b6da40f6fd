//! Snapshots for the `metrics` crate.

use super::Snapshot;
use super::families::{self, FamilyKind};
use metrics::{Label, counter, gauge};

/// Published quantiles of a histogram: the recorder's own histograms cannot be filled from counts.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

impl Snapshot {
    /// Publishes all metrics to the recorder of the `metrics` crate, under the names of
    /// [`to_prometheus`](Snapshot::to_prometheus). To be called periodically. Histograms are
    /// published as quantiles: gauges with the label `quantile`. With the feature `metrics`.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// rt.run(|_| Ok(()))?;
    /// rt.stats().publish(); // without effect unless the program has a recorder
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn publish(&self) {
        for family in families::all(self) {
            for (labels, value) in family.samples {
                let labels: Vec<Label> =
                    labels.into_iter().map(|(name, value)| Label::new(name, value)).collect();
                match family.kind {
                    // Seconds are no integers, as the recorder's counters are.
                    FamilyKind::Counter if family.name.ends_with("_seconds_total") => {
                        gauge!(family.name.clone(), labels).set(value);
                    }
                    FamilyKind::Counter => {
                        counter!(family.name.clone(), labels).absolute(value as u64);
                    }
                    FamilyKind::Gauge => gauge!(family.name.clone(), labels).set(value),
                }
            }
        }
        if self.nurseries.is_empty() {
            return; // no times are measured
        }
        for (name, _, histogram) in families::histograms(self) {
            for part in QUANTILES {
                let labels = vec![Label::new("quantile", part.to_string())];
                gauge!(name, labels).set(histogram.quantile(part).as_secs_f64());
            }
        }
    }
}
