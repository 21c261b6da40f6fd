//! Unwinding: a nursery is left only after its children have ended, even if destructors panic on
//! the way out. A destructor may wait.

use crate::support::*;
use parcae::prelude::*;
use parcae::{Error, Result, RootTask};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Dropping it panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("bomb");
    }
}

/// Dropping it panics, with a payload that does the same.
struct Hydra;

impl Drop for Hydra {
    fn drop(&mut self) {
        panic_any(Hydra);
    }
}

/// An error that panics when it is dropped.
#[derive(Debug)]
struct BadError;

impl fmt::Display for BadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bad")
    }
}

impl std::error::Error for BadError {}

impl Drop for BadError {
    fn drop(&mut self) {
        panic!("error dropped");
    }
}

/// A child that takes its time, and that a cancellation does not stop.
#[derive(Default)]
struct Slow {
    started: AtomicBool,
    live: AtomicBool,
}

impl Slow {
    fn run(&self, cx: &Cx) -> Result<()> {
        cx.shield(|| {
            self.live.store(true, SeqCst);
            self.started.store(true, SeqCst);
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(300) {
                let _ = cx.yield_now();
            }
            self.live.store(false, SeqCst);
        });
        Ok(())
    }

    fn wait_for_start(&self, cx: &Cx) -> Result<()> {
        while !self.started.load(SeqCst) {
            cx.yield_now()?;
        }
        Ok(())
    }

    /// Its nursery is left. If it is still live, then the stack is broken, and no failure of a
    /// test would be reported over that.
    fn must_have_ended(&self) {
        if self.live.load(SeqCst) {
            std::process::abort();
        }
    }
}

#[test]
fn a_callback_that_throws_a_bomb_does_not_let_the_body_leave_its_children() {
    let slow = Slow::default();
    let outcome = runtime(2).run(|cx| {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            cx.nursery(|n| {
                n.spawn(|cx| slow.run(cx))?;
                slow.wait_for_start(cx)?;
                n.token().on_cancel(|_| panic_any(Bomb)).forget();
                Err::<(), _>(Error::msg("body"))
            })
        }));
        slow.must_have_ended();
        Ok(())
    });
    drop(outcome);
    assert!(!slow.live.load(SeqCst), "the nursery was left while its child ran");
}

#[test]
fn a_second_error_that_panics_in_its_drop_does_not_let_the_body_leave_its_children() {
    let slow = Slow::default();
    let _ = runtime(2).run(|cx| {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            cx.nursery(|n| {
                n.spawn(|cx| slow.run(cx))?;
                slow.wait_for_start(cx)?;
                n.spawn(|_| Err::<(), _>(Error::msg("first")))?;
                while !n.is_cancelled() {
                    let _ = cx.yield_now();
                    std::thread::yield_now();
                }
                Err::<(), _>(Error::from(BadError))
            })
        }));
        slow.must_have_ended();
        Ok(())
    });
}

#[test]
fn a_child_that_has_ended_has_a_result_though_a_callback_throws_a_bomb() {
    for workers in [1, 2] {
        runtime(workers)
            .run(|cx| {
                let mut seen = None;
                let _ = cx.nursery(|n| {
                    n.token().on_cancel(|_| panic_any(Bomb)).forget();
                    let child = n.spawn(|_| Err::<[u64; 6], _>(Error::msg("child")))?;
                    while !child.is_finished() {
                        let _ = cx.shield(|| cx.yield_now());
                    }
                    seen = Some(cx.shield(|| child.join()));
                    Ok(())
                });
                match seen.unwrap() {
                    // Memory was read that was never written: no later check means anything.
                    Ok(_) => std::process::abort(),
                    Err(e) => assert_eq!(e.task().unwrap().spawned_at().file(), file!()),
                }
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn a_result_that_panics_whenever_it_is_dropped_keeps_no_nursery() {
    must_end(|| {
        let outcome = runtime(2).run(|cx| {
            for round in 0..3_000_u64 {
                let started = AtomicBool::new(false);
                let _ = cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                    let child = n.spawn(|_| {
                        started.store(true, SeqCst);
                        Ok(Hydra)
                    })?;
                    while !started.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                    for _ in 0..(round % 200) * 4 {
                        std::hint::spin_loop();
                    }
                    let _ =
                        catch_unwind(AssertUnwindSafe(|| drop(child))).map_err(std::mem::forget);
                    Ok(())
                });
            }
            Ok(())
        });
        std::mem::forget(outcome);
    });
}

#[test]
fn a_destructor_that_joins_while_its_task_unwinds_comes_back() {
    struct Joins<'s>(Option<TaskHandle<'s, ()>>);

    impl Drop for Joins<'_> {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().join();
        }
    }

    must_end(|| {
        let outcome = runtime(1).run(|cx| {
            cx.nursery(|n| {
                let _joins = Joins(Some(n.spawn(|_| Ok(()))?));
                if true {
                    panic!("body");
                }
                Ok(())
            })
        });
        assert!(outcome.unwrap_err().is_panic());
    });
}

#[test]
fn a_destructor_that_runs_out_of_budget_while_its_task_unwinds_comes_back() {
    struct Checks<'c>(&'c Cx);

    impl Drop for Checks<'_> {
        fn drop(&mut self) {
            for _ in 0..4_000 {
                if self.0.checkpoint().is_err() {
                    break;
                }
            }
        }
    }

    must_end(|| {
        let outcome = runtime(1).run(|cx| {
            cx.nursery_with(suspending(5_000), |n| {
                n.spawn(|cx| {
                    let _checks = Checks(cx);
                    if true {
                        panic!("child");
                    }
                    Ok(())
                })?
                .join()
            })
        });
        assert!(outcome.unwrap_err().is_panic());
    });
}

/// It runs on the task: a wait there parks the task and does not block the worker.
#[test]
fn a_destructor_of_a_result_may_join() {
    struct Joins(Option<RootTask<()>>);

    impl Drop for Joins {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().join();
        }
    }

    must_end(|| {
        let rt = runtime(1);
        let handle = rt.handle();
        rt.run(|cx| {
            cx.nursery(|n| {
                let task = handle.spawn(|_| Ok(()))?;
                drop(n.spawn(move |_| Ok(Joins(Some(task))))?);
                Ok(())
            })
        })
        .unwrap();
    });
}
