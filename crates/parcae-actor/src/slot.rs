//! The slot of an actor: all that survives its restarts and that addresses share.
//!
//! # Waiting
//!
//! The actor's task waits at the slot's bell, for both lanes, or sleeps: then there is no task, and
//! the supervisor starts one. [`crate::posture`] has the protocol. A bell without a waiter keeps
//! one ring; the next wait then returns early, once, and looks again. So an event of the system
//! lane always rings, if it does not find the actor asleep.
//!
//! # The system lane
//!
//! `stop` is a flag. `Down` notices and other events are in a queue whose room is reserved when the
//! monitor is set up: delivering one allocates nothing, and cannot fail. `expected` has the
//! monitors whose notices may still come: there is room for as many. A notice that is not expected
//! is dropped: the end of an actor takes the monitors out before it tells them, so a monitor may
//! be removed in between.
//!
//! A monitor or link belongs to the incarnation that set it up. A later incarnation of the same
//! actor gets no notice of it, and entries of incarnations that have ended are dropped when the
//! list of an actor would grow, so an actor that others monitor and outlive over and over does not
//! collect them.
//!
//! # Cancellation
//!
//! A kill is a flag of the incarnation, under the lock, and the token of the nursery that the
//! incarnation's task has open. The task names its token under the same lock ([`Core::attach`]) and
//! looks at the flag: a kill that came before is passed on then, and one that comes later finds the
//! token. One that sleeps has no task and no token: the kill asks for a task, which finds the flag.
//!
//! # Ends
//!
//! Only the supervisor's task moves a slot from one phase to the next. The end of an incarnation
//! takes the monitors out under the lock, so each fires once; a monitor that comes later finds the
//! phase and fires at once. The name is free before the first notice is delivered.

use crate::actor::Event;
use crate::desk::Desk;
use crate::exit::{Exit, ExitKind};
use crate::mailbox::UserLane;
use crate::monitor::{Down, MonitorId, Watched};
use crate::overrun::Plea;
use crate::posture::{Alarm, Posture};
use crate::shim::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::shim::{Mutex, MutexGuard};
use crate::system::Shared;
use parcae::policy::LentContext;
use parcae::sync::Notify;
use parcae::{CancelToken, Error, Result};
use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

mod calls;
mod look;
#[cfg(all(test, loom))]
mod models;

/// A slot with its mailbox.
pub(crate) struct Slot<M> {
    pub(crate) core: Arc<Core>,
    pub(crate) lane: UserLane<M>,
    /// The time of a request that its caller has to have, if it lends its scheduling context.
    pub(crate) min_budget: Duration,
}

/// The part of a slot that does not depend on the type of its messages.
pub(crate) struct Core {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) shared: Arc<Shared>,
    bell: Notify,
    posture: Posture,
    /// Where the supervisor hears that a task is wanted, and the number of the actor there.
    keeper: OnceLock<(Arc<Desk>, u64)>,
    /// There are events, or the actor is to stop. Written under the lock of `life`.
    has_news: AtomicBool,
    /// The actor is to stop when its mailbox is empty.
    drains: AtomicBool,
    life: Mutex<Life>,
    /// The incarnation that runs; 0 if none does. Written under the lock of `life`.
    living: AtomicU64,
    /// The actor that this one has called and waits for.
    calling: Mutex<Option<Arc<Core>>>,
    /// Whether there is one.
    is_calling: AtomicBool,
    /// While it waits, it serves requests of the actors that it waits for.
    serves: AtomicBool,
    /// Messages that it has taken. Written by its task alone, for observers.
    taken: AtomicU64,
    /// The task of the incarnation that runs, by number; 0 if there is none. For observers.
    task: AtomicU64,
    /// The last look of an observer that found messages in the mailbox: the count of `taken` then,
    /// and since when it is the same.
    looked: std::sync::Mutex<Option<(u64, Instant)>>,
}

/// Where an actor is between its first start and its last end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The factory has not returned yet.
    Starting,
    Running,
    /// It has ended, and is to be started again.
    Restarting {
        attempt: u32,
    },
    Ended,
}

