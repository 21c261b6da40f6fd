//! The switch itself, below fibers: two contexts and bare stacks.
//!
//! There are two forms of it: the external function, which C, debuggers and other compilers use,
//! and the inlined one, which the runtime uses on `x86_64`. One suite drives both: every test here
//! is written for a [`Form`] and runs with each, and
//! [`contexts_left_by_one_form_are_resumed_by_the_other`] mixes them.
//!
//! The C harness in `tests/parcae_stacks` covers what needs no Rust (registers, alignment,
//! unwinding) for the external form, on both architectures; here is what concerns Rust frames and
//! the initial frame as Rust builds it, and all that for the inlined form.

use super::*;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::offset_of;

/// One form of the switch.
trait Form: 'static {
    const NAME: &'static str;

    /// Leaves `from` and goes on in `to`.
    ///
    /// # Safety
    ///
    /// As for `janus_context_switch`.
    unsafe fn switch(from: *mut Context, to: *const Context);
}

/// The function in the `.s` file.
enum External {}

/// The form that fibers use; the external one where there is no other.
enum Inlined {}

impl Form for External {
    const NAME: &'static str = "external";

    #[inline(always)]
    unsafe fn switch(from: *mut Context, to: *const Context) {
        // SAFETY: as the caller says.
        unsafe { janus_context_switch(from, to) };
    }
}

impl Form for Inlined {
    const NAME: &'static str = "inlined";

    #[inline(always)]
    unsafe fn switch(from: *mut Context, to: *const Context) {
        // SAFETY: as the caller says.
        unsafe { switch(from, to) };
    }
}

/// A stack and the two contexts that a test switches between, by one form.
#[repr(C)]
struct Bare<F = External> {
    main: Context,
    fiber: Context,
    memory: Vec<u128>,
    argument: Cell<usize>,
    result: Cell<usize>,
    cleaned: Cell<bool>,
    form: PhantomData<F>,
}

impl<F: Form> Bare<F> {
    fn new(entry: Entry) -> Box<Bare<F>> {
        let mut bare = Box::new(Bare {
            main: Context::empty(),
            fiber: Context::empty(),
            memory: vec![0; 4096], // 64 KiB, 16-aligned
            argument: Cell::new(0),
            result: Cell::new(0),
            cleaned: Cell::new(false),
            form: PhantomData,
        });
        let top = bare.memory.as_mut_ptr_range().end.cast::<u8>();
        let arg = (&raw mut *bare).cast();
        // SAFETY: the memory is the stack's alone and 16-aligned.
        bare.fiber = unsafe { Context::prepare(top, entry, arg, leave::<F>) };
        bare
    }

    fn enter(&mut self) {
        // SAFETY: the fiber's context is prepared or suspended; the memory is alive.
        unsafe { enter::<F>((&raw mut *self).cast()) };
    }
}

/// Enters the bare fiber from the test's stack.
#[inline(never)]
unsafe extern "C" fn enter<F: Form>(bare: *mut ()) {
    let bare = bare.cast::<Bare<F>>();
    // SAFETY: the fiber's context is prepared or suspended; the memory is alive.
    unsafe { F::switch(&raw mut (*bare).main, &raw const (*bare).fiber) };
    std::hint::black_box(bare);
}

/// Suspends the bare fiber from its own code.
#[inline(never)]
unsafe extern "C" fn suspend<F: Form>(bare: *mut ()) {
    let bare = bare.cast::<Bare<F>>();
    // SAFETY: runs on the bare fiber's stack.
    unsafe { F::switch(&raw mut (*bare).fiber, &raw const (*bare).main) };
    std::hint::black_box(bare);
}

unsafe extern "C" fn leave<F: Form>(arg: *mut ()) -> ! {
    let bare = arg.cast::<Bare<F>>();
    let mut marker = 0_u128;
    // SAFETY: `arg` is the box of the test that entered.
    unsafe {
        (*bare).cleaned.set((&raw mut marker).addr().is_multiple_of(16));
        suspend::<F>(arg);
    }
    std::process::abort();
}

