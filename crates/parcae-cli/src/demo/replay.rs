//! The deterministic executor: a bug that depends on the order of events, found, and found again.

mod describe;

use super::{Demo, Size, check};
use crate::stage::{BOLD, DIM, Stage, bar, paint};
use describe::{Described, numbered};
use parcae::prelude::*;
use parcae::trace::TraceOpts;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const DEMO: Demo = Demo {
    name: "replay",
    about: "the same seed gives the same run, another seed another one",
    look: "Four tasks pay into one account with a race: the balance that they read may be stale when they write. Whether \
           money is lost depends on the seed alone.",
    run,
};

const PAYERS: u64 = 4;
const PAYMENTS: u64 = 3;

/// The result of a run.
#[derive(Debug, PartialEq)]
struct Run {
    balance: u64,
    /// All that the scheduler did: as bytes, and in words.
    log: Vec<u8>,
    events: Vec<Described>,
}

/// The program, on two workers that take turns as the seed says.
fn pay(seed: u64) -> parcae::Result<Run> {
    let rt = Runtime::builder().workers(2).deterministic(seed).build()?;
    let recording = rt.trace(TraceOpts::new()).map_err(parcae::Error::from)?;
    let account = AtomicU64::new(0);
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..PAYERS {
                n.spawn(|cx| {
                    for _ in 0..PAYMENTS {
                        let balance = account.load(Ordering::Relaxed);
                        cx.yield_now()?; // another task may pay in between
                        account.store(balance + 1, Ordering::Relaxed);
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    let events = numbered(recording.stop().events());
    Ok(Run { balance: account.into_inner(), log: rt.event_log(), events })
}

fn run(stage: &Stage, size: Size) -> parcae::Result<()> {
    if let Ok(seed) = std::env::var("PARCAE_SEED") {
        return Err(parcae::Error::msg(format!(
            "PARCAE_SEED={seed} would replace the seeds that this demo compares; unset it"
        )));
    }
    let seeds: Vec<u64> = (1..=size.pick(200, 40)).collect();
    let runs: Vec<Run> = seeds.iter().map(|&seed| pay(seed)).collect::<parcae::Result<_>>()?;
    stage.say(format_args!("{} payments of 1; final balances:", PAYERS * PAYMENTS));
    for (balance, count) in tally(&runs) {
        stage.say(format_args!(
            "  {balance:2} {} {count} of {} seeds",
            bar(count as u64, seeds.len() as u64, 30),
            seeds.len()
        ));
    }

    // Of the runs that end differently, the one that stays with the first for longest.
    let first = &runs[0];
    let others = seeds.iter().zip(&runs).filter(|(_, run)| run.balance != first.balance);
    let Some((&other, _)) = others.max_by_key(|(_, run)| common(first, run)) else {
        return check(false, "some seed leads to another balance");
    };
    let seeds = [seeds[0], seeds[0], other];
    let runs = [pay(seeds[0])?, pay(seeds[1])?, pay(seeds[2])?];
    stage.say("");
    for (seed, run) in seeds.iter().zip(&runs) {
        stage.say(format_args!(
            "seed {seed:<3} balance {}, {} events, fingerprint {:016x}",
            paint(BOLD, format!("{:2}", run.balance)),
            run.events.len(),
            fingerprint(&run.log),
        ));
    }
    check(runs[0] == runs[1], "the same seed gives the same run, to the byte")?;
    check(runs[0].log != runs[2].log, "another seed gives another run")?;

    let same = common(&runs[0], &runs[2]);
    stage.say(format_args!(
        "\nthe first {same} events of seeds {} and {other} are the same; then",
        seeds[0]
    ));
    for (seed, run) in [(seeds[0], &runs[0]), (other, &runs[2])] {
        for event in run.events.iter().skip(same).take(3) {
            stage.say(format_args!("  seed {seed:<3} {event}"));
        }
    }
    stage.say(paint(DIM, "PARCAE_SEED=N runs a failing test again with its seed"));
    stage.figure("runs", runs.iter().zip(seeds).map(describe).collect::<Vec<_>>());
    stage.figure("events_in_common", same);
    Ok(())
}

/// How many events two runs have in common before they part.
fn common(one: &Run, other: &Run) -> usize {
    one.events.iter().zip(&other.events).take_while(|(a, b)| a == b).count()
}

fn describe((run, seed): (&Run, u64)) -> serde_json::Value {
    serde_json::json!({
        "seed": seed,
        "balance": run.balance,
        "events": run.events.len(),
        "fingerprint": format!("{:016x}", fingerprint(&run.log)),
    })
}

/// The balances and how often each occurs, in order.
fn tally(runs: &[Run]) -> Vec<(u64, usize)> {
    let mut sorted: Vec<u64> = runs.iter().map(|run| run.balance).collect();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect()
}

/// FNV-1a: short enough to be here, and the same on any machine.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_depends_on_the_seed_and_the_log_can_be_read() {
        let runs: Vec<Run> = (0..50).map(|seed| pay(seed).unwrap()).collect();
        assert!(runs.iter().all(|run| (1..=PAYERS * PAYMENTS).contains(&run.balance)));
        assert!(tally(&runs).len() > 1);
        for run in &runs {
            let texts: Vec<String> = run.events.iter().map(ToString::to_string).collect();
            assert_eq!(texts.len() * 32, run.log.len(), "all of them");
            assert!(texts.iter().any(|event| event.ends_with("which yields")), "{texts:?}");
        }
    }

    #[test]
    fn balances_are_counted() {
        let runs = [3, 1, 3].map(|balance| Run { balance, log: Vec::new(), events: Vec::new() });
        assert_eq!(tally(&runs), [(1, 1), (3, 2)]);
    }
}
