//! Draws `docs/img/fair-service.svg`: service over time for weights 1 : 2 : 4, in three
//! panels: all hog the processor; the heaviest sleeps now and then; the lightest yields all
//! the time. A fair queue draws straight lines whose slopes are the shares.
//!
//! ```sh
//! cargo run --release -p parcae-core --example fair_service > docs/img/fair-service.svg
//! ```

use parcae_core::fair::{FairQueue, GroupId, Limits, Params, Slot, Weight};
use std::fmt::Write;

/// Milliseconds that are drawn, in units of the queue (microseconds).
const END: u64 = 120_000;
const LIMITS: Limits = Limits { min_slice: 100, slice: 700, max_slice: 5_000, min_charge: 1 };
const WEIGHTS: [u32; 3] = [1, 2, 4];
/// Colours that the colour-blind can tell apart (Okabe and Ito).
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// How an entity behaves: how long it runs when picked, and how long it sleeps after that.
type Behaviour = fn(entity: usize, time: u64) -> (u64, Option<u64>);

fn hogs(_: usize, _: u64) -> (u64, Option<u64>) {
    (700, None)
}

/// The heaviest waits for 30 ms in every 60.
fn sleeper(entity: usize, time: u64) -> (u64, Option<u64>) {
    let awake = time % 60_000 < 30_000;
    (700, (entity == 2 && !awake).then(|| 60_000 - time % 60_000))
}

/// The lightest yields after every 20 µs.
fn yielder(entity: usize, _: u64) -> (u64, Option<u64>) {
    (if entity == 0 { 20 } else { 700 }, None)
}

/// The service of each entity, whenever it changed.
fn simulate(behaviour: Behaviour) -> [Vec<(u64, u64)>; 3] {
    let mut queue = FairQueue::new([Slot::EMPTY; 3], [], LIMITS).expect("the limits hold");
    let ids = WEIGHTS.map(|weight| {
        let weight = Weight::new(weight * 1024).expect("in range");
        let id = queue.add(GroupId::ROOT, Params::weight(weight)).expect("there is a slot");
        let _ = queue.wake(id).expect("it is asleep");
        id
    });
    let mut lines = [(); 3].map(|()| vec![(0, 0)]);
    let mut wake_at = [None; 3];
    let (mut time, mut had) = (0, [0; 3]);
    while time < END {
        for (entity, at) in wake_at.iter_mut().enumerate() {
            if at.is_some_and(|at| at <= time) {
                let _ = queue.wake(ids[entity]).expect("it is asleep");
                *at = None;
            }
        }
        let id = queue.pick().expect("two of them never sleep");
        let entity = ids.iter().position(|&other| other == id).expect("it is one of them");
        let (used, sleep) = behaviour(entity, time);
        let _ = queue.charge(id, used).expect("it runs");
        lines[entity].push((time, had[entity]));
        time += used;
        had[entity] += used;
        lines[entity].push((time, had[entity]));
        if let Some(sleep) = sleep {
            queue.sleep(id).expect("it runs");
            wake_at[entity] = Some(time + sleep);
        }
    }
    for (line, had) in lines.iter_mut().zip(had) {
        line.push((time, had));
    }
    lines
}

fn main() {
    let panels: [(&str, Behaviour); 3] = [
        ("all hog the processor", hogs),
        ("weight 4 sleeps 30 ms of every 60", sleeper),
        ("weight 1 yields every 20 µs", yielder),
    ];
    let mut svg = String::new();
    draw(&mut svg, &panels).expect("strings can be written to");
    print!("{svg}");
}

/// A panel's size, where its axes begin, and how far it is to the next one.
const WIDTH: f64 = 270.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 58.0;
const TOP: f64 = 62.0;
const STEP: f64 = 330.0;
/// The top of the vertical axis, in milliseconds of service.
const MOST: f64 = 80.0;

fn draw(svg: &mut String, panels: &[(&str, Behaviour)]) -> std::fmt::Result {
    let (width, height) = (LEFT + STEP * panels.len() as f64, TOP + HEIGHT + 48.0);
    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="#222">
<title>Service over time for weights 1 : 2 : 4</title>
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
    for (n, &(title, behaviour)) in panels.iter().enumerate() {
        panel(svg, LEFT + STEP * n as f64, title, &simulate(behaviour))?;
    }
    writeln!(svg, "</svg>")
}

fn panel(
    svg: &mut String,
    left: f64,
    title: &str,
    lines: &[Vec<(u64, u64)>; 3],
) -> std::fmt::Result {
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
