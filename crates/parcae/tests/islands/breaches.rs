//! Operations that sealed code is refused, and how an island answers.

use crate::{ms, us};
use parcae::channel::channel;
use parcae::island::{Island, IslandPlan, Stage};
use parcae::policy::{ContextOpts, IslandRefused, OverrunPolicy, Refill, Response};
use parcae::prelude::*;
use parcae::profile::Service;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operation of sealed code, in an island beside which there are a nursery and a runtime.
type Act<'a> =
    dyn for<'s> Fn(&mut Stage<'_, Service>, &'s Nursery<'s, '_>) -> parcae::Result<()> + Sync + 'a;

/// An island of a stage that acts in its third period, and one that goes on for 20 periods. Returns
/// the result of the island and of the act.
fn act(
    seed: u64,
    response: Response,
    act: &Act<'_>,
) -> (parcae::Result<()>, Option<parcae::Result<()>>, Island) {
    let rt = Runtime::builder().deterministic(seed).workers(2).build().unwrap();
    let mut plan = IslandPlan::new("audio").response(response);
    let opts = ContextOpts::new(ms(2), ms(10)).refill(Refill::HardCbs).check_distance(us(50));
    let (first, second) = (plan.stage("acting", opts), plan.stage("steady", opts));
    let island = rt.admit_island(plan).unwrap();
    let (acted, run) = rt
        .run(|cx| {
            cx.nursery(|n| {
                let acted = std::sync::Mutex::new(None);
                let run = island.run(cx, |code| {
                    let acted = &acted;
                    code.stage(first, move |stage| {
                        stage.next_period()?;
                        stage.next_period()?;
                        stage.next_period()?;
                        let result = act(stage, n);
                        *acted.lock().unwrap() = Some(result);
                        // It ignores the error.
                        (0..10).try_for_each(|_| stage.next_period().map(drop))
                    })?;
                    code.stage(second, |stage| {
                        (0..20).try_for_each(|_| stage.next_period().map(drop))
                    })
                });
                Ok((acted.into_inner().unwrap(), run))
            })
        })
        .unwrap();
    (run, acted, island)
}

fn refusal(result: &parcae::Result<()>) -> Option<IslandRefused> {
    match result.as_ref().err()?.kind() {
        ErrorKind::IslandRefused(refused) => Some(*refused),
        _ => None,
    }
}

