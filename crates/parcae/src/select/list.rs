//! A list of cases that is made at run time.

use super::cases::{
    BellCase, Case, DeadlineCase, DefaultCase, EndedCase, Ends, Payer, RecvCase, Round, SendCase,
    TimeoutCase, TokenCase,
};
use crate::cancel::{CancelReason, CancelToken};
use crate::channel::{Receiver, RecvError, SendError, Sender, Subscriber, Watcher};
use crate::error::Result;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Cases, and what belongs to each: a closure that is called if it is the one that happened. All closures
/// return the same type.
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
}

/// A case and what belongs to it.
trait Arm<R>: Case {
    fn fire(self: Box<Self>) -> R;
}

struct With<C, F> {
    case: C,
    then: F,
}

impl<C: Case, F> Case for With<C, F> {
    fn attempt(&mut self, payer: &Payer) -> bool {
        self.case.attempt(payer)
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        self.case.register(round)
    }

    fn unregister(&mut self, won: bool, payer: &Payer) {
        self.case.unregister(won, payer);
    }

    fn timeout(&self) -> Option<Duration> {
        self.case.timeout()
    }

    fn is_default(&self) -> bool {
        self.case.is_default()
    }
}

macro_rules! arm {
    ($([$($t:ident)?] $Case:ty => $given:ty;)*) => {
        $(impl<R, $($t,)? F: FnOnce($given) -> R> Arm<R> for With<$Case, F> {
            fn fire(self: Box<Self>) -> R {
                (self.then)(self.case.finish())
            }
        })*
    };
}

arm! {
    [T] RecvCase<'_, T> => Result<T, RecvError>;
    [T] SendCase<'_, T> => Result<(), SendError<T>>;
    [V] BellCase<'_, V> => Result<V, RecvError>;
    [] TokenCase<'_> => CancelReason;
    [] EndedCase<'_> => ();
    [] TimeoutCase => ();
    [] DeadlineCase => ();
    [] DefaultCase => ();
}

impl<'c, R> Select<'c, R> {
    /// No cases yet.
    pub fn new() -> Select<'c, R> {
        Select { arms: Vec::new() }
    }

    fn add(&mut self, arm: impl Arm<R> + 'c) -> &mut Select<'c, R> {
        self.arms.push(Box::new(arm));
        self
    }

    /// A receive.
    pub fn recv<T: 'c>(
        &mut self,
        receiver: &'c Receiver<T>,
        then: impl FnOnce(Result<T, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(With { case: RecvCase::new(receiver), then })
    }

    /// A send. The value is dropped if another case happens.
    pub fn send<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        value: T,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(With { case: SendCase::new(sender, value), then })
    }

    /// A send of what is in an `Option`, where it stays if another case happens. Without a value the case does
    /// not happen.
    pub fn offer<T: 'c>(
        &mut self,
        sender: &'c Sender<T>,
        value: &'c mut Option<T>,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(With { case: SendCase::offer(sender, value), then })
    }

    /// The next value of a broadcast.
    pub fn next<T: Clone + 'c>(
        &mut self,
        subscriber: &'c mut Subscriber<T>,
        then: impl FnOnce(Result<T, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(With { case: BellCase::next(subscriber), then })
    }

    /// A change of what is watched.
    pub fn changed<T: 'c>(
        &mut self,
        watcher: &'c mut Watcher<T>,
        then: impl FnOnce(Result<Arc<T>, RecvError>) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(With { case: BellCase::changed(watcher), then })
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
        self.add(With { case: EndedCase::new(task), then })
    }

    /// A point in time that comes, by the clock of [`time::now`](crate::time::now).
    pub fn deadline(&mut self, at: Instant, then: impl FnOnce(()) -> R + 'c) -> &mut Select<'c, R> {
        self.add(With { case: DeadlineCase::new(at), then })
    }

    /// A time that passes, counted from [`wait`](Select::wait).
    pub fn timeout(
        &mut self,
        time: Duration,
        then: impl FnOnce(()) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(With { case: TimeoutCase::new(time), then })
    }

    /// A token that is cancelled.
    pub fn cancelled(
        &mut self,
        token: &'c CancelToken,
        then: impl FnOnce(CancelReason) -> R + 'c,
    ) -> &mut Select<'c, R> {
        self.add(With { case: TokenCase::new(token), then })
    }

    /// What happens if nothing else is possible at once.
    pub fn default(&mut self, then: impl FnOnce(()) -> R + 'c) -> &mut Select<'c, R> {
        self.add(With { case: DefaultCase, then })
    }

    /// Waits until one of the cases has happened, and calls what belongs to it.
    ///
    /// # Errors
    ///
    /// There are no cases, or the task was cancelled or has no budget left: none has happened.
    pub fn wait(mut self) -> Result<R> {
        let mut cases: Vec<&mut dyn Case> =
            self.arms.iter_mut().map(|arm| &mut **arm as &mut dyn Case).collect();
        let winner = super::run(&mut cases)?;
        Ok(self.arms.swap_remove(winner).fire())
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
