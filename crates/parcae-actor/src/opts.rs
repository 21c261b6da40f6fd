//! Options of systems, actors, children and supervisors.

use crate::exit::Exit;
use crate::mailbox::Mailbox;
use crate::overrun::{MessageLimit, Overrun};
use crate::recharge::Recharge;
use parcae::{Budget, SpawnOpts};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Options of a system, for [`Actors::actors`](crate::Actors::actors).
#[derive(Debug, Clone)]
pub struct ActorsOpts {
    pub(crate) name: Arc<str>,
    pub(crate) budget: Option<Budget>,
    pub(crate) restarts: u64,
    pub(crate) letters: usize,
    pub(crate) audit: usize,
    pub(crate) root: Supervise,
}

impl ActorsOpts {
    /// The defaults: no budget of its own, at most 1000 restarts in the whole tree, 128 dead
    /// letters and 128 records of the audit kept.
    pub fn new() -> ActorsOpts {
        ActorsOpts {
            name: "actors".into(),
            budget: None,
            restarts: 1000,
            letters: 128,
            audit: 128,
            root: Supervise::one_for_one(),
        }
    }

    /// Name of the system's nursery.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> ActorsOpts {
        self.name = name.into();
        self
    }

    /// The budget that all actors of the system share. A restarted actor draws on the same one.
    pub fn budget(mut self, budget: Budget) -> ActorsOpts {
        self.budget = Some(budget);
        self
    }

    /// Restarts that the whole tree may make, however often its supervisors fail.
    pub fn restarts(mut self, restarts: u64) -> ActorsOpts {
        self.restarts = restarts;
        self
    }

    /// Number of dead letters that are kept; later ones replace the oldest.
    pub fn dead_letters(mut self, kept: usize) -> ActorsOpts {
        self.letters = kept;
        self
    }

    /// Number of records of [weaker addresses](crate::System::audit) that are kept; later ones
    /// replace the oldest. 0 records nothing.
    pub fn audit(mut self, kept: usize) -> ActorsOpts {
        self.audit = kept;
        self
    }

    /// The supervisor of actors that [`System::start`](crate::System::start) starts.
    pub fn supervise(mut self, root: Supervise) -> ActorsOpts {
        self.root = root;
        self
    }
}

impl Default for ActorsOpts {
    fn default() -> ActorsOpts {
        ActorsOpts::new()
    }
}

/// Options of an actor.
#[derive(Debug, Clone)]
pub struct ActorOpts {
    pub(crate) name: Arc<str>,
    pub(crate) mailbox: Mailbox,
    pub(crate) kept: KeptOpts,
    /// The time of a request that a caller with a scheduling context has to have.
    pub(crate) min_budget: Duration,
}

/// The options that are needed for as long as there is the actor.
#[derive(Debug, Clone)]
pub(crate) struct KeptOpts {
    pub(crate) child: Child,
    pub(crate) spawn: SpawnOpts,
    pub(crate) stash: usize,
    pub(crate) account: ActorAccount,
    pub(crate) redeliver: u32,
    pub(crate) limit: Option<MessageLimit>,
}

/// The budget that an actor draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActorAccount {
    /// That of its supervisor's children.
    Shared,
    Own,
}

impl ActorOpts {
    /// An actor with this name, a [mailbox](Mailbox) of 64 messages, that is started again when it
    /// fails ([`Child::transient`]). The name must be free in its system; an empty name is not
    /// registered.
    pub fn new(name: impl Into<Arc<str>>) -> ActorOpts {
        let name = name.into();
        let spawn = SpawnOpts::new().name(name.clone());
        let mailbox = Mailbox::default();
        let kept = KeptOpts {
            child: Child::transient(),
            spawn,
            stash: 64,
            account: ActorAccount::Shared,
            redeliver: 0,
            limit: None,
        };
        ActorOpts { name, mailbox, kept, min_budget: Duration::ZERO }
    }

    /// The time of the processor that a request takes at most. A caller that runs on a [scheduling
    /// context](parcae::cap::CapContext) lends it to the actor for the time of a
    /// [call](crate::Address::call); if less of its budget is left, the call fails at once
    /// ([`ContextRefused::BelowMinimum`](parcae::policy::ContextRefused)). So no budget ends while
    /// the actor handles a request, which would keep it from its other callers for the rest of the
    /// period. The default is none.
    pub fn min_budget(mut self, time: Duration) -> ActorOpts {
        self.min_budget = time;
        self
    }

    /// The mailbox of the actor.
    pub fn mailbox(mut self, mailbox: Mailbox) -> ActorOpts {
        self.mailbox = mailbox;
        self
    }

    /// When the actor is started again, and how it is stopped.
    pub fn child(mut self, child: Child) -> ActorOpts {
        self.kept.child = child;
        self
    }

