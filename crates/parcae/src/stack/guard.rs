//! Guards: pages below each stack that fault.

use super::error::{Limit, StackError, map_count, map_count_limit};
use super::sys::{Errno, Sys, page_size};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a stack must have a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardPolicy {
    /// No guard, no stack: acquiring fails instead. The default.
    Required,
    /// A guard where the system allows one; otherwise a stack without, counted in
    /// [`StackStats::unguarded`](super::StackStats::unguarded).
    Preferred,
    /// No guards: an overflow silently overwrites the neighbouring stack. For
    /// measuring, or where every function checks its stack by itself.
    Off,
}

/// How guards are made on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardKind {
    /// Markers in the page tables (`MADV_GUARD_INSTALL`, Linux ≥ 6.13): no
    /// mapping per guard, so no limit to their number.
    PageTable,
    /// Pages without permissions (`mprotect`): two more mappings per stack, so
    /// `vm.max_map_count` limits how many stacks there can be.
    Mprotect,
    /// None.
    Off,
}

impl fmt::Display for GuardKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GuardKind::PageTable => "page-table markers",
            GuardKind::Mprotect => "mprotect",
            GuardKind::Off => "off",
        })
    }
}

/// How many mprotect guards exist in this process. Counted per process and not per pool, because
/// `vm.max_map_count` limits the process. Relaxed throughout: a count that orders no other access.
static MPROTECTED: AtomicU64 = AtomicU64::new(0);

/// Makes guards for one pool.
pub(super) struct Guards {
    pub(super) policy: GuardPolicy,
    /// The kind that the probe found; a single guard may still fall back to the next kind.
    pub(super) kind: GuardKind,
    /// The most mprotect guards that may exist before new ones are refused.
    mprotect_limit: u64,
}

impl Guards {
    /// Tries a guard on a scratch mapping.
    pub(super) fn probe(policy: GuardPolicy, sys: &dyn Sys) -> Result<Guards, StackError> {
        let kind = if policy == GuardPolicy::Off {
            GuardKind::Off
        } else {
            let page = page_size();
            let scratch = sys.reserve(page).map_err(|errno| StackError::Reserve {
                bytes: page,
                limit: Limit::diagnose(errno, page),
            })?;
            let works = sys.install_guard(scratch, page).is_ok();
            // Nothing can be done if this fails, and a page of address space is
            // not worth an error.
            let _ = sys.unreserve(scratch, page);
            if works { GuardKind::PageTable } else { GuardKind::Mprotect }
        };
        // Leave a tenth of the limit to the rest of the process.
        let free = (map_count_limit() / 10 * 9).saturating_sub(map_count());
        // Existing guards are among the mappings that were just counted. Relaxed: a count.
        let exist = MPROTECTED.load(Ordering::Relaxed);
        Ok(Guards { policy, kind, mprotect_limit: exist + free / 2 })
    }

    #[cfg(test)]
    pub(super) fn limit_mprotect(&mut self, limit: u64) {
        // Relaxed: a count.
        self.mprotect_limit = MPROTECTED.load(Ordering::Relaxed) + limit;
    }

    /// Installs a guard and returns its kind.
    pub(super) fn install(
        &self,
        sys: &dyn Sys,
        addr: NonNull<u8>,
        len: usize,
    ) -> Result<GuardKind, StackError> {
        let installed = match self.kind {
            GuardKind::Off => return Ok(GuardKind::Off),
            GuardKind::PageTable => match sys.install_guard(addr, len) {
                Ok(()) => Ok(GuardKind::PageTable),
                // EINVAL after a successful probe means that memory was locked since then
                // (mlockall). An mprotect guard still works.
                Err(libc::EINVAL) => self.protect(sys, addr, len).map_err(|e| match e {
                    StackError::Guard { kind, limit: Limit::Other { errno: libc::EINVAL } } => {
                        StackError::Guard { kind, limit: Limit::MemoryLocked }
                    }
                    other => other,
                }),
                Err(errno) => Err(refused(GuardKind::PageTable, errno, len)),
            },
            GuardKind::Mprotect => self.protect(sys, addr, len),
        };
        match installed {
            Err(_) if self.policy == GuardPolicy::Preferred => Ok(GuardKind::Off),
            other => other,
        }
    }

    fn protect(
        &self,
        sys: &dyn Sys,
        addr: NonNull<u8>,
        len: usize,
    ) -> Result<GuardKind, StackError> {
        // Relaxed, here and below: the limit holds because the update is one read-modify-write.
        let admitted = MPROTECTED
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < self.mprotect_limit).then_some(n + 1)
            })
            .is_ok();
        if !admitted {
            let limit = Limit::MapCount { limit: map_count_limit(), used: map_count() };
            return Err(StackError::Guard { kind: GuardKind::Mprotect, limit });
        }
        sys.protect_guard(addr, len).map_err(|errno| {
            MPROTECTED.fetch_sub(1, Ordering::Relaxed); // a count
            refused(GuardKind::Mprotect, errno, len)
        })?;
        Ok(GuardKind::Mprotect)
    }

    /// Records that `count` mprotect guards were unmapped with their arena.
    pub(super) fn forget_mprotect(count: u64) {
        MPROTECTED.fetch_sub(count, Ordering::Relaxed); // a count
    }
}

fn refused(kind: GuardKind, errno: Errno, len: usize) -> StackError {
    StackError::Guard { kind, limit: Limit::diagnose(errno, len) }
}
