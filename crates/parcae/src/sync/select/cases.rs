//! The cases of a select. Hidden: made by the macro, by [`Select`](super::Select) and by
//! [`Cases`](super::Cases).
//!
//! What a case does in which order:
//!
//! ```text
//! attempt, or is_possible ──► finish
//!     │ no
//!     ▼
//! register, to do it or to watch ──► unregister, in any case ──► if it has won: conclude ──► finish
//! ```
//!
//! A value that a case receives or sends lies in the case, or where the caller has lent it from. While the case is
//! registered that memory belongs to the channel: the case is neither moved nor dropped then, since
//! whoever registers it has it borrowed, and unregisters it before it gives it back (`Registered`, in the module above).

use crate::base::error::Result;
use crate::scope::cancel::{CancelReason, CancelToken, OnCancel};
use crate::scope::cx::Frame;
use crate::sync::channel::{
    Closed, Listen, Put, Reason, Receiver, RecvError, SendError, Sender, Subscriber, Timer, Took,
    ValueBox, Watcher, mark_empty, prepare, settle, settle_all,
};
use crate::sync::time;
use crate::wait::Waiter;
use crate::wait::{Claim, Ends, PlaceEnd, Ticket, Waiting};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The task that pays for the case that happens, if a task does.
pub struct Payer(pub(super) Option<&'static Frame>);

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
    pub(super) goal: Goal,
}

/// What a select is to do with the case that it has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Let it happen.
    Happen,
    /// Say which it is, and leave it alone.
    Watch,
}

/// Something that a select can wait for. Where a function is not defined the case has no use for
/// it.
pub trait Case {
    /// Does it if that is possible at once. Never called while registered.
    fn attempt(&mut self, payer: &Payer) -> bool;

    /// Whether it is possible at once.
    fn is_possible(&mut self) -> bool;

    /// Registers; false if it has become possible meanwhile, and nothing is registered.
    fn register(&mut self, round: &Round<'_>) -> bool;

    /// Takes the registration back, if there is one.
    fn unregister(&mut self);

    /// It has won, and nothing is registered any more: it has its outcome after this. False if it has not happened after
    /// all, and the select has to start over.
    fn conclude(&mut self, payer: &Payer) -> bool;

    /// Whether it can be possible now and not a moment later, because of others.
    fn is_fleeting(&self) -> bool {
        false
    }

    /// Whether its outcome is that something is closed.
    fn is_closed(&self) -> bool {
        false
    }

    /// After which time it happens by itself.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// When it becomes possible by itself.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Whether it is what happens when nothing else is possible at once.
    fn is_default(&self) -> bool {
        false
    }
}

/// What a case gives to the code that belongs to it.
pub trait Finish: Case {
    /// That.
    type Given;

    /// What came of it, for the case that has won. It can be waited for again after that.
    fn finish(&mut self) -> Self::Given;
}

/// Values of up to so many words lie in the case itself.
const WORDS: usize = 16;

// ----- receiving ----------------------------------------------------------------------------

/// A receive.
pub struct RecvCase<'c, T> {
    receiver: &'c Receiver<T>,
    /// Where the value is put.
    value: ValueBox<T, WORDS>,
    ticket: Option<Ticket>,
    goal: Goal,
    outcome: Option<Result<(), Reason>>,
}

impl<'c, T> RecvCase<'c, T> {
    /// From this channel.
    pub fn new(receiver: &'c Receiver<T>) -> RecvCase<'c, T> {
        let value = ValueBox::empty();
        RecvCase { receiver, value, ticket: None, goal: Goal::Happen, outcome: None }
    }
}

impl<T> Finish for RecvCase<'_, T> {
    type Given = Result<T, RecvError>;

    fn finish(&mut self) -> Result<T, RecvError> {
        match self.outcome.take() {
            Some(Err(reason)) => Err(RecvError::new(reason)),
            _ => Ok(self.value.take()),
        }
    }
}

