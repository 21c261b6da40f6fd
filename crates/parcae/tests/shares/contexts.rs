//! Scheduling contexts under the deterministic executor, where an op takes a microsecond.

use crate::support::*;
use parcae::budget::UNLIMITED;
use parcae::cap::CapContext;
use parcae::policy::{ContextEventKind, ContextOpts, ContextRefused, OverrunPolicy, Refill};
use parcae::prelude::*;
use parcae::time::now;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn us(time: u64) -> Duration {
    Duration::from_micros(time)
}

/// One virtual worker with turns of a millisecond.
fn one_worker(seed: u64) -> Runtime {
    let builder = Runtime::builder().deterministic(seed).workers(1).yield_interval(1_000);
    builder.build().expect("a runtime")
}

/// Computes for so many microseconds.
fn work(cx: &Cx, time: u64) -> parcae::Result<()> {
    (0..time).try_for_each(|_| cx.checkpoint())
}

fn refusal(result: parcae::Result<CapContext>) -> ContextRefused {
    match result.expect_err("it does not fit").kind() {
        ErrorKind::ContextRefused(refused) => refused.clone(),
        other => panic!("{other:?}"),
    }
}

// rule: S3-SC-8, S3-GATE-9, S3-GOAL-5
#[test]
fn admission_refuses_what_the_worker_cannot_keep() {
    let rt = one_worker(1);
    let half = rt.admit(ContextOpts::new(ms(5), ms(10))).unwrap();
    let third = rt.admit(ContextOpts::new(ms(6), ms(20))).unwrap();
    let fifth = ContextOpts::new(ms(2), ms(10));
    assert!(matches!(refusal(rt.admit(fifth)), ContextRefused::Rejected(_)));
    assert!(refusal(rt.admit(fifth)).to_string().contains("% can be promised"));
    drop(third);
    let again = rt.admit(fifth).unwrap();
    half.revoke();
    rt.admit(ContextOpts::new(ms(6), ms(10))).unwrap();
    assert_ne!(half.serial(), again.serial());
    // Terms that make no sense, whatever the load is.
    assert!(matches!(refusal(rt.admit(ContextOpts::new(ms(2), ms(1)))), ContextRefused::Terms(_)));
    assert!(matches!(
        refusal(rt.admit(ContextOpts::new(Duration::ZERO, ms(1)))),
        ContextRefused::Terms(_)
    ));
}

/// Computes and sleeps by turns under a bound of 2500 ops; the number of checkpoints.
fn bounded(cx: &Cx) -> u64 {
    let mut used = 0;
    cx.limit_ops(2_500, Err, || {
        while cx.checkpoint().is_ok() {
            used += 1;
            if used % 70 == 0 {
                let _ = cx.sleep(us(10)); // it goes on in the same turn
            }
        }
    });
    used
}

/// Turns that are cut to a deadline take nothing from a bound on ops.
#[test]
fn a_bound_on_ops_is_exact_on_a_context() {
    for seed in 0..10 {
        let rt = one_worker(seed);
        let expected = rt.run(|cx| Ok(bounded(cx))).unwrap();
        assert!(expected > 2_000, "{expected}");
        let context = rt.admit(ContextOpts::new(us(300), ms(1))).unwrap();
        let ended = AtomicU64::new(0);
        let used = rt.run(|cx| {
            cx.nursery(|around| {
                // Its deadlines cut turns that began before they were set.
                around.spawn(|cx| {
                    (0..).take_while(|_| ended.load(Ordering::Relaxed) == 0).try_for_each(|nap| {
                        cx.sleep(us(20 + nap % 7)) // so that they meet turns at any place
                    })
                })?;
                let opts = NurseryOpts::new().context(&context);
                let used = cx.nursery_with(opts, |n| n.spawn(|cx| Ok(bounded(cx)))?.join());
                ended.store(1, Ordering::Relaxed);
                used
            })
        });
        assert_eq!(used.unwrap(), expected, "seed {seed}");
    }
}

