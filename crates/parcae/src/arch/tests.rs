//! The switch itself, below fibers: two contexts and bare stacks.
//!
//! The C harness in `tests/asm` covers what needs no Rust (registers, alignment,
//! unwinding); here is what concerns Rust frames and the initial frame as Rust builds it.

use super::*;
use std::cell::Cell;
use std::mem::offset_of;

/// A stack and the two contexts that a test switches between.
struct Bare {
    memory: Vec<u128>,
    main: Context,
    fiber: Context,
    argument: Cell<usize>,
    result: Cell<usize>,
    cleaned: Cell<bool>,
}

impl Bare {
    fn new(entry: Entry) -> Box<Bare> {
        let mut bare = Box::new(Bare {
            memory: vec![0; 4096], // 64 KiB, 16-aligned
            main: Context::empty(),
            fiber: Context::empty(),
            argument: Cell::new(0),
            result: Cell::new(0),
            cleaned: Cell::new(false),
        });
        let top = bare.memory.as_mut_ptr_range().end.cast::<u8>();
        let arg = (&raw mut *bare).cast();
        // SAFETY: the memory is the stack's alone and 16-aligned.
        bare.fiber = unsafe { Context::prepare(top, entry, arg, leave) };
        bare
    }

    fn enter(&mut self) {
        // SAFETY: the fiber's context is prepared or suspended; the memory is alive.
        unsafe { janus_context_switch(&raw mut self.main, &raw const self.fiber) };
    }
}

unsafe extern "C" fn leave(arg: *mut ()) -> ! {
    let bare = arg.cast::<Bare>();
    let mut marker = 0_u128;
    // SAFETY: `arg` is the box of the test that entered.
    unsafe {
        (*bare).cleaned.set((&raw mut marker).addr().is_multiple_of(16));
        janus_context_switch(&raw mut (*bare).fiber, &raw const (*bare).main);
    }
    std::process::abort();
}

/// Suspends the bare fiber from its own code.
unsafe fn suspend(bare: *mut Bare) {
    // SAFETY: runs on the bare fiber's stack.
    unsafe { janus_context_switch(&raw mut (*bare).fiber, &raw const (*bare).main) };
}

#[test]
fn layout_is_what_the_assembly_expects() {
    // The offsets themselves are compile-time assertions; this pins the totals that
    // other tools (the C harness, a debugger script) rely on.
    assert_eq!(size_of::<x86_64::Context>(), 56);
    assert_eq!(size_of::<aarch64::Context>(), 168);
    assert_eq!(align_of::<Context>(), 8);
}

#[test]
fn initial_frame_is_aligned_and_ends_in_cleanup() {
    unsafe extern "C" fn entry(arg: *mut ()) {
        let mut aligned = 0_u128;
        // SAFETY: `arg` is the box of the test.
        unsafe {
            (*arg.cast::<Bare>()).result.set((&raw mut aligned).addr() % 16 + 1);
        };
    }
    let mut bare = Bare::new(entry);
    let sp = bare.fiber.stack_pointer();
    assert_eq!(sp % 16, 0);
    assert_eq!(sp + 16, bare.memory.as_ptr_range().end.addr());
    bare.enter();
    assert_eq!(bare.result.get(), 1, "locals that need 16-byte alignment have it");
    assert!(bare.cleaned.get(), "returning from the entry function calls cleanup, aligned");
}

#[test]
fn argument_and_result_pass_through_memory() {
    unsafe extern "C" fn entry(arg: *mut ()) {
        let bare = arg.cast::<Bare>();
        for _ in 0..3 {
            // SAFETY: `arg` is the box of the test; this is its stack.
            unsafe {
                (*bare).result.set((*bare).argument.get() * 2);
                suspend(bare);
            }
        }
    }
    let mut bare = Bare::new(entry);
    for n in [1, 20, 300] {
        bare.argument.set(n);
        bare.enter();
        assert_eq!(bare.result.get(), 2 * n);
    }
    assert!(!bare.cleaned.get());
    bare.enter();
    assert!(bare.cleaned.get());
}

#[test]
fn nested_switches_return_in_order() {
    unsafe extern "C" fn inner(arg: *mut ()) {
        // SAFETY: the box that `outer` made.
        unsafe {
            (*arg.cast::<Bare>()).result.set(7);
            suspend(arg.cast());
            (*arg.cast::<Bare>()).result.set(8);
        }
    }
    unsafe extern "C" fn outer(arg: *mut ()) {
        let mut nested = Bare::new(inner);
        nested.enter();
        let first = nested.result.get();
        // SAFETY: the box of the test.
        unsafe {
            (*arg.cast::<Bare>()).result.set(first);
            suspend(arg.cast());
            nested.enter();
            (*arg.cast::<Bare>()).result.set(nested.result.get());
        }
    }
    let mut bare = Bare::new(outer);
    bare.enter();
    assert_eq!(bare.result.get(), 7);
    bare.enter();
    assert_eq!(bare.result.get(), 8);
    assert!(bare.cleaned.get());
}

#[test]
fn no_shadow_stack_where_tests_run() {
    // Were one active, the tests above would have ended the process.
    assert!(!shadow_stack_active());
}

#[test]
#[cfg(debug_assertions)]
fn control_bits_are_read_without_exception_flags() {
    let before = fp_control();
    std::hint::black_box(std::hint::black_box(1.0_f64) / std::hint::black_box(3.0)); // inexact
    assert_eq!(fp_control(), before);
}

