//! Children that are futures: tasks whose step is a poll.
//!
//! [`Nursery::spawn_future`] makes a task like any other: it has a record, a group, an account, a
//! handle. The difference is its body. Its worker *calls* it for each poll, on the worker's own
//! strand, with a frame of its own (`cx::frame::packed`). A poll that returns `Pending` returns to
//! the worker's loop, and the task parks without a stack: record and future are all that is left.
//!
//! ```text
//!  record (128 B)             cell (120 B + the future)
//! ┌──────────────┐          ┌──────┬──────┬────────┬──────┬──────────────┬────────┐
//! │ state word   │◄─────────┤ word │ task │ shared │ free │ subscription │ future │
//! │ ParkedFuture ├─────────►└──────┴──────┴────────┴──────┴──────────────┴────────┘
//! └──────────────┘                     ▲ wakers: a pointer each
//! ```
//!
//! # States
//!
//! | state | word of the record | bit NOTIFIED of the cell | owner of the future |
//! |---|---|---|---|
//! | unstarted | QUEUED | clear | the spawner, by the closure in the record |
//! | scheduled | QUEUED | set, or a cancellation | none: the worker that claims the task |
//! | running | OWNED | clear | that worker: the poll |
//! | running, woken | OWNED and WAKE | set | the same |
//! | idle | PARKED | clear | none |
//! | done | DONE, then another life | set for ever | none: the last call has dropped it |
//!
//! The state word (`task::state`) decides who may run the task, and orders one poll after another
//! on whatever worker. NOTIFIED says whether there is a reason to poll. One bit would do if a poll
//! never waited. But code in a poll may call a function that waits, like any task: such a wait
//! consumes the WAKE of the state word, and must not consume the wake of the future.
//!
//! # The protocol
//!
//! - A *wake* sets NOTIFIED (Release). If the bit was clear, it unparks the task. If not, the
//!   thread that set it does that, or has done so.
//! - A *call* finds NOTIFIED or, for other reasons to be called (a cancellation, an early wake),
//!   does not: then it does not poll. Directly before a poll it clears NOTIFIED (Acquire).
//! - After `Pending`, the call subscribes to the nursery's cancellation, unless the subscription of
//!   an earlier call is still queued; looks for a cancellation; and if NOTIFIED is set again, sets
//!   WAKE in the state word itself. Then it returns, and the worker parks the task by a CAS that
//!   fails if WAKE is set.
//!
//! # Why no wake is lost
//!
//! Consider a wake that comes after NOTIFIED was cleared for a poll; its caller has made something
//! true before that, which the poll may have missed. It finds the bit clear, or set by another one
//! in the same situation: one of them unparks. That unpark is a read-modify-write of the state
//! word:
//!
//! 1. before the park: it sets WAKE. Either the park finds it, and the task is queued again; or a
//!    wait in the poll has consumed it. Then that wait has acquired the waker's writes, NOTIFIED
//!    among them, and the look after `Pending` finds it;
//! 2. after the park: it finds PARKED, and queues the task.
//!
//! Either way there is another call, which finds NOTIFIED: only a call clears it. A wake before
//! NOTIFIED is cleared is acquired by the clearing: the poll sees what it was for.
//!
//! # Why no future is polled twice at a time, or after its end
//!
//! A call runs under the claim of the state word, which one worker has at a time. The call that
//! gets `Ready`, an error or a panic drops the future and does not leave a closure for another
//! call.
//!
//! # Wakers
//!
//! A waker is a counted pointer to the cell. It uses the word, the task reference and the
//! scheduler, never the future or anything that the future borrows: it may outlive the task (the
//! reference is stale, and the bit is set for ever, so that a wake does nothing), the nursery, and
//! the runtime (the cell counts the scheduler). The last one to go frees the memory of the cell, on
//! any thread.
//!
//! # Cancelling
//!
//! A cancellation wakes the task through its subscription, which lies in the cell and stays queued
//! from the first park on. The call finds the task cancelled and drops the future where it waits:
//! its destructors run on the task, as those of a closure do. A poll that is running is not
//! disturbed: cancel points that it reaches, the futures of this library among them, return the
//! cancellation as an error. If it returns `Pending` nevertheless, the future is dropped then.
//!
//! # Waits inside a poll
//!
//! A call of a waiting function in a poll (`recv`, `lock`, `sleep`, a nursery, a budget that is
//! used up under [`OnExhausted::Suspend`](crate::OnExhausted)) parks the task on the strand of the
//! call, as any task: it then has a stack and stays on its worker until the poll returns. So it
//! works, and costs what a task of that kind costs. Other futures of the same task, as in a
//! `join!`, do not go on meanwhile.
//!
//! # Moving
//!
//! A future is `Send`, so a parked or woken one may be run by any worker. A task-local value need
//! not be `Send`: a task that has one between two polls stays on its worker.
//!
//! # Rejected
//!
//! A frame that lives as long as the task, in the cell: 470 bytes instead of 24 in the record. A
//! poll on a fiber of its own: that is `block_on`, 4 KB. One bit for both kinds of wake: see above.

mod cell;
mod step;
mod word;

#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use step::ParkedFuture;

use super::spawn::{Extra, Scheduling};
use super::{ChildCost, Nursery, Paid, SpawnOpts, TaskHandle};
use crate::base::error::Result;
use crate::scope::cap::{CapSpawn, TaskPermit};
use crate::scope::cx::Origin;
use crate::scope::profile::{Sovereign, Spawns, SpawnsFreely};
use cell::OwnedFuture;
use std::panic::Location;
use std::sync::Arc;

