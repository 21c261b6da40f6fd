//! The context of a running task: its account and its place in the tree of cancellation
//! (`frame.rs`), and [`Cx`], the handle through which the task uses them.

mod contain;
mod current;
mod frame;
mod live;
mod loops;
mod meter;
mod nursery;
mod observed;
mod par;
pub(crate) mod parking;
mod period;
mod time;

pub(crate) use current::{Here, spawned_at, with_current};
pub(crate) use frame::OuterMemory;
pub use frame::Preempt;
pub(crate) use frame::{
    FoundLocal, Frame, FrameReader, Grace, Inherited, LONGEST_SLICE, Origin, Outer, PoolOwner,
    Shares, TaskSettings, TurnLength,
};
pub(crate) use frame::{PackedAccount, PackedFrame, PackedLocals};
pub(crate) use live::live_standing;
pub use loops::{Chunks, Each};
pub use meter::Meter;
pub(crate) use observed::{Observed, alone, live_state, suspended_on_own_budget};
pub use period::Job;

use crate::base::error::{Result, TaskInfo};
use crate::sched::Shared;
use crate::sched::task::waker::Waker;
use crate::sched::timers::{ArmedTimer, Due};
use crate::sched::worker;
use crate::scope::budget::Budget;
use crate::scope::cancel::CancelToken;
use crate::scope::described::{Describe, DescribedParts};
use crate::scope::nursery::Account;
use crate::scope::profile::{Profile, Service};
use crate::wait::Why;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The handle of the running task to its runtime: checkpoints, waits, nurseries, budget, and
/// cancellation.
///
/// Every task is handed a `&Cx`. It cannot leave the task: not to another thread, and not to a
/// child, which has its own. The profile `P` determines its operations, see
/// [`profile`](crate::profile).
#[repr(transparent)] // so that `under` only changes the type
pub struct Cx<P: Profile = Service> {
    frame: OwnFrame,
    /// The profile; and neither `Send` nor `Sync`, with a name that the compiler's message shows.
    _profile: PhantomData<(P, *const EachTaskHasItsOwnCx)>,
}

/// Named by the compiler where the `cx` of a task is used in another one: write `|cx| …`, so that
/// the child uses the context that it is called with.
struct EachTaskHasItsOwnCx;

/// The frame of the task, of which the compiler's message need not list every field.
struct OwnFrame(Frame);

// SAFETY: only within a `Cx`, which is not `Sync`.
unsafe impl Sync for OwnFrame {}
// SAFETY: only within a `Cx`, which is not `Send`.
unsafe impl Send for OwnFrame {}

/// The context of a task in memory of its caller, dropped with this.
pub(crate) struct OwnCx<'p, P: Profile>(&'p mut Cx<P>);

impl<P: Profile> Deref for OwnCx<'_, P> {
    type Target = Cx<P>;

    #[inline(always)]
    fn deref(&self) -> &Cx<P> {
        self.0
    }
}

impl<P: Profile> Drop for OwnCx<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: made by `made_in`, and not used after this.
        unsafe { std::ptr::drop_in_place(self.0) };
    }
}