impl<T> Case for RecvCase<'_, T> {
    fn attempt(&mut self, payer: &Payer) -> bool {
        self.value.clear(); // of a time before, if nobody has fetched it
        // SAFETY: memory of this case, which has no value.
        self.outcome = match unsafe { self.receiver.shared().core.try_recv(self.value.address()) } {
            Took::Empty => None,
            Took::Done(wakes) => {
                // SAFETY: the value was put there.
                unsafe { self.value.set_full() };
                settle_all(payer.0, wakes);
                Some(Ok(()))
            }
            Took::Closed(Closed(error)) => Some(Err(Reason::Closed(error))),
        };
        self.outcome.is_some()
    }

    fn is_possible(&mut self) -> bool {
        self.receiver.shared().core.can_recv()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let core = &self.receiver.shared().core;
        let waiter = round.waiter.clone();
        self.goal = round.goal;
        self.ticket = match round.goal {
            // SAFETY: memory of this case, which has no value and stays where it is until the place is given up.
            Goal::Happen => unsafe {
                core.register_recv(self.value.address(), waiter, round.claim, round.case)
            },
            Goal::Watch => core.watch_recv(waiter, round.claim, round.case),
        };
        self.ticket.is_some()
    }

    fn unregister(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let core = &self.receiver.shared().core;
        self.outcome = match (core.withdraw_recv(ticket), self.goal) {
            (PlaceEnd::Withdrawn, _) | (_, Goal::Watch) => None,
            (PlaceEnd::Done, Goal::Happen) => {
                // SAFETY: the value was put there.
                unsafe { self.value.set_full() };
                Some(Ok(()))
            }
            (PlaceEnd::Closed, Goal::Happen) => {
                let Closed(error) = core.closed().unwrap_or_default();
                Some(Err(Reason::Closed(error)))
            }
        };
    }

    fn conclude(&mut self, payer: &Payer) -> bool {
        if let Some(Ok(())) = self.outcome {
            settle(payer.0, None);
        }
        debug_assert!(self.outcome.is_some(), "the case that was claimed");
        true
    }

    fn is_fleeting(&self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        matches!(self.outcome, Some(Err(Reason::Closed(_))))
    }
}

// ----- sending ------------------------------------------------------------------------------

/// A send.
pub struct SendCase<'c, T> {
    sender: &'c Sender<T>,
    value: Offer<'c, T>,
    ticket: Option<Ticket>,
    goal: Goal,
    outcome: Option<Result<(), Reason>>,
}

/// Where the value is until it is sent.
enum Offer<'c, T> {
    Own(ValueBox<T, WORDS>),
    Lent(&'c mut Option<T>),
}

impl<T> Offer<'_, T> {
    /// The address of the value, if there is one.
    fn address(&mut self) -> Option<NonNull<T>> {
        match self {
            Offer::Own(value) => value.is_full().then(|| value.address()),
            Offer::Lent(value) => value.as_mut().map(NonNull::from),
        }
    }

    /// Marks that there is no value any more.
    ///
    /// # Safety
    ///
    /// It was moved away from its address.
    unsafe fn set_empty(&mut self) {
        match self {
            Offer::Own(value) => value.set_empty(),
            // SAFETY: as the caller says.
            Offer::Lent(value) => unsafe { mark_empty(value) },
        }
    }

    fn clear(&mut self) {
        match self {
            Offer::Own(value) => value.clear(),
            Offer::Lent(value) => **value = None,
        }
    }
}

impl<'c, T> SendCase<'c, T> {
    /// Of this value, which is dropped if another case happens.
    pub fn new(sender: &'c Sender<T>, value: T) -> SendCase<'c, T> {
        let mut value = Some(value);
        let value = ValueBox::from_option(&mut value).unwrap_or_else(ValueBox::empty);
        SendCase::of(sender, Offer::Own(value))
    }

    /// Of the value that is lent, which stays where it is if another case happens. Without one the case
    /// does not happen.
    pub fn offer(sender: &'c Sender<T>, value: &'c mut Option<T>) -> SendCase<'c, T> {
        SendCase::of(sender, Offer::Lent(value))
    }