/// A task that goes on after its context was revoked takes turns with those without a context.
#[test]
fn a_revoked_task_that_goes_on_delays_no_context() {
    for seed in 0..5 {
        let rt = one_worker(seed);
        let rogue = rt.admit(ContextOpts::new(ms(1), ms(10))).unwrap();
        let steady = rt.admit(ContextOpts::new(ms(2), ms(10))).unwrap();
        let ended = AtomicU64::new(0);
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                let ended = &ended;
                let goes_on = move |_: &u64| ended.load(Ordering::Relaxed) == 0;
                n.spawn_with(SpawnOpts::new().context(&rogue), move |cx| {
                    (0..1_000_000).take_while(goes_on).for_each(|_| drop(cx.checkpoint()));
                    Ok(())
                })?;
                let jobs = n.spawn_with(SpawnOpts::new().context(&steady), |cx| {
                    (0..10).try_for_each(|_| {
                        cx.next_period()?;
                        work(cx, 1_000)
                    })
                })?;
                cx.sleep(ms(3))?;
                rogue.revoke();
                jobs.join()?;
                ended.store(1, Ordering::Relaxed);
                Ok(())
            })
        })
        .unwrap();
        let stats = steady.stats();
        assert_eq!((stats.jobs >= 9, stats.late), (true, 0), "seed {seed}: {stats:?}");
        assert!(rogue.is_revoked());
    }
}

/// Each of four workers takes what it can.
#[test]
fn admission_spreads_contexts_over_workers() {
    let rt = Runtime::builder().deterministic(1).workers(4).build().unwrap();
    let all: Vec<CapContext> =
        (0..4).map(|_| rt.admit(ContextOpts::new(ms(6), ms(10))).unwrap()).collect();
    let mut workers: Vec<usize> = all.iter().map(CapContext::worker).collect();
    workers.sort_unstable();
    assert_eq!(workers, [0, 1, 2, 3]);
    assert!(rt.admit(ContextOpts::new(ms(6), ms(10))).is_err());
    let small = rt.admit(ContextOpts::new(ms(1), ms(10))).unwrap();
    let seen = rt.run(|cx| {
        let opts = NurseryOpts::new().context(&small);
        cx.nursery_with(opts, |n| n.spawn(|cx| work(cx, 3_000))?.join())
    });
    seen.unwrap();
    assert!(small.stats().depletions >= 2);
}

/// The budget is enforced beside other work and without it: a task that computes all the time gets
/// its budget in each period, and best effort gets the rest.
// rule: S3-SC-3, S3-SC-4, S3-SC-5, S3-GATE-10, S3-ACCT-4
#[test]
fn a_task_runs_on_its_budget_and_not_beyond() {
    for (seed, hogs) in (0..10).flat_map(|seed| [(seed, 0), (seed, 3)]) {
        let rt = one_worker(seed);
        let cap = rt.admit(ContextOpts::new(ms(2), ms(10))).unwrap();
        let (others, curtain) = (AtomicU64::new(0), Curtain::default());
        let took = rt
            .run(|cx| {
                let began = now();
                cx.nursery(|n| {
                    for _ in 0..hogs {
                        n.spawn(|cx| {
                            while !curtain.is_down() {
                                cx.checkpoint()?;
                                others.fetch_add(1, Ordering::Relaxed);
                            }
                            Ok(())
                        })?;
                    }
                    // Six milliseconds of work in three periods: the last one ends after 22.
                    let opts = NurseryOpts::new().context(&cap);
                    cx.nursery_with(opts, |n| n.spawn(|cx| work(cx, 6_000))?.join())?;
                    curtain.fall();
                    Ok(now() - began)
                })
            })
            .unwrap();
        let stats = cap.stats();
        assert!((us(21_900)..us(23_500)).contains(&took), "{took:?} {stats:?}");
        assert!((us(6_000)..us(6_100)).contains(&stats.used), "{stats:?}");
        assert_eq!(stats.depletions, 3, "{stats:?}");
        assert_eq!(stats.overruns, 0, "{stats:?}");
        if hogs > 0 {
            let others = others.load(Ordering::Relaxed);
            assert!((15_000..17_000).contains(&others), "{others}");
        }
    }
}

/// The periodic tasks of one run: budget and period in milliseconds, utilisation 0.7.
const SET: [(u64, u64); 5] = [(1, 5), (2, 20), (3, 20), (5, 50), (6, 40)];

