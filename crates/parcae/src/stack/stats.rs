//! Counters of a stack pool.

/// A snapshot of a pool's counters. Other threads keep running while it is taken, so the counters
/// need not belong to the same instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackStats {
    /// Address space reserved, in bytes. Mostly not resident; see
    /// [`StackPool::resident`](super::StackPool::resident).
    pub reserved: usize,
    /// Mappings that hold the reserved address space.
    pub arenas: usize,
    /// Stacks that were used at least once.
    pub created: usize,
    /// Stacks in use now.
    pub in_use: usize,
    /// Stacks that overflowed and were abandoned, see
    /// [`Cx::contain_overflow`](crate::Cx::contain_overflow). They are never used again and never
    /// unmapped, and count against [`StackOpts::max_stacks`](super::StackOpts::max_stacks).
    pub quarantined: usize,
    /// Idle stacks in the caches of workers.
    pub cached: usize,
    /// Idle stacks in the shared pool that keep their memory.
    pub warm: usize,
    /// Idle stacks in the shared pool that gave their memory back.
    pub cold: usize,
    /// How often a stack gave its memory back because there were too many idle.
    pub trims: u64,
    /// How often a stack was cleared between trust domains.
    pub wipes: u64,
    /// Stacks that have no guard.
    pub unguarded: usize,
}
