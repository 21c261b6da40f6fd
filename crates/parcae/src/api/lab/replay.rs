//! Repeating a run from its token: as it was, shrunk, with a dump at a step, probed.
//!
//! A test that runs under `PARCAE_REPLAY` runs that token alone. The program `parcae` sets it
//! together with the variables of [`ReplayOpts`], and reads the recording that the test writes.

use super::divergence::Divergence;
use super::explore::Explore;
use super::failure::{Failure, Found, Report};
use super::probe::Probe;
use super::publish::{DumpAtStep, Publication, publish, tell};
use super::stand::{Oracles, Ran, ScheduleOpts, Stand};
use super::timeline::Run;
use super::token::{Token, TokenError, TokenForm};
use crate::api::runtime::{Builder, Runtime};
use crate::base::error::Result;
use crate::sched::lab::{Chooser, Fork, Script, chooser};
use crate::scope::profile::Profile;
use std::time::{Duration, Instant};

/// A repeated run.
struct Replayed {
    outcome: std::result::Result<Report, Failure>,
    /// The steps, if it passed; the failure has its own.
    passed: Run,
    notes: Vec<String>,
}

/// The settings of a replay, from the environment.
#[derive(Debug, Default)]
struct ReplayOpts {
    /// `PARCAE_SHRINK`: shrink it.
    shrinks: bool,
    /// `PARCAE_UNTIL`: dump all tasks before this step.
    dump_before: Option<usize>,
    /// `PARCAE_PROBE`: continuations of each beginning.
    samples: Option<u64>,
}

impl ReplayOpts {
    fn from_environment() -> ReplayOpts {
        fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
            let text = std::env::var(name).ok()?;
            let parsed = text.parse().ok();
            Some(parsed.unwrap_or_else(|| panic!("{name}: `{text}` is no number")))
        }
        ReplayOpts {
            shrinks: std::env::var_os("PARCAE_SHRINK").is_some(),
            dump_before: number("PARCAE_UNTIL"),
            samples: number("PARCAE_PROBE"),
        }
    }
}

/// A test under `PARCAE_REPLAY`.
///
/// # Panics
///
/// If the text is no token, or another variable has a value that it cannot have.
pub(super) fn from_environment<P: Profile + Clone>(
    hunt: &Explore,
    text: &str,
    builder: Builder<P>,
    test: &dyn Fn(&Runtime<P>) -> Result<()>,
) -> std::result::Result<Report, Failure> {
    let opts = ReplayOpts::from_environment();
    let token = || -> std::result::Result<Token, TokenError> {
        let shrunk =
            opts.shrinks.then(|| hunt.shrink_on(builder.clone(), text, test)).transpose()?;
        match shrunk {
            Some(Err(failure)) => failure.token().parse(),
            Some(Ok(_)) | None => text.parse(),
        }
    };
    let token = token().unwrap_or_else(|error| panic!("PARCAE_REPLAY: {error}"));
    let mut stand = Stand::new(builder, Oracles::All);
    let dump = opts.dump_before.map(|step| (step, stand.dump_before(step)));
    let test = &mut |rt: &Runtime<P>| test(rt);
    let mut again = hunt.repeat(&stand, &token, test);
    if let Err(failure) = &mut again.outcome {
        let patient = |samples| Probe { samples, time: Duration::from_secs(20) };
        let probe = opts.samples.map_or_else(Probe::brief, patient);
        let run = failure.run_mut();
        run.lost_after = hunt.probe(&stand, &token, probe, run.steps.len(), test);
    }
    let text = token.to_string();
    let mut publication = match &again.outcome {
        Err(failure) => Publication::of(failure),
        Ok(report) => {
            tell(format_args!("the run of the token passes, {} steps", report.steps));
            again.notes.iter().for_each(|note| tell(format_args!("note: {note}")));
            Publication::of_passed(&again.passed, &text, &again.notes)
        }
    };
    publication.dump = dump.as_ref().map(|(step, text)| DumpAtStep::new(*step, text));
    publish(&publication);
    again.outcome
}

impl Explore {
    /// Repeats the run of a token.
    ///
    /// ```
    /// use parcae::lab::Explore;
    /// use parcae::sync::atomic::{AtomicU64, Ordering::SeqCst};
    ///
    /// let test = |rt: &parcae::Runtime| {
    ///     let count = AtomicU64::new(0);
    ///     rt.run(|cx| {
    ///         cx.nursery(|n| {
    ///             for _ in 0..2 {
    ///                 n.spawn(|_| Ok(count.store(count.load(SeqCst) + 1, SeqCst)))?;
    ///             }
    ///             Ok(())
    ///         })
    ///     })?;
    ///     assert_eq!(count.into_inner(), 2);
    ///     Ok(())
    /// };
    /// let found = Explore::new().run(test).unwrap_err();
    /// let again = Explore::new().replay(found.token(), test)?.unwrap_err();
    /// assert_eq!(again.signature(), found.signature());
    /// # Ok::<(), parcae::lab::TokenError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is no token. The result is that of [`run`](Explore::run): it fails if the run
    /// fails. A run that differs from the recorded one has a note that says so.
    pub fn replay(
        &self,
        token: &str,
        test: impl Fn(&Runtime) -> Result<()>,
    ) -> std::result::Result<std::result::Result<Report, Failure>, TokenError> {
        self.replay_on(Runtime::builder(), token, test)
    }

