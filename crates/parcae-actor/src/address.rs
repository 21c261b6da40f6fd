//! The address of an actor: the authority to send to it.

mod lending;
mod serving;

pub(crate) use lending::OnLoan;

use crate::audit::{AddressEvent, AddressLimit};
use crate::exit::Exit;
use crate::letters::LetterReason;
use crate::mailbox::{Envelope, Patience, Undelivered};
use crate::monitor::{Watch, Watched};
use crate::slot::{Core, Phase, Sink, Slot};
use parcae::channel::{OneSender, Reason, RecvError, oneshot};
use parcae::policy::{LentContext, runs_on_context};
use parcae::{Error, time};
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

parcae::task_local! {
    /// The actor that the task is, if it is one.
    pub(crate) static OWN: ActorTask = ActorTask::default();
}

/// The part of an actor that its calls need: one lookup for all.
pub(crate) struct ActorTask {
    pub(crate) actor: OnceCell<Arc<Core>>,
    /// When the caller of the request that is being handled gives up.
    pub(crate) deadline: Cell<Option<Instant>>,
    /// Whether a scheduling context may be lent with its calls.
    pub(crate) lends: Cell<bool>,
}

impl Default for ActorTask {
    fn default() -> ActorTask {
        let lends = Cell::new(runs_on_context());
        ActorTask { actor: OnceCell::new(), deadline: Cell::new(None), lends }
    }
}

/// The address of an actor: sends messages to it, calls it, stops it.
///
/// An address is a capability. It names the slot of an actor and stays valid across restarts;
/// [`this_life`](Address::this_life) names one incarnation. It does not keep the actor alive. It
/// can be given away in a weaker form ([`tell_only`](Address::tell_only),
/// [`at_most`](Address::at_most), [`until`](Address::until)) and taken back
/// ([`revocable`](Address::revocable)); copies of a weaker form share its limits. Weaker forms and
/// their refusals are [audited](crate::System::audit).
pub struct Address<M> {
    slot: Arc<Slot<M>>,
    rights: Option<Arc<Rights>>,
    /// The only incarnation that the address reaches.
    life: Option<u64>,
}

/// A weaker form of an address, and the one that it was made from.
struct Rights {
    /// For the audit.
    number: u64,
    above: Option<Arc<Rights>>,
    limit: Limit,
}

impl Rights {
    fn record(&self, core: &Core, event: AddressEvent) {
        let from = self.above.as_ref().map(|above| above.number);
        core.shared.audit.add(&core.name, (self.number, from), event);
    }
}

enum Limit {
    TellOnly,
    AtRate(Mutex<Bucket>),
    AtMost(AtomicU64),
    Until(Instant),
    Revoked(Arc<AtomicBool>),
}

/// Messages that may be sent now; a full bucket holds those of a period.
struct Bucket {
    messages: u64,
    period: Duration,
    left: f64,
    filled: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        let share = passed / self.period.as_secs_f64() * self.messages as f64;
        self.left = (self.left + share).min(self.messages as f64);
        self.filled = now;
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Tell,
    Call,
    Stop,
}

/// Why an address does not allow an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The address only sends messages.
    TellOnly,
    /// The messages that the address may send are used up.
    UsedUp,
    /// The address may send more messages later.
    TooFast,
    /// The time of the address is over.
    TooLate,
    /// The address was revoked.
    Revoked,
}

/// A message that was not sent.
pub struct TellError<M> {
    msg: M,
    error: CallError,
}

/// Why a call, or a message, failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallError {
    /// The mailbox is full.
    Full,
    /// The deadline of the call was exceeded.
    Expired,
    /// The deadline was exceeded, or the request was lost, while the actor is being started again.
    Restarting {
        /// The number of the restart.
        attempt: u32,
    },
    /// The actor has ended.
    Gone(Option<Exit>),
    /// The actor dropped the request without a reply.
    NoReply,
    /// The handler panicked or failed while it had the request.
    Failed,
    /// The address does not allow it.
    Refused(Refusal),
    /// The call would wait for itself: each actor of the path calls the next one.
    Cycle(Vec<Arc<str>>),
    /// The calling task is cancelled, or out of budget; or its scheduling context has [less
    /// left](crate::ActorOpts::min_budget) than the actor needs.
    Interrupted(Error),
}