struct Life {
    phase: Phase,
    incarnation: u64,
    /// The last end.
    exit: Option<Exit>,
    events: VecDeque<Event>,
    /// Monitors of this incarnation whose notices may still come.
    expected: BTreeSet<MonitorId>,
    stop: bool,
    /// The incarnation was cancelled.
    is_killed: bool,
    /// Cancels the task of the incarnation, while there is one.
    token: Option<CancelToken>,
    /// The desk of a supervisor, which waits there for everything.
    desk: Option<Arc<Desk>>,
    /// The linked actor whose failure has cancelled this one.
    linked_end: Option<Arc<str>>,
    monitors: Vec<Entry>,
}

impl Life {
    fn runs(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Running)
    }

    /// Whether this incarnation runs.
    fn is(&self, number: u64) -> bool {
        self.incarnation == number && self.runs()
    }
}

struct Entry {
    id: MonitorId,
    sink: Sink,
}

/// The receiver of the news that an actor has ended.
pub(crate) enum Sink {
    Actor(Incarnation),
    /// A linked actor, which ends too if the end is abnormal.
    Linked(Incarnation),
    Task(Arc<Watched>),
}

impl Sink {
    /// Whether the notice would still reach its receiver. It may turn false at any time.
    fn is_live(&self) -> bool {
        match self {
            Sink::Actor(one) | Sink::Linked(one) => one.is_live(),
            Sink::Task(watched) => Arc::strong_count(watched) > 1,
        }
    }
}

/// One life of an actor.
pub(crate) struct Incarnation {
    core: Arc<Core>,
    number: u64,
}

impl Incarnation {
    fn is_live(&self) -> bool {
        // Relaxed: an entry that is found dead stays dead, and one that is kept does no harm.
        self.core.living.load(Ordering::Relaxed) == self.number
    }
}

