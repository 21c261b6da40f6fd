//! x86_64, System V: the Rust half of `x86_64.s`.

use super::{Cleanup, Entry, janus_fiber_entry};
use std::mem::offset_of;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(include_str!("x86_64.s"), options(att_syntax, raw));

/// A suspended context. `sp` points at the address where it resumes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    sp: *mut usize,
    regs: SavedRegisters,
}

/// The callee-saved registers, in the order that the assembly expects.
#[repr(C)]
#[derive(Debug, Default)]
struct SavedRegisters {
    rbx: u64,
    rbp: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
}

// The numbers in x86_64.s.
const _: () = {
    assert!(size_of::<Context>() == 56);
    assert!(size_of::<SavedRegisters>() == 48);
    assert!(offset_of!(Context, sp) == 0);
    assert!(offset_of!(Context, regs) == 8);
    assert!(offset_of!(SavedRegisters, rbx) == 0);
    assert!(offset_of!(SavedRegisters, rbp) == 8);
    assert!(offset_of!(SavedRegisters, r12) == 16);
    assert!(offset_of!(SavedRegisters, r13) == 24);
    assert!(offset_of!(SavedRegisters, r14) == 32);
    assert!(offset_of!(SavedRegisters, r15) == 40);
};

impl Context {
    /// A context with nothing saved in it: valid only as `from`.
    pub(crate) const fn empty() -> Context {
        Context {
            sp: std::ptr::null_mut(),
            regs: SavedRegisters { rbx: 0, rbp: 0, r12: 0, r13: 0, r14: 0, r15: 0 },
        }
    }

    /// Builds the initial frame of a fiber below `top`: the first switch to the
    /// returned context calls `entry(arg)`; when that returns, `cleanup(arg)`.
    ///
    /// # Safety
    ///
    /// `top` is 16-aligned; the stack below it is writable, large enough for `entry`, and not used
    /// for anything else.
    pub(crate) unsafe fn prepare(
        top: *mut u8,
        entry: Entry,
        arg: *mut (),
        cleanup: Cleanup,
    ) -> Context {
        debug_assert!(top.addr().is_multiple_of(16), "a stack's top is 16-aligned");
        let top = top.cast::<usize>();
        // SAFETY: two words below the top belong to the stack (caller).
        let sp = unsafe {
            top.sub(1).write(cleanup as usize);
            top.sub(2).write(janus_fiber_entry as *const () as usize);
            top.sub(2)
        };
        let mut context = Context::empty();
        context.sp = sp;
        context.regs.r12 = entry as usize as u64;
        context.regs.r13 = arg as u64;
        context
    }

    /// The stack pointer at which this context was left.
    pub(crate) fn stack_pointer(&self) -> usize {
        self.sp.addr()
    }
}

