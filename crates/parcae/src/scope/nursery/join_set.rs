//! Sets of children, whose results are taken in the order in which the children end.
//!
//! The protocol is that of `wait::completions`. A [`JoinSet`] has a *seat* for each handle; the
//! member that the child tells of its end has the number of the seat. Seats are reused, so a set
//! needs memory for the handles that it has at the same time, not for all that it ever had.
//!
//! A wait of the set is a cancel point, with the exception that [`TaskHandle::join`] makes: if a
//! nursery of one of the children is cancelled as a whole, a child of it will end soon, and its own
//! failure is a better answer than the cancellation. So the set waits on, without a cancel point.

use super::{NurseryCore, TaskHandle};
use crate::base::error::{Error, ErrorKind, Result};
use crate::scope::cx::parking::{Deadline, borrowed_waiter, charge, checkpoint, wait_in_queue};
use crate::scope::cx::{Frame, Here};
use crate::wait::{
    CaseClaim, Completions, Member, Polled, WaitNode, WaitStanding, Waitable, Waiter, Why,
};
use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Children whose results are taken in the order in which they end.
///
/// Collect handles of [`Nursery::spawn`](crate::Nursery::spawn) in it. Each
/// [`join_next`](JoinSet::join_next) gives one result: the outer `?` is about the caller, which may
/// be cancelled while it waits, the inner one about the child.
///
/// ```
/// use parcae::nursery::JoinSet;
/// use parcae::prelude::*;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let order = rt.run(|cx| {
///     cx.nursery(|n| {
///         let mut sleepers = JoinSet::new();
///         for seconds in [3, 1, 2] {
///             sleepers.insert(n.spawn(move |cx| {
///                 cx.sleep(Duration::from_secs(seconds))?;
///                 Ok(seconds)
///             })?);
///         }
///         let mut order = Vec::new();
///         while let Some(result) = sleepers.join_next()? {
///             order.push(result?);
///         }
///         Ok(order)
///     })
/// })?;
/// assert_eq!(order, [1, 2, 3]);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// The memory of a set is bounded by the number of handles in it. To bound that number, take a
/// result before the next child is spawned:
///
/// ```
/// use parcae::nursery::JoinSet;
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().workers(2).build()?;
/// let sum = rt.run(|cx| {
///     cx.nursery(|n| {
///         let (mut at_work, mut sum) = (JoinSet::new(), 0);
///         for number in 0..100_u64 {
///             if at_work.len() == 8 {
///                 sum += at_work.join_next()?.expect("eight are at work")?;
///             }
///             at_work.insert(n.spawn(move |_| Ok(number * number))?);
///         }
///         for square in at_work { // the rest
///             sum += square?;
///         }
///         Ok(sum)
///     })
/// })?;
/// assert_eq!(sum, 328_350);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// [`select!`](crate::select!) has a case for it: `join_next(set) -> result`.
///
/// Dropping a set drops its handles: the children continue, and their nursery waits for them.
/// Children of different nurseries can be in one set. Results of different types can not; let the
/// children return an `enum`.
pub struct JoinSet<'scope, T> {
    completions: Arc<Completions<Waiter>>,
    seats: Vec<Option<Seat<'scope, T>>>,
    /// Seats without a handle.
    free: Vec<usize>,
    /// The nurseries of the children in the set, and how many of each there are.
    nurseries: Vec<(&'scope NurseryCore, usize)>,
}

struct Seat<'scope, T> {
    handle: TaskHandle<'scope, T>,
    member: Arc<Member<Waiter>>,
    polled: Polled,
}

