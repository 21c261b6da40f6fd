//! The states of nurseries and tasks, as the body, children, handles and hooks see them.

use crate::support::*;
use parcae::CancelReason;
use parcae::inspect::TaskState;
use parcae::nursery::{NurseryEvent, NurseryState};
use parcae::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

// rule: S1-NURSERY-8
#[test]
fn a_nursery_that_was_cancelled_does_not_report_success() {
    everywhere(|cx| {
        let by_itself = cx.nursery(|n| {
            n.cancel();
            Ok(())
        });
        assert!(matches!(kind_of(by_itself), ErrorKind::Cancelled(CancelReason::Explicit)));
        let by_token = cx.nursery(|n| {
            let child = n.spawn(|_| Ok(1))?;
            let value = child.join()?;
            n.token().cancel_because(CancelReason::Timeout);
            Ok(value)
        });
        assert!(matches!(kind_of(by_token), ErrorKind::Cancelled(CancelReason::Timeout)));
        let by_child = cx.nursery(|n| {
            let token = n.token();
            n.spawn(move |_| {
                token.cancel();
                Ok(())
            })?;
            Ok(())
        });
        assert!(matches!(kind_of(by_child), ErrorKind::Cancelled(CancelReason::Explicit)));
        Ok(())
    });
}

// rule: S1-GUARD-4, S1-GUARD-5, S2-SCOPE-4
#[test]
fn a_nursery_has_any_number_of_nurseries_below_it() {
    everywhere(|cx| {
        let asked = AtomicUsize::new(0);
        let outcome = cx.nursery(|n| {
            for _ in 0..40 {
                n.spawn(|cx| {
                    cx.nursery(|inner| {
                        assert!(!inner.is_cancelled(), "born cancelled");
                        asked.fetch_add(1, Ordering::Relaxed);
                        inner.spawn(asleep)?.join()
                    })
                })?;
            }
            until(cx, || asked.load(Ordering::Relaxed) == 40)?;
            n.cancel();
            Ok(())
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Explicit)));
        Ok(())
    });
}

// rule: S0-NURSERY-4, S0-NURSERY-9, S1-NURSERY-1, S1-NURSERY-2, S1-NURSERY-6, S1-NURSERY-9
// rule: S1-TEST-4
#[test]
fn a_nursery_that_is_cancelling_stays_so() {
    everywhere(|cx| {
        let outcome = cx.nursery(|n| {
            assert_eq!(n.state(), NurseryState::Open);
            n.spawn(|_| Ok(()))?.join()?;
            assert_eq!(n.state(), NurseryState::Open);
            n.token().cancel();
            for _ in 0..3 {
                n.cancel();
                assert_eq!(n.state(), NurseryState::Cancelling);
                assert!(n.spawn(|_| Ok(())).is_err());
                cx.shield(|| cx.yield_now())?;
            }
            Ok(())
        });
        assert!(outcome.unwrap_err().is_cancelled());
        Ok(())
    });
}

// rule: S0-TESTRT-2, S1-NURSERY-1, S1-NURSERY-4, S1-NURSERY-9
#[test]
fn a_child_sees_that_its_nursery_is_closing() {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    let states = Mutex::new(Vec::new());
    rt.nursery(NurseryOpts::new(), |n| {
        states.lock().unwrap().push(n.state());
        n.spawn(|cx| {
            cx.sleep(Duration::from_millis(1))?;
            states.lock().unwrap().push(n.state());
            n.cancel();
            states.lock().unwrap().push(n.state());
            Ok(())
        })?;
        Ok(())
    })
    .unwrap_err();
    use NurseryState::{Cancelling, Closing, Open};
    assert_eq!(*states.lock().unwrap(), [Open, Closing, Cancelling]);
}

