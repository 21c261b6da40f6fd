//! A system of actors: opening and ending it, names, groups, dead letters.

use crate::actor::{Actor, Birth};
use crate::address::Address;
use crate::audit::AddressAudit;
use crate::group::{Group, Groups};
use crate::letters::DeadLetters;
use crate::mailbox::{Order, UserLane};
use crate::monitor::MonitorId;
use crate::opts::{ActorOpts, ActorsOpts, Supervise};
use crate::recharge::Recharge;
use crate::slot::{Core, Slot};
use crate::supervisor::{Allowance, Children, Dynamic, Inbox, StopOrder, Work, supervise};
use crate::tree::Tree;
use parcae::profile::Cluster;
use parcae::{Cx, Error, NurseryOpts, Result};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Opening a system of actors. Implemented for the [`Cx`] of the [`Cluster`] profile alone.
pub trait Actors {
    /// Opens a system, runs `body` in it, stops its actors, and returns when all have ended.
    ///
    /// When the body returns, actors are stopped in the reverse order of their start; each has its
    /// [time to stop](crate::Child::stop_within).
    ///
    /// # Errors
    ///
    /// The body's error, or the failure of a supervisor that has given up.
    fn actors<'env, R>(
        &self,
        opts: ActorsOpts,
        body: impl FnOnce(&System<'env>) -> Result<R>,
    ) -> Result<R>;
}

impl Actors for Cx<Cluster> {
    fn actors<'env, R>(
        &self,
        opts: ActorsOpts,
        body: impl FnOnce(&System<'env>) -> Result<R>,
    ) -> Result<R> {
        let shared = Arc::new(Shared::new(opts.letters, opts.audit));
        let allowance = Arc::new(Allowance::new(opts.restarts));
        let recharge = opts.root.recharge.clone();
        let mut nursery = NurseryOpts::new().name(Arc::clone(&opts.name));
        if let Some(budget) = opts.budget {
            nursery = nursery.budget(budget);
        }
        self.nursery_with(nursery, |n| {
            let inbox = Inbox::<'env>::new();
            let tree = Arc::new(Tree {
                name: opts.name,
                shared: Arc::clone(&shared),
                allowance: Arc::clone(&allowance),
                root: Arc::clone(inbox.desk()),
            });
            self.describe(&tree); // until this returns
            let stop = Arc::new(AtomicBool::new(false));
            let system = System {
                shared: Arc::clone(&shared),
                allowance: Arc::clone(&allowance),
                recharge,
                root: Dynamic::new(&shared, vec![Arc::clone(&inbox)]),
            };
            let root = RootInbox(Arc::clone(&inbox));
            let is_stopped = Arc::clone(&stop);
            let root = n.spawn(move |cx| {
                let work = Work {
                    spec: &opts.root,
                    allowance: &allowance,
                    recharge: opts.root.recharge.as_ref(),
                    inbox: &root.0,
                    order: StopOrder::Reverse,
                    is_to_stop: &|| is_stopped.load(Ordering::Acquire), // with the store below
                };
                supervise(cx, NurseryOpts::new(), work, Vec::new(), &mut || {}).map(drop)
            })?;
            let value = body(&system)?;
            stop.store(true, Ordering::Release); // with the load above
            inbox.desk().ring();
            root.join()?;
            Ok(value)
        })
    }
}

/// The inbox of the root supervisor, which is closed when that has ended.
struct RootInbox<'env>(Arc<Inbox<'env>>);

impl Drop for RootInbox<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A system of actors. A clone is another reference to it; a system that has ended starts no more.
pub struct System<'env> {
    shared: Arc<Shared>,
    allowance: Arc<Allowance>,
    recharge: Option<Recharge>,
    root: Dynamic<'env>,
}

impl<'env> System<'env> {
    /// Starts an actor, and waits until it has started. The factory is called again for each
    /// restart.
    ///
    /// # Errors
    ///
    /// If the name is taken, or the actor does not start.
    pub fn start<A, F>(&self, opts: ActorOpts, factory: F) -> Result<Address<A::Msg>>
    where
        A: Actor + 'env,
        F: FnMut(&mut Birth) -> Result<A> + Send + 'env,
    {
        self.root.start(opts, factory)
    }

