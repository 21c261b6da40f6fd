//! The children of a supervisor, as a program names them; a supervisor as a child of another one.

use super::{BoxedSeat, Dynamic, Inbox, StopOrder, Work, supervise};
use crate::actor::{Actor, Birth};
use crate::address::Address;
use crate::exit::{Exit, ExitKind};
use crate::life::{ActorSeat, Seat, caught};
use crate::opts::{ActorOpts, Child, KeptOpts, Strategy, Supervise};
use crate::recharge::Recharge;
use crate::slot::{Core, Phase};
use crate::system::Shared;
use crate::tree::{Shown, ShownSupervisor};
use parcae::profile::Cluster;
use parcae::{CancelToken, Cx, Error, NurseryOpts, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Restarts that are left. They are conserved: what a supervisor has for itself was taken from the
/// one above, and returns to it.
#[derive(Debug)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    pub(crate) fn new(restarts: u64) -> Allowance {
        Allowance(AtomicU64::new(restarts))
    }

    // Relaxed, all: a count, which guards nothing else.
    pub(super) fn take(&self, restarts: u64) -> bool {
        let take = |left: u64| left.checked_sub(restarts);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn give_back(&self, restarts: u64) {
        self.0.fetch_add(restarts, Ordering::Relaxed);
    }

    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The children of a supervisor, in the order of their start.
pub struct Children<'env> {
    shared: Arc<Shared>,
    allowance: Arc<Allowance>,
    recharge: Option<Recharge>,
    seats: Vec<BoxedSeat<'env>>,
}

impl<'env> Children<'env> {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        allowance: &Arc<Allowance>,
        recharge: Option<Recharge>,
    ) -> Children<'env> {
        let (shared, allowance) = (Arc::clone(shared), Arc::clone(allowance));
        Children { shared, allowance, recharge, seats: Vec::new() }
    }

    /// Adds an actor. It starts after those that were added before.
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn actor<A, F>(&mut self, opts: ActorOpts, factory: F) -> Result<Address<A::Msg>>
    where
        A: Actor,
        F: FnMut(&mut Birth) -> Result<A> + Send + 'env,
        A: 'env,
    {
        let slot = self.shared.new_slot::<A>(&opts)?;
        let address = Address::new(Arc::clone(&slot));
        self.seats.push(Box::new(ActorSeat::new(slot, opts, factory)));
        Ok(address)
    }

    /// Adds a supervisor with children of its own. The closure names them; it is called again when
    /// the supervisor is restarted.
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn supervisor(
        &mut self,
        name: impl Into<Arc<str>>,
        spec: Supervise,
        children: impl FnMut(&mut Children<'env>) -> Result<()> + Send + 'env,
    ) -> Result<()> {
        self.add_supervisor(name.into(), spec, StopOrder::Reverse, Box::new(children)).map(drop)
    }

    fn add_supervisor(
        &mut self,
        name: Arc<str>,
        spec: Supervise,
        order: StopOrder,
        children: NameChildren<'env>,
    ) -> Result<Arc<Inbox<'env>>> {
        let core = self.shared.new_core(name)?;
        let inbox = Inbox::new();
        let above = Arc::clone(&self.allowance);
        let recharge = spec.recharge.clone().or_else(|| self.recharge.clone());
        self.seats.push(Box::new(SupervisorSeat {
            core,
            spec,
            recharge,
            kept: Arc::new(KeptOpts::new(Child::permanent())),
            above,
            inbox: Arc::clone(&inbox),
            order,
            children,
        }));
        Ok(inbox)
    }

    /// Adds a supervisor whose children are started while it runs; see
    /// [`System::dynamic`](crate::System::dynamic).
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn dynamic(&mut self, name: impl Into<Arc<str>>, spec: Supervise) -> Result<Dynamic<'env>> {
        let (name, shards) = (name.into(), spec.shards);
        let at_most = spec.at_most.div_ceil(shards);
        let spec = Supervise { strategy: Strategy::OneForOne, at_most, ..spec };
        let mut add = |name| {
            let children = Box::new(|_: &mut Children<'env>| Ok(()));
            self.add_supervisor(name, spec.clone(), StopOrder::AtOnce, children)
        };
        let inboxes = match shards {
            1 => vec![add(name)?],
            _ => (0..shards).map(|at| add(format!("{name}/{at}").into())).collect::<Result<_>>()?,
        };
        Ok(Dynamic::new(&self.shared, inboxes))
    }

    pub(crate) fn into_seats(self) -> Vec<BoxedSeat<'env>> {
        self.seats
    }
}

impl fmt::Debug for Children<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.seats.iter().map(|seat| &seat.core().name)).finish()
    }
}

type NameChildren<'env> = Box<dyn FnMut(&mut Children<'env>) -> Result<()> + Send + 'env>;

/// The seat of a supervisor below another one.
struct SupervisorSeat<'env> {
    core: Arc<Core>,
    spec: Supervise,
    /// Its own policy, or that of the supervisor above.
    recharge: Option<Recharge>,
    kept: Arc<KeptOpts>,
    above: Arc<Allowance>,
    /// Survives restarts of the supervisor.
    inbox: Arc<Inbox<'env>>,
    order: StopOrder,
    children: NameChildren<'env>,
}

impl Seat for SupervisorSeat<'_> {
    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn shown(&self) -> Arc<dyn Shown> {
        Arc::new(ShownSupervisor(Arc::clone(&self.core)))
    }

    fn kept(&self) -> &Arc<KeptOpts> {
        &self.kept
    }

    fn live(&mut self, cx: &Cx<Cluster>, incarnation: u64, started: &dyn Fn()) -> Option<Exit> {
        let token = CancelToken::new();
        self.core.attach(&token);
        let allowance = match self.spec.allowance {
            None => Arc::clone(&self.above),
            Some(restarts) if self.above.take(restarts) => Arc::new(Allowance::new(restarts)),
            Some(restarts) => {
                let left = self.above.left();
                let error = Error::msg(format!(
                    "the supervisor above has {left} restarts left, {restarts} were to be moved; \
                     grant more with `ActorsOpts::restarts`"
                ));
                return Some(Exit::new(ExitKind::NotStarted, Some(error)).of_life(incarnation, 0));
            }
        };
        let mut children = Children::new(&self.core.shared, &allowance, self.recharge.clone());
        let ended = caught(|| {
            (self.children)(&mut children)?;
            let opts = NurseryOpts::new().token(&token);
            self.core.set_desk(self.inbox.desk());
            let core = &self.core;
            let work = Work {
                spec: &self.spec,
                allowance: &allowance,
                recharge: self.recharge.as_ref(),
                inbox: &self.inbox,
                order: self.order,
                is_to_stop: &|| core.is_to_stop(),
            };
            supervise(cx, opts, work, children.into_seats(), &mut || {
                self.core.has_started();
                started();
            })
        });
        if self.spec.allowance.is_some() {
            self.above.give_back(allowance.left());
        }
        let exit = match ended {
            Ok(ended) => Exit::new(ended, None),
            Err(exit) => exit,
        };
        Some(exit.of_life(incarnation, 0))
    }
}

impl Drop for SupervisorSeat<'_> {
    fn drop(&mut self) {
        self.inbox.close();
        let (phase, _, last) = self.core.state();
        if phase != Phase::Ended {
            let exit = last.unwrap_or_else(|| Exit::new(ExitKind::Cancelled, None));
            self.core.ended_for_good(&exit, || ());
        }
    }
}
