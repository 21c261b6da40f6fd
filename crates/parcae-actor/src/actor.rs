//! The actor: handlers, their context, and the events of the system.

use crate::address::Address;
use crate::clock;
use crate::exit::Exit;
use crate::mailbox::Envelope;
use crate::monitor::{Down, MonitorId};
use crate::overrun::MessageLimit;
use crate::slot::{Sink, Slot};
use crate::timers::Timers;
use parcae::profile::Cluster;
use parcae::{Cx, Nursery, Result, time};
use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A task that handles messages, one at a time.
///
/// Handlers are ordinary code and may wait. Cancelling reaches a handler at its next wait or
/// checkpoint. State may borrow from the frame that opened the system; messages are `'static`.
pub trait Actor: Send {
    /// The messages that the actor handles.
    type Msg: Send + 'static;

    /// Runs before the first message. The actor has started when this returns; a supervisor starts
    /// the next child only then.
    ///
    /// # Errors
    ///
    /// An error is a failed start.
    fn started(&mut self, cx: &mut ActorCx<'_, Self::Msg>) -> Result<()> {
        let _ = cx;
        Ok(())
    }

    /// Handles a message.
    ///
    /// # Errors
    ///
    /// An error, like a panic, ends this incarnation. The message is lost; those behind it stay in
    /// the mailbox for the next incarnation.
    fn handle(&mut self, cx: &mut ActorCx<'_, Self::Msg>, msg: Self::Msg) -> Result<Next>;

    /// Handles an event of the system lane, which goes before all messages.
    ///
    /// # Errors
    ///
    /// As for [`handle`](Actor::handle).
    fn event(&mut self, cx: &mut ActorCx<'_, Self::Msg>, event: Event) -> Result<Next> {
        let _ = (cx, event);
        Ok(Next::Continue)
    }

    /// Runs at the end of every incarnation that has started, also after a panic. It is shielded
    /// from cancellation for the time that the actor has to stop.
    /// [`ActorCx::hand_over`] passes a value to the next incarnation.
    fn stopping(&mut self, cx: &mut ActorCx<'_, Self::Msg>, exit: &Exit) {
        let _ = (cx, exit);
    }

    /// A copy of a message, for [`ActorOpts::redeliver`](crate::ActorOpts::redeliver): the next
    /// incarnation handles it if this one fails on the message. A message without a copy is lost
    /// then, as all are by default.
    fn copy(msg: &Self::Msg) -> Option<Self::Msg>
    where
        Self: Sized,
    {
        let _ = msg;
        None
    }

    /// The key of a message, for [`Mailbox::latest_by_key`](crate::Mailbox::latest_by_key). Must
    /// not wait.
    fn key(msg: &Self::Msg) -> u64
    where
        Self: Sized,
    {
        let _ = msg;
        0
    }

    /// The level of a message, for [`Mailbox::priority`](crate::Mailbox::priority); higher ones go
    /// first. Must not wait.
    fn level(msg: &Self::Msg) -> usize
    where
        Self: Sized,
    {
        let _ = msg;
        0
    }
}

/// The step of an actor after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Next {
    /// Waits for the next message.
    Continue,
    /// Sleeps until the next message or event: the state is kept, the task ends and its stack goes
    /// back. The next message starts a task, which takes longer than to wake one that waits.
    ///
    /// An actor with timers, with helpers that run, or with a [budget](crate::ActorOpts::budget)
    /// of its own waits instead. If the supervisor is cancelled, an actor that sleeps is dropped
    /// without a call of [`stopping`](Actor::stopping).
    Hibernate,
    /// Ends; [`ExitKind::Finished`](crate::ExitKind::Finished).
    Stop,
}

/// An event of the system lane.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A monitored actor has ended.
    Down(Down),
    /// A timer of this incarnation is due.
    Timer {
        /// The key that the timer was set with.
        key: Arc<str>,
        /// Ticks of a periodic timer that were left out because the actor was busy.
        missed: u64,
    },
}

/// The circumstances of an incarnation, for the factory that makes its state.
pub struct Birth {
    pub(crate) incarnation: u64,
    pub(crate) last: Option<Exit>,
    pub(crate) state: Option<Box<dyn Any + Send>>,
}

impl Birth {
    /// Number of the incarnation; the first one is 1.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The end of the incarnation before.
    pub fn last_exit(&self) -> Option<&Exit> {
        self.last.as_ref()
    }

    /// Takes the value that the incarnation before [handed over](ActorCx::hand_over), if it is of
    /// this type.
    pub fn take_state<T: 'static>(&mut self) -> Option<T> {
        let state = self.state.take()?;
        match state.downcast() {
            Ok(state) => Some(*state),
            Err(other) => {
                self.state = Some(other);
                None
            }
        }
    }
}

impl fmt::Debug for Birth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Birth")
            .field("incarnation", &self.incarnation)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

/// The context of a handler: the actor's address, timers, monitors, stash and helpers. Dereferences
/// to the [`Cx`] of its task.
pub struct ActorCx<'a, M> {
    pub(crate) cx: &'a Cx<Cluster>,
    pub(crate) slot: &'a Arc<Slot<M>>,
    pub(crate) helpers: &'a dyn Helpers,
    pub(crate) timers: Timers,
    pub(crate) stashed: VecDeque<M>,
    pub(crate) most_stashed: usize,
    pub(crate) limit: Option<MessageLimit>,
    /// Messages that were taken out of the stash and go first.
    pub(crate) first: VecDeque<Envelope<M>>,
    pub(crate) handed: Option<Box<dyn Any + Send>>,
    /// A message that an incarnation failed on, and how many did. It goes before all others.
    pub(crate) again: Option<(M, u32)>,
    /// How many incarnations failed on the message that was taken last, if any did.
    pub(crate) again_taken: Option<u32>,
    /// A copy of the message that is being handled, and how many incarnations failed on it.
    pub(crate) copy: Option<(M, u32)>,
    /// A handler of a request that was served during a call has returned [`Next::Stop`].
    pub(crate) finishes: bool,
}

