//! The tree of a system as observers see it: in dumps, in `parcae top`, in snapshots.
//!
//! Each supervisor keeps a [`Roster`] at its desk: its children, with all that an observer may read
//! without the help of a task, and the last exits. An entry is written when a child is added and
//! when it is gone; its state is read from the slot at a look. So the tree is there also
//! while all workers are stuck, and a child that sleeps is in it, which has no task.
//!
//! The age of a queue is measured by looking: messages have no time stamps, which would make each
//! of them larger and slower. An actor counts the messages that it takes. A look that finds
//! messages in the mailbox and the same count as an earlier look shows how long ago that was: for
//! at least so long no message was taken. `parcae top` looks every second.
//!
//! The observer holds the lock of one roster while it copies the list, and that of one slot while
//! it reads a child. No lock is held over code of the program, but for mailboxes that ask the actor
//! type for keys or levels: their locks are only tried.

use crate::desk::Desk;
use crate::exit::Exit;
use crate::letters::{DeadLetters, LetterReason};
use crate::slot::{Core, Phase, Slot};
use crate::supervisor::Allowance;
use crate::system::Shared;
use parcae::inspect::{Describe, DescribedItem, Description};
use parcae::time;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most exits that a supervisor remembers.
const EXITS: usize = 8;

/// A child, for observers.
pub(crate) trait Shown: Send + Sync {
    fn core(&self) -> &Arc<Core>;

    /// Number of messages in its mailbox; none if it has no mailbox, or that is locked.
    fn queued(&self) -> Option<usize>;
}

impl<M: Send + 'static> Shown for Slot<M> {
    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn queued(&self) -> Option<usize> {
        self.lane.len_now()
    }
}

/// A supervisor, which has no mailbox.
pub(crate) struct ShownSupervisor(pub(crate) Arc<Core>);

impl Shown for ShownSupervisor {
    fn core(&self) -> &Arc<Core> {
        &self.0
    }

    fn queued(&self) -> Option<usize> {
        None
    }
}

/// The children of a supervisor, and the last exits.
#[derive(Default)]
pub(crate) struct Roster {
    places: Vec<Option<Arc<dyn Shown>>>,
    free: Vec<usize>,
    exits: VecDeque<LastExit>,
    restarts: VecDeque<Instant>,
    limit: Option<RestartLimit>,
}

/// How often a supervisor may restart its children.
struct RestartLimit {
    most: u32,
    period: Duration,
    allowance: Arc<Allowance>,
}

struct LastExit {
    name: Arc<str>,
    exit: Exit,
    at: Instant,
}

impl Roster {
    /// A life of the supervisor begins, with these limits. Returns the list of the life before,
    /// which the caller drops with the lock free.
    pub(crate) fn begin(
        &mut self,
        most: u32,
        period: Duration,
        allowance: &Arc<Allowance>,
    ) -> Roster {
        let limit = Some(RestartLimit { most, period, allowance: Arc::clone(allowance) });
        let exits = std::mem::take(&mut self.exits);
        std::mem::replace(self, Roster { exits, limit, ..Roster::default() })
    }

    /// Adds a child. Returns its place.
    pub(crate) fn add(&mut self, child: Arc<dyn Shown>) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.places[place] = Some(child);
                place
            }
            None => {
                self.places.push(Some(child));
                self.places.len() - 1
            }
        }
    }

    /// Takes a child out, which the caller drops with the lock free.
    pub(crate) fn remove(&mut self, place: usize) -> Option<Arc<dyn Shown>> {
        let gone = self.places.get_mut(place)?.take();
        if gone.is_some() {
            self.free.push(place);
        }
        gone
    }

    /// Notes an abnormal end.
    pub(crate) fn note_exit(&mut self, name: &Arc<str>, exit: &Exit) {
        if self.exits.len() == EXITS {
            self.exits.pop_front();
        }
        self.exits.push_back(LastExit {
            name: Arc::clone(name),
            exit: exit.clone(),
            at: time::now(),
        });
    }

    /// One more restart, if there are fewer than `most` in the period.
    pub(crate) fn count_restart(&mut self, most: u32, period: Duration) -> bool {
        if most == u32::MAX {
            return true; // no limit, so none are remembered
        }
        let now = time::now();
        while self.restarts.front().is_some_and(|&at| now.duration_since(at) >= period) {
            self.restarts.pop_front();
        }
        let may = self.restarts.len() < most as usize;
        if may {
            self.restarts.push_back(now);
        }
        may
    }

    /// Takes the last restart back.
    pub(crate) fn uncount_restart(&mut self) {
        self.restarts.pop_back();
    }

    fn describe(&self, item: &mut DescribedItem, now: Instant) {
        item.figures.push(("children", (self.places.len() - self.free.len()) as u64));
        if let Some(RestartLimit { most, period, allowance }) = &self.limit {
            let recent = |at: &&Instant| now.saturating_duration_since(**at) < *period;
            let used = self.restarts.iter().filter(recent).count() as u64;
            let left = match *most {
                u32::MAX => allowance.left(),
                most => u64::from(most).saturating_sub(used).min(allowance.left()),
            };
            item.figures.push(("restarts left", left));
        }
        for LastExit { name, exit, at } in &self.exits {
            let ago = now.saturating_duration_since(*at).as_secs_f64();
            item.notes.push(format!(
                "`{name}` {exit} (incarnation {}, {ago:.1} s ago)",
                exit.incarnation()
            ));
        }
    }
}

