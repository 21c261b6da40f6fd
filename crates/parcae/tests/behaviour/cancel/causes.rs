//! Cause before consequence: a nursery reports the cause of its end, not the failures that
//! followed.
//!
//! Every trigger is combined with every consequence that another child can see and with every
//! policy. Each cell runs under 1000 seeds in release builds, and under 250 in debug builds, where
//! 1000 take a minute. All cells of a trigger share the runtime of a seed.

use crate::support::explored;
use parcae::channel::{Receiver, Sender, channel, oneshot};
use parcae::prelude::*;
use parcae::sync::Semaphore;
use parcae::{CancelReason, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = if cfg!(debug_assertions) { 250 } else { 1000 };
const LIMIT: Duration = Duration::from_millis(50);

/// Why the nursery ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trigger {
    NurseryDeadline,
    TimeoutAround,
    Token,
    ParentCancelled,
    Explicit,
    SiblingFailed,
    SiblingPanicked,
    SiblingOutOfBudget,
    Shutdown,
    BodyFailed,
    BodyPanicked,
}

/// How another child notices. Locks are not poisoned, so they show nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consequence {
    Cancelled,
    ClosedForSender,
    ClosedForReceiver,
    OneshotDropped,
    SemaphoreClosed,
    JoinPassedOn,
    /// A closed channel or a cancellation, as an error of the program's own.
    Mapped,
    /// The same, as a panic.
    Unwrapped,
    /// A channel that was closed, seen in a nursery further in.
    Nested,
}

const CONSEQUENCES: [Consequence; 9] = [
    Consequence::Cancelled,
    Consequence::ClosedForSender,
    Consequence::ClosedForReceiver,
    Consequence::OneshotDropped,
    Consequence::SemaphoreClosed,
    Consequence::JoinPassedOn,
    Consequence::Mapped,
    Consequence::Unwrapped,
    Consequence::Nested,
];

const POLICIES: [OnFailure; 3] = [OnFailure::FailFast, OnFailure::Isolate, OnFailure::Collect];

/// Lets others run when it is dropped, after all that was declared behind it: so others see that a
/// channel is closed before its task's own error is known.
struct Slow<'c>(&'c Cx);

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            for _ in 0..3 {
                let _ = self.0.shield(|| self.0.yield_now());
            }
        }
    }
}

/// The ends of channels that one task has and others wait for.
#[derive(Default)]
struct Ends {
    receiver: Option<Receiver<u8>>,
    sender: Option<Sender<u8>>,
    answer: Option<parcae::channel::OneSender<u8>>,
    permits: Option<Closes>,
}

/// Closes a semaphore when it is dropped.
struct Closes(Arc<Semaphore>);

