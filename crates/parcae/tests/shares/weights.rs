//! Weights among tenants that compute.

use crate::support::*;
use parcae::prelude::*;

/// Hogs of weights 1, 2 and 4 on one worker.
// rule: S3-GOAL-4, S3-EEVDF-3, S3-GATE-5, S3-ACCT-4
#[test]
fn hogs_get_processor_time_by_weight() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let plays = [(1, "one"), (2, "two"), (4, "four")]
            .map(|(share, name)| play(tenant(name, share * 1024), hog));
        let stats = stage(&rt, 5_000, &plays);
        assert_ratio(&stats, "one", "two", 2.0, 10.0);
        assert_ratio(&stats, "one", "four", 4.0, 10.0);
        assert!(of(&stats, "four").turns > 20, "{stats:?}");
    }
}

/// A tenant with a hundred tasks has no more than a tenant with one.
// rule: S3-GATE-8
#[test]
fn a_tenant_gains_nothing_by_many_tasks() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let crowd = play(tenant("crowd", 1024), |cx, curtain| {
            cx.nursery(|n| (0..100).try_for_each(|_| n.spawn(|cx| hog(cx, curtain)).map(drop)))
        });
        let stats = stage(&rt, 5_000, &[crowd, play(tenant("one", 1024), hog)]);
        assert_ratio(&stats, "crowd", "one", 1.0, 10.0);
    }
}

/// Tenants inside of a tenant divide its share, however many there are.
#[test]
fn a_tenant_gains_nothing_by_tenants_inside() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let split = play(tenant("split", 1024), |cx, curtain| {
            cx.nursery(|n| {
                for part in 0..10 {
                    n.spawn(move |cx| {
                        cx.nursery_with(tenant(&format!("part {part}"), 65_536), |n| {
                            n.spawn(|cx| hog(cx, curtain)).map(drop)
                        })
                    })?;
                }
                Ok(())
            })
        });
        let stats = stage(&rt, 8_000, &[split, play(tenant("whole", 1024), hog)]);
        assert_ratio(&stats, "split", "whole", 1.0, 8.0);
        assert_ratio(&stats, "part 3", "part 7", 1.0, 5.0);
    }
}

/// All tasks without a tenant count as one tenant of normal weight.
#[test]
fn tasks_without_a_tenant_are_one_entity() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let curtain = Curtain::default();
        let stats = rt
            .run(|cx| {
                cx.nursery(|all| {
                    for _ in 0..10 {
                        all.spawn(|cx| hog(cx, &curtain))?;
                    }
                    all.spawn(|cx| {
                        cx.nursery_with(tenant("tenant", 3 * 1024), |n| {
                            n.spawn(|cx| hog(cx, &curtain)).map(drop)
                        })
                    })?;
                    cx.sleep(std::time::Duration::from_micros(8_000))?;
                    curtain.fall();
                    Ok(rt.stats())
                })
            })
            .unwrap();
        let (tenant, others) = (of(&stats, "tenant").ops, stats.tenants[0].ops);
        let ratio = tenant as f64 / others as f64;
        assert!((2.4..3.6).contains(&ratio), "{ratio}: {tenant} {others}");
    }
}

/// The same hogs as on one worker: the shares on several workers are those that are feasible.
#[test]
fn workers_together_keep_feasible_shares() {
    for (workers, seed) in [(2, 1), (2, 2), (4, 3), (4, 4)] {
        let rt = runtime(seed, workers);
        let crowd = |name, share| {
            play(tenant(name, share), move |cx, curtain| {
                let tasks = 8 * workers;
                cx.nursery(|n| {
                    (0..tasks).try_for_each(|_| n.spawn(|cx| hog(cx, curtain)).map(drop))
                })
            })
        };
        let plays = [crowd("light", 1024), crowd("heavy", 3072)];
        let stats = stage(&rt, 8_000 * workers as u64, &plays);
        assert_ratio(&stats, "light", "heavy", 3.0, 4.0);
    }
}

/// A tenant with tasks on all workers does not have its share on each of them.
#[test]
fn a_tenant_has_its_share_once() {
    for seed in 0..10 {
        let rt = runtime(seed, 2);
        let many = play(tenant("many", 1024), |cx, curtain| {
            cx.nursery(|n| (0..16).try_for_each(|_| n.spawn(|cx| hog(cx, curtain)).map(drop)))
        });
        let stats = stage(&rt, 16_000, &[many, play(tenant("one", 1024), hog)]);
        // With the whole weight on each worker it would be 3; with the weight divided by the ready
        // tasks, which stay where they have started, it is about 2. A worker of its own is 1.
        let ratio = ops(&stats, "many") as f64 / ops(&stats, "one") as f64;
        assert!(ratio < 2.5, "{ratio}");
        let one = of(&stats, "one");
        assert!(one.feasible <= 0.5 + 1e-9 && one.wanted < one.feasible, "{one:?}");
    }
}

/// A weight that changes under load holds from then on.
#[test]
fn a_changed_weight_holds_at_once() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let curtain = Curtain::default();
        let (before, after) = rt
            .run(|cx| {
                cx.nursery(|all| {
                    all.spawn(|cx| {
                        cx.nursery_with(tenant("fixed", 1024), |n| {
                            n.spawn(|cx| hog(cx, &curtain)).map(drop)
                        })
                    })?;
                    cx.nursery_with(tenant("raised", 1024), |n| {
                        n.spawn(|cx| hog(cx, &curtain))?;
                        cx.sleep(std::time::Duration::from_micros(5_000))?;
                        let before = rt.stats();
                        n.set_share(weight(4 * 1024))?;
                        cx.sleep(std::time::Duration::from_micros(8_000))?;
                        let after = rt.stats();
                        curtain.fall();
                        Ok((before, after))
                    })
                })
            })
            .unwrap();
        assert_ratio(&before, "fixed", "raised", 1.0, 8.0);
        let gain = |name| (ops(&after, name) - ops(&before, name)) as f64;
        let ratio = gain("raised") / gain("fixed");
        assert!((3.4..4.6).contains(&ratio), "{ratio}");
        assert_eq!(of(&after, "raised").weight, 4096);
    }
}

