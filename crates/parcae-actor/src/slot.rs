//! The slot of an actor: all that survives its restarts and that addresses share.
//!
//! # Waiting
//!
//! The actor's task waits at the slot's bell, for both lanes. It takes a message or an event if
//! there is one; if there is none, it raises `waits`, looks once more, and then waits. A sender
//! puts its message in and rings only if `waits` is up. Both put a sequentially consistent fence
//! between their write and their read, so at least one of them sees the other's write: either the
//! sender rings, or the actor's second look finds the message. A bell without a waiter keeps one
//! ring; the next wait then returns early, once, and looks again.
//!
//! An event of the system lane always rings, so its sender needs no argument beyond that of the
//! bell.
//!
//! # The system lane
//!
//! `stop` is a flag. `Down` notices and other events are in a queue whose room is reserved when the
//! monitor is set up: delivering one allocates nothing, and cannot fail.
//!
//! # Ends
//!
//! Only the supervisor's task moves a slot from one phase to the next. The end of an incarnation
//! takes the monitors out under the lock, so each fires once; a monitor that comes later finds the
//! phase and fires at once. The name is free before the first notice is delivered.

use crate::actor::Event;
use crate::exit::{Exit, ExitKind};
use crate::mailbox::UserLane;
use crate::monitor::{Down, MonitorId, Watched};
use crate::system::Shared;
use parcae::sync::Notify;
use parcae::{CancelToken, Error, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A slot with its mailbox.
pub(crate) struct Slot<M> {
    pub(crate) core: Arc<Core>,
    pub(crate) lane: UserLane<M>,
}

/// The part of a slot that does not depend on the type of its messages.
pub(crate) struct Core {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) shared: Arc<Shared>,
    bell: Notify,
    /// The actor is about to wait, or waits, at the bell.
    waits: AtomicBool,
    /// There are events, or the actor is to stop. Written under the lock of `life`.
    has_news: AtomicBool,
    life: Mutex<Life>,
    /// The actor that this one has called and waits for.
    calling: Mutex<Option<Arc<Core>>>,
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
    /// Events that may come because of monitors.
    expected: usize,
    stop: bool,
    /// Cancels the incarnation.
    token: CancelToken,
    /// Asks a supervisor to stop, which waits for more than a bell.
    stop_token: Option<CancelToken>,
    /// The linked actor whose failure has cancelled this one.
    linked_end: Option<Arc<str>>,
    monitors: Vec<Entry>,
}

struct Entry {
    id: MonitorId,
    sink: Sink,
}

/// The receiver of the news that an actor has ended.
pub(crate) enum Sink {
    Actor(Arc<Core>),
    /// A linked actor, which ends too if the end is abnormal.
    Linked(Arc<Core>),
    Task(Arc<Watched>),
}

