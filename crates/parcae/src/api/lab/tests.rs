//! Tokens of random runs, runtimes that are used again, points before operations, and deviations
//! that stay where they are.

use super::divergence::trace;
use super::stand::{Oracles, Ran, ScheduleOpts, Stand};
use super::token::{Token, TokenForm, tree};
use crate::base::rng::mix;
use crate::channel::channel;
use crate::prelude::*;
use crate::profile::Service;
use crate::sched::lab::{
    Choice, Chooser, Enabled, FaultRates, Op, OpKind, Script, Strategy, chooser,
};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::panic::Location;
use std::sync::atomic::AtomicU64 as StdAtomicU64;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

/// Locks, channels, a select, atomics and timers in a few operations.
fn program(rt: &Runtime) -> crate::Result<()> {
    let (count, lock) = (AtomicU64::new(0), Mutex::new(0));
    let ((tx, rx), (other, others)) = (channel::<u64>(1), channel::<u64>(1));
    rt.run(|cx| {
        cx.nursery(|n| {
            let (count, lock) = (&count, &lock);
            n.spawn(move |cx| {
                (0..5).try_for_each(|_| cx.checkpoint())?;
                *lock.lock()? += 1;
                tx.send(count.fetch_add(1, SeqCst))?;
                cx.sleep(Duration::from_secs(1))
            })?;
            n.spawn(move |cx| {
                (0..5).try_for_each(|_| cx.checkpoint())?;
                *lock.lock()? += 1;
                cx.sleep(Duration::from_secs(1))?;
                Ok(other.send(count.load(SeqCst))?)
            })?;
            for _ in 0..2 {
                crate::select! {
                    recv(rx) -> got => drop(got),
                    recv(others) -> got => drop(got),
                }?;
            }
            cx.yield_now()
        })
    })
}

fn opts(number: u64, record: bool) -> ScheduleOpts {
    ScheduleOpts {
        seed: mix(number),
        workers: (number / 8 % 4) as usize,
        preempts: true,
        limit: 20_000,
        until: Duration::MAX,
        faults: FaultRates {
            late: (number % 2) as u32 * 3,
            spurious: (number % 5 / 4) as u32 * 8,
            ..FaultRates::default()
        },
        record,
    }
}

/// The token of a run, as text and back.
fn reread(opts: &ScheduleOpts, strategy: Strategy, form: TokenForm) -> Token {
    let ScheduleOpts { seed, workers, limit, faults, .. } = *opts;
    let token = Token { strategy, workers, limit, seed, faults, hash: 1, form };
    let again: Token = token.to_string().parse().unwrap();
    assert_eq!(again.to_string(), token.to_string());
    again
}

/// Ten thousand runs of all strategies, with and without workers and faults: the tokens of both
/// forms repeat each, on a runtime that was reset; and some on a new one.
#[test]
fn ten_thousand_tokens_repeat_in_both_forms() {
    // The lab is silent about panics: it ends first.
    assert_eq!(repeat_all(), Ok(()));
}

fn repeat_all() -> Result<(), String> {
    let stand = Stand::new(Runtime::builder(), Oracles::All);
    let run = |opts, chooser: Box<dyn Chooser>| stand.run(opts, chooser, &mut |rt| program(rt));
    let mut choosers: Vec<_> = Strategy::ALL.into_iter().map(chooser).map(Some).collect();
    for number in 0..10_000 {
        let at = number as usize % choosers.len();
        let strategy = Strategy::ALL[at];
        let opts = opts(number, true);
        let used = choosers[at].take().unwrap();
        let memory = used.memory();
        let Ran { symptom, hash, deviations, run: ran, chooser, .. } = run(opts, used);
        if let Some(symptom) = symptom {
            return Err(format!("{number} {strategy:?}: {symptom:?}"));
        }
        choosers[at] = Some(chooser);
        if number % 64 == 0 {
            stand.forget();
        }
        let seed = reread(&opts, strategy, TokenForm::Seed { memory });
        if run(opts, seed.chooser()).hash != hash {
            return Err(format!("{number} {strategy:?} {opts:?}: {seed}"));
        }
        let (steps, trace) = (ran.steps.len() as u64, trace(&ran.steps));
        let tasks = tree(&ran.tasks);
        let form = TokenForm::Choices { tasks, deviations, steps, trace };
        let choices = reread(&opts, strategy, form);
        if run(opts, choices.chooser()).hash != hash {
            return Err(format!("{number} {strategy:?} {opts:?}: {choices}"));
        }
    }
    Ok(())
}

