//! Lists of cases made at run time.

use super::case::{Call, CallMany, CallOnce, Case, Finish, Goal, Payer, Round};
use super::channels::{RecvCase, SendCase, SendWithCase};
use super::events::{
    ChangeCase, DeadlineCase, DefaultCase, EndedCase, JoinNextCase, TimeoutCase, TimerCase,
    TokenCase,
};
use super::{Bias, choose};
use crate::base::error::Result;
use crate::scope::cancel::{CancelReason, CancelToken};
use crate::scope::nursery::JoinSet;
use crate::sync::channel::{
    After, Receiver, RecvError, SendError, Sender, Subscriber, Ticks, Watcher,
};
use crate::wait::Ends;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A case and its closure.
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
    fn attempt(&mut self, payer: &Payer<'_>) -> bool {
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

    fn conclude(&mut self, payer: &Payer<'_>) -> bool {
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

/// A list of cases, each with a closure that is called if the case happens. All closures return the
/// same type.
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
    /// An empty list.
    pub fn new() -> Select<'c, R> {
        Select { arms: Vec::new(), bias: Bias::None }
    }

    /// Chooses the first possible case in the order of the list, instead of a random one.
    pub fn biased(mut self) -> Select<'c, R> {
        self.bias = Bias::First;
        self
    }

    fn add<C: Finish + 'c>(
        &mut self,
        case: C,
        then: impl FnOnce(C::Given) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.arms.push(Box::new(With { case, then: CallOnce::new(then) }));
        self
    }

    /// Adds a receive.
    #[track_caller]
    pub fn recv<T: 'c>(
        &mut self,
        receiver: &'c Receiver<T>,
        then: impl FnOnce(Result<T, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(RecvCase::new(receiver), then)
    }

    /// Adds a send. The value is dropped if another case happens.
    pub fn send<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        value: T,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(SendCase::new(sender, value), then)
    }

    /// Adds a send of the value in an `Option`, where it stays if another case happens. A case
    /// without a value never happens.
    pub fn offer<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        value: &'c mut Option<T>,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(SendCase::offer(sender, value), then)
    }

    /// Adds a send of a value that a closure makes. The closure is called at most once, when the
    /// send has become possible. If another sender is faster, the value waits like that of
    /// [`send`](Select::send), and is dropped if another case happens.
    ///
    /// ```
    /// use parcae::channel::channel;
    /// use parcae::select::Select;
    ///
    /// let ((full, _rx), (free, rx)) = (channel(0), channel(1));
    /// let mut select = Select::new();
    /// select.send_with(&full, || -> u8 { unreachable!("there is no receiver") }, |_| "full");
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

    /// Adds a receive from a timer; see [`after`](crate::channel::after()) and
    /// [`at`](crate::channel::at()).
    pub fn after(
        &mut self,
        timer: &'c After,
        then: impl FnOnce(Result<Instant, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(TimerCase::new(timer), then)
    }

    /// Adds a receive of a tick; see [`tick`](crate::channel::tick()).
    pub fn tick(
        &mut self,
        ticks: &'c Ticks,
        then: impl FnOnce(Result<Instant, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(TimerCase::new(ticks), then)
    }

    /// Adds a receive of the next value of a broadcast.
    pub fn next<T: Clone + 'c>(
        &mut self,
        subscriber: &'c mut Subscriber<T>,
        then: impl FnOnce(Result<T, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(ChangeCase::next(subscriber), then)
    }

    /// Adds a change of a watched value.
    pub fn changed<T: 'c>(
        &mut self,
        watcher: &'c mut Watcher<T>,
        then: impl FnOnce(Result<Arc<T>, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(ChangeCase::changed(watcher), then)
    }

    /// Adds the end of a task. Joining its handle does not wait after that.
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
    ///         n.wind_down(); // cancels the others
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

    /// Adds the end of a child in a set. Never happens while the set is empty.
    pub fn join_next<'scope: 'c, T: 'c>(
        &mut self,
        set: &'c mut JoinSet<'scope, T>,
        then: impl FnOnce(Result<T>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(JoinNextCase::new(set), then)
    }

    /// Adds a deadline on the clock of [`time::now`](crate::time::now).
    pub fn deadline(&mut self, at: Instant, then: impl FnOnce(()) -> R + 'c) -> &mut Select<'c, R> {
        self.add(DeadlineCase::new(at), then)
    }

    /// Adds a timeout, which counts from [`wait`](Select::wait).
    pub fn timeout(
        &mut self,
        time: Duration,
        then: impl FnOnce(()) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(TimeoutCase::new(time), then)
    }

    /// Adds the cancellation of a token.
    pub fn cancelled(
        &mut self,
        token: &'c CancelToken,
        then: impl FnOnce(CancelReason) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(TokenCase::new(token), then)
    }

    /// Adds the case that happens if no other one is possible at once.
    pub fn default(&mut self, then: impl FnOnce(()) -> R + 'c) -> &mut Select<'c, R> {
        self.add(DefaultCase, then)
    }

    /// Waits until one of the cases has happened, and calls its closure.
    ///
    /// # Errors
    ///
    /// If there are no cases, the task is cancelled, or its budget is exhausted. No case has
    /// happened.
    #[track_caller]
    pub fn wait(mut self) -> Result<R> {
        let winner = self.choose(Goal::Happen)?;
        Ok(self.arms.swap_remove(winner).fire())
    }

    /// Waits until one of the cases is possible, and returns its index. The case has not happened,
    /// and other tasks may make it impossible before it is tried.
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
    #[track_caller]
    pub fn ready(&mut self) -> Result<usize> {
        self.choose(Goal::Watch)
    }

    #[track_caller]
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

/// A reusable list of cases. Cases can be added and removed between two waits.
///
/// The closure of a case is called each time the case happens. A send takes a closure that makes
/// the value, not a value as in [`Select`].
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
    /// In ascending order of their numbers.
    arms: Vec<(u64, Box<dyn Arm<R> + 'c>)>,
    next: u64,
    bias: Bias,
}

/// A case of [`Cases`]. Valid for the list that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaseId(u64);

impl<'c, R> Cases<'c, R> {
    /// An empty list.
    pub fn new() -> Cases<'c, R> {
        Cases { arms: Vec::new(), next: 0, bias: Bias::None }
    }

    /// Chooses the first possible case in the order in which they were added, instead of a random
    /// one.
    pub fn biased(mut self) -> Cases<'c, R> {
        self.bias = Bias::First;
        self
    }

    fn add<C: Finish + 'c>(&mut self, case: C, then: impl FnMut(C::Given) -> R + 'c) -> CaseId {
        let id = self.next;
        self.next += 1;
        self.arms.push((id, Box::new(With { case, then: CallMany(then) })));
        CaseId(id)
    }

    /// Adds a receive.
    #[track_caller]
    pub fn recv<T: 'c>(
        &mut self,
        receiver: &'c Receiver<T>,
        then: impl FnMut(Result<T, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(RecvCase::new(receiver), then)
    }

    /// Adds a send of values that a closure makes. It is called when the send has become possible.
    /// If another sender is faster, the value is kept for the next time.
    pub fn send_with<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        mut make: impl FnMut() -> T + 'c,
        then: impl FnMut(Result<(), SendError<T>>) -> R + 'c,
    ) -> CaseId {
        self.add(SendWithCase::of(sender, CallMany(move |()| make())), then)
    }

    /// Adds a receive of the next value of a broadcast.
    pub fn next<T: Clone + 'c>(
        &mut self,
        subscriber: &'c mut Subscriber<T>,
        then: impl FnMut(Result<T, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(ChangeCase::next(subscriber), then)
    }

    /// Adds a change of a watched value.
    pub fn changed<T: 'c>(
        &mut self,
        watcher: &'c mut Watcher<T>,
        then: impl FnMut(Result<Arc<T>, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(ChangeCase::changed(watcher), then)
    }

    /// Adds the end of a task. It stays possible after that, so the case should be removed.
    pub fn ended(&mut self, task: &'c impl Ends, then: impl FnMut(()) -> R + 'c) -> CaseId {
        self.add(EndedCase::new(task), then)
    }

    /// Adds the cancellation of a token. It stays possible after that, so the case should be
    /// removed.
    pub fn cancelled(
        &mut self,
        token: &'c CancelToken,
        then: impl FnMut(CancelReason) -> R + 'c,
    ) -> CaseId {
        self.add(TokenCase::new(token), then)
    }

    /// Adds a receive from a timer, which happens once; see [`after`](crate::channel::after()) and
    /// [`at`](crate::channel::at()).
    pub fn after(
        &mut self,
        timer: &'c After,
        then: impl FnMut(Result<Instant, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(TimerCase::new(timer), then)
    }

    /// Adds a receive of a tick; see [`tick`](crate::channel::tick()).
    pub fn tick(
        &mut self,
        ticks: &'c Ticks,
        then: impl FnMut(Result<Instant, RecvError>) -> R + 'c,
    ) -> CaseId {
        self.add(TimerCase::new(ticks), then)
    }

    /// Adds a timeout, which counts from each [`wait`](Cases::wait).
    pub fn timeout(&mut self, time: Duration, then: impl FnMut(()) -> R + 'c) -> CaseId {
        self.add(TimeoutCase::new(time), then)
    }

    /// Removes a case and drops its closure. Returns false if the case is no longer in the list.
    pub fn remove(&mut self, case: CaseId) -> bool {
        let found = self.arms.binary_search_by_key(&case.0, |(id, _)| *id);
        found.map(|at| self.arms.remove(at)).is_ok()
    }

    /// Number of cases.
    pub fn len(&self) -> usize {
        self.arms.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.arms.is_empty()
    }

    /// Waits until one of the cases has happened, and calls its closure.
    ///
    /// # Errors
    ///
    /// If there are no cases, the task is cancelled, or its budget is exhausted. No case has
    /// happened.
    #[track_caller]
    pub fn wait(&mut self) -> Result<R> {
        let winner = self.choose(Goal::Happen, None)?;
        Ok(self.arms[winner].1.fire())
    }

    /// Like [`wait`](Cases::wait), but returns `None` if no case is possible at once.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Cases::wait), except that an empty list is not an error.
    #[track_caller]
    pub fn try_wait(&mut self) -> Result<Option<R>> {
        let winner = self.choose(Goal::Happen, Some(&mut DefaultCase))?;
        Ok(self.arms.get_mut(winner).map(|(_, arm)| arm.fire()))
    }

    /// Waits until one of the cases is possible, and returns it. The case has not happened, and
    /// other tasks may make it impossible before it is tried.
    ///
    /// # Errors
    ///
    /// As for [`wait`](Cases::wait).
    #[track_caller]
    pub fn ready(&mut self) -> Result<CaseId> {
        let found = self.choose(Goal::Watch, None)?;
        Ok(CaseId(self.arms[found].0))
    }

    /// Like [`ready`](Cases::ready), but returns `None` if no case is possible at once.
    ///
    /// # Errors
    ///
    /// As for [`try_wait`](Cases::try_wait).
    #[track_caller]
    pub fn try_ready(&mut self) -> Result<Option<CaseId>> {
        let found = self.choose(Goal::Watch, Some(&mut DefaultCase))?;
        Ok(self.arms.get(found).map(|(id, _)| CaseId(*id)))
    }

    /// Chooses among the cases of the list and `otherwise`, whose index follows theirs.
    #[track_caller]
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
