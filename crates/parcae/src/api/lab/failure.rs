//! The results of a hunt.

use super::divergence::Divergence;
use super::picture;
use super::publish::Publication;
use super::timeline::Run;
use crate::base::error::{Error, ErrorKind};
use crate::sched::lab::{Strategy, Trouble};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The result of a hunt in which no schedule failed.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Schedules that ran.
    pub schedules: u64,
    /// Those of them that differ in the order of operations.
    pub distinct: u64,
    /// Operations and switches of all schedules.
    pub steps: u64,
    /// Whether all schedules of the test were tried, up to the order of independent operations.
    pub exhausted: bool,
    /// Schedules of each strategy.
    pub strategies: BTreeMap<Strategy, u64>,
    /// Duration of the hunt.
    pub time: Duration,
    /// A schedule that was repeated on a new runtime and went another way, or the run of a token
    /// that did: the test depends on something that the lab does not control.
    pub diverged: Option<Divergence>,
}

impl Report {
    /// Schedules per second.
    pub fn rate(&self) -> f64 {
        self.schedules as f64 / self.time.as_secs_f64().max(1e-9)
    }

    pub(super) fn add(&mut self, other: Report) {
        self.schedules += other.schedules;
        self.distinct += other.distinct;
        self.steps += other.steps;
        self.exhausted |= other.exhausted;
        self.diverged = self.diverged.take().or(other.diverged);
        for (strategy, schedules) in other.strategies {
            *self.strategies.entry(strategy).or_default() += schedules;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { schedules, distinct, steps, .. } = self;
        write!(
            f,
            "{schedules} schedules, {distinct} distinct, {steps} steps, {:.0} per second",
            self.rate()
        )?;
        if self.exhausted {
            f.write_str("; all were tried")?;
        }
        if let Some(diverged) = &self.diverged {
            write!(f, "; {diverged}")?;
        }
        Ok(())
    }
}

/// The way in which a test failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// A panic.
    Panic,
    /// An error of the test.
    Error,
    /// All tasks waited, and no task was left to end a wait.
    Deadlock,
    /// The tasks went on beyond the limit of steps, also with a fair schedule.
    Livelock,
    /// A task was left when the test had returned.
    Leak,
    /// The virtual time passed its bound.
    Late,
    /// Something that should have happened did not: see [`eventually`](crate::lab::eventually).
    NotReached,
    /// Amounts of the runtime's budget have vanished, or came from nowhere.
    Budget,
}

impl FailureKind {
    /// The name, as messages show it.
    pub fn name(self) -> &'static str {
        match self {
            FailureKind::Panic => "panic",
            FailureKind::Error => "error",
            FailureKind::Deadlock => "deadlock",
            FailureKind::Livelock => "livelock",
            FailureKind::Leak => "leak",
            FailureKind::Late => "late",
            FailureKind::NotReached => "not reached",
            FailureKind::Budget => "budget",
        }
    }
}

/// The failure of one schedule.
#[derive(Debug)]
pub(super) struct Symptom {
    pub(super) kind: FailureKind,
    /// Equal for equal bugs: kind and place.
    pub(super) signature: String,
    pub(super) error: Error,
}

impl Symptom {
    pub(super) fn new(kind: FailureKind, place: &str, error: Error) -> Symptom {
        let signature = match place {
            "" => kind.name().to_owned(),
            place => format!("{}: {place}", kind.name()),
        };
        Symptom { kind, signature, error }
    }

    /// Of an error of the test. `panicked`: the place of the first panic of the schedule. `sites`:
    /// those of the trouble.
    pub(super) fn of(
        error: Error,
        panicked: Option<String>,
        trouble: Option<Trouble>,
        sites: &str,
    ) -> Symptom {
        match trouble {
            Some(Trouble::Deadlock) if panicked.is_none() => {
                return Symptom::new(FailureKind::Deadlock, sites, error);
            }
            Some(Trouble::Livelock) => {
                let error = match sites {
                    "" => error,
                    sites => error.context(format!("again and again: {sites}")),
                };
                return Symptom::new(FailureKind::Livelock, sites, error);
            }
            Some(Trouble::Late) => return Symptom::new(FailureKind::Late, sites, error),
            Some(Trouble::Deadlock) | None => {}
        }
        if error.is_panic() {
            return Symptom::new(FailureKind::Panic, &panicked.unwrap_or_default(), error);
        }
        if let ErrorKind::Deadlock(_) = error.kind() {
            return Symptom::new(FailureKind::Deadlock, sites, error);
        }
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().to_owned();
        Symptom::new(FailureKind::Error, &first, error)
    }
}