    /// A budget of the actor's own, for each incarnation, out of that of its supervisor.
    pub fn budget(mut self, budget: Budget) -> ActorOpts {
        self.kept.spawn = self.kept.spawn.budget(budget);
        self.kept.account = ActorAccount::Own;
        self
    }

    /// Hands a message that an incarnation failed on to the next one, up to so many times; after
    /// that it is poison, and becomes a dead letter. The actor's [`copy`](crate::Actor::copy) says
    /// which messages can be handed on. Without this a message is lost with its incarnation.
    pub fn redeliver(mut self, times: u32) -> ActorOpts {
        self.kept.redeliver = times;
        self
    }

    /// The ops that a handler may use for one message or event, and what becomes of one that uses
    /// more. They are paid for as always: this sets none aside. Ops of helpers and of other tasks
    /// do not count, nor do those of `started` and `stopping`.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::profile::Cluster;
    /// use parcae_actor::{Actor, ActorCx, ActorOpts, Actors, ActorsOpts, ExitKind, Next, Overrun};
    ///
    /// struct Counter;
    ///
    /// impl Actor for Counter {
    ///     type Msg = u64;
    ///
    ///     fn handle(&mut self, cx: &mut ActorCx<'_, u64>, rounds: u64) -> parcae::Result<Next> {
    ///         for _ in 0..rounds {
    ///             cx.checkpoint()?; // one op
    ///         }
    ///         Ok(Next::Continue)
    ///     }
    /// }
    ///
    /// let rt = Runtime::builder().profile::<Cluster>().build()?;
    /// rt.run(|cx| {
    ///     cx.actors(ActorsOpts::new(), |system| {
    ///         let opts = ActorOpts::new("counter").message_ops(1_000, Overrun::Fail);
    ///         let counter = system.start(opts, |_| Ok(Counter))?;
    ///         let watch = counter.watch();
    ///         counter.tell(900)?;
    ///         counter.tell(1_001)?;
    ///         let exit = watch.wait()?;
    ///         assert_eq!((exit.kind(), exit.handled()), (ExitKind::Exhausted, 1));
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    pub fn message_ops(mut self, ops: u64, overrun: Overrun) -> ActorOpts {
        self.kept.limit = Some(MessageLimit { ops, overrun });
        self
    }

    /// Messages that [`ActorCx::stash`](crate::ActorCx::stash) keeps at most.
    pub fn stash(mut self, messages: usize) -> ActorOpts {
        self.kept.stash = messages;
        self
    }
}

/// When a supervisor starts a child again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Restart {
    /// After every end.
    Permanent,
    /// After an [abnormal](Exit::is_abnormal) end.
    Transient,
    /// Never.
    Temporary,
}

/// The answer of a supervisor to the failure of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Directive {
    /// Start the child again, by the strategy of the supervisor.
    Restart,
    /// Keep the actor and its state, and go on with the next message. Only after an error: a panic
    /// leaves a state that cannot be relied on, so the child is restarted.
    Resume,
    /// Leave the child ended.
    Stop,
    /// End the supervisor, with this failure.
    Escalate,
}

/// How a supervisor treats a child.
#[derive(Clone)]
pub struct Child {
    pub(crate) restart: Restart,
    pub(crate) is_significant: Significance,
    pub(crate) stop_within: Duration,
    pub(crate) start_within: Duration,
    pub(crate) directive: Option<Decide>,
}

pub(crate) type Decide = Arc<dyn Fn(&Exit) -> Directive + Send + Sync>;

/// Whether the end of a child can end its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Significance {
    Ordinary,
    Significant,
}

impl Child {
    fn new(restart: Restart) -> Child {
        Child {
            restart,
            is_significant: Significance::Ordinary,
            stop_within: Duration::from_secs(5),
            start_within: Duration::from_secs(60),
            directive: None,
        }
    }

    /// A child that is started again after every end.
    pub fn permanent() -> Child {
        Child::new(Restart::Permanent)
    }

    /// A child that is started again after an abnormal end. The default.
    pub fn transient() -> Child {
        Child::new(Restart::Transient)
    }

    /// A child that is never started again.
    pub fn temporary() -> Child {
        Child::new(Restart::Temporary)
    }

    /// Ends the supervisor when this child has ended for good, as
    /// [`Supervise::end_with_any`] or [`Supervise::end_with_all`] says.
    pub fn significant(mut self) -> Child {
        self.is_significant = Significance::Significant;
        self
    }

    /// Time that the child has to stop before it is cancelled; 5 seconds by default. Cancelling
    /// reaches a running handler at its next wait or checkpoint.
    pub fn stop_within(mut self, time: Duration) -> Child {
        self.stop_within = time;
        self
    }

    /// Time that the child has to start; a minute by default.
    pub fn start_within(mut self, time: Duration) -> Child {
        self.start_within = time;
        self
    }