impl<'scope, T> JoinSet<'scope, T> {
    /// An empty set.
    pub fn new() -> JoinSet<'scope, T> {
        let completions = Completions::new();
        JoinSet { completions, seats: Vec::new(), free: Vec::new(), nurseries: Vec::new() }
    }

    /// Adds a child. One that has ended already counts as ending now.
    pub fn insert(&mut self, handle: TaskHandle<'scope, T>) {
        let key = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        let (member, mut polled) = (Member::new(&self.completions, key), Polled::default());
        let core = handle.core();
        match self.nurseries.iter_mut().find(|(known, _)| std::ptr::eq(*known, core)) {
            Some((_, children)) => *children += 1,
            None => self.nurseries.push((core, 1)),
        }
        if !handle.tell_member(&member, &mut polled) {
            Member::tell(Arc::clone(&member));
        }
        self.seats[key] = Some(Seat { handle, member, polled });
    }

    /// Number of children whose results were not taken.
    pub fn len(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    /// Whether there are no such children.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a child of the set has ended, removes it and returns its result; `None` if the
    /// set is empty. Parks a task, blocks any other thread.
    ///
    /// A checkpoint and a cancel point if it has to wait. If the caller is cancelled, the set keeps
    /// all its children, and the result of none is lost. If the nursery of the children is
    /// cancelled as a whole, they end too and are waited for, as by [`TaskHandle::join`].
    ///
    /// # Errors
    ///
    /// If the caller is cancelled while it waits, or its budget is exhausted. The error of a child
    /// is in the inner result.
    pub fn join_next(&mut self) -> Result<Option<Result<T>>> {
        self.join_next_until(|| Deadline::Never)
    }

    /// Like [`join_next`](JoinSet::join_next), with a timeout. Under the deterministic executor
    /// time is virtual.
    ///
    /// ```
    /// use parcae::nursery::JoinSet;
    /// use parcae::prelude::*;
    /// use std::time::Duration;
    ///
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let mut set = JoinSet::new();
    ///         set.insert(n.spawn(|cx| cx.sleep(Duration::from_secs(90)))?);
    ///         let early = set.join_next_timeout(Duration::from_secs(60)).unwrap_err();
    ///         assert!(matches!(early.kind(), ErrorKind::TimedOut));
    ///         assert_eq!(set.len(), 1); // it is still there
    ///         set.join_next_timeout(Duration::from_secs(60))?.expect("not empty")
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the timeout expires, or as for [`join_next`](JoinSet::join_next).
    pub fn join_next_timeout(&mut self, time: Duration) -> Result<Option<Result<T>>> {
        self.join_next_until(|| Deadline::after(time))
    }

    /// Like [`join_next`](JoinSet::join_next), with a deadline on the clock of
    /// [`time::now`](crate::time::now).
    ///
    /// # Errors
    ///
    /// If the deadline passes, or as for [`join_next`](JoinSet::join_next).
    pub fn join_next_deadline(&mut self, at: Instant) -> Result<Option<Result<T>>> {
        self.join_next_until(|| Deadline::at(at))
    }

    /// The result of the first child that has ended, if one has. Not a checkpoint: a polling loop
    /// needs one of its own.
    pub fn try_join_next(&mut self) -> Option<Result<T>> {
        let key = self.completions.take()?;
        let seat = self.seats[key].take();
        self.free.push(key);
        let Some(Seat { handle, mut polled, .. }) = seat else {
            unreachable!("a member without a seat");
        };
        let core = handle.core();
        if let Some(at) = self.nurseries.iter().position(|(known, _)| std::ptr::eq(*known, core)) {
            self.nurseries[at].1 -= 1;
            if self.nurseries[at].1 == 0 {
                self.nurseries.swap_remove(at);
            }
        }
        Some(handle.take_told(&mut polled))
    }

    /// Cancels all children of the set, without the other children of their nurseries. Their
    /// results are taken as always.
    #[track_caller]
    pub fn cancel_all(&self) {
        self.seats.iter().flatten().for_each(|seat| seat.handle.cancel());
    }

    fn join_next_until(
        &mut self,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Option<Result<T>>> {
        if self.is_empty() {
            return Ok(None);
        }
        if !self.completions.any() {
            self.wait(deadline)?;
        }
        let result = self.try_join_next();
        debug_assert!(result.is_some(), "woken without a child that has ended");
        Ok(result)
    }

    /// Waits until a child has ended.
    #[inline(never)]
    fn wait(&self, deadline: impl FnOnce() -> Deadline) -> Result<()> {
        let (here, node) = (Here::new(), WaitNode::new(()));
        let frame = here.frame();
        let set = &*self.completions;
        let why = Why::signal("for the end of a task in a set", set);
        // SAFETY: the node stays here until it is granted or withdrawn, by `wait_in_queue` at the
        // latest, and the waiter with it. The frame is the caller's.
        let (grant, ended) = unsafe {
            if !set.register(&node, borrowed_waiter(frame), None) {
                return Ok(());
            }
            wait_in_queue(set, &node, frame, why, deadline, || charge(frame))
        };
        match (grant, ended) {
            (Some(_), ended) => {
                if let (Some(frame), Err(_)) = (frame, ended) {
                    frame.untell(); // the program hears of the child, not of the cancellation
                }
                Ok(())
            }
            (None, Ok(_)) => {
                if let Some(frame) = frame {
                    checkpoint(frame)?; // a loop around a wait for no time costs something
                }
                Err(Error::new(ErrorKind::TimedOut))
            }
            (None, Err(error)) => self.wait_on(frame, error, why),
        }
    }

    /// Waits on, though the caller is cancelled, if one of the nurseries is: see the header.
    #[cold]
    fn wait_on(&self, frame: Option<&Frame>, error: Error, why: Why<'_>) -> Result<()> {
        let Some(frame) = frame.filter(|_| error.is_cancelled() && !std::thread::panicking())
        else {
            return Err(error);
        };
        let set = &*self.completions;
        while !set.any() {
            if !self.nurseries.iter().any(|(core, _)| core.settings.node.is_cancelled()) {
                return Err(error);
            }
            let node = WaitNode::new(());
            // SAFETY: the node stays here until it is withdrawn.
            unsafe {
                if set.register(&node, borrowed_waiter(Some(frame)), None) {
                    frame.leave_to_others(&why);
                    set.withdraw(&node);
                }
            }
        }
        frame.untell();
        Ok(())
    }

    /// The part that its children know, to see whether it goes.
    #[cfg(all(test, not(loom)))]
    pub(super) fn weak(&self) -> std::sync::Weak<Completions<Waiter>> {
        Arc::downgrade(&self.completions)
    }

    // ----- a case of a select -----------------------------------------------------------

    /// Whether `try_join_next` has a result.
    pub(crate) fn has_ended(&self) -> bool {
        self.completions.any()
    }

    /// Registers a node of a select, unless a child has ended.
    ///
    /// # Safety
    ///
    /// As for `Queue::push`; the node is withdrawn by [`withdraw`](JoinSet::withdraw).
    pub(crate) unsafe fn register(
        &self,
        node: &WaitNode<Waiter>,
        waiter: Waiter,
        claim: CaseClaim,
    ) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.completions.register(node, waiter, Some(claim)) }
    }

    /// Removes the node of a select, if it is registered.
    ///
    /// # Safety
    ///
    /// The node is used with this set only.
    pub(crate) unsafe fn withdraw(&self, node: &WaitNode<Waiter>) {
        if node.standing() != WaitStanding::Idle {
            // SAFETY: as the caller says.
            unsafe { self.completions.withdraw(node) };
        }
    }
}

