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

use super::c_library::{self, Code};
use super::registry::{self, Geometry};
use super::sys::{errno, page_size};
use super::{StackError, StackSize};
use crate::stack::arch::{self, Context};
use crate::stack::fiber::contain::{Containment, StackOverflow};
use std::cell::RefCell;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

/// The label at the top of every stack, which names its user for the handler.
///
/// Written by the owner of the stack only. If a stray pointer of another thread hits the guard,
/// the handler reads the label there and prints what it finds. The fields are atomics so that this
/// is no data race. All accesses are Relaxed and have no partner: the handler uses the values for
/// its report only, except on the thread that wrote them, where program order suffices.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Label {
    id: AtomicU64,
    len: AtomicU32,
    /// Distance from the top of the stack down to the context that a switch away saves; 0 if there
    /// is none. For debuggers, which have no other way to find the context without type
    /// information (`tools/gdb/parcae.py`).
    context: AtomicU32,
    name: [AtomicU64; NAME_WORDS],
}

/// The label id of a strand, on which a scheduler runs tasks.
pub(crate) const TASK: u64 = u64::MAX;

/// The label id of a stack whose closure may be abandoned.
pub(crate) const CONTAINED: u64 = u64::MAX - 1;

const NAME_WORDS: usize = 6;

/// Bytes that a label takes at the top of a stack.
pub(crate) const LABEL_SIZE: usize = size_of::<Label>();

// The numbers in tools/gdb/parcae.py.
const _: () = {
    assert!(LABEL_SIZE == 64);
    assert!(std::mem::offset_of!(Label, id) == 0);
    assert!(std::mem::offset_of!(Label, len) == 8);
    assert!(std::mem::offset_of!(Label, context) == 12);
    assert!(std::mem::offset_of!(Label, name) == 16);
};

impl Label {
    /// Sets the stack's user; id 0 means none. A name is cut at 48 bytes.
    pub(crate) fn set(&self, id: u64, name: &str) {
        let mut end = name.len().min(NAME_WORDS * 8);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = &name.as_bytes()[..end];
        // Relaxed, here and in the rest of this type: see above.
        self.len.store(0, Ordering::Relaxed);
        for (word, chunk) in self.name.iter().zip(bytes.chunks(8)) {
            let mut full = [0; 8];
            full[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(full), Ordering::Relaxed); // see above
        }
        self.id.store(id, Ordering::Relaxed); // see above
        self.len.store(bytes.len() as u32, Ordering::Relaxed); // at most 48
    }

    /// Sets the address where the context of the stack's user is saved.
    pub(crate) fn set_context(&self, context: *const Context) {
        let top = std::ptr::from_ref(self).addr() + LABEL_SIZE;
        // The context is at the top of the stack, so the distance is small. Relaxed: see above.
        self.context.store((top - context.addr()) as u32, Ordering::Relaxed);
    }

    /// Marks the stack as unused.
    pub(crate) fn clear(&self) {
        self.set(0, "");
        self.context.store(0, Ordering::Relaxed); // see above
    }

