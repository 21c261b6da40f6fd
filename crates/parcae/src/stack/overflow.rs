//! Stack overflow: a SIGSEGV handler that names the fiber or task that hit its guard, then aborts.
//!
//! The handler runs on an alternate stack with a guard of its own, since the fiber's stack is
//! exhausted. It decides by the faulting address alone whether a guard of a registered arena was
//! hit, prints with `write(2)` from a fixed buffer, and aborts. Any other fault is passed to the
//! handler that was installed before, as if this one did not exist. Nothing here allocates, locks
//! or formats through `std::fmt`.
//!
//! Why abort: the code that overflowed holds locks and half-built values, and a signal handler can
//! neither unwind nor leave it. Code that checks its remaining stack at function entry returns an
//! error before it comes to that.
//!
//! # Containing an overflow
//!
//! A program may promise that a closure can be left in the middle, which is the `unsafe` of
//! [`Cx::contain_overflow`](crate::Cx::contain_overflow). The closure runs on a stack of its own
//! (`fiber/contain.rs`), whose label says [`CONTAINED`]. If it overflows that stack, the handler
//! changes the interrupted context so that the thread, when the handler has returned, calls the
//! context switch from the closure's fiber to its resumer. The resumer finds that the closure did
//! not leave by itself, puts the stack into quarantine and returns an error.
//!
//! Why memory stays valid: nothing on the abandoned stack is ever freed, reused or unmapped, so
//! pointers into it stay valid. Nothing on it points to frames that keep running, because the
//! closure and its result are `'static`. Leaving a frame without running its destructors is the
//! same as `mem::forget`, which safe code must tolerate. The exception is the half-done work of
//! the innermost functions, which the promise covers.
//!
//! Why a separate stack and not the task's own: any code may have frames between the base of the
//! task and the guard. Among them are nurseries, whose children borrow from those frames, and the
//! runtime's own functions, which change the worker's queues without a lock. A closure that is
//! called from one place, borrows nothing and cannot reach its `Cx` has no such frames below it.
//!
//! Why returning from the handler is enough: the kernel saved the signal mask and the state of the
//! signal stack when it called the handler, and restores both when the handler returns, wherever
//! the context then points. So SIGSEGV does not stay blocked, and the next overflow is caught as
//! well, with or without SA_NODEFER. A `longjmp` out of the handler would have to restore all of
//! that itself. The switch itself uses no memory of the stack that it leaves.
//!
//! The handler still aborts, and the report gives the reason ([`Kept`]), if
//!
//! - the interrupted instruction is in the allocator, the C library, the loader or the unwinder, or
//!   the addresses of those are not known (`c_library.rs`): their locks would stay taken;
//! - the thread is panicking: the standard library's count of panics for this thread would stay
//!   raised;
//! - signals are blocked that were not blocked when the closure was entered: the fault happened in
//!   the handler of another signal, which may have interrupted any code, or in a part of the C
//!   library that must not be interrupted;
//! - the kernel found no room on the stack for another signal's frame: that signal would be lost;
//! - the access was far below the stack pointer: no function does that to its own frame, so a
//!   pointer was wrong. Compilers touch large frames page by page from above.
//!
//! An overflow of any other stack is always fatal: that of a task, or of a fiber which the closure
//! resumes. The stack pointer decides whose overflow it is. If it is on the stack whose guard was
//! hit, then the faulting thread is the one that runs the closure, and the handler reads and writes
//! that thread's own data.

mod label;
mod report;
mod signal_stack;

pub(crate) use label::{CONTAINED, LABEL_SIZE, Label, TASK};
pub(crate) use report::report_spawned_at;
pub(crate) use signal_stack::arm_thread;

use super::c_library::{self, Code};
use super::registry::{self, Geometry};
use crate::stack::arch;
use crate::stack::fiber::contain::{Containment, StackOverflow};
use report::{Kept, report};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The disposition that was in force before ours. Set once, never freed.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// Installs the handler, once per process.
pub(super) fn arm_process() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: `sigaction` is plain data; all zeroes is a value of it. The
        // handler has the signature that SA_SIGINFO demands.
        unsafe {
            let mut previous: libc::sigaction = std::mem::zeroed();
            // Query and store the previous disposition before the handler can run.
            if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut previous) != 0 {
                return;
            }
            remember(previous);
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = handler as *const () as usize;
            // Keep the flags that the previous handler relies on when it is called from ours.
            let inherited = previous.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART);
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | inherited;
            ours.sa_mask = previous.sa_mask;
            stay_loaded();
            let mut replaced: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGSEGV, &ours, &mut replaced);
            if replaced.sa_sigaction != previous.sa_sigaction {
                remember(replaced); // another thread installed it in between
            }
        }
    });
}

