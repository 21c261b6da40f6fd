//! The policy: services that decide well, badly or not at all, and the operator.

use crate::support::*;
use parcae::cap::AuditEvent;
use parcae::policy::{
    ContextOpts, ContextRefused, ContextRules, ContextTerms, DecidedBy, Hint, Latency, Params,
    PolicyChange, PolicyDecision, PolicyDesk, PolicyOpts, PolicyRefused, PolicyService,
    PolicySource, PolicyView, Weight,
};
use parcae::prelude::*;
use parcae::stats::Snapshot;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const US: fn(u64) -> Duration = Duration::from_micros;
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Short times, so that few steps of virtual time are enough.
fn short() -> PolicyOpts {
    PolicyOpts::new().interval(US(200)).patience(MS(2)).grace(MS(2))
}

/// A service made of a closure.
struct By<F>(F);

impl<F: FnMut(&PolicyView) -> Option<PolicyDecision> + Send> PolicyService for By<F> {
    fn look(&mut self, view: &PolicyView) -> Option<PolicyDecision> {
        (self.0)(view)
    }
}

/// Runs hogs with these names and the normal weight while `then` does, and ends them.
fn beside_hogs<R: Send>(
    rt: &Runtime,
    names: &[&str],
    then: impl FnOnce(&Cx) -> parcae::Result<R> + Send,
) -> R {
    let curtain = Curtain::default();
    rt.run(|cx| {
        cx.nursery(|all| {
            for name in names {
                let curtain = &curtain;
                all.spawn(move |cx| {
                    cx.nursery_with(tenant(name, 1024), |n| n.spawn(|cx| hog(cx, curtain))?.join())
                })?;
            }
            cx.sleep(US(500))?;
            let result = then(cx);
            curtain.fall();
            result
        })
    })
    .expect("all end")
}

/// The ops of two tenants between two snapshots.
fn gain(before: &Snapshot, after: &Snapshot, name: &str) -> f64 {
    (ops(after, name) - ops(before, name)) as f64
}

fn changes(policy: &PolicyDesk) -> Vec<PolicyChange> {
    policy.history().into_iter().map(|event| event.change).collect()
}

