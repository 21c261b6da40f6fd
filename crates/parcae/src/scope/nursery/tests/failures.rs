//! Failing children, bodies that fail or panic, and the three policies.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

// rule: S1-GUARD-3, S2-ENTRY-3
#[test]
fn a_failure_cancels_the_siblings_and_comes_out() {
    everywhere(|cx| {
        let error = cx
            .nursery(|n| {
                n.spawn(forever)?;
                n.spawn(asleep)?;
                n.spawn_with(SpawnOpts::new().name("bad"), |cx| {
                    cx.yield_now()?;
                    Err::<(), _>(oops())
                })?;
                Ok(())
            })
            .unwrap_err();
        assert!(error.to_string().starts_with("oops (task `bad`, spawned at "), "{error}");
        assert_eq!(error.others(), 0);
        Ok(())
    });
}

// rule: S1-GUARD-3
#[test]
fn a_failure_that_was_joined_is_reported_once() {
    everywhere(|cx| {
        let error = cx.nursery(|n| n.spawn(|_| Err::<(), _>(oops()))?.join()).unwrap_err();
        assert_eq!(error.others(), 0);
        assert!(error.to_string().starts_with("oops"));
        Ok(())
    });
}

// rule: S0-NURSERY-11
#[test]
fn the_first_failure_is_kept_and_the_others_are_counted() {
    everywhere(|cx| {
        let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
        let error = cx
            .nursery_with(opts, |n| {
                for _ in 0..10 {
                    n.spawn(|_| Err::<(), _>(oops()))?;
                }
                Ok(())
            })
            .unwrap_err();
        assert_eq!(error.others(), 9);
        Ok(())
    });
}

#[test]
fn isolated_siblings_survive() {
    everywhere(|cx| {
        let survivors = AtomicUsize::new(0);
        let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
        let outcome = cx.nursery_with(opts, |n| {
            let bad = n.spawn(|_| Err::<(), _>(oops()))?;
            for _ in 0..5 {
                n.spawn(|cx| {
                    cx.yield_now()?;
                    survivors.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })?;
            }
            assert!(bad.join().is_err()); // known to the body: not the nursery's result
            Ok(7)
        });
        assert_eq!(outcome?, 7);
        assert_eq!(survivors.into_inner(), 5);
        Ok(())
    });
}

// rule: S1-NOTIFY-2
#[test]
fn all_failures_can_be_collected() {
    everywhere(|cx| {
        let opts = NurseryOpts::new().on_failure(OnFailure::Collect);
        let outcome =
            cx.nursery_with(opts, |n| {
                for index in 0..6 {
                    n.spawn(move |_| {
                        if index % 2 == 0 { Err(Error::msg(format!("{index}"))) } else { Ok(()) }
                    })?;
                }
                Ok(())
            });
        let ErrorKind::Several(errors) = kind_of(outcome) else { panic!("not collected") };
        let mut texts: Vec<_> = errors.iter().map(|e| e.to_string()[..1].to_owned()).collect();
        texts.sort();
        assert_eq!(texts, ["0", "2", "4"]);
        Ok(())
    });
}

#[test]
fn a_panic_stays_in_its_task() {
    everywhere(|cx| {
        let error = cx
            .nursery(|n| {
                n.spawn(asleep)?;
                n.spawn(|_| -> Result<()> { std::panic::panic_any("boom") })?;
                Ok(())
            })
            .unwrap_err();
        assert!(error.is_panic());
        assert!(error.to_string().starts_with("panicked: boom (task "), "{error}");
        assert_eq!(*error.take_panic().unwrap().downcast::<&str>().unwrap(), "boom");
        Ok(())
    });
}

#[test]
fn a_body_that_fails_cancels_its_children() {
    everywhere(|cx| {
        let error = cx
            .nursery(|n| {
                n.spawn(forever)?;
                n.spawn(asleep)?;
                Err::<(), _>(oops())
            })
            .unwrap_err();
        assert!(error.to_string().starts_with("oops"));
        Ok(())
    });
}

