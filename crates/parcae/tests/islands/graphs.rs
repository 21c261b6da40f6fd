//! Islands as a whole: admission, preparation, start and end, beside other work.

use crate::{ms, us};
use parcae::island::{Island, IslandPlan, LockMemory, StageId, pipe};
use parcae::policy::{Assurance, ContextOpts, IslandRefused, LeaseFact, Response};
use parcae::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The plan of a graph of three stages with a period of 10 ms.
fn graph(response: Response) -> (IslandPlan, [StageId; 3]) {
    let mut plan = IslandPlan::new("audio").response(response);
    let stages = ["source", "filter", "mixer"]
        .map(|name| plan.stage(name, ContextOpts::new(ms(2), ms(10)).check_distance(us(50))));
    (plan, stages)
}

/// Computes for so many microseconds of the deterministic executor.
fn work(cx: &Cx, time: u64) -> parcae::Result<()> {
    (0..time).try_for_each(|_| cx.checkpoint())
}

/// Best-effort load until the flag falls.
fn hostile<'s>(n: &'s Nursery<'s, '_>, over: &'s AtomicBool) -> parcae::Result<()> {
    for number in 0..6 {
        n.spawn(move |cx| {
            let mut hoard = Vec::new();
            while !over.load(Ordering::Relaxed) {
                work(cx, 20 + number)?;
                match number % 3 {
                    0 => cx.yield_now()?,
                    1 => cx.sleep(us(100))?,
                    _ => hoard = vec![number; 100],
                }
            }
            drop(hoard);
            Ok(())
        })?;
    }
    Ok(())
}

/// All of a machine that contexts may have, in one context: admitted if nothing else is.
fn takes_all(rt: &Runtime) {
    for worker in 0..2 {
        let all = ContextOpts::new(us(8_900), ms(10));
        let on = parcae::policy::WorkerSet::of(worker);
        rt.admit(all.workers(on)).expect("nothing else is admitted");
    }
}

// rule: S3-ISLAND-1, S3-ISLAND-5, S3-GATE-18
#[test]
fn a_graph_keeps_its_periods_beside_hostile_load() {
    for seed in 0..30 {
        let rt = Runtime::builder().deterministic(seed).workers(2).build().unwrap();
        let (plan, [source, filter, mixer]) = graph(Response::Stop);
        let island = rt.admit_island(plan).unwrap();
        let ((raw, to_filter), (filtered, to_mixer)) = (pipe::<u64>(4), pipe::<u64>(4));
        let (over, mixed) = (AtomicBool::new(false), AtomicU64::new(0));
        rt.run(|cx| {
            cx.nursery(|n| {
                hostile(n, &over)?;
                let run = island.run(cx, |stages| {
                    stages.stage(source, move |stage| {
                        for sample in 0..20 {
                            stage.next_period()?;
                            work(stage.cx(), 500)?;
                            raw.send(sample).expect("the filter is not that late");
                        }
                        Ok(())
                    })?;
                    stages.stage(filter, move |stage| {
                        for _ in 0..20 {
                            stage.next_period()?;
                            work(stage.cx(), 1_000)?;
                            while let Some(sample) = to_filter.receive() {
                                filtered.send(2 * sample).expect("nor is the mixer");
                            }
                        }
                        Ok(())
                    })?;
                    stages.stage(mixer, |stage| {
                        for _ in 0..20 {
                            stage.next_period()?;
                            work(stage.cx(), 800)?;
                            while let Some(sample) = to_mixer.receive() {
                                mixed.fetch_add(sample, Ordering::Relaxed);
                            }
                        }
                        Ok(())
                    })
                });
                over.store(true, Ordering::Relaxed);
                run
            })
        })
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let telemetry = island.telemetry();
        assert!(mixed.into_inner() >= 2 * (0..17).sum::<u64>(), "seed {seed}");
        assert_eq!(telemetry.first_breach, None, "seed {seed}");
        for stage in &telemetry.stages {
            assert_eq!((stage.jobs, stage.missed, stage.overruns), (20, 0, 0), "seed {seed}");
            assert_eq!((stage.allocations, stage.refused), (0, 0), "seed {seed}: {telemetry}");
            assert!(stage.worst_delay < ms(10) && stage.stack > 4096, "{telemetry}");
        }
        let text = telemetry.to_string();
        assert!(text.contains("filter ") && text.contains("worst delay"), "{text}");
        drop(island);
        takes_all(&rt);
    }
}

// rule: S3-ISLAND-4
#[test]
fn admission_takes_all_stages_or_none() {
    let rt = Runtime::builder().deterministic(1).workers(2).build().unwrap();
    let mut plan = IslandPlan::new("greedy");
    for number in 0..5 {
        plan.stage(format!("stage {number}"), ContextOpts::new(ms(4), ms(10)));
    }
    let refused = rt.admit_island(plan).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ContextRefused(_)), "{refused}");
    assert!(refused.to_string().contains("stage 4"), "{refused}");
    takes_all(&rt);
    let empty = rt.admit_island(IslandPlan::new("empty")).unwrap_err();
    assert!(matches!(empty.kind(), ErrorKind::IslandRefused(IslandRefused::Empty)));
    // With a lease, too: both workers must not be leased.
    let (plan, _) = graph(Response::Stop);
    let first = rt.admit_island(plan.lease(|lease| lease)).unwrap();
    let (plan, _) = graph(Response::Stop);
    let refused = rt.admit_island(plan.lease(|lease| lease)).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::LeaseRefused(_) | ErrorKind::ContextRefused(_)));
    drop(first);
    takes_all(&rt);
}

