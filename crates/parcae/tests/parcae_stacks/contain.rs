//! `Cx::contain_overflow`, seen from outside the process: overflows that are contained, and
//! overflows that must not be.

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
        assert!(text.contains("it may be given a larger one"), "{text}");
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

#[test]
fn results_come_back_and_what_an_overflow_owns_is_leaked() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    survives("results_come_back_and_what_an_overflow_owns_is_leaked", || {
        let dropped = Arc::new(AtomicUsize::new(0));
        runtime()
            .run(|cx| {
                let counted = Counted(Arc::clone(&dropped));
                // SAFETY: only computes.
                let back = unsafe {
                    cx.contain_overflow(StackSize::SERVICE, move || (counted, [7_u8; 20_000]))
                }?;
                assert_eq!((dropped.load(Relaxed), back.1[19_999]), (0, 7));
                drop(back);
                assert_eq!(dropped.load(Relaxed), 1);
                let counted = Counted(Arc::clone(&dropped));
                let owns = move || recurse(0) + counted.0.load(Relaxed) as u64;
                // SAFETY: only computes.
                unsafe { cx.contain_overflow(StackSize::CORE, owns) }.unwrap_err();
                assert_eq!(dropped.load(Relaxed), 1);
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn a_panic_comes_out() {
    survives("a_panic_comes_out", || {
        let rt = runtime();
        let error = rt
            .run(|cx| {
                let throw = || -> u64 { std::panic::panic_any(42_u8) };
                // SAFETY: it is unwound, not abandoned.
                unsafe { cx.contain_overflow(StackSize::SERVICE, throw) }
            })
            .unwrap_err();
        assert!(error.is_panic());
        assert_eq!(*error.take_panic().unwrap().downcast::<u8>().unwrap(), 42);
        assert_eq!(rt.stats().quarantined_stacks, 0);
        // The thread does not count as panicking, and the stack is as good as before.
        rt.run(|cx| {
            assert!(is_overflow(&overflow(cx).unwrap_err()));
            assert!(!std::thread::panicking());
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_cancellation_is_noticed_after_the_call() {
    survives("a_cancellation_is_noticed_after_the_call", || {
        runtime()
            .run(|cx| {
                for by_token in [true, false] {
                    let cancelled = cx.nursery(|n| {
                        let task = n.spawn(|cx| {
                            let token = cx.token();
                            cx.checkpoint()?;
                            let cancel = move || {
                                let thread =
                                    std::thread::spawn(move || by_token.then(|| token.cancel()));
                                let _ = thread.join();
                                recurse(0)
                            };
                            // SAFETY: the other thread has ended when the recursion begins.
                            let error = unsafe { cx.contain_overflow(StackSize::SERVICE, cancel) };
                            assert!(is_overflow(&error.unwrap_err()));
                            assert_eq!(cx.checkpoint().is_err(), by_token);
                            cx.checkpoint()
                        })?;
                        task.join()
                    });
                    assert_eq!(cancelled.is_err_and(|error| error.is_cancelled()), by_token);
                }
                // One that is cancelled already may compute all the same.
                cx.token().cancel();
                assert!(is_overflow(&overflow(cx).unwrap_err()));
                assert!(cx.checkpoint().unwrap_err().is_cancelled());
                Ok(())
            })
            .unwrap();
    });
}

/// Refused before anything is done, and possible again afterwards.
#[test]
fn the_runtime_is_refused_inside() {
    fn refused<T>(outcome: parcae::Result<T>) {
        let error = outcome.map(drop).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Contained), "{error}");
    }
    survives("the_runtime_is_refused_inside", || {
        for builder in [Runtime::builder(), Runtime::builder().deterministic(7)] {
            let rt = builder.workers(1).build().unwrap();
            rt.run(|cx| {
                let lock = Arc::new(Mutex::new(0));
                let (sender, receiver) = channel(4);
                sender.send(1)?;
                let (used, sending, receiving) =
                    (Arc::clone(&lock), sender.clone(), receiver.clone());
                let budget = cx.budget();
                let inside = move || {
                    for _ in 0..3 {
                        refused(parcae::checkpoint());
                        refused(parcae::yield_now());
                        refused(parcae::time::sleep(Duration::from_millis(1)));
                        refused(parcae::time::sleep(Duration::ZERO));
                        refused(used.lock().map(drop));
                        refused(sending.send(2).map_err(parcae::Error::from));
                        refused(receiving.recv().map_err(parcae::Error::from));
                    }
                };
                let held = lock.lock()?;
                // SAFETY: does not overflow.
                unsafe { cx.contain_overflow(StackSize::SERVICE, inside) }?;
                drop(held);
                assert_eq!(cx.budget(), budget);
                assert!(!cx.is_cancelled());
                parcae::checkpoint()?;
                parcae::yield_now()?;
                cx.sleep(Duration::from_millis(1))?;
                *lock.lock()? += 1;
                sender.send(3)?;
                assert_eq!((receiver.recv()?, receiver.recv()?), (1, 3));
                Ok(())
            })
            .unwrap();
        }
    });
}

#[budgeted]
fn budgeted_recursion(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if frame[3] == u64::MAX { 0 } else { budgeted_recursion(depth + 1) + black_box(frame[7]) }
}

/// The end of the stack that it is on, not of the task's, and wherever that stack is.
#[test]
fn budgeted_code_fails_softly_inside() {
    survives("budgeted_code_fails_softly_inside", || {
        let rt = runtime();
        rt.run(|cx| {
            for size in [StackSize::CORE, StackSize::SERVICE, StackSize::MAX] {
                for _ in 0..3 {
                    // SAFETY: only computes.
                    let outcome = unsafe { cx.contain_overflow(size, || budgeted_recursion(0)) };
                    let error = outcome.unwrap_err();
                    let ErrorKind::StackOverflow { left, needed } = error.kind() else {
                        panic!("{error}")
                    };
                    assert!(left < needed && *left > 1024, "{left} {needed}");
                }
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(rt.stats().quarantined_stacks, 0);
    });
}

/// Changes of the closure to the thread's floating-point unit are undone.
#[cfg(target_arch = "x86_64")]
#[test]
fn floating_point_control_is_put_back() {
    fn mxcsr() -> u32 {
        let mut bits = 0_u32;
        // SAFETY: stores to the variable.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack)) };
        bits & !0x3f
    }
    survives("floating_point_control_is_put_back", || {
        runtime()
            .run(|cx| {
                let before = mxcsr();
                let round_down = || {
                    let bits = 0x3f80_u32;
                    // SAFETY: another rounding mode, which this test is about; and a value
                    // in an x87 register, as in the middle of an expression.
                    unsafe {
                        std::arch::asm!("ldmxcsr [{}]", "fldpi", in(reg) &raw const bits);
                    }
                    recurse(0)
                };
                for _ in 0..20 {
                    // SAFETY: only computes.
                    unsafe { cx.contain_overflow(StackSize::CORE, round_down) }.unwrap_err();
                    assert_eq!(mxcsr(), before);
                    let (mut status, three) = (0_u16, black_box(3.0_f64));
                    // SAFETY: stores to the variable.
                    unsafe { std::arch::asm!("fnstsw [{}]", in(reg) &raw mut status) };
                    assert_eq!(status >> 11 & 7, 0, "the x87 stack is empty");
                    assert_eq!(three / 3.0, 1.0);
                }
                Ok(())
            })
            .unwrap();
    });
}

/// Observers of the worker see the task meanwhile, and the code that it runs.
#[test]
fn stall_reports_and_dumps_show_what_runs() {
    static REPORTS: AtomicUsize = AtomicUsize::new(0);
    static SEEN: AtomicBool = AtomicBool::new(false);

    /// Until there is another report.
    #[inline(never)]
    fn spins_on_a_stack_of_its_own(reports: usize) {
        while REPORTS.load(Relaxed) == reports {
            std::hint::spin_loop();
        }
        black_box(());
    }
    survives("stall_reports_and_dumps_show_what_runs", || {
        let (reports, stalls) = std::sync::mpsc::channel();
        let reports = std::sync::Mutex::new(reports);
        let rt = Runtime::builder()
            .workers(1)
            .stall_after(Duration::from_millis(20))
            .on_stall(move |report| drop(reports.lock().unwrap().send(report.clone())))
            .build()
            .unwrap();
        let rt = &rt;
        std::thread::scope(|s| {
            // Some may come because the machine has no processor for the worker.
            s.spawn(move || {
                while !SEEN.load(Relaxed)
                    && let Ok(report) = stalls.recv()
                {
                    assert!(!rt.dump().to_string().is_empty());
                    let located = report.to_string().contains("spins_on_a_stack_of_its_own");
                    let named = report.task.is_some_and(|task| task.name() == Some("spinner"));
                    SEEN.store(located && named, Relaxed);
                    REPORTS.fetch_add(1, Relaxed);
                }
            });
            let outcome = rt.run(|cx| {
                let spinner = |cx: &Cx| {
                    while !SEEN.load(Relaxed) {
                        let spin = || spins_on_a_stack_of_its_own(REPORTS.load(Relaxed));
                        // SAFETY: does not overflow.
                        unsafe { cx.contain_overflow(StackSize::CORE, spin) }?;
                        cx.yield_now()?;
                    }
                    overflow(cx)
                };
                cx.nursery(|n| n.spawn_with(SpawnOpts::new().name("spinner"), spinner)?.join())
            });
            assert!(is_overflow(&outcome.unwrap_err()));
        });
    });
}

/// Our handler may have taken over flags of an earlier handler, which still gets other faults.
#[test]
fn an_earlier_handler_changes_nothing() {
    extern "C" fn earlier(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: leaves the process.
        unsafe { libc::_exit(6) };
    }
    if child::is_victim() {
        // SAFETY: a handler of the signature that SA_SIGINFO demands; all zeroes is a value.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = earlier as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaddset(&mut action.sa_mask, libc::SIGUSR2);
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
        let _ = runtime().run(|cx| {
            for _ in 0..3 {
                assert!(is_overflow(&overflow(cx).unwrap_err()));
            }
            // SAFETY: it is not; that is the point.
            unsafe { black_box(std::ptr::null_mut::<u32>()).write_volatile(1) };
            Ok(())
        });
        unreachable!("null faults");
    }
    let outcome = child::run(module_path!(), "an_earlier_handler_changes_nothing");
    assert_eq!(outcome.code, Some(6), "{outcome:?}");
}

#[test]
fn a_stack_too_full_for_a_signal_is_not_abandoned() {
    extern "C" fn nothing(_: libc::c_int) {}

    /// A signal's frame is larger than those of this function, so it is the first not to fit.
    #[inline(never)]
    fn dig_and_raise(depth: u64) -> u64 {
        let frame = black_box([depth; 8]);
        // SAFETY: a signal whose handler wants to run on this stack.
        unsafe { libc::raise(libc::SIGUSR1) };
        if depth == u64::MAX { 0 } else { dig_and_raise(depth + 1) + black_box(frame[3]) }
    }
    let reports = ["could not be contained: the stack had no room for a signal frame"];
    aborts("a_stack_too_full_for_a_signal_is_not_abandoned", &reports, || {
        // SAFETY: a handler that does nothing, without SA_ONSTACK.
        unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as usize) };
        let digs = || dig_and_raise(0);
        // SAFETY: it is not to be abandoned.
        let _ = runtime().run(|cx| unsafe { cx.contain_overflow(StackSize::CORE, digs) });
    });
}

#[test]
fn the_c_library_is_not_abandoned() {
    /// Formats in every call, which takes more stack than the call itself.
    #[inline(never)]
    fn format(depth: u64) -> u64 {
        let mut text = [0_u8; 32];
        // SAFETY: as much as there is room for.
        unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%.9f".as_ptr(), 0.1_f64) };
        if depth == u64::MAX { 0 } else { format(depth + 1) + u64::from(black_box(text)[3]) }
    }
    let reports = [
        "of task \"formatter\" overflowed its stack of 64 KiB",
        "could not be contained: it happened in the allocator, the C library or the loader",
    ];
    aborts("the_c_library_is_not_abandoned", &reports, || {
        let _ = runtime().run(|cx| {
            cx.nursery(|n| {
                let named = SpawnOpts::new().name("formatter");
                // SAFETY: it is not to be abandoned.
                let task = |cx: &Cx| unsafe { cx.contain_overflow(StackSize::CORE, || format(0)) };
                n.spawn_with(named, task)?.join()
            })
        });
    });
}

#[test]
fn a_closure_that_panics_is_not_abandoned() {
    struct Deep;
    impl Drop for Deep {
        fn drop(&mut self) {
            recurse(0);
        }
    }
    let reports = ["could not be contained: the closure was panicking"];
    aborts("a_closure_that_panics_is_not_abandoned", &reports, || {
        let throw = || {
            let _deep = Deep;
            std::panic::resume_unwind(Box::new(()))
        };
        // SAFETY: it is not to be abandoned.
        let _ = runtime().run(|cx| unsafe { cx.contain_overflow::<(), _>(StackSize::CORE, throw) });
    });
}

#[test]
fn a_signal_handler_is_not_abandoned() {
    extern "C" fn digs(_: libc::c_int) {
        recurse(0);
    }
    let reports = ["could not be contained: a signal handler was running"];
    aborts("a_signal_handler_is_not_abandoned", &reports, || {
        // SAFETY: a handler that runs on the stack that it interrupts.
        unsafe { libc::signal(libc::SIGUSR1, digs as *const () as usize) };
        // SAFETY: it is not to be abandoned.
        let raise = || unsafe { libc::raise(libc::SIGUSR1) };
        // SAFETY: as above.
        let _ = runtime().run(|cx| unsafe { cx.contain_overflow(StackSize::CORE, raise) });
    });
}

#[test]
fn a_wrong_pointer_into_the_guard_is_no_overflow() {
    let reports = ["could not be contained: the access was far below the stack pointer"];
    aborts("a_wrong_pointer_into_the_guard_is_no_overflow", &reports, || {
        let stray = || {
            let here = 0_u8;
            // Near the top of a stack of so many bytes, so that much lower is in the guard.
            let guard = ((&raw const here).addr() - StackSize::CORE.bytes()) & !7;
            // SAFETY: it is not; that is the point.
            unsafe { std::ptr::with_exposed_provenance_mut::<u64>(guard).write_volatile(1) };
        };
        let _ = runtime().run(|cx| {
            // SAFETY: as above. From a place that is far above the guard.
            unsafe { cx.contain_overflow(StackSize::CORE, stray) }
        });
    });
}

#[test]
fn a_fiber_inside_is_not_contained() {
    let reports = ["\"inner\" overflowed its stack of 8 KiB"];
    aborts("a_fiber_inside_is_not_contained", &reports, || {
        let inner = || {
            let stack = StackPool::new().unwrap().acquire(StackSize::MIN).unwrap();
            let mut fiber = Fiber::new(stack, "inner").unwrap();
            let _ = fiber.start(|_| {
                recurse(0);
            });
        };
        // SAFETY: it is not to be abandoned.
        let _ = runtime().run(|cx| unsafe { cx.contain_overflow(StackSize::SERVICE, inner) });
    });
}

#[test]
fn a_task_without_a_name_is_reported_by_the_place_where_it_was_spawned() {
    let line = line!() + 6;
    let place = format!("The task was spawned at {}:{line}:", file!());
    let reports = ["a task overflowed its stack of 64 KiB", &place, "larger StackSize"];
    let test = "a_task_without_a_name_is_reported_by_the_place_where_it_was_spawned";
    aborts(test, &reports, || {
        let rt = Runtime::builder().workers(1).stack_size(StackSize::CORE).build().unwrap();
        let _ = rt.nursery(NurseryOpts::new(), |n| n.spawn(|_| Ok(recurse(0)))?.join());
    });
}

#[test]
fn a_task_that_overflows_its_own_stack_aborts_as_before() {
    let reports = ["a task \"outside\" overflowed its stack of 64 KiB", "larger StackSize"];
    aborts("a_task_that_overflows_its_own_stack_aborts_as_before", &reports, || {
        let rt = Runtime::builder().workers(1).stack_size(StackSize::CORE).build().unwrap();
        let _ = rt.run(|cx| {
            cx.nursery(|n| {
                let task = |cx: &Cx| {
                    assert!(is_overflow(&overflow(cx).unwrap_err()));
                    Ok(recurse(0))
                };
                n.spawn_with(SpawnOpts::new().name("outside"), task)?.join()
            })
        });
    });
    if !child::is_victim() {
        let outcome =
            child::run(module_path!(), "a_task_that_overflows_its_own_stack_aborts_as_before");
        for word in ["contained", "contain_overflow"] {
            assert!(!outcome.stderr.contains(word), "{}", outcome.stderr);
        }
    }
}