/// Chooses by another chooser, and compares the operation that a task was about to do with the one
/// that it does.
struct WatchingChooser {
    inner: Box<dyn Chooser>,
    /// The operation that the task which was chosen is about to do.
    chosen: Option<(u32, Op)>,
    seen: Arc<WatchedOps>,
}

/// Observations of such a chooser. It does not panic: tasks do not expect that at a point.
#[derive(Default)]
struct WatchedOps {
    compared: StdAtomicU64,
    /// Tasks that have passed their point.
    passed: StdAtomicU64,
    wrong: StdMutex<Vec<String>>,
}

impl WatchedOps {
    fn demand(&self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.wrong.lock().unwrap().push(text());
        }
    }
}

impl Chooser for WatchingChooser {
    fn begin(&mut self, seed: u64) {
        self.chosen = None;
        self.inner.begin(seed);
    }

    fn spawned(&mut self, task: u32, path: u64, parent: Option<u32>) {
        self.inner.spawned(task, path, parent);
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let pending = choice.enabled.iter().filter(|one| one.op.kind == OpKind::Point).count();
        let passed = self.seen.passed.load(SeqCst);
        self.seen.demand(pending as u64 + passed <= 3, || format!("{passed} and {pending}"));
        let chosen = self.inner.choose(choice);
        let Enabled { task, op, .. } = choice.enabled[chosen];
        self.chosen = Some((task, op));
        chosen
    }

    fn does(&mut self, task: u32, op: Op) {
        self.chosen = None; // it goes on within an operation
        self.inner.does(task, op);
    }

    fn does_at(&mut self, task: u32, op: Op, site: Option<&'static Location<'static>>) {
        if let Some(chosen) = self.chosen.take() {
            self.seen.demand(chosen == (task, op), || format!("{chosen:?}, not {task} {op:?}"));
            self.seen.compared.fetch_add(1, SeqCst);
        }
        self.inner.does_at(task, op, site);
    }

    fn number(&mut self, at: (u64, u32, u32), below: usize) -> usize {
        self.inner.number(at, below)
    }
}

/// Points are before operations: a strategy that saw them afterwards could not know conflicts.
#[test]
fn a_strategy_sees_the_operation_before_it_is_done() {
    let seen = Arc::new(WatchedOps::default());
    watch_schedules(&seen);
    assert_eq!(*seen.wrong.lock().unwrap(), Vec::<String>::new());
    assert!(seen.compared.load(SeqCst) > 1_000);
}

fn watch_schedules(seen: &Arc<WatchedOps>) {
    let stand = Stand::new(Runtime::builder(), Oracles::All);
    for number in 0..200 {
        let opts = ScheduleOpts { workers: 0, ..opts(number, false) };
        let inner = chooser(Strategy::RandomWalk);
        let watching = WatchingChooser { inner, chosen: None, seen: Arc::clone(seen) };
        seen.passed.store(0, SeqCst);
        let ran = stand.run(opts, Box::new(watching), &mut |rt| {
            let lock = Mutex::new(0);
            rt.run(|cx| {
                cx.nursery(|n| {
                    for _ in 0..3 {
                        n.spawn(|_| {
                            *lock.lock()? += 1;
                            crate::point!();
                            seen.passed.fetch_add(1, SeqCst);
                            Ok(())
                        })?;
                    }
                    Ok(())
                })
            })
        });
        seen.demand(ran.symptom.is_none(), || format!("{:?}", ran.symptom));
    }
}

