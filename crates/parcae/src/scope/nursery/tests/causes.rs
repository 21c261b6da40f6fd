//! Causes and consequences that need a certain order; `tests/causes.rs` has all combinations.

use super::*;
use crate::sync::channel::{channel, oneshot};
use crate::sync::time;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn send_for_ever(tx: &crate::sync::channel::Sender<u8>) -> Result<()> {
    loop {
        tx.send(1)?;
    }
}

#[test]
fn a_deadline_is_the_cause_of_closed_channels() {
    deterministic(|cx| {
        for policy in [OnFailure::FailFast, OnFailure::Isolate, OnFailure::Collect] {
            let (tx, rx) = channel::<u8>(1);
            let opts = NurseryOpts::new().on_failure(policy).timeout(SECOND);
            let error = cx
                .nursery_with(opts, |n| {
                    n.spawn(|_| send_for_ever(&tx).map_err(|_| Error::msg("made from it")))?;
                    n.spawn(move |cx| {
                        let _rx = rx;
                        cx.sleep(SECOND * 2)
                    })?;
                    Ok(())
                })
                .unwrap_err();
            assert!(error.is_cancelled() && error.is_timed_out(), "{error:?}");
            assert_eq!(error.others(), 1, "the consequence is counted");
        }
        Ok(())
    });
}

/// The pass that cancels is held up before it comes to the nursery whose child sees a consequence.
#[test]
fn a_parent_is_the_cause_before_the_pass_has_come_down() {
    deterministic(|cx| {
        cx.nursery(|n| {
            let (give, gets) = oneshot::<CancelToken>();
            let tested = n.spawn(move |cx| {
                let mut inner = None;
                let (tx, rx) = channel::<u8>(1);
                let outer = cx.nursery_with(NurseryOpts::new().name("above"), |above| {
                    above.spawn(move |cx| {
                        let _rx = rx;
                        cx.sleep(SECOND * 9)
                    })?;
                    let token = above.token();
                    token.on_cancel(|_| drop(time::sleep(SECOND))).forget();
                    give.send(token)?;
                    inner = cx.nursery(|n| n.spawn(|_| send_for_ever(&tx))?.join()).err();
                    Ok(())
                });
                Ok((outer.unwrap_err(), inner.unwrap()))
            })?;
            gets.recv()?.cancel();
            let (outer, inner) = tested.join()?;
            let explicit = ErrorKind::Cancelled(CancelReason::Explicit);
            assert_eq!(format!("{:?}", outer.kind()), format!("{explicit:?}"));
            let parent = ErrorKind::Cancelled(CancelReason::Parent);
            assert_eq!(format!("{:?}", inner.kind()), format!("{parent:?}"), "{inner:?}");
            assert!(inner.to_string().starts_with("the parent nursery `above` was cancelled"));
            Ok(())
        })
    });
}

/// The same with a token that the nursery follows.
#[test]
fn a_token_is_the_cause_before_it_has_told_the_nursery() {
    deterministic(|cx| {
        cx.nursery(|n| {
            let token = CancelToken::new();
            token.on_cancel(|_| drop(time::sleep(SECOND))).forget(); // called before the nursery's
            let followed = token.clone();
            let tested = n.spawn(move |cx| {
                let (tx, rx) = channel::<u8>(1);
                let outcome = cx.nursery_with(NurseryOpts::new().token(&followed), |n| {
                    let followed = &followed;
                    n.spawn(move |_| {
                        let _rx = rx;
                        crate::select! { cancelled(followed) => () }
                    })?;
                    n.spawn(|_| send_for_ever(&tx))?;
                    Ok(())
                });
                Ok(outcome.unwrap_err())
            })?;
            cx.sleep(SECOND)?;
            token.cancel();
            let error = tested.join()?;
            assert!(error.is_cancelled(), "{error:?}");
            Ok(())
        })
    });
}

/// Marks that a task collected in a nursery that is over do not affect its later errors.
#[test]
fn an_error_of_ones_own_after_an_older_timeout_counts() {
    deterministic(|cx| {
        let (tx, rx) = channel::<u8>(1);
        let error = cx
            .nursery(|n| {
                n.spawn(move |cx| {
                    let rx = rx;
                    assert!(cx.timeout(SECOND, || cx.sleep(SECOND * 2)).is_err());
                    drop(rx);
                    cx.shield(|| cx.sleep(SECOND))?; // the other fails first
                    Err::<(), _>(oops())
                })?;
                n.spawn(|_| send_for_ever(&tx))?;
                Ok(())
            })
            .unwrap_err();
        assert!(error.to_string().starts_with("oops"), "{error:?}");
        assert_eq!(error.others(), 1);
        Ok(())
    });
}

#[test]
fn a_made_up_error_ranks_below_its_cause() {
    deterministic(|cx| {
        let (tx, rx) = channel::<u8>(1);
        let error = cx
            .nursery_with(NurseryOpts::new().on_failure(OnFailure::Collect), |n| {
                n.spawn(|_| send_for_ever(&tx).map_err(|_| Error::msg("made from it")))?;
                n.spawn(|_| send_for_ever(&tx))?;
                n.spawn(move |cx| {
                    drop(rx);
                    cx.sleep(SECOND)?;
                    Err::<(), _>(oops())
                })?;
                Ok(())
            })
            .unwrap_err();
        let ErrorKind::Several(all) = error.kind() else { panic!("{error:?}") };
        assert_eq!(all.len(), 3);
        assert!(all[0].to_string().starts_with("oops"), "{error:?}");
        Ok(())
    });
}