/// A service decides, and its shares are kept; the run repeats.
// rule: S3-GOAL-7, S3-ARCH-3, S3-POLICY-2
#[test]
fn a_service_decides_about_shares() {
    for seed in 0..10 {
        let run = || {
            let rt = runtime(seed, 1);
            let service = By(|view: &PolicyView| {
                Some(PolicyDecision::on(view).weight("raised", weight(4_096)))
            });
            let policy = rt.policy(short().service(service)).unwrap();
            let (before, after) = beside_hogs(&rt, &["fixed", "raised"], |cx| {
                let before = rt.stats();
                cx.sleep(MS(8))?;
                Ok((before, rt.stats()))
            });
            let ratio = gain(&before, &after, "raised") / gain(&before, &after, "fixed");
            assert!((3.4..4.6).contains(&ratio), "{ratio}");
            assert_eq!(after.tenant("raised").unwrap().weight, 4_096);
            let status = policy.status();
            assert_eq!((status.epoch, status.source), (1, PolicySource::Fresh), "{status:?}");
            assert_eq!(status.service.as_deref(), Some("in-process"));
            assert_eq!(status.refused, 0, "{:?}", policy.history());
            rt.event_log()
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}

/// The profiles of hints are the built-in ones, until a service decides about them.
// rule: S3-POLICY-1, S3-POLICY-5
#[test]
fn hints_are_mapped_by_the_policy() {
    let rt = runtime(3, 1);
    let policy = rt.policy(short()).unwrap();
    rt.run(|cx| {
        let opts = NurseryOpts::new().name("report").hint(Hint::Batch);
        cx.nursery_with(opts, |_| {
            let report = || policy.explain("report").expect("it is open");
            assert_eq!((report().weight, report().by), (512, DecidedBy::Profile));
            assert_eq!(report().slice, 65_536, "the longest slices");
            let seat = policy.seat("test", None).unwrap();
            let params = Params { weight: weight(256), latency: Latency::Slice(1_000) };
            let decision = PolicyDecision::on(&seat.view().unwrap()).profile(Hint::Batch, params);
            seat.decide(decision).unwrap();
            assert_eq!((report().weight, report().slice), (256, 1_000));
            assert_eq!(report().asked, None);
            Ok(())
        })
    })
    .unwrap();
    // A suggestion grants nothing; the service sees it.
    rt.run(|cx| {
        let node = NurseryOpts::new().name("node").suggest(9, Some(MS(5)));
        cx.nursery_with(node, |_| {
            let node = policy.explain("node").unwrap();
            assert_eq!((node.weight, node.by), (1_024, DecidedBy::Program));
            let suggestion = node.suggestion.unwrap();
            assert_eq!((suggestion.priority, suggestion.deadline), (9, 5_000_000));
            Ok(())
        })
    })
    .unwrap();
}

/// S3's gate. No sign of life: the last decision holds for a while, then the built-in policy.
// rule: S3-POLICY-7
#[test]
fn a_silent_service_gives_way_to_the_built_in_policy() {
    for seed in 0..10 {
        let rt = runtime(seed, 1);
        let policy = rt.policy(short()).unwrap();
        beside_hogs(&rt, &["a", "b"], |cx| {
            let seat = policy.seat("mortal", None).unwrap();
            let view = seat.view().unwrap();
            seat.decide(PolicyDecision::on(&view).weight("b", weight(4_096))).unwrap();
            let weight_of = || policy.explain("b").unwrap().weight;
            for _ in 0..5 {
                cx.sleep(MS(1))?;
                seat.alive(1).unwrap();
                assert_eq!(policy.status().source, PolicySource::Fresh);
            }
            cx.sleep(MS(3))?; // more than patience
            assert_eq!((policy.status().source, weight_of()), (PolicySource::LastGood, 4_096));
            cx.sleep(MS(2))?; // and grace
            assert_eq!((policy.status().source, weight_of()), (PolicySource::BuiltIn, 1_024));
            let before = rt.stats();
            cx.sleep(MS(6))?;
            let after = rt.stats();
            let ratio = gain(&before, &after, "b") / gain(&before, &after, "a");
            assert!((0.8..1.25).contains(&ratio), "{ratio}");
            // It comes back too late, with its old decision and with an old view.
            assert_eq!(seat.alive(1), Err(PolicyRefused::Expired));
            let late = seat.decide(PolicyDecision::on(&view).epoch(2));
            assert!(matches!(late, Err(PolicyRefused::StaleView { .. })), "{late:?}");
            let view = seat.view().unwrap();
            seat.decide(PolicyDecision::on(&view).weight("b", weight(2_048))).unwrap();
            assert_eq!(weight_of(), 2_048);
            Ok(())
        });
        let changes = changes(&policy);
        assert!(changes.contains(&PolicyChange::Silent { epoch: 1 }), "{changes:?}");
        assert!(changes.contains(&PolicyChange::Fallback), "{changes:?}");
        let audit = rt.audit().drain();
        let fallback = AuditEvent::Policy(PolicyChange::Fallback);
        assert!(audit.iter().any(|entry| entry.event == fallback), "{audit:?}");
    }
}

/// Makes a decision wrong.
type Spoil = fn(PolicyDecision) -> PolicyDecision;

/// A decision with one wrong rule changes nothing.
// rule: S3-ARCH-8
#[test]
fn decisions_are_refused_as_a_whole() {
    let rt = runtime(1, 1);
    let policy = rt.policy(short()).unwrap();
    beside_hogs(&rt, &["a", "b"], |cx| {
        let seat = policy.seat("odd", None).unwrap();
        let good = |view: &PolicyView| PolicyDecision::on(view).weight("a", weight(2_048));
        let slice = |slice| Some(Latency::Slice(slice));
        let wrong: [(Spoil, &str); 9] = [
            (|d| d.weight("b", weight(63)), "from 64 to 16384"),
            (|d| d.weight("b", Weight::MAX), "from 64 to 16384"),
            (|d| d.weight("a", weight(1_024)), "there twice"),
            (|d| d.weight("", weight(1_024)), "an address is empty"),
            (|d| d.weight("x".repeat(513), weight(1_024)), "longer than 512"),
            (|d| d.weight("b", weight(4_097)), "go there in steps"),
            (|d| d.weight("b", weight(255)), "go there in steps"),
            (|d| d.epoch(0), "the epoch is stale"),
            (
                |d| (0..1_025).fold(d, |d, n| d.weight(format!("t{n}"), weight(1_024))),
                "1024 rules at most",
            ),
        ];
        for (spoil, why) in wrong {
            let view = seat.view().unwrap();
            let refused = seat.decide(spoil(good(&view))).unwrap_err();
            assert!(refused.to_string().contains(why), "{refused}, not {why}");
            assert_eq!(policy.explain("a").unwrap().weight, 1_024, "{why}");
        }
        let view = seat.view().unwrap();
        for latency in [slice(255), slice(65_537)] {
            let refused = seat.decide(good(&view).tenant("b", None, latency)).unwrap_err();
            assert_eq!(refused, PolicyRefused::Slice { min: 256, max: 65_536 });
        }
        // Of another run, by its nonce.
        let other = runtime(2, 1);
        let others = other.policy(short()).unwrap();
        let seat_there = others.seat("other", None).unwrap();
        assert_eq!(seat_there.view().unwrap().sequence, 1);
        let foreign = good(&seat_there.view().unwrap());
        assert_eq!(seat.decide(foreign), Err(PolicyRefused::WrongRuntime));
        assert_eq!(policy.status().epoch, 0);
        seat.decide(good(&view)).unwrap();
        assert_eq!(seat.decide(good(&view)), Err(PolicyRefused::Stale { last: 1 }));
        assert_eq!(policy.explain("a").unwrap().weight, 2_048);
        cx.sleep(US(10))
    });
}

/// A service that floods the desk: ten decisions in a second come into force, and no refusal keeps
/// it alive.
#[test]
fn a_flood_is_bounded_and_no_sign_of_life() {
    let rt = runtime(1, 1);
    let policy = rt.policy(short()).unwrap();
    beside_hogs(&rt, &["a"], |cx| {
        let seat = policy.seat("flood", None).unwrap();
        let mut accepted = 0;
        for round in 0..3_000_u32 {
            let view = seat.view().unwrap();
            let decision = PolicyDecision::on(&view).weight("a", weight(1_024 + round % 2));
            accepted += u32::from(seat.decide(decision).is_ok());
            if round % 100 == 0 {
                cx.sleep(US(500))?;
            }
        }
        assert_eq!(accepted, 10);
        assert_eq!(policy.status().source, PolicySource::BuiltIn);
        assert_eq!(policy.explain("a").unwrap().by, DecidedBy::Program);
        Ok(())
    });
    let history = policy.history();
    assert!(history.len() < 40, "{}", history.len());
    assert_eq!(policy.status().refused, 2_990);
}

/// A service that panics is dead, and its seat is free.
#[test]
fn a_service_that_panics_leaves_its_seat() {
    let rt = runtime(1, 1);
    let mut looks = 0;
    let service = By(move |view: &PolicyView| {
        looks += 1;
        assert!(looks < 3, "the service is dead");
        Some(PolicyDecision::on(view).weight("a", weight(2_048)))
    });
    let policy = rt.policy(short().service(service)).unwrap();
    beside_hogs(&rt, &["a"], |cx| {
        cx.sleep(MS(1))?;
        assert_eq!(policy.explain("a").unwrap().weight, 2_048);
        assert_eq!(policy.status().service, None, "{:?}", policy.history());
        cx.sleep(MS(6))?;
        assert_eq!(policy.status().source, PolicySource::BuiltIn);
        assert_eq!(policy.explain("a").unwrap().weight, 1_024);
        Ok(())
    });
    assert!(changes(&policy).contains(&PolicyChange::Left));
}

/// One service at a time: another one takes over by the last epoch, and the first one is no longer
/// heard.
#[test]
fn a_seat_is_taken_over_by_the_last_epoch() {
    let rt = runtime(1, 1);
    let policy = rt.policy(short()).unwrap();
    let first = policy.seat("first", None).unwrap();
    let view = first.view().unwrap();
    first.decide(PolicyDecision::on(&view)).unwrap();
    let view = first.view().unwrap();
    assert_eq!(policy.seat("second", None).unwrap_err(), PolicyRefused::Seated { epoch: 1 });
    assert!(policy.seat("second", Some(0)).is_err());
    let second = policy.seat("second", Some(1)).unwrap();
    assert_eq!(first.decide(PolicyDecision::on(&view)), Err(PolicyRefused::NotSeated));
    assert_eq!(first.alive(1), Err(PolicyRefused::NotSeated));
    assert!(first.view().is_err());
    // A view of the former service is no basis.
    assert!(second.decide(PolicyDecision::on(&view)).is_err());
    drop(first);
    assert_eq!(policy.status().service.as_deref(), Some("second"));
    second.decide(PolicyDecision::on(&second.view().unwrap())).unwrap();
    drop(policy);
    assert_eq!(second.alive(2), Err(PolicyRefused::Ended));
    rt.policy(short()).unwrap();
}

/// The rules of the operator go before those of the service, and the operator can stop it.
// rule: S3-POLICY-6
#[test]
fn the_operator_goes_before_the_service() {
    let rt = runtime(1, 1);
    let policy = rt.policy(short()).unwrap();
    let seat = policy.seat("service", None).unwrap();
    beside_hogs(&rt, &["a", "b"], |_| {
        let decide = |weight_of_both| {
            let view = seat.view().unwrap();
            let both = ["a", "b"].into_iter();
            seat.decide(both.fold(PolicyDecision::on(&view), |decision, name| {
                decision.weight(name, weight(weight_of_both))
            }))
        };
        let seen = |name: &str| {
            let tenant = policy.explain(name).unwrap();
            (tenant.weight, tenant.by)
        };
        let old = seat.view().unwrap();
        policy.set("a", Weight::new(300), None).unwrap();
        let stale = seat.decide(PolicyDecision::on(&old));
        assert!(matches!(stale, Err(PolicyRefused::StaleView { .. })), "{stale:?}");
        decide(1_000).unwrap();
        assert_eq!(seen("a"), (300, DecidedBy::Operator));
        assert_eq!(seen("b"), (1_000, DecidedBy::Service));
        policy.fallback();
        assert_eq!(seen("b"), (1_024, DecidedBy::Program));
        assert_eq!(seen("a"), (300, DecidedBy::Operator));
        assert_eq!(decide(2_000), Err(PolicyRefused::Held));
        assert_eq!(seat.alive(1), Err(PolicyRefused::Held));
        policy.lift();
        decide(2_000).unwrap();
        assert_eq!(seen("b"), (2_000, DecidedBy::Service));
        assert!(policy.unset("a") && !policy.unset("a"));
        assert_eq!(seen("a"), (2_000, DecidedBy::Service));
        let rules = PolicyDecision::rules().weight("b", weight(64)).weight("a", weight(65));
        policy.load(&rules).unwrap();
        assert_eq!((seen("a").0, seen("b").0), (65, 64));
        let wrong = PolicyDecision::rules().weight("b", weight(128)).weight("a", weight(1));
        assert!(policy.load(&wrong).is_err() && policy.set("a", Weight::new(1), None).is_err());
        assert_eq!((seen("a").0, seen("b").0), (65, 64));
        Ok(())
    });
    drop(policy); // all rules with it
    beside_hogs(&rt, &["a"], |_| {
        assert_eq!(rt.stats().tenant("a").unwrap().weight, 1_024);
        Ok(())
    });
}

/// S3's gate. A table that starves the operator's tenant does not: the floor is served.
// rule: S3-POLICY-9
#[test]
fn the_operator_is_scheduled_under_a_hostile_table() {
    for seed in 0..5 {
        let rt = runtime(seed, 1);
        let names = ["a", "b", "c", "d", "e"];
        let mut looks = 0;
        let hostile = By(move |view: &PolicyView| {
            looks += 1;
            let (others, operator) = if looks == 1 { (4_096, 256) } else { (16_384, 64) };
            let table = PolicyDecision::on(view).weight("operator", weight(operator));
            Some(names.iter().fold(table, |table, name| table.weight(*name, weight(others))))
        });
        let policy = rt.policy(short().operator("operator", 50).service(hostile)).unwrap();
        let mut all: Vec<&str> = names.to_vec();
        all.push("operator");
        let (before, after) = beside_hogs(&rt, &all, |cx| {
            cx.sleep(MS(1))?;
            let before = rt.stats();
            cx.sleep(MS(30))?;
            assert_eq!(policy.explain("a").unwrap().weight, 16_384);
            assert_eq!(policy.explain("operator").unwrap().by, DecidedBy::Floor);
            Ok((before, rt.stats()))
        });
        let total: f64 = all.iter().map(|name| gain(&before, &after, name)).sum();
        let part = gain(&before, &after, "operator") / total;
        assert!((0.045..0.06).contains(&part), "{part}");
        assert_eq!(policy.status().refused, 0, "{:?}", policy.history());
    }
}

/// Contexts are admitted by the rules in force.
// rule: S3-POLICY-3, S3-SC-9, S3-SC-12
#[test]
fn contexts_are_admitted_by_the_rules_of_the_policy() {
    let rt = runtime(1, 1);
    let policy = rt.policy(short()).unwrap();
    let seat = policy.seat("service", None).unwrap();
    let decide = |rules: ContextRules| {
        let view = seat.view().unwrap();
        let terms = ContextTerms { budget: US(200), period: MS(2), deadline: MS(1), band: 2 };
        let decision = PolicyDecision::on(&view).contexts(rules);
        seat.decide(decision.context_terms("audio", terms)).unwrap();
    };
    let refused = |opts| match rt.admit(opts).unwrap_err().kind() {
        ErrorKind::ContextRefused(ContextRefused::Policy { asked, most, .. }) => (*asked, *most),
        other => panic!("{other:?}"),
    };
    let tenth = ContextOpts::new(US(100), MS(1));
    let mut rules = ContextRules::OPEN;
    (rules.each, rules.together, rules.band) = (200, 250, 3);
    decide(rules);
    assert_eq!(refused(ContextOpts::new(US(201), MS(1))), (201, 200));
    assert_eq!(refused(tenth.band(4)), (4, 3));
    let first = rt.admit(tenth).unwrap();
    let audio = rt.admit_as("audio", ContextOpts::new(US(900), MS(1))).unwrap();
    assert_eq!(audio.opts(), ContextOpts::new(US(200), MS(2)).deadline(MS(1)).band(2));
    assert_eq!(refused(tenth), (300, 250));
    decide(ContextRules::CLOSED);
    assert_eq!(refused(ContextOpts::new(Duration::from_nanos(2_001), Duration::MAX)).1, 0);
    assert_eq!(policy.status().refused_contexts, 4);
    // Those that were admitted keep their promise.
    assert!(!first.is_revoked() && !audio.is_revoked());
    // Without a policy admission decides by itself.
    policy.fallback();
    rt.admit(ContextOpts::new(US(400), MS(1))).unwrap();
    let refusals = changes(&policy);
    assert!(refusals.contains(&PolicyChange::ContextRefused), "{refusals:?}");
    let most = 900;
    rules = ContextRules::OPEN;
    rules.each = 901;
    let too_much = PolicyDecision::rules().contexts(rules);
    assert_eq!(policy.load(&too_much), Err(PolicyRefused::Contexts { most }));
}

/// The looks of a service are no deadlines: tasks that wait for each other are still found.
#[test]
fn a_policy_hides_no_deadlock() {
    let rt = runtime(1, 1);
    let _policy = rt.policy(short().service(By(|_: &PolicyView| None))).unwrap();
    let stuck = rt.run(|cx| {
        let (_sender, receiver) = parcae::channel::channel::<u8>(1);
        cx.nursery(|n| {
            let receiver = &receiver;
            n.spawn(move |_| Ok(receiver.recv().map(drop)?))?.join()
        })
    });
    assert!(stuck.unwrap_err().to_string().contains("deadlock"));
}

/// A runtime has one policy, and none without room for tenants.
#[test]
fn a_second_policy_is_refused() {
    let rt = runtime(1, 1);
    let policy = rt.policy(short()).unwrap();
    assert!(rt.policy(short()).unwrap_err().to_string().contains("has a policy"));
    drop(policy);
    let full = Runtime::builder().deterministic(1).max_tenants(0).build().unwrap();
    assert!(full.policy(short()).unwrap_err().to_string().contains("max_tenants"));
}

/// Waits on a thread until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(MS(2));
    }
}

