//! Leases of virtual workers: who runs where, how they end.

use crate::contexts::ms;
use crate::support::*;
use parcae::cap::{CapContext, CpuLease};
use parcae::policy::{
    Assurance, ContextOpts, ContextRefused, LeaseCause, LeaseFact, LeaseOpts, LeaseRefused,
    WorkerSet,
};
use parcae::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn refusal<T>(result: parcae::Result<T>) -> LeaseRefused {
    match result.err().expect("it is refused").kind() {
        ErrorKind::LeaseRefused(refused) => *refused,
        other => panic!("{other:?}"),
    }
}

/// A context on this worker.
fn context_on(rt: &Runtime, worker: u8) -> CapContext {
    rt.admit(ContextOpts::new(ms(2), ms(10)).workers(WorkerSet::of(worker))).unwrap()
}

/// Counts the tasks that ran on a worker, and elsewhere.
#[derive(Default)]
struct Places([AtomicUsize; 2]);

impl Places {
    fn note(&self, cx: &Cx, worker: usize) -> parcae::Result<()> {
        self.0[usize::from(cx.worker() == worker)].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn there(&self) -> usize {
        self.0[1].load(Ordering::Relaxed)
    }

    fn elsewhere(&self) -> usize {
        self.0[0].load(Ordering::Relaxed)
    }
}

/// Tasks of all kinds, each of which notes where it runs again and again: usual ones, ones with a
/// priority, near their spawner, of tenants, that wait, that spawn.
fn crowd(cx: &Cx, worker: usize, places: &Places) -> parcae::Result<()> {
    cx.nursery(|n| {
        for number in 0..6 {
            let opts = match number {
                0 => SpawnOpts::new().priority(Priority::High),
                1 => SpawnOpts::new().priority(Priority::Low),
                2 => SpawnOpts::new().placement(parcae::task::Placement::Near),
                3 => SpawnOpts::new().placement(parcae::task::Placement::Spread),
                _ => SpawnOpts::new(),
            };
            n.spawn_with(opts, move |cx| {
                for _ in 0..4 {
                    places.note(cx, worker)?;
                    cx.sleep(Duration::from_micros(30 + number))?;
                    cx.nursery(|n| {
                        n.spawn(|cx| {
                            cx.yield_now()?;
                            places.note(cx, worker)
                        })?;
                        Ok(())
                    })?;
                }
                Ok(())
            })?;
        }
        n.spawn(|cx| {
            cx.nursery_with(tenant("crowd", 100), |n| {
                for _ in 0..3 {
                    n.spawn(|cx| {
                        (0..200).try_for_each(|_| cx.checkpoint())?;
                        cx.sleep(Duration::from_micros(10))?;
                        places.note(cx, worker)
                    })?;
                }
                Ok(())
            })
        })?;
        Ok(())
    })
}

// rule: S3-GOAL-6, S3-LEASE-1, S3-LEASE-4
#[test]
fn a_leased_worker_runs_the_tasks_of_its_contexts_alone() {
    for (seed, workers) in (0..60).flat_map(|seed| [(seed, 2), (seed, 3)]) {
        let rt = runtime(seed, workers);
        let cap = context_on(&rt, (seed % workers as u64) as u8);
        let (own, others) = (Places::default(), Places::default());
        rt.run(|cx| {
            cx.nursery(|n| {
                // Before the lease: some tasks begin on its worker.
                n.spawn(|cx| crowd(cx, cap.worker(), &Places::default()))?;
                cx.yield_now()?;
                if cx.worker() == cap.worker() {
                    return Ok(()); // this task itself would have to end first
                }
                let lease = rt.lease(LeaseOpts::new(&cap))?;
                assert!(!lease.is_active());
                let proof = lease.activate(ms(500))?;
                assert!(lease.is_active());
                assert_eq!(proof.assurance(LeaseFact::Tasks), Assurance::Verified);
                let worker = lease.worker();
                let (own, others) = (&own, &others);
                cx.nursery(|n| {
                    let opts = SpawnOpts::new().context(&cap);
                    n.spawn_with(opts, |cx| {
                        for _ in 0..5 {
                            cx.next_period()?;
                            own.note(cx, worker)?;
                            // Its children run on no context, and not here.
                            (0..100).try_for_each(|_| cx.checkpoint())?;
                        }
                        Ok(())
                    })?;
                    for _ in 0..3 {
                        n.spawn(move |cx| crowd(cx, worker, others))?;
                    }
                    Ok(())
                })?;
                assert_eq!(lease.release().cause, LeaseCause::Released);
                Ok(())
            })
        })
        .unwrap_or_else(|error| panic!("seed {seed}, {workers} workers: {error}"));
        assert_eq!(others.there(), 0, "seed {seed}, {workers} workers");
        assert!(own.elsewhere() == 0 && (own.there() == 5) == (others.elsewhere() > 0));
    }
}

/// A task on the leased worker spawns others that run on no context: they run elsewhere, also if no
/// worker steals.
#[test]
fn spawns_of_the_owner_run_elsewhere() {
    for seed in 0..40 {
        let builder = Runtime::builder().deterministic(seed).workers(2);
        let victims = [parcae::runtime::Victims::Random, parcae::runtime::Victims::Nobody];
        let rt = builder.victims(victims[(seed % 2) as usize]).build().unwrap();
        let cap = context_on(&rt, 1);
        let lease = rt.lease(LeaseOpts::new(&cap)).unwrap();
        let places = Places::default();
        rt.run(|cx| {
            lease.activate(ms(100))?;
            cx.nursery(|outer| {
                let (places, worker) = (&places, lease.worker());
                outer.spawn_with(SpawnOpts::new().context(&cap), move |cx| {
                    assert_eq!(cx.worker(), worker);
                    for near in [true, false, true, false] {
                        let opts = match near {
                            true => SpawnOpts::new().placement(parcae::task::Placement::Near),
                            false => SpawnOpts::new(),
                        };
                        outer.spawn_with(opts, move |cx| {
                            places.note(cx, worker)?;
                            cx.yield_now()?;
                            places.note(cx, worker)
                        })?;
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
                Ok(())
            })
        })
        .unwrap();
        assert_eq!((places.there(), places.elsewhere()), (0, 8), "seed {seed}");
    }
}

// rule: S3-LEASE-3, S3-GATE-16
#[test]
fn a_worker_is_left_for_housekeeping() {
    use parcae::policy::LeaseRules;
    let rt = runtime(1, 1);
    let only = context_on(&rt, 0);
    let refused = refusal(rt.lease(LeaseOpts::new(&only)));
    assert_eq!(refused, LeaseRefused::Rules(LeaseRules::NoHousekeeping));

    let rt = runtime(1, 3);
    let contexts: Vec<CapContext> = (0..3).map(|worker| context_on(&rt, worker)).collect();
    let first = rt.lease(LeaseOpts::new(&contexts[0])).unwrap();
    let second = rt.lease(LeaseOpts::new(&contexts[1])).unwrap();
    let again = refusal(rt.lease(LeaseOpts::new(&contexts[0])));
    assert_eq!(again, LeaseRefused::Rules(LeaseRules::Leased));
    let last = refusal(rt.lease(LeaseOpts::new(&contexts[2])));
    assert_eq!(last, LeaseRefused::Rules(LeaseRules::NoHousekeeping));
    assert!(last.to_string().contains("housekeeping"));
    // All work is done by the worker that is left.
    let places = Places::default();
    rt.run(|cx| {
        first.activate(ms(100))?;
        second.activate(ms(100))?;
        crowd(cx, 2, &places)
    })
    .unwrap();
    assert_eq!(places.elsewhere(), 0);
    assert!(places.there() > 0);
    drop(first);
    rt.lease(LeaseOpts::new(&contexts[2])).unwrap();
}

#[test]
fn a_lease_names_the_contexts_of_one_worker() {
    let rt = runtime(1, 3);
    let (here, too) = (context_on(&rt, 0), context_on(&rt, 0));
    let there = context_on(&rt, 1);
    let apart = refusal(rt.lease(LeaseOpts::new(&here).with(&there)));
    assert_eq!(apart, LeaseRefused::Apart { worker: 0, other: 1 });
    let occupied = refusal(rt.lease(LeaseOpts::new(&here)));
    assert_eq!(occupied, LeaseRefused::Occupied { worker: 0, contexts: 1 });
    let lease = rt.lease(LeaseOpts::new(&here).with(&too)).unwrap();

    // Admission keeps off.
    let opts = ContextOpts::new(ms(1), ms(10));
    let refused = rt.admit(opts.workers(WorkerSet::of(0))).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ContextRefused(ContextRefused::Leased)));
    assert_ne!(rt.admit(opts).unwrap().worker(), 0);
    drop(lease);
    assert_eq!(rt.admit(opts.workers(WorkerSet::of(0))).unwrap().worker(), 0);

    let foreign = context_on(&runtime(2, 2), 0);
    assert_eq!(refusal(rt.lease(LeaseOpts::new(&foreign))), LeaseRefused::Foreign);
    too.revoke();
    let revoked = refusal(rt.lease(LeaseOpts::new(&here).with(&too)));
    assert_eq!(revoked, LeaseRefused::Revoked);
}

/// A task that began on the worker keeps the lease from being put into force until it ends.
#[test]
fn tasks_that_began_there_end_first() {
    for seed in 0..40 {
        let rt = runtime(seed, 2);
        let cap = context_on(&rt, 0);
        let found = rt.run(|cx| {
            cx.nursery(|n| {
                let there: Vec<_> = (0..8)
                    .map(|_| {
                        n.spawn(|cx| {
                            let worker = cx.worker();
                            cx.sleep(ms(20))?;
                            Ok(worker)
                        })
                    })
                    .collect::<parcae::Result<_>>()?;
                cx.sleep(ms(1))?;
                let lease = rt.lease(LeaseOpts::new(&cap))?;
                let early = lease.activate(ms(1));
                let was_there = cx.worker() == 0;
                let late = lease.activate(ms(50));
                let there: Vec<usize> =
                    there.into_iter().map(TaskHandle::join).collect::<parcae::Result<_>>()?;
                let tasks = there.iter().filter(|&&worker| worker == 0).count();
                Ok((early.map(drop), late.map(drop), was_there, tasks as u32))
            })
        });
        let (early, late, was_there, tasks) = found.unwrap();
        if was_there {
            // The task that waits is one of them.
            assert_eq!(refusal(late), LeaseRefused::Busy { worker: 0, tasks: 1 }, "seed {seed}");
        } else if tasks > 0 {
            assert_eq!(refusal(early), LeaseRefused::Busy { worker: 0, tasks }, "seed {seed}");
            late.unwrap();
        } else {
            early.unwrap();
        }
    }
}

/// The report of a worker about an earlier lease says nothing about a later one.
#[test]
fn a_worker_answers_each_lease() {
    let rt = runtime(1, 2);
    let cap = context_on(&rt, 1);
    let first = rt.lease(LeaseOpts::new(&cap)).unwrap();
    let again = rt.run(|_| {
        first.activate(ms(100))?;
        drop(first);
        let second = rt.lease(LeaseOpts::new(&cap))?;
        Ok((second.activate(Duration::ZERO).map(drop), second.activate(ms(100)).map(drop)))
    });
    let (at_once, later) = again.unwrap();
    assert_eq!(refusal(at_once), LeaseRefused::Unanswered { worker: 1 });
    later.unwrap();
}

/// A lease on worker 1, in force, with a task that computes there; and what `act` does about it.
fn with_lease<R: Send>(
    seed: u64,
    opts: impl Fn(&CapContext) -> LeaseOpts,
    polite: bool,
    act: impl FnOnce(&Cx, &CpuLease, &CapContext) -> parcae::Result<R> + Send,
) -> R {
    let rt = runtime(seed, 2);
    let cap = context_on(&rt, 1);
    let lease = rt.lease(opts(&cap)).unwrap();
    rt.run(|cx| {
        lease.activate(ms(100))?;
        cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
            let (token, cap, lease) = (lease.token(), &cap, &lease);
            n.spawn_with(SpawnOpts::new().context(cap), move |cx| {
                while !(polite && token.is_cancelled()) {
                    cx.checkpoint()?;
                }
                Ok(())
            })?;
            let result = act(cx, lease, cap)?;
            cap.revoke(); // ends the task
            Ok(result)
        })
    })
    .unwrap()
}

