//! Nurseries: tasks that end before the call that spawned them returns.
//!
//! [`Cx::nursery`](crate::Cx::nursery) works like [`std::thread::scope`]: its body spawns children,
//! which may borrow anything that outlives the call, and the call returns when the body and all
//! children have ended, however the body ends.
//!
//! # States
//!
//! ```text
//!            body returns              all children ended
//!   Open ─────────────────► Closing ────────────────────────► Closed
//!     │                        │
//!     │ cancel: explicit, by the parent, by a failure
//!     ▼                        ▼       all children ended
//!   Cancelling ◄───────────────┘ ────────────────────────────► Cancelled
//! ```
//!
//! The state is not stored. It follows from three facts that only ever go one way, so no other
//! transition is possible: the body has returned (`closing`), the node is cancelled (`cancel`), all
//! children have ended (the group's counter, `task::group`).
//!
//! # Who owns what
//!
//! The [`NurseryCore`] lies on the stack of the task that opened the nursery, which does not leave
//! before its group is empty. Children reach it through their record; they are counted as
//! ended when nothing of them is left that could use it, or anything that was lent to them.
//!
//! `Nursery` is `Sync`: its children may spawn siblings, and so may threads that the body waits
//! for. All of them end before the owner can find its group empty, so the core outlives them. The
//! owner counts its children without atomics, all other threads with one.
//!
//! # Results
//!
//! A child's result stays in its record until its [`TaskHandle`] takes it; if the handle is
//! gone the child drops it itself (`task::state` has the protocol). The first failure is kept
//! in the core, the others are counted. A child that ended because it was cancelled has not
//! failed.

mod account;
mod event;
mod failures;
mod future;
#[cfg_attr(
    not(feature = "foreign"),
    allow(dead_code, unreachable_pub, reason = "public with that feature")
)]
mod handle;
mod join_set;
mod opts;
mod recharge;
mod spawn;
mod spawn_opts;
mod state;
mod tenant;

pub use account::Account;
pub(crate) use event::Hook;
pub use event::NurseryEvent;
pub(crate) use future::ParkedFuture;
pub use handle::{TaskFuture, TaskHandle};
pub use join_set::{InOrder, JoinSet};
pub use opts::{NurseryOpts, OnFailure};
pub use recharge::Recharge;
pub(crate) use spawn_opts::NamedBudget;
pub use spawn_opts::SpawnOpts;
pub(crate) use state::NurseryCore;

use crate::base::error::{Error, ErrorKind, Result, ShareRefused};
use crate::sched::lab::OpKind;
use crate::sched::worker::point_at;
use crate::scope::budget::{Budget, Standing, Suspended};
use crate::scope::cancel::{CancelReason, CancelToken};
use crate::scope::cx::{self, Frame, Shares};
use crate::scope::profile::{Profile, Service, Spawns, SpawnsFreely};
use parcae_core::fair::Weight;
use state::{ChildCost, Paid};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// The five states of a nursery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NurseryState {
    /// Children can be spawned.
    Open,
    /// The body has returned; children run.
    Closing,
    /// The children were cancelled.
    Cancelling,
    /// All children have ended.
    Closed,
    /// All children have ended, after a cancellation.
    Cancelled,
}

impl fmt::Display for NurseryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NurseryState::Open => "open",
            NurseryState::Closing => "closing",
            NurseryState::Cancelling => "cancelling",
            NurseryState::Closed => "closed",
            NurseryState::Cancelled => "cancelled",
        })
    }
}

