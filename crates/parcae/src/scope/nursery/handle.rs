//! Handles: the result of one child.
//!
//! A waiter is notified in one of two ways (`task::joiner`). A task of the same runtime that joins
//! is noted in the child's record and unparked. All other waiters, and waits that the handle
//! outlives, use an [`End`]; it is made on first use, and noted in the record once and for all. So
//! the note in the record never changes while it can be read.

use super::{Account, ChildCost, NurseryCore, OnFailure};
use crate::base::error::{Detail, Error, ErrorKind, Result, TaskId};
use crate::base::once_box::OnceBox;
use crate::sched::Shared;
use crate::sched::lab::OpKind;
use crate::sched::task::joiner::Joiner;
use crate::sched::task::state::LetGo;
use crate::sched::task::{Task, TaskRef, TaskState};
use crate::sched::worker::{self, point_at, point_at_task};
use crate::scope::budget::{Budget, BudgetPool};
use crate::scope::cx::parking::{Deadline, queue_at_end};
use crate::scope::cx::{self, Here};
use crate::scope::join::{Joinable, with_place};
use crate::wait::{End, Ends, Member, Polled, TaskEnd, WaitNode, Waiter, Why};
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

/// A nursery remembers the place of `cancel` for this many children. Enough for those that are
/// joined soon after; the others have errors without a place.
const PLACES: usize = 64;

/// A child and its result. See [`Nursery::spawn`](crate::Nursery::spawn).
///
/// Dropping it does not cancel the child; the nursery waits for it.
pub struct TaskHandle<'scope, T> {
    task: TaskRef,
    core: &'scope NurseryCore,
    rest: OnceBox<HandleRest>,
    _result: PhantomData<fn() -> T>,
}

/// The part of a handle that most do not have: a handle is moved about more often than it is used.
#[derive(Default)]
struct HandleRest {
    /// The child's own pool, if it has one.
    pool: Option<Arc<BudgetPool>>,
    /// For all waiters other than the one task that joins.
    end: OnceLock<Arc<End<Waiter>>>,
}

// SAFETY: made for any thread: the state word decides who takes the result, which is `Send`.
unsafe impl<T: Send> Send for TaskHandle<'_, T> {}
// SAFETY: a shared handle only reads.
unsafe impl<T: Send> Sync for TaskHandle<'_, T> {}