// rule: S0-CTX-3, S0-CTX-4, S0-CTX-5, S0-CTX-6, S0-CTX-7, S0-CTX-8, S0-CTX-9, S0-CTX-10
#[test]
fn layout_is_what_the_assembly_expects() {
    // The offsets themselves are compile-time assertions; this pins the totals that
    // other tools (the C harness, a debugger script) rely on.
    assert_eq!(size_of::<x86_64::Context>(), 56);
    assert_eq!(size_of::<aarch64::Context>(), 168);
    assert_eq!(align_of::<Context>(), 8);
}

// rule: S0-FRAME-1, S0-FRAME-2, S0-FRAME-5, S0-TRAMP-4, S1-CTX-5
#[test]
fn initial_frame_is_aligned_and_ends_in_cleanup() {
    unsafe extern "C" fn entry<F: Form>(arg: *mut ()) {
        let mut aligned = 0_u128;
        // SAFETY: `arg` is the box of the test.
        unsafe {
            (*arg.cast::<Bare<F>>()).result.set((&raw mut aligned).addr() % 16 + 1);
        };
    }
    fn with<F: Form>() {
        let mut bare = Bare::<F>::new(entry::<F>);
        let sp = bare.fiber.stack_pointer();
        assert_eq!(sp % 16, 0);
        assert_eq!(sp + 16, bare.memory.as_ptr_range().end.addr());
        bare.enter();
        assert_eq!(bare.result.get(), 1, "{}: locals that need 16-byte alignment have it", F::NAME);
        assert!(bare.cleaned.get(), "{}: the entry's return calls cleanup, aligned", F::NAME);
    }
    with::<External>();
    with::<Inlined>();
}

// rule: S0-FRAME-3, S0-FRAME-4, S0-TRAMP-1, S0-TRAMP-2, S0-TRAMP-3
#[test]
fn argument_and_result_pass_through_memory() {
    unsafe extern "C" fn entry<F: Form>(arg: *mut ()) {
        let bare = arg.cast::<Bare<F>>();
        for _ in 0..3 {
            // SAFETY: `arg` is the box of the test; this is its stack.
            unsafe {
                (*bare).result.set((*bare).argument.get() * 2);
                suspend::<F>(arg);
            }
        }
    }
    fn with<F: Form>() {
        let mut bare = Bare::<F>::new(entry::<F>);
        for n in [1, 20, 300] {
            bare.argument.set(n);
            bare.enter();
            assert_eq!(bare.result.get(), 2 * n, "{}", F::NAME);
        }
        assert!(!bare.cleaned.get());
        bare.enter();
        assert!(bare.cleaned.get());
    }
    with::<External>();
    with::<Inlined>();
}

// rule: S0-SWITCH-5, S1-TEST-1
#[test]
fn nested_switches_return_in_order() {
    unsafe extern "C" fn inner<F: Form>(arg: *mut ()) {
        // SAFETY: the box that `outer` made.
        unsafe {
            (*arg.cast::<Bare<F>>()).result.set(7);
            suspend::<F>(arg);
            (*arg.cast::<Bare<F>>()).result.set(8);
        }
    }
    unsafe extern "C" fn outer<F: Form>(arg: *mut ()) {
        let mut nested = Bare::<F>::new(inner::<F>);
        nested.enter();
        let first = nested.result.get();
        // SAFETY: the box of the test.
        unsafe {
            (*arg.cast::<Bare<F>>()).result.set(first);
            suspend::<F>(arg);
            nested.enter();
            (*arg.cast::<Bare<F>>()).result.set(nested.result.get());
        }
    }
    fn with<F: Form>() {
        let mut bare = Bare::<F>::new(outer::<F>);
        bare.enter();
        assert_eq!(bare.result.get(), 7, "{}", F::NAME);
        bare.enter();
        assert_eq!(bare.result.get(), 8, "{}", F::NAME);
        assert!(bare.cleaned.get());
    }
    with::<External>();
    with::<Inlined>();
}