    fn of(sender: &'c Sender<T>, value: Offer<'c, T>) -> SendCase<'c, T> {
        SendCase { sender, value, ticket: None, goal: Goal::Happen, outcome: None }
    }
}

impl<T> Finish for SendCase<'_, T> {
    type Given = Result<(), SendError<T>>;

    fn finish(&mut self) -> Result<(), SendError<T>> {
        let Some(Err(reason)) = self.outcome.take() else { return Ok(()) };
        let Some(address) = self.value.address() else { unreachable!("neither sent nor kept") };
        // SAFETY: a value, which is marked as gone at once.
        unsafe {
            let error = SendError::from_address(address, reason);
            self.value.set_empty();
            Err(error)
        }
    }
}

impl<T> Case for SendCase<'_, T> {
    fn attempt(&mut self, payer: &Payer) -> bool {
        self.outcome = None;
        let Some(address) = self.value.address() else { return false };
        // SAFETY: a value of this case.
        self.outcome = match unsafe { self.sender.shared().core.try_send(address) } {
            Put::Full => None,
            Put::Done(wakes) => {
                // SAFETY: it was moved into the channel.
                unsafe { self.value.set_empty() };
                settle_all(payer.0, wakes);
                Some(Ok(()))
            }
            Put::Displaced => {
                settle(payer.0, None);
                self.value.clear(); // what had to go for it
                Some(Ok(()))
            }
            Put::Refused => Some(Err(Reason::WouldWait)),
            Put::Closed(Closed(error)) => Some(Err(Reason::Closed(error))),
        };
        self.outcome.is_some()
    }

    fn is_possible(&mut self) -> bool {
        self.value.address().is_some() && self.sender.shared().core.can_send()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let Some(address) = self.value.address() else { return true };
        let core = &self.sender.shared().core;
        let waiter = round.waiter.clone();
        self.goal = round.goal;
        self.ticket = match round.goal {
            // SAFETY: a value of this case, which stays where it is until the place is given up.
            Goal::Happen => unsafe { core.register_send(address, waiter, round.claim, round.case) },
            Goal::Watch => core.watch_send(waiter, round.claim, round.case),
        };
        self.ticket.is_some()
    }

    fn unregister(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        let core = &self.sender.shared().core;
        self.outcome = match (core.withdraw_send(ticket), self.goal) {
            (PlaceEnd::Withdrawn, _) | (_, Goal::Watch) => None,
            (PlaceEnd::Done, Goal::Happen) => {
                // SAFETY: a receiver has moved it away.
                unsafe { self.value.set_empty() };
                Some(Ok(()))
            }
            (PlaceEnd::Closed, Goal::Happen) => {
                let Closed(error) = core.closed().unwrap_or_default();
                Some(Err(Reason::Closed(error)))
            }
        };
    }

    fn conclude(&mut self, payer: &Payer) -> bool {
        if let Some(Ok(())) = self.outcome {
            settle(payer.0, None);
        }
        debug_assert!(self.outcome.is_some(), "the case that was claimed");
        true
    }

    fn is_fleeting(&self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        matches!(self.outcome, Some(Err(Reason::Closed(_))))
    }
}

/// Something that is called once, or again and again.
pub trait Call<A> {
    /// What it returns.
    type Output;

    /// Calls it.
    fn call(&mut self, given: A) -> Self::Output;
}

/// Called once.
pub struct Once<F>(Option<F>);

/// Called again and again.
pub(super) struct Many<F>(pub(super) F);

impl<F> Once<F> {
    pub(super) fn new(call: F) -> Once<F> {
        Once(Some(call))
    }
}

impl<A, R, F: FnOnce(A) -> R> Call<A> for Once<F> {
    type Output = R;

    fn call(&mut self, given: A) -> R {
        self.0.take().expect("called once")(given)
    }
}

