//! Accounts: each charge goes to one of them, and only while work is done.

use crate::support::*;
use parcae::policy::Charging;
use parcae::prelude::*;
use parcae::stats::Snapshot;
use std::time::Duration;

/// Samples all accounts of a run with hogs and sleepers, at every tenth step.
fn samples(rt: &Runtime, count: usize) -> Vec<Snapshot> {
    let curtain = Curtain::default();
    rt.run(|cx| {
        cx.nursery(|all| {
            let curtain = &curtain;
            all.spawn(move |cx| {
                cx.nursery_with(tenant("movers", 1024), |n| {
                    for _ in 0..3 {
                        // SAFETY: the closure keeps nothing that belongs to a thread.
                        let opts = unsafe { SpawnOpts::new().migratable() };
                        n.spawn_with(opts, move |cx| {
                            while !curtain.is_down() {
                                cx.checkpoint()?;
                                cx.yield_now()?;
                            }
                            Ok(())
                        })?;
                    }
                    Ok(())
                })
            })?;
            all.spawn(move |cx| {
                cx.nursery_with(tenant("sleepers", 1024), |n| {
                    n.spawn(move |cx| {
                        while !curtain.is_down() {
                            cx.sleep(Duration::from_micros(300))?;
                        }
                        Ok(())
                    })?;
                    Ok(())
                })
            })?;
            let mut all = Vec::new();
            for _ in 0..count {
                cx.sleep(Duration::from_micros(10))?;
                all.push(rt.stats());
            }
            curtain.fall();
            Ok(all)
        })
    })
    .expect("all end")
}

/// Figures never fall, on whichever worker the tasks run, and a tenant whose tasks all sleep is not
/// charged.
// rule: S3-ACCT-5, S3-EEVDF-5
#[test]
fn accounts_only_grow_survive_migration_and_stop_while_tasks_wait() {
    for seed in 0..20 {
        let rt = runtime(seed, 2);
        let samples = samples(&rt, 60);
        let mut still = 0;
        for pair in samples.windows(2) {
            for (before, after) in pair[0].tenants.iter().zip(&pair[1].tenants) {
                assert_eq!(before.number, after.number);
                assert!(before.ops <= after.ops && before.turns <= after.turns, "seed {seed}");
            }
            assert!(pair[0].upkeep.polls.passes <= pair[1].upkeep.polls.passes);
            if let [Some(before), Some(after)] = [&pair[0], &pair[1]].map(|s| s.tenant("sleepers"))
                && before.turns == after.turns
            {
                assert_eq!(before.ops, after.ops, "no turn, no charge");
                still += 1;
            }
        }
        assert!(still > 10, "seed {seed}: it sleeps most of the time, {still}");
        let last = samples.last().expect("a sample");
        let workers = last.workers.iter().filter(|worker| worker.counters.executed > 10).count();
        assert_eq!(workers, 2, "seed {seed}: both workers have run tasks");
        let charged: u64 = last.tenants.iter().map(|tenant| tenant.ops).sum();
        assert!(of(last, "movers").ops > charged / 2, "seed {seed}: {:?}", last.tenants);
    }
}

/// Polls and timers have accounts; without tenants nothing is counted.
// rule: S3-ACCT-5
#[test]
fn polls_and_timers_are_charged_to_the_runtime() {
    let rt = runtime(1, 1);
    let last = samples(&rt, 40).pop().expect("a sample");
    assert!(last.upkeep.polls.passes >= 10, "{:?}", last.upkeep);
    assert_eq!(last.upkeep.polls.took, Duration::ZERO, "virtual time stands still meanwhile");
    // Its executor fires timers itself; workers on threads fire their own.
    let threads = Runtime::builder().workers(1).build().unwrap();
    threads
        .run(|cx| {
            cx.nursery_with(tenant_opts(), |n| {
                n.spawn(|cx| (0..3).try_for_each(|_| cx.sleep(Duration::from_millis(1))))?;
                Ok(())
            })
        })
        .unwrap();
    let timers = threads.stats().upkeep.timers;
    assert!(timers.passes >= 1 && timers.took > Duration::ZERO, "{timers:?}");
    assert!(last.to_json().contains(r#""upkeep":{"timers":{"passes":"#), "{}", last.to_json());
    assert!(last.to_prometheus().contains(r#"parcae_upkeep_seconds_total{account="timers"}"#));

    let plain = runtime(1, 1);
    plain.run(|cx| cx.sleep(Duration::from_micros(50))).unwrap();
    assert_eq!(plain.stats().upkeep, Default::default());
    assert!(!plain.stats().to_prometheus().contains("parcae_upkeep"));
}

/// Calls of a tenant's tasks are its own, those of other tasks are not.
fn call_three_times(rt: &Runtime) -> Snapshot {
    rt.run(|cx| {
        cx.nursery_with(tenant_opts(), |n| {
            n.spawn(|_| (0..3).try_for_each(|_| parcae::blocking(nap)))?;
            Ok(())
        })?;
        parcae::blocking(nap)?;
        Ok(rt.stats())
    })
    .expect("calls return")
}

fn tenant_opts() -> NurseryOpts {
    NurseryOpts::new().name("caller").share(weight(1024))
}

/// The least time that a call takes.
const NAP: Duration = Duration::from_millis(2);

fn nap() {
    std::thread::sleep(NAP);
}

// rule: S3-ACCT-5
#[test]
fn blocking_calls_are_charged_to_the_tenant_of_the_caller() {
    let rt = Runtime::builder().workers(1).charging(Charging::Exact).build().unwrap();
    let stats = call_three_times(&rt);
    let (caller, rest) = (of(&stats, "caller"), &stats.tenants[0]);
    assert_eq!((caller.blocking_calls, rest.blocking_calls), (3, 1));
    assert!(caller.blocked >= 3 * NAP && rest.blocked >= NAP, "{caller:?}, {rest:?}");

    let stats = call_three_times(&runtime(7, 1));
    let (caller, rest) = (of(&stats, "caller"), &stats.tenants[0]);
    assert_eq!((caller.blocking_calls, rest.blocking_calls), (3, 1));
    assert_eq!(caller.blocked, Duration::ZERO, "made in place, in virtual time");
}
