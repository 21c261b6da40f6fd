//! Stacks for fibers: reserved in large arenas, guarded, pooled, accounted.
//!
//! ```
//! use parcae::stack::{StackPool, StackSize};
//!
//! let pool = StackPool::new()?;
//! let stack = pool.acquire(StackSize::SERVICE)?;
//! assert_eq!(stack.size(), StackSize::SERVICE);
//! println!("guards: {}", pool.guard());
//! drop(stack);
//! assert_eq!(pool.stats().in_use, 0);
//! # Ok::<(), parcae::stack::StackError>(())
//! ```
//!
//! # How it is laid out
//!
//! ```text
//! StackPool ── shared by all threads; one mutex per size class
//!   class 256 KiB
//!     arena (one mmap, 64 MiB … 1 GiB, MAP_NORESERVE, no huge pages)
//!     │ guard │ stack 0 ......▲ │ guard │ stack 1 ......▲ │ … │ guard │
//!     └ base   └ bottom      top│                              end ┘
//!                     grows down│label: 64 bytes that name the stack's user
//!     free lists: warm (memory kept) · cold (memory given back) · raw (never used)
//! StackCache ── one per thread, owned; a LIFO list per size class, no lock
//! ```
//!
//! A stack's bookkeeping (`StackSlot`, 32 bytes) is outside of the stack, so that a
//! free list never touches memory that was given back, and an overflow cannot
//! reach it. Virtual memory is reserved, not committed: a stack costs the pages
//! that were touched, usually one or two, whatever its size.
//!
//! # Who owns a stack
//!
//! A slot is in exactly one place: a free list of its class (owned by the class
//! mutex), a list of a [`StackCache`] (owned by the cache), or a [`Stack`] (owned
//! by its holder). A stack that was abandoned in the middle of a function is in quarantine:
//! it is never used again.
//!
//! Every slot outside of the shared free lists holds one strong reference to the pool, which the
//! slow path takes and returns. Dropping the last reference unmaps the arenas, so arenas are
//! unmapped only when every slot is back in a free list.
//!
//! # Costs
//!
//! | operation | locks | system calls |
//! |---|---|---|
//! | [`StackCache::acquire`]/[`release`](StackCache::release), warm | – | – |
//! | the same, cache empty or full | class mutex, once per 32 | – |
//! | first use of a slot | class mutex | 1 (its guard, for the life of the pool) |
//! | arena growth | class mutex | 3–4 |
//! | release above the watermark | class mutex, once per 32 | – with a `Trimmer`; otherwise 1 for each 32 (memory given back) |
//!
//! # Guards
//!
//! Linux ≥ 6.13 keeps guards in the page tables (`MADV_GUARD_INSTALL`): no extra
//! mapping per stack, a million of them under default limits. Older kernels need
//! `mprotect`, which splits a mapping in three; the pool then admits as many stacks
//! as `vm.max_map_count` allows, and its error names that limit. [`StackPool::guard`] returns
//! the kind in use.
//!
//! # Exhaustion
//!
//! No call in this module aborts or leaks when a system call fails: the failure becomes a
//! [`StackError`] that names the limit and how to raise it. `tests.rs` fails each call of a
//! scenario in turn and checks that nothing is lost. The exception is the heap memory of the
//! handles themselves: creating a pool or a cache allocates a few bytes as the standard library
//! does, and aborts if there are none.

pub(crate) mod arch;
mod arena;
mod c_library;
mod cache;
mod error;
#[doc(hidden)]
pub mod fiber;
pub(crate) mod frames;
#[cfg_attr(
    not(feature = "foreign"),
    allow(dead_code, unreachable_pub, reason = "code is announced through `foreign`")
)]
pub(crate) mod generated;
mod guard;
mod handle;
mod opts;
mod overflow;
mod pool;
mod prefetch;
mod program;
mod registry;
mod size;
mod stats;
mod sys;
mod valgrind;

pub use cache::StackCache;
pub use error::{Limit, StackError};
pub use guard::{GuardKind, GuardPolicy};
pub use handle::Stack;
pub use opts::{OnOverflow, StackOpts, TrustDomain, Zeroing};
pub use pool::StackPool;
pub(crate) use pool::{Pace, Trimmer};
pub use size::StackSize;
pub use stats::StackStats;

pub(crate) use overflow::{
    CONTAINED, TASK, arm_containing, arm_thread, pass_on, program_counter, report_spawned_at,
    stay_loaded,
};
pub(crate) use prefetch::prefetch;

#[cfg(test)]
mod tests;
