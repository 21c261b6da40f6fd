//! Tokens: moved, derived, awaited, with callbacks, and given to nurseries.

use crate::support::*;
use parcae::prelude::*;
use parcae::{CancelReason, Result};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[test]
fn tokens_move_and_their_callbacks_are_called_once() {
    for _ in 0..50 {
        let calls = std::sync::Arc::new(AtomicUsize::new(0));
        let root = CancelToken::new();
        let tokens: Vec<CancelToken> = (0..100).map(|_| root.child()).collect();
        let guards: Vec<_> = tokens
            .iter()
            .map(|token| {
                let calls = std::sync::Arc::clone(&calls);
                token.on_cancel(move |_| {
                    calls.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        assert!(tokens.iter().all(|token| !token.is_cancelled()));
        let moved: Box<[CancelToken]> = tokens.into_boxed_slice();
        std::thread::scope(|s| {
            for thread in 0..4 {
                let (root, moved) = (root.clone(), &moved);
                s.spawn(move || {
                    moved[thread].cancel();
                    root.cancel();
                });
            }
        });
        assert!(moved.iter().all(CancelToken::is_cancelled));
        assert_eq!(calls.load(Ordering::Relaxed), 100);
        drop(guards);
    }
}

#[test]
fn a_nursery_is_cancelled_by_the_tokens_that_it_was_given() {
    everywhere(|cx| {
        let (mine, other) = (CancelToken::new(), CancelToken::new());
        let opts = || NurseryOpts::new().token(&other).token(&mine);
        let outcome = cx.nursery_with(opts(), |n| {
            n.spawn(asleep)?;
            n.spawn(forever)?;
            mine.cancel_because(CancelReason::Timeout);
            cx.park()
        });
        assert!(matches!(kind_of(outcome), ErrorKind::Cancelled(CancelReason::Timeout)));
        // One that is cancelled already.
        let outcome = cx.nursery_with(opts(), |n| n.spawn(forever)?.join());
        assert!(outcome.unwrap_err().is_cancelled());
        // The task itself goes on. A nursery that has ended is out of reach.
        cx.checkpoint()?;
        cx.nursery_with(NurseryOpts::new().token(&other), |n| n.spawn(|_| Ok(()))?.join())?;
        other.cancel();
        cx.checkpoint()
    });
}

#[test]
fn a_token_from_another_thread_ends_a_nursery_at_any_time() {
    for _ in 0..200 {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let token = CancelToken::new();
        let remote = {
            let token = token.clone();
            std::thread::spawn(move || token.cancel())
        };
        let outcome = rt.run(|cx| {
            cx.nursery_with(NurseryOpts::new().token(&token), |n| {
                n.spawn(asleep)?;
                n.spawn(forever)?;
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_cancelled());
        remote.join().unwrap();
    }
}

#[test]
fn a_token_derived_while_its_parent_is_cancelled_is_cancelled() {
    let missed = must_end(|| {
        let mut missed = 0;
        for round in 0..4_000 {
            let root = CancelToken::new();
            let go = AtomicBool::new(false);
            thread::scope(|s| {
                let canceller = s.spawn(|| {
                    while !go.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                    for _ in 0..round % 500 {
                        std::hint::spin_loop();
                    }
                    root.cancel();
                });
                go.store(true, SeqCst);
                let children: Vec<_> = (0..400).map(|_| root.child()).collect();
                canceller.join().unwrap();
                missed += children.iter().filter(|child| !child.is_cancelled()).count();
            });
        }
        missed
    });
    assert_eq!(missed, 0, "tokens below a cancelled one that are not cancelled");
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn tokens_are_waited_for_by_tasks_and_threads() {
    explored(0..100, |rt| {
        let token = CancelToken::new();
        rt.run(|cx| {
            cx.nursery(|n| {
                let waiters: Result<Vec<_>> =
                    (0..4).map(|_| n.spawn(|_| token.child().wait())).collect();
                cx.checkpoint()?;
                let own = n.spawn(|cx| {
                    let own = cx.token();
                    own.wait()
                })?;
                token.cancel();
                for waiter in waiters? {
                    assert_eq!(waiter.join()?, CancelReason::Parent);
                }
                n.wind_down();
                // It ends with a success, unless it had not begun.
                let reason = own.join();
                assert!(reason.is_ok() || reason.is_err_and(|error| error.is_cancelled()));
                Ok(())
            })
        })
    })
    .unwrap();
    let token = CancelToken::new();
    std::thread::scope(|s| {
        let waiter = s.spawn(|| token.wait());
        token.cancel_because(CancelReason::Timeout);
        assert_eq!(waiter.join().unwrap().unwrap(), CancelReason::Timeout);
    });
    assert_eq!(token.wait().unwrap(), CancelReason::Timeout);
}

/// A wait for one token ends with an error if the task is cancelled by another, and leaves no
/// callback behind.
#[test]
fn a_wait_for_a_token_is_a_cancel_point() {
    explored(0..60, |rt| {
        let token = CancelToken::new();
        rt.run(|cx| {
            let outcome = cx.timeout(SECOND, || token.wait());
            assert!(outcome.unwrap_err().is_timed_out());
            assert!(token.wait_timeout(SECOND).unwrap_err().is_timed_out());
            Ok(())
        })?;
        token.cancel();
        Ok(())
    })
    .unwrap();
}

/// Callbacks of tokens run on a worker that was about to sleep. Other workers are woken for its
/// tasks meanwhile.
#[test]
fn a_callback_may_wait_for_a_task() {
    must_end(|| {
        let rt = Runtime::builder().workers(2).temporary_workers(0).build().unwrap();
        for _ in 0..5 {
            let (handle, (done, is_done)) = (rt.handle(), mpsc::channel());
            rt.run(|cx| {
                let (token, _expiry) = cx.token_with_timeout(Duration::from_millis(20));
                let _callback = token.on_cancel(move |_| {
                    let task = handle.spawn(|_| Ok(7)).unwrap();
                    done.send(task.join().unwrap()).unwrap();
                });
                while !token.is_cancelled() {
                    cx.sleep(Duration::from_millis(1_000))?;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(is_done.recv().unwrap(), 7);
        }
    });
}

/// The error names the limit as it was given, zero too.
#[test]
fn the_text_of_a_deadline_has_its_length() {
    let rt = Runtime::builder().build().unwrap();
    for (limit, text) in [(0, "deadline exceeded after 0 s"), (2, "deadline exceeded after 2 ms")] {
        let limit = Duration::from_millis(limit);
        let nursery = rt.nursery(NurseryOpts::new().timeout(limit), |n| n.spawn(Cx::park)?.join());
        let call = rt.run(|cx| cx.timeout(limit, || cx.park()));
        for error in [nursery.unwrap_err(), call.unwrap_err()] {
            assert!(error.to_string().starts_with(text), "{error}");
        }
    }
}
