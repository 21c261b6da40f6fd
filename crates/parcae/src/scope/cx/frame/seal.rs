//! A sealed frame: the task is a stage of a realtime island (`scope::island`), and its code must
//! neither allocate nor wait without a deadline.
//!
//! Usual tasks pay nothing for that: a sealed frame *looks like one that owes memory*, which every
//! wait and every slow checkpoint tests for anyway. Its `memory` lies so far below zero that no
//! debt reaches it ([`SEALED`]). Its former value, and the memory in the account, are put aside
//! until the seal is lifted. So:
//!
//! | event | the test that exists | then |
//! |---|---|---|
//! | an allocation, with [`Allocator`](crate::Allocator) | less than no memory is left | it is counted, and the next checkpoint is told |
//! | a checkpoint, on the slow path | memory is owed | fails if something was allocated |
//! | a wait | memory is owed | fails unless it has a deadline |
//!
//! Spawns, nurseries and blocking calls ask by themselves, on paths that usual tasks do not take.
//!
//! The runtime's own work for the stage is not sealed ([`Frame::unsealed`]): waiting for the next
//! period may add a chunk to a timing wheel, and an error has to be made somewhere.

use super::Frame;
use crate::base::error::{Error, ErrorKind, IslandRefused, Result};

/// The `memory` of a sealed frame that has allocated nothing.
const SEALED: i64 = i64::MIN / 2;

/// The memory of a frame before it was sealed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OuterMemory {
    memory: i64,
    account: u64,
}

impl Frame {
    /// Whether its code is sealed.
    #[inline]
    pub(crate) fn is_sealed(&self) -> bool {
        self.memory.get() < SEALED / 2
    }

    /// Seals the code of the task.
    pub(crate) fn seal(&self) -> OuterMemory {
        let account = self.account.get();
        self.account.set(account.with_memory(0));
        OuterMemory { memory: self.memory.replace(SEALED), account: account.memory }
    }

    /// Lifts the seal.
    pub(crate) fn lift_seal(&self, outer: OuterMemory) {
        let change = self.memory.get().saturating_sub(SEALED);
        self.memory.set(match outer.memory {
            i64::MAX => i64::MAX, // not counted
            memory => memory.saturating_add(change),
        });
        self.account.set(self.account.get().with_memory(outer.account));
    }

    /// Runs a part of the runtime on behalf of sealed code, or code that is not sealed.
    pub(crate) fn unsealed<R>(&self, part: impl FnOnce() -> R) -> R {
        struct Reseal<'f>(&'f Frame, i64, u64);
        impl Drop for Reseal<'_> {
            fn drop(&mut self) {
                self.0.memory.set(self.1);
                // Memory that the part has allocated was not paid for: its end is no credit.
                self.0.allocated.set(self.2);
            }
        }
        let seal = || Reseal(self, self.memory.replace(i64::MAX), self.allocated.get());
        let _reseal = self.is_sealed().then(seal);
        part()
    }

    /// Refuses an operation to sealed code.
    #[inline]
    pub(crate) fn refuse_sealed(&self, what: IslandRefused) -> Result<()> {
        if self.is_sealed() { Err(self.breach(what)) } else { Ok(()) }
    }

    /// Fails if sealed code has allocated.
    pub(crate) fn check_seal(&self) -> Result<()> {
        let seal = self.settings().context.and_then(|own| self.settings().shared.queues.seal(own));
        match seal.and_then(|seal| seal.take_allocations()) {
            None => Ok(()),
            Some(what) => Err(self.breach(what)),
        }
    }

    /// The frame owes memory, because more was allocated than there is, or because it is sealed.
    #[cold]
    pub(super) fn owes(&self, bytes: usize) {
        self.record().signal.hint();
        if self.is_sealed()
            && let Some(own) = self.settings().context
            && let Some(seal) = self.settings().shared.queues.seal(own)
        {
            seal.allocated(bytes);
        }
    }

    /// A breach by sealed code: counts it, ends the context if the island says so, and returns the
    /// error.
    #[cold]
    pub(crate) fn breach(&self, what: IslandRefused) -> Error {
        self.unsealed(|| {
            if let Some(own) = self.settings().context {
                let queues = &self.settings().shared.queues;
                let ends = queues.seal(own).is_some_and(|seal| seal.breached(what));
                let end = if ends { queues.context_end(own) } else { None };
                if let Some(end) = end.and_then(|end| end.upgrade()) {
                    end.expire();
                }
            }
            Error::new(ErrorKind::IslandRefused(what))
        })
    }
}
