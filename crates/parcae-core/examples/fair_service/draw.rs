//! Draws service over time: a panel for each load, a line for each weight. Also used by the example
//! `service_on_threads` of the crate `parcae`.

use std::fmt::Write;

/// Microseconds that are drawn.
pub(crate) const END: u64 = 120_000;
/// A line for each.
pub(crate) const WEIGHTS: [u32; 3] = [1, 2, 4];
/// Colours that the colour-blind can tell apart (Okabe and Ito).
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// For each weight: points of time and service, in microseconds.
pub(crate) type Lines = [Vec<(u64, u64)>; 3];

/// A picture with these panels.
pub(crate) fn svg(title: &str, panels: &[(&str, Lines)]) -> String {
    let mut svg = String::new();
    draw(&mut svg, title, panels).expect("strings can be written to");
    svg
}

/// A panel's size, where its axes begin, and how far it is to the next one.
const WIDTH: f64 = 270.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 62.0;
const STEP: f64 = 330.0;
/// The top of the vertical axis, in milliseconds of service.
const MOST: f64 = 80.0;

fn draw(svg: &mut String, title: &str, panels: &[(&str, Lines)]) -> std::fmt::Result {
    let (width, height) = (LEFT + STEP * panels.len() as f64, TOP + HEIGHT + 48.0);
    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#222">
<title>{title}</title>
<rect width="100%" height="100%" fill="#fff"/>"##
    )?;
    // The legend, once for all.
    for (n, (weight, colour)) in WEIGHTS.iter().zip(COLOURS).enumerate() {
        let x = LEFT + 100.0 * n as f64;
        writeln!(
            svg,
            r#"<line x1="{x}" y1="20" x2="{}" y2="20" stroke="{colour}" stroke-width="3"/><text x="{}" y="24">weight {weight}</text>"#,
            x + 24.0,
            x + 30.0
        )?;
    }
    for (n, (title, lines)) in panels.iter().enumerate() {
        panel(svg, LEFT + STEP * n as f64, title, lines)?;
    }
    writeln!(svg, "</svg>")
}

fn panel(svg: &mut String, left: f64, title: &str, lines: &Lines) -> std::fmt::Result {
    let x = |time: f64| left + WIDTH * time / (END as f64 / 1e3);
    let y = |had: f64| TOP + HEIGHT - HEIGHT * had / MOST;
    let (right, bottom) = (left + WIDTH, TOP + HEIGHT);
    writeln!(svg, r#"<text x="{left}" y="{}" font-weight="bold">{title}</text>"#, TOP - 12.0)?;
    for tick in (0..=120).step_by(30) {
        let x = x(f64::from(tick));
        writeln!(
            svg,
            r##"<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#ddd"/><text x="{x}" y="{}" text-anchor="middle">{tick}</text>"##,
            bottom + 16.0
        )?;
    }
    for tick in (0..=80).step_by(20) {
        let y = y(f64::from(tick));
        writeln!(
            svg,
            r##"<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#ddd"/><text x="{}" y="{}" text-anchor="end">{tick}</text>"##,
            left - 6.0,
            y + 4.0
        )?;
    }
    writeln!(
        svg,
        r##"<path d="M{left} {TOP}V{bottom}H{right}" fill="none" stroke="#222"/><text x="{}" y="{}" text-anchor="middle">time, ms</text><text transform="translate({} {}) rotate(-90)" text-anchor="middle">service, ms</text>"##,
        left + WIDTH / 2.0,
        bottom + 36.0,
        left - 36.0,
        TOP + HEIGHT / 2.0
    )?;
    for (line, colour) in lines.iter().zip(COLOURS) {
        let mut points = String::new();
        let mut last = (f64::MIN, f64::MIN);
        for &(time, had) in line {
            let (x, y) = (x(time as f64 / 1e3), y(had as f64 / 1e3));
            // Closer points are not distinguishable.
            if (x - last.0).abs().max((y - last.1).abs()) >= 0.5 {
                write!(points, "{x:.1},{y:.1} ")?;
                last = (x, y);
            }
        }
        let points = points.trim_end();
        writeln!(
            svg,
            r#"<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>"#
        )?;
    }
    Ok(())
}
