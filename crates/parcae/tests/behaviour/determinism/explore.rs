//! The deterministic executor: the same seed gives the same run, `explore` tries many seeds, and a
//! failure can be run again.

use crate::support::child;
use crate::support::*;
use parcae::Result;
use parcae::prelude::*;
use parcae::runtime::Preempt;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The order in which three tasks come by their checkpoints.
fn order(rt: &Runtime) -> Vec<u8> {
    let order = Mutex::new(Vec::new());
    let outcome = rt.run(|cx| {
        cx.nursery(|n| {
            for name in 0..3 {
                let order = &order;
                n.spawn(move |cx| {
                    for _ in 0..3 {
                        order.lock().unwrap().push(name);
                        cx.checkpoint()?;
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    });
    outcome.unwrap();
    order.into_inner().unwrap()
}

fn orders(preempt: Preempt) -> BTreeSet<Vec<u8>> {
    let mut orders = BTreeSet::new();
    let builder = Runtime::builder().workers(1).preempt(preempt);
    let outcome = builder.explore(0..200, |rt| {
        orders.insert(order(rt));
        Ok(())
    });
    outcome.unwrap();
    orders
}

#[test]
fn preemption_makes_checkpoints_places_where_tasks_interleave() {
    // One worker runs one after the other, unless they are preempted.
    assert_eq!(orders(Preempt::Never).len(), 1);
    let interleaved = orders(Preempt::Randomly).len();
    assert!(interleaved > 20, "{interleaved}");
}

#[test]
fn preemption_follows_from_the_seed() {
    let run = |seed, preempt| {
        let builder = Runtime::builder().workers(3).deterministic(seed).preempt(preempt);
        let rt = builder.build().unwrap();
        (order(&rt), rt.event_log())
    };
    for seed in 0..20 {
        assert_eq!(run(seed, Preempt::Randomly), run(seed, Preempt::Randomly));
        assert_ne!(run(seed, Preempt::Randomly).1, run(seed, Preempt::Never).1);
    }
}

/// Two tasks increment a counter with a read and a write; one update gets lost.
fn lost_update(rt: &Runtime) -> Result<()> {
    let counter = AtomicU64::new(0);
    rt.run(|cx| {
        cx.nursery(|n| {
            for _ in 0..2 {
                n.spawn(|cx| {
                    let seen = counter.load(Ordering::Relaxed);
                    cx.checkpoint()?;
                    counter.store(seen + 1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            Ok(())
        })
    })?;
    match counter.into_inner() {
        2 => Ok(()),
        lost => Err(parcae::Error::msg(format!("counted {lost}"))),
    }
}

#[test]
fn a_failure_names_its_seed_and_comes_again_with_it() {
    let mut tried = Vec::new();
    let outcome = parcae::explore(0..100, |rt| {
        tried.push(rt.seed());
        lost_update(rt)
    });
    let error = outcome.unwrap_err();
    let seed = *tried.last().unwrap();
    assert_eq!(tried, Vec::from_iter(0..=seed), "it goes on after a failure");
    let text = format!("failed with seed {seed}; run it alone with PARCAE_SEED={seed}");
    assert_eq!(error.to_string(), format!("{text}: counted 1"));
    assert!(parcae::explore([seed], lost_update).is_err());
}

#[test]
fn a_panic_of_the_test_is_a_failure() {
    let error = parcae::explore(5..9, |rt| {
        if rt.seed() == 7 {
            std::panic::resume_unwind(Box::new("wrong")); // prints nothing
        }
        Ok(())
    });
    let error = error.unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("PARCAE_SEED=7"), "{error:?}");
}

#[test]
fn the_environment_chooses_the_one_seed() {
    if !child::is_victim() {
        for (given, seed) in [("12", "12"), ("0x1f", "31"), ("many", "none")] {
            let mut victim = child::victim(module_path!(), "the_environment_chooses_the_one_seed");
            victim.env("PARCAE_SEED", given).env("PARCAE_TEST_EXPECTS", seed);
            let output = victim.output().unwrap();
            assert!(output.status.success(), "{given}: {output:?}");
        }
        return;
    }
    let expected = std::env::var("PARCAE_TEST_EXPECTS").unwrap();
    let mut seeds = Vec::new();
    let outcome = parcae::explore(0..5, |rt| {
        seeds.push(rt.seed());
        Ok(())
    });
    match expected.parse::<u64>() {
        Ok(seed) => assert_eq!(seeds, [seed]),
        Err(_) => assert!(outcome.unwrap_err().to_string().contains("PARCAE_SEED is `many`")),
    }
}

// rule: S0-DETERM-1, S0-GOAL-4, S0-TESTRT-1, S0-TESTRT-2
#[test]
fn the_same_seed_gives_the_same_run_of_nurseries_budgets_and_cancels() {
    let log = |seed| {
        let rt = Runtime::builder().workers(3).seed(seed).deterministic(seed).build().unwrap();
        let outcome = rt.run(|cx| {
            let opts = NurseryOpts::new()
                .budget(Budget { spawn_count: 40, ..ops(20_000) })
                .slice(Budget { spawn_count: 4, ..ops(700) })
                .on_failure(OnFailure::Isolate);
            cx.nursery_with(opts, |n| {
                for child in 0..8 {
                    n.spawn(move |cx| match child % 4 {
                        0 => work(cx, 3_000),
                        1 => cx.nursery(|n| n.spawn(|cx| work(cx, 2_000))?.join()),
                        2 => asleep(cx),
                        _ => forever(cx),
                    })?;
                }
                for _ in 0..30 {
                    cx.yield_now()?;
                }
                n.cancel();
                Ok(())
            })
        });
        (rt.event_log(), outcome.unwrap_err().to_string())
    };
    for seed in 0..20 {
        let first = log(seed);
        assert!(!first.0.is_empty());
        assert!(first == log(seed), "seed {seed}");
    }
    assert_ne!(log(1).0, log(2).0);
}

#[test]
fn the_seed_of_a_runtime_can_be_asked_for() {
    let rt = Runtime::builder().deterministic(77).build().unwrap();
    assert_eq!(rt.seed(), 77);
    assert_eq!(Runtime::builder().seed(5).build().unwrap().seed(), 5);
}
