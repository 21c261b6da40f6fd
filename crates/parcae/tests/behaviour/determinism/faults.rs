//! The lab: each fault finds a bug that schedules without it do not have.

use parcae::lab::{Explore, FailureKind, Faults};
use parcae::prelude::*;
use parcae::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::OnceLock;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The bug shows with these faults, its token repeats it, and without faults it does not show: in
/// schedules without workers, and with one, two and three.
fn only_with(
    faults: Faults,
    kind: FailureKind,
    test: impl Fn(&Runtime) -> parcae::Result<()> + Sync,
) {
    with_workers(&[0, 1, 2, 3], faults, kind, test);
}

fn with_workers(
    numbers: &[usize],
    faults: Faults,
    kind: FailureKind,
    test: impl Fn(&Runtime) -> parcae::Result<()> + Sync,
) {
    for &workers in numbers {
        let hunt = Explore::new().workers(workers..=workers).schedules(300).time(Duration::MAX);
        let report = hunt.run(&test).unwrap();
        assert_eq!(report.schedules, 300);
        let found = hunt.faults(faults).run(&test);
        let found = found.expect_err(&format!("a failure with {workers} workers"));
        assert_eq!(found.kind(), kind, "{workers} workers: {found}");
        let said = found.to_string();
        assert!(!said.contains("crates/parcae/src/"), "the runtime's own panic: {said}");
        for token in [found.token(), found.seed_token()] {
            let again = Explore::new().replay(token, &test).unwrap().unwrap_err();
            assert_eq!(again.signature(), found.signature(), "{workers} workers");
            assert_eq!(again.divergence(), None, "{workers} workers: {again}");
        }
    }
}

#[test]
fn out_of_stacks() {
    // A child that never started has not counted.
    only_with(Faults::none().out_of_stacks(), FailureKind::Panic, |rt| {
        let (started, asked) = (AtomicU64::new(0), AtomicU64::new(0));
        let _ = rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..3 {
                    asked.fetch_add(1, SeqCst);
                    n.spawn(|_| Ok(started.fetch_add(1, SeqCst)))?;
                }
                Ok(())
            })
        });
        assert_eq!(started.load(SeqCst), asked.load(SeqCst));
        Ok(())
    });
}

#[test]
fn closed_peers() {
    only_with(Faults::none().closed_peers(), FailureKind::Panic, |rt| {
        let (tx, rx) = parcae::channel::channel::<u8>(1);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(move |_| {
                    let _ = tx.send(7); // the receiver looks
                    Ok(())
                })?;
                assert_eq!(rx.recv().unwrap(), 7, "the sender may have died");
                Ok(())
            })
        })
    });
}

#[test]
fn stalled_workers() {
    // The answer is ready at once, yet the time limit may pass first. A single worker has the task
    // with the answer in its queue before the one that is woken.
    with_workers(&[0, 2, 3], Faults::none().stalled_workers(), FailureKind::Error, |rt| {
        let (tx, rx) = parcae::channel::channel::<u8>(1);
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(move |_| Ok(tx.send(7)?))?;
                Ok(rx.recv_timeout(SECOND).map(drop)?)
            })
        })
    });
}

#[test]
fn budget_cut_at_each_checkpoint() {
    // Two halves that belong together, with a checkpoint between them.
    let faults = Faults::none().budget_cut_at_each_checkpoint();
    only_with(faults, FailureKind::Panic, |rt| {
        let (taken, given) = (AtomicU64::new(0), AtomicU64::new(0));
        let _ = rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    taken.fetch_add(1, SeqCst);
                    (0..3).try_for_each(|_| cx.checkpoint())?;
                    given.fetch_add(1, SeqCst);
                    Ok(())
                })?;
                Ok(())
            })
        });
        assert_eq!(taken.load(SeqCst), given.load(SeqCst), "the money is gone");
        Ok(())
    });
}

#[test]
fn late_timers() {
    only_with(Faults::none().late_timers(), FailureKind::Panic, |rt| {
        rt.run(|cx| parcae::lab::within("tick", SECOND, || cx.sleep(SECOND)))
    });
}

#[test]
fn recharge_race_at_each_checkpoint() {
    // A task that is suspended may have been recharged when one looks again.
    let faults = Faults::none().recharge_race_at_each_checkpoint();
    only_with(faults, FailureKind::Panic, |rt| {
        let opts = NurseryOpts::new().budget(Budget { ops: 1_000, ..Budget::UNLIMITED });
        rt.run(|cx| {
            cx.nursery_with(opts.on_exhausted(OnExhausted::Suspend), |n| {
                let child = n.spawn(|cx| (0..6).try_for_each(|_| cx.checkpoint()))?;
                while !child.is_finished() {
                    if n.budget().suspended > 0 {
                        cx.yield_now()?;
                        let task = n.suspended()[0].task.clone();
                        assert_eq!(task.id(), child.id());
                    }
                    cx.yield_now()?;
                }
                Ok(())
            })
        })
    });
}

#[test]
fn spurious_wakes() {
    // Woken, and the value is not there.
    only_with(Faults::none().spurious_wakes(), FailureKind::Panic, |rt| {
        let (value, waker) = (AtomicU64::new(0), OnceLock::new());
        rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    let _ = waker.set(cx.waker());
                    cx.park()?;
                    assert_eq!(value.load(SeqCst), 1, "a wait may end early");
                    Ok(())
                })?;
                let waker = loop {
                    match waker.get() {
                        Some(waker) => break waker,
                        None => cx.yield_now()?,
                    }
                };
                value.store(1, SeqCst);
                waker.wake();
                Ok(())
            })
        })
    });
}

#[test]
fn refused_spawns() {
    only_with(Faults::none().refused_spawns(), FailureKind::Panic, |rt| {
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..4 {
                    n.spawn(|_| Ok(())).expect("there is memory").join()?;
                }
                Ok(())
            })
        })
    });
}

#[test]
fn cancel_at_each_wait() {
    // The slot is taken before a wait, and not given back if that is cancelled.
    only_with(Faults::none().cancel_at_each_wait(), FailureKind::Panic, |rt| {
        let taken = AtomicU64::new(0);
        let _ = rt.run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| {
                    taken.fetch_add(1, SeqCst);
                    cx.sleep(SECOND)?;
                    taken.fetch_sub(1, SeqCst);
                    Ok(())
                })?;
                Ok(())
            })
        });
        assert_eq!(taken.load(SeqCst), 0);
        Ok(())
    });
}
