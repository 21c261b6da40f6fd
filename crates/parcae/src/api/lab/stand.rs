//! One schedule: the runtime is made, the test runs, the oracles look.
//!
//! # A runtime for each schedule, on parts that stay
//!
//! A schedule runs on the scheduler of the last one with as many workers, made as new
//! (`worker::reset`, `shared::reset`), with a root nursery, a budget and a cancellation of its own.
//! A scheduler of which anything is left (a task, a timer, a reference) is dropped, and a new one
//! is made. The stacks outlive it (`Lab::stacks`), because mapping them took most of the time, and
//! settings that come from files or the environment were read once, when the builder was made.
//!
//! A reset that forgot something would make a schedule depend on those before it. So the hunt
//! repeats a schedule on a new runtime now and then, and compares the operations.
//!
//! # Oracles
//!
//! The first trouble in the order of the schedule counts: a panic, an error of the test, a deadlock
//! that the test did not see, a livelock, a late clock; then tasks that are left when the test has
//! returned, amounts that the budget has lost, and things that never became true.

use super::failure::{FailureKind, Symptom};
use super::invariants;
use super::quiet::Quiet;
use super::record;
use super::timeline::Run;
use crate::api::runtime::{BuildError, Builder, KeptRuntime, Runtime};
use crate::base::error::{Error, Result};
use crate::sched::lab::{Chooser, Deviation, FaultRates, Lab, SchedulePlan, Trouble};
use crate::scope::budget::{Resource, Standing, UNLIMITED};
use crate::scope::profile::Profile;
use crate::view::inspect::Dump;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The place where schedules run, on one thread.
pub(super) struct Stand<P: Profile> {
    lab: Arc<Lab>,
    builder: Builder<P>,
    /// For each number of workers: the settings of its runtime, and the parts of the last one.
    kept: RefCell<BTreeMap<usize, Reused<P>>>,
    quiet: Quiet,
    oracles: Oracles,
    /// The recorded step before which the tasks are dumped, and the text of the dump.
    dump_before: Option<(usize, Arc<Mutex<String>>)>,
    /// Whether turns in bare schedules have their usual length.
    has_whole_turns: bool,
}

/// The settings of a runtime, and the parts of the last one that had them.
type Reused<P> = (Builder<P>, Option<KeptRuntime>);

/// The trouble that counts as a failure although the test returns no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oracles {
    All,
    /// Only the test's own errors and panics.
    OfTheTest,
}

/// The settings of one schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScheduleOpts {
    pub(super) seed: u64,
    /// 0: the strategy chooses the task itself.
    pub(super) workers: usize,
    /// With workers: whether tasks may be switched at points.
    pub(super) preempts: bool,
    pub(super) limit: u64,
    /// The longest virtual time.
    pub(super) until: Duration,
    pub(super) faults: FaultRates,
    pub(super) record: bool,
}

/// A schedule that has run.
pub(super) struct Ran {
    pub(super) symptom: Option<Symptom>,
    pub(super) hash: u64,
    pub(super) steps: u64,
    pub(super) deviations: Vec<Deviation>,
    /// Empty, unless the schedule has failed or was recorded.
    pub(super) run: Run,
    pub(super) chooser: Box<dyn Chooser>,
    /// Whether the strategy has more schedules.
    pub(super) more: bool,
}

impl<P: Profile + Clone> Stand<P> {
    pub(super) fn new(builder: Builder<P>, oracles: Oracles) -> Stand<P> {
        let (lab, quiet) = (Lab::new(), Quiet::begin());
        let (kept, dump_before, has_whole_turns) = (RefCell::default(), None, false);
        Stand { lab, builder, kept, quiet, oracles, dump_before, has_whole_turns }
    }

    /// As [`new`](Stand::new), for a run whose tasks have turns as on threads.
    #[cfg(feature = "record")]
    pub(super) fn with_whole_turns(builder: Builder<P>, oracles: Oracles) -> Stand<P> {
        Stand { has_whole_turns: true, ..Stand::new(builder, oracles) }
    }

    /// Dumps all tasks before this step of recorded runs, into the text that is returned.
    pub(super) fn dump_before(&mut self, step: usize) -> Arc<Mutex<String>> {
        let text = Arc::new(Mutex::new(String::new()));
        self.dump_before = Some((step, Arc::clone(&text)));
        text
    }

