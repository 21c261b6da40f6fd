//! Output: lines for programs, a table for people, and progress.

pub mod html;
pub mod json;
mod plot;

use crate::WORKLOADS;
use crate::case::{Case, Peer};
use crate::noise::Noise;
use crate::runner::{Figure, Observer};
use crate::targets::{Target, Verdict};
use anstyle::{AnsiColor, Style};
use std::io::{self, Write};

/// One line per figure: workload, peer, variant, median, unit, separated by tabs.
///
/// # Errors
///
/// If `out` cannot be written to.
pub fn tsv(figures: &[Figure], out: &mut dyn Write) -> io::Result<()> {
    for figure in figures {
        let Case { workload, variant, side } = figure.case;
        let value = significant(figure.median(), 5);
        let peer = side.peer.name();
        writeln!(out, "{}\t{peer}\t{}\t{value}\t{}", workload.name, variant.name, variant.unit)?;
    }
    out.flush()
}

/// A line per variant, a column per peer that has any figure, parcae's first.
///
/// # Errors
///
/// If `out` cannot be written to.
pub fn table(figures: &[Figure], out: &mut dyn Write) -> io::Result<()> {
    let peers: Vec<Peer> = Peer::ALL
        .into_iter()
        .filter(|&peer| figures.iter().any(|figure| figure.case.side.peer == peer))
        .collect();
    let mut head = vec!["workload".to_owned(), "variant".to_owned(), "unit".to_owned()];
    head.extend(peers.iter().map(|peer| peer.name().to_owned()));
    head.push("spread".to_owned());

    let mut rows = vec![head];
    rows.extend(figures.chunk_by(same_variant).map(|line| row(line, &peers)));

    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let is_value = (3..3 + peers.len()).contains(&column);
            let padding = " ".repeat(width - cell.chars().count());
            let (before, after) = if is_value { (&*padding, "") } else { ("", &*padding) };
            line.extend([before, cell, after, "  "]);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(out)?;
    writeln!(out, "medians; ×: as a multiple of parcae's; ↓ less is better, ↑ more is better")?;
    writeln!(out, "spread: worst round over best, in the order of the columns")?;
    out.flush()
}

/// Figures of one variant stand side by side: that is the order of the cases.
fn same_variant(a: &Figure, b: &Figure) -> bool {
    same_workload(a, b) && std::ptr::eq(a.case.variant, b.case.variant)
}

fn same_workload(a: &Figure, b: &Figure) -> bool {
    std::ptr::eq(a.case.workload, b.case.workload)
}

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// The targets that something was measured for, a line each, in colours. After a noisy run without
/// verdicts.
///
/// # Errors
///
/// If `out` cannot be written to.
pub fn targets(verdicts: &[Verdict], noise: &Noise, out: &mut dyn Write) -> io::Result<()> {
    if verdicts.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\ntargets (floor: the specification asks for it; goal: what parcae wants to reach)"
    )?;
    for verdict in verdicts {
        let Target { workload, variant, kind, .. } = verdict.target;
        let (style, word) = match (noise.is_quiet(), verdict.holds()) {
            (false, _) => (Style::new(), "–   "),
            (true, true) => (GOOD, "pass"),
            (true, false) => (BAD, "FAIL"),
        };
        let name = format!("{workload} {variant}");
        let (limit, value) = (verdict.limit_text(), verdict.value_text());
        writeln!(out, "{style}{word}{style:#}  {kind:<6}{name:<26}{limit:<24}{value}")?;
    }
    if !noise.is_quiet() {
        writeln!(out, "no verdict: ratios cannot be trusted, because")?;
        noise.reasons().iter().try_for_each(|reason| writeln!(out, "  {reason}"))?;
        return out.flush();
    }
    let failed = verdicts.iter().filter(|verdict| !verdict.holds()).count();
    writeln!(out, "{} of {} targets missed", failed, verdicts.len())?;
    out.flush()
}