// rule: S3-LEASE-7, S3-GATE-14
#[test]
fn a_revoked_lease_ends_by_release_or_by_force_at_its_time() {
    let opts = |cap: &CapContext| LeaseOpts::new(cap).max_latency(ms(5));
    for seed in 0..40 {
        // The owner does not leave.
        with_lease(seed, opts, false, |cx, lease, cap| {
            lease.revoker().revoke();
            assert!(lease.token().is_cancelled() && !lease.is_active() && lease.end().is_none());
            lease.revoke(); // changes nothing
            cx.sleep(ms(4))?;
            assert!(lease.end().is_none() && !cap.is_revoked());
            cx.sleep(ms(2))?;
            let end = lease.end().expect("taken by force");
            assert!(end.forced && cap.is_revoked());
            assert_eq!(end.cause, LeaseCause::Policy);
            assert!((ms(5)..ms(6)).contains(&end.latency), "seed {seed}: {end:?}");
            // The worker takes part in all work again.
            let places = Places::default();
            for _ in 0..6 {
                crowd(cx, 1, &places)?;
            }
            assert!(places.there() > 0, "seed {seed}");
            Ok(())
        });
    }
    let rt = runtime(1, 2);
    let cap = context_on(&rt, 1);
    let lease = rt.lease(opts(&cap)).unwrap();
    let end = rt.run(|cx| {
        lease.activate(ms(100))?;
        lease.revoke();
        cx.sleep(ms(3))?;
        Ok(lease.release())
    });
    let end = end.unwrap();
    assert!(!end.forced && (ms(3)..ms(4)).contains(&end.latency), "{end:?}");
    assert!(!cap.is_revoked(), "its tasks may go on, beside others");

    // One that could not be revoked in time is not put into force.
    let rt = runtime(1, 2);
    let cap = context_on(&rt, 1);
    let slow = rt.lease(opts(&cap).latency(ms(6))).unwrap();
    let refused = rt.run(|_| slow.activate(ms(100)));
    assert!(matches!(refusal(refused), LeaseRefused::Rules(_)));
}

