//! A plot of one variant: a bar per peer up to its median, and a dot for every round.

use super::significant;
use crate::case::Peer;
use crate::runner::Figure;
use std::fmt::Write;

/// In SVG units, which a browser scales.
const WIDTH: f64 = 760.0;
const LABEL: f64 = 150.0;
const VALUE: f64 = 150.0;
const ROW: f64 = 24.0;

/// The figures of one variant as an SVG. Not empty.
pub(super) fn svg(figures: &[Figure]) -> String {
    let room = WIDTH - LABEL - VALUE;
    // Where the medians end; rounds far beyond are drawn at the edge.
    let longest = figures.iter().map(Figure::median).fold(0.0, f64::max);
    let x = |value: f64| {
        let part = if longest > 0.0 { value / (longest * 1.1) } else { 0.0 };
        LABEL + room * part.clamp(0.0, 1.0)
    };
    let base = figures.iter().find(|figure| figure.case.side.peer == Peer::Parcae);
    let base = base.map(Figure::median).filter(|&base| base > 0.0);
    let height = ROW * figures.len() as f64;
    let variant = figures[0].case.variant;
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}: {}\">",
        variant.name, variant.unit
    );
    for (row, figure) in figures.iter().enumerate() {
        let peer = figure.case.side.peer;
        let (top, middle) = (ROW * row as f64, ROW * (row as f64 + 0.5));
        let class = if peer == Peer::Parcae { "own" } else { "peer" };
        let median = figure.median();
        let ratio = match base {
            Some(base) if peer != Peer::Parcae => format!(" ×{}", significant(median / base, 3)),
            _ => String::new(),
        };
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{middle:.1}\" class=\"name\">{}</text>\
             <rect x=\"{LABEL}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" class=\"{class}\"/>",
            LABEL - 8.0,
            peer.name(),
            top + 4.0,
            x(median) - LABEL,
            ROW - 8.0,
        );
        for &sample in figure.samples() {
            let _ = write!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"2\"><title>{}</title></circle>",
                x(sample),
                significant(sample, 4)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{middle:.1}\" class=\"value\">{}{ratio}</text>",
            WIDTH - VALUE + 8.0,
            significant(median, 3),
        );
    }
    svg.push_str("</svg>");
    svg
}
