//! Stack overflow of a fiber, seen from outside the process.

#![allow(unused_must_use, reason = "a step is looked at where it matters")]

use crate::support::child;
use parcae::fiber::Fiber;
use parcae::stack::{OnOverflow, Stack, StackError, StackOpts, StackPool, StackSize};

fn pool() -> StackPool {
    StackPool::new().expect("a pool")
}

fn fiber(stack: Stack, name: &str) -> Fiber {
    Fiber::new(stack, name).expect("a fiber")
}

/// Recurses for ever, and does not let the compiler see that.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 16]);
    if frame[3] == u64::MAX { 0 } else { recurse(depth + 1) + std::hint::black_box(frame[7]) }
}

#[inline(never)]
fn one_huge_frame() -> u8 {
    let frame = [std::hint::black_box(1_u8); 1 << 20];
    std::hint::black_box(&frame)[1 << 19]
}

fn assert_reported(outcome: &child::Outcome, name: &str, kib: usize) {
    assert_eq!(outcome.signal, Some(libc::SIGABRT), "{outcome:?}");
    let report = format!("\"{name}\" overflowed its stack of {kib} KiB");
    assert!(outcome.stderr.contains(&report), "{}", outcome.stderr);
    let hint = format!("larger StackSize, e.g. {} KiB", kib * 2);
    assert!(outcome.stderr.contains(&hint), "{}", outcome.stderr);
    let cause = "Look for unbounded recursion or large local arrays";
    assert!(outcome.stderr.contains(cause), "{}", outcome.stderr);
}

// rule: S0-ERR-4, S0-STK-2, S4-STACK-4, S4-STACK-7
#[test]
fn recursion_names_the_fiber_and_its_size_and_aborts() {
    if child::is_victim() {
        let mut fiber = fiber(pool().acquire(StackSize::CORE).unwrap(), "digger");
        let _ = fiber.start(|_| {
            std::hint::black_box(recurse(0));
        });
        unreachable!("the stack is finite");
    }
    let outcome = child::run(module_path!(), "recursion_names_the_fiber_and_its_size_and_aborts");
    assert_reported(&outcome, "digger", 64);
}

/// The report says what to look for, and, where there is no larger stack, where large data belongs.
// rule: S4-STACK-7, S4-STACK-8
#[test]
fn the_report_warns_of_recursion_and_of_large_buffers() {
    if child::is_victim() {
        let mut fiber = fiber(pool().acquire(StackSize::MAX).unwrap(), "digger");
        let _ = fiber.start(|_| {
            std::hint::black_box(recurse(0));
        });
        unreachable!("the stack is finite");
    }
    let report =
        child::run(module_path!(), "the_report_warns_of_recursion_and_of_large_buffers").stderr;
    assert!(report.contains("Look for unbounded recursion or large local arrays"), "{report}");
    assert!(report.contains("keep large data on the heap"), "{report}");
}

// rule: S0-ERR-4, S4-STACK-4, S4-STACK-8
#[test]
fn one_huge_frame_is_caught_too() {
    if child::is_victim() {
        let mut fiber = fiber(pool().acquire(StackSize::SERVICE).unwrap(), "big frame");
        let _ = fiber.start(|_| {
            std::hint::black_box(one_huge_frame());
        });
        unreachable!("the frame is larger than the stack");
    }
    let outcome = child::run(module_path!(), "one_huge_frame_is_caught_too");
    assert_reported(&outcome, "big frame", 256);
}

#[test]
fn overflow_in_a_nested_fiber_on_another_thread_is_reported() {
    if child::is_victim() {
        let thread = std::thread::spawn(|| {
            let pool = pool();
            let mut outer = fiber(pool.acquire(StackSize::SERVICE).unwrap(), "outer");
            let inner = pool.acquire(StackSize::MIN).unwrap();
            let _ = outer.start(move |_| {
                let mut inner = fiber(inner, "inner");
                let _ = inner.start(|_| {
                    std::hint::black_box(recurse(0));
                });
            });
        });
        let _ = thread.join();
        unreachable!("the stack is finite");
    }
    let outcome =
        child::run(module_path!(), "overflow_in_a_nested_fiber_on_another_thread_is_reported");
    assert_reported(&outcome, "inner", 8);
}