// rule: S3-GATE-15, S3-LEASE-6
#[test]
fn a_lease_ends_with_its_owner_its_session_and_its_account() {
    let session = CancelToken::new();
    let opts = |cap: &CapContext| LeaseOpts::new(cap).session(&session).max_latency(ms(2));
    with_lease(1, opts, false, |cx, lease, _| {
        session.cancel();
        assert!(lease.token().is_cancelled());
        cx.sleep(ms(3))?;
        let end = lease.end().expect("its time is over");
        assert!(end.forced && end.cause == LeaseCause::SessionClosed);
        Ok(())
    });
    with_lease(2, LeaseOpts::new, false, |_, lease, cap| {
        cap.revoke(); // nothing can be charged any more
        let end = lease.end().expect("at once");
        assert!(!end.forced && end.cause == LeaseCause::AccountGone);
        Ok(())
    });
    // The owner dies: by an error, a panic, a cancellation.
    for death in 0..3 {
        let rt = runtime(death, 2);
        let cap = context_on(&rt, 1);
        let ended = rt.run(|cx| {
            let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
            cx.nursery_with(opts, |n| {
                let owner = n.spawn(|cx| {
                    let lease = rt.lease(LeaseOpts::new(&cap))?;
                    let _ = lease.activate(ms(1));
                    match death {
                        0 => Err(parcae::Error::msg("gone")),
                        1 => panic!("gone"),
                        _ => cx.sleep(ms(1000)),
                    }
                })?;
                cx.sleep(ms(5))?;
                owner.cancel();
                assert!(owner.join().is_err());
                // The worker is free: it can be leased again.
                rt.lease(LeaseOpts::new(&cap)).map(drop)
            })
        });
        ended.unwrap();
    }
    // One that is not in force ends at once.
    let rt = runtime(1, 2);
    let cap = context_on(&rt, 1);
    let lease = rt.lease(LeaseOpts::new(&cap)).unwrap();
    lease.revoke();
    assert!(lease.end().is_some());
    assert_eq!(refusal(lease.activate(ms(1))), LeaseRefused::Ended);
}