/// An open nursery, in which children are spawned. See [`Cx::nursery`](crate::Cx::nursery).
///
/// The body may lend it to children, which then spawn siblings as in [`std::thread::scope`]. The
/// nursery's budget pays for them:
///
/// ```
/// use parcae::prelude::*;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// let visited = AtomicUsize::new(0);
/// let rt = Runtime::builder().workers(2).build()?;
/// rt.run(|cx| {
///     cx.nursery(|n| {
///         n.spawn(|_| {
///             for _ in 0..3 {
///                 n.spawn(|_| Ok(visited.fetch_add(1, Ordering::Relaxed)))?; // a sibling
///             }
///             Ok(())
///         })?;
///         Ok(())
///     }) // waits for all four
/// })?;
/// assert_eq!(visited.into_inner(), 3);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// Locals of the body cannot be lent to a child:
///
/// ```compile_fail,E0373
/// use parcae::prelude::*;
/// let rt = Runtime::builder().build().unwrap();
/// rt.run(|cx| cx.nursery(|n| {
///     let local = 1;
///     n.spawn(|_| Ok(local == 1))?; // ends before the child
///     Ok(())
/// })).unwrap();
/// ```
///
/// A child has a [`Cx`](crate::Cx) of its own; that of its parent stays with the parent:
///
/// ```compile_fail,E0277
/// use parcae::prelude::*;
/// let rt = Runtime::builder().build().unwrap();
/// rt.run(|cx| cx.nursery(|n| {
///     n.spawn(|_| cx.checkpoint())?; // write `|cx| cx.checkpoint()`
///     Ok(())
/// })).unwrap();
/// ```
pub struct Nursery<'scope, 'env: 'scope, P: Profile = Service> {
    pub(crate) core: NurseryCore,
    /// The owner's frame, at the base of the stack that this is on; none if a thread owns it
    /// (`foreign`).
    owner: Option<NonNull<Frame>>,
    _profile: PhantomData<P>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// The core of a nursery that a task has opened, dropped with this: nothing else in the nursery is
/// to be dropped.
pub(crate) struct OpenCore(NonNull<NurseryCore>);

impl Drop for OpenCore {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made by `Nursery::open`, and not used after this.
        unsafe { std::ptr::drop_in_place(self.0.as_ptr()) };
    }
}

// SAFETY: `owner` is used by the owner alone, as `recharge` checks; the rest is made for sharing.
unsafe impl<P: Profile> Sync for Nursery<'_, '_, P> {}

impl<P: Profile> Nursery<'_, '_, P> {
    /// Makes a nursery that the running task opens, in this memory: with these options, or a usual
    /// one.
    ///
    /// # Errors
    ///
    /// As for [`Cx::nursery_with`](crate::Cx::nursery_with).
    ///
    /// # Safety
    ///
    /// `place` is memory for a nursery. The rest as for [`NurseryCore::open`]; the nursery is used
    /// by shared references until the result is dropped, and its core is dropped with that.
    #[inline]
    pub(crate) unsafe fn open(
        place: *mut Self,
        frame: &Frame,
        opts: Option<NurseryOpts>,
    ) -> Result<(OpenCore, Shares)> {
        // SAFETY: fields of the memory; those that have content are written.
        unsafe {
            let core = &raw mut (*place).core;
            let shares = NurseryCore::open(&mut *core.cast(), frame, opts)?;
            (&raw mut (*place).owner).write(Some(NonNull::from(frame)));
            Ok((OpenCore(NonNull::new_unchecked(core)), shares))
        }
    }

    /// The nursery of a core. The frame is the owner's; none if a thread owns it.
    #[cfg_attr(not(feature = "foreign"), allow(dead_code, reason = "for owners that are threads"))]
    #[inline]
    pub(crate) fn of(core: NurseryCore, owner: Option<NonNull<Frame>>) -> Self {
        Nursery { core, owner, _profile: PhantomData, _scope: PhantomData, _env: PhantomData }
    }
}

impl<P: Spawns> Nursery<'_, '_, P> {
    /// Cancels the children and the body. The nursery then returns the cancellation as an error,
    /// unless a child has failed before, or the body returns an error of its own.
    #[track_caller]
    pub fn cancel(&self) {
        point_at(OpKind::Cancel, &*self.core.settings.node);
        self.core.settings.node.cancel_at(Location::caller());
    }

