//! Actors that switch between behaviours.

use crate::actor::{Actor, ActorCx, Event, Next};
use parcae::Result;
use std::fmt;

/// A function that handles the messages of a [`Machine`] for as long as it is the behaviour of its
/// state.
pub type Behaviour<S, M> = fn(&mut S, &mut ActorCx<'_, M>, M) -> Result<Step<S, M>>;

/// A function that handles the events of a [`Machine`].
pub type OnEvent<S, M> = fn(&mut S, &mut ActorCx<'_, M>, Event) -> Result<Step<S, M>>;

/// The step of a [`Machine`] after a message.
pub enum Step<S, M> {
    /// Keeps the behaviour, and goes on as an actor would.
    Next(Next),
    /// Handles the next message with another behaviour.
    Become(Behaviour<S, M>),
}

/// An actor whose state has several behaviours: a function handles the messages until it names
/// another one. Messages that a behaviour cannot handle yet go to the
/// [stash](ActorCx::stash).
///
/// ```
/// use parcae::prelude::*;
/// use parcae::profile::Cluster;
/// use parcae_actor::{ActorCx, ActorOpts, Actors, ActorsOpts, Machine, Next, Reply, Step};
/// use std::time::Duration;
///
/// enum Msg {
///     Push,
///     Passed(Reply<u32>),
/// }
///
/// type Turnstile = u32; // people who have passed
///
/// fn locked(
///     passed: &mut Turnstile,
///     cx: &mut ActorCx<'_, Msg>,
///     msg: Msg,
/// ) -> parcae::Result<Step<Turnstile, Msg>> {
///     match msg {
///         Msg::Push => Ok(Step::Become(open)),
///         Msg::Passed(reply) => {
///             reply.send(*passed);
///             Ok(Step::Next(Next::Continue))
///         }
///     }
/// }
///
/// fn open(
///     passed: &mut Turnstile,
///     cx: &mut ActorCx<'_, Msg>,
///     msg: Msg,
/// ) -> parcae::Result<Step<Turnstile, Msg>> {
///     match msg {
///         Msg::Push => {
///             *passed += 1;
///             cx.unstash_all();
///             Ok(Step::Become(locked))
///         }
///         later => {
///             let _ = cx.stash(later); // until the next push
///             Ok(Step::Next(Next::Continue))
///         }
///     }
/// }
///
/// let rt = Runtime::builder().profile::<Cluster>().build()?;
/// let passed = rt.run(|cx| {
///     cx.actors(ActorsOpts::new(), |system| {
///         let opts = ActorOpts::new("turnstile");
///         let turnstile = system.start(opts, |_| Ok(Machine::new(0, locked)))?;
///         (0..6).try_for_each(|_| turnstile.tell(Msg::Push))?;
///         Ok(turnstile.call(Duration::from_secs(1), Msg::Passed)?)
///     })
/// })?;
/// assert_eq!(passed, 3);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// A restart begins with the behaviour that the factory names.
pub struct Machine<S, M> {
    state: S,
    behaviour: Behaviour<S, M>,
    on_event: Option<OnEvent<S, M>>,
}

impl<S, M> Machine<S, M> {
    /// A state with its first behaviour.
    pub fn new(state: S, behaviour: Behaviour<S, M>) -> Machine<S, M> {
        Machine { state, behaviour, on_event: None }
    }

    /// Handles [events](Event) with this function, whatever the behaviour is. Without it they are
    /// ignored.
    pub fn on_event(mut self, on_event: OnEvent<S, M>) -> Machine<S, M> {
        self.on_event = Some(on_event);
        self
    }

    fn follow(&mut self, step: Step<S, M>) -> Next {
        match step {
            Step::Next(next) => next,
            Step::Become(behaviour) => {
                self.behaviour = behaviour;
                Next::Continue
            }
        }
    }
}

impl<S: Send, M: Send + 'static> Actor for Machine<S, M> {
    type Msg = M;

    fn handle(&mut self, cx: &mut ActorCx<'_, M>, msg: M) -> Result<Next> {
        let step = (self.behaviour)(&mut self.state, cx, msg)?;
        Ok(self.follow(step))
    }

    fn event(&mut self, cx: &mut ActorCx<'_, M>, event: Event) -> Result<Next> {
        let Some(on_event) = self.on_event else { return Ok(Next::Continue) };
        let step = on_event(&mut self.state, cx, event)?;
        Ok(self.follow(step))
    }
}

impl<S: fmt::Debug, M> fmt::Debug for Machine<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<S, M> fmt::Debug for Step<S, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Next(next) => f.debug_tuple("Next").field(next).finish(),
            Step::Become(_) => f.write_str("Become"),
        }
    }
}
