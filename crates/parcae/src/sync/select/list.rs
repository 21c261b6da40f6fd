//! Lists of cases that are made at run time.

use super::case::{Call, Case, Finish, Goal, Many, Once, Payer, Round};
use super::channels::{RecvCase, SendCase, SendWithCase};
use super::events::{
    ChangeCase, DeadlineCase, DefaultCase, EndedCase, TimeoutCase, TimerCase, TokenCase,
};
use super::{Bias, choose};
use crate::base::error::Result;
use crate::scope::cancel::{CancelReason, CancelToken};
use crate::sync::channel::{
    After, Receiver, RecvError, SendError, Sender, Subscriber, Ticks, Watcher,
};
use crate::wait::Ends;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A case and what belongs to it.
trait Arm<R>: Case {
    fn fire(&mut self) -> R;
}

struct With<C, F> {
    case: C,
    then: F,
}

impl<R, C: Finish, F: Call<C::Given, Output = R>> Arm<R> for With<C, F> {
    fn fire(&mut self) -> R {
        self.then.call(self.case.finish())
    }
}

impl<C: Case, F> Case for With<C, F> {
    fn attempt(&mut self, payer: &Payer) -> bool {
        self.case.attempt(payer)
    }

    fn is_possible(&mut self) -> bool {
        self.case.is_possible()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        self.case.register(round)
    }

    fn unregister(&mut self) {
        self.case.unregister();
    }

    fn conclude(&mut self, payer: &Payer) -> bool {
        self.case.conclude(payer)
    }

    fn is_fleeting(&self) -> bool {
        self.case.is_fleeting()
    }

    fn is_closed(&self) -> bool {
        self.case.is_closed()
    }

    fn timeout(&self) -> Option<Duration> {
        self.case.timeout()
    }

    fn due(&self) -> Option<Instant> {
        self.case.due()
    }

    fn is_default(&self) -> bool {
        self.case.is_default()
    }
}

/// Cases, and what belongs to each: a closure that is called if it is the one that happened. All
/// closures return the same type.
///
/// ```
/// use parcae::channel::channel;
/// use parcae::select::Select;
///
/// let channels: Vec<_> = (0..5).map(|_| channel(1)).collect();
/// channels[3].0.send("found")?;
/// let mut select = Select::new();
/// for (i, (_, rx)) in channels.iter().enumerate() {
///     select.recv(rx, move |word| (i, word));
/// }
/// let (i, word) = select.wait()?;
/// assert_eq!((i, word?), (3, "found"));
/// # Ok::<(), parcae::Error>(())
/// ```
#[must_use = "it does nothing until it waits"]
pub struct Select<'c, R> {
    arms: Vec<Box<dyn Arm<R> + 'c>>,
    bias: Bias,
}

