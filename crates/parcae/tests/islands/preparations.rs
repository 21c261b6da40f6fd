//! Stages that behave strangely before their first period, and at it.

use crate::ms;
use parcae::island::{Island, IslandPlan, Stage, StageId};
use parcae::policy::{ContextOpts, IslandRefused, Refill, Response};
use parcae::prelude::*;
use parcae::profile::Service;
use std::sync::Mutex;
use std::time::Duration;

type Code<'c> = dyn Fn(&mut Stage<'_, Service>) -> parcae::Result<()> + Sync + 'c;

fn plan() -> (IslandPlan, [StageId; 2]) {
    let mut plan = IslandPlan::new("island").response(Response::Stop);
    let opts = ContextOpts::new(ms(2), ms(10)).refill(Refill::HardCbs);
    let stages = [plan.stage("first", opts), plan.stage("second", opts)];
    (plan, stages)
}

/// Runs an island of two stages with this code.
fn run(first: &Code<'_>, second: &Code<'_>) -> (parcae::Result<()>, Island) {
    let budget = Budget::UNLIMITED.with_memory(1 << 30).with_ops(1 << 30);
    let rt = Runtime::builder().deterministic(1).workers(1).budget(budget).build().unwrap();
    let (plan, stages) = plan();
    let island = rt.admit_island(plan).unwrap();
    let run = rt.run(|cx| {
        // A hang is a failure, and not the end of the virtual time.
        cx.timeout(Duration::from_secs(60), || {
            island.run(cx, |code| {
                code.stage(stages[0], |stage| first(stage))?;
                code.stage(stages[1], |stage| second(stage))
            })
        })
    });
    (run, island)
}

fn some_periods(stage: &mut Stage<'_, Service>) -> parcae::Result<()> {
    (0..3).try_for_each(|_| stage.next_period().map(drop))
}

fn refusal(result: &parcae::Result<()>) -> Option<IslandRefused> {
    match result.as_ref().err()?.kind() {
        ErrorKind::IslandRefused(refused) => Some(*refused),
        _ => None,
    }
}

/// The others would wait at the gate for ever.
#[test]
fn a_stage_that_ends_before_its_first_period_ends_the_island() {
    let (run, island) = run(&|_| Ok(()), &some_periods);
    assert_eq!(refusal(&run), Some(IslandRefused::Early), "{run:?}");
    assert_eq!(island.telemetry().stages[1].jobs, 0);
}

/// A stage that gives up at the gate and comes again is one stage.
#[test]
fn a_stage_that_comes_twice_counts_once() {
    let impatient = |stage: &mut Stage<'_, Service>| {
        let cx = stage.cx();
        while cx.timeout(ms(1), || stage.next_period().map(drop)).is_err() {
            cx.checkpoint()?;
        }
        some_periods(stage)
    };
    let ready = Mutex::new(None);
    let late = |stage: &mut Stage<'_, Service>| {
        stage.cx().sleep(ms(20))?;
        *ready.lock().unwrap() = Some(parcae::time::now());
        some_periods(stage)
    };
    let (run, island) = run(&impatient, &late);
    run.unwrap();
    let jobs: Vec<_> = island.telemetry().stages.iter().map(|stage| stage.jobs).collect();
    assert_eq!(jobs, [4, 3]);
    assert!(ready.lock().unwrap().is_some());
}

/// The memory that the seal puts aside is there after it, also if the first period is in a nursery
/// that the stage has opened. Debug builds check the sums of all pools.
#[test]
fn the_first_period_may_be_in_a_nursery_of_the_stage() {
    let nested = |stage: &mut Stage<'_, Service>| {
        let cx = stage.cx();
        let kept = vec![0_u8; 10_000];
        cx.nursery(|_| {
            drop(kept);
            stage.next_period().map(drop)
        })?;
        some_periods(stage)
    };
    let (run, island) = run(&nested, &some_periods);
    run.unwrap();
    assert_eq!(island.telemetry().stages[0].jobs, 4);
}

/// An error of a refused operation is memory that the stage has not paid for.
#[test]
fn refused_operations_make_no_budget() {
    let rt_budget = Budget::UNLIMITED.with_memory(1 << 30).with_ops(1 << 30);
    let rt = Runtime::builder().deterministic(1).workers(1).budget(rt_budget).build().unwrap();
    let (plan, stages) = plan();
    let island = rt.admit_island(plan.response(Response::Report)).unwrap();
    rt.run(|cx| {
        island.run(cx, |code| {
            code.stage(stages[0], |stage| {
                let kept = vec![0_u8; 100_000]; // freed after the errors
                stage.next_period()?;
                for _ in 0..200 {
                    assert!(stage.cx().park().is_err());
                }
                drop(kept);
                some_periods(stage)
            })?;
            code.stage(stages[1], |stage| some_periods(stage))
        })
    })
    .unwrap();
    assert_eq!(island.telemetry().stages[0].refused, 200);
}

#[test]
fn a_stage_that_panics_in_sealed_code_ends_the_island_with_its_panic() {
    let fails = |stage: &mut Stage<'_, Service>| {
        some_periods(stage)?;
        panic!("in sealed code");
    };
    let forever = |stage: &mut Stage<'_, Service>| loop {
        stage.next_period()?;
    };
    let (run, island) = run(&fails, &forever);
    assert!(run.unwrap_err().to_string().contains("in sealed code"));
    assert!(island.telemetry().stages[1].jobs <= 5);
}