/// The reply to a request: a message of a [call](Address::call) contains it.
///
/// A reply that is dropped tells the caller so.
pub struct Reply<R> {
    sender: Option<OneSender<Result<R, Unanswered>>>,
    after: AfterReply,
}

/// The duties of a reply, besides that it is sent.
enum AfterReply {
    None,
    /// The caller waits at its bell.
    Ring(Arc<Core>),
    /// The caller has lent its scheduling context, and perhaps waits at its bell.
    GiveBack(Box<(LentContext, Option<Arc<Core>>)>),
}

impl AfterReply {
    /// Gives the context back, and then sends the reply: a caller that is ready before does not
    /// wait for it any more. Then the caller's bell rings.
    #[cold]
    fn around(self, send: impl FnOnce()) {
        let (loan, caller) = match self {
            AfterReply::None => (None, None),
            AfterReply::Ring(caller) => (None, Some(caller)),
            AfterReply::GiveBack(both) => (Some(both.0), both.1),
        };
        if let Some(loan) = loan {
            loan.give_back();
        }
        send();
        if let Some(caller) = caller {
            caller.ring();
        }
    }
}

/// The outcome of waiting for a reply.
type Received<R> = Result<Result<R, Unanswered>, RecvError>;

/// Why there is no reply.
#[derive(Clone, Copy)]
enum Unanswered {
    Dropped,
    Unwound,
}

impl<R> Reply<R> {
    /// Replies. A reply whose caller has given up is dropped.
    pub fn send(mut self, value: R) {
        self.answer(Ok(value));
    }

    /// Whether the caller has given up.
    pub fn is_closed(&self) -> bool {
        self.sender.as_ref().is_none_or(OneSender::is_closed)
    }

    fn answer(&mut self, answer: Result<R, Unanswered>) {
        if let Some(sender) = self.sender.take() {
            match std::mem::replace(&mut self.after, AfterReply::None) {
                AfterReply::None => drop(sender.send(answer)),
                other => other.around(|| drop(sender.send(answer))),
            }
        }
    }
}

impl<R> Drop for Reply<R> {
    fn drop(&mut self) {
        let why = if std::thread::panicking() { Unanswered::Unwound } else { Unanswered::Dropped };
        self.answer(Err(why));
    }
}

impl<R> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("is_closed", &self.is_closed()).finish()
    }
}

impl<M: Send> Address<M> {
    pub(crate) fn new(slot: Arc<Slot<M>>) -> Address<M> {
        Address { slot, rights: None, life: None }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.slot.core
    }

    /// Name of the actor.
    pub fn name(&self) -> &str {
        &self.slot.core.name
    }

    /// Number of messages in the mailbox.
    pub fn queued(&self) -> usize {
        self.slot.lane.len()
    }

    /// Whether the actor has ended for good.
    pub fn is_gone(&self) -> bool {
        self.core().state().0 == Phase::Ended
    }

    /// Sends a message. Waits while the mailbox is full, unless its kind says otherwise.
    ///
    /// # Errors
    ///
    /// The message comes back if the actor has ended, the address does not allow it, the mailbox
    /// refuses it, or the sender is cancelled.
    #[inline]
    pub fn tell(&self, msg: M) -> Result<(), TellError<M>> {
        self.send(msg, Patience::Forever)
    }

    /// Like [`tell`](Address::tell), and waits for room for a limited time.
    ///
    /// # Errors
    ///
    /// As [`tell`](Address::tell), and [`CallError::Expired`] if the time is over.
    pub fn tell_within(&self, time: Duration, msg: M) -> Result<(), TellError<M>> {
        self.send(msg, Patience::Until(time::now() + time))
    }

    /// Like [`tell`](Address::tell), and does not wait.
    ///
    /// # Errors
    ///
    /// As [`tell`](Address::tell), and [`CallError::Full`] if there is no room.
    pub fn try_tell(&self, msg: M) -> Result<(), TellError<M>> {
        self.send(msg, Patience::None)
    }

    #[inline]
    fn send(&self, msg: M, patience: Patience) -> Result<(), TellError<M>> {
        if let Err(error) = self.allow(Verb::Tell) {
            return Err(TellError { msg, error });
        }
        self.put(Envelope::told(msg), patience).map_err(|(msg, error)| TellError { msg, error })
    }

