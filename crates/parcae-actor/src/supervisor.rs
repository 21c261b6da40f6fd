//! A supervisor: a task that starts children, and starts them again when they fail.
//!
//! It owns the seats of its children. An incarnation is a task in the supervisor's nursery; the
//! task has the seat while it runs and returns it with its exit, so there is one decider: only the
//! supervisor begins, restarts and ends a child. Everything happens in one loop, which waits at the
//! bell of the supervisor's [desk](crate::desk): for the end of a child or a request to start one,
//! both in its [`inbox`], for reports of its children, the end of a delay, or the request to
//! stop.
//!
//! Children that a program names in advance start one after the other: the supervisor waits for
//! each. A child that is requested while the supervisor runs answers its caller itself when it has
//! started, and the supervisor goes on meanwhile; if the start fails, the supervisor answers.
//!
//! While the supervisor waits for one child, to start or to stop, others may end. Their ends are
//! put off (`backlog`) and treated as the loop comes around. A child that ends while it is being
//! stopped is no second failure.
//!
//! A child that has run out of budget is suspended and reported to the supervisor's desk, if there
//! is a policy (`crate::recharge`). A child that sleeps has no task; the sender that finds it
//! asleep reports that (`crate::posture`), and the supervisor starts one. The supervisor looks at
//! its desk whenever it waits, also for the start or the end of another child.
//!
//! A seat that is dropped ends its actor for good: monitors fire, the name is free, the mailbox is
//! closed. So a supervisor that is cancelled, or panics, leaves nothing behind.

mod children;
mod dynamic;
mod funds;
mod inbox;

pub(crate) use children::Allowance;
pub use children::Children;
pub use dynamic::Dynamic;
use funds::{Funds, Lack};
pub(crate) use inbox::Inbox;
use inbox::{Ended, Errand, StartReply};

use crate::clock::after;
use crate::desk::{Desk, Reports};
use crate::exit::{Exit, ExitKind};
use crate::life::{Seat, caught};
use crate::opts::{
    ActorAccount, AutoShutdown, Directive, KeptOpts, Restart, Significance, Strategy, Supervise,
};
use crate::overrun::Plea;
use crate::recharge::{Recharge, Shortage};
use crate::slot::{Core, Phase};
use crate::tree::Roster;
use parcae::nursery::NurseryEvent;
use parcae::profile::Cluster;
use parcae::task::TaskId;
use parcae::{Cx, Error, Nursery, NurseryOpts, OnExhausted, OnFailure, Result, time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

type BoxedSeat<'env> = Box<dyn Seat + 'env>;

/// How a supervisor stops all its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopOrder {
    /// One after the other, in the reverse order of their start.
    Reverse,
    AtOnce,
}

/// Settings and inputs of a supervisor.
pub(crate) struct Work<'w, 'env> {
    pub(crate) spec: &'w Supervise,
    pub(crate) allowance: &'w Arc<Allowance>,
    pub(crate) recharge: Option<&'w Recharge>,
    pub(crate) inbox: &'w Arc<Inbox<'env>>,
    pub(crate) order: StopOrder,
    /// Whether the supervisor was asked to stop. A request that comes later rings at the desk.
    pub(crate) is_to_stop: &'w dyn Fn() -> bool,
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
    let inbox = Arc::clone(work.inbox);
    inbox.clear();
    let (restarts, period) = (work.spec.restarts, work.spec.period);
    let before = inbox.desk.look(|roster| roster.begin(restarts, period, work.allowance));
    drop(before); // with the lock free
    let mut opts = opts.on_failure(OnFailure::Isolate);
    if work.recharge.is_some() {
        let desk = Arc::clone(&inbox.desk);
        opts = opts.on_exhausted(OnExhausted::Suspend).on_event(move |event| {
            if let NurseryEvent::Exhausted { task, resource, .. } = event {
                desk.report(Shortage { task: task.clone(), resource: *resource });
            }
        });
    }
    let ended = cx.nursery_with(opts, |nursery| {
        let mut supervisor = Supervisor {
            nursery,
            work,
            shared: Funds::new(nursery.account()),
            stations: BTreeMap::new(),
            due: BTreeSet::new(),
            starting: BTreeSet::new(),
            next: 0,
            backlog: VecDeque::new(),
            later: Vec::new(),
            left: Vec::new(),
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
    });
    inbox.clear(); // the children of a supervisor that was cancelled have put their seats there
    ended
}

/// A child and where it is.
struct Station<'env> {
    core: Arc<Core>,
    /// Its place in the list for observers.
    place: usize,
    kept: Arc<KeptOpts>,
    /// None while an incarnation has it, or sleeps.
    seat: Option<BoxedSeat<'env>>,
    /// Of an incarnation that sleeps.
    asleep: Option<BoxedSeat<'env>>,
    /// A sender has found it asleep, and its task has not ended yet.
    is_wanted: bool,
    /// When it is to be started again.
    due: Option<Instant>,
    /// When it has to have started.
    start_by: Option<Instant>,
    /// The answer to the request to start it, if it did not.
    reply: Option<StartReply>,
    /// The last end, of a child that is not running.
    exit: Option<Exit>,
    failures: u32,
    /// The last restarts of a child that has a limit of its own.
    #[expect(
        clippy::box_collection,
        reason = "few children have one, and a sleeping child is small"
    )]
    restarts: Option<Box<VecDeque<Instant>>>,
    began: Instant,
    /// The task of the incarnation that runs.
    task: Option<TaskId>,
    /// The budget of its own.
    funds: Option<Funds>,
    /// The supervisor has ended it because it had run out of budget.
    starved: Option<Error>,
}