    /// The name, cut at 48 bytes.
    pub(crate) fn to_name(&self) -> String {
        let mut buffer = [0; NAME_WORDS * 8];
        let len = self.name(&mut buffer);
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    /// The address where the context of the stack's user is saved.
    fn context(&self) -> *mut Context {
        let top = std::ptr::from_ref(self).addr() + LABEL_SIZE;
        // Relaxed: read by the thread that wrote it.
        let below = self.context.load(Ordering::Relaxed) as usize;
        std::ptr::with_exposed_provenance_mut(top - below)
    }

    fn name(&self, buffer: &mut [u8; NAME_WORDS * 8]) -> usize {
        for (word, out) in self.name.iter().zip(buffer.chunks_mut(8)) {
            // Relaxed: for the report only.
            out.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        // Relaxed: as above.
        (self.len.load(Ordering::Relaxed) as usize).min(buffer.len())
    }
}

/// Returns the place where the task that runs on this thread was spawned, if one runs. The handler
/// calls it, so it must not allocate or lock.
pub(crate) type SpawnedAt = fn() -> Option<&'static Location<'static>>;

/// Set by the layer that knows about tasks.
static SPAWNED_AT: OnceLock<SpawnedAt> = OnceLock::new();

/// Has reports say where a task was spawned: many tasks have no name.
pub(crate) fn report_spawned_at(spawned_at: SpawnedAt) {
    let _ = SPAWNED_AT.set(spawned_at); // every runtime sets the same
}

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

/// Installs an alternate signal stack with a guard on this thread, unless it already has one from
/// here. It is removed when the thread ends.
pub(crate) fn arm_thread() -> Result<(), StackError> {
    thread_local! {
        static SIGNAL_STACK: RefCell<Option<SignalStack>> = const { RefCell::new(None) };
    }
    SIGNAL_STACK
        .try_with(|slot| -> Result<(), i32> {
            let mut slot = slot.borrow_mut();
            if slot.as_ref().is_none_or(|stack| !stack.is_installed()) {
                *slot = Some(SignalStack::install()?);
            }
            Ok(())
        })
        // The thread is ending and its thread-local slot is gone. Fibers in destructors of
        // thread-local variables are so rare that their signal stack may leak.
        .unwrap_or_else(|_| SignalStack::install().map(std::mem::forget))
        .map_err(|errno| StackError::SignalStack { errno })
}

/// A mapping: one guard page, then the stack.
struct SignalStack {
    base: NonNull<u8>,
    len: usize,
}

impl SignalStack {
    fn install() -> Result<SignalStack, i32> {
        let page = page_size();
        // SAFETY: queries a constant; 0 if the kernel does not provide it.
        let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        // A signal frame with all vector state, and room for a handler after ours.
        let size = (64 * 1024).max(4 * frame).next_multiple_of(page);
        let len = size + page;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping overlaps no memory in use.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, rw, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(errno());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(libc::ENOMEM)?;
        let stack = SignalStack { base, len };
        let new = libc::stack_t {
            // SAFETY: one page into a mapping that is larger than that.
            ss_sp: unsafe { base.as_ptr().add(page) }.cast(),
            ss_flags: 0,
            ss_size: size,
        };
        // SAFETY: the mapping is new and unused. Its first page becomes the guard, the rest the
        // thread's signal stack, which stays mapped until `drop` has removed it.
        let ok = unsafe {
            libc::mprotect(base.as_ptr().cast(), page, libc::PROT_NONE) == 0
                && libc::sigaltstack(&new, std::ptr::null_mut()) == 0
        };
        // On failure `stack` is dropped, which unmaps it.
        if ok { Ok(stack) } else { Err(errno()) }
    }
}

impl SignalStack {
    /// Whether this is still the thread's signal stack; the standard library removes the installed
    /// one when a thread ends.
    fn is_installed(&self) -> bool {
        // SAFETY: filled by the call.
        let current = unsafe {
            let mut current: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &mut current);
            current
        };
        current.ss_flags & libc::SS_DISABLE == 0
            && current.ss_sp.addr() == self.base.addr().get() + page_size()
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        // SAFETY: removed as the thread's signal stack if it still is, then unmapped.
        unsafe {
            if self.is_installed() {
                let off = libc::stack_t {
                    ss_sp: std::ptr::null_mut(),
                    ss_flags: libc::SS_DISABLE,
                    ss_size: 0,
                };
                libc::sigaltstack(&off, std::ptr::null_mut());
            }
            libc::munmap(self.base.as_ptr().cast(), self.len);
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
        hit.report(sp, kept);
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

/// Why an overflow was not contained. See the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// The stack is not that of a contained closure.
    NotContained,
    CLibrary,
    Unknown,
    Panicking,
    Signal,
    NoRoom,
    Stray,
}

impl Kept {
    fn text(self) -> &'static str {
        match self {
            Kept::NotContained => "",
            Kept::CLibrary => {
                "it happened in the allocator, the C library or the loader, whose locks would \
                 stay taken"
            }
            Kept::Unknown => {
                "the allocator is linked into the same file as the program, so it may have been \
                 interrupted"
            }
            Kept::Panicking => "the closure was panicking",
            Kept::Signal => "a signal handler was running, or the closure had blocked signals",
            Kept::NoRoom => {
                "the stack had no room for a signal frame, and the signal would be lost"
            }
            Kept::Stray => "the access was far below the stack pointer: a pointer was wrong",
        }
    }
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

    fn report(&self, sp: usize, kept: Kept) {
        let mut line = ReportBuffer::new();
        let Some(top) = self.top() else {
            line.text("\nparcae: stray access at ").hex(self.addr);
            line.text(", the guard at the end of an arena of fiber stacks\n");
            line.text("  It belongs to no fiber: a pointer ran past the top of a stack.\n");
            line.write();
            return;
        };
        let bottom = self.guard + self.arena.guard;
        let own = (self.guard..=top).contains(&sp);
        let label = GuardHit::label(top);
        let mut name = [0; NAME_WORDS * 8];
        let len = label.name(&mut name);

        line.text("\nparcae: ");
        if !own {
            line.text("stray access to the guard below the stack of ");
        }
        let id = label.id.load(Ordering::Relaxed); // for the report only
        match id {
            0 => line.text("no fiber"),
            TASK => line.text("a task"),
            CONTAINED => line.text("a closure under Cx::contain_overflow"),
            id => line.text("fiber ").dec(id as usize),
        };
        if len > 0 && id == CONTAINED {
            line.text(" of task");
        }
        if len > 0 {
            line.text(" \"").bytes(&name[..len]).text("\"");
        }
        if own {
            line.text(" overflowed its stack of ").size(top - bottom);
        }
        // The thread runs on this stack, so the task that runs on the thread is the one.
        let known = SPAWNED_AT.get().filter(|_| own && (id == TASK || id == CONTAINED));
        if let Some(at) = known.and_then(|spawned_at| spawned_at()) {
            line.text("\n  The task was spawned at ").text(at.file());
            line.text(":").dec(at.line() as usize).text(":").dec(at.column() as usize);
        }
        line.text("\n  fault at ").hex(self.addr);
        line.text(", stack ").hex(bottom).text("..").hex(top);
        line.text(", stack pointer ").hex(sp).text("\n");
        if kept != Kept::NotContained {
            line.text("  The overflow could not be contained: ").text(kept.text()).text(".\n");
        }
        if own {
            line.text("  Look for unbounded recursion or large local arrays; ");
            if top - bottom < StackSize::MAX.bytes() {
                line.text("to raise the limit, ask for a larger StackSize, e.g. ");
                line.size(2 * (top - bottom)).text(".\n");
            } else {
                line.text("this is the largest StackSize there is: keep large data on the heap.\n");
            }
        } else {
            line.text(
                "  The thread runs on another stack: a pointer was wrong, or a frame without ",
            );
            line.text("stack probes jumped over a guard (see StackOpts::guard_size).\n");
        }
        line.write();
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

/// A message in a fixed buffer; the part that does not fit is cut.
struct ReportBuffer {
    buffer: [u8; 1024],
    len: usize,
}

impl ReportBuffer {
    fn new() -> ReportBuffer {
        ReportBuffer { buffer: [0; 1024], len: 0 }
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut ReportBuffer {
        for &byte in bytes {
            if let Some(place) = self.buffer.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
        self
    }

    fn text(&mut self, text: &str) -> &mut ReportBuffer {
        self.bytes(text.as_bytes())
    }

    fn dec(&mut self, value: usize) -> &mut ReportBuffer {
        self.digits(value, 10)
    }

    /// Appends a size in the format of `StackSize`.
    fn size(&mut self, bytes: usize) -> &mut ReportBuffer {
        if bytes < 1 << 20 {
            self.dec(bytes >> 10).text(" KiB")
        } else {
            self.dec(bytes >> 20).text(" MiB")
        }
    }

    fn hex(&mut self, value: usize) -> &mut ReportBuffer {
        self.text("0x").digits(value, 16)
    }

    fn digits(&mut self, mut value: usize, base: usize) -> &mut ReportBuffer {
        let mut digits = [0; 20];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b"0123456789abcdef"[value % base];
            value /= base;
            if value == 0 {
                return self.bytes(&digits[first..]);
            }
        }
    }

    /// Writes the message to standard error. Async-signal-safe.
    fn write(&self) {
        let mut rest = &self.buffer[..self.len];
        while !rest.is_empty() {
            // SAFETY: writes bytes of the buffer.
            let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(n) if n > 0 => rest = &rest[n..],
                _ => return,
            }
        }
    }
}
