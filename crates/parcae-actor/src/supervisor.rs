//! A supervisor: a task that starts children, and starts them again when they fail.
//!
//! It owns the seats of its children. An incarnation is a task in the supervisor's nursery; the
//! task has the seat while it runs and returns it with its exit, so there is one decider: only the
//! supervisor begins, restarts and ends a child. Everything happens in one loop, which waits for
//! the end of a child, a request to start one, the end of a delay, or the request to stop.
//!
//! While the supervisor waits for one child, to start or to stop, others may end. Their ends are
//! put off (`backlog`) and treated as the loop comes around. A child that ends while it is being
//! stopped is no second failure.
//!
//! A seat that is dropped ends its actor for good: monitors fire, the name is free, the mailbox is
//! closed. So a supervisor that is cancelled, or panics, leaves nothing behind.

use crate::actor::{Actor, Birth};
use crate::address::Address;
use crate::exit::{Exit, ExitKind};
use crate::life::{ActorSeat, Seat, caught};
use crate::opts::{
    ActorOpts, AutoShutdown, Child, Directive, Restart, Significance, Strategy, Supervise,
};
use crate::slot::{Core, Phase};
use crate::system::Shared;
use parcae::channel::{OneSender, Receiver};
use parcae::nursery::JoinSet;
use parcae::profile::Cluster;
use parcae::select::Select;
use parcae::sync::Event as Flag;
use parcae::{CancelToken, Cx, Error, Nursery, NurseryOpts, OnFailure, Result, SpawnOpts, time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

type BoxedSeat<'env> = Box<dyn Seat + 'env>;

/// A request to a supervisor.
pub(crate) struct StartRequest<'env> {
    pub(crate) seat: BoxedSeat<'env>,
    pub(crate) started: OneSender<Result<()>>,
}

/// Restarts that are left. They are conserved: what a supervisor has for itself was taken from the
/// one above, and returns to it.
#[derive(Debug)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    pub(crate) fn new(restarts: u64) -> Allowance {
        Allowance(AtomicU64::new(restarts))
    }

    // Relaxed, all: a count, which guards nothing else.
    fn take(&self, restarts: u64) -> bool {
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
    seats: Vec<BoxedSeat<'env>>,
}

impl<'env> Children<'env> {
    pub(crate) fn new(shared: Arc<Shared>, allowance: Arc<Allowance>) -> Children<'env> {
        Children { shared, allowance, seats: Vec::new() }
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
        let core = self.shared.new_core(name.into())?;
        let above = Arc::clone(&self.allowance);
        self.seats.push(Box::new(SupervisorSeat {
            core,
            spec,
            child: Child::permanent(),
            above,
            children: Box::new(children),
        }));
        Ok(())
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
    child: Child,
    above: Arc<Allowance>,
    children: NameChildren<'env>,
}

impl Seat for SupervisorSeat<'_> {
    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn child(&self) -> &Child {
        &self.child
    }

    fn spawn_opts(&self) -> SpawnOpts {
        SpawnOpts::new().name(Arc::clone(&self.core.name))
    }

    fn live(&mut self, cx: &Cx<Cluster>, life: (u64, CancelToken), started: &dyn Fn()) -> Exit {
        let (incarnation, token) = life;
        let allowance = match self.spec.allowance {
            None => Arc::clone(&self.above),
            Some(restarts) if self.above.take(restarts) => Arc::new(Allowance::new(restarts)),
            Some(restarts) => {
                let left = self.above.left();
                let error = Error::msg(format!(
                    "the supervisor above has {left} restarts left, {restarts} were to be moved; \
                     grant more with `ActorsOpts::restarts`"
                ));
                return Exit::new(ExitKind::NotStarted, Some(error)).of_life(incarnation, 0);
            }
        };
        let mut children = Children::new(Arc::clone(&self.core.shared), Arc::clone(&allowance));
        let ended = caught(|| {
            (self.children)(&mut children)?;
            let opts = NurseryOpts::new().token(&token);
            let stop = self.core.stop_token();
            let work =
                Work { spec: &self.spec, allowance: &allowance, requests: None, stop: &stop };
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
        exit.of_life(incarnation, 0)
    }
}

impl Drop for SupervisorSeat<'_> {
    fn drop(&mut self) {
        let (phase, _, last) = self.core.state();
        if phase != Phase::Ended {
            let exit = last.unwrap_or_else(|| Exit::new(ExitKind::Cancelled, None));
            self.core.gave_up(&exit);
        }
    }
}

/// Settings and inputs of a supervisor.
pub(crate) struct Work<'w, 'env> {
    pub(crate) spec: &'w Supervise,
    pub(crate) allowance: &'w Allowance,
    pub(crate) requests: Option<&'w Receiver<StartRequest<'env>>>,
    pub(crate) stop: &'w CancelToken,
}

