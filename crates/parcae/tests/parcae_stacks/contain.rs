//! `Cx::contain_overflow`, seen from outside the process: overflows that are contained, and
//! overflows that must not be.

mod fatal;
mod inside;

use crate::support::child;
use parcae::channel::channel;
use parcae::fiber::Fiber;
use parcae::prelude::*;
use parcae::stack::{StackPool, StackSize};
use parcae::sync::Mutex;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Recurses for ever, and does not let the compiler see that.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if frame[3] == u64::MAX { 0 } else { recurse(depth + 1) + black_box(frame[7]) }
}

/// As deeply as it is told.
#[inline(never)]
fn dig(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if depth == 0 { 0 } else { 1 + dig(depth - 1) + black_box(frame[7] - depth) }
}

fn runtime() -> Runtime {
    Runtime::builder().workers(1).build().unwrap()
}

/// Overflows a contained stack.
fn overflow(cx: &Cx) -> parcae::Result<u64> {
    // SAFETY: `recurse` only computes.
    unsafe { cx.contain_overflow(StackSize::CORE, || recurse(0)) }
}

fn is_overflow(error: &parcae::Error) -> bool {
    matches!(error.kind(), ErrorKind::StackOverflow { .. })
}

/// Runs `body` in a child process, which must come to its end.
fn survives(test: &str, body: impl FnOnce()) {
    const MARK: &str = "came to its end";
    if child::is_victim() {
        body();
        eprintln!("{MARK}");
        return;
    }
    let outcome = child::run(module_path!(), test);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains(MARK), "{outcome:?}");
}

/// Runs `body` in a child process, which must abort in it and report all of `reports`.
fn aborts(test: &str, reports: &[&str], body: impl FnOnce()) {
    if child::is_victim() {
        body();
        unreachable!("it goes on");
    }
    let outcome = child::run(module_path!(), test);
    assert_eq!(outcome.signal, Some(libc::SIGABRT), "{outcome:?}");
    for report in reports {
        assert!(outcome.stderr.contains(report), "{report}: {}", outcome.stderr);
    }
}

// rule: S0-ERR-4
#[test]
fn an_overflow_is_an_error_a_hundred_times_in_a_row() {
    survives("an_overflow_is_an_error_a_hundred_times_in_a_row", || {
        let rt = runtime();
        rt.run(|cx| {
            for round in 1..=100 {
                let error = overflow(cx).unwrap_err();
                assert!(is_overflow(&error), "{error}");
                cx.checkpoint()?;
                assert_eq!(rt.stats().quarantined_stacks, round);
                // SAFETY: `dig` only computes.
                assert_eq!(unsafe { cx.contain_overflow(StackSize::CORE, || dig(100)) }?, 100);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(rt.stats().quarantined_stacks, 100);
        assert!(rt.stats().to_prometheus().contains("parcae_stacks_quarantined 100"));
    });
}

#[test]
fn the_error_says_how_large_the_stack_was_and_which_task_it_was() {
    survives("the_error_says_how_large_the_stack_was_and_which_task_it_was", || {
        let line = line!() + 3;
        let outcome = runtime().run(|cx| {
            cx.nursery(|n| {
                let digger = n.spawn_with(SpawnOpts::new().name("digger"), overflow)?;
                digger.join()
            })
        });
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("stack of 64 KiB, which is never used again"), "{text}");
        assert!(text.contains("choose a larger one if the code needs it"), "{text}");
        assert!(text.contains("task `digger`, spawned at "), "{text}");
        assert!(text.contains(&format!("contain.rs:{line}")), "{text}");
    });
}

#[test]
fn siblings_on_the_same_worker_go_on() {
    survives("siblings_on_the_same_worker_go_on", || {
        let rounds = runtime().run(|cx| {
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                let (sender, receiver) = channel(1);
                let sibling = n.spawn(move |cx| {
                    for round in 0..1_000_u32 {
                        sender.send(round)?;
                        cx.yield_now()?;
                    }
                    Ok(())
                })?;
                let failing: Vec<_> = (0..10)
                    .map(|_| n.spawn(|cx| (0..3).try_for_each(|_| overflow(cx).map(drop))))
                    .collect::<Result<_, _>>()?;
                let sum = receiver.iter().filter(Result::is_ok).count();
                sibling.join()?;
                for task in failing {
                    assert!(is_overflow(&task.join().unwrap_err()));
                }
                Ok(sum)
            })
        });
        assert_eq!(rounds.unwrap(), 1_000);
    });
}