// rule: S0-SWITCH-4, S1-CTX-4
#[test]
fn the_stack_pointer_is_saved_where_the_stack_was_left() {
    unsafe extern "C" fn entry<F: Form>(arg: *mut ()) {
        let bare = arg.cast::<Bare<F>>();
        let here = Cell::new(0_usize);
        loop {
            // SAFETY: the box of the test; this is its stack.
            unsafe {
                (*bare).result.set(here.as_ptr().addr());
                suspend::<F>(arg);
            }
        }
    }
    fn with<F: Form>() {
        let mut bare = Bare::<F>::new(entry::<F>);
        let stack = bare.memory.as_ptr_range();
        let stack = stack.start.addr()..stack.end.addr();
        let local = 0_usize;
        for _ in 0..3 {
            bare.enter();
            let (sp, frame) = (bare.fiber.stack_pointer(), bare.result.get());
            assert!(stack.contains(&sp), "{}: {sp:#x} is not on the stack", F::NAME);
            assert!(sp < frame && frame - sp < 4096, "{}: {sp:#x} for {frame:#x}", F::NAME);
            let (sp, frame) = (bare.main.stack_pointer(), (&raw const local).addr());
            assert!(sp < frame && frame - sp < 4096, "{}: {sp:#x} for {frame:#x}", F::NAME);
        }
    }
    with::<External>();
    with::<Inlined>();
}

// rule: S0-SWITCH-1, S0-SWITCH-5, S1-CTX-1
#[test]
fn contexts_left_by_one_form_are_resumed_by_the_other() {
    /// Leaves by both forms in turn.
    unsafe extern "C" fn entry(arg: *mut ()) {
        let bare = arg.cast::<Bare>();
        let mut sum = 0_usize;
        loop {
            // SAFETY: the box of the test; this is its stack. The form is in no field.
            unsafe {
                sum = sum.wrapping_mul(31) + (*bare).argument.get();
                (*bare).result.set(sum);
                suspend::<External>(arg);
                sum = sum.wrapping_mul(31) + (*bare).argument.get();
                (*bare).result.set(sum);
                suspend::<Inlined>(arg);
            }
        }
    }
    let mut fibers: Vec<Box<Bare>> = (0..8).map(|_| Bare::new(entry)).collect();
    let mut sums = [0_usize; 8];
    let rng = crate::base::rng::Rng::new(1, 0);
    for n in 0..10_000 {
        let at = rng.below(8);
        fibers[at].argument.set(n);
        sums[at] = sums[at].wrapping_mul(31) + n;
        let arg = (&raw mut *fibers[at]).cast();
        let enter = [enter::<External>, enter::<Inlined>][rng.below(2)];
        // SAFETY: the fiber is prepared or suspended; the memory is alive.
        unsafe { enter(arg) };
        assert_eq!(fibers[at].result.get(), sums[at], "fiber {at}, step {n}");
    }
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

// rule: S0-CTX-2
#[test]
fn context_begins_with_the_stack_pointer() {
    // `sp` is private to each file, so its place is checked through the value.
    unsafe extern "C" fn entry(_: *mut ()) {}
    let bare = Bare::<External>::new(entry);
    let first_word = (&raw const bare.fiber).cast::<usize>();
    // SAFETY: reads the first word of a context.
    assert_eq!(unsafe { first_word.read() }, bare.fiber.stack_pointer());
    assert_eq!(offset_of!(Bare, fiber) - offset_of!(Bare, main), size_of::<Context>());
}

#[cfg(target_arch = "x86_64")]
mod registers;

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
            unsafe { suspend::<External>(arg) };
            // SAFETY: as above.
            unsafe { suspend::<Inlined>(arg) };
        }
    }

    /// Single-steps through `enter`, to the fiber and back.
    #[inline(never)]
    fn thread_side(bare: &mut Bare, enter: unsafe extern "C" fn(*mut ())) {
        // SAFETY: sets and clears the trap flag: SIGTRAP after each instruction. The fiber is
        // suspended.
        unsafe {
            std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
            enter((&raw mut *bare).cast());
            std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x100", "popfq");
        }
        std::hint::black_box(bare);
    }

    // rule: S0-SWITCH-7, S1-TEST-1
    #[test]
    fn unwind_information_is_right_at_every_instruction() {
        if std::env::var_os("PARCAE_VALGRIND").is_some() {
            return; // Valgrind does not emulate the trap flag
        }
        // SAFETY: a handler of the right signature, for a signal that nothing else here uses.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut());
        }
        let mut bare = Bare::<External>::new(fiber_side);
        bare.enter(); // into fiber_side, not stepped: it waits in the external switch
        let forms: [(_, unsafe extern "C" fn(*mut ())); 2] =
            [(External::NAME, enter::<External>), (Inlined::NAME, enter::<Inlined>)];
        for (name, enter) in forms {
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
