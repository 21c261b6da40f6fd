//! Overflow: who ran into which guard, said from a signal handler, then abort.
//!
//! The handler runs on an alternate stack (the fiber's own is exhausted) that has a
//! guard of its own. It decides by the faulting address alone whether a guard of a
//! registered arena was hit, prints with `write(2)` from a fixed buffer, and aborts.
//! Everything else goes on to the handler that was installed before, as if this one
//! were not there. Nothing here allocates, locks or formats through `std::fmt`.
//!
//! Why abort: the code that overflowed holds locks and half-built values, and a
//! signal handler can neither unwind it nor leave it. Code that checks its remaining
//! stack at function entry fails softly long before.
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
//! whatever points there goes on pointing to what it did. Nothing there points to frames that go
//! on, because the closure and its result are `'static`. To leave a frame without its destructors
//! is the same as `mem::forget`, which safe code must expect, but for the half-done work of the
//! innermost functions: that is what the promise is about.
//!
//! Why a separate stack, and not that of the task: frames between the base of the task and the
//! guard hit could be anybody's, among them nurseries, whose children borrow from those frames, and
//! the runtime's own, which change the worker's queues without a lock. A closure that is called
//! from one place, borrows nothing and cannot reach its `Cx` has none of them below it.
//!
//! Why returning is enough: the kernel saved the mask and the state of the signal stack when it
//! called the handler, and puts both back when the handler returns, to wherever the context says by
//! then. So SIGSEGV is not left blocked, and the next overflow is noticed as this one was, with or
//! without SA_NODEFER. A `longjmp` out of the handler would owe all of that. The switch itself
//! needs no stack of the side that it leaves.
//!
//! The handler aborts all the same, and the report says why ([`Kept`]), if
//!
//! - the interrupted instruction is in the allocator, the C library, the loader or the unwinder, or
//!   it is not known where those are (`c_library.rs`): their locks would stay taken;
//! - the thread is panicking: its count of panics, which is the standard library's, would stay
//!   raised;
//! - signals are blocked that were not when the closure was entered: the fault happened in another
//!   signal's handler, which may have interrupted anything, or where the C library does not want to
//!   be interrupted;
//! - the kernel found no room on the stack for another signal's frame: that signal would be lost;
//! - the access was far below the stack pointer: no function does that to its own frame, so a
//!   pointer was wrong. Compilers touch large frames page by page from above.
//!
//! Any other guard, that of a task or of a fiber which the closure itself resumes, is as fatal as
//! ever. "Own" is decided by the stack pointer: it is on the stack whose guard was hit, so the
//! thread that faulted is the one that runs the closure, and it reads and writes what is its own.

use super::c_library::{self, Code};
use super::registry::{self, Geometry};
use super::sys::{errno, page_size};
use super::{StackError, StackSize};
use crate::stack::arch::{self, Context};
use crate::stack::fiber::contain::{Containment, Overflow};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// What the top of every stack says about its user; read by the handler.
///
/// Written by the owner of the stack only. The handler may read it from another
/// thread if a stray pointer hits the guard; it then prints what it finds. Atomics,
/// so that this is no data race; Relaxed, because nothing depends on it.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Label {
    id: AtomicU64,
    len: AtomicU32,
    /// How far below the top of the stack the context is that is saved when the stack is left; 0 if none is. For
    /// debuggers, which have no other way to find it where types are not described (`tools/gdb/parcae.py`).
    context: AtomicU32,
    name: [AtomicU64; NAME_WORDS],
}

/// The id of a stack on which a scheduler runs its tasks.
pub(crate) const TASK: u64 = u64::MAX;

