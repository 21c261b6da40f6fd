//! The investigation of a failure: repeated in the choice form, shrunk, recorded, probed, and
//! reported with both tokens.

use super::divergence::trace;
use super::explore::Explore;
use super::failure::{Failure, FailureKind, Found};
use super::probe::Probe;
use super::shrink::{REPLAYS, shrink};
use super::stand::{Ran, ScheduleOpts, Stand};
use super::timeline::Run;
use super::token::{Token, TokenForm, paths, tree};
use crate::api::runtime::Runtime;
use crate::base::error::Result;
use crate::sched::lab::{
    Chooser, Deviation, ExhaustiveSearch, Fork, HoldingChooser, OpKind, Script,
};
use crate::scope::profile::Profile;
use std::time::{Duration, Instant};

/// The most schedules with one or two forced switches that are tried for a failure.
const FEW: usize = 3_000;
/// The longest time that a failure is shrunk.
const SHRINKING: Duration = Duration::from_secs(2);

impl Explore {
    /// Repeats a failure in the choice form, shrinks and records it.
    pub(super) fn investigate<P: Profile + Clone>(
        &self,
        stand: &Stand<P>,
        schedule: u64,
        found: &Token,
        ran: Ran,
        test: &mut dyn FnMut(&Runtime<P>) -> Result<()>,
    ) -> Failure {
        let Ran { symptom, deviations, run, hash, steps, .. } = ran;
        let Some(symptom) = symptom else { unreachable!("it has failed") };
        let mut notes = Vec::new();
        // A run that spins because a switch was left out need not go on for long.
        let limit = match symptom.kind {
            FailureKind::Livelock => found.limit,
            _ => found.limit.min(2 * steps + 200),
        };
        let opts = ScheduleOpts {
            seed: found.seed,
            workers: found.workers,
            preempts: true,
            limit,
            until: self.virtual_time,
            faults: found.faults,
            record: false,
        };
        let mut again = |list: &[Deviation], record: bool| {
            let opts = ScheduleOpts { record, ..opts };
            stand.run(opts, Box::new(Script::new(list)), test)
        };
        let same = |ran: &Ran| {
            ran.symptom.as_ref().is_some_and(|other| other.signature == symptom.signature)
        };
        let first = again(&deviations, false);
        let mut list = deviations;
        if first.hash != hash || !same(&first) {
            notes.push(String::from(
                "the run cannot be repeated exactly: does the test use a clock, a hash map's order, \
                 addresses, threads, or statics that survive?",
            ));
        }
        if same(&first) {
            let (started, mut replays) = (Instant::now(), 0);
            list = shrink(list, |rest| {
                replays += 1;
                if replays > REPLAYS || started.elapsed() > SHRINKING {
                    return None;
                }
                let ran = again(rest, false);
                same(&ran).then_some(ran.deviations)
            });
        }
        // Shrinking can get stuck above the fewest switches, where tasks go back and forth.
        if list.len() > 2 && found.workers == 0 && same(&first) {
            let last = again(&list, true);
            let holding = HoldingChooser::new(last_operations(&last.run));
            let ran = stand.run(opts, Box::new(holding), test);
            if same(&last) && same(&ran) && ran.deviations.len() < list.len() {
                list = shrink(ran.deviations, |rest| {
                    let ran = stand.run(opts, Box::new(Script::new(rest)), test);
                    same(&ran).then_some(ran.deviations)
                });
            }
        }
        // One or two of them are soon tried.
        for most in 1..=2 {
            if list.len() <= most as usize || !same(&first) {
                break;
            }
            let mut search: Box<dyn Chooser> = Box::new(ExhaustiveSearch::of_few(most));
            let began = Instant::now();
            for _ in 0..FEW {
                let ran = stand.run(opts, search, test);
                if same(&ran) && ran.deviations.len() < list.len() {
                    list = ran.deviations;
                    break;
                }
                if !ran.more || began.elapsed() > SHRINKING / 2 {
                    break;
                }
                search = ran.chooser;
            }
        }
        let mut again = |list: &[Deviation], record: bool| {
            let opts = ScheduleOpts { record, ..opts };
            stand.run(opts, Box::new(Script::new(list)), test)
        };
        let last = again(&list, true);
        let (run, tasks, hash, symptom) = match same(&last) {
            true => {
                let tree = tree(&last.run.tasks);
                let mut run = last.run;
                run.lost_after = Probe::brief().find(run.steps.len(), |before, then| {
                    let script = Box::new(Script::new(&list));
                    let fork = Box::new(Fork::new(script, before, then));
                    stand.run(opts, fork, test).symptom.is_some()
                });
                (run, tree, last.hash, last.symptom.unwrap_or(symptom))
            }
            false => (Run::default(), tree(&run.tasks), 0, symptom),
        };
        let forced = list.len();
        let (steps, trace) = (run.steps.len() as u64, trace(&run.steps));
        let form = TokenForm::Choices { tasks, deviations: list, steps, trace };
        let token = Token { hash, limit, form, ..found.clone() }.to_string();
        Failure::from(Found {
            symptom,
            schedule,
            strategy: found.strategy,
            token,
            seed_token: found.to_string(),
            run,
            forced,
            notes,
            diverged: None,
        })
    }
}

/// For each task of a recorded run whose last operation may wait: its path, and its operations
/// before that one. A task that only spawns or wakes others must not be held: they may never start.
fn last_operations(run: &Run) -> Vec<(u64, usize)> {
    let mut last = vec![(0_usize, OpKind::Start); run.tasks.len()];
    for step in &run.steps {
        let (before, op) = &mut last[step.task as usize];
        (*before, *op) = (*before + usize::from(*op != OpKind::Start), step.op);
    }
    let paths = paths(&tree(&run.tasks)).unwrap_or_default();
    let waits =
        |(path, (before, op)): (u64, (usize, OpKind))| op.may_wait().then_some((path, before));
    paths.into_iter().zip(last).filter_map(waits).collect()
}
