//! Rules of the seeds that no other test proves, one small test each. `docs/conformance.md` says which.

mod both;
mod statics;

use both::*;
use parcae::cap::{BudgetLimits, Delegation, SpawnLimits};
use parcae::prelude::*;
use parcae::profile::{Cluster, Core, Feature, Profile, ProfileId, Service, Sovereign};
use parcae::stack::StackSize;
use parcae::{NurseryState, Standing};
use statics::Sources;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

// ----- the runtime -------------------------------------------------------------------------------

#[test]
fn runtimes_are_values_that_live_and_end_side_by_side() {
    let first = Runtime::builder().workers(2).build().unwrap();
    let second = Runtime::builder().workers(1).deterministic(42).build().unwrap();
    let third = Runtime::builder().workers(3).budget(ops(5_000)).build().unwrap();
    for rt in [&first, &second, &third] {
        let outcome = rt.run(|cx| cx.nursery(|n| Ok(n.spawn(|_| Ok(1))?.join()? + 1)));
        assert_eq!(outcome.unwrap(), 2);
    }
    second.token().cancel();
    assert!(second.run(|_| Ok(())).unwrap_err().is_cancelled());
    drop(second);
    assert_eq!(first.run(|_| Ok(3)).unwrap(), 3);
    assert!(first.budget().granted.ops > 5_000 && third.budget().granted.ops == 5_000);
    drop(first);
    assert_eq!(third.run(|_| Ok(4)).unwrap(), 4);
}

/// The lines of the library's own code, without tests, in which `found` is.
fn lines_with(found: impl Fn(&str) -> bool) -> Vec<String> {
    fn walk(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_none_or(|name| name != "tests") {
                    walk(&path, files);
                }
            } else if path.extension().is_some_and(|ext| ext == "rs")
                && path.file_stem().is_none_or(|stem| stem != "tests" && stem != "models")
            {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut lines) = (Vec::new(), Vec::new());
    walk(&root, &mut files);
    for file in files {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        lines.extend(code.filter(|line| found(line)).map(|line| format!("{name}: {line}")));
    }
    lines
}

/// What no static may hold: who runs tasks, and who may.
const AUTHORITY: [&str; 7] =
    ["Runtime", "Engine", "Shared", "Scheduler", "Nursery", "Mint", "Pool"];
/// Statics that reach one of those all the same. The list may only shrink.
const KNOWN: [(&str, &str); 1] = [
    // The worker whose thread this is: the one accessor that waiting needs.
    ("CURRENT", "sched/worker/mod.rs"),
];

#[test]
fn no_static_holds_a_runtime_or_a_scheduler() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources = Sources::of_library(&root);
    assert!(sources.statics.len() >= 15, "the scan finds only {}", sources.statics.len());
    let mut known = BTreeSet::new();
    for found in &sources.statics {
        let Some(way) = sources.reaches(found, &AUTHORITY) else { continue };
        let place = (found.name.as_str(), found.file.as_str());
        assert!(KNOWN.contains(&place), "{place:?} holds {}", way.join(" → "));
        known.insert(place);
    }
    assert_eq!(known, KNOWN.into(), "one holds nothing any more: take it off the list");
}