/// On threads: a service that blocks for ever holds nothing up, and is left behind.
#[test]
fn a_service_that_blocks_holds_nothing_up() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (release, blocked) = mpsc::channel::<()>();
    let looks = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&looks);
    let service = By(move |view: &PolicyView| {
        if seen.fetch_add(1, Ordering::Relaxed) == 2 {
            let _ = blocked.recv();
        }
        Some(PolicyDecision::on(view).weight("a", weight(2_048)))
    });
    let opts = PolicyOpts::new().interval(MS(2)).patience(MS(30)).grace(MS(30));
    let policy = rt.policy(opts.service(service)).unwrap();
    let stop = AtomicBool::new(false);
    let (stop, policy_seen) = (&stop, &policy);
    rt.run(|cx| {
        cx.nursery(|all| {
            all.spawn(|cx| {
                let opts = NurseryOpts::new().name("a").share(weight(1_024));
                cx.nursery_with(opts, |n| {
                    n.spawn(|cx| {
                        while !stop.load(Ordering::Relaxed) {
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?
                    .join()
                })
            })?;
            parcae::blocking(|| {
                until("the service looks", || looks.load(Ordering::Relaxed) == 3);
                until("the watchdog", || policy_seen.status().source == PolicySource::BuiltIn);
                until("the table", || {
                    let tenant = policy_seen.explain("a");
                    tenant.is_some_and(|tenant| tenant.by == DecidedBy::Program)
                });
            })?;
            stop.store(true, Ordering::Relaxed);
            Ok(())
        })
    })
    .unwrap();
    drop(policy); // although the service has not returned
    drop(rt);
    drop(release);
}

/// On threads: a service that dies is replaced, and tasks go on.
#[test]
fn a_dead_service_is_replaced() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    let service = By(|_: &PolicyView| -> Option<PolicyDecision> { panic!("dead at once") });
    let opts = PolicyOpts::new().interval(MS(1)).patience(Duration::from_secs(600));
    let policy = rt.policy(opts.service(service)).unwrap();
    until("it dies", || policy.status().service.is_none());
    assert_eq!(rt.run(|_| Ok(7)).unwrap(), 7);
    let seat = policy.seat("next", None).unwrap();
    seat.decide(PolicyDecision::on(&seat.view().unwrap()).weight("b", weight(512))).unwrap();
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("b").share(weight(1_024)), |_| {
            assert_eq!(policy.explain("b").unwrap().weight, 512);
            Ok(())
        })
    })
    .unwrap();
}
