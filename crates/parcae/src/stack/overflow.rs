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
//! # Not done: failing the task
//!
//! The handler could send the thread to another stack, fail the task there, and never use its stack
//! again. Memory would stay valid, since frames on the old stack would merely be forgotten. Three
//! things are missing for that to be sound:
//!
//! 1. *Whether the runtime itself was interrupted.* Spawning, yielding and waking change what the
//!    worker owns without a lock, and a fault in the middle leaves it half changed. They are inlined
//!    into functions of the program, so neither the interrupted address nor the frames above it
//!    tell. A mark at the entry of each operation would, for two stores on every hot path; or a
//!    look at the remaining stack there, which also needs a bound on what the runtime uses.
//! 2. *Children.* Those of nurseries that the task has open may borrow, through its frames, from
//!    frames of other tasks. So the task must not count as ended before they have, while nobody is
//!    left on its stack who could wait for them.
//! 3. *A promise of the program* that no frame on the stack relies on being returned from or
//!    dropped, as `std::thread::scope` does: that is what an `unsafe` option would have to demand.

use super::registry::{self, Geometry};
use super::sys::{errno, page_size};
use super::{StackError, StackSize};
use crate::stack::arch::Context;
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
        hit.report(sp);
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
    // SAFETY: the arguments are those of this very signal. Acquire: pairs with the Release in `remember`.
    unsafe { pass_on(PREVIOUS.load(Ordering::Acquire), signal, info, context) }
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

    fn report(&self, sp: usize) {
        let mut line = Line::new();
        let Some(top) = self.top() else {
            line.text("\nparcae: stray access at ").hex(self.addr);
            line.text(", the guard at the end of an arena of fiber stacks\n");
            line.text("  It belongs to no fiber: a pointer ran past the top of a stack.\n");
            line.write();
            return;
        };
        let bottom = self.guard + self.arena.guard;
        let own = (self.guard..=top).contains(&sp);
        // SAFETY: the label is at the top of a stack that is mapped readable (the
        // arena was registered a moment ago); any bytes are a valid label.
        let label = unsafe { &*std::ptr::with_exposed_provenance::<Label>(top - LABEL_SIZE) };
        let mut name = [0; NAME_WORDS * 8];
        let len = label.name(&mut name);

        line.text("\nparcae: ");
        if !own {
            line.text("stray access to the guard below the stack of ");
        }
        match label.id.load(Ordering::Relaxed) {
            0 => line.text("nobody"),
            TASK => line.text("a task"),
            id => line.text("fiber ").dec(id as usize),
        };
        if len > 0 {
            line.text(" \"").bytes(&name[..len]).text("\"");
        }
        if own {
            line.text(" overflowed its stack of ").size(top - bottom);
        }
        line.text("\n  fault at ").hex(self.addr);
        line.text(", stack ").hex(bottom).text("..").hex(top);
        line.text(", stack pointer ").hex(sp).text("\n");
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
struct Line {
    buffer: [u8; 768],
    len: usize,
}

impl Line {
    fn new() -> Line {
        Line { buffer: [0; 768], len: 0 }
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Line {
        for &byte in bytes {
            if let Some(place) = self.buffer.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
        self
    }

    fn text(&mut self, text: &str) -> &mut Line {
        self.bytes(text.as_bytes())
    }

    fn dec(&mut self, value: usize) -> &mut Line {
        self.digits(value, 10)
    }

    /// As `StackSize` is displayed.
    fn size(&mut self, bytes: usize) -> &mut Line {
        if bytes < 1 << 20 {
            self.dec(bytes >> 10).text(" KiB")
        } else {
            self.dec(bytes >> 20).text(" MiB")
        }
    }

    fn hex(&mut self, value: usize) -> &mut Line {
        self.text("0x").digits(value, 16)
    }

    fn digits(&mut self, mut value: usize, base: usize) -> &mut Line {
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