/// Keeps the previous disposition. A few bytes, once per process, never freed.
fn remember(previous: libc::sigaction) {
    // Release: pairs with the Acquire load in `handler`.
    PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
}

/// Prevents the unloading of this library: the signal handler would point to unmapped code.
pub(crate) fn stay_loaded() {
    // Statically linked programs are never unloaded.
    #[cfg(not(target_feature = "crt-static"))]
    // SAFETY: `info` is filled for an address of this code; the loader owns the name.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(handler as *const libc::c_void, &mut info) != 0 && !info.dli_fname.is_null()
        {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            libc::dlopen(info.dli_fname, flags);
        }
    }
}

/// The SIGSEGV handler.
///
/// # Safety
///
/// Called by the kernel, or by a later handler that passes on its own arguments.
unsafe extern "C" fn handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo and the interrupted context; `si_addr` is
    // set for faults, which have a positive code.
    let (code, addr, sp) =
        unsafe { ((*info).si_code, (*info).si_addr().addr(), stack_pointer(context)) };
    let hit = match code {
        // The kernel found no room to call another signal's handler on the stack.
        libc::SI_KERNEL => GuardHit::no_room_at(sp),
        1.. => GuardHit::find(addr),
        _ => None,
    };
    if let Some(hit) = hit {
        // SAFETY: the context of this signal; it is not changed afterwards.
        let kept = match unsafe { hit.abandon(code, context.cast()) } {
            Ok(()) => return,
            Err(kept) => kept,
        };
        report(&hit, sp, kept);
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
    // Acquire: pairs with the Release in `remember`.
    // SAFETY: the arguments are those of this signal.
    unsafe { pass_on(PREVIOUS.load(Ordering::Acquire), signal, info, context) }
}

/// Prepares the process for closures that may be abandoned.
pub(crate) fn arm_containing() {
    c_library::learn();
}

/// A fault on a guard: which arena, which stack.
struct GuardHit {
    addr: usize,
    arena: Geometry,
    /// Start of the guard.
    guard: usize,
}

impl GuardHit {
    fn find(addr: usize) -> Option<GuardHit> {
        let arena = registry::find(addr)?;
        let offset = (addr - arena.base) % arena.stride;
        (offset < arena.guard).then(|| GuardHit { addr, arena, guard: addr - offset })
    }

    /// The stack that contains `sp`, if its free part is too small for a signal frame.
    fn no_room_at(sp: usize) -> Option<GuardHit> {
        /// More than any frame that the kernel writes.
        const FRAME: usize = 32 * 1024;
        let arena = registry::find(sp).filter(|arena| arena.guard > 0)?;
        let offset = (sp - arena.base) % arena.stride;
        (offset < arena.guard + FRAME).then(|| GuardHit { addr: sp, arena, guard: sp - offset })
    }

    /// The stack above the guard: none above the last guard of an arena.
    fn top(&self) -> Option<usize> {
        let top = self.guard + self.arena.stride;
        (top <= self.arena.base + self.arena.len).then_some(top)
    }