impl<P: Profile> Cx<P> {
    /// A context in this memory, with a frame that `init` makes at an address.
    ///
    /// # Safety
    ///
    /// There is a frame at the address after `init`.
    #[inline(always)]
    pub(crate) unsafe fn made_in(
        place: &mut MaybeUninit<Cx<P>>,
        init: impl FnOnce(NonNull<Frame>),
    ) -> OwnCx<'_, P> {
        // SAFETY: a field of the memory, hence not null.
        init(unsafe { NonNull::new_unchecked(&raw mut (*place.as_mut_ptr()).frame.0) });
        // SAFETY: the other field has no content.
        OwnCx(unsafe { place.assume_init_mut() })
    }

    pub(crate) fn frame(&self) -> &Frame {
        &self.frame.0
    }

    /// The same context under another profile, for adapters that know the runtime's profile at run
    /// time alone.
    pub(crate) fn under<Q: Profile>(&self) -> &Cx<Q> {
        // SAFETY: both are a frame and nothing else (`repr(transparent)`); the profile is a type
        // without content.
        unsafe { &*std::ptr::from_ref(self).cast::<Cx<Q>>() }
    }

    /// The number of the worker that runs the task, from 0. It stays the same, unless the task may
    /// [move](crate::SpawnOpts::migratable).
    pub fn worker(&self) -> usize {
        worker::with_current(|worker| worker.index).unwrap_or(0)
    }

    /// Charges one op of the task's budget, yields to other tasks when the turn is over, and fails
    /// if the task was cancelled.
    ///
    /// A loop that may take long calls this in every round: it costs about a nanosecond. For
    /// short loop bodies see [`chunks`](Cx::chunks).
    ///
    /// # Errors
    ///
    /// If the task was cancelled, or has used up its budget and gets no more. Pass it on with
    /// `?`.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().budget(Budget { ops: 1_000, ..Budget::UNLIMITED }).build()?;
    /// let error = rt.run(|cx| cx.forever(|| Ok(()))).unwrap_err(); // a checkpoint each time
    /// assert!(matches!(error.kind(), ErrorKind::BudgetExceeded(_)));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    #[inline]
    pub fn checkpoint(&self) -> Result<()> {
        if self.frame.0.tick() { Ok(()) } else { self.frame.0.checkpoint_slow() }
    }

    /// Charges any cost to the task's budget, all of it or nothing. For operations that cost more
    /// than one op, such as memory that the allocator does not see. It is a checkpoint: the ops
    /// count towards the task's turn, and the task yields when the turn is over.
    ///
    /// # Errors
    ///
    /// As for [`checkpoint`](Cx::checkpoint).
    pub fn charge(&self, cost: Budget) -> Result<()> {
        self.frame.0.checkpoint_for(cost)
    }

    /// The rest of the task's account, without refills from its nursery.
    pub fn budget(&self) -> Budget {
        self.frame.0.balance()
    }

    /// Calls `round` in a loop, with a checkpoint before each call, until it fails or the task is
    /// cancelled.
    ///
    /// It never returns a value, as its type says: a loop that serves requests has no result.
    ///
    /// ```
    /// use parcae::channel::channel;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let sum = rt.run(|cx| {
    ///     let (sender, receiver) = channel(4);
    ///     cx.nursery(|n| {
    ///         n.spawn(move |cx| {
    ///             let mut next = 0;
    ///             cx.forever(|| {
    ///                 next += 1;
    ///                 Ok(sender.send(next)?)
    ///             })
    ///         })?;
    ///         let mut sum = 0;
    ///         for number in receiver.iter().take(4) {
    ///             sum += number?;
    ///         }
    ///         n.wind_down(); // ends the task above
    ///         Ok(sum)
    ///     })
    /// })?;
    /// assert_eq!(sum, 1 + 2 + 3 + 4);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of `round`; or as for [`checkpoint`](Cx::checkpoint). Where a function has
    /// to return something else, `match cx.forever(…)? {}` does.
    pub fn forever(&self, mut round: impl FnMut() -> Result<()>) -> Result<Infallible> {
        loop {
            self.checkpoint()?;
            round()?;
        }
    }

    /// The budget that this task draws on: its own, that of the nursery that it belongs to, or that
    /// of the one that it has open. With a [`CapBudget`](crate::cap::CapBudget) a task recharges
    /// itself.
    ///
    /// ```
    /// use parcae::cap::{BudgetLimits, Delegation};
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().budget(Budget::SERVICE).build()?;
    /// let spare = Budget::ZERO.with_syscalls(50);
    /// let cap = rt.cap_budget(BudgetLimits::total(spare), Delegation::Forbidden);
    /// rt.run(|cx| {
    ///     cx.charge(Budget::ZERO.with_syscalls(100))?;
    ///     assert!(cx.charge(Budget::SYSCALL).is_err());
    ///     cx.account().recharge(&cap, spare)?;
    ///     cx.charge(Budget::SYSCALL)
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn account(&self) -> Account {
        Account::of(self.frame.0.settings(), self.frame.0.pool())
    }

    /// Yields to other tasks that are ready to run. Costs no budget. A cancel point.
    ///
    /// The task goes behind the tasks of its priority that are ready on its worker. With one
    /// worker, all children that it has spawned with that priority have started when this returns;
    /// with several, another worker may have taken a child and not started it yet. Two exceptions:
    /// a task that may move goes behind the tasks of all workers, in no fixed order with its
    /// children; and of more than 2000 children some may start later, if the task has waited since
    /// it spawned them.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// rt.run(|cx| {
    ///     let has_run = AtomicBool::new(false);
    ///     cx.nursery(|n| {
    ///         n.spawn(|_| {
    ///             has_run.store(true, Ordering::Relaxed);
    ///             Ok(())
    ///         })?;
    ///         cx.yield_now()?;
    ///         assert!(has_run.load(Ordering::Relaxed));
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the task was cancelled.
    pub fn yield_now(&self) -> Result<()> {
        self.frame.0.yield_now()
    }

    /// Waits until the task's [`waker`](Cx::waker) is used. May return early: check the condition
    /// that you wait for, and call it again. The checkpoint comes after the wait: a yield before it
    /// could consume a wake whose reason the caller has not checked yet.
    ///
    /// # Errors
    ///
    /// If the task was cancelled, or has no budget left.
    pub fn park(&self) -> Result<()> {
        self.frame.0.park(Why::Wake)?;
        self.checkpoint()
    }

    /// Runs a closure in which the task may wait for an event from outside of the runtime: another
    /// thread, another runtime, a signal. Such a wait is never reported as a
    /// [deadlock](crate::inspect).
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let (tx, rx) = parcae::channel::channel(1);
    /// let outside = std::thread::spawn(move || tx.send("from outside"));
    /// let said = rt.run(|cx| cx.external(|| Ok(rx.recv()?)))?;
    /// assert_eq!(said, "from outside");
    /// # outside.join().unwrap().unwrap();
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn external<R>(&self, body: impl FnOnce() -> R) -> R {
        self.frame.0.externally(body)
    }

    /// Sleeps for a time. Under the deterministic executor time is virtual, and jumps ahead when no
    /// task can run. A checkpoint that lets other tasks run, even if the time is zero.
    ///
    /// # Errors
    ///
    /// If the task was cancelled, or has used up its budget.
    #[track_caller]
    pub fn sleep(&self, time: Duration) -> Result<()> {
        self.frame.0.sleep_until(self.frame.0.settings().shared.later(time))?;
        self.frame.0.check_cancelled()
    }

    /// A token below [the task's own](Cx::token) that is cancelled after a time, unless the guard
    /// is dropped before.
    pub fn token_with_timeout(&self, time: Duration) -> (CancelToken, Expiry) {
        let (node, grace) = self.frame.0.child_node();
        let shared = &self.frame.0.settings().shared;
        let expiry = shared.at_for(shared.later(time), Due::expire(&node));
        node.set_expires(Some(time));
        (CancelToken::of(&node), Expiry { _deadline: expiry, _grace: grace })
    }

    /// A waker for a [`park`](Cx::park), from any thread, before, during or after it.
    pub fn waker(&self) -> Waker {
        self.frame.0.waker()
    }

    /// Whether the task was cancelled, and no shield holds that off.
    pub fn is_cancelled(&self) -> bool {
        self.frame.0.cancel_reason().is_some()
    }

    /// The token that cancels this task: that of the innermost nursery that it has open, or else of
    /// the nursery that it belongs to.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(self.frame.0.token_node())
    }

    /// Runs a closure that must not be interrupted, such as a clean-up. A cancellation from outside
    /// of the closure takes effect at the first cancel point after it. Nurseries and
    /// [`timeout`](Cx::timeout)s that are opened in the closure are not cancelled from outside
    /// either. Inside they work as always: a child that fails or a deadline that passes cancels
    /// them.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// rt.run(|cx| {
    ///     cx.token().cancel();
    ///     assert!(cx.checkpoint().is_err());
    ///     cx.shield(|| cx.checkpoint())?; // goes on
    ///     assert!(cx.checkpoint().is_err());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn shield<R>(&self, cleanup: impl FnOnce() -> R) -> R {
        self.frame.0.shielded(None, cleanup)
    }

    /// As [`shield`](Cx::shield), for at most the time `grace`. After that the task can be
    /// cancelled again, and so can the nurseries that it has opened in the closure.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// rt.run(|cx| {
    ///     cx.token().cancel();
    ///     let outcome = cx.shield_for(Duration::from_secs(5), || {
    ///         cx.nursery(|n| {
    ///             n.spawn(|cx| cx.sleep(Duration::from_secs(1)))?.join()?; // flushes a file, say
    ///             n.spawn(|cx| cx.forever(|| cx.sleep(Duration::from_secs(1))))?.join() // hangs
    ///         })
    ///     });
    ///     assert!(outcome.unwrap_err().is_cancelled()); // after five seconds
    ///     Ok(())
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn shield_for<R>(&self, grace: Duration, cleanup: impl FnOnce() -> R) -> R {
        self.frame.0.shielded(Some(grace), cleanup)
    }

    /// Announces a part of the program that describes itself: it is shown in dumps, by `parcae top`
    /// and, by its figures, in snapshots and metrics, until it is dropped.
    ///
    /// ```
    /// use parcae::inspect::{Describe, DescribedItem, Description};
    /// use parcae::prelude::*;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// #[derive(Default)]
    /// struct Cache {
    ///     hits: AtomicU64,
    /// }
    ///
    /// impl Describe for Cache {
    ///     fn describe(&self, most: usize) -> Description {
    ///         let mut cache = Description::new("cache `pages`");
    ///         cache.figures.push(("hits", self.hits.load(Ordering::Relaxed)));
    ///         let shelf = |_| DescribedItem::new(0, "shelf", "full");
    ///         cache.items.extend((0..most.min(1)).map(shelf));
    ///         cache
    ///     }
    /// }
    ///
    /// let rt = Runtime::builder().build()?;
    /// let cache = Arc::new(Cache::default());
    /// rt.run(|cx| {
    ///     cx.describe(&cache);
    ///     cache.hits.fetch_add(3, Ordering::Relaxed);
    ///     Ok(())
    /// })?;
    /// assert!(rt.dump().to_string().contains("cache `pages`: hits 3\n  shelf: full"));
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn describe<D: Describe + 'static>(&self, part: &Arc<D>) {
        if let Some(parts) = self.frame.0.settings().shared.part::<DescribedParts>() {
            let part: Weak<D> = Arc::downgrade(part);
            parts.announce(part);
        }
    }

    /// The identity of this task.
    pub fn info(&self) -> TaskInfo {
        self.frame.0.info()
    }

    /// Bytes of stack that are left.
    pub fn stack_left(&self) -> usize {
        self.frame.0.stack_left()
    }

    /// Cuts a range into chunks of at most
    /// [`yield_interval`](crate::runtime::Builder::yield_interval) steps. A checkpoint before each
    /// chunk charges all its steps at once, so that the compiler can unroll and vectorise the inner
    /// loop.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let numbers: Vec<u64> = (0..100_000).collect();
    /// let rt = Runtime::builder().build()?;
    /// let sum = rt.run(|cx| {
    ///     let mut sum = 0;
    ///     for chunk in cx.chunks(0..numbers.len()) {
    ///         sum += numbers[chunk?].iter().sum::<u64>();
    ///     }
    ///     Ok(sum)
    /// })?;
    /// assert_eq!(sum, 4_999_950_000);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn chunks(&self, range: std::ops::Range<usize>) -> Chunks<'_> {
        Chunks { frame: &self.frame.0, rest: range }
    }

    /// An iterator with a checkpoint before each item.
    ///
    /// ```
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let words = rt.run(|cx| {
    ///     let mut words = 0;
    ///     for line in cx.each("one\ntwo three".lines()) {
    ///         words += line?.split_whitespace().count();
    ///     }
    ///     Ok(words)
    /// })?;
    /// assert_eq!(words, 3);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn each<I: IntoIterator>(&self, items: I) -> Each<'_, I::IntoIter> {
        Each { frame: &self.frame.0, items: items.into_iter() }
    }
}

impl<P: Profile> fmt::Debug for Cx<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("task", &self.info()).finish_non_exhaustive()
    }
}

/// Keeps the deadline of a token armed; see [`Cx::token_with_timeout`].
#[must_use = "dropping it takes the deadline back"]
pub struct Expiry {
    _deadline: ArmedTimer<Arc<Shared>>,
    _grace: Option<Grace>,
}

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Expiry")
    }
}