impl<A, R, F: FnMut(A) -> R> Call<A> for Many<F> {
    type Output = R;

    fn call(&mut self, given: A) -> R {
        (self.0)(given)
    }
}

/// A send of a value that is made when there is room for it.
pub struct SendWithCase<'c, T, F> {
    send: SendCase<'c, T>,
    make: F,
    /// Whether it waits for room, and not to send.
    watches: bool,
}

impl<'c, T, F: Call<(), Output = T>> SendWithCase<'c, T, F> {
    pub(super) fn of(sender: &'c Sender<T>, make: F) -> Self {
        let send = SendCase::of(sender, Offer::Own(ValueBox::empty()));
        SendWithCase { send, make, watches: false }
    }

    fn has_value(&mut self) -> bool {
        self.send.value.address().is_some()
    }

    fn can_send(&self) -> bool {
        self.send.sender.shared().core.can_send()
    }
}

/// A send of what the closure returns, which is called once at most.
pub fn send_with<'c, T>(
    sender: &'c Sender<T>,
    make: impl FnOnce() -> T + 'c,
) -> SendWithCase<'c, T, Once<impl FnOnce(()) -> T + 'c>> {
    SendWithCase::of(sender, Once::new(move |()| make()))
}

impl<T, F: Call<(), Output = T>> Finish for SendWithCase<'_, T, F> {
    type Given = Result<(), SendError<T>>;

    fn finish(&mut self) -> Result<(), SendError<T>> {
        self.send.finish()
    }
}

impl<T, F: Call<(), Output = T>> Case for SendWithCase<'_, T, F> {
    fn attempt(&mut self, payer: &Payer) -> bool {
        if !self.has_value() {
            if !self.can_send() {
                return false;
            }
            self.send.value = Offer::Own(ValueBox::new(self.make.call(())));
        }
        // If somebody else was faster, it waits as any other value does.
        self.send.attempt(payer)
    }

    fn is_possible(&mut self) -> bool {
        self.can_send()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        self.watches = round.goal == Goal::Watch || !self.has_value();
        if !self.watches {
            return self.send.register(round);
        }
        let core = &self.send.sender.shared().core;
        self.send.goal = Goal::Watch;
        self.send.ticket = core.watch_send(round.waiter.clone(), round.claim, round.case);
        self.send.ticket.is_some()
    }

    fn unregister(&mut self) {
        self.send.unregister();
    }

    fn conclude(&mut self, payer: &Payer) -> bool {
        // With everything unregistered: the closure is code of the program.
        if self.watches { self.attempt(payer) } else { self.send.conclude(payer) }
    }

    fn is_fleeting(&self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        self.send.is_closed()
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

impl<V> Finish for BellCase<'_, V> {
    type Given = Result<V, RecvError>;

    fn finish(&mut self) -> Result<V, RecvError> {
        self.outcome.take().expect("the case has won")
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

    fn is_possible(&mut self) -> bool {
        self.listener.is_possible()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let claim = Some((Arc::clone(round.claim), round.case));
        let waiting = Waiting { waiter: round.waiter.clone(), claim, value: None };
        self.ticket = self.listener.register(waiting);
        self.ticket.is_some()
    }

    fn unregister(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.listener.withdraw(ticket);
        }
    }

    fn conclude(&mut self, payer: &Payer) -> bool {
        // Nobody else can have taken what the bell rang for.
        let seen = self.attempt(payer);
        debug_assert!(seen, "the bell rang for nothing");
        seen
    }

    fn is_closed(&self) -> bool {
        self.outcome.as_ref().is_some_and(|seen| seen.as_ref().is_err_and(RecvError::is_closed))
    }
}

// ----- tasks --------------------------------------------------------------------------------

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
}

/// Nothing: the handle has the result, without waiting.
impl Finish for EndedCase<'_> {
    type Given = ();

    fn finish(&mut self) {}
}