    #[inline]
    fn put(&self, envelope: Envelope<M>, patience: Patience) -> Result<(), (M, CallError)> {
        self.put_with(envelope, patience, || self.core().ring_if_waiting())
    }

    #[inline(always)]
    fn put_with(
        &self,
        envelope: Envelope<M>,
        patience: Patience,
        ring: impl Fn(),
    ) -> Result<(), (M, CallError)> {
        match self.slot.lane.put(envelope, patience, &ring) {
            Ok(None) => {}
            Ok(Some((_dropped, reason))) => self.lost(reason),
            Err((envelope, why)) => return Err((envelope.msg, self.undelivered(why))),
        }
        ring();
        Ok(())
    }

    #[cold]
    fn undelivered(&self, why: Undelivered) -> CallError {
        match why {
            Undelivered::Full => CallError::Full,
            Undelivered::Expired => CallError::Expired,
            Undelivered::Interrupted(error) => CallError::Interrupted(error),
            Undelivered::Closed => {
                self.lost(LetterReason::Gone);
                CallError::Gone(self.core().state().2)
            }
        }
    }

    #[cold]
    fn lost(&self, reason: LetterReason) {
        self.core().shared.letters.add::<M>(reason, &self.core().name);
    }

    /// Sends a request and waits for the reply, until a deadline. The deadline travels with the
    /// request: the actor does not handle it later, and a call that it makes on the way ends by the
    /// same deadline. A caller that runs on a [scheduling context](parcae::cap::CapContext) lends
    /// it to the actor until the reply, if the actor is on the same worker; what the actor does
    /// meanwhile is charged to that context.
    ///
    /// # Errors
    ///
    /// [`CallError`] tells the cases apart. After [`Expired`](CallError::Expired) the request may
    /// have been handled. A call that would wait for itself fails at once.
    pub fn call<R: Send>(
        &self,
        within: Duration,
        request: impl FnOnce(Reply<R>) -> M,
    ) -> Result<R, CallError> {
        self.allow(Verb::Call)?;
        let mut request = Some(request);
        let by_task = OWN.try_with(|own| {
            request.take().map(|request| match own.lends.get() {
                false => self.call_by(Some(own), within, request),
                true => self.call_lending(own, within, request),
            })
        });
        match (by_task, request) {
            (_, Some(request)) => self.call_by(None, within, request), // no task, or it is ending
            (Ok(Some(answer)), None) => answer,
            (_, None) => Err(CallError::NoReply), // the closure takes the request, and answers
        }
    }

    /// A call by a task, which is perhaps an actor, or by a thread.
    #[inline]
    fn call_by<R: Send>(
        &self,
        own: Option<&ActorTask>,
        within: Duration,
        request: impl FnOnce(Reply<R>) -> M,
    ) -> Result<R, CallError> {
        let at = time::now() + within;
        let at = own.and_then(|own| own.deadline.get()).map_or(at, |inherited| inherited.min(at));
        let _call = match own.and_then(|own| own.actor.get()) {
            Some(caller) => {
                caller.begin_call(self.core()).map_err(CallError::Cycle)?;
                Some(EndCall(caller))
            }
            None => None,
        };
        let (sender, receiver) = oneshot();
        let msg = request(Reply { sender: Some(sender), after: AfterReply::None });
        let caller = own.and_then(|own| own.actor.get()).map(Arc::clone);
        self.put(Envelope { msg, deadline: Some(at), caller, loan: None }, Patience::Until(at))
            .map_err(|(_, error)| error)?;
        // The actor is mostly ready on the caller's worker now. If it has answered when the caller
        // is back, there is nothing to wait for, and no timer to set. A yield that fails is
        // followed by a wait that says why.
        if own.is_some() && parcae::yield_now().is_ok() {
            match receiver.try_recv() {
                Err(error) if matches!(error.reason(), Reason::WouldWait) => {}
                received => return self.answer(received, at),
            }
        }
        self.answer(receiver.recv_deadline(at), at)
    }

    /// The outcome of a call with this deadline.
    fn answer<R>(&self, received: Received<R>, at: Instant) -> Result<R, CallError> {
        match received {
            Ok(Ok(value)) => Ok(value),
            // An actor that takes a request too late drops it, and its caller may hear of that
            // before the clock wakes it.
            Ok(Err(Unanswered::Dropped)) if time::has_passed(at) => {
                Err(match self.unanswered(Unanswered::Dropped) {
                    CallError::NoReply => CallError::Expired,
                    other => other,
                })
            }
            Ok(Err(why)) => Err(self.unanswered(why)),
            Err(error) => Err(match error.reason() {
                Reason::TimedOut => self.expired(),
                Reason::Interrupted(error) => CallError::Interrupted(error.clone()),
                _ => self.unanswered(Unanswered::Dropped),
            }),
        }
    }

