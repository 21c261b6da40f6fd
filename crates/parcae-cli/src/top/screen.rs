//! Drawing: the head, the workers, the tenants, the rows or one task, and a line for keys and
//! questions.

use super::app::{App, Mode};
use super::model::{Picture, Task};
use super::rows::{COLUMNS, Direction, Layout as RowLayout, Row, rough, short};
use super::{parts, tenants};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{self, Paragraph, Table};
use std::time::Instant;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// The most workers that are shown: tasks need the room.
const WORKERS: usize = 8;
/// The most items that are shown of a part that describes itself.
const ITEMS: usize = 12;
/// The most tenants that are shown.
const TENANTS: usize = 8;

const WIDTHS: [Constraint; 7] = [
    Constraint::Fill(3),
    Constraint::Length(9),
    Constraint::Length(6),
    Constraint::Length(7),
    Constraint::Length(7),
    Constraint::Fill(3),
    Constraint::Fill(2),
];

/// Columns of the workers' table: its heading, the counter, and whether as a rate.
const COUNTERS: [(&str, &str, Shown); 7] = [
    ("executed/s", "executed", Shown::Rate),
    ("spawned/s", "spawned_here", Shown::Rate),
    ("yielded/s", "yielded", Shown::Rate),
    ("parked/s", "parked", Shown::Rate),
    ("stolen/s", "stolen", Shown::Rate),
    ("executed", "executed", Shown::Count),
    ("ended", "ended", Shown::Count),
];

#[derive(Debug, Clone, Copy)]
enum Shown {
    Rate,
    Count,
}

pub(crate) fn draw(frame: &mut Frame<'_>, app: &App, now: Instant) {
    let workers = workers(&app.picture);
    let tenants = tenants::lines(&app.picture.tenants, TENANTS);
    let described = parts::lines(&app.picture.parts, &app.picture.tasks, ITEMS);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(workers.len() as u16),
        Constraint::Length(tenants.len() as u16),
        Constraint::Length(described.len() as u16),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [head, table, shares, trees, title, body, foot] =
        Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Paragraph::new(head_line(app, now)).style(BOLD), head);
    draw_table(frame, table, workers);
    draw_table(frame, shares, tenants);
    draw_table(frame, trees, described);
    frame.render_widget(Paragraph::new(title_line(app)).style(BOLD), title);
    match &app.mode {
        Mode::Task { scroll, .. } => draw_task(frame, body, app.task.as_ref(), *scroll),
        _ => draw_rows(frame, body, app),
    }
    frame.render_widget(Paragraph::new(foot_line(app)), foot);
}