impl<'scope, T> TaskHandle<'scope, T> {
    pub(super) fn new(
        task: TaskRef,
        core: &'scope NurseryCore,
        pool: Option<Arc<BudgetPool>>,
    ) -> TaskHandle<'scope, T> {
        let rest = match pool {
            None => OnceBox::new(),
            pool => OnceBox::full(HandleRest { pool, end: OnceLock::new() }),
        };
        TaskHandle { task, core, rest, _result: PhantomData }
    }

    /// The point before a join, where the nursery is in the lab.
    #[inline(always)]
    #[track_caller]
    fn point_of_join(&self) {
        if self.core.child_cost == ChildCost::Watched {
            point_at_task(OpKind::Join, self.record().id());
        }
    }

    /// The end of the child, if there were waiters that needed it.
    #[inline]
    fn known_end(&self) -> Option<&Arc<End<Waiter>>> {
        self.rest.get().and_then(|rest| rest.end.get())
    }

    fn own_pool(&self) -> Option<&Arc<BudgetPool>> {
        self.rest.get().and_then(|rest| rest.pool.as_ref())
    }

    fn record(&self) -> &Task {
        // SAFETY: held by this handle.
        unsafe { self.task.task.as_ref() }
    }

    /// Wakes the child early.
    #[cfg(all(test, not(loom)))]
    pub(super) fn wake_early(&self) {
        self.core.settings.shared.unpark(self.task);
    }

    /// Waits until the child has ended, and returns its result.
    ///
    /// A cancel point: if the caller is cancelled it returns at once, and the child continues. If
    /// the child's nursery is cancelled as a whole, the child ends too and is waited for: the
    /// result is the child's own failure, not the cancellation.
    ///
    /// # Errors
    ///
    /// The error of the child, or the cancellation of the caller.
    #[track_caller]
    pub fn join(self) -> Result<T> {
        self.point_of_join();
        self.wait()?;
        self.take()
    }

    /// The result if the child has ended, otherwise the handle. Not a checkpoint, like
    /// [`is_finished`](TaskHandle::is_finished).
    ///
    /// # Errors
    ///
    /// The handle, if the child has not ended.
    #[track_caller]
    pub fn try_join(self) -> Result<Result<T>, TaskHandle<'scope, T>> {
        self.point_of_join();
        self.try_take()
    }

    /// Like [`join`](TaskHandle::join), with a timeout, after which the handle is returned. Under
    /// the deterministic executor time is virtual.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// let rounds = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let mut slow = n.spawn(|cx| cx.sleep(Duration::from_secs(25)))?;
    ///         for round in 1.. {
    ///             match slow.join_timeout(Duration::from_secs(10)) {
    ///                 Ok(result) => return result.map(|()| round),
    ///                 Err(handle) => slow = handle, // and something else can be done
    ///             }
    ///         }
    ///         unreachable!()
    ///     })
    /// })?;
    /// assert_eq!(rounds, 3);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The handle, if the time is up.
    #[track_caller]
    pub fn join_timeout(self, time: Duration) -> Result<Result<T>, TaskHandle<'scope, T>> {
        self.point_of_join();
        self.take_within(time)
    }

    /// The end of the child, for any number of waiters.
    fn own_end(&self) -> &Arc<End<Waiter>> {
        self.rest.get_or_init(HandleRest::default).end.get_or_init(|| {
            let end = Arc::new(End::new());
            let joiner = End::joiner(Arc::clone(&end));
            self.record().joiner.set(Some(joiner));
            if !self.record().state.join() {
                // It has ended and looks for no joiner.
                // SAFETY: JOIN was not set.
                drop(unsafe { End::<Waiter>::of_joiner(joiner) });
                end.notify();
            }
            end
        })
    }

    /// Has a member of a set told when the child ends, by the record or, if there are waiters
    /// already, by their end. Returns false if the child has ended: then nothing is told.
    pub(super) fn tell_member(&self, member: &Arc<Member<Waiter>>, polled: &mut Polled) -> bool {
        if let Some(end) = self.known_end() {
            return !polled.poll(end, &std::task::Waker::from(Arc::clone(member)));
        }
        let joiner = Member::joiner(Arc::clone(member));
        self.record().joiner.set(Some(joiner));
        let told = self.record().state.join();
        if !told {
            // SAFETY: counted above; JOIN was not set.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(member)) };
        }
        told
    }

    /// Drops the handle of a child whose end a member is told of, if that has not happened.
    pub(super) fn leave_member(mut self, member: &Arc<Member<Waiter>>, polled: &mut Polled) {
        if let Some(end) = self.known_end() {
            polled.withdraw(end);
            return; // dropped as any handle with an end
        }
        if self.let_go() == LetGo::Running {
            // SAFETY: counted by `tell_member`; letting go has taken JOIN out, and with it the
            // right to its count.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(member)) };
        }
        drop(self.rest.take());
        std::mem::forget(self); // nothing else is left in it
    }

    /// The nursery of the child.
    pub(super) fn core(&self) -> &'scope NurseryCore {
        self.core
    }

    /// Takes the result of a child that a member was told of.
    pub(super) fn take_told(self, polled: &mut Polled) -> Result<T> {
        if let Some(end) = self.known_end() {
            polled.withdraw(end);
        }
        debug_assert!(self.is_finished(), "told before its end");
        self.take()
    }

    /// The end, to see whether it goes.
    #[cfg(all(test, not(loom)))]
    pub(super) fn weak_end(&self) -> std::sync::Weak<End<Waiter>> {
        Arc::downgrade(self.own_end())
    }

    /// The result of a child that has ended.
    fn take(self) -> Result<T> {
        let mut this = std::mem::ManuallyDrop::new(self);
        drop(this.rest.take());
        // SAFETY: it has ended, so the record is ours. The result is still there, since taking it
        // consumes the handle.
        let output = unsafe { this.output() };
        let output = output.map_err(|error| with_place(error, this.forget_place()));
        this.core.settings.shared.recycle(this.task.task);
        output
    }

    /// # Safety
    ///
    /// The child has ended, and its result was not taken.
    unsafe fn output(&self) -> Result<T> {
        if !self.record().has_output() {
            // The runtime failed before there was one.
            return Err(Error::new(ErrorKind::WorkerPanic));
        }
        // SAFETY: as the caller says; nurseries leave a `Result<T>`.
        unsafe { Task::take_output(self.task.task) }
    }

    #[inline]
    fn wait(&self) -> Result<()> {
        if !self.is_finished() {
            self.wait_unfinished()?;
        }
        worker::waited();
        Ok(())
    }

    /// Out of line, so that joining a child that has ended saves no registers for a wait.
    #[inline(never)]
    fn wait_unfinished(&self) -> Result<()> {
        let here = Here::new();
        let Some(frame) = self.sibling(&here) else {
            // A thread, or a task of another runtime.
            return self.wait_until(Deadline::Never).map(drop);
        };
        let node = WaitNode::new(());
        let queued = match self.known_end() {
            // SAFETY: the node stays here until `queued` is dropped.
            Some(end) => Some(unsafe { queue_at_end(end, &node, frame) }),
            None => {
                self.record().joiner.set(Some(Joiner::task(frame.task())));
                self.record().state.join();
                None
            }
        };
        while !self.is_finished() {
            match frame.park(Why::Task(self.record().id())) {
                Ok(()) if self.is_finished() => {}
                Ok(()) => worker::waits_again(),
                // Its nursery was cancelled, perhaps because this very child has failed:
                // it ends, and says how.
                Err(_) if self.core.settings.node.is_cancelled() && !std::thread::panicking() => {
                    frame.untell(); // the program gets the child's result instead
                    // Looked at again: its end may have caused the wake-up.
                    if !self.is_finished() {
                        frame.leave_to_others(&Why::Task(self.record().id()));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        drop(queued);
        Ok(())
    }

    /// The state of the child at this moment. Not a checkpoint.
    ///
    /// ```
    /// use parcae::inspect::TaskState;
    /// use parcae::prelude::*;
    ///
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let child = n.spawn(|cx| cx.forever(|| Ok(())))?;
    ///         child.cancel();
    ///         while !child.is_finished() {
    ///             cx.yield_now()?;
    ///         }
    ///         assert_eq!(child.state(), TaskState::Cancelled);
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn state(&self) -> TaskState {
        if let Some(state) = cx::live_state(&self.core.settings.shared, self.task) {
            return state;
        }
        // Acquires what the task has left, which the look at its state did not.
        if !self.is_finished() {
            return TaskState::Running; // about to end
        }
        // SAFETY: it has ended; taking the result consumes the handle.
        let cancelled = self.record().has_output()
            && unsafe {
                Task::peek_output(self.task.task, |output: &Result<T>| {
                    output.as_ref().is_err_and(Error::ends_cancelled)
                })
            };
        if cancelled { TaskState::Cancelled } else { TaskState::Completed }
    }

    /// Whether the child has ended. Not a checkpoint: a polling loop needs one of its own, and
    /// [`join`](TaskHandle::join) waits without a loop.
    pub fn is_finished(&self) -> bool {
        self.record().state.is_done(self.task.generation)
    }

    /// Cancels this child, without its siblings. The error of [`join`](TaskHandle::join) names the
    /// place of the first call.
    #[track_caller]
    pub fn cancel(&self) {
        point_at_task(OpKind::Cancel, self.record().id());
        let (id, at) = (self.record().id(), Location::caller());
        let mut places = self.core.cancelled_at.lock();
        if places.iter().all(|&(known, _)| known != id) {
            // Handles that are dropped leave theirs behind.
            if places.len() == PLACES {
                places.remove(0);
            }
            places.push((id, at));
        }
        drop(places);
        self.core.settings.shared.ask_to_end(self.task);
    }

    /// The place where the child was cancelled, which is forgotten.
    #[cold]
    fn forget_place(&self) -> Option<Detail> {
        let mut places = self.core.cancelled_at.lock();
        let found = places.iter().position(|&(id, _)| id == self.record().id());
        found.map(|index| Detail::At(places.swap_remove(index).1))
    }

    /// The budget that the child draws on: its own, or its nursery's.
    pub fn account(&self) -> Account {
        let pool = self.own_pool().unwrap_or(&self.core.settings.pool);
        Account::of(&self.core.settings, pool)
    }

    /// Moves budget from the nursery to a child with a budget of its own, and wakes it if it is
    /// suspended. Has no effect on a child that shares the nursery's budget.
    ///
    /// # Errors
    ///
    /// If the nursery has less, or the capability of the child does not allow it as much. Nothing
    /// is moved then.
    #[track_caller]
    pub fn recharge(&self, amount: Budget) -> Result<()> {
        let Some(pool) = self.own_pool() else { return Ok(()) };
        point_at(OpKind::Recharge, &**pool);
        let above = &self.core.settings.pool;
        // Siblings that have ended may have left some with their last worker.
        let again = |_| {
            self.core.settings.shared.flush_deferred();
            pool.recharge_from(above, amount)
        };
        pool.recharge_from(above, amount)
            .or_else(again)
            .map_err(|(short, cap)| Error::short(short).bounded_by(cap))
    }

    /// The child's number, unique in its runtime.
    pub fn id(&self) -> TaskId {
        TaskId(self.record().id())
    }
}

impl<T> TaskHandle<'_, T> {
    /// Gives the record back if the child has ended, together with its result. The handle must not
    /// be used after this.
    #[inline]
    fn let_go(&mut self) -> LetGo {
        let letting = self.record().state.let_go();
        if letting == LetGo::Running {
            return letting;
        }
        // SAFETY: as in `take`; the handle is not used again.
        let output = unsafe { self.output() };
        self.core.settings.shared.recycle(self.task.task);
        if let Err(error) = output
            && self.core.on_failure != OnFailure::FailFast
            && !error.ends_cancelled()
        {
            self.core.failed(error);
        }
        letting
    }
}

impl<T> Drop for TaskHandle<'_, T> {
    fn drop(&mut self) {
        if self.let_go() == LetGo::Running
            && let Some(end) = self.known_end()
        {
            // SAFETY: made by `End::joiner`; letting go has taken JOIN out, and with it the right
            // to its count.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(end)) };
        }
    }
}

impl<T> Ends for TaskHandle<'_, T> {
    fn has_ended(&self) -> bool {
        self.is_finished()
    }

    fn end(&self) -> TaskEnd<'_> {
        TaskEnd(self.own_end())
    }
}