/// The figures that an operator sees.
#[test]
fn wanted_feasible_and_got_are_reported() {
    let rt = runtime(1, 1);
    let plays = [play(tenant("a", 1024), hog), play(tenant("b", 2048), hog)];
    let stats = stage(&rt, 20_000, &plays);
    let (a, b) = (of(&stats, "a"), of(&stats, "b"));
    // The tasks without a tenant want a quarter, and have nothing to run.
    assert!((a.wanted - 0.25).abs() < 1e-9 && (b.wanted - 0.5).abs() < 1e-9, "{a:?} {b:?}");
    assert!((b.got - 2.0 / 3.0).abs() < 0.05, "{b:?}");
    assert!(b.feasible >= 0.5 && b.feasible <= 1.0, "{b:?}");
    let text = stats.to_prometheus();
    assert!(text.contains("parcae_tenant_weight{tenant=\"b\",parent=\"0\"} 2048\n"), "{text}");
    assert!(text.contains("parcae_tenant_got_share{tenant=\"a\""), "{text}");
    assert!(stats.to_json().contains("\"tenant\":\"b\""), "{}", stats.to_json());
}

/// Weights on threads: the heavier tenant gets more. How much more depends on the load of the
/// machine, whose other processes run at the expense of either tenant.
#[test]
fn threads_follow_weights() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let curtain = Curtain::default();
    let stats = rt
        .run(|cx| {
            cx.nursery(|all| {
                for (name, share) in [("light", 1024), ("heavy", 65_536)] {
                    let curtain = &curtain;
                    all.spawn(move |cx| {
                        cx.nursery_with(tenant_on_threads(name, share), |n| {
                            n.spawn(|cx| hog(cx, curtain)).map(drop)
                        })
                    })?;
                }
                loop {
                    cx.sleep(std::time::Duration::from_millis(20))?;
                    let stats = rt.stats();
                    if stats.tenant("light").is_some_and(|light| light.turns >= 10) {
                        curtain.fall();
                        return Ok(stats);
                    }
                }
            })
        })
        .unwrap();
    let (light, heavy) = (of(&stats, "light"), of(&stats, "heavy"));
    assert!(heavy.turns > light.turns && heavy.ops > light.ops, "{light:?} {heavy:?}");
    assert!(!light.ran.is_zero(), "{light:?}");
}

fn tenant_on_threads(name: &str, share: u32) -> NurseryOpts {
    NurseryOpts::new().name(name).share(weight(share))
}

/// The charge of a tenant grows while its task computes, and stands still while it waits.
// rule: S3-GOAL-3, S3-ACCT-1, S3-GATE-3, S3-GATE-4
#[test]
fn charges_grow_while_tasks_run_and_stand_still_while_they_wait() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let waiter = play(tenant("waiter", 1024), |cx, _| {
            (0..10_000).try_for_each(|_| cx.checkpoint())?;
            cx.sleep(std::time::Duration::from_micros(3_000))?;
            (0..10_000).try_for_each(|_| cx.checkpoint())
        });
        let curtain = Curtain::default();
        let seen = rt
            .run(|cx| {
                cx.nursery(|all| {
                    all.spawn(|cx| {
                        cx.nursery_with(tenant("hog", 1024), |n| {
                            n.spawn(|cx| hog(cx, &curtain)).map(drop)
                        })
                    })?;
                    let end = all.spawn(|cx| {
                        cx.nursery_with(waiter.0.clone(), |n| {
                            n.spawn(|cx| waiter.1(cx, &curtain)).map(drop)
                        })
                    })?;
                    let mut seen = Vec::new();
                    for _ in 0..100 {
                        cx.sleep(std::time::Duration::from_micros(50))?;
                        seen.extend(rt.stats().tenant("waiter").map(|tenant| tenant.ops));
                    }
                    end.join()?;
                    seen.extend(rt.stats().tenant("waiter").map(|tenant| tenant.ops));
                    curtain.fall();
                    Ok(seen)
                })
            })
            .unwrap();
        assert!(seen.is_sorted(), "{seen:?}");
        let still = seen.windows(2).filter(|pair| pair[0] == pair[1] && pair[0] >= 10_000);
        assert!(still.count() > 40, "{seen:?}");
        assert!((20_000..21_000).contains(seen.last().unwrap()), "{seen:?}");
    }
}

/// A task that moves between workers is charged to its tenant wherever it runs.
// rule: S3-EEVDF-5
#[test]
fn a_task_that_moves_is_charged_to_its_tenant() {
    for seed in 0..20 {
        let rt = runtime(seed, 4);
        rt.run(|cx| {
            cx.nursery_with(tenant("mover", 1024), |n| {
                for _ in 0..8 {
                    // SAFETY: nothing on its stack is bound to a thread.
                    let opts = unsafe { SpawnOpts::new().migratable() };
                    n.spawn_with(opts, |cx| (0..5_000).try_for_each(|_| cx.checkpoint()))?;
                }
                Ok(())
            })
        })
        .unwrap();
        let mover = rt.stats().tenant("mover").unwrap().ops;
        // A worker charges a turn when it looks for the next task.
        assert!((38_000..48_000).contains(&mover), "{mover}");
    }
}