/// Runs the set beside best effort for so long, and returns the numbers of jobs and of misses.
fn run_set(seed: u64, time: Duration) -> (u64, u64) {
    let rt = one_worker(seed);
    let caps: Vec<CapContext> = SET
        .iter()
        .map(|&(budget, period)| rt.admit(ContextOpts::new(ms(budget), ms(period))).unwrap())
        .collect();
    let curtain = Curtain::default();
    let late = AtomicU64::new(0);
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn(|cx| hog(cx, &curtain))?;
            n.spawn(|cx| {
                while !curtain.is_down() {
                    cx.checkpoint()?;
                    cx.yield_now()?;
                }
                Ok(())
            })?;
            n.spawn(|cx| {
                while !curtain.is_down() {
                    work(cx, 700)?;
                    cx.sleep(us(300))?;
                }
                Ok(())
            })?;
            for ((budget, _), cap) in SET.iter().zip(&caps) {
                let (curtain, late) = (&curtain, &late);
                n.spawn_with(SpawnOpts::new().context(cap), move |cx| {
                    while !curtain.is_down() {
                        let job = cx.next_period()?;
                        work(cx, budget * 1_000 - 10)?;
                        late.fetch_add(u64::from(now() > job.deadline), Ordering::Relaxed);
                    }
                    Ok(())
                })?;
            }
            cx.sleep(time)?;
            curtain.fall();
            Ok(())
        })
    })
    .unwrap();
    let stats = caps.iter().map(CapContext::stats);
    let (jobs, missed) =
        stats.fold((0, 0), |(jobs, late), stats| (jobs + stats.jobs, late + stats.late));
    (jobs, missed + late.load(Ordering::Relaxed))
}

#[test]
fn a_set_of_utilisation_0_7_misses_no_deadline_beside_best_effort() {
    let mut jobs = 0;
    for seed in 0..8 {
        let (ended, missed) = run_set(seed, ms(2_000));
        assert_eq!(missed, 0, "seed {seed}");
        jobs += ended;
    }
    assert!(jobs > 8 * 600, "{jobs}");
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    let log = |seed| {
        let rt = one_worker(seed);
        let cap = rt.admit(ContextOpts::new(ms(1), ms(5))).unwrap();
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| work(cx, 20_000))?;
                n.spawn(|cx| work(cx, 20_000))?;
                n.spawn_with(SpawnOpts::new().context(&cap), |cx| {
                    (0..8).try_for_each(|_| {
                        cx.next_period()?;
                        work(cx, 900)
                    })
                })?;
                Ok(())
            })
        })
        .unwrap();
        rt.event_log()
    };
    assert_eq!(log(3), log(3));
}

/// Jobs of two contexts are served by deadline, and those of a higher band before.
// rule: S3-SC-1
#[test]
fn earlier_deadlines_and_higher_bands_go_first() {
    let order = |band_of_long: u8| {
        let rt = one_worker(1);
        let opts = |budget, period| ContextOpts::new(ms(budget), ms(period));
        let long = rt.admit(opts(3, 50).band(band_of_long)).unwrap();
        let short = rt.admit(opts(3, 20)).unwrap();
        let order = Mutex::new(Vec::new());
        rt.run(|cx| {
            cx.nursery(|n| {
                for (name, cap) in [("long", &long), ("short", &short)] {
                    let order = &order;
                    n.spawn_with(SpawnOpts::new().context(cap), move |cx| {
                        cx.next_period()?;
                        work(cx, 2_000)?;
                        order.lock().unwrap().push(name);
                        Ok(())
                    })?;
                }
                Ok(())
            })
        })
        .unwrap();
        order.into_inner().unwrap()
    };
    assert_eq!(order(0), ["short", "long"]);
    assert_eq!(order(1), ["long", "short"]);
}

/// Ops that are charged at once overrun the budget: they are paid back, told, and not tolerated if
/// the policy says so.
// rule: S3-SC-2
#[test]
fn overruns_are_paid_back_and_told() {
    let rt = one_worker(1);
    let opts = ContextOpts::new(ms(1), ms(10)).overrun(OverrunPolicy::Notify);
    let cap = rt.admit(opts).unwrap();
    let at = rt
        .run(|cx| {
            let began = now();
            cx.nursery_with(NurseryOpts::new().context(&cap), |n| {
                n.spawn(move |cx| {
                    cx.charge(Budget { ops: 2_500, ..Budget::ZERO })?;
                    cx.checkpoint()?;
                    cx.checkpoint()?;
                    Ok(now() - began)
                })?
                .join()
            })
        })
        .unwrap();
    // Two and a half budgets: the rest of the third comes with the third period.
    assert!((ms(20)..ms(31)).contains(&at), "{at:?} {:?}", cap.stats());
    assert!(cap.stats().worst_overrun >= us(1_400), "{:?}", cap.stats());
    let mut kinds: Vec<ContextEventKind> =
        std::iter::from_fn(|| cap.try_event()).map(|event| event.kind).collect();
    kinds.dedup();
    assert!(kinds.contains(&ContextEventKind::Overrun), "{kinds:?}");
    assert!(kinds.contains(&ContextEventKind::Depleted), "{kinds:?}");
    assert!(kinds.contains(&ContextEventKind::Timeout), "{kinds:?}");
}