/// `janus_context_switch`, inlined: the same effect on the same contexts, less work.
///
/// A function call saves all callee-saved registers, whether or not the caller uses them.
/// Here r12–r15 are declared clobbered, so the compiler spills the ones it needs and their places
/// in the context stay unwritten; rbx and rbp cannot be declared clobbered and are saved. All six
/// are loaded, so contexts saved by either form can be resumed by either form.
///
/// The resume address is stored below the stack pointer (the block may use the stack, so
/// there is no red zone), which leaves the compiler's idea of the frame untouched. From
/// the change of rsp to the jump the unwind information is that of the external function.
///
/// # Safety
///
/// As for `janus_context_switch`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut Context, to: *const Context) {
    // SAFETY: as the caller says. All registers but rsp, rbx and rbp are clobbered, and
    // those three are what they were when this context is resumed.
    unsafe {
        std::arch::asm!(
            "lea rax, [rip + 2f]",
            "mov [rsp - 8], rax",
            "lea rax, [rsp - 8]",
            "mov [rdi + 8], rbx",
            "mov [rdi + 16], rbp",
            "mov [rdi], rax",
            ".cfi_remember_state",
            "mov rsp, [rsi]",
            // DWARF's numbers: 2 rcx, 3 rbx, 4 rsi, 6 rbp, 7 rsp, 12–15, 16 rip.
            ".cfi_def_cfa 7, 8",
            ".cfi_escape 0x10, 3, 2, 0x74, 8",
            ".cfi_escape 0x10, 6, 2, 0x74, 16",
            ".cfi_escape 0x10, 12, 2, 0x74, 24",
            ".cfi_escape 0x10, 13, 2, 0x74, 32",
            ".cfi_escape 0x10, 14, 2, 0x74, 40",
            ".cfi_escape 0x10, 15, 2, 0x74, 48",
            "mov rbx, [rsi + 8]",
            ".cfi_same_value 3",
            "mov rbp, [rsi + 16]",
            ".cfi_same_value 6",
            "mov r12, [rsi + 24]",
            "mov r13, [rsi + 32]",
            "mov r14, [rsi + 40]",
            "mov r15, [rsi + 48]",
            "pop rcx",
            ".cfi_def_cfa_offset 0",
            ".cfi_register 16, 2",
            "jmp rcx",
            ".cfi_restore_state",
            "nop", // never executed: unwinders look up the resume address minus one
            "2:",
            inout("rdi") from => _,
            inout("rsi") to => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// Whether user shadow stacks (CET) are on for this thread. A switch would
/// make the first `ret` of the other stack fault, so fibers are refused.
#[cfg(target_arch = "x86_64")]
pub(crate) fn shadow_stack_active() -> bool {
    let ssp: u64;
    // SAFETY: `rdsspq` is a no-op, leaving the zero, wherever shadow stacks are
    // off or unknown to the processor; otherwise it only reads a register.
    unsafe {
        std::arch::asm!(
            "xor {ssp:e}, {ssp:e}",
            "rdsspq {ssp}",
            ssp = out(reg) ssp,
            options(nomem, nostack),
        );
    }
    ssp != 0
}

/// The floating-point control bits of this thread: MXCSR without its exception flags, and the x87
/// control word. Not part of a context; debug builds compare them around a suspension.
#[cfg(target_arch = "x86_64")]
pub(crate) fn fp_control() -> u64 {
    const EXCEPTION_FLAGS: u32 = 0x3f;
    let mut mxcsr = 0_u32;
    let mut x87 = 0_u16;
    // SAFETY: both store to the variables they are given, and change nothing.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack));
        std::arch::asm!("fnstcw [{}]", in(reg) &raw mut x87, options(nostack));
    }
    u64::from(mxcsr & !EXCEPTION_FLAGS) | u64::from(x87) << 32
}

/// Restores control bits that [`fp_control`] has read. The x87 register stack is emptied: the
/// abandoned code may have been in the middle of an expression, and calls expect it empty.
///
/// # Safety
///
/// No value of the caller's frames is in an x87 or MMX register, as at any call.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn set_fp_control(bits: u64) {
    let (mxcsr, x87) = (bits as u32, (bits >> 32) as u16);
    // SAFETY: values that the instructions of `fp_control` have stored; as the caller says.
    unsafe {
        std::arch::asm!(
            "fninit",
            "fldcw [{x87}]",
            "ldmxcsr [{mxcsr}]",
            x87 = in(reg) &raw const x87,
            mxcsr = in(reg) &raw const mxcsr,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack),
        );
    }
}

/// Changes the return address of a signal handler: instead of the interrupted code, the thread
/// calls `janus_context_switch(from, to)`. The switch uses no memory of the stack that it leaves,
/// so the stack pointer may be anywhere.
///
/// The direction flag is cleared, as at any call: a string instruction may have been interrupted.
///
/// # Safety
///
/// `machine` is the context that a signal handler was given, and the handler returns without
/// further changes to it. `from` and `to` are as for `janus_context_switch`, and `from` is never
/// resumed.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn redirect(
    machine: *mut libc::ucontext_t,
    from: *mut Context,
    to: *const Context,
) {
    const DIRECTION: i64 = 1 << 10;
    // SAFETY: as the caller says.
    let registers = unsafe { &mut (*machine).uc_mcontext.gregs };
    registers[libc::REG_RIP as usize] = super::janus_context_switch as *const () as usize as i64;
    registers[libc::REG_RDI as usize] = from.expose_provenance() as i64;
    registers[libc::REG_RSI as usize] = to.expose_provenance() as i64;
    registers[libc::REG_EFL as usize] &= !DIRECTION;
}