/// The cells of one variant's line.
fn row(figures: &[Figure], peers: &[Peer]) -> Vec<String> {
    let Case { workload, variant, .. } = figures[0].case;
    let of = |peer| figures.iter().find(|figure| figure.case.side.peer == peer);
    let base = of(Peer::Parcae).map(Figure::median).filter(|&base| base > 0.0);
    let symbol = variant.unit.split('/').next().unwrap_or_default();

    let mut cells = vec![workload.name.to_owned(), variant.name.to_owned()];
    cells.push(format!("{} {}", variant.unit, variant.better.arrow()));
    cells.extend(peers.iter().map(|&peer| {
        let Some(figure) = of(peer) else {
            return "–".to_owned();
        };
        let value = significant(figure.median(), 3);
        match base {
            Some(base) if peer != Peer::Parcae => {
                format!("{value} {symbol} ×{}", significant(figure.median() / base, 3))
            }
            _ => format!("{value} {symbol}"),
        }
    }));
    let spreads: Vec<String> = peers
        .iter()
        .filter_map(|&peer| of(peer))
        .map(|figure| figure.spread().map_or("–".to_owned(), |spread| format!("{spread:.2}")))
        .collect();
    cells.push(spreads.join(" / "));
    cells
}

/// A number with at least this many significant digits, and no exponent.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    // A guess is enough for numbers beyond the scale of anything measured here.
    const MOST_DECIMALS: i32 = 12;
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let decimals = (digits - before_point).clamp(0, MOST_DECIMALS) as usize;
    format!("{value:.decimals$}")
}

/// The list of workloads: a line per variant, with its peers and a description.
///
/// # Errors
///
/// If `out` cannot be written to.
pub fn list(out: &mut dyn Write) -> io::Result<()> {
    for workload in WORKLOADS {
        for variant in workload.variants {
            let peers: Vec<&str> = variant.sides.iter().map(|side| side.peer.name()).collect();
            let (name, unit) = (variant.name, variant.unit);
            let peers = peers.join(",");
            writeln!(out, "{:<12}{name:<26}{unit:<12}{peers:<42}{}", workload.name, variant.about)?;
        }
    }
    out.flush()
}

/// A progress line on the terminal: the current case and the part that is done.
#[derive(Debug)]
pub struct Progress {
    on: bool,
    done: usize,
    total: usize,
}

impl Progress {
    /// Progress over `total` measurements. Shows nothing unless standard error is a terminal.
    pub fn new(is_terminal: bool, total: usize) -> Progress {
        Progress { on: is_terminal, done: 0, total }
    }

    /// Clears the line, before something else is printed.
    pub fn clear(&mut self) {
        self.draw("");
    }