impl Drop for Closes {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The peers of the task.
enum Peer {
    None,
    Sender(Sender<u8>),
    Receiver(Receiver<u8>),
    Answered(parcae::channel::OneReceiver<u8>),
    Permitted(Arc<Semaphore>),
}

fn connect(consequence: Consequence) -> (Ends, Peer) {
    let mut ends = Ends::default();
    let peer = match consequence {
        Consequence::Cancelled | Consequence::JoinPassedOn => Peer::None,
        Consequence::ClosedForReceiver => {
            let (tx, rx) = channel(1);
            ends.sender = Some(tx);
            Peer::Receiver(rx)
        }
        Consequence::OneshotDropped => {
            let (tx, rx) = oneshot();
            ends.answer = Some(tx);
            Peer::Answered(rx)
        }
        Consequence::SemaphoreClosed => {
            let permits = Arc::new(Semaphore::new(0));
            ends.permits = Some(Closes(Arc::clone(&permits)));
            Peer::Permitted(permits)
        }
        _ => {
            let (tx, rx) = channel(1);
            ends.receiver = Some(rx);
            Peer::Sender(tx)
        }
    };
    (ends, peer)
}

fn panic(text: &'static str) -> ! {
    resume_unwind(Box::new(text)) // without a message
}

/// The child that brings it about, or is cancelled first.
fn culprit(cx: &Cx, trigger: Trigger, ends: Ends) -> Result<()> {
    let _slow = Slow(cx);
    let _ends = ends;
    cx.yield_now()?;
    match trigger {
        Trigger::SiblingFailed => Err(Error::msg("oops")),
        Trigger::SiblingPanicked => panic("boom"),
        Trigger::SiblingOutOfBudget => loop {
            cx.checkpoint()?;
        },
        _ => until_cancelled(cx),
    }
}

/// Waits, so that virtual time passes at once.
fn until_cancelled(cx: &Cx) -> Result<()> {
    loop {
        cx.sleep(Duration::from_millis(20))?;
    }
}

/// The child that sees the consequence.
fn witness(cx: &Cx, consequence: Consequence, peer: &Peer) -> Result<()> {
    let send = |tx: &Sender<u8>| -> Result<()> {
        loop {
            tx.send(1)?;
        }
    };
    match (consequence, peer) {
        (Consequence::Mapped, Peer::Sender(tx)) => send(tx).map_err(|_| Error::msg("made from it")),
        (Consequence::Unwrapped, Peer::Sender(tx)) => {
            send(tx).unwrap_or_else(|_| panic("made from it"));
            Ok(())
        }
        (Consequence::Nested, Peer::Sender(tx)) => cx.nursery(|n| {
            n.spawn(|_| send(tx))?;
            Ok(())
        }),
        (_, Peer::Sender(tx)) => send(tx),
        (_, Peer::Receiver(rx)) => loop {
            rx.recv()?;
        },
        (_, Peer::Answered(rx)) => rx.recv().map(drop).map_err(Error::from),
        (_, Peer::Permitted(permits)) => permits.acquire().map(drop),
        (_, Peer::None) => until_cancelled(cx),
    }
}

/// The nursery that is tested.
fn program(
    cx: &Cx,
    rt: &Runtime,
    trigger: Trigger,
    consequence: Consequence,
    policy: OnFailure,
    parent: Option<&parcae::CancelToken>,
) -> Result<()> {
    let token = parcae::CancelToken::new();
    let mut opts = NurseryOpts::new()
        .name("tested")
        .on_failure(policy)
        .on_exhausted(OnExhausted::Fail)
        .token(&token);
    if trigger == Trigger::NurseryDeadline {
        opts = opts.timeout(LIMIT);
    }
    let body_has_them = matches!(trigger, Trigger::BodyFailed | Trigger::BodyPanicked);
    let (ends, peer) = connect(consequence);
    let mut ends = Some(ends);
    cx.nursery_with(opts, |n| {
        let _slow = Slow(cx);
        let peer = &peer;
        let mut own = None;
        if body_has_them {
            own = ends.take();
        }
        let first = match ends.take() {
            Some(ends) => {
                let budget = Budget { ops: 40, ..Budget::UNLIMITED };
                let opts = match trigger {
                    Trigger::SiblingOutOfBudget => SpawnOpts::new().budget(budget),
                    _ => SpawnOpts::new(),
                };
                Some(n.spawn_with(opts, move |cx| culprit(cx, trigger, ends))?)
            }
            None => None,
        };
        match first {
            Some(first) if consequence == Consequence::JoinPassedOn => {
                n.spawn(move |_| first.join())?;
            }
            _ => {
                n.spawn(move |cx| witness(cx, consequence, peer))?;
                n.spawn(move |cx| witness(cx, consequence, peer))?;
            }
        }
        cx.yield_now()?;
        match trigger {
            Trigger::Token => token.cancel(),
            Trigger::Explicit => n.cancel(),
            Trigger::ParentCancelled => parent.unwrap().cancel(),
            Trigger::Shutdown => drop(rt.shutdown(Duration::ZERO)),
            Trigger::BodyFailed => {
                drop(own);
                return Err(Error::msg("oops"));
            }
            Trigger::BodyPanicked => {
                drop(own);
                panic("boom")
            }
            Trigger::SiblingFailed | Trigger::SiblingPanicked | Trigger::SiblingOutOfBudget
                if policy != OnFailure::FailFast =>
            {
                cx.sleep(Duration::from_secs(1))?;
                n.wind_down(); // the tasks that have noticed nothing
            }
            _ => {}
        }
        Ok(())
    })
}

/// The first error, which is the cause.
fn first(error: &Error) -> &Error {
    match error.kind() {
        ErrorKind::Several(all) => &all[0],
        _ => error,
    }
}

fn reason(error: &Error) -> Option<CancelReason> {
    match error.kind() {
        ErrorKind::Cancelled(reason) => Some(*reason),
        _ => None,
    }
}

/// One cell, once.
fn cell(cx: &Cx, rt: &Runtime, trigger: Trigger, consequence: Consequence, policy: OnFailure) {
    let mut inner = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| match trigger {
        Trigger::TimeoutAround => cx.timeout(LIMIT, || {
            let outcome = program(cx, rt, trigger, consequence, policy, None);
            inner = outcome.as_ref().err().cloned();
            outcome
        }),
        Trigger::ParentCancelled => cx.nursery_with(NurseryOpts::new().name("above"), |n| {
            let token = n.token();
            let outcome = program(cx, rt, trigger, consequence, policy, Some(&token));
            inner = outcome.as_ref().err().cloned();
            outcome
        }),
        _ => program(cx, rt, trigger, consequence, policy, None),
    }));
    if trigger == Trigger::BodyPanicked {
        let payload = outcome.expect_err("the body has panicked");
        assert_eq!(payload.downcast_ref(), Some(&"boom"), "{trigger:?} {consequence:?} {policy:?}");
        return;
    }
    let error = outcome.expect("no panic comes out").expect_err("it has failed");
    let cause = first(&error);
    let text = cause.to_string();
    let is = |expected: bool| {
        assert!(expected, "{trigger:?} {consequence:?} {policy:?}: {error:?}, within it {inner:?}");
    };
    match trigger {
        Trigger::NurseryDeadline => {
            is(reason(cause) == Some(CancelReason::Timeout));
            is(cause.is_cancelled() && cause.is_timed_out());
            is(text.starts_with("deadline exceeded after 50 ms"));
        }
        Trigger::TimeoutAround => {
            is(matches!(cause.kind(), ErrorKind::TimedOut) && cause.is_timed_out());
            is(text.starts_with("deadline exceeded after 50 ms"));
            let inner = inner.as_ref().expect("it has failed, too");
            is(reason(inner) == Some(CancelReason::Parent) && !inner.is_timed_out());
            is(inner.to_string().contains("cancelled: deadline exceeded after 50 ms"));
        }
        Trigger::Token => is(reason(cause) == Some(CancelReason::Explicit)),
        Trigger::Explicit => {
            is(reason(cause) == Some(CancelReason::Explicit));
            is(text.starts_with("cancelled explicitly at ") && text.contains("causes.rs:"));
        }
        Trigger::ParentCancelled => {
            is(reason(cause) == Some(CancelReason::Explicit));
            let inner = inner.as_ref().expect("it has failed, too");
            is(reason(inner) == Some(CancelReason::Parent));
            is(inner
                .to_string()
                .contains("parent nursery `above` was cancelled: cancelled explicitly"));
        }
        Trigger::SiblingFailed | Trigger::BodyFailed => {
            is(text.starts_with("oops") && !cause.is_cancelled());
        }
        Trigger::SiblingPanicked => is(cause.is_panic() && text.starts_with("panicked: boom")),
        Trigger::SiblingOutOfBudget => is(matches!(cause.kind(), ErrorKind::BudgetExceeded(_))),
        Trigger::Shutdown => is(reason(cause) == Some(CancelReason::Shutdown)),
        Trigger::BodyPanicked => unreachable!(),
    }
}