// rule: S0-SEC-3, S4-STACK-4
#[test]
fn neighbours_are_intact_when_the_process_aborts() {
    static CANARIES: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(Vec::new());

    extern "C" fn on_abort(_: libc::c_int) {
        let canaries = CANARIES.try_lock().expect("nobody else runs");
        let intact = canaries.iter().all(|&addr| {
            // SAFETY: filled below, in stacks that are never released.
            let bytes = unsafe {
                std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(addr), 8192)
            };
            bytes.iter().all(|&byte| byte == 0xc5)
        });
        let text: &[u8] = if intact { b"canaries intact\n" } else { b"canaries dead\n" };
        // SAFETY: writes a constant.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }

    if child::is_victim() {
        let pool = pool();
        // A stack between two others that are full of canaries, whichever side they are on.
        let mut stacks: Vec<Stack> =
            (0..3).map(|_| pool.acquire(StackSize::MIN).unwrap()).collect();
        stacks.sort_by_key(Stack::bottom);
        let victim = stacks.remove(1);
        for stack in stacks {
            // SAFETY: the whole stack is the test's.
            unsafe { stack.bottom().write_bytes(0xc5, 8192) };
            CANARIES.lock().unwrap().push(stack.bottom().expose_provenance());
            std::mem::forget(stack);
        }
        // SAFETY: installs a handler that only reads and writes to stderr.
        unsafe { libc::signal(libc::SIGABRT, on_abort as *const () as usize) };
        let _ = fiber(victim, "middle").start(|_| {
            std::hint::black_box(recurse(0));
        });
        unreachable!("the stack is finite");
    }
    let outcome = child::run(module_path!(), "neighbours_are_intact_when_the_process_aborts");
    assert_reported(&outcome, "middle", 8);
    assert!(outcome.stderr.contains("canaries intact"), "{}", outcome.stderr);
}

// rule: S4-STACK-3
#[test]
fn a_stray_pointer_into_a_guard_is_told_apart() {
    if child::is_victim() {
        let pool = pool();
        let stack = pool.acquire(StackSize::CORE).unwrap();
        let guard = stack.bottom().wrapping_sub(8);
        let _bystander = fiber(stack, "bystander");
        // SAFETY: it is not; that is the point.
        unsafe { guard.write_volatile(1) };
        unreachable!("guards fault");
    }
    let outcome = child::run(module_path!(), "a_stray_pointer_into_a_guard_is_told_apart");
    assert_eq!(outcome.signal, Some(libc::SIGABRT), "{outcome:?}");
    assert!(outcome.stderr.contains("stray access"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\"bystander\""), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("overflowed"), "{}", outcome.stderr);
}

#[test]
fn a_null_dereference_goes_to_the_handler_that_was_there_before() {
    extern "C" fn earlier(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        let text = b"the earlier handler\n";
        // SAFETY: writes a constant and leaves.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::_exit(3);
        }
    }
    if child::is_victim() {
        install(earlier, 0);
        let mut fiber = fiber(pool().acquire(StackSize::CORE).unwrap(), "null");
        let _ = fiber.start(|_| fault());
        unreachable!("the process has ended");
    }
    let outcome =
        child::run(module_path!(), "a_null_dereference_goes_to_the_handler_that_was_there_before");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stderr.contains("the earlier handler"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("parcae:"), "{}", outcome.stderr);
}

#[test]
fn a_null_dereference_without_an_earlier_handler_is_a_plain_fault() {
    if child::is_victim() {
        // SAFETY: the default disposition, as in a program that is not Rust's.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        let _pool = pool();
        fault();
    }
    let outcome = child::run(
        module_path!(),
        "a_null_dereference_without_an_earlier_handler_is_a_plain_fault",
    );
    assert_eq!(outcome.signal, Some(libc::SIGSEGV), "{outcome:?}");
    assert!(!outcome.stderr.contains("parcae:"), "{}", outcome.stderr);
}

#[test]
fn a_signal_that_was_sent_is_not_swallowed() {
    if child::is_victim() {
        send_with(libc::SIG_DFL);
        std::process::exit(0);
    }
    let outcome = child::run(module_path!(), "a_signal_that_was_sent_is_not_swallowed");
    assert_eq!(outcome.signal, Some(libc::SIGSEGV), "{outcome:?}");
}

/// Dereferences null.
fn fault() {
    // SAFETY: it is not; that is the point.
    unsafe { std::hint::black_box(std::ptr::null_mut::<u32>()).write_volatile(1) };
    unreachable!("null faults");
}

/// Sends a SIGSEGV that no fault caused, with this disposition from before the pool was made.
fn send_with(disposition: libc::sighandler_t) {
    // SAFETY: a disposition without a handler, and a signal.
    unsafe {
        libc::signal(libc::SIGSEGV, disposition);
        let _pool = pool();
        libc::raise(libc::SIGSEGV);
    }
}