/// Each of these would be found: the scan is seen to fail.
#[test]
fn a_static_that_holds_authority_is_found_however_it_is_written() {
    let planted = [
        "static GLOBAL_SCHEDULER: OnceLock<crate::Runtime> = OnceLock::new();",
        "pub(crate) static mut ONE: Option<Runtime> = None;",
        "static MANY: Mutex<Vec<(u64, Weak<Shared>)>> = Mutex::new(Vec::new());",
        "static LINES: LazyLock<\n    HashMap<\n        u64,\n        Arc<Nursery>,\n    >,\n> =\n    LazyLock::new(f);",
        "static NESTED: Lock<Option<Box<dyn Fn(&Engine) -> Result<(), Error> + Send>>> = Lock::new(None);",
        "static ARRAY: [AtomicPtr<Mint>; 4] = [const { AtomicPtr::new(null_mut()) }; 4];",
        "thread_local! { static HERE: RefCell<Option<Runtime>> = const { RefCell::new(None) }; }",
        "extern \"C\" { static FOREIGN: *const Shared; }",
        "/* static NOT: u8 = 0; */ static /* : */ BEHIND: /* u8 = */ Runtime = f();",
        "static TEXT: Named<'static, Pool> = Named::new(\": u8 = 1;\");",
        "static HIDDEN: Mutex<Vec<Asked>> = Mutex::new(Vec::new());\nstruct Asked { shared: Weak<Shared> }",
        "struct Outer(Inner);\nenum Inner { None, Some { rt: Runtime } }\nstatic TWICE: Outer = Outer::NEW;",
        "type Alias = Option<Arc<Shared>>;\nstatic BY_ALIAS: Alias = None;",
    ];
    for text in planted {
        let mut sources = Sources::default();
        sources.read("planted.rs", text);
        let reached = |found| sources.reaches(found, &AUTHORITY).is_some();
        assert_eq!(sources.statics.len(), 1, "{text}: {:?}", sources.statics);
        assert!(sources.statics.iter().any(reached), "not found: {text}");
    }
    let harmless = [
        "static COUNT: AtomicU64 = AtomicU64::new(Runtime::COUNT);",
        "fn f(x: &'static Runtime) -> &'static Shared { x.shared() }",
        "// static COMMENT: Runtime = f();\nstatic NEXT: AtomicU32 = AtomicU32::new(0);",
        "let text = r#\"static RAW: Runtime = \"x\";\"#; let c = '\\''; let f = static || Runtime;",
        "static SMALL: Small = Small;\nstruct Small; struct Large { rt: Runtime }",
    ];
    for text in harmless {
        let mut sources = Sources::default();
        sources.read("harmless.rs", text);
        for found in &sources.statics {
            assert_eq!(sources.reaches(found, &AUTHORITY), None, "{text}");
        }
    }
}

#[test]
fn the_current_worker_is_the_only_state_of_a_thread_that_tasks_use() {
    let files: BTreeSet<String> = lines_with(|line| line.starts_with("thread_local!"))
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    let allowed = [
        "sched/worker/mod.rs",
        // The alternate signal stack of each thread, for reports of overflows.
        "stack/overflow.rs",
        // In builds for tests alone.
        "scope/cx/frame/window.rs",
    ];
    assert_eq!(files, allowed.map(str::to_owned).into());
}

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

// ----- spawning ----------------------------------------------------------------------------------

#[test]
fn a_spawn_returns_the_childs_number_or_an_error() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(Budget { spawn_count: 5, ..ops(1_000) }), |n| {
            let mut ids = BTreeSet::from([cx.info().id()]);
            for _ in 0..5 {
                let child = n.spawn_with(SpawnOpts::new().budget(ops(100)), |cx| Ok(cx.info()))?;
                let id = child.id();
                assert_eq!(child.join()?.id(), id);
                assert!(ids.insert(id), "{id} is not new");
            }
            assert!(matches!(kind_of(n.spawn(|_| Ok(()))), ErrorKind::SpawnBudgetExhausted(_)));
            Ok(())
        })
    });
}

#[test]
fn a_child_that_is_cancelled_in_the_queue_does_not_run_and_is_counted() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        let ran = AtomicUsize::new(0);
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..10 {
                    n.spawn(|_| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    })?;
                }
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled()); // and it came back: all were counted
        assert_eq!(ran.into_inner(), 0);
    }
}

#[test]
fn a_priority_that_is_not_given_is_normal() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(1).deterministic(seed).build().unwrap();
        let order = Mutex::new(Vec::new());
        succeed(rt.run(|cx| {
            cx.nursery(|n| {
                let order = &order;
                let note = |text| {
                    move |_: &Cx| {
                        order.lock().unwrap().push(text);
                        Ok(())
                    }
                };
                n.spawn_with(SpawnOpts::new().priority(Priority::Low), note("low"))?;
                n.spawn_with(SpawnOpts::new(), note("none"))?;
                n.spawn_with(SpawnOpts::new().priority(Priority::High), note("high"))?;
                Ok(())
            })
        }));
        assert_eq!(order.into_inner().unwrap(), ["high", "none", "low"]);
    }
}

/// The stack of the running task, about.
fn stack<P: Profile>(cx: &Cx<P>) -> usize {
    (cx.stack_left() + (48 << 10)).next_power_of_two() / 2
}