    /// Decides by the failure: it is called for every abnormal end of the child.
    pub fn on_failure(
        mut self,
        decide: impl Fn(&Exit) -> Directive + Send + Sync + 'static,
    ) -> Child {
        self.directive = Some(Arc::new(decide));
        self
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("restart", &self.restart)
            .field("stop_within", &self.stop_within)
            .finish_non_exhaustive()
    }
}

/// Children that are restarted together with one that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// None.
    OneForOne,
    /// All of them: the others are stopped, in reverse order, and all are started, in order.
    OneForAll,
    /// Those that were started after it.
    RestForOne,
}

/// When the end of [significant](Child::significant) children ends their supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AutoShutdown {
    Never,
    Any,
    All,
}

/// Delay before a restart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Backoff {
    /// The first restart waits for `least`, and each further one twice as long, up to `most`; plus
    /// up to a quarter, at random. A child that has lived for the period of the
    /// [restart limit](Supervise::restarts) begins at `least` again.
    pub fn exponential(least: Duration, most: Duration) -> Backoff {
        Backoff { least, most: most.max(least) }
    }

    /// Delay before the restart after so many failures in a row, from 1; `random` is below 1.
    pub(crate) fn delay(self, failures: u32, random: f64) -> Duration {
        let doubled = self.least.checked_mul(1 << failures.saturating_sub(1).min(30));
        let delay = doubled.unwrap_or(self.most).min(self.most);
        delay + delay.mul_f64(random / 4.0)
    }
}

/// Options of a supervisor.
#[derive(Debug, Clone)]
pub struct Supervise {
    pub(crate) strategy: Strategy,
    pub(crate) restarts: u32,
    pub(crate) period: Duration,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) allowance: Option<u64>,
    pub(crate) auto: AutoShutdown,
    pub(crate) recharge: Option<Recharge>,
    pub(crate) at_most: usize,
    pub(crate) shards: usize,
}

impl Supervise {
    fn new(strategy: Strategy) -> Supervise {
        Supervise {
            strategy,
            restarts: 3,
            period: Duration::from_secs(30),
            backoff: None,
            allowance: None,
            auto: AutoShutdown::Never,
            recharge: None,
            at_most: usize::MAX,
            shards: 1,
        }
    }

    /// A failed child is restarted alone.
    pub fn one_for_one() -> Supervise {
        Supervise::new(Strategy::OneForOne)
    }

    /// A failed child is restarted with all others.
    pub fn one_for_all() -> Supervise {
        Supervise::new(Strategy::OneForAll)
    }

    /// A failed child is restarted with those that were started after it.
    pub fn rest_for_one() -> Supervise {
        Supervise::new(Strategy::RestForOne)
    }

    /// At most so many restarts within a period; with one more the supervisor gives up, stops its
    /// children and fails. 3 within 30 seconds by default. A group that is restarted together
    /// counts once. [`u32::MAX`] is no limit.
    pub fn restarts(mut self, restarts: u32, period: Duration) -> Supervise {
        (self.restarts, self.period) = (restarts, period);
        self
    }

    /// Number of children at the same time: no more are started while the supervisor runs.
    pub fn at_most(mut self, children: usize) -> Supervise {
        self.at_most = children;
        self
    }

    /// Divides the children of a [dynamic](crate::System::dynamic) supervisor among so many
    /// supervisors, named after it (`rooms/0`, `rooms/1`, …), so that one task does not start and
    /// end all of them. They are siblings: each has the limits of restarts, and its part of
    /// [`at_most`](Supervise::at_most); the parts are rounded up. A child is started by each in
    /// turn, and not by one that has given up. Other supervisors ignore this.
    pub fn shards(mut self, supervisors: usize) -> Supervise {
        self.shards = supervisors.max(1);
        self
    }

    /// Waits before a restart. Without this a child is restarted at once.
    pub fn backoff(mut self, backoff: Backoff) -> Supervise {
        self.backoff = Some(backoff);
        self
    }

    /// Suspends children that run out of budget, and decides by this policy. Without one they fail.
    /// Supervisors below this one use the same policy, unless they have one of their own.
    pub fn recharge(mut self, recharge: Recharge) -> Supervise {
        self.recharge = Some(recharge);
        self
    }

    /// Moves so many restarts out of the allowance of the supervisor above, for this one alone.
    /// Without this both draw on the same allowance. The rest returns when the supervisor ends.
    pub fn allowance(mut self, restarts: u64) -> Supervise {
        self.allowance = Some(restarts);
        self
    }

    /// Ends the supervisor when one of its [significant](Child::significant) children has ended
    /// for good.
    pub fn end_with_any(mut self) -> Supervise {
        self.auto = AutoShutdown::Any;
        self
    }

    /// Ends the supervisor when all of its [significant](Child::significant) children have ended
    /// for good.
    pub fn end_with_all(mut self) -> Supervise {
        self.auto = AutoShutdown::All;
        self
    }
}