/// All cells of a trigger.
fn all(trigger: Trigger) {
    let cells = || CONSEQUENCES.iter().flat_map(|c| POLICIES.iter().map(move |p| (*c, *p)));
    let run = |rt: &Runtime, consequence, policy| {
        rt.run(|cx| {
            cell(cx, rt, trigger, consequence, policy);
            Ok(())
        })
    };
    let outcome = if trigger == Trigger::Shutdown {
        // A runtime that has shut down runs nothing more.
        cells().try_for_each(|(consequence, policy)| {
            explored(0..SEEDS, |rt| {
                // The root task is cancelled too, which this test does not look at.
                match run(rt, consequence, policy) {
                    Err(error) if !error.is_cancelled() => Err(error),
                    _ => Ok(()),
                }
            })
        })
    } else {
        explored(0..SEEDS, |rt| cells().try_for_each(|(c, p)| run(rt, c, p)))
    };
    if let Err(error) = outcome {
        panic!("{error:#}");
    }
}

macro_rules! triggers {
    ($($name:ident: $trigger:ident,)*) => {$(
        #[test]
        fn $name() {
            all(Trigger::$trigger);
        }
    )*};
}

triggers! {
    deadline_of_the_nursery: NurseryDeadline,
    timeout_around_it: TimeoutAround,
    token_of_its_own: Token,
    parent_cancelled: ParentCancelled,
    cancelled_explicitly: Explicit,
    sibling_failed: SiblingFailed,
    sibling_panicked: SiblingPanicked,
    sibling_out_of_budget: SiblingOutOfBudget,
    runtime_shuts_down: Shutdown,
    body_failed: BodyFailed,
    body_panicked: BodyPanicked,
}

