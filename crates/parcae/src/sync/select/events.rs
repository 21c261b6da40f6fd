//! Cases of a select that wait for a change, the end of a task, a point in time or a cancelled
//! token.

use super::case::{Case, Finish, Payer, Round, opaque};
use crate::base::error::Result;
use crate::scope::cancel::{CancelReason, CancelToken};
use crate::scope::nursery::JoinSet;
use crate::sync::channel::{ChangeSource, RecvError, Subscriber, Timer, Watcher, charge};
use crate::sync::time;
use crate::wait::{Ends, TaskEnd, WaitNode, WaitStanding, Waitable, Waiter};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The next value of a broadcast, or the newest version of a watched value.
pub struct ChangeCase<'c, V> {
    source: &'c mut (dyn ChangeSource<Value = V> + 'c),
    node: WaitNode<Waiter>,
    outcome: Option<Result<V, RecvError>>,
}

impl<'c, T: Clone> ChangeCase<'c, T> {
    /// The next value of a broadcast.
    pub fn next(subscriber: &'c mut Subscriber<T>) -> ChangeCase<'c, T> {
        ChangeCase { source: subscriber, node: WaitNode::new(()), outcome: None }
    }
}

impl<'c, T> ChangeCase<'c, Arc<T>> {
    /// The newest version of a watched value.
    pub fn changed(watcher: &'c mut Watcher<T>) -> ChangeCase<'c, Arc<T>> {
        ChangeCase { source: watcher, node: WaitNode::new(()), outcome: None }
    }
}

impl<V> Finish for ChangeCase<'_, V> {
    type Given = Result<V, RecvError>;

    fn finish(&mut self) -> Result<V, RecvError> {
        self.outcome.take().expect("the case has won")
    }
}

impl<V> Case for ChangeCase<'_, V> {
    fn attempt(&mut self, payer: &Payer<'_>) -> bool {
        self.outcome = self.source.attempt();
        if let Some(Ok(_)) = self.outcome {
            charge(payer.0);
        }
        self.outcome.is_some()
    }

    fn is_possible(&mut self) -> bool {
        self.source.is_possible()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        // SAFETY: the node stays in place until the case is unregistered.
        unsafe { self.source.register(&self.node, round.waiter(), round.claim()) }
    }

    fn unregister(&mut self) {
        if self.node.standing() != WaitStanding::Idle {
            // SAFETY: the node of this case.
            unsafe { self.source.withdraw(&self.node) };
        }
    }

    fn conclude(&mut self, payer: &Payer<'_>) -> bool {
        // No other reader can consume the change that this one was woken for.
        let seen = self.attempt(payer);
        debug_assert!(seen, "woken without a change");
        seen
    }

    fn is_closed(&self) -> bool {
        self.outcome.as_ref().is_some_and(|seen| seen.as_ref().is_err_and(RecvError::is_closed))
    }
}

/// The end of a task.
pub struct EndedCase<'c> {
    task: &'c dyn Ends,
    node: WaitNode<Waiter>,
}

impl<'c> EndedCase<'c> {
    /// The end of this task.
    pub fn new(task: &'c dyn Ends) -> EndedCase<'c> {
        EndedCase { task, node: WaitNode::new(()) }
    }
}

/// No result: the handle has it, without waiting.
impl Finish for EndedCase<'_> {
    type Given = ();

    fn finish(&mut self) {}
}

impl Case for EndedCase<'_> {
    fn attempt(&mut self, _: &Payer<'_>) -> bool {
        self.task.has_ended()
    }

    fn is_possible(&mut self) -> bool {
        self.task.has_ended()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let TaskEnd(end) = self.task.end();
        // SAFETY: the node stays in place until the case is unregistered.
        unsafe { end.register(&self.node, round.waiter(), Some(round.claim())) }
    }

    fn unregister(&mut self) {
        if self.node.standing() != WaitStanding::Idle {
            // SAFETY: the node of this case.
            unsafe { self.task.end().0.withdraw(&self.node) };
        }
    }

    fn conclude(&mut self, _: &Payer<'_>) -> bool {
        debug_assert!(self.task.has_ended(), "the case that was claimed");
        true
    }
}

/// The end of a child in a set.
pub struct JoinNextCase<'c, 'scope, T> {
    set: &'c mut JoinSet<'scope, T>,
    node: WaitNode<Waiter>,
    outcome: Option<Result<T>>,
}

impl<'c, 'scope, T> JoinNextCase<'c, 'scope, T> {
    /// The next child of this set to end.
    pub fn new(set: &'c mut JoinSet<'scope, T>) -> JoinNextCase<'c, 'scope, T> {
        JoinNextCase { set, node: WaitNode::new(()), outcome: None }
    }
}

impl<T> Finish for JoinNextCase<'_, '_, T> {
    type Given = Result<T>;

    fn finish(&mut self) -> Result<T> {
        self.outcome.take().expect("the case has won")
    }
}

impl<T> Case for JoinNextCase<'_, '_, T> {
    fn attempt(&mut self, _: &Payer) -> bool {
        self.outcome = self.set.try_join_next();
        self.outcome.is_some()
    }

    fn is_possible(&mut self) -> bool {
        self.set.has_ended()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        // SAFETY: the node stays in place until the case is unregistered.
        unsafe { self.set.register(&self.node, round.waiter(), round.claim()) }
    }

