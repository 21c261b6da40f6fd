//! The cases of a select. Hidden: made by the macro and by [`Select`](super::Select).

use crate::cancel::{CancelReason, CancelToken, OnCancel};
use crate::channel::{
    Claim, Listen, Outcome, Put, Receiver, RecvError, SendError, Sender, Subscriber, Ticket, Took,
    Waiting, Watcher, closed, prepare, received, sent, settle,
};
use crate::cx::Frame;
use crate::error::Result;
use crate::time;
use crate::wait::{End, Waiter};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The task that pays for the case that happens, if a task does.
pub struct Payer(Option<&'static Frame>);

impl Payer {
    pub(super) fn prepare() -> Result<Payer> {
        Ok(Payer(prepare()?))
    }
}

/// What a case registers with.
pub struct Round<'r> {
    pub(super) claim: &'r Arc<Claim>,
    pub(super) waiter: &'r Waiter,
    pub(super) case: usize,
}

/// Something that a select can wait for. Where a function is not defined the case has no use for
/// it.
pub trait Case {
    /// Does it if that is possible at once. Never called while registered.
    fn attempt(&mut self, payer: &Payer) -> bool;

    /// Registers; false if it has become possible meanwhile, and nothing is registered.
    fn register(&mut self, round: &Round<'_>) -> bool;

    /// Takes the registration back, if there is one. If the case has won, it has its outcome now.
    fn unregister(&mut self, won: bool, payer: &Payer);

    /// After which time it happens by itself.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether it is what happens when nothing else is possible at once.
    fn is_default(&self) -> bool {
        false
    }
}

// ----- receiving ----------------------------------------------------------------------------

/// A receive.
pub struct RecvCase<'c, T> {
    receiver: &'c Receiver<T>,
    ticket: Option<Ticket>,
    outcome: Option<Result<T, RecvError>>,
}

impl<'c, T> RecvCase<'c, T> {
    /// From this channel.
    pub fn new(receiver: &'c Receiver<T>) -> RecvCase<'c, T> {
        RecvCase { receiver, ticket: None, outcome: None }
    }

    /// What came of it, for the case that won.
    pub fn finish(self) -> Result<T, RecvError> {
        self.outcome.expect("the case has won")
    }
}

impl<T> Case for RecvCase<'_, T> {
    fn attempt(&mut self, payer: &Payer) -> bool {
        self.outcome = match self.receiver.shared().core.try_recv() {
            Took::Empty => None,
            took => Some(received(took, payer.0)),
        };
        self.outcome.is_some()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let core = &self.receiver.shared().core;
        self.ticket = core.register_recv(round.waiter.clone(), round.claim, round.case);
        self.ticket.is_some()
    }

    fn unregister(&mut self, won: bool, payer: &Payer) {
        let Some(ticket) = self.ticket.take() else { return };
        let core = &self.receiver.shared().core;
        self.outcome = match core.withdraw_recv(ticket) {
            Outcome::Done(value) => {
                settle(payer.0, None);
                value.map(Ok)
            }
            Outcome::Closed(_) => Some(Err(RecvError::new(closed(core)))),
            Outcome::Withdrawn(_) => None,
        };
        debug_assert_eq!(won, self.outcome.is_some(), "one case, and the one that was claimed");
    }
}

// ----- sending ------------------------------------------------------------------------------

/// A send.
pub struct SendCase<'c, T> {
    sender: &'c Sender<T>,
    value: Slot<'c, T>,
    ticket: Option<Ticket>,
    outcome: Option<Result<(), SendError<T>>>,
}

/// Where the value is before it is sent, and again if it is not.
enum Slot<'c, T> {
    Own(Option<T>),
    Lent(&'c mut Option<T>),
}

impl<T> Slot<'_, T> {
    fn get(&mut self) -> &mut Option<T> {
        match self {
            Slot::Own(value) => value,
            Slot::Lent(value) => value,
        }
    }
}

impl<'c, T> SendCase<'c, T> {
    /// Of this value, which is dropped if another case happens.
    pub fn new(sender: &'c Sender<T>, value: T) -> SendCase<'c, T> {
        SendCase { sender, value: Slot::Own(Some(value)), ticket: None, outcome: None }
    }

    /// Of the value that is lent, which stays where it is if another case happens. Without one the case
    /// does not happen.
    pub fn offer(sender: &'c Sender<T>, value: &'c mut Option<T>) -> SendCase<'c, T> {
        SendCase { sender, value: Slot::Lent(value), ticket: None, outcome: None }
    }