    fn expired(&self) -> CallError {
        match self.core().state().0 {
            Phase::Restarting { attempt } => CallError::Restarting { attempt },
            _ => CallError::Expired,
        }
    }

    fn unanswered(&self, why: Unanswered) -> CallError {
        let (phase, _, exit) = self.core().state();
        match (phase, why) {
            (Phase::Ended, _) => CallError::Gone(exit),
            (Phase::Restarting { attempt }, _) => CallError::Restarting { attempt },
            (_, Unanswered::Unwound) => CallError::Failed,
            (_, Unanswered::Dropped) => CallError::NoReply,
        }
    }

    /// Asks the actor to stop, after the message that it handles. Its supervisor does not start it
    /// again, unless it is permanent. Messages that are still in the mailbox become dead letters.
    ///
    /// # Errors
    ///
    /// If the address does not allow it.
    pub fn stop(&self) -> Result<(), CallError> {
        self.allow(Verb::Stop)?;
        self.core().stop();
        Ok(())
    }

    /// Asks the actor to stop when it has handled all messages in its mailbox, those that come
    /// meanwhile included. Messages that it keeps in its stash become dead letters. If it fails
    /// before, the next incarnation goes on.
    ///
    /// A system that ends [stops](Address::stop) its actors; drain those whose messages must be
    /// handled, and [wait](Address::watch) for their end.
    ///
    /// # Errors
    ///
    /// If the address does not allow it.
    pub fn drain(&self) -> Result<(), CallError> {
        self.allow(Verb::Stop)?;
        self.core().drain();
        Ok(())
    }

    /// Cancels the actor: a handler that runs ends at its next wait or checkpoint.
    ///
    /// # Errors
    ///
    /// If the address does not allow it.
    pub fn kill(&self) -> Result<(), CallError> {
        self.allow(Verb::Stop)?;
        self.core().kill();
        Ok(())
    }

    /// A handle to wait for the end of the incarnation that runs now. If none runs, it has ended
    /// already.
    pub fn watch(&self) -> Watch {
        let watched = Arc::new(Watched::new());
        let id = self.core().shared.next_monitor();
        self.core().add_monitor(id, Sink::Task(Arc::clone(&watched)));
        Watch { watched }
    }

    // ----- weaker forms -------------------------------------------------------------------------

    fn weaker(&self, limit: Limit, recorded: AddressLimit) -> Address<M> {
        let number = self.core().shared.next_address();
        let rights = Arc::new(Rights { number, above: self.rights.clone(), limit });
        rights.record(self.core(), AddressEvent::Weakened(recorded));
        Address { rights: Some(rights), ..self.clone() }
    }

    /// An address that only sends messages: it cannot call, stop or kill.
    pub fn tell_only(&self) -> Address<M> {
        self.weaker(Limit::TellOnly, AddressLimit::TellOnly)
    }

    /// An address for so many messages and calls, all its copies together.
    pub fn at_most(&self, messages: u64) -> Address<M> {
        self.weaker(Limit::AtMost(AtomicU64::new(messages)), AddressLimit::AtMost(messages))
    }

    /// An address for so many messages and calls in each period, all its copies together. A sender
    /// that has been silent may send those of one period at once.
    ///
    /// # Panics
    ///
    /// If the period is zero.
    pub fn at_rate(&self, messages: u64, period: Duration) -> Address<M> {
        assert!(!period.is_zero(), "a rate needs a period");
        let bucket = Bucket { messages, period, left: messages as f64, filled: time::now() };
        self.weaker(Limit::AtRate(Mutex::new(bucket)), AddressLimit::AtRate(messages, period))
    }

    /// An address that is valid until a point in time.
    pub fn until(&self, at: Instant) -> Address<M> {
        self.weaker(Limit::Until(at), AddressLimit::Until(at))
    }