impl<T> Joinable for TaskHandle<'_, T> {
    type Value = T;

    fn identity(&self) -> (u64, &Arc<Shared>) {
        (self.record().id(), &self.core.settings.shared)
    }

    fn take_result(self) -> Result<T> {
        self.take()
    }

    /// If the nursery is cancelled the child ends too: as in `join`.
    fn interrupted(self, error: Error) -> Result<T> {
        if !self.core.settings.node.is_cancelled() {
            return Err(error);
        }
        self.sibling(&Here::new()).inspect(|frame| frame.untell());
        self.join()
    }
}

/// For async code inside of the nursery, on any executor: the child's result when it has ended.
/// Dropping the future does not cancel the child, as with the handle.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// let sum = rt.run(|cx| {
///     cx.nursery(|n| {
///         let (a, b) = (n.spawn(|_| Ok(20))?, n.spawn(|_| Ok(22))?);
///         parcae::block_on(async { Ok(a.await? + b.await?) })?
///     })
/// })?;
/// assert_eq!(sum, 42);
/// # Ok::<(), parcae::Error>(())
/// ```
impl<'scope, T> IntoFuture for TaskHandle<'scope, T> {
    type Output = Result<T>;
    type IntoFuture = TaskFuture<'scope, T>;

    fn into_future(self) -> TaskFuture<'scope, T> {
        TaskFuture { handle: Some(self), polled: Polled::default() }
    }
}

