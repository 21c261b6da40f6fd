//! Tenants that try to get more than their share.

use crate::support::*;
use parcae::channel::channel;
use std::time::Duration;

/// A tenant that naps before its slice ends gets no more than its share.
// rule: S3-GATE-6, S3-EEVDF-1
#[test]
fn short_naps_gain_nothing() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let napper = play(tenant("napper", 1024), |cx, curtain| {
            while !curtain.is_down() {
                (0..400).try_for_each(|_| cx.checkpoint())?;
                cx.sleep(Duration::from_micros(1))?;
            }
            Ok(())
        });
        let stats = stage(&rt, 8_000, &[napper, play(tenant("hog", 1024), hog)]);
        let ratio = ops(&stats, "napper") as f64 / ops(&stats, "hog") as f64;
        assert!(ratio < 1.15, "{ratio}");
        assert!(ratio > 0.3, "sleepers run, too: {ratio}");
    }
}

/// A tenant whose tasks yield at once neither starves others nor starves.
#[test]
fn yields_gain_and_lose_nothing() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let yielder = play(tenant("yielder", 1024), |cx, curtain| {
            while !curtain.is_down() {
                cx.yield_now()?;
            }
            Ok(())
        });
        let stats = stage(&rt, 8_000, &[yielder, play(tenant("hog", 1024), hog)]);
        // Each of its runs is charged as the cost of a switch.
        assert_ratio(&stats, "yielder", "hog", 1.0, 8.0);
    }
}

/// Two tasks that hand the processor to each other all the time are one tenant.
// rule: S3-GATE-7, S3-ACCT-5
#[test]
fn a_pair_that_wakes_each_other_gains_nothing() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let pair = play(tenant("pair", 1024), |cx, curtain| {
            let ((ping, pinged), (pong, ponged)) = (channel(1), channel(1));
            cx.nursery(|n| {
                n.spawn(move |cx| {
                    while pinged.recv().is_ok() {
                        cx.checkpoint()?;
                        if pong.send(()).is_err() {
                            break;
                        }
                    }
                    Ok(())
                })?;
                while !curtain.is_down() {
                    ping.send(())?;
                    ponged.recv()?;
                }
                drop(ping);
                Ok(())
            })
        });
        let stats = stage(&rt, 8_000, &[pair, play(tenant("hog", 1024), hog)]);
        assert_ratio(&stats, "pair", "hog", 1.0, 6.0);
    }
}

/// Tasks that are spawned and end in one turn are charged.
// rule: S3-ACCT-5
#[test]
fn short_tasks_are_charged() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let spawner = play(tenant("spawner", 1024), |cx, curtain| {
            while !curtain.is_down() {
                cx.nursery(|n| {
                    n.spawn(|cx| (0..50).try_for_each(|_| cx.checkpoint()))?;
                    Ok(())
                })?;
            }
            Ok(())
        });
        let stats = stage(&rt, 8_000, &[spawner, play(tenant("hog", 1024), hog)]);
        assert_ratio(&stats, "spawner", "hog", 1.0, 6.0);
    }
}

/// A large charge at once counts, too.
#[test]
fn large_charges_count() {
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let spender = play(tenant("spender", 1024), |cx, curtain| {
            while !curtain.is_down() {
                cx.charge(parcae::Budget::ZERO.with_ops(1_000))?;
            }
            Ok(())
        });
        let stats = stage(&rt, 8_000, &[spender, play(tenant("hog", 1024), hog)]);
        assert_ratio(&stats, "spender", "hog", 1.0, 6.0);
    }
}

/// A tenant that is opened and closed over and over under its name, or under new ones, leaves no
/// debt behind.
// rule: S3-EEVDF-1
#[test]
fn opening_and_closing_launders_no_debt() {
    for same_name in [true, false] {
        let rt = runtime(3, 1);
        let mut opened = 0;
        let curtain = Curtain::default();
        let stats = rt
            .run(|cx| {
                cx.nursery(|all| {
                    all.spawn(|cx| {
                        cx.nursery_with(tenant("hog", 1024), |n| {
                            n.spawn(|cx| hog(cx, &curtain)).map(drop)
                        })
                    })?;
                    while opened < 10_000 {
                        let name =
                            if same_name { "again".into() } else { format!("name {opened}") };
                        cx.nursery_with(tenant(&name, 1024), |n| {
                            n.spawn(|cx| (0..100).try_for_each(|_| cx.checkpoint()))?.join()
                        })?;
                        opened += 1;
                    }
                    curtain.fall();
                    Ok(rt.stats())
                })
            })
            .unwrap();
        // Its tasks have used 100 ops each, and the hog is always ready: it had at least as much,
        // less the minor part in which the opener itself ran.
        let hog = ops(&stats, "hog") as f64;
        assert!(hog > 0.8 * 100.0 * 10_000.0, "same name {same_name}: {hog}");
    }
}

/// A tenant with short slices is served soon after it wakes, and gets no more than its share.
// rule: S3-EEVDF-4, S3-ACCT-3, S3-EEVDF-2
#[test]
fn short_slices_buy_a_short_wait() {
    use parcae::policy::Latency;
    for seed in 0..20 {
        let rt = runtime(seed, 1);
        let waits = std::sync::Mutex::new((0_u64, 0_u64));
        let prompt = tenant("prompt", 1024).latency(Latency::Slice(256));
        let prompt = play(prompt, |cx, curtain| {
            while !curtain.is_down() {
                cx.sleep(Duration::from_micros(200))?;
                let mut waits = waits.lock().unwrap();
                waits.0 += 1;
            }
            Ok(())
        });
        let slow = || tenant("slow", 1024).latency(Latency::Batch);
        let stats = stage(&rt, 20_000, &[prompt, play(slow(), hog)]);
        // A batch turn has 65536 ops, a thousand steps: without preemption the sleeper would run
        // about twenty times.
        let (woken, _) = *waits.lock().unwrap();
        assert!(woken > 60, "{woken}");
        assert!(of(&stats, "slow").preempted > 0, "{stats:?}");
    }
}

/// Futures without a stack are charged for each poll.
#[test]
fn futures_are_charged() {
    for seed in 0..10 {
        let rt = runtime(seed, 1);
        let polled = play(tenant("polled", 1024), |cx, curtain| {
            cx.nursery(|n| {
                n.spawn_future(async {
                    while !curtain.is_down() {
                        let mut is_first = true;
                        std::future::poll_fn(|context| {
                            for _ in 0..40 {
                                drop(parcae::checkpoint());
                            }
                            context.waker().wake_by_ref();
                            if std::mem::take(&mut is_first) {
                                std::task::Poll::Pending
                            } else {
                                std::task::Poll::Ready(())
                            }
                        })
                        .await;
                    }
                    Ok(())
                })?;
                Ok(())
            })
        });
        let stats = stage(&rt, 8_000, &[polled, play(tenant("hog", 1024), hog)]);
        assert_ratio(&stats, "polled", "hog", 1.0, 6.0);
    }
}
