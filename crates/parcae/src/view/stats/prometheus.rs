//! The text format of Prometheus.

use super::families::{self, FamilyKind};
use super::{Histogram, Snapshot};
use std::fmt::Write;

impl Snapshot {
    /// The metrics in Prometheus's text format, version 0.0.4, for an endpoint for scraping.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// rt.run(|_| Ok(()))?;
    /// let text = rt.stats().to_prometheus();
    /// assert!(text.contains("# TYPE parcae_worker_ended_total counter\n"));
    /// assert!(text.contains("parcae_worker_ended_total{worker=\"0\"}"));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn to_prometheus(&self) -> String {
        let mut out = String::new();
        for family in families::all(self) {
            let kind = if family.kind == FamilyKind::Counter { "counter" } else { "gauge" };
            head(&mut out, &family.name, family.help, kind);
            for (labels, value) in &family.samples {
                out.push_str(&family.name);
                write_labels(&mut out, labels);
                let _ = writeln!(out, " {value}"); // into a String: cannot fail
            }
        }
        if !self.nurseries.is_empty() {
            for (name, help, histogram) in families::histograms(self) {
                head(&mut out, name, help, "histogram");
                write_histogram(&mut out, name, histogram);
            }
        }
        out
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}"); // as above
}

fn write_labels(out: &mut String, labels: &[(&str, String)]) {
    for (at, (name, value)) in labels.iter().enumerate() {
        let before = if at == 0 { '{' } else { ',' };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(out, "{before}{name}=\"{value}\""); // as above
    }
    if !labels.is_empty() {
        out.push('}');
    }
}

fn write_histogram(out: &mut String, name: &str, histogram: &Histogram) {
    for bound in families::bounds() {
        let (le, count) = (bound.as_secs_f64(), histogram.up_to(bound));
        let _ = writeln!(out, "{name}_bucket{{le=\"{le}\"}} {count}"); // as above
    }
    let (count, sum) = (histogram.count(), histogram.sum().as_secs_f64());
    let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "{name}_sum {sum}\n{name}_count {count}");
}