    /// What came of it, for the case that won.
    pub fn finish(self) -> Result<(), SendError<T>> {
        self.outcome.expect("the case has won")
    }
}

impl<T> Case for SendCase<'_, T> {
    fn attempt(&mut self, payer: &Payer) -> bool {
        let Some(value) = self.value.get().take() else { return false };
        self.outcome = match self.sender.shared().core.try_send(value) {
            Put::Full(value) => {
                *self.value.get() = Some(value);
                None
            }
            put => Some(sent(put, payer.0)),
        };
        self.outcome.is_some()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let Some(value) = self.value.get().take() else { return true };
        let core = &self.sender.shared().core;
        match core.register_send(value, round.waiter.clone(), round.claim, round.case) {
            Ok(ticket) => {
                self.ticket = Some(ticket);
                true
            }
            Err(value) => {
                *self.value.get() = Some(value);
                false
            }
        }
    }

    fn unregister(&mut self, won: bool, payer: &Payer) {
        let Some(ticket) = self.ticket.take() else { return };
        let core = &self.sender.shared().core;
        match core.withdraw_send(ticket) {
            Outcome::Done(_) => {
                settle(payer.0, None);
                self.outcome = Some(Ok(()));
            }
            Outcome::Closed(value) => {
                let closed = |value| Err(SendError::new(value, closed(core)));
                self.outcome = value.map(closed);
            }
            Outcome::Withdrawn(value) => *self.value.get() = value,
        }
        debug_assert_eq!(won, self.outcome.is_some(), "one case, and the one that was claimed");
    }
}

// ----- changes ------------------------------------------------------------------------------

/// The next value of a broadcast, or of something that is watched.
pub struct BellCase<'c, V> {
    listener: &'c mut (dyn Listen<Value = V> + 'c),
    ticket: Option<Ticket>,
    outcome: Option<Result<V, RecvError>>,
}

impl<'c, T: Clone> BellCase<'c, T> {
    /// The next of a broadcast.
    pub fn next(subscriber: &'c mut Subscriber<T>) -> BellCase<'c, T> {
        BellCase { listener: subscriber, ticket: None, outcome: None }
    }
}

impl<'c, T> BellCase<'c, Arc<T>> {
    /// The newest of what is watched.
    pub fn changed(watcher: &'c mut Watcher<T>) -> BellCase<'c, Arc<T>> {
        BellCase { listener: watcher, ticket: None, outcome: None }
    }
}

impl<V> BellCase<'_, V> {
    /// What came of it, for the case that won.
    pub fn finish(self) -> Result<V, RecvError> {
        self.outcome.expect("the case has won")
    }
}

impl<V> Case for BellCase<'_, V> {
    fn attempt(&mut self, payer: &Payer) -> bool {
        self.outcome = self.listener.attempt();
        if let Some(Ok(_)) = self.outcome {
            settle(payer.0, None);
        }
        self.outcome.is_some()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let claim = Some((Arc::clone(round.claim), round.case));
        let waiting = Waiting { waiter: round.waiter.clone(), claim, value: None };
        self.ticket = self.listener.register(waiting);
        self.ticket.is_some()
    }

    fn unregister(&mut self, won: bool, payer: &Payer) {
        let Some(ticket) = self.ticket.take() else { return };
        self.listener.withdraw(ticket);
        if won {
            // Nobody else can have taken what the bell rang for.
            let seen = self.attempt(payer);
            debug_assert!(seen, "the bell rang for nothing");
        }
    }
}

// ----- tasks --------------------------------------------------------------------------------

/// A task whose end can be waited for: a [`TaskHandle`](crate::TaskHandle) or a [`RootTask`](crate::RootTask).
pub trait Ends {
    /// Whether it has ended.
    fn has_ended(&self) -> bool;

    /// Where to wait for that.
    #[doc(hidden)]
    fn end(&self) -> TaskEnd<'_>;
}

/// Where the end of a task is waited for.
pub struct TaskEnd<'t>(pub(crate) &'t End<Waiter>);

/// A task that ends.
pub struct EndedCase<'c> {
    task: &'c dyn Ends,
    ticket: Option<Ticket>,
}