// rule: S3-GATE-17
#[test]
fn sealed_code_is_refused_operations_without_a_bound() {
    let (sender, _receiver) = channel::<u32>(1);
    sender.try_send(1).unwrap();
    let (_sender, empty) = channel::<u32>(1);
    let lock = parcae::sync::Mutex::new(0);
    let acts: [(&Act<'_>, IslandRefused); 9] = [
        (&|_, _| parcae::blocking(|| ()), IslandRefused::Blocking),
        (&|_, _| sender.send(2).map_err(Into::into), IslandRefused::Wait),
        (&|stage, _| stage.cx().park(), IslandRefused::Wait),
        (&|_, _| empty.recv().map(drop).map_err(Into::into), IslandRefused::Wait),
        (&|_, n| n.spawn(|_| Ok(())).map(drop), IslandRefused::Spawn),
        (&|stage, _| stage.cx().nursery(|_| Ok(())), IslandRefused::Nursery),
        (
            &|stage, _| {
                stage.cx().nursery_with(NurseryOpts::new().budget(Budget::CHILD), |_| Ok(()))
            },
            IslandRefused::Nursery,
        ),
        (
            &|_, _| {
                let _held = lock.try_lock();
                lock.lock().map(drop) // held by the task itself: it would wait for ever
            },
            IslandRefused::Wait,
        ),
        (
            &|stage, _| {
                black_box(vec![0_u8; 1000]);
                stage.cx().checkpoint()
            },
            IslandRefused::Allocation { times: 1, bytes: 1000 },
        ),
    ];
    for seed in 0..8 {
        for (number, (operation, expected)) in acts.iter().enumerate() {
            let case = format!("seed {seed}, act {number}");
            let (run, acted, island) = act(seed, Response::Report, operation);
            assert_eq!(refusal(&acted.unwrap()), Some(*expected), "{case}");
            assert!(run.is_ok(), "{case}: {run:?}");
            let telemetry = island.telemetry();
            assert_eq!(telemetry.stages[0].refused, 1, "{case}: {telemetry}");
            assert_eq!(telemetry.stages[0].jobs, 13, "{case}: the others work");
            assert_eq!(telemetry.stages[1].jobs, 20, "{case}");

            let (run, _, island) = act(seed, Response::Stop, operation);
            assert_eq!(refusal(&run), Some(*expected), "{case}: {run:?}");
            let text = run.unwrap_err().to_string();
            assert!(text.contains("stage `acting` of the island `audio`"), "{case}: {text}");
            let telemetry = island.telemetry();
            assert_eq!(telemetry.stages[0].jobs, 3, "{case}: it has no further job");
            assert!(telemetry.stages[1].jobs < 6, "{case}: all stop, {telemetry}");
            assert!(island.is_stopped() && island.contexts()[0].is_revoked(), "{case}");
        }
    }
}

/// Operations with a bound, and those that do not wait, are no breach.
#[test]
fn sealed_code_may_wait_with_a_deadline() {
    let (sender, receiver) = channel::<u32>(1);
    sender.try_send(1).unwrap(); // the channel has its memory from now on
    receiver.try_recv().unwrap();
    let acts: [&Act<'_>; 4] = [
        &|_, _| {
            assert!(receiver.recv_timeout(us(300)).unwrap_err().is_timeout());
            sender.try_send(1).map_err(parcae::Error::from)?;
            receiver.try_recv()?;
            Ok(())
        },
        &|stage, _| stage.cx().sleep(us(300)),
        &|stage, _| stage.cx().yield_now(),
        &|stage, _| stage.cx().checkpoint(),
    ];
    for seed in 0..8 {
        for (number, operation) in acts.iter().enumerate() {
            // An error that the runtime makes for the stage is no allocation of the stage.
            let (run, acted, island) = act(seed, Response::Report, *operation);
            let acted = acted.unwrap();
            assert!(acted.is_ok() && run.is_ok(), "seed {seed}, act {number}: {acted:?}, {run:?}");
            let refused = island.telemetry().stages[0].refused;
            assert_eq!(refused, 0, "seed {seed}, act {number}: {}", island.telemetry());
        }
    }
}

/// A deadline around the code bounds all waits in it. `Cx::timeout` allocates, so it is opened
/// before the first period.
#[test]
fn a_deadline_around_the_code_bounds_its_waits() {
    for seed in 0..8 {
        let rt = Runtime::builder().deterministic(seed).workers(2).build().unwrap();
        let mut plan = IslandPlan::new("audio");
        let id = plan.stage("only", ContextOpts::new(ms(2), ms(10)).refill(Refill::HardCbs));
        let island = rt.admit_island(plan).unwrap();
        let (_sender, receiver) = channel::<u32>(1);
        let run = rt.run(|cx| {
            island.run(cx, |code| {
                code.stage(id, |stage| {
                    let waited = stage.cx().timeout(ms(30), || {
                        stage.next_period()?;
                        receiver.recv().map_err(Into::into)
                    });
                    assert!(waited.unwrap_err().is_timed_out());
                    Ok(())
                })
            })
        });
        assert!(run.is_ok(), "seed {seed}: {run:?}");
    }
}

/// Code before the first period may allocate, also if its memory is counted; and the memory of a
/// stage is as before when it has ended.
#[test]
fn preparations_may_allocate() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let mut plan = IslandPlan::new("audio");
    let id = plan.stage("only", ContextOpts::new(ms(2), ms(10)));
    let island = rt.admit_island(plan).unwrap();
    let sum = AtomicU64::new(0);
    rt.run(|cx| {
        island.run(cx, |code| {
            code.stage(id, |stage| {
                let line = vec![1_u64; 1000];
                for _ in 0..5 {
                    stage.next_period()?;
                    sum.fetch_add(line.iter().sum(), Ordering::Relaxed);
                }
                Ok(())
            })
        })
    })
    .unwrap();
    assert_eq!(sum.into_inner(), 5_000);
    assert_eq!(island.telemetry().stages[0].allocations, 0);
}

/// An island of two stages, the first of which computes for so many ops in its third job.
fn overload(
    seed: u64,
    ops: u64,
    response: Response,
    policy: OverrunPolicy,
) -> (parcae::Result<()>, Island) {
    let rt = Runtime::builder().deterministic(seed).workers(2).build().unwrap();
    let mut plan = IslandPlan::new("audio").response(response);
    let opts = ContextOpts::new(ms(2), ms(10)).overrun(policy).check_distance(us(50));
    let (first, second) = (plan.stage("busy", opts), plan.stage("steady", opts));
    let island = rt.admit_island(plan).unwrap();
    let run = rt.run(|cx| {
        island.run(cx, |code| {
            code.stage(first, move |stage| {
                for job in 0..12 {
                    stage.next_period()?;
                    let ops = if job == 2 { ops } else { 100 };
                    (0..ops).try_for_each(|_| stage.cx().checkpoint())?;
                }
                Ok(())
            })?;
            code.stage(second, |stage| (0..30).try_for_each(|_| stage.next_period().map(drop)))
        })
    });
    (run, island)
}