impl Core {
    pub(crate) fn new(id: u64, name: Arc<str>, shared: Arc<Shared>) -> Core {
        Core {
            id,
            name,
            shared,
            bell: Notify::new(),
            waits: AtomicBool::new(false),
            has_news: AtomicBool::new(false),
            life: Mutex::new(Life {
                phase: Phase::Starting,
                incarnation: 0,
                exit: None,
                events: VecDeque::new(),
                expected: 0,
                stop: false,
                token: CancelToken::new(),
                stop_token: None,
                linked_end: None,
                monitors: Vec::new(),
            }),
            calling: Mutex::new(None),
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

    // ----- the bell -----------------------------------------------------------------------------

    /// After a message was put in.
    pub(crate) fn ring_if_waiting(&self) {
        fence(Ordering::SeqCst); // with the fence of `raise`: one sees the other's write
        if self.waits.load(Ordering::Relaxed) {
            self.bell.notify_one();
        }
    }

    /// Before the last look at the lanes.
    pub(crate) fn raise(&self) {
        self.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst); // with the fence of `ring_if_waiting`
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

    /// The actor does not wait.
    pub(crate) fn lower(&self) {
        self.waits.store(false, Ordering::Relaxed); // a late ring is kept, and harmless
    }

    // ----- the system lane ----------------------------------------------------------------------

    /// The next event, or the request to stop.
    pub(crate) fn take_news(&self) -> Option<News> {
        // Acquire: with the stores in `post` and `stop`. A store that comes later rings.
        if !self.has_news.load(Ordering::Acquire) {
            return None;
        }
        let mut life = self.life();
        if life.stop {
            return Some(News::Stop);
        }
        let event = life.events.pop_front();
        if life.events.is_empty() {
            self.has_news.store(false, Ordering::Release); // with the load above
        }
        event.map(News::Event)
    }

    fn post(&self, event: Event) {
        let mut life = self.life();
        life.expected = life.expected.saturating_sub(1);
        life.events.push_back(event);
        self.has_news.store(true, Ordering::Release); // with the load in `take_news`
        drop(life);
        self.bell.notify_one();
    }

    /// Asks the actor to stop after the message that it handles.
    pub(crate) fn stop(&self) {
        let mut life = self.life();
        life.stop = true;
        let stop_token = life.stop_token.clone();
        self.has_news.store(true, Ordering::Release); // with the load in `take_news`
        drop(life);
        self.bell.notify_one();
        if let Some(token) = stop_token {
            token.cancel();
        }
    }

    /// A token that is cancelled when this incarnation is asked to stop.
    pub(crate) fn stop_token(&self) -> CancelToken {
        let token = CancelToken::new();
        let mut life = self.life();
        life.stop_token = Some(token.clone());
        let is_late = life.stop;
        drop(life);
        if is_late {
            token.cancel();
        }
        token
    }

    /// Cancels the incarnation that runs.
    pub(crate) fn kill(&self) {
        let token = self.life().token.clone();
        token.cancel();
    }

    // ----- the life of the actor, as its supervisor tells it ------------------------------------

    /// A new incarnation. Returns its number and the token that cancels it.
    pub(crate) fn begin(&self) -> (u64, CancelToken) {
        let mut life = self.life();
        life.incarnation += 1;
        life.phase = Phase::Starting;
        life.stop = false;
        life.linked_end = None;
        life.token = CancelToken::new();
        self.has_news.store(!life.events.is_empty(), Ordering::Release); // as in `take_news`
        (life.incarnation, life.token.clone())
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

    /// The end of an incarnation. Tells the monitors.
    pub(crate) fn ended(self: &Arc<Self>, exit: &Exit, next: Phase) {
        if next == Phase::Ended {
            self.shared.forget(self); // the name is free before the first notice
        }
        let mut life = self.life();
        life.phase = next;
        life.exit = Some(exit.clone());
        // Events for the incarnation that has ended. Those of its monitors may still come.
        life.events.clear();
        self.has_news.store(life.stop, Ordering::Release); // with the load in `take_news`
        let monitors = std::mem::take(&mut life.monitors);
        drop(life);
        for monitor in monitors {
            self.tell(monitor, exit);
        }
    }

    /// From restarting to ended: the supervisor has given up, or was stopped.
    pub(crate) fn gave_up(self: &Arc<Self>, exit: &Exit) {
        self.ended(exit, Phase::Ended);
    }

    fn tell(&self, monitor: Entry, exit: &Exit) {
        let down = Down { id: monitor.id, name: Arc::clone(&self.name), exit: exit.clone() };
        match monitor.sink {
            Sink::Actor(watcher) => watcher.post(Event::Down(down)),
            Sink::Linked(other) if exit.is_abnormal() => {
                let mut life = other.life();
                life.linked_end = Some(Arc::clone(&self.name));
                let token = life.token.clone();
                drop(life);
                token.cancel();
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
            let mut life = watcher.life();
            life.expected += 1;
            let expected = life.expected;
            life.events.reserve(expected);
        }
        let mut life = self.life();
        if matches!(life.phase, Phase::Starting | Phase::Running) {
            life.monitors.push(Entry { id, sink });
            return;
        }
        let exit = life.exit.clone();
        drop(life);
        let exit = exit.unwrap_or_else(|| Exit::new(ExitKind::NotStarted, None));
        self.tell(Entry { id, sink }, &exit);
    }

    /// Removes a monitor. False if it has fired.
    pub(crate) fn remove_monitor(&self, id: MonitorId) -> bool {
        let mut life = self.life();
        let before = life.monitors.len();
        life.monitors.retain(|monitor| monitor.id != id);
        life.monitors.len() != before
    }

    /// Drops a notice that was delivered and not handled yet.
    pub(crate) fn flush_monitor(&self, id: MonitorId) {
        let is_it = |event: &Event| matches!(event, Event::Down(down) if down.id == id);
        self.life().events.retain(|event| !is_it(event));
    }

    // ----- calls --------------------------------------------------------------------------------

    fn calling(&self) -> MutexGuard<'_, Option<Arc<Core>>> {
        self.calling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this actor calls another one and waits for it; or returns the cycle of calls that
    /// this would close. Of two actors that close a cycle at the same time, at least one finds it:
    /// each notes its call before it looks.
    pub(crate) fn begin_call(self: &Arc<Self>, target: &Arc<Core>) -> Result<(), Vec<Arc<str>>> {
        *self.calling() = Some(Arc::clone(target));
        let mut path = vec![Arc::clone(&self.name)];
        let mut at = Arc::clone(target);
        // A chain may change while it is followed; it is followed no longer than it can be.
        for _ in 0..1000 {
            path.push(Arc::clone(&at.name));
            if Arc::ptr_eq(&at, self) {
                self.end_call();
                return Err(path);
            }
            let next = at.calling().clone();
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(())
    }

    pub(crate) fn end_call(&self) {
        *self.calling() = None;
    }
}

/// From the system lane.
pub(crate) enum News {
    Stop,
    Event(Event),
}