impl Case for EndedCase<'_> {
    fn attempt(&mut self, _: &Payer) -> bool {
        self.task.has_ended()
    }

    fn is_possible(&mut self) -> bool {
        self.task.has_ended()
    }

    fn register(&mut self, round: &Round<'_>) -> bool {
        let claim = Some((Arc::clone(round.claim), round.case));
        self.ticket = self.task.end().0.register(round.waiter.clone(), claim);
        self.ticket.is_some()
    }

    fn unregister(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.task.end().0.withdraw(ticket);
        }
    }

    fn conclude(&mut self, _: &Payer) -> bool {
        debug_assert!(self.task.has_ended(), "the case that was claimed");
        true
    }
}

// ----- time ---------------------------------------------------------------------------------

/// A point in time that is received.
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
    fn attempt(&mut self, payer: &Payer) -> bool {
        self.outcome = self.timer.take(time::now());
        if self.outcome.is_some() {
            settle(payer.0, None);
        }
        self.outcome.is_some()
    }

    fn is_possible(&mut self) -> bool {
        self.timer.due().is_some_and(|due| due <= time::now())
    }

    fn register(&mut self, _: &Round<'_>) -> bool {
        true // by the deadline of the wait
    }

    fn unregister(&mut self) {}

    fn conclude(&mut self, payer: &Payer) -> bool {
        self.attempt(payer) // unless somebody else has received it
    }

    fn due(&self) -> Option<Instant> {
        self.timer.due()
    }
}

/// Cases that are not possible at once and are not registered anywhere.
macro_rules! passive {
    ($([$($t:ident)?] $Case:ty => $given:ty = $finish:expr, { $($own:item)* })*) => {
        $(impl<$($t)?> Finish for $Case {
            type Given = $given;

            fn finish(&mut self) -> $given {
                $finish
            }
        }

        impl<$($t)?> Case for $Case {
            fn attempt(&mut self, _: &Payer) -> bool {
                false
            }

            fn is_possible(&mut self) -> bool {
                false
            }

            fn register(&mut self, _: &Round<'_>) -> bool {
                true
            }

            fn unregister(&mut self) {}

            fn conclude(&mut self, _: &Payer) -> bool {
                true
            }

            $($own)*
        })*
    };
}

/// A time that passes. It comes by the deadline of the wait, after whatever is possible at once.
pub struct TimeoutCase(Duration);

impl TimeoutCase {
    /// After this time.
    pub fn new(time: Duration) -> TimeoutCase {
        TimeoutCase(time)
    }
}

/// A point in time that comes, as a timeout does.
pub struct DeadlineCase(Instant);

impl DeadlineCase {
    /// This one, by the clock of whoever waits: [`time::now`].
    pub fn new(at: Instant) -> DeadlineCase {
        DeadlineCase(at)
    }
}

/// Nothing that ever happens.
pub struct NeverCase<T>(PhantomData<fn() -> T>);

impl<T> NeverCase<T> {
    pub(crate) fn new() -> NeverCase<T> {
        NeverCase(PhantomData)
    }
}

/// What happens when nothing else is possible at once.
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

// ----- tokens -------------------------------------------------------------------------------

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
}

impl Finish for TokenCase<'_> {
    type Given = CancelReason;

    fn finish(&mut self) -> CancelReason {
        self.token.reason().expect("the case has won")
    }
}

impl Case for TokenCase<'_> {
    fn attempt(&mut self, _: &Payer) -> bool {
        self.token.is_cancelled()
    }

    fn is_possible(&mut self) -> bool {
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

    fn unregister(&mut self) {
        self.registered = None;
    }

    fn conclude(&mut self, _: &Payer) -> bool {
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
    NeverCase<T>,
    TokenCase<'c>,
    TimerCase<'c>,
    EndedCase<'c>,
    BellCase<'c, V>,
    RecvCase<'c, T>,
    SendCase<'c, T>,
    SendWithCase<'c, T, F>,
    Once<F>,
    Many<F>
);
