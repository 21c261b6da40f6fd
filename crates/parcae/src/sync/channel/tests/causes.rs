//! A task that is to end is told so, and not that a channel is closed: that is mostly a
//! consequence.

use super::*;
use crate::budget::Account;
use crate::cap::{BudgetLimits, Delegation};
use crate::nursery::NurseryEvent;
use crate::{CancelReason, CancelToken, Error, OnExhausted};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

/// Ways to wait for a channel whose other end is dropped by a task that is cancelled too.
const WAYS: u64 = 10;

fn wait_in_one_way(way: u64, tx: &Sender<u8>, rx: &Receiver<u8>) -> Error {
    let (mut news, mut level) = (broadcast::<u8>(1).1, watch(0).1);
    loop {
        let outcome: Result<()> = match way {
            0 => rx.recv().map(drop).map_err(Error::from),
            1 => rx.recv_timeout(LONG).map(drop).map_err(Error::from),
            2 => rx.try_recv().map(drop).map_err(Error::from),
            3 => rx.iter().next().unwrap_or(Err(Error::new(ErrorKind::ChannelClosed))).map(drop),
            4 => tx.send(1).map_err(Error::from),
            5 => tx.send_timeout(1, LONG).map_err(Error::from),
            6 => tx.try_send(1).map_err(Error::from),
            7 => crate::select! {
                recv(rx) -> v => v.map(drop).map_err(Error::from),
                timeout(LONG) => panic!("out of time"),
            }
            .and_then(|received| received),
            8 => crate::select! {
                send(tx, 1) -> sent => sent.map_err(Error::from),
                timeout(LONG) => panic!("out of time"),
            }
            .and_then(|sent| sent),
            _ => rx.recv_many(&mut Vec::new(), 3).map(drop).map_err(Error::from),
        };
        let error = match outcome {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldWait) => error,
            // In virtual time nothing happens while a task runs.
            _ => match crate::sync::time::sleep(Duration::from_micros(1)) {
                Err(error) => error,
                Ok(()) => continue,
            },
        };
        if error.is_cancelled() {
            // The others are closed from the start, and it is told the same there.
            assert!(news.recv().unwrap_err().is_cancelled());
            assert!(level.changed().unwrap_err().is_cancelled());
        }
        return error;
    }
}

/// A pipeline of two tasks that is cancelled from outside: both ends report the cancellation,
/// whichever is first, and so does the pipeline.
fn pipeline(cx: &Cx, seed: u64) -> Result<()> {
    let errors = Mutex::new(Vec::new());
    let by_deadline = seed.is_multiple_of(2);
    let opts = NurseryOpts::new();
    let opts = if by_deadline { opts.timeout(Duration::from_micros(seed % 90)) } else { opts };
    let outcome = cx.nursery_with(opts, |n| {
        let ((tx, rx), (back_tx, back_rx)) = (channel(1), channel(1));
        let errors = &errors;
        // Either drops its ends as soon as it has noticed.
        n.spawn(move |_| {
            let (rx, tx) = (rx, back_tx);
            let error = wait_in_one_way(seed / 2 % WAYS, &tx, &rx);
            errors.lock().unwrap().push(error.clone());
            Err::<(), _>(error)
        })?;
        n.spawn(move |_| {
            let (rx, tx) = (back_rx, tx);
            let error = wait_in_one_way(seed / 20 % WAYS, &tx, &rx);
            errors.lock().unwrap().push(error.clone());
            Err::<(), _>(error)
        })?;
        if by_deadline {
            return cx.forever(|| cx.sleep(LONG)).map(|never| match never {});
        }
        pause(cx, seed % 7)?;
        n.cancel();
        Ok(())
    });
    let why = if by_deadline { CancelReason::Timeout } else { CancelReason::Explicit };
    for error in errors.into_inner().unwrap() {
        assert!(matches!(error.kind(), ErrorKind::Cancelled(reason) if *reason == why), "{error}");
    }
    assert!(outcome.is_err_and(|error| !matches!(error.kind(), ErrorKind::ChannelClosed)));
    Ok(())
}