/// The final state of a nursery, by its last event.
// rule: S1-NURSERY-1, S1-NURSERY-3, S1-NURSERY-5, S1-NURSERY-8, S1-NURSERY-9
#[test]
fn a_nursery_ends_closed_or_cancelled_and_says_which() {
    use NurseryState::{Cancelled, Closed};
    type Body = for<'s> fn(&'s parcae::Nursery<'s, 'static>) -> parcae::Result<()>;

    static FOREVER: Body = |n| n.spawn(|cx| cx.forever(|| Ok(()))).map(drop);

    let cases: [(&str, Body, NurseryState); 6] = [
        ("empty", |_| Ok(()), Closed),
        ("children that end", |n| n.spawn(|cx| cx.yield_now()).map(drop), Closed),
        (
            "cancelled, empty",
            |n| {
                n.cancel();
                Ok(())
            },
            Cancelled,
        ),
        ("cancelled", |n| FOREVER(n).map(|()| n.cancel()), Cancelled),
        (
            "a child fails",
            |n| {
                n.spawn(|_| -> parcae::Result<()> { Err(parcae::Error::msg("failed")) })?;
                FOREVER(n)
            },
            Cancelled,
        ),
        ("the body fails", |n| FOREVER(n).and(Err(parcae::Error::msg("failed"))), Cancelled),
    ];
    for (name, body, expected) in cases {
        explored(0..50, |rt| {
            let (sender, events) = parcae::channel::unbounded();
            let opts = NurseryOpts::new().on_event(move |event| {
                if let NurseryEvent::Ended { state, .. } = event {
                    sender.try_send(*state).unwrap();
                }
            });
            let outcome = rt.run(|cx| cx.nursery_with(opts, body));
            assert_eq!(outcome.is_ok(), expected == Closed, "{name}");
            let states: Vec<_> = events.try_iter().collect::<parcae::Result<_>>()?;
            assert_eq!(states, [expected], "{name}");
            Ok(())
        })
        .unwrap();
    }
}

/// The six states of a task, by its handle.
// rule: S0-STATE-1
#[test]
fn a_handle_tells_the_six_states_of_its_task() {
    use TaskState::{Cancelled, Completed, Exhausted, Ready, Running, Waiting};
    fn until<T>(handle: &parcae::TaskHandle<'_, T>, state: TaskState) -> parcae::Result<()> {
        while handle.state() != state {
            parcae::yield_now()?;
        }
        Ok(())
    }
    let rt = Runtime::builder().workers(1).build().unwrap();
    let tenant = NurseryOpts::new()
        .budget(Budget { ops: 10_000, memory: 1_000, spawn_count: 9, ..Budget::UNLIMITED })
        .on_failure(OnFailure::Isolate)
        .on_exhausted(OnExhausted::Suspend);
    rt.nursery(tenant, |n| {
        let (send, receive) = parcae::channel::channel::<()>(1);
        let waiting = n.spawn(move |_| Ok(receive.recv()?))?;
        assert_eq!(waiting.state(), Ready);
        until(&waiting, Waiting)?;
        send.send(())?;
        until(&waiting, Completed)?;
        let yielding = n.spawn(|cx| cx.forever(|| Ok(())))?;
        until(&yielding, Running)?; // it has started and stays on its worker
        yielding.cancel();
        until(&yielding, Cancelled)?;
        let hungry = n.spawn(|cx| cx.charge(Budget::ZERO.with_memory(9_000)))?;
        until(&hungry, Exhausted)?;
        hungry.cancel();
        until(&hungry, Cancelled)?;
        let failing = n.spawn(|_| -> parcae::Result<()> { Err(parcae::Error::msg("failed")) })?;
        until(&failing, Completed)?;
        failing.join().unwrap_err();
        Ok(())
    })
    .unwrap();
}

fn deterministic() -> Runtime {
    Runtime::builder().workers(2).deterministic(1).build().unwrap()
}

/// The deadline passes while the hook handles the end: result and hook agree.
#[test]
fn the_end_that_is_told_is_the_end_that_is_returned() {
    let states = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&states);
    let outcome = deterministic().run(|cx| {
        let opts = NurseryOpts::new().timeout(Duration::from_millis(50)).on_event(move |event| {
            if let NurseryEvent::Ended { state, .. } = event {
                told.lock().unwrap().push(*state);
                let _ = parcae::time::sleep(Duration::from_millis(100));
            }
        });
        cx.nursery_with(opts, |_| Ok(()))
    });
    assert_eq!(*states.lock().unwrap(), [NurseryState::Closed]);
    outcome.unwrap();
}
