//! Calls that serve other requests while they wait.
//!
//! An actor that waits for a reply handles no message, so a call back to it would wait for itself,
//! and fails ([`CallError::Cycle`]). A handler that lends its state for the time of a call can do
//! better: requests of the actors that it waits for are handled meanwhile.
//!
//! The caller waits at its own bell. A sender rings there as always, and the reply rings too
//! (`AfterReply`), after it was sent. Before each wait the caller announces it, then looks for
//! the reply and for messages once more (`crate::posture`): none of the two is missed.

use super::lending::{OnLoan, offer};
use super::{ActorTask, Address, AfterReply, CallError, EndCall, OWN, Reply, Verb};
use crate::actor::{Actor, ActorCx};
use crate::mailbox::{Envelope, Patience};
use crate::slot::Core;
use parcae::channel::{Reason, oneshot};
use parcae::policy::ContextOffer;
use parcae::time;
use std::sync::Arc;
use std::time::Duration;

/// Ends the time in which an actor serves.
struct EndServing<'c>(&'c Core);

impl Drop for EndServing<'_> {
    fn drop(&mut self) {
        self.0.set_serves(false);
        self.0.lower();
    }
}

impl<M: Send + 'static> ActorCx<'_, M> {
    /// Calls another actor, and handles requests of that actor, and of those that it calls in turn,
    /// while it waits. The handler lends its state for this: after the call the state may have
    /// changed. Other messages stay for later, in their order.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::profile::Cluster;
    /// use parcae_actor::{Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Address, Next, Reply};
    /// use std::time::Duration;
    ///
    /// const SECOND: Duration = Duration::from_secs(1);
    ///
    /// struct Shop(u64);
    ///
    /// enum ToShop {
    ///     Price(Reply<u64>),
    ///     Order(Address<ToAuditor>, Reply<bool>),
    /// }
    ///
    /// impl Actor for Shop {
    ///     type Msg = ToShop;
    ///
    ///     fn handle(
    ///         &mut self,
    ///         cx: &mut ActorCx<'_, ToShop>,
    ///         msg: ToShop,
    ///     ) -> parcae::Result<Next> {
    ///         match msg {
    ///             ToShop::Price(reply) => reply.send(self.0),
    ///             ToShop::Order(auditor, reply) => {
    ///                 let own = cx.address();
    ///                 let approve = |reply| ToAuditor { shop: own, reply };
    ///                 reply.send(cx.call_serving(self, &auditor, SECOND, approve)?);
    ///             }
    ///         }
    ///         Ok(Next::Continue)
    ///     }
    /// }
    ///
    /// /// Asks the shop for its price before it approves.
    /// struct Auditor;
    ///
    /// struct ToAuditor {
    ///     shop: Address<ToShop>,
    ///     reply: Reply<bool>,
    /// }
    ///
    /// impl Actor for Auditor {
    ///     type Msg = ToAuditor;
    ///
    ///     fn handle(
    ///         &mut self,
    ///         _: &mut ActorCx<'_, ToAuditor>,
    ///         msg: ToAuditor,
    ///     ) -> parcae::Result<Next> {
    ///         msg.reply.send(msg.shop.call(SECOND, ToShop::Price)? < 100);
    ///         Ok(Next::Continue)
    ///     }
    /// }
    ///
    /// let rt = Runtime::builder().profile::<Cluster>().build()?;
    /// let approved = rt.run(|cx| {
    ///     cx.actors(ActorsOpts::new(), |system| {
    ///         let shop = system.start(ActorOpts::new("shop"), |_| Ok(Shop(42)))?;
    ///         let auditor = system.start(ActorOpts::new("auditor"), |_| Ok(Auditor))?;
    ///         Ok(shop.call(SECOND, |reply| ToShop::Order(auditor, reply))?)
    ///     })
    /// })?;
    /// assert!(approved);
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Address::call`]. The failure of a request that was served is
    /// [`CallError::Interrupted`]: return it, since it is a failure of this actor. A call to an
    /// actor that waits for this one already fails with [`CallError::Cycle`].
    pub fn call_serving<A, N, R>(
        &mut self,
        actor: &mut A,
        other: &Address<N>,
        within: Duration,
        request: impl FnOnce(Reply<R>) -> N,
    ) -> Result<R, CallError>
    where
        A: Actor<Msg = M>,
        N: Send,
        R: Send,
    {
        other.allow(Verb::Call)?;
        OWN.with(|own| self.serve_during(own, actor, (other, within), request))
    }

    fn serve_during<A, N, R>(
        &mut self,
        own: &ActorTask,
        actor: &mut A,
        (other, within): (&Address<N>, Duration),
        request: impl FnOnce(Reply<R>) -> N,
    ) -> Result<R, CallError>
    where
        A: Actor<Msg = M>,
        N: Send,
        R: Send,
    {
        let core = &Arc::clone(&self.slot.core);
        let inherited = own.deadline.get();
        let at = time::now() + within;
        let at = inherited.map_or(at, |inherited| inherited.min(at));
        core.set_serves(true); // before the call is noted
        let _serving = EndServing(core);
        core.begin_call(other.core()).map_err(CallError::Cycle)?;
        let _call = EndCall(core);
        let offer = offer(own, other)?;
        let loan = offer.as_ref().map(ContextOffer::loan);
        let (sender, receiver) = oneshot();
        let ring = Arc::clone(core);
        let after = match &loan {
            None => AfterReply::Ring(ring),
            Some(loan) => AfterReply::GiveBack(Box::new((loan.clone(), Some(ring)))),
        };
        let msg = request(Reply { sender: Some(sender), after });
        let caller = Some(Arc::clone(core));
        let envelope = Envelope { msg, deadline: Some(at), caller, loan: loan.clone() };
        let sent = match &loan {
            None => other.put(envelope, Patience::Until(at)),
            Some(loan) => other.put_lending(envelope, loan, at),
        };
        sent.map_err(|(_, error)| error)?;
        let mut is_announced = false;
        loop {
            match receiver.try_recv() {
                Err(error) if matches!(error.reason(), Reason::WouldWait) => {}
                received => return other.answer(received, at),
            }
            let has_room = self.first.len() < self.most_stashed;
            let taken = if has_room { self.slot.lane.take() } else { Ok(None) };
            match taken.map_err(CallError::Interrupted)? {
                Some(envelope) => {
                    core.lower();
                    is_announced = false;
                    let is_ours = |caller: &Arc<Core>| {
                        Arc::ptr_eq(caller, other.core()) || other.core().waits_for(caller)
                    };
                    if envelope.caller.as_ref().is_some_and(is_ours) {
                        let _lent = envelope.loan.map(|loan| OnLoan::begin(own, loan));
                        own.deadline.set(envelope.deadline);
                        let handled = actor.handle(self, envelope.msg);
                        own.deadline.set(inherited);
                        handled.map_err(CallError::Interrupted)?;
                    } else {
                        self.first.push_back(envelope);
                    }
                }
                None if at <= time::now() => return Err(other.expired()),
                None if is_announced => {
                    core.wait(Some(at)).map_err(CallError::Interrupted)?;
                    is_announced = false;
                }
                None => {
                    core.raise();
                    is_announced = true;
                }
            }
        }
    }
}