    /// Cancels the children and keeps the body's value. For a race that the first to arrive wins:
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let winner = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let fast = n.spawn(|_| Ok("hare"))?;
    ///         n.spawn(|cx| cx.forever(|| Ok(())))?; // the tortoise
    ///         let winner = fast.join()?;
    ///         n.wind_down();
    ///         Ok(winner)
    ///     })
    /// })?;
    /// assert_eq!(winner, "hare");
    /// # Ok::<(), parcae::Error>(())
    /// ```
    #[track_caller]
    pub fn wind_down(&self) {
        self.core.winding_down.store(true, Ordering::Relaxed);
        point_at(OpKind::Cancel, &*self.core.settings.node);
        self.core.cancel(CancelReason::Explicit);
    }

    /// Whether the nursery is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.core.settings.node.is_cancelled()
    }

    /// A token that cancels this nursery, from anywhere.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.core.settings.node)
    }

    /// State of the nursery. While its body runs, that is `Open` or `Cancelling`. A child that was
    /// lent the nursery sees `Closing` too. `Closed` and `Cancelled` are reported to the hook of
    /// [`NurseryOpts::on_event`].
    pub fn state(&self) -> NurseryState {
        self.core.state()
    }

    /// Number of children that have not ended. A child that has just ended may count for a moment.
    pub fn live(&self) -> usize {
        self.core.group.live()
    }

    /// Standing of the nursery's budget.
    pub fn budget(&self) -> Standing {
        cx::live_standing(&self.core.settings.shared, &self.core.settings.pool)
    }

    /// Moves budget from the owner's account into the nursery's, and wakes suspended children. Only
    /// the task that opened the nursery can do that; others recharge its
    /// [`account`](Nursery::account) under a capability.
    ///
    /// # Errors
    ///
    /// If the owner has less, or the caller is another task. Nothing is moved then.
    #[track_caller]
    pub fn recharge(&self, amount: Budget) -> Result<()> {
        point_at(OpKind::Recharge, &*self.core.settings.pool);
        let here = cx::Here::new();
        let owner = here.frame().filter(|frame| self.owner == Some(NonNull::from(*frame)));
        match owner {
            Some(owner) => owner.recharge(&self.core.settings.pool, amount),
            None => Err(Error::msg(
                "only the task that opened a nursery recharges it from its own budget; elsewhere \
                 use `account().recharge` with a `CapBudget`",
            )),
        }
    }

    /// The tasks that wait for a recharge of the nursery's budget, and the resource they lack.
    /// Includes children that wait for a recharge of their own budget by [`TaskHandle::recharge`].
    pub fn suspended(&self) -> Vec<Suspended> {
        let mut tasks = self.core.settings.pool.suspended();
        tasks.extend(cx::suspended_on_own_budget(&self.core.settings));
        tasks
    }

    /// The account of this nursery, to be recharged from elsewhere under a
    /// [`CapBudget`](crate::cap::CapBudget).
    pub fn account(&self) -> Account {
        Account::of(&self.core.settings, &self.core.settings.pool)
    }
}

impl<P: SpawnsFreely> Nursery<'_, '_, P> {
    /// Changes the weight of the tenant that the nursery was opened as
    /// ([`NurseryOpts::share`](crate::NurseryOpts::share)). It holds from the next turn of each
    /// worker on; time that was used stays as it was charged.
    ///
    /// # Errors
    ///
    /// If the nursery was opened without a share.
    pub fn set_share(&self, weight: Weight) -> Result<()> {
        let no_share = || Error::new(ErrorKind::ShareRefused(ShareRefused::NoShare));
        self.core.tenant.as_ref().ok_or_else(no_share)?.reweight(weight);
        Ok(())
    }
}

impl<P: Profile> fmt::Debug for Nursery<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nursery").field("name", &self.core.settings.name).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