#[test]
fn stacks_are_as_large_as_profile_nursery_or_spawn_say() {
    fn of<P: Profile>() -> usize {
        let rt = Runtime::builder().workers(1).profile::<P>().build().unwrap();
        rt.run(|cx| Ok(stack(cx))).unwrap()
    }
    assert_eq!(
        (of::<Core>(), of::<Service>(), of::<Cluster>(), of::<Sovereign>()),
        (64 << 10, 256 << 10, 256 << 10, 512 << 10)
    );
    everywhere(|cx| {
        cx.nursery(|n| {
            assert_eq!(n.spawn(|cx| Ok(stack(cx)))?.join()?, 256 << 10);
            let large = SpawnOpts::new().stack_size(StackSize::new(512 << 10)?);
            assert_eq!(n.spawn_with(large, |cx| Ok(stack(cx)))?.join()?, 512 << 10);
            Ok(())
        })?;
        let small = NurseryOpts::new().stack_size(StackSize::new(64 << 10)?);
        cx.nursery_with(small, |n| {
            assert_eq!(n.spawn(|cx| Ok(stack(cx)))?.join()?, 64 << 10);
            assert_eq!(n.spawn_with(SpawnOpts::new(), |cx| Ok(stack(cx)))?.join()?, 64 << 10);
            let large = SpawnOpts::new().stack_size(StackSize::new(1 << 20)?);
            assert_eq!(n.spawn_with(large, |cx| Ok(stack(cx)))?.join()?, 1 << 20);
            Ok(())
        })
    });
}

// ----- budgets -----------------------------------------------------------------------------------

#[test]
fn a_child_gets_its_share_of_every_component_and_the_pool_has_that_much_less() {
    everywhere(|cx| {
        let rich = Budget {
            ops: 50_000,
            memory: 64 << 20,
            spawn_count: 50,
            channel_ops: 5_000,
            syscalls: 500,
        };
        let poor = Budget { ops: 51, memory: 1_000, spawn_count: 50, channel_ops: 7, syscalls: 3 };
        for (pool, share) in
            [(rich, Budget::CHILD), (poor, Budget { ops: 50, spawn_count: 0, ..poor })]
        {
            let seen = AtomicBool::new(false);
            cx.nursery_with(NurseryOpts::new().budget(pool), |n| {
                let child = n.spawn(|cx| {
                    let own = cx.budget();
                    while !seen.load(Ordering::Relaxed) {
                        cx.yield_now()?; // which costs nothing
                    }
                    Ok(own)
                })?;
                cx.yield_now()?; // takes back what was paid for in advance
                let Standing { granted, left, held, spent, .. } = n.budget();
                assert_eq!((granted, held, spent), (pool, share, Budget::SPAWN));
                let mut rest = pool;
                rest.charge(share)?;
                rest.charge(Budget::SPAWN)?;
                assert_eq!(left, rest);
                seen.store(true, Ordering::Relaxed);
                assert_eq!(child.join()?, share);
                Ok(())
            })?;
        }
        Ok(())
    });
}

