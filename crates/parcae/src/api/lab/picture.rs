//! A run as a picture: one page of HTML without references to anything else.
//!
//! Each task has a column, each step a row. A line down the column shows the state of the task:
//! solid while it runs, thin while it is ready, dashed while it waits. Arrows lead from a task to
//! those that it spawns and wakes, and to the task that the lab made go on. Texts appear where the
//! pointer rests.

use super::publish::Publication;
use super::states::RunState;
use super::timeline::Run;
use crate::sched::lab::TaskChange;
use std::fmt::{self, Write};

/// The most steps: of a longer run, the last ones are drawn.
const ROWS: usize = 500;
/// Sizes, in pixels.
const LEFT: usize = 60;
const COLUMN: usize = 190;
const TOP: usize = 56;
const ROW: usize = 24;

const STYLE: &str = "\
body{font:14px/1.4 system-ui,sans-serif;margin:1.5rem;color:#1c1c1c;background:#fff}\
pre{background:#f5f5f2;padding:.7rem;overflow:auto}\
svg{font:12px ui-monospace,monospace}\
.head{font-weight:bold}.number{fill:#888;text-anchor:end}.minor{opacity:.45}\
.running{stroke:#2b6cb0;stroke-width:4}.ready{stroke:#b8b8b8;stroke-width:2}\
.waiting{stroke:#c05621;stroke-width:2;stroke-dasharray:3 4}\
.step{fill:#2b6cb0}.forced{fill:#d69e2e}.lost{fill:#c53030}\
.wake{stroke:#38a169;fill:none}.spawn{stroke:#718096;fill:none}\
.switch{stroke:#d69e2e;fill:none;stroke-dasharray:5 3}\
.band{fill:#c53030;opacity:.08}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#181818}pre{background:#242424}\
svg text{fill:#e6e6e6}}";

/// The page of a run.
pub(super) fn page(publication: &Publication<'_>) -> String {
    let mut out = String::new();
    // Into a String: cannot fail.
    let _ = write_page(&mut out, publication);
    out
}