impl<'scope, P: SpawnsFreely> Nursery<'scope, '_, P> {
    /// Spawns a future as a child: a task without a stack, which takes about 250 bytes beside the
    /// future while it waits.
    ///
    /// The child is in all other respects like that of [`spawn`](Nursery::spawn): the nursery waits
    /// for it, its handle gives its result, an error is a failure, and it is cancelled with the
    /// nursery. Each poll costs one op, and code in it is charged as on any task. Between two polls
    /// the child may move to another worker.
    ///
    /// A child that is cancelled while it waits is not polled again: its future is dropped where it
    /// waits. In a poll that is running, operations of this library return the cancellation as an
    /// error.
    ///
    /// Code in the future may call functions that wait (`recv`, `lock`, `sleep`). Such a call parks
    /// the child with a stack, like a child of `spawn`, until it returns; nothing else of the same
    /// future goes on meanwhile. Use the async form where there is one.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::channel::channel;
    ///
    /// let rt = Runtime::builder().build()?;
    /// let sum = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let (tx, rx) = channel(4);
    ///         let sum = n.spawn_future(async move {
    ///             let mut sum = 0;
    ///             while let Ok(number) = rx.recv_async().await {
    ///                 sum += number;
    ///             }
    ///             Ok(sum)
    ///         })?;
    ///         n.spawn(move |_| (1..=10).try_for_each(|i| Ok(tx.send(i)?)))?; // has a stack
    ///         sum.join()
    ///     })
    /// })?;
    /// assert_eq!(sum, 55);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Nursery::spawn).
    #[track_caller]
    pub fn spawn_future<T, F>(&'scope self, future: F) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: Future<Output = Result<T>> + Send + 'scope,
    {
        self.start_future(None, future)
    }

    /// As [`spawn_future`](Nursery::spawn_future), with options. The stack size is that of the
    /// polls.
    ///
    /// # Errors
    ///
    /// As for [`spawn_with`](Nursery::spawn_with).
    #[track_caller]
    pub fn spawn_future_with<T, F>(
        &'scope self,
        opts: SpawnOpts,
        future: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: Future<Output = Result<T>> + Send + 'scope,
    {
        let (how, extra) = self.prepare_with(opts, None)?;
        self.submit_future(how, Some(extra), future)
    }
}

impl<'scope> Nursery<'scope, '_, Sovereign> {
    /// Spawns a future as a child under a capability: see [`spawn`](Nursery::spawn) for the
    /// capability, and `spawn_future` of the other profiles for the rest.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Nursery::spawn).
    #[track_caller]
    pub fn spawn_future<T, F>(
        &'scope self,
        cap: &CapSpawn,
        future: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: Future<Output = Result<T>> + Send + 'scope,
    {
        self.spawn_future_with(cap, SpawnOpts::new(), future)
    }

    /// As [`spawn_future`](Nursery::spawn_future), with options. A budget is lowered to the limit
    /// of the capability.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Nursery::spawn).
    #[track_caller]
    pub fn spawn_future_with<T, F>(
        &'scope self,
        cap: &CapSpawn,
        opts: SpawnOpts,
        future: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: Future<Output = Result<T>> + Send + 'scope,
    {
        let (how, extra) = self.prepare_with(opts, Some(self.authorize(cap)?))?;
        self.submit_future(how, Some(extra), future)
    }
}

impl<'scope, P: Spawns> Nursery<'scope, '_, P> {
    #[track_caller]
    fn start_future<T, F>(
        &'scope self,
        permit: Option<TaskPermit>,
        future: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: Future<Output = Result<T>> + Send + 'scope,
    {
        self.core.check_open()?;
        let spawned_at = Location::caller();
        let (how, extra) = match self.core.pay(spawned_at)? {
            Paid::Default => (Scheduling::of(&self.core), None),
            Paid::Other(account) => {
                let origin = Origin { name: None, spawned_at };
                (
                    Scheduling::of(&self.core),
                    Some(Extra { origin, account, own: None, permit, bound: None }),
                )
            }
            Paid::Named => {
                let (how, extra) = self.named(SpawnOpts::new(), None, permit)?;
                (how, Some(extra))
            }
        };
        self.submit_future(how, extra, future)
    }

    #[track_caller]
    fn prepare_with(
        &self,
        opts: SpawnOpts,
        cap: Option<(crate::scope::budget::Ceiling, TaskPermit)>,
    ) -> Result<(Scheduling, Extra)> {
        self.core.check_open()?;
        if self.core.child_cost == ChildCost::Watched {
            self.core.point_of_spawn(Location::caller())?;
        }
        let (ceiling, permit) = cap.unzip();
        self.named(opts, ceiling, permit)
    }

    #[track_caller]
    fn submit_future<T, F>(
        &'scope self,
        how: Scheduling,
        extra: Option<Extra>,
        future: F,
    ) -> Result<TaskHandle<'scope, T>>
    where
        T: Send + 'scope,
        F: Future<Output = Result<T>> + Send + 'scope,
    {
        let settings = &self.core.settings;
        let account = extra.as_ref().map_or(settings.default_grant, |extra| extra.account);
        let own = extra.as_ref().and_then(|extra| extra.own.as_ref());
        let pool = own.map(|own| Arc::clone(&own.pool));
        let spawned_at = Location::caller();
        let future = OwnedFuture::new(&settings.shared, future);
        let task = self.submit(how, &account, move |record, start| {
            // SAFETY: a child of this nursery, which is called for the first time.
            unsafe { step::first::<P, T, F>(record, start, future, spawned_at, extra) };
        })?;
        Ok(TaskHandle::new(task, &self.core, pool))
    }
}
