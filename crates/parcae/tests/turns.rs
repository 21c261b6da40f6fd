//! A turn is never longer than the yield interval, whatever the task charges and however its
//! budget reaches it.

use parcae::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

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
