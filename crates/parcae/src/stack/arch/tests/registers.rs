//! Registers across both forms of the switch on `x86_64`: the callee-saved ones, the stack
//! pointer at a fiber's first instruction, and the floating-point control words.

use super::*;
use crate::base::rng::Rng;
use std::arch::{asm, naked_asm};

/// rbx, rbp, r12, r13, r14, r15: as they lie in a context, from its second word.
type CalleeSaved = [u64; 6];
/// Those of them that the inlined form does not write.
const UNWRITTEN: [&str; 4] = ["r12", "r13", "r14", "r15"];

/// Calls `callee(arg)` with `values` in the callee-saved registers, and stores their contents
/// after the call back into `values`.
#[unsafe(naked)]
unsafe extern "C" fn call_with(
    callee: unsafe extern "C" fn(*mut ()),
    arg: *mut (),
    values: *mut CalleeSaved,
) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rdx", // and the stack is aligned again
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rbx, [rdx]",
        "mov rbp, [rdx + 8]",
        "mov r12, [rdx + 16]",
        "mov r13, [rdx + 24]",
        "mov r14, [rdx + 32]",
        "mov r15, [rdx + 40]",
        "call rax",
        "pop rdx",
        "mov [rdx], rbx",
        "mov [rdx + 8], rbp",
        "mov [rdx + 16], r12",
        "mov [rdx + 24], r13",
        "mov [rdx + 32], r14",
        "mov [rdx + 40], r15",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// Six random values in the registers, a call of `switches`, and the same six afterwards.
unsafe fn keeps_registers(
    rng: &Rng,
    switches: unsafe extern "C" fn(*mut ()),
    arg: *mut (),
) -> Result<CalleeSaved, String> {
    let before: CalleeSaved = std::array::from_fn(|_| rng.next());
    let mut after = before;
    // SAFETY: as the caller says.
    unsafe { call_with(switches, arg, &raw mut after) };
    if before == after { Ok(before) } else { Err(format!("{before:x?} became {after:x?}")) }
}

/// Words of a context.
fn saved(context: &Context) -> CalleeSaved {
    // SAFETY: a context is seven words, `sp` first.
    unsafe { (&raw const *context).cast::<u64>().add(1).cast::<CalleeSaved>().read() }
}

// rule: S0-SWITCH-1, S0-SWITCH-3, S1-CTX-3
#[test]
fn callee_saved_registers_survive() {
    unsafe extern "C" fn entry<F: Form>(arg: *mut ()) {
        let rng = Rng::new(2, 0);
        loop {
            // SAFETY: the box of the test; this is its stack.
            let wrong = unsafe { keeps_registers(&rng, suspend::<F>, arg) }.is_err();
            // SAFETY: as above.
            unsafe { (*arg.cast::<Bare<F>>()).result.update(|n| n + usize::from(wrong)) };
        }
    }
    fn with<F: Form>() {
        let rng = Rng::new(1, 0);
        let mut fibers: Vec<Box<Bare<F>>> = (0..2).map(|_| Bare::new(entry::<F>)).collect();
        for _ in 0..10_000 {
            let arg = (&raw mut *fibers[rng.below(2)]).cast();
            // SAFETY: the fiber is prepared or suspended; its memory is alive.
            let kept = unsafe { keeps_registers(&rng, enter::<F>, arg) };
            assert!(kept.is_ok(), "{}, on the thread's side: {}", F::NAME, kept.unwrap_err());
        }
        for bare in &fibers {
            assert_eq!(bare.result.get(), 0, "{}: so often on a fiber's side", F::NAME);
        }
    }
    with::<External>();
    with::<Inlined>();
}

// rule: S0-SWITCH-3
#[test]
fn the_external_form_saves_six_registers_and_the_inlined_one_two() {
    unsafe extern "C" fn entry<F: Form>(arg: *mut ()) {
        loop {
            // SAFETY: the box of the test; this is its stack.
            unsafe { suspend::<F>(arg) };
        }
    }
    let rng = Rng::new(3, 0);
    let mut external = Bare::<External>::new(entry::<External>);
    let mut inlined = Bare::<Inlined>::new(entry::<Inlined>);
    let mark: CalleeSaved = [0x5a5a; 6];
    for _ in 0..100 {
        let arg = (&raw mut *external).cast();
        // SAFETY: prepared or suspended; the memory is alive. A wrapper around a call keeps nothing
        // in a callee-saved register beyond what it saves first, so only the function itself is
        // asked.
        let values = unsafe { keeps_registers(&rng, enter_directly, arg) }.unwrap();
        assert_eq!(saved(&external.main), values, "external");
        // SAFETY: a context from its second word; the fiber has not left it.
        unsafe { (&raw mut inlined.main).cast::<u64>().add(1).cast::<CalleeSaved>().write(mark) };
        inlined.enter();
        assert_eq!(saved(&inlined.main)[2..], mark[2..], "inlined: {UNWRITTEN:?} are the caller's");
        assert_ne!(saved(&inlined.main)[..2], mark[..2], "inlined: rbx and rbp are saved");
    }
}