// rule: S3-GATE-18, S3-GATE-19
#[test]
fn a_missed_deadline_stops_the_island_or_is_counted() {
    for seed in 0..20 {
        // 5 ms of work on 2 ms of each 10 ms: it ends in its third period.
        let (run, island) = overload(seed, 5_000, Response::Stop, OverrunPolicy::Notify);
        let Some(IslandRefused::Missed { by }) = refusal(&run) else { panic!("{run:?}") };
        assert!((ms(10)..ms(12)).contains(&by), "seed {seed}: {by:?}");
        let telemetry = island.telemetry();
        assert_eq!((telemetry.stages[0].jobs, telemetry.stages[0].missed), (3, 1), "{telemetry}");
        assert!(telemetry.stages[1].jobs < 8, "seed {seed}: all stop: {telemetry}");

        let (run, island) = overload(seed, 5_000, Response::Report, OverrunPolicy::Notify);
        run.unwrap();
        let telemetry = island.telemetry();
        assert_eq!((telemetry.stages[0].jobs, telemetry.stages[1].jobs), (12, 30), "{telemetry}");
        assert!(telemetry.stages[0].missed >= 1 && telemetry.stages[1].missed == 0);
        assert!((ms(10)..ms(12)).contains(&telemetry.stages[0].worst_miss), "{telemetry}");
        assert_eq!(telemetry.first_breach, None);
    }
}

/// One charge of far more than the budget ends the context, and with it the island.
// rule: S3-GATE-19
#[test]
fn an_overrun_fails_closed() {
    for seed in 0..20 {
        let rt = Runtime::builder().deterministic(seed).workers(2).build().unwrap();
        let mut plan = IslandPlan::new("audio").response(Response::Stop);
        let opts = ContextOpts::new(ms(2), ms(10)).check_distance(us(50));
        let (first, second) = (plan.stage("busy", opts), plan.stage("steady", opts));
        let island = rt.admit_island(plan).unwrap();
        let run = rt.run(|cx| {
            island.run(cx, |code| {
                code.stage(first, move |stage| {
                    loop {
                        stage.next_period()?;
                        stage.cx().charge(Budget::ZERO.with_ops(3_000))?;
                    }
                })?;
                code.stage(second, |stage| (0..30).try_for_each(|_| stage.next_period().map(drop)))
            })
        });
        assert_eq!(refusal(&run), Some(IslandRefused::Overrun), "seed {seed}: {run:?}");
        let telemetry = island.telemetry();
        assert!(telemetry.stages[0].overruns > 0 && telemetry.stages[1].jobs < 10, "{telemetry}");
        assert!(island.contexts()[0].is_revoked());
    }
}

/// Budgets that are counted, and drawn in portions, do not lift the seal.
#[test]
fn counted_budgets_do_not_lift_the_seal() {
    let budget = Budget::UNLIMITED.with_ops(1_000_000).with_memory(1 << 30);
    let builder = Runtime::builder().deterministic(1).budget(budget);
    let rt = builder.on_exhausted(OnExhausted::Refill).build().unwrap();
    let mut plan = IslandPlan::new("audio").response(Response::Report);
    let id = plan.stage("only", ContextOpts::new(ms(2), ms(10)).refill(Refill::HardCbs));
    let island = rt.admit_island(plan).unwrap();
    let refused = rt.run(|cx| {
        let (mut refused, into) = (None, std::sync::Mutex::new(None));
        island.run(cx, |code| {
            code.stage(id, |stage| {
                for _ in 0..50 {
                    stage.next_period()?;
                    (0..1_500).try_for_each(|_| stage.cx().checkpoint())?;
                }
                *into.lock().unwrap() = Some(stage.cx().park());
                Ok(())
            })
        })?;
        if let Some(result) = into.into_inner().unwrap() {
            refused = refusal(&result);
        }
        Ok(refused)
    });
    assert_eq!(refused.unwrap(), Some(IslandRefused::Wait));
    assert_eq!(island.telemetry().stages[0].jobs, 50);
}