#[test]
fn an_overrun_beyond_the_tolerance_revokes() {
    let rt = one_worker(1);
    let policy = OverrunPolicy::Revoke { tolerance: us(100) };
    let cap = rt.admit(ContextOpts::new(ms(1), ms(10)).overrun(policy)).unwrap();
    let error = rt
        .run(|cx| {
            cx.nursery_with(NurseryOpts::new().context(&cap), |n| {
                n.spawn(|cx| {
                    cx.charge(Budget { ops: 5_000, ..Budget::ZERO })?;
                    work(cx, 100_000)
                })?
                .join()
            })
        })
        .unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert!(cap.is_revoked());
    // Within the tolerance it is charged as any other use.
    let rt = one_worker(1);
    let cap = rt.admit(ContextOpts::new(ms(1), ms(10)).overrun(policy)).unwrap();
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().context(&cap), |n| {
            n.spawn(|cx| {
                work(cx, 950)?;
                cx.charge(Budget { ops: 100, ..Budget::ZERO })?;
                work(cx, 100)
            })?
            .join()
        })
    })
    .unwrap();
    assert!(!cap.is_revoked());
}

/// A supervisor sleeps until the context of a worker task is used up.
// rule: S3-SC-7, S3-GATE-12
#[test]
fn timeouts_wake_the_task_that_waits_for_them() {
    let rt = one_worker(1);
    let cap = rt.admit(ContextOpts::new(ms(1), ms(10))).unwrap();
    let told = rt
        .run(|cx| {
            let began = now();
            cx.nursery(|n| {
                let supervisor = n.spawn(|cx| {
                    let event = cap.next_event(cx)?;
                    Ok((event.kind, event.at - began, now() - began))
                })?;
                cx.yield_now()?; // it waits now
                n.spawn_with(SpawnOpts::new().context(&cap), |cx| work(cx, 3_000))?;
                supervisor.join()
            })
        })
        .unwrap();
    assert_eq!(told.0, ContextEventKind::Timeout);
    assert!((us(1_000)..us(1_100)).contains(&told.1), "{told:?}");
    assert!(told.2 < told.1 + us(10), "it was told at once: {told:?}");
}

/// An overrun is two events of one moment. The first one wakes the task that waits, and the second
/// one does not take that back.
#[test]
fn two_events_at_once_wake_the_task_that_waits_for_one() {
    let rt = one_worker(1);
    let opts = ContextOpts::new(ms(1), ms(10)).overrun(OverrunPolicy::Notify);
    let cap = rt.admit(opts).unwrap();
    let kinds = rt
        .run(|cx| {
            cx.nursery(|n| {
                let supervisor =
                    n.spawn(|cx| Ok([cap.next_event(cx)?.kind, cap.next_event(cx)?.kind]))?;
                cx.yield_now()?; // it waits now
                n.spawn_with(SpawnOpts::new().context(&cap), |cx| {
                    cx.charge(Budget { ops: 1_500, ..Budget::ZERO })
                })?;
                supervisor.join()
            })
        })
        .unwrap();
    assert!(kinds.contains(&ContextEventKind::Depleted), "{kinds:?}");
    assert!(kinds.contains(&ContextEventKind::Overrun), "{kinds:?}");
}