impl<'c, R> Select<'c, R> {
    /// No cases yet.
    pub fn new() -> Select<'c, R> {
        Select { arms: Vec::new(), bias: Bias::None }
    }

    /// The first of the list that is possible happens, not any: cases stand in the order of their
    /// importance.
    pub fn biased(mut self) -> Select<'c, R> {
        self.bias = Bias::First;
        self
    }

    fn add<C: Finish + 'c>(
        &mut self,
        case: C,
        then: impl FnOnce(C::Given) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.arms.push(Box::new(With { case, then: Once::new(then) }));
        self
    }

    /// A receive.
    pub fn recv<T: 'c>(
        &mut self,
        receiver: &'c Receiver<T>,
        then: impl FnOnce(Result<T, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(RecvCase::new(receiver), then)
    }

    /// A send. The value is dropped if another case happens.
    pub fn send<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        value: T,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(SendCase::new(sender, value), then)
    }

    /// A send of what is in an `Option`, where it stays if another case happens. Without a value
    /// the case does not happen.
    pub fn offer<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        value: &'c mut Option<T>,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(SendCase::offer(sender, value), then)
    }

    /// A send of what a closure returns, which is called when sending has become possible, and once
    /// at most. If somebody else is faster then, the value waits as that of [`send`](Select::send)
    /// does, and is dropped if another case happens.
    ///
    /// ```
    /// use parcae::channel::channel;
    /// use parcae::select::Select;
    ///
    /// let ((full, _rx), (free, rx)) = (channel(0), channel(1));
    /// let mut select = Select::new();
    /// select.send_with(&full, || -> u8 { unreachable!("nobody receives") }, |_| "full");
    /// select.send_with(&free, || 7, |sent| sent.map_or("closed", |()| "sent"));
    /// assert_eq!(select.wait()?, "sent");
    /// assert_eq!(rx.recv()?, 7);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn send_with<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        make: impl FnOnce() -> T + 'c,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(super::send_with(sender, make), then)
    }

    /// A point in time that is received: see [`after`](crate::channel::after()) and
    /// [`at`](crate::channel::at()).
    pub fn after(
        &mut self,
        timer: &'c After,
        then: impl FnOnce(Result<Instant, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(TimerCase::new(timer), then)
    }

    /// A tick: see [`tick`](crate::channel::tick()).
    pub fn tick(
        &mut self,
        ticks: &'c Ticks,
        then: impl FnOnce(Result<Instant, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(TimerCase::new(ticks), then)
    }

    /// The next value of a broadcast.
    pub fn next<T: Clone + 'c>(
        &mut self,
        subscriber: &'c mut Subscriber<T>,
        then: impl FnOnce(Result<T, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(ChangeCase::next(subscriber), then)
    }

    /// A change of what is watched.
    pub fn changed<T: 'c>(
        &mut self,
        watcher: &'c mut Watcher<T>,
        then: impl FnOnce(Result<Arc<T>, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(ChangeCase::changed(watcher), then)
    }

    /// A task that ends. Its handle then has the result: joining does not wait.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::select::Select;
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let first = rt.run(|cx| {
    ///     cx.nursery(|n| {
    ///         let mut racers = Vec::new();
    ///         for lane in 0..4 {
    ///             racers.push(n.spawn(move |_| Ok(lane))?);
    ///         }
    ///         let mut select = Select::new();
    ///         for (at, racer) in racers.iter().enumerate() {
    ///             select.ended(racer, move |()| at);
    ///         }
    ///         let first = select.wait()?;
    ///         n.wind_down(); // the others may go home
    ///         racers.swap_remove(first).join()
    ///     })
    /// })?;
    /// assert!(first < 4);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn ended(
        &mut self,
        task: &'c impl Ends,
        then: impl FnOnce(()) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(EndedCase::new(task), then)
    }

    /// A point in time that comes, by the clock of [`time::now`](crate::time::now).
    pub fn deadline(&mut self, at: Instant, then: impl FnOnce(()) -> R + 'c) -> &mut Select<'c, R> {
        self.add(DeadlineCase::new(at), then)
    }

    /// A time that passes, counted from [`wait`](Select::wait).
    pub fn timeout(
        &mut self,
        time: Duration,
        then: impl FnOnce(()) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(TimeoutCase::new(time), then)
    }

    /// A token that is cancelled.
    pub fn cancelled(
        &mut self,
        token: &'c CancelToken,
        then: impl FnOnce(CancelReason) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(TokenCase::new(token), then)
    }

    /// What happens if nothing else is possible at once.
    pub fn default(&mut self, then: impl FnOnce(()) -> R + 'c) -> &mut Select<'c, R> {
        self.add(DefaultCase, then)
    }

    /// Waits until one of the cases has happened, and calls what belongs to it.
    ///
    /// # Errors
    ///
    /// There are no cases, or the task was cancelled or has no budget left: none has happened.
    pub fn wait(mut self) -> Result<R> {
        let winner = self.choose(Goal::Happen)?;
        Ok(self.arms.swap_remove(winner).fire())
    }

    /// Waits until one of the cases is possible, and says which: the how manieth of the list.
    /// Nothing has happened, and by the time that somebody tries, others may have been faster.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Select::wait).
    ///
    /// ```
    /// use parcae::channel::channel;
    /// use parcae::select::Select;
    ///
    /// let ((_a, a_rx), (b, b_rx)) = (channel::<u8>(1), channel(1));
    /// b.send(7)?;
    /// let mut select = Select::new();
    /// select.recv(&a_rx, drop).recv(&b_rx, drop);
    /// assert_eq!(select.ready()?, 1);
    /// assert_eq!(b_rx.try_recv()?, 7); // it is still there
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn ready(&mut self) -> Result<usize> {
        self.choose(Goal::Watch)
    }

    fn choose(&mut self, goal: Goal) -> Result<usize> {
        let mut cases: Vec<&mut dyn Case> =
            self.arms.iter_mut().map(|arm| &mut **arm as &mut dyn Case).collect();
        choose(&mut cases, self.bias, goal)
    }
}

impl<R> Default for Select<'_, R> {
    fn default() -> Self {
        Select::new()
    }
}

impl<R> fmt::Debug for Select<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("cases", &self.arms.len()).finish()
    }
}

/// A list of cases that is waited for again and again. Cases come and go between two waits.
///
/// What belongs to a case is called each time that the case happens. Where [`Select`] takes a value
/// to send, this takes a closure that makes one.
///
/// ```
/// use parcae::channel::channel;
/// use parcae::select::Cases;
///
/// let channels: Vec<_> = (0..3).map(|_| channel(1)).collect();
/// for (i, (tx, _)) in channels.iter().enumerate() {
///     tx.send(i)?;
///     tx.close();
/// }
/// let mut cases = Cases::new();
/// let ids: Vec<_> = channels
///     .iter()
///     .enumerate()
///     .map(|(i, (_, rx))| cases.recv(rx, move |value| (i, value.ok())))
///     .collect();
/// let mut sum = 0;
/// while !cases.is_empty() {
///     match cases.wait()? {
///         (_, Some(value)) => sum += value,
///         (i, None) => assert!(cases.remove(ids[i])), // closed, and empty
///     }
/// }
/// assert_eq!(sum, 3);
/// # Ok::<(), parcae::Error>(())
/// ```
#[must_use = "it does nothing until it waits"]
pub struct Cases<'c, R> {
    /// Numbers only grow.
    arms: Vec<(u64, Box<dyn Arm<R> + 'c>)>,
    next: u64,
    bias: Bias,
}

/// A case of [`Cases`]; of no use for another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaseId(u64);

impl<'c, R> Cases<'c, R> {
    /// No cases yet.
    pub fn new() -> Cases<'c, R> {
        Cases { arms: Vec::new(), next: 0, bias: Bias::None }
    }

    /// From now on the first of the list that is possible happens, not any: in the order in which
    /// they were added.
    pub fn biased(mut self) -> Cases<'c, R> {
        self.bias = Bias::First;
        self
    }

    fn add<C: Finish + 'c>(&mut self, case: C, then: impl FnMut(C::Given) -> R + 'c) -> CaseId {
        let id = self.next;
        self.next += 1;
        self.arms.push((id, Box::new(With { case, then: Many(then) })));
        CaseId(id)
    }

    /// A receive.
    pub fn recv<T: 'c>(
        &mut self,
        receiver: &'c Receiver<T>,
        then: impl FnMut(Result<T, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(RecvCase::new(receiver), then)
    }

    /// A send of what a closure returns, each time. It is called when sending has become possible;
    /// if somebody else is faster then, the value waits for the next time.
    pub fn send_with<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        mut make: impl FnMut() -> T + 'c,
        then: impl FnMut(Result<(), SendError<T>>) -> R + 'c,
    ) -> CaseId {
        self.add(SendWithCase::of(sender, Many(move |()| make())), then)
    }

    /// The next value of a broadcast.
    pub fn next<T: Clone + 'c>(
        &mut self,
        subscriber: &'c mut Subscriber<T>,
        then: impl FnMut(Result<T, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(ChangeCase::next(subscriber), then)
    }

    /// A change of what is watched.
    pub fn changed<T: 'c>(
        &mut self,
        watcher: &'c mut Watcher<T>,
        then: impl FnMut(Result<Arc<T>, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(ChangeCase::changed(watcher), then)
    }

    /// A task that ends. It stays ended: a case to be removed.
    pub fn ended(&mut self, task: &'c impl Ends, then: impl FnMut(()) -> R + 'c) -> CaseId {
        self.add(EndedCase::new(task), then)
    }

    /// A token that is cancelled. It stays cancelled: a case to be removed.
    pub fn cancelled(
        &mut self,
        token: &'c CancelToken,
        then: impl FnMut(CancelReason) -> R + 'c,
    ) -> CaseId {
        self.add(TokenCase::new(token), then)
    }

    /// A point in time that is received, once: see [`after`](crate::channel::after()) and
    /// [`at`](crate::channel::at()).
    pub fn after(
        &mut self,
        timer: &'c After,
        then: impl FnMut(Result<Instant, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(TimerCase::new(timer), then)
    }

    /// A tick: see [`tick`](crate::channel::tick()).
    pub fn tick(
        &mut self,
        ticks: &'c Ticks,
        then: impl FnMut(Result<Instant, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(TimerCase::new(ticks), then)
    }

    /// A time that passes, counted from each [`wait`](Cases::wait).
    pub fn timeout(&mut self, time: Duration, then: impl FnMut(()) -> R + 'c) -> CaseId {
        self.add(TimeoutCase::new(time), then)
    }

    /// Takes a case out, and drops what belongs to it; false if it is not in the list any more.
    pub fn remove(&mut self, case: CaseId) -> bool {
        let found = self.arms.binary_search_by_key(&case.0, |(id, _)| *id);
        found.map(|at| self.arms.remove(at)).is_ok()
    }

    /// How many cases there are.
    pub fn len(&self) -> usize {
        self.arms.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    /// Waits until one of the cases has happened, and calls what belongs to it.
    ///
    /// # Errors
    ///
    /// There are no cases, or the task was cancelled or has no budget left: none has happened.
    pub fn wait(&mut self) -> Result<R> {
        let winner = self.choose(Goal::Happen, None)?;
        Ok(self.arms[winner].1.fire())
    }

    /// The same, if a case is possible at once; none if there is none.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Cases::wait); but no cases are none that are possible.
    pub fn try_wait(&mut self) -> Result<Option<R>> {
        let winner = self.choose(Goal::Happen, Some(&mut DefaultCase))?;
        Ok(self.arms.get_mut(winner).map(|(_, arm)| arm.fire()))
    }

    /// Waits until one of the cases is possible, and says which. Nothing has happened, and by the
    /// time that somebody tries, others may have been faster.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Cases::wait).
    pub fn ready(&mut self) -> Result<CaseId> {
        let found = self.choose(Goal::Watch, None)?;
        Ok(CaseId(self.arms[found].0))
    }

    /// The same, if a case is possible at once; none if there is none.
    ///
    /// # Errors
    ///
    /// As for [`try_wait`](Cases::try_wait).
    pub fn try_ready(&mut self) -> Result<Option<CaseId>> {
        let found = self.choose(Goal::Watch, Some(&mut DefaultCase))?;
        Ok(self.arms.get(found).map(|(id, _)| CaseId(*id)))
    }

    /// With what else happens, behind all cases, if it is given.
    fn choose(&mut self, goal: Goal, otherwise: Option<&mut DefaultCase>) -> Result<usize> {
        let arms = self.arms.iter_mut().map(|(_, arm)| &mut **arm as &mut dyn Case);
        let otherwise = otherwise.map(|default| default as &mut dyn Case);
        let mut cases: Vec<&mut dyn Case> = arms.chain(otherwise).collect();
        choose(&mut cases, self.bias, goal)
    }
}

impl<R> Default for Cases<'_, R> {
    fn default() -> Self {
        Cases::new()
    }
}

impl<R> fmt::Debug for Cases<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cases").field("cases", &self.arms.len()).finish()
    }
}
