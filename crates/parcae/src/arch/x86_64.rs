//! x86_64, System V: the Rust half of `x86_64.s`.

use super::{Cleanup, Entry, janus_fiber_entry};
use std::mem::offset_of;

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(include_str!("x86_64.s"), options(att_syntax, raw));

/// A suspended flow of control. `sp` points at the address where it goes on.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    sp: *mut usize,
    regs: SavedRegisters,
}

/// What a callee must preserve, in the order that the assembly expects.
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
    /// A context that nothing was saved in yet: only good as `from`.
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
    /// `top` is 16-aligned, and the stack below it is writable, large enough
    /// for what `entry` does, and used by nobody else.
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

/// The floating-point control bits of this thread: MXCSR without its flags, and the x87
/// control word. Not part of a context; debug builds compare them around a suspension.
#[cfg(all(target_arch = "x86_64", debug_assertions))]
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