/// Runs a supervisor: starts the children in order, and returns when it was stopped, has given up,
/// or has ended with its significant children.
pub(crate) fn supervise<'env>(
    cx: &Cx<Cluster>,
    opts: NurseryOpts,
    work: Work<'_, 'env>,
    seats: Vec<BoxedSeat<'env>>,
    started: &mut dyn FnMut(),
) -> Result<ExitKind> {
    cx.nursery_with(opts.on_failure(OnFailure::Isolate), |nursery| {
        let mut supervisor = Supervisor {
            nursery,
            work,
            tasks: JoinSet::new(),
            stations: BTreeMap::new(),
            next: 0,
            backlog: VecDeque::new(),
            restarts: VecDeque::new(),
            ended_significant: false,
        };
        for seat in seats {
            let order = supervisor.add(seat);
            if let Err(exit) = supervisor.start(order)? {
                supervisor.stop_all()?;
                return Err(failure(&exit, "a child did not start"));
            }
        }
        started();
        let ended = supervisor.run();
        if !matches!(&ended, Err(error) if error.is_cancelled()) {
            supervisor.stop_all()?;
        }
        ended
    })
}

/// A child and where it is.
struct Station<'env> {
    core: Arc<Core>,
    child: Child,
    /// None while an incarnation has it.
    seat: Option<BoxedSeat<'env>>,
    /// When it is to be started again.
    due: Option<Instant>,
    /// The last end, of a child that is not running.
    exit: Option<Exit>,
    failures: u32,
    began: Instant,
}

/// The end of an incarnation.
struct Ended<'env> {
    order: u64,
    seat: BoxedSeat<'env>,
    exit: Exit,
}

struct Supervisor<'w, 'scope, 'env> {
    nursery: &'scope Nursery<'scope, 'env, Cluster>,
    work: Work<'w, 'env>,
    tasks: JoinSet<'scope, Ended<'env>>,
    /// By the order of their start.
    stations: BTreeMap<u64, Station<'env>>,
    next: u64,
    /// Ends that came while the supervisor waited for another child.
    backlog: VecDeque<u64>,
    /// When children were restarted, within the period.
    restarts: VecDeque<Instant>,
    ended_significant: bool,
}

