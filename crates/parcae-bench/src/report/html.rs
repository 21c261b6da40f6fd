//! A run as one HTML page: no scripts, no external resources.

use super::{plot, same_variant, same_workload};
use crate::Run;
use crate::noise::Noise;
use crate::targets::{Kind, Verdict};
use std::io::{self, Write};

/// The page.
///
/// # Errors
///
/// If `out` cannot be written to.
pub fn page(run: &Run, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width\">")?;
    writeln!(out, "<title>parcae and its peers</title>\n<style>{STYLE}</style>")?;
    writeln!(out, "<h1>parcae and its peers</h1>\n<table>")?;
    for (name, value) in run.conditions.lines() {
        writeln!(out, "<tr><th>{name}<td>{}", escaped(&value))?;
    }
    writeln!(out, "<tr><th>noise<td>{}", escaped(&run.noise.to_string()))?;
    writeln!(out, "<tr><th>rounds<td>{}\n</table>", escaped(&run.rounds))?;
    writeln!(out, "<p>{HOW_TO_READ}</p>")?;
    targets(&run.verdicts, &run.noise, out)?;
    if !run.failures.is_empty() {
        writeln!(out, "<h2>not measured</h2>\n<ul>")?;
        for (case, failure) in &run.failures {
            let text = format!("{case}: {failure}");
            writeln!(out, "<li>{}", escaped(&text))?;
        }
        writeln!(out, "</ul>")?;
    }
    for workload in run.figures.chunk_by(same_workload) {
        writeln!(out, "<h2 id=\"{0}\">{0}</h2>", workload[0].case.workload.name)?;
        for figures in workload.chunk_by(same_variant) {
            let variant = figures[0].case.variant;
            let (name, unit, arrow) = (variant.name, variant.unit, variant.better.arrow());
            writeln!(out, "<h3>{name} <small>{unit} {arrow}</small></h3>")?;
            writeln!(out, "<p>{}</p>\n{}", escaped(variant.about), plot::svg(figures))?;
        }
    }
    writeln!(out, "</html>")?;
    out.flush()
}

const HOW_TO_READ: &str = "Bars are medians, dots are rounds; rounds of all peers were interleaved. × is a \
    multiple of parcae’s median; ↓ less is better, ↑ more is better. Ratios count: absolute figures are those of \
    this machine on that day.";

fn targets(verdicts: &[Verdict], noise: &Noise, out: &mut dyn Write) -> io::Result<()> {
    if verdicts.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>targets</h2>\n<table>")?;
    writeln!(out, "<tr><th>what<th>asked by<th>target<th>measured<th>")?;
    for verdict in verdicts {
        let target = verdict.target;
        let asked_by = match target.kind {
            Kind::Floor => "the specification",
            Kind::Goal => "this project",
        };
        let (class, word) = match (noise.is_quiet(), verdict.holds()) {
            (false, _) => ("open", "not judged: too much noise"),
            (true, true) => ("pass", "✓ pass"),
            (true, false) => ("fail", "✗ fail"),
        };
        writeln!(
            out,
            "<tr><td><a href=\"#{0}\">{0}</a> {1}<td>{asked_by}<td>{2}<td>{3}<td class={class}>{word}",
            target.workload,
            target.variant,
            escaped(&verdict.limit_text()),
            escaped(&verdict.value_text()),
        )?;
    }
    writeln!(out, "</table>")
}

/// Escaped text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = "
:root { color-scheme: light dark; --own: #7a3ff2; --peer: #9aa3b2; --pass: #18794e; --fail: #cd2b31 }
@media (prefers-color-scheme: dark) { :root { --own: #a78bfa; --peer: #5b6472; --pass: #4cc38a; --fail: #ff6369 } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse } th { text-align: left; padding-right: 1em; vertical-align: top }
td { padding: .1em 1em .1em 0 } h3 { margin: 1.2em 0 0 } h3 + p { margin: 0 0 .3em; opacity: .75 }
small { font-weight: normal; opacity: .75 } svg { width: 100%; max-width: 760px }
svg text { font-size: 13px; fill: currentColor; dominant-baseline: central } svg .name { text-anchor: end }
.own { fill: var(--own) } .peer { fill: var(--peer) } circle { fill: currentColor; opacity: .55 }
.pass { color: var(--pass) } .fail { color: var(--fail); font-weight: bold }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Better, Peer, Rounds, Side, Variant, Workload};
    use crate::machine::Conditions;
    use crate::runner::Figure;

    static WORKLOAD: Workload = Workload {
        name: "switch",
        rounds: Rounds { full: 1, quick: 1 },
        variants: &[Variant {
            name: "one",
            about: "fewer < more",
            unit: "ns/switch",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, |_| Ok(0.0)),
                Side::new(Peer::Corosensei, |_| Ok(0.0)),
            ],
        }],
    };

    fn run() -> Run {
        let cases = WORKLOAD.cases(|_| true);
        let samples = [vec![1.0, 2.0, 4.0], vec![3.0]];
        let figures: Vec<Figure> =
            cases.iter().zip(samples).filter_map(|(&case, s)| Figure::new(case, s)).collect();
        Run {
            noise: Noise { spin: 1.0, steal: None, others: None },
            conditions: Conditions::read(),
            rounds: "switch 3".to_owned(),
            verdicts: crate::targets::verdicts(&figures),
            figures,
            failures: vec![(cases[1], "no <luck>".into())],
        }
    }

    #[test]
    fn the_page_has_everything_and_fetches_nothing() {
        let mut bytes = Vec::new();
        page(&run(), &mut bytes).unwrap();
        let page = String::from_utf8(bytes).unwrap();
        assert_eq!(page.matches("<svg").count(), 1);
        assert_eq!(page.matches("<circle").count(), 4, "a dot for each round");
        assert_eq!(page.matches("<rect").count(), 2, "a bar for each peer");
        for text in ["×1.50", "✓ pass", "fewer &lt; more", "no &lt;luck&gt;", "kernel", "switch 3"]
        {
            assert!(page.contains(text), "no {text:?} in {page}");
        }
        for foreign in ["http", "<script", "<link", "<img", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn bars_are_as_long_as_their_figures_and_stay_inside() {
        let run = run();
        let svg = plot::svg(&run.figures);
        let numbers = |name: &str| -> Vec<f64> {
            let attribute = format!(" {name}=\"");
            let values = svg.split(&attribute).skip(1);
            values.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
        };
        let widths = &numbers("width");
        assert!((widths[1] / widths[0] - 1.5).abs() < 0.01, "{svg}");
        assert!(numbers("cx").iter().all(|&x| (150.0..=610.0).contains(&x)), "{svg}");
    }

    #[test]
    fn the_document_has_the_same_figures() {
        let document = super::super::json::document(&run());
        assert_eq!(document["figures"][0]["samples"].as_array().unwrap().len(), 3);
        assert_eq!(document["figures"][1]["ratio_to_parcae"], 1.5);
        assert_eq!(document["targets"].as_array().unwrap().len(), 2);
        assert_eq!(document["targets"][0]["pass"], true);
        assert_eq!(document["failures"][0]["failure"], "no <luck>");
        assert!(document["conditions"]["kernel"].is_string());
    }
}