/// `janus_context_switch` to the fiber of a [`Bare`], with the caller's registers.
#[unsafe(naked)]
unsafe extern "C" fn enter_directly(bare: *mut ()) {
    naked_asm!(
        "lea rsi, [rdi + {fiber}]",
        "lea rdi, [rdi + {main}]",
        "jmp {switch}",
        fiber = const offset_of!(Bare, fiber),
        main = const offset_of!(Bare, main),
        switch = sym janus_context_switch,
    )
}

/// The registers of a fiber at its first instruction.
#[repr(C)]
#[derive(Default)]
struct Found {
    registers: CalleeSaved,
    stack_pointer: u64,
    argument: u64,
}

/// An entry function that records its registers. Its argument is a [`Found`].
#[unsafe(naked)]
unsafe extern "C" fn first_instruction(found: *mut ()) {
    naked_asm!(
        "mov [rdi], rbx",
        "mov rax, [rbp]", // the trampoline's frame record has what it found
        "mov [rdi + 8], rax",
        "mov [rdi + 16], r12",
        "mov [rdi + 24], r13",
        "mov [rdi + 32], r14",
        "mov [rdi + 40], r15",
        "mov [rdi + 48], rsp",
        "mov [rdi + 56], rdi",
        "ret",
    )
}

// rule: S0-FRAME-5, S0-SWITCH-6, S0-TRAMP-1, S0-TRAMP-2
#[test]
fn all_six_registers_are_loaded_and_the_first_stack_pointer_is_aligned() {
    unsafe extern "C" fn cleanup<F: Form>(_: *mut ()) -> ! {
        // SAFETY: the address that the test left, of a `Bare` that is entered.
        unsafe { suspend::<F>(BARE.get()) };
        std::process::abort();
    }
    thread_local! {
        static BARE: Cell<*mut ()> = const { Cell::new(std::ptr::null_mut()) };
    }
    fn with<F: Form>() {
        let rng = Rng::new(4, 0);
        for _ in 0..100 {
            let found = Box::into_raw(Box::new(Found::default()));
            let mut bare = Bare::<F>::new(first_instruction);
            BARE.set((&raw mut *bare).cast());
            let top = bare.memory.as_mut_ptr_range().end.cast::<u8>();
            let arg = found.cast();
            // SAFETY: the memory is the stack's alone and 16-aligned.
            bare.fiber = unsafe { Context::prepare(top, first_instruction, arg, cleanup::<F>) };
            // All but r12 and r13, which are the entry and its argument, are free.
            let mut expected = saved(&bare.fiber);
            for register in [0, 1, 4, 5] {
                expected[register] = rng.next();
            }
            // SAFETY: the context from its second word; it is not entered yet.
            unsafe {
                let words = (&raw mut bare.fiber).cast::<u64>();
                words.add(1).cast::<CalleeSaved>().write(expected);
            }
            bare.enter();
            // SAFETY: written by the fiber, which is over.
            let found = unsafe { Box::from_raw(found) };
            assert_eq!(found.registers, expected, "{}", F::NAME);
            assert_eq!(found.registers[3], found.argument, "{}: r13 is the argument", F::NAME);
            assert_eq!(found.stack_pointer % 16, 8, "{}: aligned before the call", F::NAME);
        }
    }
    with::<External>();
    with::<Inlined>();
}

/// MXCSR without its exception flags, and the x87 control word.
fn control() -> (u32, u16) {
    let (mut mxcsr, mut x87) = (0_u32, 0_u16);
    // SAFETY: both store to the variables they are given, and change nothing.
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack));
        asm!("fnstcw [{}]", in(reg) &raw mut x87, options(nostack));
    }
    (mxcsr & !0x3f, x87)
}

/// # Safety
///
/// No floating-point arithmetic happens until the control words are what they were.
unsafe fn set_control((mxcsr, x87): (u32, u16)) {
    // SAFETY: valid control words; the caller computes nothing under them.
    unsafe {
        asm!("ldmxcsr [{}]", in(reg) &raw const mxcsr, options(nostack, readonly));
        asm!("fldcw [{}]", in(reg) &raw const x87, options(nostack, readonly));
    }
}

#[test]
fn floating_point_control_belongs_to_the_thread() {
    thread_local! {
        static SEEN: Cell<(u32, u16)> = const { Cell::new((0, 0)) };
    }
    unsafe extern "C" fn entry<F: Form>(arg: *mut ()) {
        SEEN.set(control());
        let (mxcsr, x87) = control();
        // SAFETY: nothing is computed until the test has set them back.
        unsafe { set_control((mxcsr ^ 0x2000, x87 ^ 0x400)) };
        // SAFETY: the box of the test; this is its stack.
        unsafe { suspend::<F>(arg) };
    }
    fn with<F: Form>() {
        let usual = control();
        let other = (usual.0 ^ 0x6000, usual.1 ^ 0xc00); // another rounding mode
        let mut bare = Bare::<F>::new(entry::<F>);
        // SAFETY: nothing is computed before they are set back, below.
        unsafe { set_control(other) };
        bare.enter();
        let left = control();
        // SAFETY: what they were.
        unsafe { set_control(usual) };
        assert_eq!(SEEN.get(), other, "{}: a fiber has what its thread has", F::NAME);
        assert_eq!(left, (other.0 ^ 0x2000, other.1 ^ 0x400), "{}: and changes it", F::NAME);
    }
    with::<External>();
    with::<Inlined>();
}
