//! Errors of stack allocation: the limit that was hit, and how to raise it.

use super::{GuardKind, StackSize};
use std::{fmt, io};

/// Why a stack could not be allocated.
///
/// A failed call leaves the pool unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// The requested size is 0 or above [`StackSize::MAX`].
    Size {
        /// The requested size in bytes.
        requested: usize,
    },
    /// The requested guard is absurdly large.
    GuardSize {
        /// The requested size in bytes.
        requested: usize,
    },
    /// The pool's own limit was reached, [`StackOpts::max_stacks`](super::StackOpts::max_stacks).
    PoolLimit {
        /// The limit.
        max_stacks: usize,
    },
    /// The system refused to reserve memory.
    Reserve {
        /// The requested size in bytes.
        bytes: usize,
        /// The limit that was hit, as far as it can be told.
        limit: Limit,
    },
    /// A guard could not be installed, and the policy requires one.
    Guard {
        /// The kind of guard that was tried.
        kind: GuardKind,
        /// The limit that was hit, as far as it can be told.
        limit: Limit,
    },
    /// There is no heap memory for the pool's own records.
    Heap {
        /// The requested size in bytes.
        bytes: usize,
    },
    /// The alternate signal stack, which overflow reports run on, could not be
    /// set up for this thread.
    SignalStack {
        /// The error number of the system call.
        errno: i32,
    },
}