/// The id of a stack on which a closure runs that may be abandoned.
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
    /// Says whose stack this is; 0 if nobody's. A name is cut at 48 bytes.
    pub(crate) fn set(&self, id: u64, name: &str) {
        let mut end = name.len().min(NAME_WORDS * 8);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = &name.as_bytes()[..end];
        self.len.store(0, Ordering::Relaxed);
        for (word, chunk) in self.name.iter().zip(bytes.chunks(8)) {
            let mut full = [0; 8];
            full[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(full), Ordering::Relaxed);
        }
        self.id.store(id, Ordering::Relaxed);
        self.len.store(bytes.len() as u32, Ordering::Relaxed); // at most 48
    }

    /// Says where the context of the stack's user is saved.
    pub(crate) fn set_context(&self, context: *const Context) {
        let top = std::ptr::from_ref(self).addr() + LABEL_SIZE;
        // At the top of the stack, so that the distance is small.
        self.context.store((top - context.addr()) as u32, Ordering::Relaxed);
    }

    /// Says that the stack is nobody's.
    pub(crate) fn clear(&self) {
        self.set(0, "");
        self.context.store(0, Ordering::Relaxed);
    }

    /// The name, as far as it was kept.
    pub(crate) fn to_name(&self) -> String {
        let mut buffer = [0; NAME_WORDS * 8];
        let len = self.name(&mut buffer);
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    /// Where the context of the stack's user is saved.
    fn context(&self) -> *mut Context {
        let top = std::ptr::from_ref(self).addr() + LABEL_SIZE;
        let below = self.context.load(Ordering::Relaxed) as usize;
        std::ptr::with_exposed_provenance_mut(top - below)
    }

    fn name(&self, buffer: &mut [u8; NAME_WORDS * 8]) -> usize {
        for (word, out) in self.name.iter().zip(buffer.chunks_mut(8)) {
            out.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        (self.len.load(Ordering::Relaxed) as usize).min(buffer.len())
    }
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
            // Asked for first and stored before the handler can run.
            if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut previous) != 0 {
                return;
            }
            remember(previous);
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = handler as *const () as usize;
            // What the earlier handler relied on stays true when we call it.
            let inherited = previous.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART);
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | inherited;
            ours.sa_mask = previous.sa_mask;
            stay_loaded();
            let mut replaced: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGSEGV, &ours, &mut replaced);
            if replaced.sa_sigaction != previous.sa_sigaction {
                remember(replaced); // installed by somebody in between
            }
        }
    });
}

/// Keeps the earlier disposition. A few bytes, once per process, never freed.
fn remember(previous: libc::sigaction) {
    // Release: pairs with the Acquire load in `handler`.
    PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
}

/// A library that is unloaded while its handler is installed would leave a trap behind.
pub(crate) fn stay_loaded() {
    // Statically linked programs are never unloaded.
    #[cfg(not(target_feature = "crt-static"))]
    // SAFETY: `info` is filled for an address of this very code; the name is the loader's.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(handler as *const libc::c_void, &mut info) != 0 && !info.dli_fname.is_null()
        {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            libc::dlopen(info.dli_fname, flags);
        }
    }
}

/// Gives this thread an alternate signal stack with a guard, if it has none of
/// ours yet. It is taken back when the thread ends.
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
        // The thread is ending and its slot is gone. Fibers in destructors of thread-local
        // variables are rare enough that their signal stack may stay behind.
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
        // SAFETY: asks for a constant; 0 if the kernel does not tell.
        let frame = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
        // A signal frame with all vector state, and room for a handler after ours.
        let size = (64 * 1024).max(4 * frame).next_multiple_of(page);
        let len = size + page;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping disturbs nobody.
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
        // SAFETY: the first page is ours and unused; the rest becomes the thread's
        // signal stack and stays mapped until `drop` has withdrawn it.
        let ok = unsafe {
            libc::mprotect(base.as_ptr().cast(), page, libc::PROT_NONE) == 0
                && libc::sigaltstack(&new, std::ptr::null_mut()) == 0
        };
        // On failure `stack` is dropped, which unmaps it.
        if ok { Ok(stack) } else { Err(errno()) }
    }
}

