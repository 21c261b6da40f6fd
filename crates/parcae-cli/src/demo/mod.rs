//! `parcae demo`: short demos, a file each. Their sources are examples, meant to be read.
//!
//! A demo describes what it does while it runs, checks its promises, and returns an error if one
//! does not hold. To add one, write its file and put it into [`DEMOS`].

mod budgets;
mod cancel;
mod fan_out;
mod hostile;
mod lab;
mod language;
mod million;
mod pipeline;
mod replay;
mod shares;

use crate::Exit;
use crate::args::DemoArgs;
use crate::stage::{BAD, BOLD, DIM, GOOD, Stage, paint, wrapped};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// A demo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demo {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// In a few words.
    pub(crate) about: &'static str,
    /// A description of the output.
    look: &'static str,
    run: fn(&Stage, Size) -> parcae::Result<()>,
}

/// All demos, in their recommended order.
pub(crate) static DEMOS: &[Demo] = &[
    fan_out::DEMO,
    pipeline::DEMO,
    budgets::DEMO,
    hostile::DEMO,
    language::DEMO,
    shares::DEMO,
    cancel::DEMO,
    replay::DEMO,
    lab::DEMO,
    million::DEMO,
];

/// The size of a demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// Some seconds: for people.
    Full,
    /// The smallest that shows the same.
    Quick,
    /// As `Full`, without a limit on memory.
    Million,
}

impl Size {
    /// One of two numbers.
    fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Size::Full | Size::Million => full,
            Size::Quick => quick,
        }
    }
}

/// Runs the chosen demos one after another. A failing demo does not stop the others.
pub(crate) fn run(args: &DemoArgs, stage: &Stage) -> Result<(), Exit> {
    if args.list {
        list(stage);
        return Ok(());
    }
    let size = match (args.quick, args.million) {
        (true, _) => Size::Quick,
        (false, true) => Size::Million,
        (false, false) => Size::Full,
    };
    let all: Vec<&Demo> = DEMOS.iter().collect();
    let chosen = if args.names.is_empty() { &all } else { &args.names };
    let mut reports = Vec::new();
    let mut failed = 0;
    for (i, demo) in chosen.iter().enumerate() {
        let number = format!("{} of {}", i + 1, chosen.len());
        stage.say(format_args!("{} {}", paint(BOLD, demo.name), paint(DIM, number)));
        stage.say(format_args!("{}\n", paint(DIM, wrapped(demo.look))));
        let start = Instant::now();
        let outcome = (demo.run)(stage, size);
        let seconds = start.elapsed().as_secs_f64();
        match &outcome {
            Ok(()) => stage.say(format_args!("{} {seconds:.1} s\n", paint(GOOD, "✓"))),
            Err(error) => {
                failed += 1;
                stage.say(format_args!("{} {error}\n", paint(BAD, "✗")));
                crate::complain(format_args!("demo {}: {error}", demo.name));
            }
        }
        reports.push(report(demo, &outcome, seconds, stage.take_figures()));
    }
    stage.document(&json!({ "demos": reports }));
    if failed == 0 { Ok(()) } else { Err(Exit::Failed) }
}

/// The report of a demo for `--json`.
fn report(
    demo: &Demo,
    outcome: &parcae::Result<()>,
    seconds: f64,
    figures: Map<String, Value>,
) -> Value {
    json!({
        "name": demo.name,
        "ok": outcome.is_ok(),
        "error": outcome.as_ref().err().map(ToString::to_string),
        "seconds": seconds,
        "figures": figures,
    })
}

fn list(stage: &Stage) {
    for demo in DEMOS {
        stage.say(format_args!("{}  {}", paint(BOLD, format!("{:9}", demo.name)), demo.about));
    }
    let entry = |demo: &Demo| json!({ "name": demo.name, "about": demo.about, "look": demo.look });
    stage.document(&json!({ "demos": DEMOS.iter().map(entry).collect::<Vec<_>>() }));
}

/// An error if a promise does not hold.
fn check(holds: bool, promise: &str) -> parcae::Result<()> {
    if holds { Ok(()) } else { Err(parcae::Error::msg(format!("check failed: {promise}"))) }
}

/// As many workers as the machine has cores.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tours_have_names_of_their_own_and_say_what_they_show() {
        for (i, demo) in DEMOS.iter().enumerate() {
            assert!(DEMOS[..i].iter().all(|other| other.name != demo.name), "{}", demo.name);
            assert!(demo.look.ends_with('.') && !demo.about.is_empty(), "{}", demo.name);
        }
    }

    #[test]
    fn a_broken_promise_is_an_error() {
        assert!(check(true, "").is_ok());
        assert!(check(false, "water is wet").unwrap_err().to_string().contains("water is wet"));
    }
}