#[test]
fn whoever_is_cancelled_is_told_that_and_not_that_the_other_has_gone() {
    deterministic(1_000, pipeline);
}

#[test]
fn whoever_is_cancelled_is_told_that_on_threads() {
    threads(100, pipeline);
}

/// The task is cancelled and the channel closed in the middle of an operation: by the hook of its
/// host, which the operation calls because the task has no channel operation left, and which then
/// recharges it. Nothing looks for a cancellation between that and the channel.
#[test]
fn a_cancellation_in_the_middle_of_an_operation_ranks_above_a_close() {
    const ONE: Budget = Budget { channel_ops: 1, ..Budget::ZERO };
    for way in 0..4 {
        let rt = Runtime::builder().deterministic(1).build().unwrap();
        let cap = rt.cap_budget(BudgetLimits::total(ONE), Delegation::Forbidden);
        let (tx, rx) = channel::<u8>(1);
        tx.send(0).unwrap();
        let (other, empty) = channel::<u8>(1);
        let (own, hooked) = (Arc::new(OnceLock::<(Account, CancelToken)>::new()), tx.clone());
        let shared = Arc::clone(&own);
        let opts = NurseryOpts::new()
            .budget(Budget { channel_ops: 1, ..Budget::UNLIMITED })
            .on_exhausted(OnExhausted::Suspend)
            .on_event(move |event| {
                if let NurseryEvent::Exhausted { .. } = event {
                    let (account, token) = shared.get().unwrap();
                    hooked.close();
                    token.cancel();
                    account.recharge(&cap, ONE).unwrap();
                }
            });
        // Not asserted in the child: a panic after the cancellation would be a consequence of it.
        let told = OnceLock::new();
        let outcome = rt.nursery(opts, |n| {
            own.set((n.account(), n.token())).unwrap();
            let told = &told;
            n.spawn(move |_| {
                // The one that it has: so that a receive finds the channel empty, and then closed.
                if way % 2 == 1 {
                    rx.recv()?;
                } else {
                    other.send(0)?;
                }
                let error = match way {
                    0 => tx.try_send(1).map_err(Error::from),
                    1 => rx.try_recv().map(drop).map_err(Error::from),
                    2 => crate::select! {
                        send(tx, 1) -> sent => sent.map_err(Error::from),
                        timeout(LONG) => panic!("it is closed"),
                    }
                    .and_then(|sent| sent),
                    _ => crate::select! {
                        recv(rx) -> received => received.map(drop).map_err(Error::from),
                        recv(empty) -> _ => panic!("it is empty"),
                    }
                    .and_then(|received| received),
                }
                .unwrap_err();
                told.set(error).unwrap();
                Ok(())
            })?
            .join()
        });
        assert!(outcome.unwrap_err().is_cancelled());
        let error = told.into_inner().expect("the child has ended");
        assert!(error.is_cancelled(), "way {way}: {error}");
    }
}

#[test]
#[allow(unreachable_code, reason = "the arm diverges, and the macro is of this crate")]
fn a_closed_channel_is_closed_for_a_shielded_task_and_cancelled_for_others() {
    deterministic(20, |cx, _| {
        let (tx, rx) = channel(1);
        tx.send(1)?;
        tx.close();
        let outcome = cx.nursery(|n| {
            n.cancel();
            let (error, shielded) =
                (tx.send(2).unwrap_err(), cx.shield(|| tx.send(2)).unwrap_err());
            assert!(error.is_cancelled() && shielded.is_closed());
            assert_eq!((error.into_inner(), shielded.into_inner()), (2, 2));
            assert!(rx.recv().unwrap_err().is_cancelled());
            assert_eq!(cx.shield(|| rx.recv())?, 1, "it is still there");
            assert!(cx.shield(|| rx.recv()).unwrap_err().is_closed());
            let mut slot = Some(3);
            let select = crate::select! { offer(tx, &mut slot) -> _ => panic!("cancelled") };
            assert!(select.unwrap_err().is_cancelled() && slot == Some(3));
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}
