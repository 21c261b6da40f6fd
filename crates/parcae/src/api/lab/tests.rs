//! Tokens of random runs, and runtimes that are used again.

use super::divergence::trace;
use super::stand::{Oracles, Ran, ScheduleOpts, Stand};
use super::token::{Token, TokenForm, tree};
use crate::api::runtime::Runtime;
use crate::base::rng::mix;
use crate::channel::channel;
use crate::sched::lab::{Chooser, FaultRates, Strategy, chooser};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Locks, channels, a select, atomics and timers in a few operations.
fn program(rt: &Runtime) -> crate::Result<()> {
    let (count, lock) = (AtomicU64::new(0), Mutex::new(0));
    let ((tx, rx), (other, others)) = (channel::<u64>(1), channel::<u64>(1));
    rt.run(|cx| {
        cx.nursery(|n| {
            let (count, lock) = (&count, &lock);
            n.spawn(move |cx| {
                *lock.lock()? += 1;
                tx.send(count.fetch_add(1, SeqCst))?;
                cx.sleep(Duration::from_secs(1))
            })?;
            n.spawn(move |cx| {
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
        faults: FaultRates { late: (number % 2) as u32 * 3, ..FaultRates::default() },
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