impl SignalStack {
    /// Whether this is the thread's signal stack still; the standard library withdraws
    /// whatever is installed when a thread ends.
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
        // SAFETY: withdrawn as signal stack if it still is the thread's, then unmapped.
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
        // SAFETY: the context of this very signal, which is left alone afterwards.
        let kept = match unsafe { hit.abandon(code, context.cast()) } {
            Ok(()) => return,
            Err(kept) => kept,
        };
        hit.report(sp, kept);
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
    // SAFETY: the arguments are those of this very signal. Acquire: pairs with the Release in `remember`.
    unsafe { pass_on(PREVIOUS.load(Ordering::Acquire), signal, info, context) }
}

/// Prepares the process for closures that may be abandoned.
pub(crate) fn arm_containing() {
    c_library::learn();
}

/// Why a closure was not abandoned. See the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Nobody has said that it may be.
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
                "the allocator, the C library or the loader was interrupted, whose locks would stay \
                 taken"
            }
            Kept::Unknown => {
                "it is not known whether the allocator was interrupted, which is linked into the \
                 same file"
            }
            Kept::Panicking => "the closure was panicking",
            Kept::Signal => "a signal handler was running, or the closure had blocked signals",
            Kept::NoRoom => "there was no room for the frame of a signal, which would be lost",
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

    /// The stack that `sp` is on, if there is too little left of it for a signal's frame.
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
        // SAFETY: the label is at the top of a stack that is mapped readable (the arena was
        // registered a moment ago, and is used for the signal at hand only); any bytes are a
        // valid label.
        unsafe { &*std::ptr::with_exposed_provenance::<Label>(top - LABEL_SIZE) }
    }

    /// Sends the thread away from a closure that overflowed its own stack, if that may be
    /// abandoned.
    ///
    /// # Errors
    ///
    /// Why not. Nothing was changed.
    ///
    /// # Safety
    ///
    /// Called by the handler, with its code and context; it returns at once after `Ok`.
    unsafe fn abandon(&self, code: i32, context: *mut libc::ucontext_t) -> Result<(), Kept> {
        /// No compiler touches memory so far below the stack pointer: frames are touched page by
        /// page, while the stack pointer moves. Twice the room that `scope::cx::frame::away` wants for the
        /// allocator.
        const PROBE: usize = 8192;
        // SAFETY: as the caller says.
        let (sp, pc, blocked) = unsafe {
            let blocked = (&raw const (*context).uc_sigmask).cast::<u64>().read();
            (stack_pointer(context.cast()), program_counter(context.cast()), blocked)
        };
        let own = |top: &usize| (self.guard..=*top).contains(&sp);
        let top = self.top().filter(own).ok_or(Kept::NotContained)?;
        let label = GuardHit::label(top);
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
        containment.overflow.set(Some(Overflow { left, needed: left + (bottom - self.addr) }));
        // SAFETY: `to` was saved when the closure was entered, and nobody else resumes it; the
        // closure is never resumed.
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
        match label.id.load(Ordering::Relaxed) {
            0 => line.text("nobody"),
            TASK => line.text("a task"),
            CONTAINED => line.text("a closure under Cx::contain_overflow"),
            id => line.text("fiber ").dec(id as usize),
        };
        if len > 0 && label.id.load(Ordering::Relaxed) == CONTAINED {
            line.text(" of task");
        }
        if len > 0 {
            line.text(" \"").bytes(&name[..len]).text("\"");
        }
        if own {
            line.text(" overflowed its stack of ").size(top - bottom);
        }
        line.text("\n  fault at ").hex(self.addr);
        line.text(", stack ").hex(bottom).text("..").hex(top);
        line.text(", stack pointer ").hex(sp).text("\n");
        if kept != Kept::NotContained {
            line.text("  It could not be contained: ").text(kept.text()).text(".\n");
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

/// Behaves as if our handler were not installed.
///
/// # Safety
///
/// To be called from the handler, with the handler's arguments and the disposition that was in force before.
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
            // Back to the default; a fault happens again on return and ends the
            // process as it would have. A signal that was sent has to be sent again.
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

/// A message in a fixed buffer; what does not fit is cut.
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

    /// As `StackSize` is displayed.
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

    /// To standard error, whatever the state of the process.
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
