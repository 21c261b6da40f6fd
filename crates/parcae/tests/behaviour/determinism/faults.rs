//! The lab: each fault finds a bug that schedules without it do not have.

use parcae::lab::{Explore, FailureKind, Faults};
use parcae::prelude::*;
use parcae::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The bug shows with these faults, its token repeats it, and without faults it does not show.
fn only_with(
    faults: Faults,
    kind: FailureKind,
    test: impl Fn(&Runtime) -> parcae::Result<()> + Sync,
) {
    let hunt = Explore::new().schedules(300).time(Duration::MAX);
    let report = hunt.run(&test).unwrap();
    assert_eq!(report.schedules, 300);
    let found = hunt.faults(faults).run(&test).unwrap_err();
    assert_eq!(found.kind(), kind, "{found}");
    let again = Explore::new().replay(found.token(), &test).unwrap().unwrap_err();
    assert_eq!(again.signature(), found.signature());
    assert_eq!(again.divergence(), None, "{again}");
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
    // The answer is ready at once, yet the time limit may pass first.
    only_with(Faults::none().stalled_workers(), FailureKind::Error, |rt| {
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