impl Core {
    pub(crate) fn new(id: u64, name: Arc<str>, shared: Arc<Shared>) -> Core {
        Core {
            id,
            name,
            shared,
            bell: Notify::new(),
            posture: Posture::new(),
            keeper: OnceLock::new(),
            has_news: AtomicBool::new(false),
            drains: AtomicBool::new(false),
            living: AtomicU64::new(0),
            life: Mutex::new(Life {
                phase: Phase::Starting,
                incarnation: 0,
                exit: None,
                events: VecDeque::new(),
                expected: BTreeSet::new(),
                stop: false,
                is_killed: false,
                token: None,
                desk: None,
                linked_end: None,
                monitors: Vec::new(),
            }),
            calling: Mutex::new(None),
            is_calling: AtomicBool::new(false),
            serves: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            task: AtomicU64::new(0),
            looked: std::sync::Mutex::new(None),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Phase, incarnation and last end.
    pub(crate) fn state(&self) -> (Phase, u64, Option<Exit>) {
        let life = self.life();
        (life.phase, life.incarnation, life.exit.clone())
    }

    /// Whether an incarnation has begun whose factory has not returned.
    pub(crate) fn is_starting(&self) -> bool {
        self.life().phase == Phase::Starting
    }

    // ----- the bell -----------------------------------------------------------------------------

    /// After a message was put in.
    #[inline]
    pub(crate) fn ring_if_waiting(&self) {
        match self.posture.sent() {
            Alarm::None => {}
            Alarm::Ring => self.bell.notify_one(),
            Alarm::Rouse => self.ask_for_a_task(),
        }
    }

    /// The same for a request with a scheduling context, which goes with the wake-up.
    #[cold]
    pub(crate) fn ring_lending(&self, loan: &LentContext) {
        match self.posture.sent() {
            Alarm::None => {}
            Alarm::Ring => self.bell.notify_one_lending(loan),
            Alarm::Rouse => self.ask_for_a_task(),
        }
    }

    /// After an event was put in, the actor was cancelled, or a reply has come.
    pub(crate) fn ring(&self) {
        match self.posture.sent() {
            Alarm::Rouse => self.ask_for_a_task(),
            Alarm::None | Alarm::Ring => self.bell.notify_one(),
        }
    }

    #[cold]
    fn ask_for_a_task(&self) {
        if let Some((desk, order)) = self.keeper.get() {
            desk.wake(*order);
        }
    }

    /// Asks the supervisor for more ops.
    pub(crate) fn plead(&self, plea: Plea) {
        if let Some((desk, order)) = self.keeper.get() {
            desk.plead(*order, plea);
        }
    }

    /// Names the supervisor, once.
    pub(crate) fn set_keeper(&self, desk: &Arc<Desk>, order: u64) {
        let _ = self.keeper.set((Arc::clone(desk), order)); // a seat has one supervisor
    }

    /// Before the last look at the lanes.
    pub(crate) fn raise(&self) {
        self.posture.wait();
    }

    /// Before the last look of a task that ends while its actor sleeps.
    pub(crate) fn lie_down(&self) {
        self.posture.sleep();
    }

    /// Waits for a ring, or until a point in time.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Result<()> {
        let waited = match until {
            None => self.bell.wait(),
            Some(at) => match self.bell.wait_deadline(at) {
                Err(error) if error.is_timed_out() && !error.is_cancelled() => Ok(()),
                waited => waited,
            },
        };
        self.lower();
        waited
    }

    /// The actor neither waits nor sleeps.
    pub(crate) fn lower(&self) {
        self.posture.get_up();
    }

    // ----- the system lane ----------------------------------------------------------------------

    /// The next event, or the request to stop.
    #[inline]
    pub(crate) fn take_news(&self) -> Option<News> {
        // Acquire: with the stores in `post` and `stop`. A store that comes later rings.
        if self.has_news.load(Ordering::Acquire) { self.take_some_news() } else { None }
    }

    #[cold]
    fn take_some_news(&self) -> Option<News> {
        let mut life = self.life();
        if life.stop {
            return Some(News::Stop);
        }
        let event = life.events.pop_front();
        if life.events.is_empty() {
            self.has_news.store(false, Ordering::Release); // with the load in `take_news`
        }
        event.map(News::Event)
    }

    /// Delivers a notice to the incarnation that asked for it, if that one still runs and still
    /// wants it.
    fn post(&self, number: u64, down: Down) {
        let mut life = self.life();
        if !life.is(number) || !life.expected.remove(&down.id) {
            return;
        }
        debug_assert!(life.events.len() < life.events.capacity(), "no room was reserved");
        life.events.push_back(Event::Down(down));
        self.has_news.store(true, Ordering::Release); // with the load in `take_news`
        drop(life);
        self.ring();
    }

    /// Asks the actor to stop when its mailbox is empty.
    pub(crate) fn drain(&self) {
        self.drains.store(true, Ordering::Release); // with the load in `is_draining`
        self.ring();
    }

    /// Whether an actor that has found no message is to stop. A request that comes later rings.
    pub(crate) fn is_draining(&self) -> bool {
        self.drains.load(Ordering::Acquire) // with the store in `drain`
    }

    /// Asks the actor to stop after the message that it handles.
    pub(crate) fn stop(&self) {
        let mut life = self.life();
        life.stop = true;
        let desk = life.desk.clone();
        self.has_news.store(true, Ordering::Release); // with the load in `take_news`
        drop(life);
        self.ring();
        if let Some(desk) = desk {
            desk.ring();
        }
    }

    /// The desk that a request to stop rings at, of a supervisor.
    pub(crate) fn set_desk(&self, desk: &Arc<Desk>) {
        self.life().desk = Some(Arc::clone(desk));
    }

    /// Whether this incarnation was asked to stop. A request that comes later rings.
    pub(crate) fn is_to_stop(&self) -> bool {
        // Acquire: with the store in `stop`.
        self.has_news.load(Ordering::Acquire) && self.life().stop
    }

    /// Cancels the incarnation that runs.
    pub(crate) fn kill(&self) {
        self.cancel(self.life());
        self.ring(); // one that sleeps does not see it
    }

    /// Cancels the incarnation: its task, or the next one that it gets (see `attach`).
    fn cancel(&self, mut life: MutexGuard<'_, Life>) {
        life.is_killed = true;
        let token = life.token.clone();
        drop(life);
        if let Some(token) = token {
            token.cancel();
        }
    }

    /// Names the token that cancels the task of the incarnation, which begins or was woken. A
    /// cancellation that came before reaches it here, one that comes later finds it.
    pub(crate) fn attach(&self, token: &CancelToken) {
        let mut life = self.life();
        life.token = Some(token.clone());
        let is_killed = life.is_killed;
        drop(life);
        if is_killed {
            token.cancel();
        }
    }

    /// The task of the incarnation is about to end.
    pub(crate) fn detach(&self) {
        let token = self.life().token.take();
        drop(token); // with the lock free
    }

    /// Whether the incarnation was cancelled.
    #[cfg(all(test, loom))]
    fn is_killed(&self) -> bool {
        self.life().is_killed
    }

    /// The incarnation that runs.
    pub(crate) fn present(&self) -> u64 {
        self.life().incarnation
    }

    // ----- the life of the actor, as its supervisor tells it ------------------------------------

    /// A new incarnation. Returns its number.
    pub(crate) fn begin(&self) -> u64 {
        let mut life = self.life();
        life.incarnation += 1;
        life.phase = Phase::Starting;
        life.stop = false;
        life.is_killed = false;
        life.linked_end = None;
        life.expected.clear();
        life.events.clear();
        self.living.store(life.incarnation, Ordering::Relaxed); // with the load in `is_live`
        self.has_news.store(false, Ordering::Release); // as in `take_news`
        life.incarnation
    }

    pub(crate) fn has_started(&self) {
        self.life().phase = Phase::Running;
    }

    /// The end of an incarnation, as its supervisor sees it: an actor that was cancelled because a
    /// linked one failed has failed.
    pub(crate) fn judge(&self, exit: Exit) -> Exit {
        let linked = self.life().linked_end.clone();
        match linked {
            Some(name) if exit.kind() == ExitKind::Cancelled => {
                let error = Error::msg(format!("the linked actor `{name}` has failed"));
                Exit::new(ExitKind::Failed, Some(error)).of_life(exit.incarnation(), exit.handled())
            }
            _ => exit,
        }
    }

    /// The end of an incarnation that is followed by another one. Tells the monitors.
    pub(crate) fn ended(self: &Arc<Self>, exit: &Exit, next: Phase) {
        for monitor in self.conclude(exit, next) {
            self.tell(monitor, exit);
        }
    }

    /// The last end. `close` closes the mailbox, before the first notice: a task that has heard
    /// of the end cannot send any more.
    pub(crate) fn ended_for_good(self: &Arc<Self>, exit: &Exit, close: impl FnOnce()) {
        let monitors = self.conclude(exit, Phase::Ended);
        let closed = catch_unwind(AssertUnwindSafe(close)); // destructors of messages
        for monitor in monitors {
            self.tell(monitor, exit);
        }
        if let Err(payload) = closed {
            resume_unwind(payload);
        }
    }

    /// Moves the slot to its next phase. Returns the monitors that are to be told.
    fn conclude(self: &Arc<Self>, exit: &Exit, next: Phase) -> Vec<Entry> {
        if next == Phase::Ended {
            self.shared.forget(self); // the name is free before the first notice
        }
        if exit.kind() == ExitKind::Stopped {
            self.drains.store(false, Ordering::Release); // done; with the load in `is_draining`
        }
        let mut life = self.life();
        life.phase = next;
        life.exit = Some(exit.clone());
        life.events.clear();
        self.living.store(0, Ordering::Relaxed); // with the load in `is_live`
        self.has_news.store(life.stop, Ordering::Release); // with the load in `take_news`
        std::mem::take(&mut life.monitors)
    }

    fn tell(&self, monitor: Entry, exit: &Exit) {
        let down = Down { id: monitor.id, name: Arc::clone(&self.name), exit: exit.clone() };
        match monitor.sink {
            Sink::Actor(watcher) => watcher.core.post(watcher.number, down),
            Sink::Linked(other) if exit.is_abnormal() => {
                let mut life = other.core.life();
                if !life.is(other.number) {
                    return;
                }
                life.linked_end = Some(Arc::clone(&self.name));
                other.core.cancel(life);
                other.core.ring(); // as in `kill`
            }
            Sink::Linked(_) => {}
            Sink::Task(watched) => watched.set(exit.clone()),
        }
    }

    // ----- monitors -----------------------------------------------------------------------------

    /// Adds a monitor, which fires once: at the end of this incarnation, or at once if there is
    /// none.
    pub(crate) fn add_monitor(&self, id: MonitorId, sink: Sink) {
        if let Sink::Actor(watcher) = &sink {
            let mut life = watcher.core.life();
            life.expected.insert(id);
            let expected = life.expected.len();
            life.events.reserve(expected);
        }
        let mut life = self.life();
        if life.runs() {
            if life.monitors.len() == life.monitors.capacity() {
                life.monitors.retain(|monitor| monitor.sink.is_live());
            }
            life.monitors.push(Entry { id, sink });
            return;
        }
        let exit = life.exit.clone();
        drop(life);
        let exit = exit.unwrap_or_else(|| Exit::new(ExitKind::NotStarted, None));
        self.tell(Entry { id, sink }, &exit);
    }

    /// Ends a monitor of `other` that this actor has set up: its notice does not come any more. One
    /// that has come and was not handled yet is dropped.
    pub(crate) fn remove_monitor(&self, other: &Core, id: MonitorId) {
        other.life().monitors.retain(|monitor| monitor.id != id);
        let mut life = self.life();
        if !life.expected.remove(&id) {
            life.events.retain(|event| !matches!(event, Event::Down(down) if down.id == id));
        }
    }

    /// The incarnation that runs now, as the receiver of a notice.
    pub(crate) fn incarnation(self: &Arc<Self>) -> Incarnation {
        Incarnation { core: Arc::clone(self), number: self.life().incarnation }
    }
}

/// From the system lane.
pub(crate) enum News {
    Stop,
    Event(Event),
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pair() -> (Arc<Core>, Arc<Core>) {
        let shared = Arc::new(Shared::new(0, 0));
        let core = |name: &str| {
            let core = shared.new_core(name.into()).unwrap();
            core.begin();
            core.has_started();
            core
        };
        (core("watcher"), core("other"))
    }