impl<T> Drop for JoinSet<'_, T> {
    fn drop(&mut self) {
        self.completions.close();
        for seat in &mut self.seats {
            if let Some(Seat { handle, member, mut polled }) = seat.take() {
                handle.leave_member(&member, &mut polled);
            }
        }
    }
}

impl<T> Default for JoinSet<'_, T> {
    fn default() -> Self {
        JoinSet::new()
    }
}

impl<'scope, T> Extend<TaskHandle<'scope, T>> for JoinSet<'scope, T> {
    fn extend<I: IntoIterator<Item = TaskHandle<'scope, T>>>(&mut self, handles: I) {
        handles.into_iter().for_each(|handle| self.insert(handle));
    }
}

/// `iter.map(|x| n.spawn(…)).collect::<parcae::Result<JoinSet<_>>>()?` spawns a child for each.
impl<'scope, T> FromIterator<TaskHandle<'scope, T>> for JoinSet<'scope, T> {
    fn from_iter<I: IntoIterator<Item = TaskHandle<'scope, T>>>(handles: I) -> Self {
        let mut set = JoinSet::new();
        set.extend(handles);
        set
    }
}

impl<T> fmt::Debug for JoinSet<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<'scope, T> IntoIterator for JoinSet<'scope, T> {
    type Item = Result<T>;
    type IntoIter = InOrder<'scope, T>;

    /// The results in the order in which the children end, each with a wait. If the caller is
    /// cancelled, that is the last item.
    fn into_iter(self) -> InOrder<'scope, T> {
        InOrder { set: self, over: false }
    }
}

/// The results of a [`JoinSet`], in the order in which its children end.
pub struct InOrder<'scope, T> {
    set: JoinSet<'scope, T>,
    /// The caller was cancelled.
    over: bool,
}

impl<T> Iterator for InOrder<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if self.over {
            return None;
        }
        match self.set.join_next() {
            Ok(result) => result,
            Err(error) => {
                self.over = true;
                Some(Err(error))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A cancellation ends it early.
        (usize::from(!self.over && !self.set.is_empty()), Some(self.set.len()))
    }
}

impl<T> FusedIterator for InOrder<'_, T> {}

impl<T> fmt::Debug for InOrder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InOrder").field(&self.set).finish()
    }
}