/// A schedule in which the test failed, reduced to the switches that matter.
#[derive(Debug)]
pub struct Failure {
    found: Box<Found>,
}

/// The contents of a failure.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) symptom: Symptom,
    pub(super) schedule: u64,
    pub(super) strategy: Strategy,
    pub(super) token: String,
    pub(super) seed_token: String,
    pub(super) run: Run,
    pub(super) forced: usize,
    pub(super) notes: Vec<String>,
    pub(super) diverged: Option<Divergence>,
}

impl From<Found> for Failure {
    fn from(found: Found) -> Failure {
        Failure { found: Box::new(found) }
    }
}

impl Failure {
    /// The error of the test; of a panic, an error with its message.
    pub fn error(&self) -> &Error {
        &self.found.symptom.error
    }

    /// The way in which it failed.
    pub fn kind(&self) -> FailureKind {
        self.found.symptom.kind
    }

    /// Kind and place of the failure: equal for equal bugs.
    pub fn signature(&self) -> &str {
        &self.found.symptom.signature
    }

    /// The number of the schedule, from 0.
    pub fn schedule(&self) -> u64 {
        self.found.schedule
    }

    /// The strategy that found it.
    pub fn strategy(&self) -> Strategy {
        self.found.strategy
    }

    /// Repeats the shrunk run: `PARCAE_REPLAY` takes it, and [`Explore::replay`].
    ///
    /// [`Explore::replay`]: crate::lab::Explore::replay
    pub fn token(&self) -> &str {
        &self.found.token
    }

    /// The token of the run that was found, before it was shrunk: short, and valid for this build
    /// of the program.
    pub fn seed_token(&self) -> &str {
        &self.found.seed_token
    }

    /// Choices of the shrunk run that differ from the default policy.
    pub fn forced_switches(&self) -> usize {
        self.found.forced
    }

    /// The first step at which a run that was repeated went another way, if it did.
    pub fn divergence(&self) -> Option<&Divergence> {
        self.found.diverged.as_ref()
    }

    /// The steps of the shrunk run.
    pub fn run(&self) -> &Run {
        &self.found.run
    }

    pub(super) fn add_note(&mut self, note: &str) {
        self.found.notes.push(note.to_owned());
    }

    pub(super) fn run_mut(&mut self) -> &mut Run {
        &mut self.found.run
    }

    /// The shrunk run as a picture: one page of HTML without references to anything else. The
    /// environment variable `PARCAE_HTML=file` writes it for every failure.
    pub fn to_html(&self) -> String {
        picture::page(&Publication::of(self))
    }

    /// The shrunk run with all steps, as one line of JSON, for the program `parcae` and others. The
    /// environment variable `PARCAE_RECORD=file` appends it to a file.
    pub fn to_json(&self) -> String {
        Publication::of(self).to_json()
    }

    /// Remarks about the run: that it differs from the recorded one, for example.
    pub fn notes(&self) -> &[String] {
        &self.found.notes
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strategy = self.found.strategy.name();
        writeln!(
            f,
            "{} (schedule {}, {strategy})",
            self.found.symptom.signature, self.found.schedule
        )?;
        writeln!(f, "  {}", self.found.symptom.error)?;
        for note in &self.found.notes {
            writeln!(f, "  note: {note}")?;
        }
        write!(f, "{}", self.found.run)?;
        let switches = match self.found.forced {
            0 => "no forced switch".to_owned(),
            1 => "1 forced switch".to_owned(),
            forced => format!("{forced} forced switches"),
        };
        writeln!(f, "  {switches}; repeat it with")?;
        write!(f, "  PARCAE_REPLAY={} {}", self.found.token, command())?;
        if let Some(command) = test_command() {
            write!(f, "\n  or step through it: parcae replay {} -- {command}", self.found.token)?;
        }
        Ok(())
    }
}

/// The name of the test that runs on this thread.
pub(super) fn test_name() -> Option<String> {
    std::thread::current().name().filter(|name| *name != "main").map(str::to_owned)
}

/// The command that runs the present test again, and no other one.
fn test_command() -> Option<String> {
    test_name().map(|name| format!("cargo test {name} -- --exact"))
}

fn command() -> String {
    test_command().unwrap_or_else(|| "and the same command".to_owned())
}

impl std::error::Error for Failure {}