/// Nothing starts on a context that was revoked, and its tasks end.
// rule: S3-SC-11, S3-GATE-13
#[test]
fn a_stale_capability_grants_nothing() {
    for seed in 0..10 {
        let rt = one_worker(seed);
        let other = one_worker(seed);
        let cap = rt.admit(ContextOpts::new(ms(2), ms(10))).unwrap();
        let foreign = other.admit(ContextOpts::new(ms(2), ms(10))).unwrap();
        let ran = AtomicU64::new(0);
        rt.run(|cx| {
            let ended = cx.nursery(|n| {
                let bound = n.spawn_with(SpawnOpts::new().context(&cap), |cx| {
                    cx.forever(|| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })
                })?;
                cx.sleep(ms(15))?;
                cap.revoke();
                let before = ran.load(Ordering::Relaxed);
                assert!((3_900..4_100).contains(&before), "{before}");
                let error = bound.join().unwrap_err();
                assert!(error.is_cancelled(), "{error}");
                assert!(ran.load(Ordering::Relaxed) <= before + 1);
                Ok(())
            });
            assert!(ended.is_ok(), "{ended:?}");
            let refused = |result: parcae::Result<()>| match result.unwrap_err().kind() {
                ErrorKind::ContextRefused(refused) => refused.clone(),
                other => panic!("{other:?}"),
            };
            let open = |cap: &CapContext| {
                refused(cx.nursery_with(NurseryOpts::new().context(cap), |_| Ok(())))
            };
            assert_eq!(open(&cap), ContextRefused::Revoked);
            assert_eq!(open(&foreign), ContextRefused::Foreign);
            let spawned =
                cx.nursery(|n| n.spawn_with(SpawnOpts::new().context(&cap), |_| Ok(())).map(drop));
            assert_eq!(refused(spawned), ContextRefused::Revoked);
            assert_eq!(refused(cx.next_period().map(drop)), ContextRefused::NoContext);
            Ok(())
        })
        .unwrap();
        let root = rt.run_with(SpawnOpts::new().context(&foreign), |_| Ok(()));
        assert!(matches!(
            root.unwrap_err().kind(),
            ErrorKind::ContextRefused(ContextRefused::Root)
        ));
    }
}

/// An unstarted task of a context without budget has not started when it is cancelled, and the slot
/// serves the next context.
#[test]
fn slots_are_used_again() {
    let rt = one_worker(1);
    for _ in 0..600 {
        let cap = rt.admit(ContextOpts::new(ms(5), ms(10))).unwrap();
        rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().context(&cap), |n| {
                n.spawn(|cx| work(cx, 10))?;
                Ok(())
            })
        })
        .unwrap();
    }
}

/// Tasks of nurseries inside are on the context too, and share its budget in turns.
#[test]
fn children_run_on_the_context_of_their_parent() {
    let rt = one_worker(1);
    let cap = rt.admit(ContextOpts::new(ms(2), ms(10)).refill(Refill::HardCbs)).unwrap();
    rt.run(|cx| {
        cx.nursery(|n| {
            n.spawn_with(SpawnOpts::new().context(&cap), |cx| {
                cx.nursery(|n| {
                    n.spawn(|cx| work(cx, 2_000))?;
                    n.spawn(|cx| work(cx, 2_000))?;
                    Ok(())
                })
            })?
            .join()
        })
    })
    .unwrap();
    let stats = cap.stats();
    assert!((us(4_000)..us(4_200)).contains(&stats.used), "{stats:?}");
    assert!(stats.depletions >= 1, "{stats:?}");
}

/// Tenants divide what contexts leave, by weight.
#[test]
fn tenants_divide_what_contexts_leave() {
    for seed in 0..5 {
        let rt =
            Runtime::builder().deterministic(seed).workers(1).yield_interval(64).build().unwrap();
        let cap = rt.admit(ContextOpts::new(ms(5), ms(10))).unwrap();
        let curtain = Curtain::default();
        let stats = rt
            .run(|cx| {
                cx.nursery(|all| {
                    for (name, share) in [("light", 1024), ("heavy", 3072)] {
                        let curtain = &curtain;
                        all.spawn(move |cx| {
                            cx.nursery_with(tenant(name, share), |n| {
                                n.spawn(|cx| hog(cx, curtain)).map(drop)
                            })
                        })?;
                    }
                    all.spawn_with(SpawnOpts::new().context(&cap), |cx| hog(cx, &curtain))?;
                    cx.sleep(ms(400))?;
                    curtain.fall();
                    Ok(rt.stats())
                })
            })
            .unwrap();
        assert_ratio(&stats, "light", "heavy", 3.0, 10.0);
        let tenants = ops(&stats, "light") + ops(&stats, "heavy");
        let context = cap.stats().used.as_micros() as u64;
        assert!((190_000..210_000).contains(&context), "{context}");
        assert!((150_000..205_000).contains(&tenants), "{tenants}");
    }
}

/// A budget of ops of its own binds a task that is on a context, as any other.
#[test]
fn a_context_is_no_budget_of_ops() {
    let rt = one_worker(1);
    let cap = rt.admit(ContextOpts::new(ms(5), ms(10))).unwrap();
    let error = rt
        .run(|cx| {
            cx.nursery(|n| {
                let few = Budget { ops: 500, ..Budget::UNLIMITED };
                assert_eq!(few.syscalls, UNLIMITED);
                let opts = SpawnOpts::new().context(&cap).budget(few);
                n.spawn_with(opts, |cx| work(cx, 1_000))?.join()
            })
        })
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)), "{error}");
}