fn write_page(out: &mut String, publication: &Publication<'_>) -> fmt::Result {
    let title = publication.failure.map_or("a run that passes", |failure| failure.signature());
    let title = Escaped(title);
    write!(out, "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    write!(out, "<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>")?;
    if let Some(failure) = publication.failure {
        write!(out, "<pre>{}</pre>", Escaped(&failure.error().to_string()))?;
    }
    for note in publication.notes {
        write!(out, "<p>Note: {}</p>", Escaped(note))?;
    }
    write_picture(out, publication.run)?;
    write!(out, "<p>Solid: runs. Thin: ready. Dashed: waits. Green arrows: wakes. Grey arrows: ")?;
    write!(out, "spawns. Yellow: the lab made this task go on. ")?;
    if let Some(step) = publication.run.lost_after {
        write!(out, "Red: after step {step} no continuation passed.")?;
    }
    let token = Escaped(publication.token);
    write!(out, "</p><p>Repeat it with <code>PARCAE_REPLAY={token}</code></p></body></html>")
}

fn write_picture(out: &mut String, run: &Run) -> fmt::Result {
    let first = run.steps.len().saturating_sub(ROWS);
    if first > 0 {
        write!(out, "<p>The first {first} steps are left out.</p>")?;
    }
    let rows = run.steps.len() - first;
    let x = |task: u32| LEFT + COLUMN * task as usize + 12;
    // The row of a step; the end of the run has one, too.
    let y = |step: usize| TOP + ROW * step.saturating_sub(first);
    let (width, height) = (LEFT + COLUMN * run.tasks.len().max(1) + 20, TOP + ROW * (rows + 2));
    write!(out, "<svg width=\"{width}\" height=\"{height}\" role=\"img\">")?;
    write!(out, "<defs>")?;
    for (name, colour) in [("wake", "#38a169"), ("spawn", "#718096"), ("switch", "#d69e2e")] {
        write!(out, "<marker id=\"{name}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" ")?;
        write!(out, "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">")?;
        write!(out, "<path d=\"M0 0L8 4L0 8z\" fill=\"{colour}\"/></marker>")?;
    }
    write!(out, "</defs>")?;
    if let Some(lost) = run.lost_after.filter(|&lost| lost >= first) {
        let (top, height) = (y(lost) + ROW / 2, ROW * (run.steps.len() - lost));
        write!(out, "<rect class=\"band\" x=\"0\" y=\"{top}\" ")?;
        write!(out, "width=\"{width}\" height=\"{height}\"/>")?;
    }
    for task in 0..run.tasks.len() as u32 {
        let site = run.tasks[task as usize].spawned_at;
        let site = site.map_or(String::new(), |site| format!("spawned at {site}"));
        let name = run.name(task);
        write!(out, "<text class=\"head\" x=\"{}\" y=\"20\">task {}", x(task) - 8, Escaped(&name))?;
        write!(out, "<title>{}</title></text>", Escaped(&site))?;
    }
    write_states(out, run, first, &x, &y)?;
    write_arrows(out, run, first, &x, &y)?;
    write_steps(out, run, first, &x, &y)?;
    write!(out, "</svg>")
}

/// A line for each state of each task.
fn write_states(
    out: &mut String,
    run: &Run,
    first: usize,
    x: &dyn Fn(u32) -> usize,
    y: &dyn Fn(usize) -> usize,
) -> fmt::Result {
    let mut line = |task: usize, state: &RunState, since: usize, end: usize| {
        let (class, text) = match state {
            RunState::Unborn | RunState::Ended => return Ok(()),
            RunState::Waiting { reason } => ("waiting", format!("waits: {reason}")),
            other => (other.name(), other.name().to_owned()),
        };
        let (at, start) = (x(task as u32), y(since));
        write!(out, "<line class=\"{class}\" x1=\"{at}\" x2=\"{at}\" ")?;
        let (name, text) = (run.name(task as u32), Escaped(&text));
        write!(out, "y1=\"{start}\" y2=\"{end}\"><title>task {}: ", Escaped(&name))?;
        write!(out, "{text} since step {since}</title></line>")
    };
    let mut states = vec![(RunState::Unborn, first); run.tasks.len()];
    for step in first..=run.steps.len() {
        let mut now = run.states_before(step);
        // The task of the step runs, although it is told only then.
        if let Some(doing) = run.steps.get(step) {
            now[doing.task as usize].state = RunState::Running;
        }
        for (task, status) in now.into_iter().enumerate() {
            if status.state != states[task].0 {
                let (state, since) = std::mem::replace(&mut states[task], (status.state, step));
                line(task, &state, since, y(step))?;
            }
        }
    }
    for (task, (state, since)) in states.iter().enumerate() {
        line(task, state, *since, y(run.steps.len()) + ROW)?;
    }
    Ok(())
}

fn write_arrows(
    out: &mut String,
    run: &Run,
    first: usize,
    x: &dyn Fn(u32) -> usize,
    y: &dyn Fn(usize) -> usize,
) -> fmt::Result {
    let mut arrow = |class: &str, from: (u32, usize), to: (u32, usize), text: &str| {
        let (x1, x2) = (x(from.0), x(to.0));
        let x2 = if x2 > x1 { x2 - 7 } else { x2 + 7 };
        write!(out, "<path class=\"{class}\" marker-end=\"url(#{class})\" ")?;
        write!(out, "d=\"M{x1} {}L{x2} {}\">", y(from.1), y(to.1))?;
        write!(out, "<title>{}</title></path>", Escaped(text))
    };
    for event in run.events.iter().filter(|event| event.after > first) {
        let (class, verb, by) = match event.change {
            TaskChange::Spawned { by } => ("spawn", "spawns", by),
            TaskChange::Woken { by } => ("wake", "wakes", by),
            _ => continue,
        };
        let Some(by) = by.filter(|&by| by != event.task) else { continue };
        let text = format!("task {} {verb} task {}", run.name(by), run.name(event.task));
        arrow(class, (by, event.after - 1), (event.task, event.after), &text)?;
    }
    for (at, step) in run.steps.iter().enumerate().skip(first + 1) {
        let before = run.steps[at - 1].task;
        if step.forced && before != step.task {
            let text = format!("the lab made task {} go on", run.name(step.task));
            arrow("switch", (before, at - 1), (step.task, at), &text)?;
        }
    }
    Ok(())
}

fn write_steps(
    out: &mut String,
    run: &Run,
    first: usize,
    x: &dyn Fn(u32) -> usize,
    y: &dyn Fn(usize) -> usize,
) -> fmt::Result {
    let shown = run.shown();
    for (at, step) in run.steps.iter().enumerate().skip(first) {
        let kind = match () {
            () if run.lost_after == Some(at) => "lost",
            () if step.forced => "forced",
            () => "step",
        };
        let minor = if shown.contains(&at) { "" } else { " class=\"minor\"" };
        let (x, y) = (x(step.task), y(at));
        let object = match step.object {
            0 => String::new(),
            object => format!(" ({})", run.kind(object)),
        };
        let operation = run.operation(at);
        let place = run.place(at).unwrap_or_default();
        let name = run.name(step.task);
        let text = format!("step {at}, task {name}: {operation}{object} {place}");
        write!(out, "<g{minor}><title>{}</title>", Escaped(text.trim_end()))?;
        write!(out, "<text class=\"number\" x=\"{}\" y=\"{}\">{at}</text>", LEFT - 14, y + 4)?;
        write!(out, "<circle class=\"{kind}\" cx=\"{x}\" cy=\"{y}\" r=\"5\"/>")?;
        let operation = Escaped(&operation);
        write!(out, "<text x=\"{}\" y=\"{}\">{operation}</text></g>", x + 10, y + 4)?;
    }
    Ok(())
}

/// Text in HTML.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