#[test]
fn an_exhausted_task_does_nothing_until_it_is_recharged() {
    everywhere(|cx| {
        let done = AtomicU64::new(0);
        let opts = NurseryOpts::new().budget(ops(1_001)).on_exhausted(OnExhausted::Suspend);
        cx.nursery_with(opts, |n| {
            n.spawn(|cx| {
                while done.load(Ordering::Relaxed) < 1_500 {
                    cx.checkpoint()?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })?;
            while n.budget().suspended == 0 {
                cx.yield_now()?;
            }
            for _ in 0..100 {
                cx.yield_now()?;
                assert_eq!(done.load(Ordering::Relaxed), 1_000);
            }
            n.recharge(Budget { ops: 500, ..Budget::ZERO })
        })?;
        assert_eq!(done.into_inner(), 1_500);
        Ok(())
    });
}

#[test]
fn what_is_missing_of_other_components_binds_the_operation() {
    everywhere(|cx| {
        let none = Budget { channel_ops: 0, syscalls: 1, ..Budget::UNLIMITED };
        let opts = NurseryOpts::new().budget(none).slice(none);
        cx.nursery_with(opts, |n| {
            n.spawn(|cx| {
                cx.charge(Budget::SYSCALL)?;
                let refused = cx.charge(Budget::SYSCALL);
                assert!(matches!(kind_of(refused), ErrorKind::BudgetExceeded(_)));
                let refused = cx.charge(Budget::CHANNEL_OP);
                assert!(matches!(kind_of(refused), ErrorKind::BudgetExceeded(_)));
                work(cx, 5_000) // the task goes on
            })?
            .join()
        })
    });
}

#[test]
fn memory_can_be_charged_by_hand() {
    everywhere(|cx| {
        let megabyte = Budget { memory: 1 << 20, ..Budget::UNLIMITED };
        let opts = || NurseryOpts::new().budget(megabyte);
        let outcome = cx.nursery_with(opts(), |n| {
            n.spawn(|cx| cx.charge(Budget { memory: 2 << 20, ..Budget::ZERO }))?.join()
        });
        assert!(matches!(kind_of(outcome), ErrorKind::MemoryBudgetExhausted(_)));
        // Where that is the policy the task waits for a recharge.
        cx.nursery_with(opts().on_exhausted(OnExhausted::Suspend), |n| {
            let child = n.spawn(|cx| cx.charge(Budget { memory: 2 << 20, ..Budget::ZERO }))?;
            while n.budget().suspended == 0 {
                cx.yield_now()?;
            }
            n.recharge(Budget { memory: 1 << 20, ..Budget::ZERO })?;
            child.join()
        })
    });
}

#[test]
fn supervisors_of_a_cluster_recharge_children_that_are_not_theirs() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(2).profile::<Cluster>().deterministic(seed);
        let rt = rt.build().unwrap();
        let all = Budget { ops: 100_000, ..Budget::ZERO };
        let limits = BudgetLimits { total: all, per_request: all };
        let cap = rt.cap_budget(limits, Delegation::Forbidden);
        succeed(rt.run(|cx| {
            let opts = NurseryOpts::new().budget(ops(500)).on_exhausted(OnExhausted::Suspend);
            let done = AtomicBool::new(false);
            cx.nursery_with(NurseryOpts::new(), |outer| {
                let outcome = cx.nursery_with(opts, |n| {
                    let account = n.account();
                    let (cap, done) = (&cap, &done);
                    outer.spawn(move |cx| {
                        while !done.load(Ordering::Relaxed) {
                            if account.standing().suspended > 0 {
                                account.recharge(cap, Budget { ops: 1_000, ..Budget::ZERO })?;
                            }
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?;
                    n.spawn(|cx| (0..5_000).try_for_each(|_| cx.checkpoint()))?.join()
                });
                done.store(true, Ordering::Relaxed);
                outcome
            })
        }));
    }
}

// ----- yields ------------------------------------------------------------------------------------

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
        rt.stats().iter().map(|worker| worker.yielded).sum()
    }
    assert_eq!(turns::<Core>(None, 10 * 1024 + 1), 10);
    assert_eq!(turns::<Service>(None, 10 * 1024 + 1), 10);
    assert_eq!(turns::<Cluster>(None, 10 * 512 + 1), 10);
    assert_eq!(turns::<Sovereign>(Some(100), 10 * 100 + 1), 10);
    assert_eq!(turns::<Service>(Some(7), 10 * 7 + 1), 10);
    assert_eq!(turns::<Service>(None, 1024), 0);
}

#[test]
fn a_yield_costs_nothing_and_is_a_cancel_point() {
    everywhere(|cx| {
        cx.nursery_with(NurseryOpts::new().budget(ops(3)), |n| {
            n.spawn(|cx| (0..200).try_for_each(|_| cx.yield_now()))?.join()?;
            while n.live() > 0 {
                cx.yield_now()?;
            }
            assert_eq!(n.budget().spent.ops, 1); // the spawn
            n.cancel();
            assert!(cx.yield_now().unwrap_err().is_cancelled());
            Ok(())
        })
        .unwrap_err();
        Ok(())
    });
}

// ----- nurseries, cancelling ---------------------------------------------------------------------

