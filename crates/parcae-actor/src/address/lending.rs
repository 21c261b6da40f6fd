//! Calls by tasks that run on scheduling contexts: the context goes with the request.
//!
//! `parcae` has the protocol (its `run_queue::realtime::loan`): an offer, a loan that is sent, and
//! a server that takes it. The parts of a call use it so:
//!
//! | part | the loan |
//! |---|---|
//! | the caller | offers its context first, and ends the offer last: after the answer, or whatever else ended the call |
//! | the ring that wakes the actor | lends the context, so the actor runs before best-effort work |
//! | the actor that takes the request | accepts the loan: then a busy one has it too, from then on |
//! | the reply, also one that is dropped | gives it back |
//! | the end of the handler, also by a panic | gives it back: for a reply that is sent later |
//!
//! A call by an actor that handles such a request lends the same context again, so a chain of calls
//! runs on the context of the first caller. Other tasks see one byte of this: `ActorTask::lends`.

use super::{ActorTask, Address, AfterReply, CallError, EndCall, Reply};
use crate::mailbox::{Envelope, Patience};
use parcae::channel::oneshot;
use parcae::policy::{ContextOffer, LentContext, runs_on_context};
use parcae::time;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time in which an actor handles a request on the context of its caller.
pub(crate) struct OnLoan<'t> {
    own: &'t ActorTask,
    loan: LentContext,
    lent_before: bool,
}

impl<'t> OnLoan<'t> {
    #[cold]
    pub(crate) fn begin(own: &'t ActorTask, loan: LentContext) -> OnLoan<'t> {
        loan.accept();
        let lent_before = own.lends.replace(runs_on_context());
        OnLoan { own, loan, lent_before }
    }
}

impl Drop for OnLoan<'_> {
    fn drop(&mut self) {
        self.loan.give_back();
        self.own.lends.set(self.lent_before);
    }
}

/// The offer of a call, if its caller has a context.
pub(super) fn offer<M>(
    own: &ActorTask,
    called: &Address<M>,
) -> Result<Option<ContextOffer>, CallError> {
    match own.lends.get() {
        false => Ok(None),
        true => ContextOffer::new(called.slot.min_budget).map_err(CallError::Interrupted),
    }
}

impl<M: Send> Address<M> {
    /// A call by a task that may have a context.
    #[cold]
    pub(super) fn call_lending<R: Send>(
        &self,
        own: &ActorTask,
        within: Duration,
        request: impl FnOnce(Reply<R>) -> M,
    ) -> Result<R, CallError> {
        let Some(offer) = offer(own, self)? else {
            return self.call_by(Some(own), within, request); // it was revoked
        };
        let loan = offer.loan();
        let at = time::now() + within;
        let at = own.deadline.get().map_or(at, |inherited| inherited.min(at));
        let caller = own.actor.get();
        let _call = match caller {
            Some(caller) => {
                caller.begin_call(self.core()).map_err(CallError::Cycle)?;
                Some(EndCall(caller))
            }
            None => None,
        };
        let (sender, receiver) = oneshot();
        let after = AfterReply::GiveBack(Box::new((loan.clone(), None)));
        let msg = request(Reply { sender: Some(sender), after });
        let (caller, sent_loan) = (caller.map(Arc::clone), Some(loan.clone()));
        let envelope = Envelope { msg, deadline: Some(at), caller, loan: sent_loan };
        self.put_lending(envelope, &loan, at).map_err(|(_, error)| error)?;
        self.answer(receiver.recv_deadline(at), at)
    }

    /// Puts a request into the mailbox, and wakes the actor with the context.
    pub(super) fn put_lending(
        &self,
        envelope: Envelope<M>,
        loan: &LentContext,
        at: Instant,
    ) -> Result<(), (M, CallError)> {
        self.put_with(envelope, Patience::Until(at), || self.core().ring_lending(loan))
    }
}