#[test]
fn context_begins_with_the_stack_pointer() {
    // `sp` is private to each file, so its place is checked through the value.
    unsafe extern "C" fn entry(_: *mut ()) {}
    let bare = Bare::new(entry);
    let first_word = (&raw const bare.fiber).cast::<usize>();
    // SAFETY: reads the first word of a context.
    assert_eq!(unsafe { first_word.read() }, bare.fiber.stack_pointer());
    assert_eq!(offset_of!(Bare, fiber) - offset_of!(Bare, main), size_of::<Context>());
}

/// Every instruction of both switches, and of what calls them, is single-stepped, and a
/// backtrace taken in the trap must see the frames of one side or the other and end at that
/// side's base.
#[cfg(target_arch = "x86_64")]
mod single_step {
    use super::*;
    use std::ffi::c_void;
    use std::sync::atomic::{AtomicUsize, Ordering};

    unsafe extern "C" {
        fn _Unwind_Backtrace(
            visit: extern "C" fn(*mut c_void, *mut c_void) -> i32,
            arg: *mut c_void,
        ) -> i32;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
        fn _Unwind_FindEnclosingFunction(pc: *mut c_void) -> *mut c_void;
    }

    static STEPS: AtomicUsize = AtomicUsize::new(0);
    static FROM_SEEN: AtomicUsize = AtomicUsize::new(0);
    static TO_SEEN: AtomicUsize = AtomicUsize::new(0);
    static BAD: AtomicUsize = AtomicUsize::new(0);

    #[derive(Default)]
    struct Seen {
        thread_side: bool,
        fiber_side: bool,
        base: bool,
    }

    extern "C" fn frame(context: *mut c_void, arg: *mut c_void) -> i32 {
        // SAFETY: called by the unwinder with the argument given to it.
        unsafe {
            let seen = &mut *arg.cast::<Seen>();
            // A function's start is found even for a return address just behind a call.
            let ip = _Unwind_GetIP(context).wrapping_sub(1);
            let start = _Unwind_FindEnclosingFunction(std::ptr::without_provenance_mut(ip)).addr();
            seen.thread_side |= start == thread_side as *const () as usize;
            seen.fiber_side |= start == fiber_side as *const () as usize;
            let entry = janus_fiber_entry as *const () as usize;
            seen.base |= (entry - 1..entry + 32).contains(&_Unwind_GetIP(context));
        }
        0 // go on
    }

    unsafe extern "C" fn trap(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        STEPS.fetch_add(1, Ordering::Relaxed);
        let mut seen = Seen::default();
        // SAFETY: the unwinder is re-entrant, and this trap interrupts no other unwind.
        unsafe { _Unwind_Backtrace(frame, (&raw mut seen).cast()) };
        let from = seen.thread_side && !seen.fiber_side && !seen.base;
        let to = seen.fiber_side && seen.base && !seen.thread_side;
        FROM_SEEN.fetch_add(usize::from(from), Ordering::Relaxed);
        TO_SEEN.fetch_add(usize::from(to), Ordering::Relaxed);
        BAD.fetch_add(usize::from(!from && !to), Ordering::Relaxed);
    }

    #[inline(never)]
    unsafe extern "C" fn fiber_side(arg: *mut ()) {
        loop {
            // SAFETY: the box of the test; this is its stack.
            unsafe { suspend(arg.cast()) };
            // SAFETY: as above.
            unsafe { suspend_inline(arg.cast()) };
        }
    }

    /// As [`suspend`], by the inlined switch.
    #[inline(never)]
    unsafe fn suspend_inline(bare: *mut Bare) {
        // SAFETY: runs on the bare fiber's stack.
        unsafe { switch(&raw mut (*bare).fiber, &raw const (*bare).main) };
        std::hint::black_box(bare);
    }

    /// As [`Bare::enter`], by the inlined switch.
    #[inline(never)]
    fn enter_inline(bare: &mut Bare) {
        // SAFETY: the fiber's context is suspended; the memory is alive.
        unsafe { switch(&raw mut bare.main, &raw const bare.fiber) };
        std::hint::black_box(bare);
    }

    /// Steps through whatever `enter` does, there and back.
    #[inline(never)]
    fn thread_side(bare: &mut Bare, enter: fn(&mut Bare)) {
        // SAFETY: sets and clears the trap flag: SIGTRAP after each instruction.
        unsafe {
            std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
            enter(bare);
            std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq");
        }
        std::hint::black_box(bare);
    }

    #[test]
    fn unwind_information_is_right_at_every_instruction() {
        if std::env::var_os("PARCAE_VALGRIND").is_some() {
            return; // Valgrind does not emulate the trap flag
        }
        // SAFETY: a handler of the right signature, for a signal nobody else uses.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut());
        }
        let mut bare = Bare::new(fiber_side);
        bare.enter(); // into fiber_side, not stepped: it waits in the external switch
        for (name, enter) in [("external", Bare::enter as fn(&mut Bare)), ("inlined", enter_inline)]
        {
            for counter in [&STEPS, &FROM_SEEN, &TO_SEEN, &BAD] {
                counter.store(0, Ordering::Relaxed);
            }
            thread_side(&mut bare, enter);
            thread_side(&mut bare, enter);
            let (steps, bad) = (STEPS.load(Ordering::Relaxed), BAD.load(Ordering::Relaxed));
            assert_eq!(bad, 0, "{name}: {bad} of {steps} backtraces are neither side's");
            // Four switches of at least 16 instructions, and both sides' frames around them.
            assert!(steps >= 64, "{name}: only {steps} instructions were stepped");
            assert!(FROM_SEEN.load(Ordering::Relaxed) >= 16, "{name}");
            assert!(TO_SEEN.load(Ordering::Relaxed) >= 16, "{name}");
        }
    }
}