/// An event in the loop of a supervisor.
enum Turn<'env> {
    Ended(Result<Ended<'env>>),
    Request(StartRequest<'env>),
    NoRequests,
    Due,
    Stop,
}

impl<'scope, 'env> Supervisor<'_, 'scope, 'env> {
    fn run(&mut self) -> Result<ExitKind> {
        let mut requests = self.work.requests;
        loop {
            while let Some(order) = self.backlog.pop_front() {
                self.treat(order)?;
                if self.is_to_end() {
                    return Ok(ExitKind::Finished);
                }
            }
            self.start_due()?;
            if !self.backlog.is_empty() {
                continue;
            }
            match self.turn(requests)? {
                Turn::Ended(ended) => self.put_off(ended?),
                Turn::Request(request) => {
                    let order = self.add(request.seat);
                    let started = match self.start(order)? {
                        Ok(()) => Ok(()),
                        Err(exit) => {
                            self.stations.remove(&order);
                            Err(failure(&exit, "the actor did not start"))
                        }
                    };
                    let _ = request.started.send(started); // the caller may have given up
                }
                Turn::NoRequests => requests = None,
                Turn::Due => {}
                Turn::Stop => return Ok(ExitKind::Stopped),
            }
        }
    }

    fn turn(&mut self, requests: Option<&Receiver<StartRequest<'env>>>) -> Result<Turn<'env>> {
        let due = self.stations.values().filter_map(|station| station.due).min();
        let mut select = Select::new().biased();
        select.cancelled(self.work.stop, |_| Turn::Stop);
        select.join_next(&mut self.tasks, Turn::Ended);
        if let Some(requests) = requests {
            select.recv(requests, |request| request.map_or(Turn::NoRequests, Turn::Request));
        }
        if let Some(due) = due {
            select.deadline(due, |()| Turn::Due);
        }
        select.wait()
    }

    fn add(&mut self, seat: BoxedSeat<'env>) -> u64 {
        let order = self.next;
        self.next += 1;
        let station = Station {
            core: Arc::clone(seat.core()),
            child: seat.child().clone(),
            seat: Some(seat),
            due: None,
            exit: None,
            failures: 0,
            began: time::now(),
        };
        self.stations.insert(order, station);
        order
    }

    /// Starts a child and waits until it has started. The inner error is the end of a child that
    /// did not.
    fn start(&mut self, order: u64) -> Result<Result<(), Exit>> {
        let Some(station) = self.stations.get_mut(&order) else { return Ok(Ok(())) };
        let Some(seat) = station.seat.take() else { return Ok(Ok(())) };
        station.due = None;
        station.began = time::now();
        let (core, within) = (Arc::clone(&station.core), station.child.start_within);
        let life = core.begin();
        let flag = Arc::new(Flag::new());
        let opts = seat.spawn_opts();
        // A task that cannot be spawned drops its closure: the seat stays here.
        let place = Arc::new(Mutex::new(Some(seat)));
        let (taken, told) = (Arc::clone(&place), SetOnDrop(Arc::clone(&flag)));
        let spawned = self.nursery.spawn_with(opts, move |cx| {
            let seat = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut seat = seat.ok_or_else(|| Error::msg("the seat of an actor is missing"))?;
            let exit = seat.live(cx, life, &|| told.0.set());
            drop(told); // started or not, the supervisor goes on
            Ok(Ended { order, seat, exit })
        });
        match spawned {
            Ok(task) => self.tasks.insert(task),
            Err(error) => {
                let seat = place.lock().unwrap_or_else(PoisonError::into_inner).take();
                let exit = Exit::new(ExitKind::NotStarted, Some(error));
                if let Some(station) = self.stations.get_mut(&order) {
                    (station.seat, station.exit) = (seat, Some(exit.clone()));
                }
                return Ok(Err(exit));
            }
        }
        match flag.wait_timeout(within) {
            Ok(()) => {}
            Err(error) if error.is_timed_out() && !error.is_cancelled() => core.kill(),
            Err(error) => return Err(error),
        }
        if core.state().0 == Phase::Running {
            return Ok(Ok(()));
        }
        self.await_end(order, None)?;
        self.backlog.retain(|&other| other != order);
        let exit = self.stations.get(&order).and_then(|station| station.exit.clone());
        Ok(Err(exit.unwrap_or_else(|| Exit::new(ExitKind::NotStarted, None))))
    }

    /// Waits for the end of a child, which then is in the backlog. False if the time is over.
    fn await_end(&mut self, order: u64, until: Option<Instant>) -> Result<bool> {
        while self.stations.get(&order).is_some_and(|station| station.seat.is_none()) {
            let ended = match until {
                None => self.tasks.join_next(),
                Some(at) => match self.tasks.join_next_deadline(at) {
                    Err(error) if error.is_timed_out() && !error.is_cancelled() => {
                        return Ok(false);
                    }
                    ended => ended,
                },
            };
            match ended? {
                Some(ended) => self.put_off(ended?),
                None => break,
            }
        }
        Ok(true)
    }

    /// Takes the seat of a child that has ended back.
    fn put_off(&mut self, ended: Ended<'env>) {
        let Ended { order, seat, exit } = ended;
        if let Some(station) = self.stations.get_mut(&order) {
            station.exit = Some(station.core.judge(exit));
            station.seat = Some(seat);
            self.backlog.push_back(order);
        }
    }

    /// Decides about a child that has ended.
    fn treat(&mut self, order: u64) -> Result<()> {
        let Some(station) = self.stations.get_mut(&order) else { return Ok(()) };
        let Some(exit) = station.exit.clone() else { return Ok(()) };
        let directive = match &station.child.directive {
            Some(decide) if exit.is_abnormal() => {
                caught(|| Ok(decide(&exit))).unwrap_or(Directive::Restart)
            }
            _ => Directive::Restart,
        };
        let again = match station.child.restart {
            Restart::Permanent => true,
            Restart::Transient => exit.is_abnormal(),
            Restart::Temporary => false,
        };
        if directive == Directive::Escalate {
            return Err(failure(&exit, "a child has failed, and its supervisor with it"));
        }
        if !again || directive == Directive::Stop {
            self.end(order, &exit);
            return Ok(());
        }
        self.count_restart(order, &exit)?;
        let backoff = self.work.spec.backoff;
        let period = self.work.spec.period;
        let Some(station) = self.stations.get_mut(&order) else { return Ok(()) };
        if station.began.elapsed_since(period) {
            station.failures = 0;
        }
        station.failures += 1;
        let attempt = station.failures;
        let delay = backoff.map(|backoff| backoff.delay(attempt, jitter(station.core.id, attempt)));
        station.due = Some(time::now() + delay.unwrap_or_default());
        station.core.ended(&exit, Phase::Restarting { attempt });
        Ok(())
    }

    /// One more restart, if the limits allow it.
    fn count_restart(&mut self, order: u64, exit: &Exit) -> Result<()> {
        let (spec, now) = (self.work.spec, time::now());
        while self.restarts.front().is_some_and(|&at| now.duration_since(at) >= spec.period) {
            self.restarts.pop_front();
        }
        let name = self.stations.get(&order).map_or("", |station| &station.core.name);
        if self.restarts.len() >= spec.restarts as usize {
            return Err(failure(
                exit,
                &format!(
                    "`{name}` has failed after {} restarts within {:?}; allow more with \
                     `Supervise::restarts`, or find the cause",
                    spec.restarts, spec.period
                ),
            ));
        }
        if !self.work.allowance.take(1) {
            return Err(failure(
                exit,
                &format!(
                    "`{name}` has failed, and all restarts that the system was granted are used \
                     up; grant more with `ActorsOpts::restarts`"
                ),
            ));
        }
        self.restarts.push_back(now);
        Ok(())
    }

    /// Starts the children whose delay is over, each with those that its strategy names.
    fn start_due(&mut self) -> Result<()> {
        let now = time::now();
        let due = self.stations.iter().find(|(_, station)| station.due.is_some_and(|at| at <= now));
        let Some((&order, _)) = due else { return Ok(()) };
        let group: Vec<u64> = match self.work.spec.strategy {
            Strategy::OneForOne => vec![order],
            Strategy::OneForAll => self.stations.keys().copied().collect(),
            Strategy::RestForOne => self.stations.range(order..).map(|(&order, _)| order).collect(),
        };
        for &other in group.iter().rev() {
            self.stop_for_restart(other)?;
        }
        for other in group {
            if let Err(exit) = self.start(other)? {
                if let Some(station) = self.stations.get_mut(&other) {
                    station.exit = Some(exit);
                    self.backlog.push_back(other);
                }
                break; // those behind it start when it has started
            }
        }
        Ok(())
    }

    /// Stops a child that is restarted together with another one. A temporary child ends for good.
    fn stop_for_restart(&mut self, order: u64) -> Result<()> {
        let is_running = self.stations.get(&order).is_some_and(|station| station.seat.is_none());
        if is_running {
            self.stop(order)?;
            let Some(station) = self.stations.get_mut(&order) else { return Ok(()) };
            let exit = station.exit.clone();
            let exit = exit.unwrap_or_else(|| Exit::new(ExitKind::Stopped, None));
            if station.child.restart == Restart::Temporary {
                self.end(order, &exit);
            } else {
                station.core.ended(&exit, Phase::Restarting { attempt: station.failures });
            }
        }
        self.backlog.retain(|&other| other != order); // its end is no failure of its own
        Ok(())
    }

    /// Stops a child: a request, a grace period, a cancellation.
    fn stop(&mut self, order: u64) -> Result<()> {
        let Some(station) = self.stations.get(&order) else { return Ok(()) };
        let core = Arc::clone(&station.core);
        let until = time::now() + station.child.stop_within;
        core.stop();
        if !self.await_end(order, Some(until))? {
            core.kill();
            self.await_end(order, None)?;
        }
        Ok(())
    }

    /// Stops all children, in the reverse order of their start.
    fn stop_all(&mut self) -> Result<()> {
        while let Some((&order, _)) = self.stations.last_key_value() {
            self.stop(order)?;
            let exit = self.stations.get(&order).and_then(|station| station.exit.clone());
            self.end(order, &exit.unwrap_or_else(|| Exit::new(ExitKind::Stopped, None)));
        }
        self.backlog.clear();
        Ok(())
    }

    /// Ends a child for good.
    fn end(&mut self, order: u64, exit: &Exit) {
        let Some(station) = self.stations.remove(&order) else { return };
        self.ended_significant |= station.child.is_significant == Significance::Significant;
        station.core.ended(exit, Phase::Ended);
    }

    /// Whether significant children have ended that the supervisor ends with.
    fn is_to_end(&self) -> bool {
        let is_significant =
            |station: &Station<'_>| station.child.is_significant == Significance::Significant;
        self.ended_significant
            && match self.work.spec.auto {
                AutoShutdown::Never => false,
                AutoShutdown::Any => true,
                AutoShutdown::All => !self.stations.values().any(is_significant),
            }
    }
}

/// Sets a flag when it is dropped, however the task ends.
struct SetOnDrop(Arc<Flag>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

trait ElapsedSince {
    fn elapsed_since(self, period: std::time::Duration) -> bool;
}

impl ElapsedSince for Instant {
    /// Whether this is at least so long ago, by the clock of the runtime.
    fn elapsed_since(self, period: std::time::Duration) -> bool {
        time::now().saturating_duration_since(self) >= period
    }
}

/// A number below 1 that differs between actors and restarts, and is the same in a replay.
fn jitter(id: u64, attempt: u32) -> f64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
    // generators, 2014).
    let mut z = (id << 32 | u64::from(attempt)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

/// The error of a supervisor that fails because of a child.
fn failure(exit: &Exit, context: &str) -> Error {
    let cause = exit.error().cloned().unwrap_or_else(|| Error::msg(exit.to_string()));
    cause.context(context)
}