/// Four producers and a slow consumer that run into a deadline.
fn pipeline(cx: &Cx, opts: NurseryOpts) -> Result<()> {
    let (tx, rx) = channel::<u32>(16);
    cx.nursery_with(opts, move |n| {
        for _ in 0..4 {
            let tx = tx.clone();
            n.spawn(move |_| -> Result<()> {
                loop {
                    tx.send(1)?;
                }
            })?;
        }
        drop(tx);
        n.spawn(move |cx| {
            for value in rx.iter() {
                value?;
                cx.sleep(Duration::from_millis(1))?;
            }
            Ok(())
        })?;
        Ok(())
    })
}

/// A task closes a semaphore and then fails: others have noticed that before, and one has made an
/// error of its own from it.
#[test]
fn a_closed_semaphore_is_not_the_cause() {
    explored(0..100, |rt| {
        rt.run(|cx| {
            let permits = Semaphore::new(0);
            let failed: Result<()> = cx.nursery(|n| {
                n.spawn(|_| permits.acquire().map(drop))?;
                n.spawn(|_| permits.acquire().map(drop).map_err(|_| Error::msg("made from it")))?;
                n.spawn(|cx| {
                    permits.close();
                    cx.shield(|| cx.yield_now())?;
                    Err::<(), _>(Error::msg("oops"))
                })?;
                Ok(())
            });
            let error = failed.unwrap_err();
            assert!(error.to_string().starts_with("oops"), "{error}");
            Ok(())
        })
    })
    .unwrap();
}

#[test]
fn a_pipeline_on_threads_says_that_its_deadline_is_exceeded() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    for round in 0..40 {
        let error = rt.run(|cx| pipeline(cx, NurseryOpts::new().timeout(LIMIT))).unwrap_err();
        assert!(error.is_cancelled() && error.is_timed_out(), "{round}: {error:?}");
        assert!(error.to_string().starts_with("deadline exceeded after 50 ms"), "{error}");
        let around = rt.run(|cx| cx.timeout(LIMIT, || pipeline(cx, NurseryOpts::new())));
        let error = around.unwrap_err();
        assert!(error.is_timed_out(), "{round}: {error:?}");
        assert!(error.to_string().starts_with("deadline exceeded after 50 ms"), "{error}");
    }
}

