//! Code inside of a closure that may overflow: what it may do, and how it ends otherwise.

use super::*;

#[test]
fn results_come_back_and_what_an_overflow_owns_is_leaked() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    survives("inside::results_come_back_and_what_an_overflow_owns_is_leaked", || {
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
    survives("inside::a_panic_comes_out", || {
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
    survives("inside::a_cancellation_is_noticed_after_the_call", || {
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
    survives("inside::the_runtime_is_refused_inside", || {
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
    survives("inside::budgeted_code_fails_softly_inside", || {
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
    survives("inside::floating_point_control_is_put_back", || {
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
    survives("inside::stall_reports_and_dumps_show_what_runs", || {
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