/// A system, for observers. Kept alive by the system.
pub(crate) struct Tree {
    pub(crate) name: Arc<str>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) allowance: Arc<Allowance>,
    pub(crate) root: Arc<Desk>,
}

impl Describe for Tree {
    fn describe(&self, most: usize) -> Description {
        let mut walk = Walk::new(most);
        let mut root = DescribedItem::new(0, "supervisor of the system", "running");
        let children = self.root.look(|roster| {
            roster.describe(&mut root, walk.now);
            roster.places.iter().flatten().cloned().collect::<Vec<_>>()
        });
        walk.put(root);
        walk.children(children, 1);
        let mut all = Description::new(format!("actors `{}`", self.name));
        all.figures = vec![
            ("actors", walk.actors),
            ("supervisors", walk.supervisors),
            ("asleep", walk.asleep),
            ("restarting", walk.restarting),
            ("queued", walk.queued),
            ("restarts left", self.allowance.left()),
        ];
        all.figures.extend(letters(&self.shared.letters));
        (all.items, all.left_out) = (walk.items, walk.left_out);
        all
    }
}

/// Dead letters by reason, of those that there were.
fn letters(letters: &DeadLetters) -> impl Iterator<Item = (&'static str, u64)> + '_ {
    let reasons = [
        ("letters: mailbox full", LetterReason::Overflow),
        ("letters: replaced", LetterReason::Replaced),
        ("letters: expired", LetterReason::Expired),
        ("letters: actor gone", LetterReason::Gone),
        ("letters: handler failed", LetterReason::Failed),
        ("letters: poison", LetterReason::Poison),
    ];
    let counted = reasons.into_iter().map(|(name, reason)| (name, letters.count(reason)));
    counted.filter(|(_, count)| *count > 0)
}

/// The tree so far.
struct Walk {
    most: usize,
    now: Instant,
    items: Vec<DescribedItem>,
    left_out: usize,
    actors: u64,
    supervisors: u64,
    asleep: u64,
    restarting: u64,
    queued: u64,
}

impl Walk {
    fn new(most: usize) -> Walk {
        Walk {
            most,
            now: time::now(),
            items: Vec::new(),
            left_out: 0,
            actors: 0,
            supervisors: 1,
            asleep: 0,
            restarting: 0,
            queued: 0,
        }
    }

    fn put(&mut self, item: DescribedItem) {
        if self.items.len() < self.most {
            self.items.push(item);
        } else {
            self.left_out += 1;
        }
    }

    fn children(&mut self, mut children: Vec<Arc<dyn Shown>>, depth: usize) {
        children.sort_by_key(|child| child.core().id); // in the order of their start
        for child in children {
            self.child(&*child, depth);
        }
    }

    fn child(&mut self, child: &dyn Shown, depth: usize) {
        let core = child.core();
        let seen = core.look();
        let name =
            if core.name.is_empty() { format!("#{}", core.id) } else { core.name.to_string() };
        let queued = child.queued();
        self.asleep += u64::from(seen.is_asleep);
        self.restarting += u64::from(matches!(seen.phase, Phase::Restarting { .. }));
        self.queued += queued.unwrap_or(0) as u64;
        match seen.desk {
            Some(_) => self.supervisors += 1,
            None => self.actors += 1,
        }
        if self.items.len() >= self.most && seen.desk.is_none() {
            self.left_out += 1; // no text is made for it
            return;
        }
        let kind = if seen.desk.is_some() { "supervisor" } else { "actor" };
        let state = match seen.phase {
            Phase::Starting => "starting",
            Phase::Running if seen.is_asleep => "asleep",
            Phase::Running if seen.is_waiting => "waiting",
            Phase::Running => "running",
            Phase::Restarting { .. } => "restarting",
            Phase::Ended => "ended",
        };
        let mut item = DescribedItem::new(depth, format!("{kind} `{name}`"), state);
        item.figures.push(("incarnation", seen.incarnation));
        if let Some(queued) = queued {
            item.figures.push(("queued", queued as u64));
        }
        if seen.desk.is_none() {
            item.figures.push(("taken", seen.taken));
            let stuck = core.unmoved(seen.taken, queued.unwrap_or(0), self.now).as_millis();
            if stuck > 0 {
                item.figures.push(("unmoved ms", u64::try_from(stuck).unwrap_or(u64::MAX)));
            }
        }
        item.task = seen.task;
        if let Some(exit) = &seen.exit {
            item.notes.push(format!("last exit: {exit}"));
        }
        let children = seen.desk.map(|desk| {
            desk.look(|roster| {
                roster.describe(&mut item, self.now);
                roster.places.iter().flatten().cloned().collect::<Vec<_>>()
            })
        });
        self.put(item);
        if let Some(children) = children {
            self.children(children, depth + 1);
        }
    }
}