/// A consumer that fails on another thread: the producers see a closed channel before its error is
/// noted.
#[test]
fn a_failed_consumer_on_threads_is_the_cause() {
    let rt = Runtime::builder().workers(4).build().unwrap();
    for round in 0..2_000 {
        let error = rt
            .run(|cx| {
                let (tx, rx) = channel::<u32>(1);
                cx.nursery(move |n| {
                    for mapped in [false, true] {
                        let tx = tx.clone();
                        n.spawn(move |_| -> Result<()> {
                            while tx.send(1).is_ok() {}
                            tx.send(1).map_err(|error| match mapped {
                                true => Error::msg("made from it"),
                                false => Error::from(error),
                            })
                        })?;
                    }
                    drop(tx);
                    n.spawn(move |_| {
                        let rx = rx;
                        rx.recv()?;
                        Err::<(), _>(Error::msg("oops"))
                    })?;
                    Ok(())
                })
            })
            .unwrap_err();
        assert!(error.to_string().starts_with("oops"), "{round}: {error:?}");
    }
}

/// A task that alone was cancelled and answers with an error of its own has not failed its nursery;
/// one that panics has.
#[test]
fn a_child_that_alone_is_cancelled_fails_nobody() {
    explored(0..100, |rt| {
        rt.run(|cx| {
            for policy in POLICIES {
                let outcome = cx.nursery_with(NurseryOpts::new().on_failure(policy), |n| {
                    let child = n.spawn(|cx| -> Result<()> {
                        let told = cx.forever(|| Ok(())).unwrap_err();
                        Err(Error::msg(format!("made from it: {told}")))
                    })?;
                    child.cancel();
                    drop(child);
                    Ok(7)
                });
                assert_eq!(outcome.unwrap(), 7);
                let outcome = cx.nursery_with(NurseryOpts::new().on_failure(policy), |n| {
                    let child = n.spawn(|cx| -> Result<()> {
                        cx.checkpoint()?;
                        let _ = cx.forever(|| Ok(()));
                        panic("while it cleaned up")
                    })?;
                    cx.yield_now()?;
                    child.cancel();
                    drop(child);
                    Ok(7)
                });
                // It may have been cancelled before it began.
                assert!(outcome.map_or_else(|error| error.is_panic(), |value| value == 7));
            }
            Ok(())
        })
    })
    .unwrap();
}

/// The body that cancels may return its own error, which counts after `wind_down`.
#[test]
fn a_body_that_cancels_has_the_last_word() {
    explored(0..100, |rt| {
        rt.run(|cx| {
            let closed_late = |tx: &Sender<u8>| -> Result<()> {
                loop {
                    tx.send(1)?;
                }
            };
            for policy in POLICIES {
                let opts = || NurseryOpts::new().on_failure(policy);
                let (tx, rx) = channel::<u8>(1);
                let error = cx
                    .nursery_with(opts(), |n| -> Result<()> {
                        n.spawn(|_| closed_late(&tx))?;
                        n.cancel();
                        drop(rx);
                        Err(Error::msg("had enough"))
                    })
                    .unwrap_err();
                assert!(error.to_string().starts_with("had enough"), "{error:?}");
                let (tx, rx) = channel::<u8>(1);
                let value = cx.nursery_with(opts(), |n| {
                    n.spawn(|_| closed_late(&tx))?;
                    n.wind_down();
                    drop(rx);
                    Ok(7)
                });
                assert_eq!(value.unwrap(), 7);
            }
            Ok(())
        })
    })
    .unwrap();
}

/// A child that is cancelled by its handle says where.
#[test]
fn a_handle_that_cancels_names_the_place() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.nursery(NurseryOpts::new(), |n| {
        // More than a nursery remembers, dropped: the last is named all the same.
        for _ in 0..100 {
            n.spawn(|cx| cx.forever(|| Ok(())))?.cancel();
        }
        let child = n.spawn(|cx| cx.forever(|| Ok(())))?;
        child.cancel();
        let line = line!() - 1;
        child.cancel();
        let error = child.join().unwrap_err();
        assert!(error.is_cancelled());
        assert!(error.to_string().contains(&format!("causes.rs:{line}:")), "{error}");
        Ok(())
    })
    .unwrap();
}