    /// An address that can be taken back, and the function that does so.
    pub fn revocable(&self) -> (Address<M>, impl Fn() + Send + Sync + Clone + use<M>) {
        let revoked = Arc::new(AtomicBool::new(false));
        let limit = Limit::Revoked(Arc::clone(&revoked));
        let weaker = self.weaker(limit, AddressLimit::Revocable);
        let (rights, core) = (weaker.rights.clone(), Arc::clone(self.core()));
        let revoke = move || {
            // Relaxed, with the load in `allow`: the flag guards nothing else.
            if !revoked.swap(true, Ordering::Relaxed)
                && let Some(rights) = &rights
            {
                rights.record(&core, AddressEvent::Revoked);
            }
        };
        (weaker, revoke)
    }

    /// An address that reaches the incarnation that runs now, and no later one.
    pub fn this_life(&self) -> Address<M> {
        Address { life: Some(self.core().state().1), ..self.clone() }
    }

    #[inline]
    fn allow(&self, verb: Verb) -> Result<(), CallError> {
        if self.life.is_none() && self.rights.is_none() {
            return Ok(());
        }
        self.allow_weaker(verb)
    }

    fn allow_weaker(&self, verb: Verb) -> Result<(), CallError> {
        if let Some(life) = self.life {
            let (_, incarnation, exit) = self.core().state();
            if incarnation != life {
                return Err(CallError::Gone(exit));
            }
        }
        let mut rights = self.rights.as_deref();
        while let Some(right) = rights {
            let refusal = match &right.limit {
                Limit::TellOnly if verb != Verb::Tell => Some(Refusal::TellOnly),
                Limit::Until(at) if time::now() >= *at => Some(Refusal::TooLate),
                // Relaxed: as at the store.
                Limit::Revoked(revoked) if revoked.load(Ordering::Relaxed) => {
                    Some(Refusal::Revoked)
                }
                Limit::AtRate(bucket) if verb != Verb::Stop => {
                    let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
                    (!bucket.take(time::now())).then_some(Refusal::TooFast)
                }
                Limit::AtMost(left) if verb != Verb::Stop => {
                    // Relaxed: a count, which guards nothing else.
                    let took = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        left.checked_sub(1)
                    });
                    took.err().map(|_| Refusal::UsedUp)
                }
                _ => None,
            };
            if let Some(refusal) = refusal {
                right.record(self.core(), AddressEvent::Refused(refusal));
                return Err(CallError::Refused(refusal));
            }
            rights = right.above.as_deref();
        }
        Ok(())
    }
}

/// Notes the end of a call by an actor.
struct EndCall<'c>(&'c Core);

impl Drop for EndCall<'_> {
    fn drop(&mut self) {
        self.0.end_call();
    }
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Address<M> {
        Address { slot: Arc::clone(&self.slot), rights: self.rights.clone(), life: self.life }
    }
}

impl<M> fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.slot.core.name).finish()
    }
}

impl<M> TellError<M> {
    /// The message.
    pub fn into_inner(self) -> M {
        self.msg
    }

    /// Why it was not sent.
    pub fn error(&self) -> &CallError {
        &self.error
    }
}

impl<M> fmt::Debug for TellError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TellError").field(&self.error).finish()
    }
}

impl<M> fmt::Display for TellError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message was not sent: {}", self.error)
    }
}

impl<M> std::error::Error for TellError<M> {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TellOnly => "the address only sends messages; it cannot call or stop",
            Refusal::UsedUp => "the address has sent as many messages as it may",
            Refusal::TooFast => "the address sends faster than its rate",
            Refusal::TooLate => "the time of the address is over",
            Refusal::Revoked => "the address was revoked",
        })
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Full => f.write_str("the mailbox is full"),
            CallError::Expired => f.write_str("the deadline of the call was exceeded"),
            CallError::Restarting { attempt } => {
                write!(f, "the actor is being started again (restart {attempt})")
            }
            CallError::Gone(Some(exit)) => write!(f, "the actor has ended: {exit}"),
            CallError::Gone(None) => f.write_str("the actor has ended"),
            CallError::NoReply => f.write_str("the actor dropped the request without a reply"),
            CallError::Failed => f.write_str("the actor failed while it handled the request"),
            CallError::Refused(refusal) => refusal.fmt(f),
            CallError::Cycle(path) => {
                write!(f, "the call would wait for itself: {}", path.join(" calls "))
            }
            CallError::Interrupted(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}