/// The system limit behind a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The limit of the process's address space (`RLIMIT_AS`).
    AddressSpace {
        /// The limit in bytes.
        limit: u64,
        /// The address space in use, in bytes.
        used: u64,
    },
    /// The limit of the process's mappings (`vm.max_map_count`).
    MapCount {
        /// The limit.
        limit: u64,
        /// How many the process has.
        used: u64,
    },
    /// The kernel does not overcommit memory (`vm.overcommit_memory` = 2).
    Overcommit,
    /// The process locks all its memory (`mlockall`), which forbids guards in
    /// page tables.
    MemoryLocked,
    /// The process locks all its memory (`mlockall`) and has reached its limit of locked memory
    /// (`RLIMIT_MEMLOCK`).
    LockedMemory {
        /// The limit in bytes.
        limit: u64,
    },
    /// The limit of the process's writable memory (`RLIMIT_DATA`).
    Data {
        /// The limit in bytes.
        limit: u64,
    },
    /// None of the known limits.
    Other {
        /// The error number of the system call.
        errno: i32,
    },
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackError::Size { requested } => write!(
                f,
                "a stack of {requested} bytes is not possible: choose between 1 byte and {}; \
                 sizes are rounded up to a power of two of at least {}",
                StackSize::MAX,
                StackSize::MIN,
            ),
            StackError::GuardSize { requested } => write!(
                f,
                "a guard of {requested} bytes is not possible: choose at most {}; \
                 64 KiB is enough for C code without stack probes",
                StackSize::MAX,
            ),
            StackError::PoolLimit { max_stacks } => write!(
                f,
                "all {max_stacks} stacks of this pool are in use or kept by its caches: raise \
                 StackOpts::max_stacks, drop fibers that have ended (they keep their stack), or \
                 start the next closure on one of them"
            ),
            StackError::Reserve { bytes, limit } => {
                write!(f, "cannot reserve {} KiB for fiber stacks: {limit}", bytes / 1024)
            }
            StackError::Guard { kind, limit } => {
                write!(f, "cannot install a stack guard ({kind}): {limit}")
            }
            StackError::Heap { bytes } => write!(
                f,
                "no heap memory left for {bytes} bytes of stack bookkeeping: \
                 the process is out of memory"
            ),
            StackError::SignalStack { errno } => write!(
                f,
                "cannot set up the signal stack that overflow reports need: {}; \
                 StackOpts::on_overflow(OnOverflow::Fault) needs none",
                io::Error::from_raw_os_error(*errno)
            ),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::AddressSpace { limit, used } => write!(
                f,
                "the process may use {} MiB of address space (RLIMIT_AS) and uses {} MiB; \
                 raise it with `ulimit -v`, or choose a smaller stack size",
                limit >> 20,
                used >> 20
            ),
            Limit::MapCount { limit, used } => write!(
                f,
                "the process may have {limit} memory mappings (vm.max_map_count) and has {used}, \
                 and stacks leave a tenth of them to the rest of the process; raise it with \
                 `sysctl -w vm.max_map_count={}`, or run on Linux 6.13 or newer, where guards need \
                 no mappings",
                limit.saturating_mul(4)
            ),
            Limit::Overcommit => f.write_str(
                "the kernel does not overcommit memory (vm.overcommit_memory = 2), and stacks are \
                 reserved in advance; allow it with `sysctl -w vm.overcommit_memory=0`, or choose \
                 a smaller stack size",
            ),
            Limit::MemoryLocked => f.write_str(
                "all memory of the process is locked (mlockall), which forbids guards in page \
                 tables, and mprotect did not work either; lock with MCL_ONFAULT or choose \
                 GuardPolicy::Preferred",
            ),
            Limit::LockedMemory { limit } => write!(
                f,
                "all memory of the process is locked (mlockall), of which it may have {} KiB \
                 (RLIMIT_MEMLOCK); raise it with `ulimit -l`",
                limit >> 10
            ),
            Limit::Data { limit } => write!(
                f,
                "the process may have {} MiB of writable memory (RLIMIT_DATA), which reserved \
                 stacks count against; raise it with `ulimit -d`, or choose a smaller stack size",
                limit >> 20
            ),
            Limit::Other { errno } => {
                write!(f, "{}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for StackError {}

impl Limit {
    /// Finds the limit that made a mapping call fail with `errno`. Slow (it reads `/proc`), and a
    /// best guess: another thread may have changed the figures since.
    pub(super) fn diagnose(errno: i32, wanted: usize) -> Limit {
        if errno == libc::EAGAIN {
            return Limit::LockedMemory { limit: resource_limit(libc::RLIMIT_MEMLOCK) };
        }
        if errno != libc::ENOMEM {
            return Limit::Other { errno };
        }
        let address_space = resource_limit(libc::RLIMIT_AS);
        let used = address_space_used();
        if used.saturating_add(wanted as u64) > address_space {
            return Limit::AddressSpace { limit: address_space, used };
        }
        let data = resource_limit(libc::RLIMIT_DATA);
        if (status_kib("VmData:") * 1024).saturating_add(wanted as u64) > data {
            return Limit::Data { limit: data };
        }
        let maps = map_count();
        let map_limit = map_count_limit();
        // A guard in the middle of a mapping needs two more.
        if maps + 2 >= map_limit {
            return Limit::MapCount { limit: map_limit, used: maps };
        }
        if read_number("/proc/sys/vm/overcommit_memory") == Some(2) {
            return Limit::Overcommit;
        }
        Limit::Other { errno }
    }
}

/// `vm.max_map_count`, or the kernel's default where it cannot be read.
pub(super) fn map_count_limit() -> u64 {
    read_number("/proc/sys/vm/max_map_count").unwrap_or(65_530)
}

/// How many mappings this process has; 0 where it cannot be read.
pub(super) fn map_count() -> u64 {
    std::fs::read("/proc/self/maps")
        .map(|maps| maps.iter().filter(|&&byte| byte == b'\n').count() as u64)
        .unwrap_or(0)
}

fn resource_limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills the struct that it is given.
    unsafe { libc::getrlimit(resource, &mut limit) };
    limit.rlim_cur
}

/// A figure that the kernel gives in KiB; 0 where it cannot be read.
fn status_kib(field: &str) -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| {
            let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
            rest.split_whitespace().next()?.parse().ok()
        })
        .unwrap_or(0)
}

fn address_space_used() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0);
    pages * super::sys::page_size() as u64
}

fn read_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