/// Draws lines, of which the first is a heading.
fn draw_table(frame: &mut Frame<'_>, area: Rect, lines: Vec<String>) {
    let mut lines = lines.into_iter().map(Line::from);
    let heading = lines.next().unwrap_or_default().style(DIM);
    let lines: Vec<Line<'_>> = [heading].into_iter().chain(lines).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// The head: the program and its totals.
pub(crate) fn head_line(app: &App, now: Instant) -> String {
    let rate = |counter| app.picture.total_rate(counter).map_or("–".into(), short);
    let mut line = format!(
        "{}  {} workers  {} tasks  executed {}/s  ended {}/s",
        app.hello,
        app.hello.workers,
        app.picture.tasks.len(),
        rate("executed"),
        rate("ended")
    );
    match app.age(now) {
        None => line += "  no answer yet",
        Some(age) if age > 3 * app.interval && age.as_secs() > 1 => {
            line += &format!("  no answer for {}", rough(age));
        }
        Some(_) => {}
    }
    line
}

/// Lines of a table of workers, the heading first.
pub(crate) fn workers(picture: &Picture) -> Vec<String> {
    let line = |first: &str, cells: [String; 7]| {
        let cells = cells.map(|cell| format!("{cell:>11}")).concat();
        format!("{first:<8}{cells}")
    };
    let mut lines = vec![line("worker", COUNTERS.map(|(heading, ..)| heading.to_owned()))];
    for worker in 0..picture.workers.len().min(WORKERS) {
        let cells = COUNTERS.map(|(_, counter, shown)| match shown {
            Shown::Rate => picture.rate(worker, counter).map_or("–".into(), short),
            Shown::Count => short(picture.count(worker, counter) as f64),
        });
        lines.push(line(&worker.to_string(), cells));
    }
    if picture.workers.len() > WORKERS {
        lines.push(format!("and {} more", picture.workers.len() - WORKERS));
    }
    lines
}

/// How rows are sorted and which are shown.
fn title_line(app: &App) -> String {
    if let Mode::Task { .. } = app.mode {
        return "one task".into();
    }
    let order = &app.order;
    let what = match order.layout {
        RowLayout::Tree => "nurseries and tasks",
        RowLayout::Flat => "tasks",
    };
    let way = match order.direction {
        Direction::Forward => "",
        Direction::Backward => ", reversed",
    };
    let mut line = format!("{what} by {}{way}, every {:?}", order.sort.name(), app.interval);
    if !order.filter.is_empty() {
        line += &format!(", with \"{}\"", order.filter);
    }
    line
}

/// A question, the result of the last request, or the keys.
fn foot_line(app: &App) -> String {
    match &app.mode {
        Mode::Filter => format!("filter: {}_", app.order.filter),
        Mode::Cancel { title, .. } => format!("cancel task {title}? y/n"),
        Mode::Recharge { nursery, amounts } => {
            format!("recharge nursery {nursery:#x} with: {amounts}_   (Enter, or Esc)")
        }
        _ if !app.message.is_empty() => app.message.clone(),
        Mode::Task { .. } => "↑↓ scroll  c cancel  r recharge  Esc back  q quit".into(),
        Mode::List => {
            "↑↓ Enter look  t tree  s sort  o order  / filter  c cancel  r recharge  +- interval  q quit".into()
        }
    }
}

fn draw_rows(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let (rows, chosen) = app.rows();
    let room = usize::from(area.height.saturating_sub(1)).max(1); // one is for the heading
    // The selected row is in the middle, except near the ends.
    let first = chosen.saturating_sub(room / 2).min(rows.len().saturating_sub(room));
    let shown = rows.iter().enumerate().skip(first).take(room).map(|(at, row)| {
        let style = if at == chosen { CHOSEN } else { style(row) };
        widgets::Row::new(row.cells()).style(style)
    });
    let table = Table::new(shown, WIDTHS).header(widgets::Row::new(COLUMNS).style(DIM));
    frame.render_widget(table, area);
}

/// Highlights nurseries and exhausted tasks.
fn style(row: &Row<'_>) -> Style {
    match row.what {
        super::rows::What::Nursery(_) => BOLD,
        super::rows::What::Task(task) if task.state == "exhausted" => BOLD,
        super::rows::What::Task(_) => Style::new(),
    }
}

fn draw_task(frame: &mut Frame<'_>, area: Rect, task: Option<&Task>, scroll: usize) {
    let Some(task) = task else {
        return frame.render_widget(Paragraph::new("the task has ended"), area);
    };
    let mut lines = about(task);
    lines.extend(task.frames.iter().skip(scroll).map(|function| format!("  {function}")));
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// The details of a task, without its stack.
fn about(task: &Task) -> Vec<String> {
    let mut lines = vec![format!("task {}: {}", task.title(), task.state)];
    if let Some(wait) = &task.wait {
        lines.push(format!("waiting: {}, for {}", wait.what, rough(wait.time)));
    }
    if let (Some(place), Some(age)) = (&task.spawned_at, task.age) {
        lines.push(format!("spawned at {place}, {} ago", rough(age)));
    }
    for (name, amount) in &task.left {
        lines.push(format!("{name}: {amount} left"));
    }
    for nursery in &task.nurseries {
        lines.push(format!("{}: {}, {} live", nursery.title(), nursery.state, nursery.live));
    }
    let stack = if task.frames.is_empty() { "no backtrace while it runs" } else { "stack:" };
    lines.push(stack.into());
    lines
}
