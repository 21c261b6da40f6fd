//! No task of a tenant is lost: spawns, wakes, cancels and ends at random, on all executors.

use crate::support::*;
use parcae::channel::channel;
use parcae::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Tasks of several tenants that spawn, wait, wake each other and end; returns how many ran.
fn storm(cx: &Cx, tenants: u64, tasks: u64) -> parcae::Result<u64> {
    let ran = AtomicU64::new(0);
    cx.nursery(|all| {
        for t in 0..tenants {
            let ran = &ran;
            all.spawn(move |cx| {
                let opts =
                    NurseryOpts::new().name(format!("t{t}")).share(weight(512 + 512 * t as u32));
                cx.nursery_with(opts, |n| {
                    let (tx, rx) = channel(4);
                    for i in 0..tasks {
                        let (tx, rx) = (tx.clone(), rx.clone());
                        let opts = SpawnOpts::new().priority(match i % 3 {
                            0 => Priority::Low,
                            1 => Priority::Normal,
                            _ => Priority::High,
                        });
                        n.spawn_with(opts, move |cx| {
                            match i % 5 {
                                0 => cx.yield_now()?,
                                1 => cx.sleep(Duration::from_micros(50 + i))?,
                                2 => tx.send(i)?,
                                3 => drop(rx.recv_timeout(Duration::from_micros(200))),
                                _ => (0..2_000).try_for_each(|_| cx.checkpoint())?,
                            }
                            cx.nursery(|n| {
                                n.spawn(|_| {
                                    ran.fetch_add(1, Ordering::Relaxed);
                                    Ok(())
                                })?;
                                Ok(())
                            })
                        })?;
                    }
                    // As many receivers as senders, or senders would wait for ever.
                    for _ in 0..tasks.div_ceil(5) {
                        drop(rx.recv_timeout(Duration::from_millis(1)));
                    }
                    Ok(())
                })
            })?;
        }
        Ok(())
    })?;
    Ok(ran.into_inner())
}

#[test]
fn no_task_is_lost_on_virtual_workers() {
    for workers in [1, 2, 4] {
        for seed in 0..30 {
            let rt = Runtime::builder().deterministic(seed).workers(workers).build().unwrap();
            assert_eq!(rt.run(|cx| storm(cx, 5, 20)).unwrap(), 100, "{workers} {seed}");
        }
    }
}

#[test]
fn no_task_is_lost_on_threads() {
    for workers in [1, 2, 4] {
        for _ in 0..20 {
            let rt = Runtime::builder().workers(workers).build().unwrap();
            assert_eq!(rt.run(|cx| storm(cx, 5, 40)).unwrap(), 200, "{workers}");
        }
    }
}

/// Wakes from other threads, with the workers asleep in between.
#[test]
fn no_wake_is_lost_between_sleeping_workers() {
    let rt = Runtime::builder().workers(2).spin(Duration::ZERO).build().unwrap();
    rt.run(|cx| {
        cx.nursery_with(NurseryOpts::new().name("pairs").share(weight(2048)), |n| {
            for _ in 0..4 {
                let ((ping, pinged), (pong, ponged)) = (channel(1), channel(1));
                n.spawn(move |_| {
                    for i in 0..2_000_u32 {
                        ping.send(i)?;
                        assert_eq!(ponged.recv()?, i);
                    }
                    Ok(())
                })?;
                n.spawn(move |_| {
                    while let Ok(i) = pinged.recv() {
                        if pong.send(i).is_err() {
                            break;
                        }
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
    .unwrap();
}

/// A tenant is cancelled in the middle of everything.
#[test]
fn a_cancelled_tenant_ends() {
    for seed in 0..100 {
        let rt =
            Runtime::builder().deterministic(seed).workers(1 + seed as usize % 3).build().unwrap();
        let error = rt.run(|cx| {
            cx.nursery(|all| {
                let storm = all.spawn(|cx| {
                    let opts = tenant("cut", 1024).timeout(Duration::from_micros(20 + seed));
                    cx.nursery_with(opts, |n| {
                        n.spawn(|cx| storm(cx, 3, 10))?;
                        n.spawn(|cx| cx.forever(|| Ok(())))?;
                        Ok(())
                    })
                })?;
                storm.join()
            })
        });
        assert!(error.unwrap_err().is_timed_out(), "{seed}");
        // Everything of it has gone.
        let live =
            rt.stats().tenants.iter().filter(|tenant| tenant.number > 0 && tenant.open > 0).count();
        assert_eq!(live, 0, "{seed}");
    }
}

/// Shutdown with tenants that wait and compute.
#[test]
fn shutdown_ends_tenants() {
    for _ in 0..10 {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let task = rt
            .spawn(|cx| {
                cx.nursery_with(tenant_on_threads(), |n| {
                    n.spawn(|cx| cx.forever(|| Ok(())))?;
                    n.spawn(|cx| cx.sleep(Duration::from_secs(3600)))?;
                    Ok(())
                })
            })
            .unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let _ = rt.shutdown(Duration::from_secs(30));
        assert!(task.join().is_err());
    }
}

fn tenant_on_threads() -> NurseryOpts {
    NurseryOpts::new().name("served").share(weight(4096))
}
