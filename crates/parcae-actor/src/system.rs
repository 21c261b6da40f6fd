//! A system of actors: opening and ending it, names, groups, dead letters.

use crate::actor::{Actor, Birth};
use crate::address::Address;
use crate::group::{Group, Groups};
use crate::letters::DeadLetters;
use crate::life::ActorSeat;
use crate::mailbox::{Order, UserLane};
use crate::monitor::MonitorId;
use crate::opts::{ActorOpts, ActorsOpts, Supervise};
use crate::slot::{Core, Slot};
use crate::supervisor::{Allowance, Children, StartRequest, Work, supervise};
use parcae::channel::{Sender, oneshot, unbounded};
use parcae::profile::Cluster;
use parcae::{CancelToken, Cx, Error, NurseryOpts, Result};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
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
        let shared = Arc::new(Shared::new(opts.letters));
        let allowance = Arc::new(Allowance::new(opts.restarts));
        let mut nursery = NurseryOpts::new().name(Arc::clone(&opts.name));
        if let Some(budget) = opts.budget {
            nursery = nursery.budget(budget);
        }
        self.nursery_with(nursery, |n| {
            let (requests, receiver) = unbounded::<StartRequest<'env>>();
            let stop = CancelToken::new();
            let system = System {
                shared: Arc::clone(&shared),
                allowance: Arc::clone(&allowance),
                requests,
                stop: stop.clone(),
            };
            let root = n.spawn(move |cx| {
                let work = Work {
                    spec: &opts.root,
                    allowance: &allowance,
                    requests: Some(&receiver),
                    stop: &stop,
                };
                supervise(cx, NurseryOpts::new(), work, Vec::new(), &mut || {}).map(drop)
            })?;
            let value = body(&system)?;
            system.stop.cancel();
            root.join()?;
            Ok(value)
        })
    }
}

/// A system of actors.
pub struct System<'env> {
    shared: Arc<Shared>,
    allowance: Arc<Allowance>,
    requests: Sender<StartRequest<'env>>,
    stop: CancelToken,
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
        let slot = self.shared.new_slot::<A>(&opts)?;
        let address = Address::new(Arc::clone(&slot));
        self.request(Box::new(ActorSeat::new(slot, opts, factory)))?;
        Ok(address)
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
        let mut all = Children::new(Arc::clone(&self.shared), Arc::clone(&self.allowance));
        all.supervisor(name, spec, children)?;
        all.into_seats().into_iter().try_for_each(|seat| self.request(seat))
    }

    fn request(&self, seat: Box<dyn crate::life::Seat + 'env>) -> Result<()> {
        let (started, has_started) = oneshot();
        let request = StartRequest { seat, started };
        if self.requests.send(request).is_err() {
            return Err(Error::msg("the system has ended: its root supervisor has given up"));
        }
        has_started.recv()?
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

    /// Restarts that the system has left.
    pub fn restarts_left(&self) -> u64 {
        self.allowance.left()
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
    fn new(letters: usize) -> Shared {
        Shared {
            letters: DeadLetters::new(letters),
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
        let core = self.new_core(Arc::clone(&opts.name))?;
        let order = Order { key: A::key, level: A::level };
        let slot = Arc::new(Slot { core, lane: UserLane::new(opts.mailbox, order) });
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