/// A deviation is keyed by the task and its own operations. Without another deviation, the switch
/// is before the same operation, although that has another number in the run.
#[test]
fn a_switch_stays_at_its_operation_when_others_are_left_out() {
    let moved = leave_out_each().unwrap();
    assert!(moved > 100, "{moved}");
}

/// The number of runs in which a switch has stayed, and the run was another one.
fn leave_out_each() -> Result<usize, String> {
    let stand = Stand::new(Runtime::builder(), Oracles::All);
    let run = |opts, chooser: Box<dyn Chooser>| {
        stand.run(opts, chooser, &mut |rt| {
            let all: [AtomicU64; 3] = Default::default();
            rt.run(|cx| {
                cx.nursery(|n| {
                    for own in &all {
                        n.spawn(move |_| {
                            (0..4).for_each(|value| own.store(value, SeqCst));
                            Ok(())
                        })?;
                    }
                    Ok(())
                })
            })
        })
    };
    let mut moved = 0;
    for number in 0..60 {
        let opts = ScheduleOpts { workers: 0, ..opts(number, true) };
        let whole = run(opts, chooser(Strategy::RandomSlices));
        for (at, gone) in whole.deviations.iter().enumerate() {
            let mut rest = whole.deviations.clone();
            rest.remove(at);
            let ran = run(opts, Box::new(Script::new(&rest)));
            if let Some(other) = ran.deviations.iter().find(|one| !rest.contains(one)) {
                return Err(format!("{number}: without {gone:?} there is {other:?}"));
            }
            // Some are gone: their targets have ended, or are the usual ones. None has moved.
            moved += usize::from(!ran.deviations.is_empty() && ran.hash != whole.hash);
        }
    }
    Ok(moved)
}

/// All that a program sees of its runtime: ids, the order of tasks, virtual time, counters.
fn observed(rt: &Runtime) -> crate::Result<String> {
    let seen = StdMutex::new(vec![format!("seed {}", rt.seed())]);
    let note = |text: String| seen.lock().unwrap().push(text);
    rt.run(|cx| {
        let began = crate::time::now();
        cx.nursery(|n| {
            for task in 0..12_u64 {
                let priority = if task % 4 == 0 { Priority::High } else { Priority::Normal };
                let opts = SpawnOpts::new().priority(priority);
                n.spawn_with(opts, move |cx| {
                    for _ in 0..3 {
                        note(format!("{task} is {:?}", cx.info().id));
                        cx.yield_now()?;
                    }
                    cx.sleep(Duration::from_millis(task % 3))?;
                    note(format!("{task} after {:?}", crate::time::now() - began));
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    note(format!("{:?}", rt.stats()));
    Ok(seen.into_inner().unwrap().join("\n"))
}

/// A runtime that was reset cannot be told from a new one.
#[test]
fn a_reset_leaves_nothing_behind() {
    assert_eq!(compare_with_reset(), Ok(()));
}

fn compare_with_reset() -> Result<(), String> {
    for number in 0..40 {
        let workers = number as usize % 4;
        let stand = || Stand::new(Runtime::builder(), Oracles::All);
        let observe = |stand: &Stand<Service>, seed: u64| {
            let opts = ScheduleOpts { workers, seed, ..opts(number, false) };
            let mut text = String::new();
            let ran = stand.run(opts, chooser(Strategy::RandomSlices), &mut |rt| {
                text = observed(rt)?;
                Ok(())
            });
            match ran.symptom {
                Some(symptom) => Err(format!("{symptom:?}")),
                None if !stand.has_kept(workers) => Err("it is not used again".to_owned()),
                None => Ok(text),
            }
        };
        let (used, new) = (stand(), stand());
        let (first, other, again) =
            (observe(&used, number)?, observe(&used, number + 100)?, observe(&used, number)?);
        let anew = observe(&new, number + 100)?;
        if other == first || again != first || other != anew {
            return Err(format!("{number}: {first}\n\n{other}\n\n{again}\n\n{anew}"));
        }
    }
    Ok(())
}