    /// As [`replay`](Explore::replay), for a token of [`run_on`](Explore::run_on).
    ///
    /// # Errors
    ///
    /// As for [`replay`](Explore::replay).
    pub fn replay_on<P: Profile + Clone>(
        &self,
        builder: Builder<P>,
        token: &str,
        test: impl Fn(&Runtime<P>) -> Result<()>,
    ) -> std::result::Result<std::result::Result<Report, Failure>, TokenError> {
        let token: Token = token.parse()?;
        let stand = Stand::new(builder, Oracles::All);
        Ok(self.repeat(&stand, &token, &mut |rt| test(rt)).outcome)
    }

    /// Repeats the run of a token; if it fails, shrinks it, and returns the failure with the token
    /// of the shrunk run. For tokens that were not shrunk: those of runs that ended the process.
    ///
    /// ```
    /// use parcae::lab::Explore;
    ///
    /// # let test = |rt: &parcae::Runtime| {
    /// #     rt.run(|cx| cx.nursery(|n| n.spawn(|_| -> parcae::Result<()> { panic!() })?.join()))
    /// # };
    /// let found = Explore::new().run(test).unwrap_err();
    /// let shrunk = Explore::new().shrink(found.seed_token(), test)?.unwrap_err();
    /// assert_eq!(shrunk.signature(), found.signature());
    /// # Ok::<(), parcae::lab::TokenError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`replay`](Explore::replay).
    pub fn shrink(
        &self,
        token: &str,
        test: impl Fn(&Runtime) -> Result<()>,
    ) -> std::result::Result<std::result::Result<Report, Failure>, TokenError> {
        self.shrink_on(Runtime::builder(), token, test)
    }

    /// As [`shrink`](Explore::shrink), for a token of [`run_on`](Explore::run_on).
    ///
    /// # Errors
    ///
    /// As for [`replay`](Explore::replay).
    pub fn shrink_on<P: Profile + Clone>(
        &self,
        builder: Builder<P>,
        token: &str,
        test: impl Fn(&Runtime<P>) -> Result<()>,
    ) -> std::result::Result<std::result::Result<Report, Failure>, TokenError> {
        let token: Token = token.parse()?;
        let stand = Stand::new(builder, Oracles::All);
        let test = &mut |rt: &Runtime<P>| test(rt);
        let opts = ScheduleOpts { record: false, ..self.opts_of(&token) };
        let ran = stand.run(opts, token.chooser(), test);
        if ran.symptom.is_none() {
            return Ok(self.repeat(&stand, &token, test).outcome);
        }
        Ok(Err(self.investigate(&stand, 0, &token, ran, test)))
    }

    fn opts_of(&self, token: &Token) -> ScheduleOpts {
        ScheduleOpts {
            seed: token.seed,
            workers: token.workers,
            preempts: true,
            limit: token.limit,
            until: self.virtual_time,
            faults: token.faults,
            record: true,
        }
    }

    fn repeat<P: Profile + Clone>(
        &self,
        stand: &Stand<P>,
        token: &Token,
        test: &mut dyn FnMut(&Runtime<P>) -> Result<()>,
    ) -> Replayed {
        let started = Instant::now();
        let ran = stand.run(self.opts_of(token), token.chooser(), test);
        let Ran { symptom, hash, steps, deviations, run, .. } = ran;
        let diverged = (token.hash != 0 && token.hash != hash).then(|| token.divergence(&run));
        let notes: Vec<String> = diverged.iter().map(Divergence::to_string).collect();
        let Some(symptom) = symptom else {
            let mut report = Report { schedules: 1, distinct: 1, steps, ..Report::default() };
            (report.time, report.diverged) = (started.elapsed(), diverged);
            return Replayed { outcome: Ok(report), passed: run, notes };
        };
        let text = token.to_string();
        let found = Found {
            symptom,
            schedule: 0,
            strategy: token.strategy,
            seed_token: text.clone(),
            token: text,
            run,
            forced: deviations.len(),
            notes: notes.clone(),
            diverged,
        };
        Replayed { outcome: Err(Failure::from(found)), passed: Run::default(), notes }
    }

    /// The step of the token's run after which no continuation passes.
    fn probe<P: Profile + Clone>(
        &self,
        stand: &Stand<P>,
        token: &Token,
        probe: Probe,
        steps: usize,
        test: &mut dyn FnMut(&Runtime<P>) -> Result<()>,
    ) -> Option<usize> {
        let opts = ScheduleOpts { record: false, ..self.opts_of(token) };
        probe.find(steps, |before, then| {
            let fork = Fork::new(token.chooser(), before, then);
            stand.run(opts, Box::new(fork), test).symptom.is_some()
        })
    }
}

impl Token {
    /// The first step of a run that is not that of the token, from which the run differs.
    fn divergence(&self, run: &Run) -> Divergence {
        let first = match &self.form {
            TokenForm::Choices { steps, trace, .. } => {
                Divergence::of(trace, trace.len() as u64 == *steps, run)
            }
            TokenForm::Seed { .. } => None,
        };
        first.unwrap_or_else(Divergence::somewhere)
    }

    /// The chooser that repeats the run.
    pub(super) fn chooser(&self) -> Box<dyn Chooser> {
        match &self.form {
            TokenForm::Choices { deviations, .. } => Box::new(Script::new(deviations)),
            TokenForm::Seed { memory } => {
                let mut chooser = chooser(self.strategy);
                chooser.remember(memory);
                chooser
            }
        }
    }
}