// rule: S0-ERR-4
#[test]
fn a_question_mark_fails_the_nursery_with_the_overflow_as_its_cause() {
    survives("a_question_mark_fails_the_nursery_with_the_overflow_as_its_cause", || {
        let outcome = runtime().run(|cx| {
            cx.nursery(|n| {
                n.spawn(|cx| cx.forever(|| cx.sleep(Duration::from_millis(1))))?;
                n.spawn(|cx| {
                    overflow(cx)?;
                    Ok(())
                })?;
                Ok(())
            })
        });
        assert!(is_overflow(&outcome.unwrap_err()));
    });
}

/// Under the deterministic executor too, with every seed.
#[test]
fn any_schedule_survives() {
    survives("any_schedule_survives", || {
        let explored = parcae::explore(0..50, |rt| {
            rt.run(|cx| {
                cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                    let (sender, receiver) = channel(2);
                    for task in 0..4_u64 {
                        let sender = sender.clone();
                        n.spawn(move |cx| {
                            for _ in 0..3 {
                                assert!(is_overflow(&overflow(cx).unwrap_err()));
                                sender.send(task)?;
                            }
                            Ok(())
                        })?;
                    }
                    drop(sender);
                    let sum: u64 = receiver.iter().map(|task| task.unwrap()).sum();
                    assert_eq!(sum, 3 * (1 + 2 + 3));
                    Ok(())
                })
            })
        });
        explored.unwrap();
    });
}

#[test]
fn workers_overflow_at_the_same_time() {
    survives("workers_overflow_at_the_same_time", || {
        let rt = Runtime::builder().workers(4).build().unwrap();
        rt.run(|cx| {
            cx.nursery(|n| {
                for _ in 0..32 {
                    n.spawn(|cx| {
                        for _ in 0..8 {
                            assert!(is_overflow(&overflow(cx).unwrap_err()));
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?;
                }
                Ok(())
            })
        })
        .unwrap();
        assert_eq!(rt.stats().quarantined_stacks, 32 * 8);
    });
}

#[test]
fn one_huge_frame_is_contained_too() {
    #[inline(never)]
    fn one_huge_frame() -> u8 {
        let frame = [black_box(1_u8); 1 << 20];
        black_box(&frame)[1 << 19]
    }
    survives("one_huge_frame_is_contained_too", || {
        let error = runtime()
            // SAFETY: only computes.
            .run(|cx| unsafe { cx.contain_overflow(StackSize::CORE, one_huge_frame) })
            .unwrap_err();
        let ErrorKind::StackOverflow { left, needed } = error.kind() else { panic!("{error}") };
        assert!(left < needed && *needed < 8192, "{left} {needed}");
    });
}

/// Values on an abandoned stack stay there, though the runtime and its pool are gone.
// rule: S0-ERR-4
#[test]
fn an_abandoned_stack_outlives_its_runtime() {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    survives("an_abandoned_stack_outlives_its_runtime", || {
        let rt = runtime();
        rt.run(|cx| {
            let publish = || {
                let value = black_box([0xc5_u8; 256]);
                PLACE.store((&raw const value).expose_provenance(), Relaxed);
                recurse(0) + u64::from(black_box(&value)[7])
            };
            // SAFETY: a store to a static cannot be half-done.
            assert!(unsafe { cx.contain_overflow(StackSize::CORE, publish) }.is_err());
            // Others use the stacks around it, and would use this one.
            for _ in 0..50 {
                // SAFETY: `dig` only computes.
                unsafe { cx.contain_overflow(StackSize::CORE, || dig(50)) }?;
            }
            Ok(())
        })
        .unwrap();
        drop(rt);
        let place = std::ptr::with_exposed_provenance::<[u8; 256]>(PLACE.load(Relaxed));
        // SAFETY: in quarantine, hence as it was.
        assert_eq!(unsafe { place.read_volatile() }, [0xc5; 256]);
    });
}

#[test]
fn a_limit_of_stacks_bounds_what_is_lost() {
    survives("a_limit_of_stacks_bounds_what_is_lost", || {
        let rt = Runtime::builder().workers(1).max_stacks(12).build().unwrap();
        rt.run(|cx| {
            let lost = (0..20).map(|_| overflow(cx).unwrap_err()).filter(is_overflow).count();
            assert!((5..12).contains(&lost), "{lost}");
            let error = overflow(cx).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NoStack(_)), "{error}");
            Ok(())
        })
        .unwrap();
    });
}