/// Installs a SIGSEGV handler with these flags, as a program might before it uses fibers.
fn install(
    handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void),
    flags: i32,
) {
    // SAFETY: a handler of the signature that SA_SIGINFO demands.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
        libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    if child::is_victim() {
        send_with(libc::SIG_IGN);
        std::process::exit(5);
    }
    let outcome = child::run(module_path!(), "an_ignored_signal_stays_ignored");
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
}

#[test]
fn an_earlier_handler_keeps_its_flags() {
    static DEPTH: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    extern "C" fn nests(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        if DEPTH.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            fault(); // inside of the handler, which SA_NODEFER allows
        }
        // SAFETY: leaves the process.
        unsafe { libc::_exit(6) };
    }
    if child::is_victim() {
        install(nests, libc::SA_NODEFER);
        let _pool = pool();
        fault();
    }
    let outcome = child::run(module_path!(), "an_earlier_handler_keeps_its_flags");
    assert_eq!(outcome.code, Some(6), "{outcome:?}");
}

#[test]
fn a_pool_that_leaves_reports_to_others_is_left_alone_by_other_pools() {
    extern "C" fn own(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: leaves the process.
        unsafe { libc::_exit(8) };
    }
    if child::is_victim() {
        install(own, 0);
        let _reporting = pool();
        let quiet = StackPool::with(StackOpts::new().on_overflow(OnOverflow::Fault)).unwrap();
        let mut fiber = fiber(quiet.acquire(StackSize::CORE).unwrap(), "quiet");
        let _ = fiber.start(|_| {
            std::hint::black_box(recurse(0));
        });
        unreachable!("the stack is finite");
    }
    let outcome = child::run(
        module_path!(),
        "a_pool_that_leaves_reports_to_others_is_left_alone_by_other_pools",
    );
    assert_eq!(outcome.code, Some(8), "{outcome:?}");
}

#[test]
fn a_fiber_in_a_destructor_of_its_thread_is_reported_too() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            let mut fiber = fiber(pool().acquire(StackSize::CORE).unwrap(), "late");
            let _ = fiber.start(|_| {
                std::hint::black_box(recurse(0));
            });
        }
    }
    thread_local!(static LATE: Late = const { Late });
    if child::is_victim() {
        let thread = std::thread::spawn(|| {
            LATE.with(|_| {});
            // The thread's signal stack exists, and is withdrawn before the destructors.
            drop(fiber(pool().acquire(StackSize::CORE).unwrap(), "early"));
        });
        let _ = thread.join();
        unreachable!("the stack is finite");
    }
    let outcome =
        child::run(module_path!(), "a_fiber_in_a_destructor_of_its_thread_is_reported_too");
    assert_reported(&outcome, "late", 64);
}

#[test]
fn a_stack_too_full_for_a_signal_is_reported() {
    extern "C" fn nothing(_: libc::c_int) {}

    #[inline(never)]
    fn dig_and_raise(bottom: usize) {
        let frame = std::hint::black_box([0_u8; 64]);
        if (&raw const frame).addr() - bottom > 1_500 {
            dig_and_raise(bottom);
        } else {
            // SAFETY: a signal whose handler wants to run on this stack.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
        std::hint::black_box(&frame);
    }
    if child::is_victim() {
        // SAFETY: a handler that does nothing, without SA_ONSTACK.
        unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as usize) };
        let stack = pool().acquire(StackSize::MIN).unwrap();
        let bottom = stack.bottom().addr();
        let _ = fiber(stack, "full").start(move |_| dig_and_raise(bottom));
        unreachable!("there is no room for the signal's frame");
    }
    let outcome = child::run(module_path!(), "a_stack_too_full_for_a_signal_is_reported");
    assert_reported(&outcome, "full", 8);
}