impl Station<'_> {
    /// The last end of the child, with its seat.
    fn end(self: Box<Self>, exit: &Exit, desk: &Desk) {
        let gone = desk.look(|roster| roster.remove(self.place));
        drop(gone); // with the lock free
        let core = Arc::clone(&self.core);
        core.ended_for_good(exit, || drop(self));
    }
}

struct Supervisor<'w, 'scope, 'env> {
    nursery: &'scope Nursery<'scope, 'env, Cluster>,
    work: Work<'w, 'env>,
    /// The account of children that have none of their own.
    shared: Funds,
    /// By the order of their start.
    stations: BTreeMap<u64, Box<Station<'env>>>,
    /// Children that are to be started again, and when.
    due: BTreeSet<(Instant, u64)>,
    /// Children that were requested, and when they have to have started. Those that have are
    /// removed when they are the first, or end.
    starting: BTreeSet<(Instant, u64)>,
    next: u64,
    /// Ends that came while the supervisor waited for another child.
    backlog: VecDeque<u64>,
    /// Children to decide about later, that have run out of budget.
    later: Vec<(Instant, Lack)>,
    /// Handlers that are left suspended, until they are cancelled.
    left: Vec<(u64, Plea)>,
    ended_significant: bool,
}

impl<'scope, 'env> Supervisor<'_, 'scope, 'env> {
    fn run(&mut self) -> Result<ExitKind> {
        let inbox = self.work.inbox;
        loop {
            while let Some(order) = self.backlog.pop_front() {
                self.treat(order)?;
                if self.is_to_end() {
                    return Ok(ExitKind::Finished);
                }
            }
            self.start_due()?;
            if self.is_to_end() {
                return Ok(ExitKind::Finished);
            }
            self.hear()?;
            if (self.work.is_to_stop)() {
                return Ok(ExitKind::Stopped);
            }
            if !self.backlog.is_empty() {
                continue;
            }
            if let Some(request) = inbox.next_start() {
                self.begin(request.seat, request.reply);
                continue;
            }
            let due = self.due.first().map(|&(at, _)| at);
            let late = self.end_late_starts();
            let next = [due, self.next_decision(), late].into_iter().flatten().min();
            inbox.desk.wait(next)?;
        }
    }

    /// Begins to start a child that was requested. It answers when it has started.
    fn begin(&mut self, seat: BoxedSeat<'env>, reply: StartReply) {
        if self.stations.len() >= self.work.spec.at_most {
            let error = format!(
                "the supervisor has {} children; allow more with `Supervise::at_most`",
                self.stations.len()
            );
            drop(seat); // the name is free before the caller hears of it
            reply.send(Err(Error::msg(error)));
            return;
        }
        let order = self.add(seat);
        let Some(station) = self.stations.get_mut(&order) else { return };
        let Some(seat) = station.seat.take() else { return };
        let until = after(station.began, station.kept.child.start_within);
        station.start_by = Some(until);
        self.starting.insert((until, order));
        let incarnation = station.core.begin();
        self.launch(order, seat, incarnation, Some(reply));
    }

    /// Cancels children that take too long to start. Returns when to look again.
    fn end_late_starts(&mut self) -> Option<Instant> {
        while let Some(&(at, order)) = self.starting.first() {
            let station = self.stations.get_mut(&order);
            let starts = station.as_ref().is_some_and(|station| station.core.is_starting());
            if starts && !time::has_passed(at) {
                return Some(at);
            }
            self.starting.pop_first();
            if let Some(station) = station {
                station.start_by = None;
                if starts {
                    station.core.kill();
                }
            }
        }
        None
    }

    /// Takes the ends and the reports of children.
    fn hear(&mut self) -> Result<()> {
        while let Some(ended) = self.work.inbox.next_end() {
            self.put_off(ended);
        }
        let reports = self.work.inbox.desk.take_reports();
        if reports.is_none() && self.later.is_empty() {
            return Ok(());
        }
        let Reports { shortages, pleas, wakes } = reports.unwrap_or_default();
        self.decide_lacks(shortages, pleas)?;
        for order in wakes {
            let ends = self.is_to_end_instead(order);
            let Some(station) = self.stations.get_mut(&order) else { continue };
            match &mut station.due {
                Some(at) if ends => {
                    self.due.remove(&(*at, order));
                    *at = time::now();
                    self.due.insert((*at, order));
                }
                Some(_) => {}
                None => {
                    station.is_wanted = true;
                    self.wake(order);
                }
            }
        }
        Ok(())
    }

    /// Starts a task for a child that sleeps. One that cannot be started has ended.
    fn wake(&mut self, order: u64) {
        let Some(station) = self.stations.get_mut(&order) else { return };
        let Some(seat) = station.asleep.take() else { return };
        station.is_wanted = false;
        let incarnation = station.core.present();
        self.launch(order, seat, incarnation, None);
    }

    fn add(&mut self, seat: BoxedSeat<'env>) -> u64 {
        let order = self.next;
        self.next += 1;
        let desk = &self.work.inbox.desk;
        seat.core().set_keeper(desk, order);
        let shown = seat.shown();
        let place = desk.look(|roster| roster.add(shown));
        let station = Station {
            core: Arc::clone(seat.core()),
            place,
            kept: Arc::clone(seat.kept()),
            seat: Some(seat),
            asleep: None,
            is_wanted: false,
            due: None,
            start_by: None,
            reply: None,
            exit: None,
            failures: 0,
            restarts: None,
            began: time::now(),
            task: None,
            funds: None,
            starved: None,
        };
        self.stations.insert(order, Box::new(station));
        order
    }

    /// Starts a child and waits until it has started. The inner error is the end of a child that
    /// did not.
    fn start(&mut self, order: u64) -> Result<Result<(), Exit>> {
        let Some(station) = self.stations.get_mut(&order) else { return Ok(Ok(())) };
        let Some(seat) = station.seat.take() else { return Ok(Ok(())) };
        if let Some(at) = station.due.take() {
            self.due.remove(&(at, order));
        }
        station.began = time::now();
        let (core, within) = (Arc::clone(&station.core), station.kept.child.start_within);
        let incarnation = core.begin();
        self.launch(order, seat, incarnation, None);
        self.await_start(order, &core, after(time::now(), within))?;
        if core.state().0 == Phase::Running {
            return Ok(Ok(()));
        }
        self.await_end(order, None)?;
        self.backlog.retain(|&other| other != order);
        let exit = self.stations.get(&order).and_then(|station| station.exit.clone());
        Ok(Err(exit.unwrap_or_else(|| Exit::new(ExitKind::NotStarted, None))))
    }

    /// Spawns a task for a child. If that fails, the child has ended.
    fn launch(
        &mut self,
        order: u64,
        seat: BoxedSeat<'env>,
        incarnation: u64,
        reply: Option<StartReply>,
    ) {
        let (opts, account) = (seat.kept().spawn.clone(), seat.kept().account);
        let opts = opts.name(Arc::clone(&seat.core().name));
        let errand = Errand::new(self.work.inbox, (order, incarnation), seat, reply);
        let spawned = self.nursery.spawn_with(opts, move |cx| {
            errand.run(|seat, started| {
                let lived = caught(|| Ok(seat.live(cx, incarnation, started)));
                lived.unwrap_or_else(|exit| Some(exit.of_life(incarnation, 0)))
            });
            Ok(())
        });
        let Some(station) = self.stations.get_mut(&order) else { return };
        match spawned {
            Ok(task) => {
                station.task = Some(task.id());
                station.core.set_task(task.id().as_u64());
                let is_own = self.work.recharge.is_some() && account == ActorAccount::Own;
                station.funds = is_own.then(|| Funds::new(task.account()));
            }
            Err(error) => station.starved = Some(error), // the seat is in the inbox
        }
    }

    /// Waits until a child has started or ended; cancels it if that takes too long. Meanwhile the
    /// supervisor hears of its other children as usual. A child changes its phase, then rings.
    fn await_start(&mut self, order: u64, core: &Core, until: Instant) -> Result<()> {
        loop {
            self.hear()?;
            let station = self.stations.get(&order);
            let has_ended = station.is_none_or(|station| station.seat.is_some());
            if core.state().0 == Phase::Running || has_ended {
                return Ok(());
            }
            if until <= time::now() {
                core.kill();
                return Ok(());
            }
            let next = self.next_decision().map_or(until, |at| at.min(until));
            self.work.inbox.desk.wait(Some(next))?;
        }
    }

    /// Waits for the end of a child, which then is in the backlog. False if the time is over.
    fn await_end(&mut self, order: u64, until: Option<Instant>) -> Result<bool> {
        loop {
            self.hear()?;
            if self.stations.get(&order).is_none_or(|station| station.seat.is_some()) {
                return Ok(true);
            }
            if until.is_some_and(|until| until <= time::now()) {
                return Ok(false);
            }
            let next = [until, self.next_decision()].into_iter().flatten().min();
            self.work.inbox.desk.wait(next)?;
        }
    }

    /// Takes the seat of a child back that has ended, or sleeps.
    fn put_off(&mut self, ended: Ended<'env>) {
        let Ended { order, seat, exit, reply } = ended;
        if let Some(station) = self.stations.get_mut(&order) {
            (station.task, station.funds) = (None, None);
            station.core.set_task(0);
            self.left.retain(|(other, _)| *other != order);
            let Some(exit) = exit else {
                station.asleep = Some(seat);
                if station.is_wanted {
                    self.wake(order);
                }
                return;
            };
            if let Some(at) = station.start_by.take() {
                self.starting.remove(&(at, order));
            }
            (station.is_wanted, station.reply) = (false, reply);
            let exit = station.core.judge(exit);
            let (incarnation, handled) = (exit.incarnation(), exit.handled());
            station.exit = Some(match station.starved.take() {
                Some(error) if exit.kind() == ExitKind::Cancelled => {
                    Exit::new(ExitKind::Exhausted, Some(error)).of_life(incarnation, handled)
                }
                Some(error) if exit.kind() == ExitKind::NotStarted && exit.error().is_none() => {
                    Exit::new(ExitKind::NotStarted, Some(error)).of_life(incarnation, handled)
                }
                _ => exit,
            });
            station.seat = Some(seat);
            self.backlog.push_back(order);
        }
    }

    /// Decides about a child that has ended.
    fn treat(&mut self, order: u64) -> Result<()> {
        let Some(station) = self.stations.get_mut(&order) else { return Ok(()) };
        let Some(exit) = station.exit.clone() else { return Ok(()) };
        if exit.is_abnormal() {
            let name = &station.core.name;
            self.work.inbox.desk.look(|roster| roster.note_exit(name, &exit));
        }
        if let Some(reply) = station.reply.take() {
            if let Some(station) = self.stations.remove(&order) {
                station.end(&exit, &self.work.inbox.desk);
            }
            reply.send(Err(failure(&exit, "the actor did not start")));
            return Ok(());
        }
        let directive = match &station.kept.child.directive {
            Some(decide) if exit.is_abnormal() => {
                caught(|| Ok(decide(&exit))).unwrap_or(Directive::Restart)
            }
            _ => Directive::Restart,
        };
        let again = match station.kept.child.restart {
            Restart::Permanent => true,
            Restart::Transient => exit.is_abnormal() && !station.core.is_asked_to_stop(),
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
        let due = after(time::now(), delay.unwrap_or_default());
        station.due = Some(due);
        self.due.insert((due, order));
        station.core.ended(&exit, Phase::Restarting { attempt });
        Ok(())
    }

    /// One more restart, if the limits allow it.
    fn count_restart(&mut self, order: u64, exit: &Exit) -> Result<()> {
        let spec = self.work.spec;
        let roster = &self.work.inbox.desk;
        let Some(station) = self.stations.get_mut(&order) else { return Ok(()) };
        let name = &station.core.name;
        if let Some((most, period)) = station.kept.child.restarts {
            let now = time::now();
            let is_old = |at: &Instant| now.saturating_duration_since(*at) >= period;
            let restarts = station.restarts.get_or_insert_default();
            while restarts.front().is_some_and(is_old) {
                restarts.pop_front();
            }
            if restarts.len() >= most as usize {
                return Err(failure(
                    exit,
                    &format!(
                        "`{name}` has failed after {most} restarts of its own within {period:?}; \
                         allow more with `Child::restarts`, or find the cause"
                    ),
                ));
            }
            restarts.push_back(now);
        }
        if !roster.look(|roster| roster.count_restart(spec.restarts, spec.period)) {
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
            roster.look(Roster::uncount_restart);
            return Err(failure(
                exit,
                &format!(
                    "`{name}` has failed, and all restarts that the system was granted are used \
                     up; grant more with `ActorsOpts::restarts`"
                ),
            ));
        }
        Ok(())
    }

    /// Starts the children whose delay is over, each with those that its strategy names.
    fn start_due(&mut self) -> Result<()> {
        let now = time::now();
        let due = self.due.first().filter(|(at, _)| *at <= now);
        let Some(&(_, order)) = due else { return Ok(()) };
        let group: Vec<u64> = match self.work.spec.strategy {
            Strategy::OneForOne => vec![order],
            Strategy::OneForAll => self.stations.keys().copied().collect(),
            Strategy::RestForOne => self.stations.range(order..).map(|(&order, _)| order).collect(),
        };
        for &other in group.iter().rev() {
            self.stop_for_restart(other)?;
        }
        for other in group {
            if self.is_to_end_instead(other) {
                let exit = self.stations.get(&other).and_then(|station| station.exit.clone());
                self.end(other, &exit.unwrap_or_else(|| Exit::new(ExitKind::Stopped, None)));
                continue;
            }
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

    /// Whether a child that was to start again has been asked to stop meanwhile.
    fn is_to_end_instead(&self, order: u64) -> bool {
        self.stations.get(&order).is_some_and(|station| {
            station.kept.child.restart != Restart::Permanent && station.core.is_asked_to_stop()
        })
    }

    /// Stops a child that is restarted together with another one. A temporary child ends for good.
    fn stop_for_restart(&mut self, order: u64) -> Result<()> {
        let is_running = self.stations.get(&order).is_some_and(|station| station.seat.is_none());
        if is_running {
            self.stop(order)?;
            let Some(station) = self.stations.get_mut(&order) else { return Ok(()) };
            let exit = station.exit.clone();
            let exit = exit.unwrap_or_else(|| Exit::new(ExitKind::Stopped, None));
            if station.kept.child.restart == Restart::Temporary {
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
        station.core.stop();
        self.await_stop(order, time::now())
    }

    /// Waits for the end of a child that was asked to stop at this point in time.
    fn await_stop(&mut self, order: u64, asked: Instant) -> Result<()> {
        let Some(station) = self.stations.get(&order) else { return Ok(()) };
        let core = Arc::clone(&station.core);
        let until = after(asked, station.kept.child.stop_within);
        if !self.await_end(order, Some(until))? {
            core.kill();
            self.await_end(order, None)?;
        }
        Ok(())
    }

    /// Stops all children, as the stop order says.
    fn stop_all(&mut self) -> Result<()> {
        let asked = time::now();
        if self.work.order == StopOrder::AtOnce {
            self.stations.values().for_each(|station| station.core.stop());
        }
        while let Some((&order, _)) = self.stations.last_key_value() {
            match self.work.order {
                StopOrder::Reverse => self.stop(order)?,
                StopOrder::AtOnce => self.await_stop(order, asked)?,
            }
            let exit = self.stations.get(&order).and_then(|station| station.exit.clone());
            self.end(order, &exit.unwrap_or_else(|| Exit::new(ExitKind::Stopped, None)));
        }
        self.backlog.clear();
        Ok(())
    }

    /// Ends a child for good.
    fn end(&mut self, order: u64, exit: &Exit) {
        let Some(station) = self.stations.remove(&order) else { return };
        if let Some(at) = station.due {
            self.due.remove(&(at, order));
        }
        self.ended_significant |= station.kept.child.is_significant == Significance::Significant;
        station.end(exit, &self.work.inbox.desk);
    }

    /// Whether significant children have ended that the supervisor ends with.
    fn is_to_end(&self) -> bool {
        let is_significant =
            |station: &Station<'_>| station.kept.child.is_significant == Significance::Significant;
        self.ended_significant
            && match self.work.spec.auto {
                AutoShutdown::Never => false,
                AutoShutdown::Any => true,
                AutoShutdown::All => !self.stations.values().any(|station| is_significant(station)),
            }
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