/// The future of a [`TaskHandle`]. It has the child's borrows, so it cannot leave the nursery:
///
/// ```compile_fail,E0521
/// use parcae::prelude::*;
/// let rt = Runtime::builder().build().unwrap();
/// let mut kept = None;
/// rt.run(|cx| cx.nursery(|n| {
///     kept = Some(n.spawn(|_| Ok(1))?.into_future()); // would outlive what `n` waits for
///     Ok(())
/// })).unwrap();
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct TaskFuture<'scope, T> {
    /// None once it was ready.
    handle: Option<TaskHandle<'scope, T>>,
    polled: Polled,
}

impl<T> Future for TaskFuture<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let handle = this.handle.as_ref().expect("polled after it was ready");
        if !handle.is_finished() && !this.polled.poll(handle.own_end(), context.waker()) {
            return Poll::Pending;
        }
        this.give_up_place();
        match this.handle.take() {
            Some(handle) => Poll::Ready(handle.take()),
            None => unreachable!(),
        }
    }
}

impl<T> TaskFuture<'_, T> {
    fn give_up_place(&mut self) {
        if let Some(end) = self.handle.as_ref().and_then(TaskHandle::known_end) {
            self.polled.withdraw(end);
        }
    }
}

impl<T> Drop for TaskFuture<'_, T> {
    fn drop(&mut self) {
        self.give_up_place();
    }
}

impl<T> fmt::Debug for TaskFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskFuture").field(&self.handle).finish()
    }
}

impl<T> fmt::Debug for TaskHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("id", &self.id())
            .field("finished", &self.is_finished())
            .finish()
    }
}
