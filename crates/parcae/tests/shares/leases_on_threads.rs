//! Leases of workers that are threads: the processor, the other threads, storms of leases.

use crate::contexts::ms;
use crate::support::*;
use parcae::cap::CapContext;
use parcae::policy::{Assurance, ContextOpts, LeaseFact, LeaseOpts, Pin, WorkerSet};
use parcae::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Leases of processors concern the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn context_on(rt: &Runtime, worker: u8) -> CapContext {
    rt.admit(ContextOpts::new(ms(2), ms(10)).workers(WorkerSet::of(worker))).unwrap()
}

/// The processors that the calling thread may use.
fn processors() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let numbers = line.trim().split(',').flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    });
    numbers.collect()
}

/// A leased worker has a processor, if there are two, and no other thread of the runtime uses it:
/// workers, the monitor, threads of blocking calls that start later. All that ends with the lease.
#[test]
fn a_leased_worker_has_a_processor_for_itself() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = processors();
    let rt = Runtime::builder().workers(2).build().unwrap();
    let cap = context_on(&rt, 1);
    let lease = rt.lease(LeaseOpts::new(&cap)).unwrap();
    let proof = lease.activate(PATIENCE).unwrap();
    println!("{proof}");
    assert_eq!(proof.assurance(LeaseFact::Tasks), Assurance::Verified);
    let expected = if before.len() > 1 { Assurance::Verified } else { Assurance::Absent };
    assert_eq!(proof.assurance(LeaseFact::Affinity), expected);
    rt.run(|cx| {
        cx.nursery(|n| {
            let own = n.spawn_with(SpawnOpts::new().context(&cap), |_| Ok(processors()))?.join()?;
            let called = n
                .spawn_with(SpawnOpts::new().context(&cap), |_| parcae::blocking(processors))?
                .join()?;
            let others = n.spawn(|_| Ok(processors()))?.join()?;
            let Some(cpu) = proof.cpu() else { return Ok(()) };
            assert_eq!(own, [cpu]);
            assert!(!others.is_empty() && !others.contains(&cpu), "{others:?}");
            assert!(!called.is_empty() && !called.contains(&cpu), "{called:?}");
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(processors(), before, "threads of the program are left alone");

    // A second runtime cannot have the same processor.
    if let Some(cpu) = proof.cpu() {
        let other = Runtime::builder().workers(2).build().unwrap();
        let cap = context_on(&other, 0);
        let lease = other.lease(LeaseOpts::new(&cap).pin(Pin::To(cpu))).unwrap();
        let proof = lease.activate(PATIENCE).unwrap();
        assert_eq!(proof.assurance(LeaseFact::Affinity), Assurance::Absent, "{proof}");
    }
    drop(lease);
    let again = rt.run(|cx| {
        cx.nursery(|n| {
            let own = n.spawn_with(SpawnOpts::new().context(&cap), |_| Ok(processors()))?.join()?;
            Ok((own, processors()))
        })
    });
    assert_eq!(again.unwrap(), (before.clone(), before));
}

/// Realtime priority is granted or refused by the system; the proof says which.
#[test]
fn realtime_priority_is_proven_or_absent() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let rt = Runtime::builder().workers(2).build().unwrap();
    let cap = context_on(&rt, 1);
    let lease = rt.lease(LeaseOpts::new(&cap).priority(10)).unwrap();
    let proof = lease.activate(PATIENCE).unwrap();
    let policy = || {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[38].parse::<u32>().unwrap() // `policy` is field 41, and two are before the bracket
    };
    let of_worker = |rt: &Runtime| {
        rt.run(|cx| {
            cx.nursery(|n| n.spawn_with(SpawnOpts::new().context(&cap), |_| Ok(policy()))?.join())
        })
        .unwrap()
    };
    let is_verified = proof.assurance(LeaseFact::Priority) == Assurance::Verified;
    assert_eq!(of_worker(&rt), u32::from(is_verified), "SCHED_FIFO is 1: {proof}");
    drop(lease);
    assert_eq!(of_worker(&rt), 0);
}

/// Under load, leases come and go, by release and by force. No task of others begins on a worker
/// while its lease is in force, and no task is lost.
// rule: S3-GATE-14
#[test]
fn leases_come_and_go_under_load() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let rounds = if cfg!(debug_assertions) { 30 } else { 120 };
    let rt = Runtime::builder().workers(3).build().unwrap();
    let (curtain, in_force) = (Curtain::default(), AtomicBool::new(false));
    let (intruders, ran, ready) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    // The tasks that stay begin elsewhere: they would keep later leases from being in force.
    let cap = context_on(&rt, 2);
    let first = rt.lease(LeaseOpts::new(&cap).pin(Pin::No)).unwrap();
    first.activate(PATIENCE).unwrap();
    let forced = rt.run(|cx| {
        cx.nursery(|n| {
            let (curtain, in_force, intruders) = (&curtain, &in_force, &intruders);
            let (ran, ready) = (&ran, &ready);
            for _ in 0..4 {
                n.spawn(move |cx| {
                    ready.fetch_add(1, Ordering::Relaxed);
                    while !curtain.is_down() {
                        cx.nursery(|n| {
                            for _ in 0..8 {
                                n.spawn(move |cx| {
                                    // The lease was in force before the task began, and still is.
                                    let before = in_force.load(Ordering::SeqCst);
                                    let intrudes = before && cx.worker() == 2;
                                    let after = in_force.load(Ordering::SeqCst);
                                    let intrudes = usize::from(intrudes && after);
                                    intruders.fetch_add(intrudes, Ordering::Relaxed);
                                    ran.fetch_add(1, Ordering::Relaxed);
                                    cx.yield_now()
                                })?;
                            }
                            Ok(())
                        })?;
                        cx.sleep(Duration::from_micros(50))?;
                    }
                    Ok(())
                })?;
            }
            while ready.load(Ordering::Relaxed) < 4 {
                cx.sleep(ms(1))?;
            }
            drop((first, cap));
            let mut forced = 0;
            for round in 0..rounds {
                let cap = context_on(&rt, 2);
                let lease = rt.lease(LeaseOpts::new(&cap).max_latency(ms(1)).pin(Pin::No))?;
                lease.activate(PATIENCE)?;
                in_force.store(true, Ordering::SeqCst);
                cx.sleep(Duration::from_micros(300))?;
                in_force.store(false, Ordering::SeqCst);
                if round % 2 == 0 {
                    drop(lease);
                } else {
                    lease.revoke();
                    while lease.end().is_none() {
                        cx.sleep(Duration::from_micros(100))?;
                    }
                    forced += u32::from(lease.end().is_some_and(|end| end.forced));
                }
            }
            curtain.fall();
            Ok(forced)
        })
    });
    assert_eq!(forced.unwrap(), rounds / 2);
    assert_eq!(intruders.into_inner(), 0);
    println!("{} tasks", ran.into_inner());
}

/// Work that waits while the only idle worker is leased is done by another one, and by this one
/// when it is given back: no worker sleeps beside work.
#[test]
fn no_work_waits_for_a_leased_worker() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let rt = Runtime::builder().workers(2).build().unwrap();
    for round in 0..20 {
        let cap = context_on(&rt, round % 2);
        let lease = rt.lease(LeaseOpts::new(&cap).pin(Pin::No)).unwrap();
        lease.activate(PATIENCE).unwrap();
        let done = AtomicUsize::new(0);
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..50 {
                    n.spawn(|cx| {
                        cx.sleep(Duration::from_micros(20))?;
                        Ok(done.fetch_add(1, Ordering::Relaxed))
                    })?;
                }
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(done.into_inner(), 50);
        drop(lease);
        rt.run(|cx| cx.nursery(|n| n.spawn(|_| Ok(()))?.join())).unwrap();
    }
}