    fn monitor(watcher: &Arc<Core>, other: &Core) -> MonitorId {
        let id = watcher.shared.next_monitor();
        other.add_monitor(id, Sink::Actor(watcher.incarnation()));
        id
    }

    fn finished() -> Exit {
        Exit::new(ExitKind::Finished, None)
    }

    #[test]
    fn a_monitor_that_is_removed_gives_its_place_back() {
        let (watcher, other) = pair();
        for _ in 0..1000 {
            let id = monitor(&watcher, &other);
            watcher.remove_monitor(&other, id);
        }
        let (life, monitors) = (watcher.life(), &other.life().monitors);
        assert_eq!((life.expected.len(), monitors.len()), (0, 0));
        assert!(life.events.capacity() < 10 && monitors.capacity() < 10);
    }

    #[test]
    fn a_notice_that_was_not_handled_is_dropped_with_its_monitor() {
        let (watcher, other) = pair();
        let (first, second) = (monitor(&watcher, &other), monitor(&watcher, &other));
        other.ended_for_good(&finished(), || ());
        watcher.remove_monitor(&other, first);
        let news = watcher.take_news();
        assert!(matches!(news, Some(News::Event(Event::Down(down))) if down.id == second));
        assert!(watcher.take_news().is_none());
        assert!(watcher.life().expected.is_empty());
    }

