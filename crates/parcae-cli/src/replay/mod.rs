//! `parcae replay`, `shrink` and `explain`: the run of a token, from the lab.
//!
//! | file | what it is |
//! |---|---|
//! | `command.rs` | runs the test again, with the environment that makes it record |
//! | `recording.rs` | the run that it has recorded |
//! | `app.rs` | the state that keys change |
//! | `screen.rs` | drawing |
//!
//! The test itself repeats the run: it has the code. `PARCAE_REPLAY` makes it run this token alone,
//! and `PARCAE_RECORD` makes it write every step into a file, which is read here. Stepping back and
//! forth is then a matter of this program. Backtraces at a step need the tasks themselves, so the
//! test runs once more, up to that step.

mod app;
mod command;
mod recording;
mod screen;

use crate::Exit;
use crate::args::{ExplainArgs, ReplayArgs, ShrinkArgs};
use crate::stage::{BOLD, DIM, Format, Stage, paint};
use app::{App, Todo};
use command::{Source, Trouble};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use recording::Recording;
use std::io::{self, IsTerminal};

/// Continuations of each beginning, for `explain`.
const SAMPLES: u64 = 500;

pub(crate) fn replay(args: &ReplayArgs, format: Format) -> Result<(), Exit> {
    let source = Source::new(&args.run, &args.command).map_err(told)?;
    let mut settings = Vec::new();
    if let Some(step) = args.until {
        settings.push(("PARCAE_UNTIL", step.to_string().into()));
    }
    if let Some(file) = &args.html {
        settings.push(("PARCAE_HTML", absolute(file).into_os_string()));
    }
    let (run, json) = source.run(&settings).map_err(told)?;
    let stage = Stage::new(format);
    stage.document(&json);
    let interactive = io::stdout().is_terminal() && io::stdin().is_terminal();
    if format == Format::Json || args.html.is_some() {
        return Ok(());
    }
    if !interactive || args.until.is_some() {
        print(&run, args.until, &stage);
        return Ok(());
    }
    let failed = |error| told(Trouble::Io("the terminal".into(), error));
    // This also restores the terminal after a panic.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let outcome = steps(&mut terminal, App::new(run, args.until), &source);
    ratatui::restore();
    outcome.map_err(failed)
}

pub(crate) fn shrink(args: &ShrinkArgs, format: Format) -> Result<(), Exit> {
    let source = Source::new(&args.token, &args.command).map_err(told)?;
    let (run, json) = source.run(&[("PARCAE_SHRINK", "1".into())]).map_err(told)?;
    let stage = Stage::new(format);
    stage.document(&json);
    heading(&run, &stage);
    if run.signature.is_some() {
        stage.say(run.timeline.trim_end());
        stage.say(format_args!("{} forced switches; the token of the shrunk run:", run.forced));
        stage.say(paint(BOLD, &run.token));
    }
    Ok(())
}

pub(crate) fn explain(args: &ExplainArgs, format: Format) -> Result<(), Exit> {
    let source = Source::new(&args.token, &args.command).map_err(told)?;
    let samples = args.samples.unwrap_or(SAMPLES);
    let settings = [("PARCAE_SHRINK", "1".into()), ("PARCAE_PROBE", samples.to_string().into())];
    let (run, json) = source.run(&settings).map_err(told)?;
    let stage = Stage::new(format);
    stage.document(&json);
    heading(&run, &stage);
    if run.signature.is_none() {
        return Ok(());
    }
    stage.say(run.timeline.trim_end());
    match run.lost_after.and_then(|at| Some((at, run.steps.get(at)?))) {
        Some((at, step)) => stage.say(format_args!(
            "After step {at} it was lost: task {} did {} {}. None of {samples} random \
             continuations passed from there; before that step, one did.",
            run.tasks[step.task].name, step.op, step.site
        )),
        None => stage.say(format_args!(
            "None of {samples} random schedules passed: the failure needs no special schedule."
        )),
    }
    Ok(())
}

/// Reports a problem with the run.
fn told(trouble: Trouble) -> Exit {
    crate::complain(&trouble);
    trouble.exit()
}

/// The test may run in another directory.
fn absolute(file: &std::path::Path) -> std::path::PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

fn heading(run: &Recording, stage: &Stage) {
    let test = run.test.as_deref().map(|test| format!("{test}: ")).unwrap_or_default();
    stage.say(paint(BOLD, format!("{test}{}", run.verdict())));
    for line in run.error.lines() {
        stage.say(format_args!("  {line}"));
    }
    for note in &run.notes {
        stage.say(format_args!("  note: {note}"));
    }
}

/// The run as text, up to a step, with the tasks there.
fn print(run: &Recording, until: Option<usize>, stage: &Stage) {
    heading(run, stage);
    let end = until.unwrap_or(run.steps.len()).min(run.steps.len());
    let widths = screen::widths(run);
    for at in 0..=end {
        stage.say(screen::step_line(run, at, &widths));
    }
    stage.say(paint(DIM, screen::task_heading()));
    screen::task_rows(run, end).iter().for_each(|row| stage.say(row));
    if let Some((step, text)) = &run.dump {
        let empty = "the run has no such step";
        let text = if text.is_empty() { empty } else { text.trim_end() };
        stage.say(format_args!("\nall tasks before step {step}:\n{text}"));
    }
}

/// Shows the run until the user quits.
fn steps(terminal: &mut DefaultTerminal, mut app: App, source: &Source) -> io::Result<()> {
    loop {
        terminal.draw(|frame| screen::draw(frame, &app))?;
        let Event::Key(key) = event::read()? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        match app.key(key) {
            Todo::Nothing => {}
            Todo::Quit => return Ok(()),
            Todo::Dump(step) => {
                app.message = "running the test again …".into();
                terminal.draw(|frame| screen::draw(frame, &app))?;
                app.message.clear();
                let again = source.run(&[("PARCAE_UNTIL", step.to_string().into())]);
                let dump = again.map(|(run, _)| run.dump.map(|dump| dump.1).unwrap_or_default());
                app.dumped(step, dump.map_err(|trouble| trouble.to_string()));
            }
        }
    }
}