impl<'c> EndedCase<'c> {
    /// Of this task.
    pub fn new(task: &'c dyn Ends) -> EndedCase<'c> {
        EndedCase { task, ticket: None }
    }

    /// Nothing: the handle has the result, without waiting.
    pub fn finish(self) {}
}

impl Case for EndedCase<'_> {
    fn attempt(&mut self, _: &Payer) -> bool {
        self.task.has_ended()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let claim = Some((Arc::clone(round.claim), round.case));
        self.ticket = self.task.end().0.register(round.waiter.clone(), claim);
        self.ticket.is_some()
    }

    fn unregister(&mut self, won: bool, _: &Payer) {
        let Some(ticket) = self.ticket.take() else { return };
        let told = self.task.end().0.withdraw(ticket);
        debug_assert_eq!(won, told, "one case, and the one that was claimed");
    }
}

// ----- the others ---------------------------------------------------------------------------

/// A token that is cancelled.
pub struct TokenCase<'c> {
    token: &'c CancelToken,
    /// Takes the registration back.
    registered: Option<OnCancel>,
}

impl<'c> TokenCase<'c> {
    /// Of this token.
    pub fn new(token: &'c CancelToken) -> TokenCase<'c> {
        TokenCase { token, registered: None }
    }

    /// Why it was cancelled, for the case that won.
    pub fn finish(self) -> CancelReason {
        self.token.reason().expect("the case has won")
    }
}

impl Case for TokenCase<'_> {
    fn attempt(&mut self, _: &Payer) -> bool {
        self.token.is_cancelled()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let (claim, waiter, case) = (Arc::clone(round.claim), round.waiter.clone(), round.case);
        // At once if it is cancelled by now, which decides the claim.
        self.registered = Some(self.token.on_cancel(move |_| {
            if claim.fire(case) {
                waiter.wake();
            }
        }));
        true
    }

    fn unregister(&mut self, _: bool, _: &Payer) {
        self.registered = None;
    }
}

/// A time that passes.
pub struct TimeoutCase(Duration);

impl TimeoutCase {
    /// After this time.
    pub fn new(time: Duration) -> TimeoutCase {
        TimeoutCase(time)
    }

    /// Nothing.
    pub fn finish(self) {}
}

impl Case for TimeoutCase {
    fn attempt(&mut self, _: &Payer) -> bool {
        false // by the deadline of the wait, which comes after whatever is possible
    }

    fn register(&mut self, _: &Round<'_>) -> bool {
        true
    }

    fn unregister(&mut self, _: bool, _: &Payer) {}

    fn timeout(&self) -> Option<Duration> {
        Some(self.0)
    }
}

/// A point in time that comes.
pub struct DeadlineCase(Instant);

impl DeadlineCase {
    /// This one, by the clock of whoever waits: [`time::now`].
    pub fn new(at: Instant) -> DeadlineCase {
        DeadlineCase(at)
    }

    /// Nothing.
    pub fn finish(self) {}
}

impl Case for DeadlineCase {
    fn attempt(&mut self, _: &Payer) -> bool {
        false // as a timeout
    }

    fn register(&mut self, _: &Round<'_>) -> bool {
        true
    }

    fn unregister(&mut self, _: bool, _: &Payer) {}

    fn timeout(&self) -> Option<Duration> {
        Some(self.0.saturating_duration_since(time::now()))
    }
}

/// What happens when nothing else is possible at once.
pub struct DefaultCase;

impl DefaultCase {
    /// Nothing.
    pub fn finish(self) {}
}

impl Case for DefaultCase {
    fn attempt(&mut self, _: &Payer) -> bool {
        false
    }

    fn register(&mut self, _: &Round<'_>) -> bool {
        true
    }

    fn unregister(&mut self, _: bool, _: &Payer) {}

    fn is_default(&self) -> bool {
        true
    }
}

/// Hidden, but public.
macro_rules! opaque {
    ($($name:ident $(<$($param:tt),*>)?),*) => {
        $(impl $(<$($param),*>)? fmt::Debug for $name $(<$($param),*>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        })*
    };
}

opaque!(
    Payer,
    Round<'r>,
    TimeoutCase,
    DeadlineCase,
    DefaultCase,
    TokenCase<'c>,
    EndedCase<'c>,
    TaskEnd<'c>,
    BellCase<'c, V>,
    RecvCase<'c, T>,
    SendCase<'c, T>
);
