//! What happens when a fiber runs out of stack, seen from outside the process.

mod child;

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
}

#[test]
fn recursion_names_the_fiber_and_its_size_and_aborts() {
    if child::is_victim() {
        let mut fiber = fiber(pool().acquire(StackSize::CORE).unwrap(), "digger");
        let _ = fiber.start(|_| {
            std::hint::black_box(recurse(0));
        });
        unreachable!("the stack is finite");
    }
    let outcome = child::run("recursion_names_the_fiber_and_its_size_and_aborts");
    assert_reported(&outcome, "digger", 64);
}

#[test]
fn one_huge_frame_is_caught_too() {
    if child::is_victim() {
        let mut fiber = fiber(pool().acquire(StackSize::SERVICE).unwrap(), "big frame");
        let _ = fiber.start(|_| {
            std::hint::black_box(one_huge_frame());
        });
        unreachable!("the frame is larger than the stack");
    }
    let outcome = child::run("one_huge_frame_is_caught_too");
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
    let outcome = child::run("overflow_in_a_nested_fiber_on_another_thread_is_reported");
    assert_reported(&outcome, "inner", 8);
}

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
    let outcome = child::run("neighbours_are_intact_when_the_process_aborts");
    assert_reported(&outcome, "middle", 8);
    assert!(outcome.stderr.contains("canaries intact"), "{}", outcome.stderr);
}

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
    let outcome = child::run("a_stray_pointer_into_a_guard_is_told_apart");
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
        // SAFETY: a handler of the signature that SA_SIGINFO demands.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = earlier as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
        let mut fiber = fiber(pool().acquire(StackSize::CORE).unwrap(), "null");
        // SAFETY: it is not; that is the point.
        let _ = fiber.start(|_| unsafe {
            std::hint::black_box(std::ptr::null_mut::<u32>()).write_volatile(1);
        });
        unreachable!("null faults");
    }
    let outcome = child::run("a_null_dereference_goes_to_the_handler_that_was_there_before");
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
        // SAFETY: it is not; that is the point.
        unsafe { std::hint::black_box(std::ptr::null_mut::<u32>()).write_volatile(1) };
        unreachable!("null faults");
    }
    let outcome = child::run("a_null_dereference_without_an_earlier_handler_is_a_plain_fault");
    assert_eq!(outcome.signal, Some(libc::SIGSEGV), "{outcome:?}");
    assert!(!outcome.stderr.contains("parcae:"), "{}", outcome.stderr);
}

#[test]
fn a_signal_that_was_sent_is_not_swallowed() {
    if child::is_victim() {
        // SAFETY: the default disposition; then a signal that no fault caused.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            let _pool = pool();
            libc::raise(libc::SIGSEGV);
        }
        std::process::exit(0);
    }
    let outcome = child::run("a_signal_that_was_sent_is_not_swallowed");
    assert_eq!(outcome.signal, Some(libc::SIGSEGV), "{outcome:?}");
}

#[test]
fn a_thread_that_overflows_is_still_reported_by_the_standard_library() {
    if child::is_victim() {
        let _pool = pool();
        let thread = std::thread::Builder::new().name("plain".into()).stack_size(64 << 10);
        let _ = thread.spawn(|| std::hint::black_box(recurse(0))).unwrap().join();
        unreachable!("the stack is finite");
    }
    let outcome = child::run("a_thread_that_overflows_is_still_reported_by_the_standard_library");
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
    let outcome = child::run("reports_can_be_left_to_others");
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
    let outcome = child::run("a_limit_on_address_space_is_an_error_that_names_it");
    assert_eq!(outcome.code, Some(7), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("survived"), "{}", outcome.stderr);
}