/// The outcome of an island in which one stage fails before it is ready.
fn fails_to_prepare(seed: u64, how: u32) -> (parcae::Result<()>, Island) {
    let rt = Runtime::builder().deterministic(seed).workers(2).build().unwrap();
    let (plan, stages) = graph(Response::Stop);
    let island = rt.admit_island(plan).unwrap();
    let run = rt.run(|cx| {
        island.run(cx, |code| {
            for (number, id) in stages.into_iter().enumerate() {
                if (how, number) == (2, 1) {
                    continue; // no code
                }
                code.stage(id, move |stage| {
                    match (how, number) {
                        (0, 1) => return Err(parcae::Error::msg("no device")),
                        (1, 1) => panic!("no device"),
                        (3, 1) => stage.cx().sleep(ms(50))?, // late, and then there
                        _ => {}
                    }
                    (0..3).try_for_each(|_| stage.next_period().map(drop))
                })?;
            }
            Ok(())
        })
    });
    (run, island)
}

// rule: S3-GATE-17, S3-ISLAND-2
#[test]
fn all_stages_are_prepared_before_one_starts() {
    for seed in 0..20 {
        for how in 0..3 {
            let (run, island) = fails_to_prepare(seed, how);
            let error = run.unwrap_err();
            let is_expected = match how {
                0 | 1 => error.to_string().contains("no device"),
                _ => matches!(
                    error.kind(),
                    ErrorKind::IslandRefused(IslandRefused::Code { stage: 1 })
                ),
            };
            assert!(is_expected, "seed {seed}, {how}: {error}");
            let telemetry = island.telemetry();
            assert!(telemetry.stages.iter().all(|stage| stage.jobs == 0), "seed {seed}, {how}");
        }
        let (run, island) = fails_to_prepare(seed, 3);
        run.unwrap();
        assert!(island.telemetry().stages.iter().all(|stage| stage.jobs == 3), "seed {seed}");
    }
}

#[test]
fn an_island_runs_once_and_stops_when_it_is_told() {
    let rt = Runtime::builder().deterministic(4).workers(2).build().unwrap();
    let (plan, stages) = graph(Response::Stop);
    let island = rt.admit_island(plan).unwrap();
    let answer = rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|cx| {
                cx.sleep(ms(55))?;
                island.stop();
                Ok(())
            })?;
            island.run(cx, |code| {
                for id in stages {
                    code.stage(id, |stage| {
                        loop {
                            stage.next_period()?;
                        }
                    })?;
                }
                Ok(42)
            })
        })
    });
    assert_eq!(answer.unwrap(), 42, "it was told to, and that is no failure");
    assert!(island.is_stopped());
    assert!((5..=7).contains(&island.telemetry().stages[0].jobs));
    let again = rt.run(|cx| island.run(cx, |_| Ok(()))).unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::IslandRefused(IslandRefused::Running)));
}

// rule: S3-ISLAND-3
#[test]
fn an_island_may_have_a_leased_worker() {
    for seed in 0..20 {
        let rt = Runtime::builder().deterministic(seed).workers(2).build().unwrap();
        let (plan, stages) = graph(Response::Stop);
        let island = rt.admit_island(plan.lease(|lease| lease.max_latency(ms(5)))).unwrap();
        let (over, seen) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let home = island.contexts()[0].worker();
        rt.run(|cx| {
            cx.nursery(|n| {
                hostile(n, &over)?;
                let run = island.run(cx, |code| {
                    for id in stages {
                        code.stage(id, move |stage| {
                            for _ in 0..5 {
                                stage.next_period()?;
                                assert_eq!(stage.cx().worker(), home);
                                work(stage.cx(), 300)?;
                            }
                            Ok(())
                        })?;
                    }
                    Ok(())
                });
                for _ in 0..10 {
                    n.spawn(|cx| {
                        seen.lock().unwrap().push(cx.worker());
                        Ok(())
                    })?;
                }
                over.store(true, Ordering::Relaxed);
                run
            })
        })
        .unwrap();
        let proof = island.lease().and_then(|lease| lease.proof()).expect("it was in force");
        assert_eq!(proof.assurance(LeaseFact::Tasks), Assurance::Verified);
        assert!(seen.into_inner().unwrap().iter().all(|&worker| worker != home), "seed {seed}");
        assert!(island.telemetry().stages.iter().all(|stage| stage.missed == 0));
    }
}

/// Stacks are locked where the system permits it, and the telemetry says so; if it is required, it
/// is done or the island does not start.
#[test]
fn stacks_are_locked_in_memory() {
    for lock in [LockMemory::No, LockMemory::IfPermitted, LockMemory::Required] {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let (plan, stages) = graph(Response::Report);
        let island = rt.admit_island(plan.lock_memory(lock)).unwrap();
        let run = rt.run(|cx| {
            island.run(cx, |code| {
                for id in stages {
                    code.stage(id, |stage| stage.next_period().map(drop))?;
                }
                Ok(())
            })
        });
        let locked = island.telemetry().stages.iter().filter(|stage| stage.locked).count();
        match (lock, run) {
            (LockMemory::No, run) => assert!(run.is_ok() && locked == 0),
            (LockMemory::Required, Err(error)) => {
                assert!(matches!(
                    error.kind(),
                    ErrorKind::IslandRefused(IslandRefused::Unlocked { .. })
                ));
            }
            (LockMemory::Required, Ok(())) => assert_eq!(locked, 3),
            (_, run) => assert!(run.is_ok()),
        }
    }
}