// rule: S3-LEASE-2
#[test]
fn a_proof_says_what_was_established() {
    let rt = runtime(1, 2);
    let cap = context_on(&rt, 1);
    let strict = LeaseOpts::new(&cap).require(LeaseFact::Affinity);
    let lease = rt.lease(strict).unwrap();
    // A virtual worker has no processor.
    let refused = rt.run(|_| lease.activate(ms(100)));
    assert_eq!(refusal(refused), LeaseRefused::Unproven(LeaseFact::Affinity));
    drop(lease);
    let lease = rt.lease(LeaseOpts::new(&cap).require(LeaseFact::Tasks)).unwrap();
    let proof = rt.run(|_| lease.activate(ms(100))).unwrap();
    assert_eq!((proof.worker(), proof.cpu()), (1, None));
    assert_eq!(proof.assurance(LeaseFact::Latency), Assurance::Assumed);
    let text = proof.to_string();
    assert!(text.starts_with("worker 1, on no processor of its own\n"), "{text}");
    assert!(text.contains("no tasks of others      verified  the worker has told"), "{text}");
    assert!(text.contains("isolated by the kernel  absent    a virtual worker"), "{text}");
    assert_eq!(lease.proof(), Some(proof));
    let audit: Vec<String> = rt.audit().drain().iter().map(ToString::to_string).collect();
    assert!(audit.iter().any(|entry| entry.contains("lease capability")), "{audit:?}");
}
