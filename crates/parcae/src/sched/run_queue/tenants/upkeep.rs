//! Accounts for time outside of tasks: work of the runtime itself, and blocking calls.
//!
//! | account | charged by | with |
//! |---|---|---|
//! | [`UpkeepKind::Timers`] | a worker that acts on deadlines | time on the clock |
//! | [`UpkeepKind::Polls`] | a worker that looks for events and deadlines between two tasks | the same |
//! | [`UpkeepKind::Monitor`] | the monitor, after each check | its processor time |
//! | `TenantAccount::blocked` of the caller's tenant | the thread that made a blocking call | time on the clock |
//!
//! A worker's turn is charged by the clock, from its beginning to its end. Upkeep in between moves
//! the beginning of the turn by the time that it took (`FairWorker::spend_outside`), so each
//! nanosecond of a worker is charged to one account. Blocking calls do not run on workers; their
//! time is shown beside the tenant's own, and does not count for its share.
//!
//! Under the deterministic executor all of this takes no time: only polls and calls are counted,
//! since the executor fires timers itself. Without tenants there are no accounts, and no clock is
//! read for them.
//!
//! A blocking call that was left running may end when its tenant is closed and the slot has another
//! identity. Then the default entity is charged.
//!
//! Relaxed throughout: each is a sum of figures that nothing else depends on.

use super::table::TenantAccount;
use crate::base::shim::atomic::Ordering;
use crate::base::time::Nanos;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Work of the runtime itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpkeepKind {
    /// Acting on deadlines: waking sleepers, expiring tokens with their callbacks.
    Timers,
    /// Looking for events of descriptors and for deadlines, between two tasks.
    Polls,
    /// Checks of the monitor.
    Monitor,
}

/// The accounts of the runtime.
#[derive(Default)]
pub(super) struct UpkeepAccounts([UpkeepAccount; 3]);

#[derive(Default)]
struct UpkeepAccount {
    passes: AtomicU64,
    nanos: AtomicU64,
}

/// The account of one kind of upkeep at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UpkeepReading {
    pub(crate) passes: u64,
    pub(crate) nanos: Nanos,
}

impl UpkeepAccounts {
    pub(super) fn add(&self, kind: UpkeepKind, took: Nanos) {
        let account = &self.0[kind as usize];
        account.passes.fetch_add(1, Ordering::Relaxed); // figures
        account.nanos.fetch_add(took, Ordering::Relaxed); // figures
    }

    /// All accounts, in the order of [`UpkeepKind`].
    pub(super) fn read(&self) -> [UpkeepReading; 3] {
        [0, 1, 2].map(|at| UpkeepReading {
            passes: self.0[at].passes.load(Ordering::Relaxed), // figures
            nanos: self.0[at].nanos.load(Ordering::Relaxed),   // figures
        })
    }
}

/// The account that a blocking call is charged to.
pub(crate) struct BlockingAccount {
    own: Arc<TenantAccount>,
    /// How often the account had been given to another tenant when the call was made.
    owners: u64,
    default: Arc<TenantAccount>,
}

impl BlockingAccount {
    pub(super) fn new(own: &Arc<TenantAccount>, default: &Arc<TenantAccount>) -> BlockingAccount {
        let owners = own.owners.load(Ordering::Relaxed); // see `charge`
        BlockingAccount { own: Arc::clone(own), owners, default: Arc::clone(default) }
    }

    /// A call has ended that took so long.
    pub(crate) fn charge(self, took: Nanos) {
        // Relaxed: the slot may get another owner at this moment, and then the charge is lost with
        // the other figures of the former owner, or is one of the new owner's. Figures.
        let is_same = self.own.owners.load(Ordering::Relaxed) == self.owners;
        let account = if is_same { &self.own } else { &self.default };
        account.calls.fetch_add(1, Ordering::Relaxed); // as above
        account.blocked.fetch_add(took, Ordering::Relaxed); // as above
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_outlives_its_tenant_is_charged_to_the_default_entity() {
        let (own, default) = (Arc::<TenantAccount>::default(), Arc::<TenantAccount>::default());
        let (in_time, late) =
            (BlockingAccount::new(&own, &default), BlockingAccount::new(&own, &default));
        in_time.charge(3);
        let read = |account: &TenantAccount| {
            let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed); // one thread
            (read(&account.calls), read(&account.blocked))
        };
        assert_eq!((read(&own), read(&default)), ((1, 3), (0, 0)));
        own.reset();
        late.charge(5);
        assert_eq!((read(&own), read(&default)), ((0, 0), (1, 5)));
    }
}