    /// Starts a supervisor whose children are started while it runs. Its strategy is
    /// [`one_for_one`](Supervise::one_for_one), whatever `spec` names.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae::profile::Cluster;
    /// use parcae_actor::{Actor, ActorCx, ActorOpts, Actors, ActorsOpts, Next, Reply, Supervise};
    /// use std::time::Duration;
    ///
    /// struct Session(u64);
    ///
    /// impl Actor for Session {
    ///     type Msg = Reply<u64>;
    ///
    ///     fn handle(
    ///         &mut self,
    ///         _: &mut ActorCx<'_, Reply<u64>>,
    ///         reply: Reply<u64>,
    ///     ) -> parcae::Result<Next> {
    ///         reply.send(self.0);
    ///         Ok(Next::Hibernate)
    ///     }
    /// }
    ///
    /// let rt = Runtime::builder().profile::<Cluster>().build()?;
    /// rt.run(|cx| {
    ///     cx.actors(ActorsOpts::new(), |system| {
    ///         let spec = Supervise::one_for_one().at_most(100);
    ///         let sessions = system.dynamic("sessions", spec)?;
    ///         for id in 0..100 {
    ///             let session = sessions.start(ActorOpts::new(""), move |_| Ok(Session(id)))?;
    ///             assert_eq!(session.call(Duration::from_secs(1), |reply| reply)?, id);
    ///         }
    ///         assert!(sessions.start(ActorOpts::new(""), |_| Ok(Session(100))).is_err());
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn dynamic(&self, name: impl Into<Arc<str>>, spec: Supervise) -> Result<Dynamic<'env>> {
        let mut all = Children::new(&self.shared, &self.allowance, self.recharge.clone());
        let dynamic = all.dynamic(name, spec)?;
        all.into_seats().into_iter().try_for_each(|seat| self.root.request(seat))?;
        Ok(dynamic)
    }

    /// Starts a supervisor with its children, and waits until all have started. The closure names
    /// the children; it is called again when the supervisor is restarted.
    ///
    /// # Errors
    ///
    /// If a name is taken, or a child does not start.
    pub fn supervise(
        &self,
        name: impl Into<Arc<str>>,
        spec: Supervise,
        children: impl FnMut(&mut Children<'env>) -> Result<()> + Send + 'env,
    ) -> Result<()> {
        let mut all = Children::new(&self.shared, &self.allowance, self.recharge.clone());
        all.supervisor(name, spec, children)?;
        all.into_seats().into_iter().try_for_each(|seat| self.root.request(seat))
    }

    /// The actor with this name, if it has messages of this type.
    pub fn find<M: Send + 'static>(&self, name: &str) -> Option<Address<M>> {
        self.shared.find(name)
    }

    /// The group with this name. It is there as soon as it is asked for.
    pub fn group<M: Send + 'static>(&self, name: impl Into<Arc<str>>) -> Group<M> {
        self.shared.groups.group(name.into())
    }

    /// Messages that no handler saw.
    pub fn dead_letters(&self) -> &DeadLetters {
        &self.shared.letters
    }

    /// Records of weaker addresses: which were made, taken back, and what they refused.
    pub fn audit(&self) -> &AddressAudit {
        &self.shared.audit
    }

    /// Restarts that the system has left.
    pub fn restarts_left(&self) -> u64 {
        self.allowance.left()
    }
}

impl Clone for System<'_> {
    fn clone(&self) -> Self {
        System {
            shared: Arc::clone(&self.shared),
            allowance: Arc::clone(&self.allowance),
            recharge: self.recharge.clone(),
            root: self.root.clone(),
        }
    }
}

impl fmt::Debug for System<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("names", &self.shared.names().keys()).finish()
    }
}

/// State that all actors of a system share.
pub(crate) struct Shared {
    pub(crate) letters: DeadLetters,
    pub(crate) audit: AddressAudit,
    pub(crate) groups: Groups,
    next: AtomicU64,
    names: Mutex<BTreeMap<Arc<str>, Name>>,
}

struct Name {
    id: u64,
    /// The slot, as `Arc<Slot<M>>`; nothing for supervisors.
    slot: Option<Box<dyn Any + Send>>,
}

impl Shared {
    pub(crate) fn new(letters: usize, audit: usize) -> Shared {
        Shared {
            letters: DeadLetters::new(letters),
            audit: AddressAudit::new(audit),
            groups: Groups::default(),
            next: AtomicU64::new(1),
            names: Mutex::default(),
        }
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) // a number, which guards nothing
    }

    pub(crate) fn next_monitor(&self) -> MonitorId {
        MonitorId(self.next())
    }

    pub(crate) fn next_address(&self) -> u64 {
        self.next()
    }

    /// The core of a new slot, whose name is registered.
    pub(crate) fn new_core(self: &Arc<Self>, name: Arc<str>) -> Result<Arc<Core>> {
        let core = Arc::new(Core::new(self.next(), Arc::clone(&name), Arc::clone(self)));
        if !name.is_empty() {
            let mut names = self.names();
            if names.contains_key(&name) {
                return Err(Error::msg(format!(
                    "an actor with the name `{name}` is there already"
                )));
            }
            names.insert(name, Name { id: core.id, slot: None });
        }
        Ok(core)
    }

    pub(crate) fn new_slot<A: Actor>(
        self: &Arc<Self>,
        opts: &ActorOpts,
    ) -> Result<Arc<Slot<A::Msg>>> {
        let order = Order { key: A::key, level: A::level };
        let lane = UserLane::new(&opts.mailbox, order)?;
        let (core, min_budget) = (self.new_core(Arc::clone(&opts.name))?, opts.min_budget);
        let slot = Arc::new(Slot { core, lane, min_budget });
        if let Some(name) = self.names().get_mut(&opts.name) {
            name.slot = Some(Box::new(Arc::clone(&slot)));
        }
        Ok(slot)
    }

    /// Frees the name of an actor that has ended, and takes it out of its groups.
    pub(crate) fn forget(&self, core: &Core) {
        let mut names = self.names();
        let freed = if names.get(&core.name).is_some_and(|name| name.id == core.id) {
            names.remove(&core.name)
        } else {
            None
        };
        drop(names);
        drop(freed);
        self.groups.forget(core.id);
    }

    fn find<M: Send + 'static>(&self, name: &str) -> Option<Address<M>> {
        let names = self.names();
        let slot = names.get(name)?.slot.as_ref()?;
        slot.downcast_ref::<Arc<Slot<M>>>().map(|slot| Address::new(Arc::clone(slot)))
    }
}
