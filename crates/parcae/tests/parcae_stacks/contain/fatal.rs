//! Overflows and faults that are not contained: the process ends with a report.

use super::*;

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
    aborts("fatal::a_stack_too_full_for_a_signal_is_not_abandoned", &reports, || {
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
    aborts("fatal::the_c_library_is_not_abandoned", &reports, || {
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
    aborts("fatal::a_closure_that_panics_is_not_abandoned", &reports, || {
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
    aborts("fatal::a_signal_handler_is_not_abandoned", &reports, || {
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
    aborts("fatal::a_wrong_pointer_into_the_guard_is_no_overflow", &reports, || {
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
    aborts("fatal::a_fiber_inside_is_not_contained", &reports, || {
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
    let test = "fatal::a_task_without_a_name_is_reported_by_the_place_where_it_was_spawned";
    aborts(test, &reports, || {
        let rt = Runtime::builder().workers(1).stack_size(StackSize::CORE).build().unwrap();
        let _ = rt.nursery(NurseryOpts::new(), |n| n.spawn(|_| Ok(recurse(0)))?.join());
    });
}

#[test]
fn a_task_that_overflows_its_own_stack_aborts_as_before() {
    let reports = ["a task \"outside\" overflowed its stack of 64 KiB", "larger StackSize"];
    aborts("fatal::a_task_that_overflows_its_own_stack_aborts_as_before", &reports, || {
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