    #[test]
    fn delivering_notices_does_not_allocate() {
        let (watcher, other) = pair();
        for _ in 0..100 {
            monitor(&watcher, &other);
        }
        let room = watcher.life().events.capacity();
        other.ended_for_good(&finished(), || ());
        assert_eq!(watcher.life().events.capacity(), room);
        assert_eq!(watcher.life().events.len(), 100);
    }

    #[test]
    fn a_later_incarnation_gets_no_notice_of_an_earlier_one() {
        let (watcher, other) = pair();
        monitor(&watcher, &other);
        other.add_monitor(watcher.shared.next_monitor(), Sink::Linked(watcher.incarnation()));
        watcher.ended(&finished(), Phase::Restarting { attempt: 1 });
        watcher.begin();
        let token = CancelToken::new();
        watcher.attach(&token);
        other.ended_for_good(&Exit::new(ExitKind::Failed, None), || ());
        assert!(watcher.take_news().is_none());
        assert!(!token.is_cancelled());
    }

    #[test]
    fn an_actor_does_not_collect_monitors_of_incarnations_that_have_ended() {
        let (watcher, other) = pair();
        for attempt in 0..1000 {
            monitor(&watcher, &other);
            other.add_monitor(watcher.shared.next_monitor(), Sink::Task(Arc::new(Watched::new())));
            watcher.ended(&finished(), Phase::Restarting { attempt });
            watcher.begin();
        }
        assert!(other.life().monitors.capacity() < 10);
    }
}