    /// Runs the test once.
    pub(super) fn run(
        &self,
        opts: ScheduleOpts,
        chooser: Box<dyn Chooser>,
        test: &mut dyn FnMut(&Runtime<P>) -> Result<()>,
    ) -> Ran {
        let ScheduleOpts { seed, workers, preempts, limit, until, faults, record } = opts;
        let dump_before = self.dump_before.as_ref().map(|dump| dump.0);
        let bare = workers == 0;
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        // The last run of a failure is the one that is recorded and shown.
        let brief = self.oracles == Oracles::All && !record;
        let ticks = self.oracles == Oracles::OfTheTest;
        let plan = SchedulePlan {
            seed,
            bare,
            preempts,
            limit,
            until,
            record,
            dump_before,
            brief,
            ticks,
            faults,
        };
        self.lab.begin(chooser, plan);
        self.quiet.take();
        let _statements = invariants::begin();
        let mut log = Vec::new();
        let symptom = match self.runtime(workers, seed) {
            Ok(rt) => {
                if let Some((_, text)) = &self.dump_before {
                    let (text, shared) = (Arc::clone(text), rt.shared());
                    self.lab.on_dump(Box::new(move || {
                        let dump = shared.upgrade().map(|shared| Dump::of(&shared).to_string());
                        *text.lock().unwrap_or_else(PoisonError::into_inner) =
                            dump.unwrap_or_default();
                    }));
                }
                let symptom = self.examine(&rt, test);
                if record {
                    log = rt.event_list();
                }
                self.keep(workers, rt);
                symptom
            }
            Err(error) => Some(Symptom::new(FailureKind::Error, "build", error.into())),
        };
        let mut state = self.lab.lock();
        let (hash, steps) = (state.hash(), state.steps());
        let failed = symptom.is_some() || record;
        let deviations = if failed { state.deviations().to_vec() } else { Vec::new() };
        let tasks = if failed { state.labels() } else { Vec::new() };
        let events = record::events(&mut state, &log);
        let steps_of_run = state.recorder().map(|recorder| std::mem::take(&mut recorder.steps));
        let run = Run { tasks, steps: steps_of_run.unwrap_or_default(), events, lost_after: None };
        let (chooser, more) = state.end();
        Ran { symptom, hash, steps, deviations, run, chooser, more }
    }

    /// The runtime of a schedule: the one of the last schedule with as many workers, made as new,
    /// or a new one.
    fn runtime(&self, workers: usize, seed: u64) -> std::result::Result<Runtime<P>, BuildError> {
        let mut kept = self.kept.borrow_mut();
        let (builder, parts) = kept.entry(workers).or_insert_with(|| {
            let builder = self.builder.clone().lab(Arc::clone(&self.lab));
            let builder = match workers {
                0 if self.has_whole_turns => builder.bare_with_turns(),
                0 => builder.bare(),
                _ => builder.workers(workers),
            };
            (builder, None)
        });
        builder.build_on(parts.take(), seed)
    }

    /// Ends the runtime of a schedule, and keeps its parts.
    fn keep(&self, workers: usize, rt: Runtime<P>) {
        let parts = rt.into_kept();
        if let Some(place) = self.kept.borrow_mut().get_mut(&workers) {
            place.1 = parts;
        }
    }

    /// Whether the next schedule with so many workers uses the runtime of the last one.
    #[cfg(all(test, not(loom)))]
    pub(super) fn has_kept(&self, workers: usize) -> bool {
        self.kept.borrow().get(&workers).is_some_and(|kept| kept.1.is_some())
    }

    /// The next schedules run on new runtimes.
    pub(super) fn forget(&self) {
        self.kept.borrow_mut().clear();
    }

    fn examine(
        &self,
        rt: &Runtime<P>,
        test: &mut dyn FnMut(&Runtime<P>) -> Result<()>,
    ) -> Option<Symptom> {
        let outcome = catch_unwind(AssertUnwindSafe(|| test(rt)));
        let outcome = outcome.unwrap_or_else(|payload| Err(Error::from_panic(payload)));
        let (trouble, panicked) = (self.lab.lock().trouble(), self.quiet.take());
        let sites = || self.lab.lock().sites();
        if let Err(error) = outcome {
            return Some(Symptom::of(error, panicked, trouble, &sites()));
        }
        if self.oracles == Oracles::OfTheTest {
            return None;
        }
        if let Some(trouble) = trouble {
            let text = match trouble {
                Trouble::Deadlock => "all tasks waited, and the test has ignored the errors",
                Trouble::Livelock => "the tasks went on and on",
                Trouble::Late => "the clock has passed its bound",
            };
            return Some(Symptom::of(Error::msg(text), panicked, Some(trouble), &sites()));
        }
        // Tasks that only need more time are no leak.
        let left = rt.drain_for_lab();
        if left > 0 {
            let text = format!("{left} tasks are left, and wait for ever");
            return Some(Symptom::new(FailureKind::Leak, &sites(), Error::msg(text)));
        }
        if !is_conserved(&rt.budget()) {
            let text = format!("the runtime's budget is not conserved: {:?}", rt.budget());
            return Some(Symptom::new(FailureKind::Budget, "", Error::msg(text)));
        }
        let missed = invariants::missed()?;
        let error = Error::msg(format!("`{missed}` should have become true, and did not"));
        Some(Symptom::new(FailureKind::NotReached, &missed, error))
    }
}

/// Whether all that was granted is left, held or spent.
fn is_conserved(state: &Standing) -> bool {
    Resource::ALL.iter().filter(|&&resource| resource != Resource::Memory).all(|&resource| {
        let Standing { granted, left, held, spent, .. } = state;
        let known = [left, held, spent].map(|part| part.get(resource));
        let sum = known.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
        granted.get(resource) == UNLIMITED || granted.get(resource) == sum
    })
}
