//! Options of a stack pool.

use super::GuardPolicy;

/// Options of a [`StackPool`](super::StackPool).
///
/// ```
/// use parcae::stack::{GuardPolicy, StackOpts, StackPool};
///
/// let pool = StackPool::with(
///     StackOpts::new()
///         .guard(GuardPolicy::Required)
///         .guard_size(64 * 1024) // for C code built without stack probes
///         .max_stacks(10_000),
/// )?;
/// # Ok::<(), parcae::stack::StackError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StackOpts {
    pub(super) guard: GuardPolicy,
    pub(super) guard_size: usize,
    pub(super) max_stacks: usize,
    pub(super) keep_warm: usize,
    pub(super) zeroing: Zeroing,
    pub(super) on_overflow: OnOverflow,
}

impl StackOpts {
    /// Guards required, one page each; no limit but the system's; 256 idle stacks
    /// per size kept warm; no zeroing; overflows reported.
    pub fn new() -> StackOpts {
        StackOpts {
            guard: GuardPolicy::Required,
            guard_size: 0,
            max_stacks: usize::MAX,
            keep_warm: 256,
            zeroing: Zeroing::Never,
            on_overflow: OnOverflow::Report,
        }
    }

    /// Whether a stack without a guard may be handed out.
    pub fn guard(mut self, policy: GuardPolicy) -> StackOpts {
        self.guard = policy;
        self
    }

    /// Size of each guard, rounded up to whole pages; one page by default.
    ///
    /// Rust touches every page of a large frame in order, so one page catches
    /// every overflow of Rust code. C code built without
    /// `-fstack-clash-protection` can jump over a page in one step: give it 64 KiB.
    pub fn guard_size(mut self, bytes: usize) -> StackOpts {
        self.guard_size = bytes;
        self
    }

    /// The most stacks that may be in use or kept by caches at once, over all sizes.
    pub fn max_stacks(mut self, count: usize) -> StackOpts {
        self.max_stacks = count;
        self
    }

    /// The watermark: how many idle stacks of each size keep their memory in the
    /// shared pool. Those above it are given back to the system: a system call at each
    /// release, so set it near the number of fibers that come and go.
    pub fn keep_warm(mut self, count: usize) -> StackOpts {
        self.keep_warm = count;
        self
    }

    /// Whether a stack is cleared when it passes from one trust domain to another.
    pub fn zeroing(mut self, zeroing: Zeroing) -> StackOpts {
        self.zeroing = zeroing;
        self
    }

    /// The response to a stack overflow.
    pub fn on_overflow(mut self, on_overflow: OnOverflow) -> StackOpts {
        self.on_overflow = on_overflow;
        self
    }
}

impl Default for StackOpts {
    fn default() -> StackOpts {
        StackOpts::new()
    }
}

/// When the memory of a recycled stack is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Zeroing {
    /// The next user of a stack can read what the last one left there, if it
    /// tries (uninitialised memory in `unsafe` or C code).
    Never,
    /// A stack that goes to another [`TrustDomain`] is cleared first: one system
    /// call and a page fault, at that hand-over only.
    BetweenDomains,
}

/// The response to a stack overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnOverflow {
    /// Print to standard error which fiber it was, its size and how to raise it, and abort
    /// (SIGABRT). A debugger or a core file shows the place: `bt` works on fibers.
    ///
    /// Installs a SIGSEGV handler for the process, once, and an alternate signal
    /// stack for each thread that runs fibers. Faults that are not an overflow go
    /// on to the handler that was installed before.
    Report,
    /// Do nothing: no handler, no signal stack, and the handler installed for other pools ignores
    /// the guards of this one. The process's own disposition of SIGSEGV applies.
    Fault,
}

/// A set of tasks that may see each other's leftover stack contents: [`Zeroing`] clears a stack
/// when it changes domains. Created by
/// [`StackPool::trust_domain`](super::StackPool::trust_domain); unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrustDomain(pub(super) u64);

impl TrustDomain {
    /// The domain of stacks that are acquired without naming one.
    pub const DEFAULT: TrustDomain = TrustDomain(1);
    /// The domain of a stack that holds no data: never used, or cleared.
    pub(super) const BLANK: TrustDomain = TrustDomain(0);
}