#[test]
fn a_nursery_that_is_cancelling_stays_so() {
    everywhere(|cx| {
        let outcome = cx.nursery(|n| {
            assert_eq!(n.state(), NurseryState::Open);
            n.spawn(|_| Ok(()))?.join()?;
            assert_eq!(n.state(), NurseryState::Open);
            n.token().cancel();
            for _ in 0..3 {
                n.cancel();
                assert_eq!(n.state(), NurseryState::Cancelling);
                assert!(n.spawn(|_| Ok(())).is_err());
                cx.shield(|| cx.yield_now())?;
            }
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

#[test]
fn a_task_asks_whether_it_was_cancelled() {
    everywhere(|cx| {
        let noticed = AtomicUsize::new(0);
        let outcome = cx.nursery(|n| {
            let started = AtomicUsize::new(0);
            let started = std::sync::Arc::new(started);
            for _ in 0..3 {
                let (token, started) = (n.token(), std::sync::Arc::clone(&started));
                let noticed = &noticed;
                n.spawn(move |cx| {
                    assert_eq!(token.is_cancelled(), cx.is_cancelled());
                    started.fetch_add(1, Ordering::Relaxed);
                    while !cx.is_cancelled() {
                        cx.shield(|| cx.yield_now())?;
                    }
                    assert!(token.is_cancelled() && cx.token().is_cancelled());
                    noticed.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            while started.load(Ordering::Relaxed) < 3 {
                cx.yield_now()?;
            }
            assert!(!n.is_cancelled());
            n.cancel();
            assert!(n.is_cancelled());
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        assert_eq!(noticed.into_inner(), 3);
        Ok(())
    });
}

#[test]
fn a_plain_thread_waits_for_a_root_task_and_for_a_child() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let root = rt.handle().spawn(|cx| {
        for _ in 0..100 {
            cx.yield_now()?;
        }
        Ok(7)
    });
    assert_eq!(root.unwrap().join().unwrap(), 7);
    let value = rt.run(|cx| {
        cx.nursery(|n| {
            let child = n.spawn(|_| Ok(8))?;
            std::thread::scope(|s| s.spawn(|| child.join()).join().unwrap())
        })
    });
    assert_eq!(value.unwrap(), 8);
}

// ----- profiles ----------------------------------------------------------------------------------

#[test]
fn profiles_are_checked_at_run_time_too() {
    use ProfileId as P;
    let all = [P::Core, P::Service, P::Cluster, P::Sovereign];
    let has = |feature| all.map(|profile| profile.check(feature).is_ok());
    assert_eq!(has(Feature::Nursery), [false, true, true, true]);
    assert_eq!(has(Feature::Spawn), [false, true, true, true]);
    assert_eq!(has(Feature::Supervise), [false, false, true, true]);
    assert_eq!(all.map(P::needs_capability), [false, false, false, true]);
    let sizes = all.map(|profile| profile.stack_size().bytes() >> 10);
    assert_eq!(sizes, [64, 256, 256, 512]);
}

#[test]
fn a_sovereign_task_spawns_as_far_as_its_capability_goes() {
    for seed in 0..SEEDS {
        let rt = Runtime::builder().workers(2).profile::<Sovereign>().deterministic(seed);
        let rt = rt.build().unwrap();
        let two = SpawnLimits { max_tasks: 2, task_budget: Budget::UNLIMITED };
        let cap = rt.cap_spawn(two, Delegation::Forbidden);
        let outcome = rt.run(|cx| {
            cx.nursery(|n| {
                let park = |cx: &Cx<Sovereign>| cx.park();
                let (first, _second) = (n.spawn(&cap, park)?, n.spawn(&cap, park)?);
                assert!(matches!(kind_of(n.spawn(&cap, park)), ErrorKind::Capability(_)));
                first.cancel();
                assert!(first.join().unwrap_err().is_cancelled());
                while cap.live() == 2 {
                    cx.yield_now()?;
                }
                n.spawn(&cap, |_| Ok(()))?.join()?; // its place is free again
                cap.revoke();
                assert!(matches!(kind_of(n.spawn(&cap, park)), ErrorKind::Capability(_)));
                n.wind_down();
                Ok(())
            })
        });
        succeed(outcome);
        assert_eq!(cap.live(), 0);
    }
}
