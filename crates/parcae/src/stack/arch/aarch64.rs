//! aarch64, AAPCS64: the Rust half of `aarch64.s`.

use super::{Cleanup, Entry, janus_fiber_entry};
use std::mem::offset_of;

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(include_str!("aarch64.s"), options(raw));

/// A suspended context. `regs.lr` is the address where it resumes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    sp: *mut usize,
    regs: SavedRegisters,
}

/// The callee-saved registers, in the order that the assembly expects. Of the
/// vector registers only the low halves of v8–v15.
#[repr(C)]
#[derive(Debug, Default)]
struct SavedRegisters {
    x19_x28: [u64; 10],
    fp: u64,
    lr: u64,
    d8_d15: [u64; 8],
}

// The numbers in aarch64.s.
const _: () = {
    assert!(size_of::<Context>() == 168);
    assert!(offset_of!(Context, sp) == 0);
    assert!(offset_of!(Context, regs) == 8);
    assert!(offset_of!(SavedRegisters, x19_x28) == 0);
    assert!(offset_of!(SavedRegisters, fp) == 80);
    assert!(offset_of!(SavedRegisters, lr) == 88);
    assert!(offset_of!(SavedRegisters, d8_d15) == 96);
};

impl Context {
    /// A context with nothing saved in it: valid only as `from`.
    pub(crate) const fn empty() -> Context {
        Context {
            sp: std::ptr::null_mut(),
            regs: SavedRegisters { x19_x28: [0; 10], fp: 0, lr: 0, d8_d15: [0; 8] },
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
            top.sub(1).write(0);
            top.sub(2).write(cleanup as usize);
            top.sub(2)
        };
        let mut context = Context::empty();
        context.sp = sp;
        context.regs.x19_x28[0] = entry as usize as u64;
        context.regs.x19_x28[1] = arg as u64;
        context.regs.lr = janus_fiber_entry as *const () as usize as u64;
        context
    }

    /// The stack pointer at which this context was left.
    pub(crate) fn stack_pointer(&self) -> usize {
        self.sp.addr()
    }
}

/// `janus_context_switch`; inlining it would gain nothing.
///
/// # Safety
///
/// As for `janus_context_switch`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut Context, to: *const Context) {
    // SAFETY: as the caller says.
    unsafe { super::janus_context_switch(from, to) };
}

/// Whether a guarded control stack (GCS) is on for this thread. A switch would
/// make the first `ret` of the other stack fault, so fibers are refused.
#[cfg(target_arch = "aarch64")]
pub(crate) fn shadow_stack_active() -> bool {
    let off: u64;
    // SAFETY: `chkfeat x16` (a hint, so a no-op on older processors) clears the
    // bits in x16 of features that are on; bit 0 is the guarded control stack.
    unsafe {
        std::arch::asm!(
            "mov x16, #1",
            "hint #40",
            out("x16") off,
            options(nomem, nostack),
        );
    }
    off == 0
}

/// The floating-point control bits of this thread. Not part of a context; debug builds
/// compare them around a suspension.
#[cfg(target_arch = "aarch64")]
pub(crate) fn fp_control() -> u64 {
    let fpcr: u64;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack)) };
    fpcr
}

/// Restores control bits that [`fp_control`] has read.
///
/// # Safety
///
/// Safe on this architecture; unsafe because the function of x86_64 is.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn set_fp_control(bits: u64) {
    // SAFETY: writes a value that was read from the same register.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) bits, options(nomem, nostack)) };
}

/// Changes the return address of a signal handler: instead of the interrupted code, the thread
/// calls `janus_context_switch(from, to)`. The switch uses no memory of the stack that it leaves,
/// so the stack pointer may be anywhere.
///
/// The type of the last branch is cleared: the fault may have come directly after an indirect
/// branch, and the switch is not entered by one here.
///
/// # Safety
///
/// `machine` is the context that a signal handler was given, and the handler returns without
/// further changes to it. `from` and `to` are as for `janus_context_switch`, and `from` is never
/// resumed.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn redirect(
    machine: *mut libc::ucontext_t,
    from: *mut Context,
    to: *const Context,
) {
    const BRANCH_TYPE: u64 = 3 << 10;
    // SAFETY: as the caller says.
    let registers = unsafe { &mut (*machine).uc_mcontext };
    registers.pc = super::janus_context_switch as *const () as usize as u64;
    registers.regs[0] = from.expose_provenance() as u64;
    registers.regs[1] = to.expose_provenance() as u64;
    registers.pstate &= !BRANCH_TYPE;
}