    fn draw(&mut self, text: &str) {
        if self.on {
            // Errors are ignored: a closed terminal is no reason to stop.
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// A bar, and what is going on.
    fn line(&self, case: &Case, round: u32, rounds: u32) -> String {
        const WIDTH: usize = 24;
        let filled = (self.done * WIDTH).checked_div(self.total).unwrap_or(0).min(WIDTH);
        let bar = "█".repeat(filled) + &"░".repeat(WIDTH - filled);
        let percent = (self.done * 100).checked_div(self.total).unwrap_or(0);
        let round = match round {
            0 => "warm-up".to_owned(),
            _ => format!("round {round} of {rounds}"),
        };
        format!("{bar} {percent:3} %  {case}, {round}")
    }
}

impl Observer for Progress {
    fn measuring(&mut self, case: &Case, round: u32, rounds: u32) {
        let line = self.line(case, round, rounds);
        self.draw(&line);
        self.done += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Better, Rounds, Side, Variant, Workload};

    const fn side(peer: Peer) -> Side {
        Side { peer, run: |_| Ok(0.0) }
    }

    static WORKLOAD: Workload = Workload {
        name: "switch",
        rounds: Rounds { full: 1, quick: 1 },
        variants: &[
            Variant {
                name: "one",
                about: "",
                unit: "ns/switch",
                better: Better::Lower,
                sides: &[side(Peer::Parcae), side(Peer::Corosensei), side(Peer::Generator)],
            },
            Variant {
                name: "rate",
                about: "",
                unit: "M/s",
                better: Better::Higher,
                sides: &[side(Peer::Parcae), side(Peer::Generator)],
            },
        ],
    };

    fn figures() -> Vec<Figure> {
        let samples =
            [vec![1.9, 2.0, 1.8], vec![1.976, 1.976], vec![5.7], vec![0.0, 0.0], vec![12.0]];
        let cases = WORKLOAD.cases(|_| true);
        cases.into_iter().zip(samples).filter_map(|(case, s)| Figure::new(case, s)).collect()
    }

    fn written(write: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_has_a_line_per_variant_and_ratios_to_parcae() {
        let expected = "\
workload  variant  unit         parcae     corosensei   generator  spread
switch    one      ns/switch ↓  1.90 ns  1.98 ns ×1.04  5.70 ns ×3.00  1.11 / 1.00 / 1.00
";
        let text = written(|out| table(&figures(), out));
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (line, expected) in text.lines().zip(expected.lines()) {
            assert_eq!(squeeze(line), squeeze(expected));
        }
        // No parcae figure to divide by, no corosensei at all.
        let rate = text.lines().nth(2).unwrap();
        assert_eq!(squeeze(rate), "switch rate M/s ↑ 0 M – 12.0 M – / 1.00");
    }

    #[test]
    fn the_columns_of_the_table_end_together() {
        let text = written(|out| table(&figures(), out));
        let end =
            |line: &str, cell: &str| line[..line.find(cell).unwrap() + cell.len()].chars().count();
        let lines: Vec<&str> = text.lines().collect();
        let column = end(lines[0], "generator");
        assert_eq!(end(lines[1], "×3.00"), column);
        assert_eq!(end(lines[2], "12.0 M"), column);
    }

    #[test]
    fn a_peer_without_figures_has_no_column() {
        let some: Vec<Figure> =
            figures().into_iter().filter(|f| f.case.side.peer != Peer::Generator).collect();
        assert!(!written(|out| table(&some, out)).contains("generator"));
    }

    #[test]
    fn lines_have_five_fields() {
        let text = written(|out| tsv(&figures(), out));
        assert_eq!(text.lines().next(), Some("switch\tparcae\tone\t1.9000\tns/switch"));
        assert_eq!(text.lines().count(), 5);
        assert!(text.lines().all(|line| line.split('\t').count() == 5), "{text}");
    }

    #[test]
    fn the_list_names_everything() {
        let text = written(|out| list(out));
        let variants: usize = WORKLOADS.iter().map(|workload| workload.variants.len()).sum();
        assert_eq!(text.lines().count(), variants);
        assert!(text.lines().all(|line| line.contains("parcae")), "{text}");
    }

    #[test]
    fn progress_says_what_is_measured_and_how_much_is_done() {
        let case = WORKLOAD.cases(|_| true)[1];
        let mut progress = Progress::new(false, 4);
        assert!(progress.line(&case, 0, 3).ends_with("  0 %  switch one corosensei, warm-up"));
        progress.measuring(&case, 0, 3);
        let line = progress.line(&case, 1, 3);
        assert!(line.starts_with(&("█".repeat(6) + &"░".repeat(18) + "  25 %")), "{line}");
        assert!(line.ends_with("round 1 of 3"), "{line}");
    }

    #[test]
    fn numbers_keep_their_digits() {
        for (value, digits, text) in [
            (1.976, 3, "1.98"),
            (9.999, 3, "10.00"),
            (123.4, 3, "123"),
            (4096.0, 3, "4096"),
            (0.00005, 3, "0.0000500"),
            (0.0, 3, "0"),
            (1.976, 5, "1.9760"),
        ] {
            assert_eq!(significant(value, digits), text);
        }
    }
}
