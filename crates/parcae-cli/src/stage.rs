//! Output of subcommands: lines, one line that is redrawn, and values for JSON.
//!
//! | | text, on a terminal | text, elsewhere | JSON |
//! |---|---|---|---|
//! | [`Stage::say`] | a line | a line without colours | nothing |
//! | [`Stage::live`] | replaces the last such line | nothing | nothing |
//! | [`Stage::figure`] | nothing | nothing | a field |
//!
//! Tasks print too, so a stage is shared; its lock is held for one line and never while a task
//! waits.

use anstream::AutoStream;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::io::{self, IsTerminal, Stdout, Write};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// People.
    Text,
    /// Programs.
    Json,
}

/// The output of a subcommand.
pub(crate) struct Stage {
    format: Format,
    terminal: bool,
    state: Mutex<State>,
}

struct State {
    out: AutoStream<Stdout>,
    /// When the live line was drawn. `None` if there is none.
    drawn: Option<Instant>,
    figures: Map<String, Value>,
}

/// The shortest time between two updates of the live line.
const REDRAW: Duration = Duration::from_millis(50);

impl Stage {
    pub(crate) fn new(format: Format) -> Stage {
        let state = State { out: anstream::stdout(), drawn: None, figures: Map::new() };
        Stage { format, terminal: io::stdout().is_terminal(), state: Mutex::new(state) }
    }

    /// A line for people.
    pub(crate) fn say(&self, line: impl Display) {
        if self.format == Format::Text {
            self.write(&mut self.lock(), &format!("{line}\n"));
        }
    }

    /// Redraws the live line, on a terminal, at most once per interval; `text` is called only then.
    pub(crate) fn live<L: Display>(&self, line: impl FnOnce() -> L) {
        if self.format == Format::Json || !self.terminal {
            return;
        }
        let mut state = self.lock();
        if state.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.write(&mut state, &line().to_string());
        state.drawn = Some(Instant::now());
    }

    /// Records a value for the JSON document.
    pub(crate) fn figure(&self, name: &str, value: impl Into<Value>) {
        self.lock().figures.insert(name.to_owned(), value.into());
    }

    /// Takes the values recorded since the last call.
    pub(crate) fn take_figures(&self) -> Map<String, Value> {
        std::mem::take(&mut self.lock().figures)
    }

    /// Prints the JSON document, once, at the end.
    pub(crate) fn document(&self, document: &Value) {
        if self.format == Format::Json {
            self.write(&mut self.lock(), &format!("{document:#}\n"));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, state: &mut State, text: &str) {
        let over = if state.drawn.take().is_some() { "\r\x1b[K" } else { "" };
        let written = write!(state.out, "{over}{text}").and_then(|()| state.out.flush());
        if let Err(error) = written {
            // A reader that closed the pipe (`| head`) needs no message.
            if error.kind() != io::ErrorKind::BrokenPipe {
                crate::complain(format_args!("cannot write: {error}"));
            }
            process::exit(crate::Exit::Failed as i32);
        }
    }
}

/// Text in a style, which is reset at its end.
pub(crate) fn paint(style: anstyle::Style, text: impl Display) -> impl Display {
    format!("{style}{text}{style:#}")
}

/// Names and important values.
pub(crate) const BOLD: anstyle::Style = anstyle::Style::new().bold();
/// Secondary text.
pub(crate) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// Success.
pub(crate) const GOOD: anstyle::Style = anstyle::AnsiColor::Green.on_default();
/// Failure.
pub(crate) const BAD: anstyle::Style = anstyle::AnsiColor::Red.on_default();

/// Wraps text to the width of any terminal.
pub(crate) fn wrapped(text: &str) -> String {
    const WIDTH: usize = 78;
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 {
            let fits = column + 1 + length <= WIDTH;
            lines.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

/// A progress bar of `width` characters.
pub(crate) fn bar(done: u64, total: u64, width: usize) -> String {
    let part = if total == 0 { 1.0 } else { done as f64 / total as f64 };
    let filled = (part.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("{}{}", "█".repeat(filled), "░".repeat(width - filled))
}

/// A whole number in groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Bytes with a unit that leaves one to four digits.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..0x2800 => format!("{count} B"),
        0x2800..0xA0_0000 => format!("{} KiB", count >> 10),
        0xA0_0000..0x2_8000_0000 => format!("{} MiB", count >> 20),
        _ => format!("{} GiB", count >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_full_as_things_are_done() {
        assert_eq!(bar(0, 10, 4), "░░░░");
        assert_eq!(bar(5, 10, 4), "██░░");
        assert_eq!(bar(11, 10, 4), "████");
        assert_eq!(bar(0, 0, 2), "██");
    }

    #[test]
    fn lines_break_between_words_and_lose_none() {
        let text = "Fates spin, measure and cut. ".repeat(9);
        let lines = wrapped(&text);
        assert!(lines.lines().all(|line| line.len() <= 78), "{lines}");
        assert_eq!(lines.lines().count(), 4, "{lines}");
        assert_eq!(lines.replace('\n', " "), text.trim());
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000_000), "1 000 000");
        assert_eq!(bytes(4_268), "4268 B");
        assert_eq!(bytes(256 << 10), "256 KiB");
        assert_eq!(bytes(16 << 20), "16 MiB");
        assert_eq!(bytes(4_500 << 20), "4500 MiB");
        assert_eq!(bytes(24 << 30), "24 GiB");
    }
}