// rule: S0-NURSERY-10, S1-GUARD-2, S2-SCOPE-2
#[test]
fn a_body_that_panics_cancels_and_awaits_its_children_first() {
    everywhere(|cx| {
        let (started, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            cx.nursery(|n| {
                for _ in 0..3 {
                    n.spawn(|cx| {
                        started.fetch_add(1, Ordering::Relaxed);
                        let end = forever(cx);
                        ended.fetch_add(1, Ordering::Relaxed);
                        end
                    })?;
                }
                while started.load(Ordering::Relaxed) < 3 {
                    cx.yield_now()?;
                }
                std::panic::resume_unwind(Box::new(17));
                #[allow(unreachable_code)]
                Ok(())
            })
        }));
        assert_eq!(*outcome.unwrap_err().downcast::<i32>().unwrap(), 17);
        assert_eq!(ended.into_inner(), 3);
        Ok(())
    });
}

#[test]
fn a_nursery_in_a_destructor_of_an_unwinding_task_is_refused() {
    struct Opens<'c>(&'c Cx, &'c AtomicUsize);
    impl Drop for Opens<'_> {
        fn drop(&mut self) {
            let outcome = self.0.nursery(|n| n.spawn(|_| Ok(()))?.join());
            if matches!(outcome.unwrap_err().kind(), ErrorKind::Unwinding) {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    everywhere(|cx| {
        let refused = AtomicUsize::new(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let _opens = Opens(cx, &refused);
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(outcome.is_err());
        assert_eq!(refused.into_inner(), 1);
        Ok(())
    });
}

#[test]
fn without_stacks_children_fail_with_an_error_that_says_so() {
    let rt = Runtime::builder().workers(1).max_stacks(8).build().unwrap();
    let error = rt
        .run(|cx| {
            cx.nursery_with(NurseryOpts::new().on_failure(OnFailure::Isolate), |n| {
                for _ in 0..20 {
                    n.spawn(|cx| {
                        for _ in 0..100 {
                            cx.yield_now()?;
                        }
                        Ok(())
                    })?;
                }
                Ok(())
            })
        })
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoStack(_)), "{error:?}");
    assert!(rt.run(|_| Ok(())).is_ok());
}

/// The handle may go at any moment of the child's end: before it looks for it, after it has
/// left its result there, after it is finished.
#[test]
fn a_failure_is_heard_of_whenever_the_handle_goes() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let rt = Runtime::builder().workers(2).build().unwrap();
    for round in 0..3_000 {
        let started = AtomicBool::new(false);
        let opts = NurseryOpts::new().on_failure(OnFailure::Isolate);
        let outcome = rt.run(|cx| {
            cx.nursery_with(opts, |n| {
                let child = n.spawn(|_| -> Result<()> {
                    started.store(true, Ordering::Relaxed);
                    Err(oops())
                })?;
                let mut patience = 100_000; // the other worker may be busy
                while !started.load(Ordering::Relaxed) && patience > 0 {
                    patience -= 1;
                    std::hint::spin_loop();
                }
                (0..round % 200).for_each(|_| std::hint::spin_loop());
                drop(child);
                Ok(())
            })
        });
        assert_eq!(outcome.unwrap_err().to_string().split(' ').next(), Some("oops"), "{round}");
    }
}

#[test]
fn a_join_gives_the_childs_own_failure() {
    everywhere(|cx| {
        let outcome = cx.nursery(|n| {
            n.spawn(forever)?;
            let failure = n.spawn(|_| Err::<(), _>(oops()))?.join().unwrap_err();
            assert!(failure.to_string().starts_with("oops"), "{failure}");
            Ok(())
        });
        assert!(outcome.unwrap_err().to_string().starts_with("oops"));
        Ok(())
    });
}
