//! A turn is never longer than the yield interval, whatever the task charges and however its budget
//! reaches it.

use parcae::nursery::NurseryEvent;
use parcae::prelude::*;
use parcae::profile::{Cluster, Core, Profile, Service, Sovereign};
use parcae::{Error, Result};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

const INTERVAL: u64 = 100;

/// Runs `greedy` beside a task that counts how often it gets to run, on one worker. `greedy` calls
/// its argument after every checkpoint. Returns the largest number of checkpoints in one turn.
fn longest_turn(
    opts: NurseryOpts,
    greedy: impl Fn(&Cx, &mut dyn FnMut()) -> parcae::Result<()> + Send + Sync,
) -> u64 {
    let rt = Runtime::builder()
        .deterministic(7)
        .workers(1)
        .yield_interval(INTERVAL)
        .build()
        .expect("a runtime");
    let (looks, done, longest) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    rt.run(|cx| {
        cx.nursery_with(opts, |n| {
            n.spawn(|cx| {
                let (mut seen, mut turn) = (looks.load(Relaxed), 0);
                let result = greedy(cx, &mut || {
                    let now = looks.load(Relaxed);
                    turn = if now == seen { turn + 1 } else { 1 };
                    seen = now;
                    longest.fetch_max(turn, Relaxed);
                });
                done.store(true, Relaxed);
                result
            })?;
            n.spawn(|cx| {
                while !done.load(Relaxed) {
                    looks.fetch_add(1, Relaxed);
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            Ok(())
        })
    })
    .expect("all end well");
    assert!(looks.load(Relaxed) > 10, "the other task hardly ran");
    longest.load(Relaxed)
}

// rule: S0-GOAL-1
#[test]
fn a_charge_between_checkpoints_does_not_start_a_turn() {
    let longest = longest_turn(NurseryOpts::new(), |cx, step| {
        for _ in 0..5_000 {
            cx.checkpoint()?;
            step();
            cx.charge(Budget::ZERO.with_syscalls(1))?;
        }
        Ok(())
    });
    assert!(longest <= INTERVAL, "{longest} checkpoints in one turn");
}

#[test]
fn charges_alone_let_others_run() {
    for cost in [Budget::OP, Budget::ZERO, Budget::ZERO.with_syscalls(3)] {
        let longest = longest_turn(NurseryOpts::new(), |cx, step| {
            for _ in 0..5_000 {
                cx.charge(cost)?;
                step();
            }
            Ok(())
        });
        assert!(longest <= INTERVAL, "{longest} charges of {cost:?} in one turn");
    }
}

#[test]
fn charged_ops_count_towards_the_turn() {
    let longest = longest_turn(NurseryOpts::new(), |cx, step| {
        for _ in 0..2_000 {
            cx.charge(Budget::OP.times(10))?;
            step();
        }
        Ok(())
    });
    assert!(longest <= INTERVAL / 10, "{longest} charges of 10 ops in one turn");
}

// rule: S0-INTERVAL-1
#[test]
fn a_refill_does_not_start_a_turn() {
    // A slice that ends in the middle of a turn, and one that is as long as some turns.
    for slice in [30, 100, 250, 1_000] {
        let opts = NurseryOpts::new()
            .budget(Budget::UNLIMITED.with_ops(1_000_000))
            .slice(Budget { ops: slice, ..Budget::UNLIMITED });
        let longest = longest_turn(opts, |cx, step| {
            for _ in 0..5_000 {
                cx.checkpoint()?;
                step();
            }
            Ok(())
        });
        assert!(longest <= INTERVAL, "{longest} checkpoints in one turn, slices of {slice}");
    }
}

#[test]
fn opening_and_leaving_a_nursery_does_not_start_a_turn() {
    let longest = longest_turn(NurseryOpts::new(), |cx, step| {
        for round in 0..3_000 {
            if round % 50 == 0 {
                let part = Budget::UNLIMITED.with_ops(100);
                cx.nursery_with(NurseryOpts::new().budget(part), |_| Ok(()))?;
                cx.nursery(|_| Ok(()))?;
            }
            cx.checkpoint()?;
            step();
        }
        Ok(())
    });
    assert!(longest <= INTERVAL, "{longest} checkpoints in one turn");
}

// rule: S0-INTERVAL-1
#[test]
fn a_recharge_does_not_start_a_turn() {
    let rt = Runtime::builder()
        .deterministic(3)
        .workers(1)
        .yield_interval(INTERVAL)
        .build()
        .expect("a runtime");
    let (looks, longest) = (AtomicU64::new(0), AtomicU64::new(0));
    let opts = NurseryOpts::new()
        .budget(Budget::UNLIMITED.with_ops(1_000))
        .on_exhausted(OnExhausted::Suspend);
    rt.run(|cx| {
        cx.nursery_with(opts, |n| {
            let task = n.spawn(|cx| {
                let (mut seen, mut turn) = (0, 0);
                for _ in 0..4_000 {
                    cx.checkpoint()?;
                    let now = looks.load(Relaxed);
                    turn = if now == seen { turn + 1 } else { 1 };
                    seen = now;
                    longest.fetch_max(turn, Relaxed);
                }
                Ok(())
            })?;
            while !task.is_finished() {
                looks.fetch_add(1, Relaxed);
                if !n.suspended().is_empty() {
                    n.recharge(Budget { ops: 777, ..Budget::ZERO })?;
                }
                cx.yield_now()?;
            }
            task.join()
        })
    })
    .expect("all end well");
    let longest = longest.load(Relaxed);
    assert!(longest <= INTERVAL, "{longest} checkpoints in one turn");
}

// rule: S0-CHECK-1, S0-GOAL-1, S0-INTERVAL-1, S0-INTERVAL-2, S0-INTERVAL-3, S0-INTERVAL-4
// rule: S0-PROFILE-5, S1-MODULE-1, S1-MODULE-2, S1-PROFILE-2, S1-PROFILE-3
#[test]
fn a_turn_has_as_many_ops_as_the_profile_or_the_builder_says() {
    fn turns<P: Profile>(interval: Option<u64>, ops: u64) -> u64 {
        let builder = Runtime::builder().workers(1).profile::<P>().deterministic(1);
        let builder = match interval {
            Some(ops) => builder.yield_interval(ops),
            None => builder,
        };
        let rt = builder.build().unwrap();
        rt.run(|cx| (0..ops).try_for_each(|_| cx.checkpoint())).unwrap();
        rt.stats().counters().yielded
    }
    assert_eq!(turns::<Core>(None, 10 * 1024 + 1), 10);
    assert_eq!(turns::<Service>(None, 10 * 1024 + 1), 10);
    assert_eq!(turns::<Cluster>(None, 10 * 512 + 1), 10);
    assert_eq!(turns::<Sovereign>(Some(100), 10 * 100 + 1), 10);
    assert_eq!(turns::<Service>(Some(7), 10 * 7 + 1), 10);
    assert_eq!(turns::<Service>(None, 1024), 0);
}

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).temporary_workers(0).yield_interval(100).build().unwrap()
}

#[test]
fn a_hook_makes_no_turn_longer() {
    static LONGEST: AtomicU64 = AtomicU64::new(0);
    static TURN: AtomicU64 = AtomicU64::new(0);
    fn step() {
        LONGEST.fetch_max(TURN.fetch_add(1, SeqCst) + 1, SeqCst);
    }
    let (started, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let host = NurseryOpts::new().on_failure(OnFailure::Isolate).on_event(|event| {
        if let NurseryEvent::Failed { .. } = event {
            for _ in 0..1_000 {
                parcae::checkpoint().unwrap();
                step();
            }
        }
    });
    one_worker()
        .nursery(host, |n| {
            n.spawn(|cx| {
                while !done.load(SeqCst) {
                    started.store(true, SeqCst);
                    TURN.store(0, SeqCst);
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            while !started.load(SeqCst) {
                parcae::yield_now()?;
            }
            let failing = n.spawn(|cx| -> Result<()> {
                for _ in 0..99 {
                    cx.checkpoint()?;
                    step();
                }
                Err(Error::msg("fails in the middle of a turn"))
            })?;
            failing.join().unwrap_err();
            done.store(true, SeqCst);
            Ok(())
        })
        .unwrap();
    assert!(LONGEST.load(SeqCst) <= 101, "a turn of {LONGEST:?} at an interval of 100");
}
