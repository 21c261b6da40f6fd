//! Calls that serve other requests while they wait.
//!
//! An actor that waits for a reply handles no message, so a call back to it would wait for itself,
//! and fails ([`CallError::Cycle`]). A handler that lends its state for the time of a call can do
//! better: requests of the actors that it waits for are handled meanwhile.
//!
//! The caller waits at its own bell. A sender rings there as always, and the reply rings too
//! (`Reply::rings`), after it was sent. Before each wait the caller announces it, then looks for
//! the reply and for messages once more (`crate::posture`): none of the two is missed.

use super::{ActorTask, Address, CallError, OWN, Reply, Verb};
use crate::actor::{Actor, ActorCx, Next};
use crate::clock::after;
use crate::letters::LetterReason;
use crate::mailbox::{Envelope, Patience};
use crate::slot::{Core, Wait};
use parcae::channel::{Reason, oneshot};
use parcae::time;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A request that is served: a dead letter, if its handler fails or panics.
struct Served<'c, M>(&'c Core, PhantomData<fn(M)>);

impl<M> Drop for Served<'_, M> {
    fn drop(&mut self) {
        self.0.shared.letters.add::<M>(LetterReason::Failed, &self.0.name);
    }
}

/// Ends the announcement of a wait.
struct EndWait<'c>(&'c Core);

impl Drop for EndWait<'_> {
    fn drop(&mut self) {
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
        let at = after(time::now(), within);
        let at = inherited.map_or(at, |inherited| inherited.min(at));
        let _call = core.begin_call(other.core(), Wait::Serves).map_err(CallError::Cycle)?;
        let _wait = EndWait(core);
        let (sender, receiver) = oneshot();
        let msg = request(Reply { sender: Some(sender), rings: Some(Arc::clone(core)) });
        let caller = Some(Arc::clone(core));
        other
            .put(
                Envelope { msg, deadline: Some(at), caller, life: other.life },
                Patience::Until(at),
            )
            .map_err(|(_, error)| error)?;
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
                    if !envelope.caller.as_ref().is_some_and(is_ours) {
                        self.first.push_back(envelope);
                        continue;
                    }
                    core.has_taken();
                    let letters = &core.shared.letters;
                    if envelope.deadline.is_some_and(|at| at <= time::now()) {
                        letters.add::<M>(LetterReason::Expired, &core.name);
                        continue;
                    }
                    if !core.is_for(envelope.life) {
                        letters.add::<M>(LetterReason::Gone, &core.name);
                        continue;
                    }
                    own.deadline.set(envelope.deadline);
                    let request = Served::<M>(core, PhantomData);
                    let handled = actor.handle(self, envelope.msg);
                    own.deadline.set(inherited);
                    self.finishes |= handled.map_err(CallError::Interrupted)? == Next::Stop;
                    std::mem::forget(request);
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
