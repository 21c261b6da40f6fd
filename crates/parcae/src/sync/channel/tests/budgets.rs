//! Operations are charged when they happen, and only then.

use super::*;
use crate::{Budget, NurseryOpts, OnExhausted};
use std::time::Duration;

const TEN: Budget = Budget { channel_ops: 10, ..Budget::UNLIMITED };

fn with_ten(test: impl Fn(&Cx) -> Result<()> + Sync) {
    for seed in 0..20 {
        let rt = Runtime::builder().deterministic(seed).budget(TEN).build().unwrap();
        let left = rt.run_with(SpawnOpts::new().budget(TEN), |cx| {
            test(cx)?;
            Ok(cx.budget().channel_ops)
        });
        assert!(left.unwrap() <= 10);
    }
}

// rule: S0-COST-5, S0-COST-6
#[test]
fn what_happens_is_charged_once_and_what_fails_is_free() {
    with_ten(|cx| {
        let (tx, rx) = channel(2);
        let left = || cx.budget().channel_ops;
        let start = left();
        tx.send(1)?;
        tx.try_send(2)?;
        assert_eq!(left(), start - 2);
        assert!(tx.try_send(3).is_err());
        assert!(tx.send_timeout(3, Duration::from_millis(1)).is_err());
        assert_eq!(left(), start - 2);
        rx.recv()?;
        rx.try_recv()?;
        assert_eq!(left(), start - 4);
        assert!(rx.try_recv().is_err());
        assert!(rx.recv_timeout(Duration::from_millis(1)).is_err());
        rx.close();
        assert!(tx.send(1).is_err() && rx.recv().is_err());
        assert_eq!(left(), start - 4);
        Ok(())
    });
}

// rule: S0-CHECK-3
#[test]
fn what_cannot_be_paid_does_not_start() {
    with_ten(|_| {
        let (tx, rx) = channel(100);
        let mut sent = 0;
        let error = loop {
            match tx.send(sent) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((sent, rx.len()), (10, 10));
        assert!(!error.is_closed() && !error.is_cancelled());
        let (value, reason) = error.into_parts();
        assert_eq!(value, 10);
        let Reason::Interrupted(error) = reason else { panic!("{reason:?}") };
        assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)));
        assert!(rx.recv().is_err() && rx.len() == 10, "nor a receive");
        Ok(())
    });
}

// rule: S0-VYIELD-2
#[test]
fn waiting_costs_nothing_and_the_hand_off_is_paid_by_both() {
    with_ten(|cx| {
        let (tx, rx) = channel(0);
        let opts = NurseryOpts::new().budget(Budget { channel_ops: 3, ..Budget::UNLIMITED });
        cx.nursery_with(opts, |n| {
            let sender = n.spawn(|cx| {
                let before = cx.budget().channel_ops;
                tx.send(1)?;
                Ok(before - cx.budget().channel_ops)
            })?;
            pause(cx, 5)?;
            rx.recv()?;
            assert_eq!(sender.join()?, 1);
            Ok(())
        })
    });
}

#[test]
fn a_suspended_sender_goes_on_when_its_nursery_is_recharged() {
    for seed in 0..100 {
        let rt = Runtime::builder().workers(2).deterministic(seed).build().unwrap();
        rt.run(|cx| {
            let (tx, rx) = channel(100);
            let opts = NurseryOpts::new()
                .budget(Budget { channel_ops: 4, ..Budget::UNLIMITED })
                .on_exhausted(OnExhausted::Suspend);
            cx.nursery_with(opts, |n| {
                let sender = n.spawn(|_| (0..6).try_for_each(|i| Ok(tx.send(i)?)))?;
                while rx.len() < 4 {
                    cx.yield_now()?;
                }
                pause(cx, 5)?;
                assert_eq!(rx.len(), 4);
                n.recharge(Budget { channel_ops: 2, ..Budget::ZERO })?;
                sender.join()
            })?;
            assert_eq!(rx.len(), 6);
            Ok(())
        })
        .unwrap();
    }
}

// rule: S0-CHECK-3
#[test]
fn a_task_that_always_finds_something_lets_others_run() {
    // One worker: without the yields no other task could ever stop it.
    let rt = Runtime::builder().workers(1).deterministic(1).build().unwrap();
    rt.run(|cx| {
        let (tx, rx) = channel(1);
        cx.nursery(|n| {
            let busy = n.spawn(|_| {
                let mut rounds = 0_u64;
                while tx.send(()).is_ok() && rx.try_recv().is_ok() {
                    rounds += 1;
                }
                Ok(rounds)
            })?;
            pause(cx, 3)?;
            rx.close();
            busy.join().map(|_| ())
        })
    })
    .unwrap();
}