    fn label(top: usize) -> &'static Label {
        // SAFETY: the label is at the top of a stack of a registered arena, which is mapped and
        // readable; the reference is used during this signal only; any bytes are a valid label.
        unsafe { &*std::ptr::with_exposed_provenance::<Label>(top - LABEL_SIZE) }
    }

    /// Makes the thread leave a closure that overflowed its own stack, if the closure may be
    /// abandoned.
    ///
    /// # Errors
    ///
    /// Why the overflow cannot be contained. Nothing was changed.
    ///
    /// # Safety
    ///
    /// Called by the handler with its code and context. After `Ok` the handler returns immediately.
    unsafe fn abandon(&self, code: i32, context: *mut libc::ucontext_t) -> Result<(), Kept> {
        /// No compiler touches memory this far below the stack pointer: frames are touched page by
        /// page while the stack pointer moves. Twice the room that `scope::cx::frame::away`
        /// requires for the allocator.
        const PROBE: usize = 8192;
        // SAFETY: as the caller says.
        let (sp, pc, blocked) = unsafe {
            let blocked = (&raw const (*context).uc_sigmask).cast::<u64>().read();
            (stack_pointer(context.cast()), program_counter(context.cast()), blocked)
        };
        let own = |top: &usize| (self.guard..=*top).contains(&sp);
        let top = self.top().filter(own).ok_or(Kept::NotContained)?;
        let label = GuardHit::label(top);
        // Relaxed: `sp` is on this stack, so this thread wrote the label.
        if label.id.load(Ordering::Relaxed) != CONTAINED {
            return Err(Kept::NotContained);
        }
        // SAFETY: the label was set by this thread, which runs the closure: see the header.
        let (containment, from, to) = unsafe { Containment::of(label.context()) };
        let containment = containment.ok_or(Kept::NotContained)?;
        if code == libc::SI_KERNEL {
            return Err(Kept::NoRoom);
        }
        if sp.saturating_sub(self.addr) > PROBE {
            return Err(Kept::Stray);
        }
        if std::thread::panicking() {
            return Err(Kept::Panicking);
        }
        if blocked != containment.mask {
            return Err(Kept::Signal);
        }
        match c_library::look_up(pc) {
            Code::Program => {}
            Code::CLibrary => return Err(Kept::CLibrary),
            Code::Unknown => return Err(Kept::Unknown),
        }
        let bottom = self.guard + self.arena.guard;
        let left = sp.saturating_sub(bottom);
        containment.overflow.set(Some(StackOverflow { left, needed: left + (bottom - self.addr) }));
        // SAFETY: `to` was saved when the closure was entered, and only this thread resumes it;
        // the closure is never resumed.
        unsafe { arch::redirect(context, from, to) };
        Ok(())
    }
}

/// Passes a signal to the previous disposition, as if our handler were not installed.
///
/// # Safety
///
/// Called from a handler, with the handler's arguments and the disposition that it replaced.
pub(crate) unsafe fn pass_on(
    previous: *const libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: set before the handler was installed, never freed. A previous handler
    // has the signature that its flags say.
    unsafe {
        let action = (*previous).sa_sigaction;
        let sent = (*info).si_code <= 0;
        if action == libc::SIG_IGN && sent {
            return;
        }
        if (*previous).sa_flags & libc::SA_RESETHAND != 0 {
            libc::signal(signal, libc::SIG_DFL);
        }
        if action == libc::SIG_DFL || action == libc::SIG_IGN {
            // Restore the default. A fault happens again on return and ends the process as it
            // would have; a signal that was sent has to be sent again.
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, std::ptr::null_mut());
            if sent {
                libc::raise(signal);
            }
        } else if (*previous).sa_flags & libc::SA_SIGINFO != 0 {
            type Full = unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            std::mem::transmute::<usize, Full>(action)(signal, info, context);
        } else {
            type Plain = unsafe extern "C" fn(libc::c_int);
            std::mem::transmute::<usize, Plain>(action)(signal);
        }
    }
}

/// The interrupted stack pointer.
///
/// # Safety
///
/// `context` is the third argument of a signal handler.
unsafe fn stack_pointer(context: *mut libc::c_void) -> usize {
    // SAFETY: the kernel passes a ucontext_t (caller).
    unsafe {
        let machine = &(*context.cast::<libc::ucontext_t>()).uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        return machine.gregs[libc::REG_RSP as usize] as usize;
        #[cfg(target_arch = "aarch64")]
        return machine.sp as usize;
    }
}

/// The interrupted instruction.
///
/// # Safety
///
/// `context` is the third argument of a signal handler.
pub(crate) unsafe fn program_counter(context: *mut libc::c_void) -> usize {
    // SAFETY: the kernel passes a ucontext_t (caller).
    unsafe {
        let machine = &(*context.cast::<libc::ucontext_t>()).uc_mcontext;
        #[cfg(target_arch = "x86_64")]
        return machine.gregs[libc::REG_RIP as usize] as usize;
        #[cfg(target_arch = "aarch64")]
        return machine.pc as usize;
    }
}