    fn unregister(&mut self) {
        // SAFETY: the node of this case.
        unsafe { self.set.withdraw(&self.node) };
    }

    fn conclude(&mut self, payer: &Payer) -> bool {
        // No other task can take the result that this case was woken for: the set is borrowed.
        let taken = self.attempt(payer);
        debug_assert!(taken, "woken without a child that has ended");
        taken
    }
}

/// A receive from a timer.
pub struct TimerCase<'c> {
    timer: &'c dyn Timer,
    outcome: Option<Instant>,
}

impl<'c> TimerCase<'c> {
    pub(crate) fn new(timer: &'c dyn Timer) -> TimerCase<'c> {
        TimerCase { timer, outcome: None }
    }
}

impl Finish for TimerCase<'_> {
    type Given = Result<Instant, RecvError>;

    fn finish(&mut self) -> Result<Instant, RecvError> {
        Ok(self.outcome.take().expect("the case has won"))
    }
}

impl Case for TimerCase<'_> {
    fn attempt(&mut self, payer: &Payer<'_>) -> bool {
        self.outcome = self.timer.take(time::now());
        if self.outcome.is_some() {
            charge(payer.0);
        }
        self.outcome.is_some()
    }

    fn is_possible(&mut self) -> bool {
        self.timer.due().is_some_and(|due| due <= time::now())
    }

    fn register(&mut self, _: &Round<'_>) -> bool {
        true // the deadline of the wait does it
    }

    fn unregister(&mut self) {}

    fn conclude(&mut self, payer: &Payer<'_>) -> bool {
        self.attempt(payer) // unless another receiver has taken it
    }

    fn due(&self) -> Option<Instant> {
        self.timer.due()
    }
}

/// Cases that are never possible at once and register nowhere.
macro_rules! passive {
    ($([$($t:ident)?] $Case:ty => $given:ty = $finish:expr, { $($own:item)* })*) => {
        $(impl<$($t)?> Finish for $Case {
            type Given = $given;

            fn finish(&mut self) -> $given {
                $finish
            }
        }

        impl<$($t)?> Case for $Case {
            fn attempt(&mut self, _: &Payer<'_>) -> bool {
                false
            }

            fn is_possible(&mut self) -> bool {
                false
            }

            fn register(&mut self, _: &Round<'_>) -> bool {
                true
            }

            fn unregister(&mut self) {}

            fn conclude(&mut self, _: &Payer<'_>) -> bool {
                true
            }

            $($own)*
        })*
    };
}

/// A timeout. The deadline of the wait triggers it, after the cases that are possible at once.
pub struct TimeoutCase(Duration);

impl TimeoutCase {
    /// A timeout after this time.
    pub fn new(time: Duration) -> TimeoutCase {
        TimeoutCase(time)
    }
}

/// A deadline, which works like a timeout.
pub struct DeadlineCase(Instant);

impl DeadlineCase {
    /// A deadline on the caller's clock: [`time::now`].
    pub fn new(at: Instant) -> DeadlineCase {
        DeadlineCase(at)
    }
}

/// A case that never happens.
pub struct NeverCase<T>(PhantomData<fn() -> T>);

impl<T> NeverCase<T> {
    pub(crate) fn new() -> NeverCase<T> {
        NeverCase(PhantomData)
    }
}

/// The case that happens if no other one is possible at once.
pub struct DefaultCase;

passive! {
    [] TimeoutCase => () = (), {
        fn timeout(&self) -> Option<Duration> {
            Some(self.0)
        }
    }
    [] DeadlineCase => () = (), {
        fn timeout(&self) -> Option<Duration> {
            Some(self.0.saturating_duration_since(time::now()))
        }
    }
    [T] NeverCase<T> => Result<T, RecvError> = unreachable!("it never happens"), {}
    [] DefaultCase => () = (), {
        fn is_default(&self) -> bool {
            true
        }
    }
}

/// The cancellation of a token.
pub struct TokenCase<'c> {
    token: &'c CancelToken,
    node: WaitNode<Waiter>,
}

impl<'c> TokenCase<'c> {
    /// The cancellation of this token.
    pub fn new(token: &'c CancelToken) -> TokenCase<'c> {
        TokenCase { token, node: WaitNode::new(()) }
    }
}

impl Finish for TokenCase<'_> {
    type Given = CancelReason;

    fn finish(&mut self) -> CancelReason {
        self.token.reason().expect("the case has won")
    }
}

impl Case for TokenCase<'_> {
    fn attempt(&mut self, _: &Payer<'_>) -> bool {
        self.token.is_cancelled()
    }

    fn is_possible(&mut self) -> bool {
        self.token.is_cancelled()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        // SAFETY: the node stays in place until the case is unregistered.
        unsafe { self.token.node().subscribe(&self.node, round.waiter(), Some(round.claim())) }
    }

    fn unregister(&mut self) {
        if self.node.standing() != WaitStanding::Idle {
            // SAFETY: the node of this case.
            unsafe { self.token.node().withdraw(&self.node) };
        }
    }

    fn conclude(&mut self, _: &Payer<'_>) -> bool {
        true
    }
}

opaque!(
    ChangeCase<'c, V>,
    EndedCase<'c>,
    JoinNextCase<'c, 'scope, T>,
    TimerCase<'c>,
    TimeoutCase,
    DeadlineCase,
    NeverCase<T>,
    DefaultCase,
    TokenCase<'c>
);