/// The nursery of an incarnation.
pub(crate) trait Helpers {
    fn spawn(&self, helper: Helper) -> Result<()>;

    /// Whether a helper runs. One that does not any more has told the nursery of its failure.
    fn are_there(&self) -> bool;

    /// Whether the nursery, and so the actor's task, was cancelled.
    fn is_cancelled(&self) -> bool;
}

type Helper = Box<dyn FnOnce(&Cx<Cluster>) -> Result<()> + Send>;

/// The nursery, and whether it has had a helper: to cancel an empty one costs as much.
pub(crate) struct Nest<'scope, 'env> {
    pub(crate) nursery: &'scope Nursery<'scope, 'env, Cluster>,
    pub(crate) is_used: Cell<bool>,
}

impl Helpers for Nest<'_, '_> {
    fn spawn(&self, helper: Helper) -> Result<()> {
        self.is_used.set(true);
        self.nursery.spawn(|cx| helper(cx)).map(drop)
    }

    fn are_there(&self) -> bool {
        self.is_used.get() && self.nursery.live() > 0
    }

    fn is_cancelled(&self) -> bool {
        self.nursery.is_cancelled()
    }
}

impl<M: Send + 'static> ActorCx<'_, M> {
    /// The address of this actor.
    pub fn address(&self) -> Address<M> {
        Address::new(Arc::clone(self.slot))
    }

    /// Monitors an actor: [`Event::Down`] comes once, when the incarnation that runs now has ended;
    /// at once if there is none. The monitor ends with this incarnation.
    pub fn monitor<N: Send>(&self, other: &Address<N>) -> MonitorId {
        let id = self.slot.core.shared.next_monitor();
        let sink = Sink::Actor(self.slot.core.incarnation());
        other.core().add_monitor_of(id, other.life(), sink);
        id
    }

    /// Ends a monitor. Its event does not come any more, even if the actor has ended already.
    pub fn demonitor<N: Send>(&self, other: &Address<N>, id: MonitorId) {
        self.slot.core.remove_monitor(other.core(), id);
    }

    /// Links this actor with another one: if the incarnation of one of them ends abnormally, the
    /// other is cancelled, and has failed. A link does not outlive either incarnation.
    pub fn link<N: Send>(&self, other: &Address<N>) {
        let (own, core) = (&self.slot.core, other.core());
        let linked = core.incarnation();
        let life = other.life().or(linked.number());
        if life == linked.number() {
            own.add_monitor(own.shared.next_monitor(), Sink::Linked(linked));
        }
        // Of the same incarnation: it may have ended meanwhile.
        core.add_monitor_of(own.shared.next_monitor(), life, Sink::Linked(own.incarnation()));
    }

    /// Sets a timer: [`Event::Timer`] comes once, after this time. A timer with the same key is
    /// replaced.
    pub fn timer(&mut self, key: impl Into<Arc<str>>, after: Duration) {
        self.timers.set(key.into(), clock::after(time::now(), after), None);
    }

    /// Sets a periodic timer. Ticks that the actor had no time for are left out and counted.
    pub fn timer_every(&mut self, key: impl Into<Arc<str>>, period: Duration) {
        self.timers.set(key.into(), clock::after(time::now(), period), Some(period));
    }

    /// Cancels a timer. Its event does not come any more. False if there is no such timer.
    pub fn cancel_timer(&mut self, key: &str) -> bool {
        self.timers.cancel(key)
    }

    /// Keeps a message for later.
    ///
    /// # Errors
    ///
    /// The message comes back if as many are kept as [may be](crate::ActorOpts::stash).
    pub fn stash(&mut self, msg: M) -> Result<(), M> {
        if self.stashed.len() >= self.most_stashed {
            return Err(msg);
        }
        self.stashed.push_back(msg);
        Ok(())
    }

    /// Handles the kept messages next, in the order in which they were kept.
    pub fn unstash_all(&mut self) {
        let kept = self.stashed.drain(..).map(Envelope::told);
        self.first.extend(kept);
    }

    /// Passes a value to the factory of the next incarnation.
    pub fn hand_over<T: Send + 'static>(&mut self, state: T) {
        self.handed = Some(Box::new(state));
    }

    /// Spawns a helper in the nursery of this incarnation. It is cancelled when the incarnation
    /// ends. Its failure is that of the actor.
    ///
    /// # Errors
    ///
    /// As for [`Nursery::spawn`].
    pub fn spawn(
        &mut self,
        helper: impl FnOnce(&Cx<Cluster>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.helpers.spawn(Box::new(helper))
    }

    /// Whether the task has nothing to stay for.
    pub(crate) fn may_sleep(&self) -> bool {
        self.timers.earliest().is_none() && !self.helpers.are_there()
    }
}

impl<M> Deref for ActorCx<'_, M> {
    type Target = Cx<Cluster>;

    fn deref(&self) -> &Cx<Cluster> {
        self.cx
    }
}

impl<M> fmt::Debug for ActorCx<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActorCx").field(&self.slot.core.name).finish()
    }
}
