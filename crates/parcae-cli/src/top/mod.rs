//! `parcae top`: watching a running program.
//!
//! | file | what it is |
//! |---|---|
//! | `model.rs` | the answers of the program |
//! | `parts.rs` | parts of the program that describe themselves, as lines |
//! | `tenants.rs` | the tenants among the answers, and their table |
//! | `rows.rs` | the rows to show, and their order |
//! | `app.rs` | the state that keys and answers change |
//! | `screen.rs` | drawing |
//! | `feed.rs` | the thread that sends requests |
//!
//! In every interval it requests all tasks without their stacks, and the stack of the selected
//! task. The terminal is restored however `top` ends: by a key, because the program is gone, or by
//! a panic.

mod app;
mod feed;
mod model;
mod parts;
mod rows;
mod screen;
mod tenants;

use crate::args::TopArgs;
use crate::stage::{Format, Stage};
use crate::target::{Client, Trouble};
use app::{App, Todo};
use feed::Feed;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

/// How long a key or an answer may wait.
const PULSE: Duration = Duration::from_millis(40);
/// The time between the two requests of `--once`, for its rates.
const GLANCE: Duration = Duration::from_millis(250);

pub(crate) fn run(args: &TopArgs, format: Format) -> Result<(), Trouble> {
    let mut client = Client::find(args.target.target.as_deref())?;
    if format == Format::Json {
        let tasks = client.ask("tasks")?;
        Stage::new(format).document(&json!({"program": client.hello.json, "tasks": tasks["tasks"],
            "workers": tasks["workers"], "tenants": tasks["tenants"],
            "parts": tasks["parts"]}));
        return Ok(());
    }
    if args.once {
        return once(client, args.interval.min(GLANCE));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Trouble::NoTerminal);
    }
    let (who, app) = (client.who(), App::new(client.hello.clone(), args.interval));
    let failed = |error| Trouble::Io("the terminal".into(), error);
    // This also restores the terminal after a panic.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let outcome = watch(&mut terminal, app, &Feed::start(client));
    ratatui::restore();
    match outcome {
        Ok(outcome) => outcome,
        Err(error) => Err(Trouble::Io(format!("the terminal, watching {who}").into(), error)),
    }
}

/// Shows answers until the user quits or the program is gone.
fn watch(
    terminal: &mut DefaultTerminal,
    mut app: App,
    feed: &Feed,
) -> io::Result<Result<(), Trouble>> {
    let mut due = Instant::now();
    // Pending requests: no others are sent until they are answered.
    let mut open = 0;
    let ask = |open: &mut usize, question: String| {
        *open += 1;
        feed.ask(question);
    };
    loop {
        let now = Instant::now();
        while let Some((request, answer)) = feed.answer() {
            open -= 1;
            if let Err(trouble) = app.answered(&request, answer, now) {
                return Ok(Err(trouble));
            }
        }
        if open == 0 && now >= due {
            due = now + app.interval;
            app.questions().into_iter().for_each(|question| ask(&mut open, question));
        }
        terminal.draw(|frame| screen::draw(frame, &app, now))?;
        if !event::poll(PULSE)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match app.key(key) {
                Todo::Nothing => {}
                Todo::Quit => return Ok(Ok(())),
                Todo::Ask(question) => {
                    ask(&mut open, question);
                    due = now; // show the effect immediately
                }
            }
        }
    }
}

/// One screen as text, of any length.
fn once(mut client: Client, glance: Duration) -> Result<(), Trouble> {
    let mut app = App::new(client.hello.clone(), glance);
    for pause in [Duration::ZERO, glance] {
        thread::sleep(pause);
        let answer = client.ask("tasks");
        app.answered("tasks", answer, Instant::now())?;
    }
    let stage = Stage::new(Format::Text);
    stage.say(screen::head_line(&app, Instant::now()));
    stage.say("");
    screen::workers(&app.picture).iter().for_each(|line| stage.say(line));
    stage.say("");
    let tenants = tenants::lines(&app.picture.tenants, usize::MAX);
    tenants.iter().for_each(|line| stage.say(line));
    if !tenants.is_empty() {
        stage.say("");
    }
    let parts = parts::lines(&app.picture.parts, &app.picture.tasks, usize::MAX);
    parts.iter().for_each(|line| stage.say(line));
    if !parts.is_empty() {
        stage.say("");
    }
    let (rows, _) = app.rows();
    let mut lines = vec![rows::COLUMNS.map(str::to_owned)];
    lines.extend(rows.iter().map(|row| row.cells()));
    let mut widths = [0; rows::COLUMNS.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for line in &lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}  "));
        stage.say(cells.collect::<String>().trim_end());
    }
    Ok(())
}
