//! The screen: the steps with a column for each task, the tasks at the present step, and a line for
//! keys. [`lines`] makes all of it as text, so that tests can read it.

use super::app::{App, Mode};
use super::recording::Recording;
use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

/// The look of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Title,
    Dim,
    /// The present step, or the selected task.
    Chosen,
    /// The step after which no continuation passed.
    Lost,
}

impl Look {
    fn style(self) -> Style {
        match self {
            Look::Plain => Style::new(),
            Look::Title => Style::new().add_modifier(Modifier::BOLD),
            Look::Dim => Style::new().add_modifier(Modifier::DIM),
            Look::Chosen => Style::new().add_modifier(Modifier::REVERSED),
            Look::Lost => Style::new().fg(Color::Red),
        }
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    let lines = lines(app, usize::from(area.width), usize::from(area.height));
    let lines = lines.into_iter().map(|(text, look)| Line::from(text).style(look.style()));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// The screen as lines, `height` at most.
pub(crate) fn lines(app: &App, width: usize, height: usize) -> Vec<(String, Look)> {
    let mut lines = vec![(head(app), Look::Title)];
    if let (Mode::Dump { scroll }, Some((step, text))) = (&app.mode, &app.dump) {
        lines.push((format!("all tasks before step {step}"), Look::Dim));
        let all: Vec<&str> = text.lines().collect();
        let room = height.saturating_sub(3).max(1);
        let first = (*scroll).min(all.len().saturating_sub(room));
        lines.extend(
            all.iter().skip(first).take(room).map(|line| ((*line).to_owned(), Look::Plain)),
        );
        lines.resize(height.saturating_sub(1).max(lines.len()), (String::new(), Look::Plain));
    } else {
        let tasks = tasks(app);
        let room = height.saturating_sub(tasks.len() + 4).max(3);
        lines.extend(steps(app, room));
        lines.push((String::new(), Look::Plain));
        lines.extend(tasks);
    }
    lines.truncate(height.saturating_sub(1).max(1));
    lines.push((foot(app), Look::Dim));
    for (line, _) in &mut lines {
        if line.chars().count() > width {
            *line = line.chars().take(width).collect();
        }
    }
    lines
}

fn head(app: &App) -> String {
    let test = app.run.test.as_deref().map(|test| format!("{test}: ")).unwrap_or_default();
    format!("{test}{}   step {} of {}", app.run.verdict(), app.at, app.run.steps.len())
}

/// The steps around the present one, under the names of the tasks.
fn steps(app: &App, room: usize) -> Vec<(String, Look)> {
    let run = &app.run;
    let widths = widths(run);
    let mut names = String::from("   step  ");
    for (task, width) in widths.iter().enumerate() {
        if *width > 0 {
            names += &format!("{:width$}", format!("task {}", run.tasks[task].name));
        }
    }
    let mut lines = vec![(names, Look::Dim)];
    // The end of the run is a row, too. The present one is in the middle, except near the ends.
    let rows = run.steps.len() + 1;
    let room = room.saturating_sub(1).max(1);
    let first = app.at.saturating_sub(room / 2).min(rows.saturating_sub(room));
    for at in (first..rows).take(room) {
        let look = match () {
            () if at == app.at => Look::Chosen,
            () if run.lost_after == Some(at) => Look::Lost,
            () => Look::Plain,
        };
        lines.push((step_line(run, at, &widths), look));
    }
    lines
}

/// One step in the column of its task.
pub(super) fn step_line(run: &Recording, at: usize, widths: &[usize]) -> String {
    let Some(step) = run.steps.get(at) else {
        return format!("  {at:>5}  the end: {}", run.verdict());
    };
    let mark = if step.forced { '>' } else { ' ' };
    let lost = if run.lost_after == Some(at) { '!' } else { ' ' };
    let mut line = format!("{mark}{lost}{at:>5}  ");
    for (task, &width) in widths.iter().enumerate() {
        let cell = if task == step.task { step.op.as_str() } else { "" };
        line += &format!("{cell:width$}");
    }
    line + &step.site
}

/// The width of each task's column; 0 for tasks without steps.
pub(super) fn widths(run: &Recording) -> Vec<usize> {
    let width = |task: usize| {
        let own = run.steps.iter().filter(|step| step.task == task);
        let widest = own.map(|step| step.op.chars().count()).max()?;
        Some(widest.max(run.tasks[task].name.chars().count() + 5) + 2)
    };
    (0..run.tasks.len()).map(|task| width(task).unwrap_or(0)).collect()
}

/// The tasks before the present step.
fn tasks(app: &App) -> Vec<(String, Look)> {
    let mut lines = vec![(TASKS.to_owned(), Look::Dim)];
    let rows = task_rows(&app.run, app.at).into_iter().enumerate();
    lines.extend(rows.map(|(task, row)| {
        let look = if task == app.task { Look::Chosen } else { Look::Plain };
        (row, look)
    }));
    lines
}

const TASKS: &str = "  task              state        waits for                          last step";

/// A line for each task before a step.
pub(super) fn task_rows(run: &Recording, step: usize) -> Vec<String> {
    let next = run.steps.get(step).map(|step| step.task);
    let states = run.states(step);
    let rows = states.iter().enumerate().map(|(at, state)| {
        let mark = if next == Some(at) { '*' } else { ' ' };
        let task = &run.tasks[at];
        let last = match state.last {
            Some(last) => format!("{last} {} {}", run.steps[last].op, run.steps[last].site),
            None if task.spawned_at.is_empty() => String::new(),
            None => format!("spawned at {}", task.spawned_at),
        };
        let waits = run.waits_for(state);
        format!("{mark} {:<17} {:<12} {waits:<34} {last}", task.name, state.name)
    });
    rows.collect()
}

/// The heading of the tasks.
pub(super) fn task_heading() -> &'static str {
    TASKS
}

/// A question, a message, or the keys.
fn foot(app: &App) -> String {
    match &app.mode {
        Mode::Jump(text) => format!("go to step: {text}_   (Enter, or Esc)"),
        _ if !app.message.is_empty() => app.message.clone(),
        Mode::Dump { .. } => "↑↓ scroll  Esc back  q quit".into(),
        Mode::Steps => {
            "←→ step  Tab task  t/T its next/previous step  f/F forced switch  ! decisive  g go to  \
             d dump  q quit"
                .into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recording::tests::deadlock;
    use super::*;

    fn shown(app: &App, height: usize) -> (String, Vec<Look>) {
        let (texts, looks): (Vec<_>, Vec<_>) = lines(app, 120, height).into_iter().unzip();
        assert!(texts.len() <= height, "{texts:#?}");
        (texts.join("\n"), looks)
    }

    #[test]
    fn steps_have_columns_and_tasks_their_waits() {
        let app = App::new(deadlock(), None);
        let (text, looks) = shown(&app, 24);
        assert!(text.starts_with("locks: deadlock   step 1 of 4\n"), "{text}");
        assert!(text.contains("   step  task 0.0  task 0.1  \n"), "{text}");
        assert!(text.contains(">!    1            lock #2   src/lib.rs:9\n"), "{text}");
        assert!(text.contains("* 0.1               running"), "{text}");
        assert!(text.contains("  0                 waiting      its children"), "{text}");
        assert_eq!(looks.iter().filter(|look| **look == Look::Chosen).count(), 2);

        let (text, looks) = shown(&App::new(deadlock(), Some(4)), 24);
        assert!(text.contains("the end: deadlock"), "{text}");
        assert!(text.contains("mutex: lock #2 (lock)"), "{text}");
        assert!(looks.contains(&Look::Lost), "{looks:?}");
    }

    #[test]
    fn a_small_terminal_keeps_the_present_step_and_the_keys() {
        for at in 0..=4 {
            for height in [10, 12, 15] {
                let app = App::new(deadlock(), Some(at));
                let (text, looks) = shown(&app, height);
                let chosen = looks.iter().position(|look| *look == Look::Chosen).expect("a step");
                let line = text.lines().nth(chosen).expect("that line");
                assert!(line[2..].trim_start().starts_with(&at.to_string()), "{text}");
                assert!(text.lines().last().is_some_and(|line| line.contains("q quit")), "{text}");
            }
        }
    }

    #[test]
    fn a_dump_replaces_the_steps_and_scrolls() {
        let mut app = App::new(deadlock(), None);
        app.dumped(1, Ok((0..50).map(|line| format!("frame {line}\n")).collect()));
        app.mode = Mode::Dump { scroll: 7 };
        let (text, _) = shown(&app, 12);
        assert!(text.contains("all tasks before step 1\nframe 7\n"), "{text}");
        app.mode = Mode::Dump { scroll: 700 };
        assert!(shown(&app, 12).0.contains("frame 49\n"));
    }
}