#[test]
fn a_process_that_exits_on_a_fiber_does_not_run_it_again() {
    thread_local! {
        static FIBER: std::cell::RefCell<Option<Fiber>> = const { std::cell::RefCell::new(None) };
    }
    if child::is_victim() {
        // `exit` runs the destructors of this thread's variables, this fiber among them,
        // on the fiber's own stack.
        let thread = std::thread::spawn(|| {
            FIBER.with(|slot| {
                let stack = pool().acquire(StackSize::SERVICE).unwrap();
                let mut slot = slot.borrow_mut();
                let fiber = slot.insert(fiber(stack, "exits"));
                let step = fiber.start(|f| {
                    f.suspend().unwrap();
                    eprintln!("on the way out");
                    std::process::exit(9);
                });
                assert!(step.is_ok());
                let _ = fiber.resume();
            });
        });
        let _ = thread.join();
        unreachable!("the process has exited");
    }
    let outcome =
        child::run(module_path!(), "a_process_that_exits_on_a_fiber_does_not_run_it_again");
    assert_eq!(outcome.code, Some(9), "{outcome:?}");
    assert_eq!(outcome.stderr.matches("on the way out").count(), 1, "{}", outcome.stderr);
}

#[test]
fn a_limit_on_writable_memory_is_an_error_that_names_it() {
    if child::is_victim() {
        let limit = libc::rlimit { rlim_cur: 200 << 20, rlim_max: 200 << 20 };
        // SAFETY: limits this process only.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) }, 0);
        let pool = pool();
        let mut stacks = Vec::new();
        let error = loop {
            match pool.acquire(StackSize::MAX) {
                Ok(stack) => stacks.push(stack),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("ulimit -d"), "{error}");
        std::process::exit(7);
    }
    let outcome =
        child::run(module_path!(), "a_limit_on_writable_memory_is_an_error_that_names_it");
    assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
}

#[test]
fn stacks_of_a_process_that_locks_its_memory_are_not_resident() {
    if child::is_victim() {
        // SAFETY: concerns this process only. A sandbox may forbid it.
        if unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
            std::process::exit(7);
        }
        let unlimited =
            libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: as above; root may.
        unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &unlimited) };
        let pool = pool();
        match pool.acquire(StackSize::CORE) {
            Ok(stack) => assert!(stack.high_water().unwrap() < StackSize::CORE.bytes()),
            Err(error) => assert!(error.to_string().contains("ulimit -l"), "{error}"),
        }
        std::process::exit(7);
    }
    let outcome =
        child::run(module_path!(), "stacks_of_a_process_that_locks_its_memory_are_not_resident");
    assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
}

#[test]
fn a_thread_that_overflows_is_still_reported_by_the_standard_library() {
    if child::is_victim() {
        let _pool = pool();
        let thread = std::thread::Builder::new().name("plain".into()).stack_size(64 << 10);
        let _ = thread.spawn(|| std::hint::black_box(recurse(0))).unwrap().join();
        unreachable!("the stack is finite");
    }
    let outcome = child::run(
        module_path!(),
        "a_thread_that_overflows_is_still_reported_by_the_standard_library",
    );
    assert_eq!(outcome.signal, Some(libc::SIGABRT), "{outcome:?}");
    assert!(outcome.stderr.contains("has overflowed its stack"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("parcae:"), "{}", outcome.stderr);
}

#[test]
fn reports_can_be_left_to_others() {
    if child::is_victim() {
        // SAFETY: the default disposition, so that the outcome is the kernel's.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        let pool = StackPool::with(StackOpts::new().on_overflow(OnOverflow::Fault)).unwrap();
        let mut fiber = fiber(pool.acquire(StackSize::MIN).unwrap(), "silent");
        let _ = fiber.start(|_| {
            std::hint::black_box(recurse(0));
        });
        unreachable!("the stack is finite");
    }
    let outcome = child::run(module_path!(), "reports_can_be_left_to_others");
    assert_eq!(outcome.signal, Some(libc::SIGSEGV), "{outcome:?}");
    assert!(!outcome.stderr.contains("parcae:"), "{}", outcome.stderr);
}

#[test]
fn a_limit_on_address_space_is_an_error_that_names_it() {
    if child::is_victim() {
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: limits this process only.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        let pool = pool();
        let mut stacks = Vec::new();
        let error = loop {
            match pool.acquire(StackSize::MAX) {
                Ok(stack) => stacks.push(stack),
                Err(error) => break error,
            }
        };
        let text = error.to_string();
        assert!(matches!(error, StackError::Reserve { .. }), "{error:?}");
        assert!(text.contains("RLIMIT_AS") && text.contains("ulimit -v"), "{text}");
        assert!(stacks.len() >= 4, "what fits is handed out: {}", stacks.len());
        stacks.pop();
        assert!(pool.acquire(StackSize::MAX).is_ok());
        eprintln!("survived");
        std::process::exit(7);
    }
    let outcome = child::run(module_path!(), "a_limit_on_address_space_is_an_error_that_names_it");
    assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("survived"), "{}", outcome.stderr);
}
