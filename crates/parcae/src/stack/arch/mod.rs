//! The context switch: the only code that depends on the processor's registers.
//!
//! Each architecture supplies one `.s` file and one Rust file with the same
//! names:
//!
//! | name | what it is |
//! |---|---|
//! | `janus_context_switch` | save one context, resume another |
//! | `switch` | the same for Rust callers, inlined where that is faster |
//! | `janus_fiber_entry` | first instruction of every fiber, last frame of every backtrace |
//! | [`janus_context_observe`] | call a function as if a suspended context had called it |
//! | [`Context`] | a saved stack pointer and the registers a callee must preserve |
//! | [`Context::prepare`] | the initial frame of a fiber that has not run yet |
//! | `shadow_stack_active` | whether the hardware forbids a switch on this thread |
//! | `fp_control` | the thread's floating-point control bits, checked in debug builds |
//! | `set_fp_control` | restores them, after code that was abandoned half-way |
//! | [`redirect`] | makes an interrupted thread switch when its signal handler returns |
//!
//! `CONTEXT-SWITCH-INVARIANTS.md` beside this file lists the registers that the switch preserves
//! and clobbers, and its permitted callers. The layouts are asserted at compile time in the
//! architecture's Rust file; the C harness in `tests/parcae_stacks` also tests the assembly without
//! any Rust.

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!(
    "parcae runs on Linux on x86_64 and aarch64 (64-bit). The context switch of this target is \
     not written: see crates/parcae/src/stack/arch for the operations it would need."
);

// The Rust half of the other architecture holds no instructions, so tests
// compile both: a wrong offset in aarch64.rs is found on any machine.
#[cfg(any(target_arch = "aarch64", test))]
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code, unreachable_pub))]
mod aarch64;
#[cfg(any(target_arch = "x86_64", test))]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unreachable_pub))]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{
    Context, fp_control, redirect, set_fp_control, shadow_stack_active, switch,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    Context, fp_control, redirect, set_fp_control, shadow_stack_active, switch,
};

/// The first function of a fiber: `entry(argument)`.
pub(crate) type Entry = unsafe extern "C" fn(*mut ());

/// The function that runs when the entry function has returned: `cleanup(argument)`. It
/// leaves the stack permanently by a last switch.
pub(crate) type Cleanup = unsafe extern "C" fn(*mut ()) -> !;

unsafe extern "C" {
    /// Saves the caller's context in `from` and resumes `to`. Returns when `from` is resumed.
    ///
    /// # Safety
    ///
    /// - `to` was filled by [`Context::prepare`] or by an earlier switch away
    ///   from it, and has not been resumed since. Its stack is mapped, and no thread runs on it.
    /// - `from` stays valid until it is resumed.
    /// - The thread is not unwinding, and no reference to thread-local data is
    ///   held over the call if the context may be resumed on another thread.
    pub(crate) fn janus_context_switch(from: *mut Context, to: *const Context);

    /// Calls `visit(arg)` with unwind information that names `context` as the
    /// caller, so that a backtrace taken in `visit` shows that context's frames.
    ///
    /// # Safety
    ///
    /// `context` is suspended and stays so for the duration of the call. `visit`
    /// must not unwind: it would unwind into the suspended context.
    pub(crate) fn janus_context_observe(
        context: *const Context,
        visit: extern "C" fn(*mut ()),
        arg: *mut (),
    );
}

unsafe extern "C" {
    // Never called from Rust: only its address goes into a new fiber's frame.
    fn janus_fiber_entry();
}

#[cfg(test)]
mod tests;

/// Prefetches the memory at an address that will be used soon. A hint: any address is allowed.
#[inline]
pub(crate) fn prefetch<T>(address: std::ptr::NonNull<T>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.as_ptr().cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address.as_ptr(),
            options(nostack, readonly, preserves_flags));
    }
}
