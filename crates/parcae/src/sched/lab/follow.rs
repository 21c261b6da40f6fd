//! The choices of a run on threads, from its journal (`sched::journal`, which has the argument).
//!
//! Each worker of that run is a *virtual worker* here: its entries, a place in them, and the task
//! whose turn it is. The chooser goes on with the running task until its virtual worker comes to
//! the end of a segment or of a turn; then with the virtual worker whose next segment began first
//! and whose task is ready.
//!
//! An operation begins a segment if the next entry is a `Change` at its place in the turn, or at an
//! earlier one. Turns have the same length in the replay, so places are the same. A change that the
//! journal has and the replay does not come to is left out at the end of the turn. A turn or a
//! spawn that differs is reported.

use super::op::{Op, OpKind};
use super::strategy::{Choice, Chooser};
use crate::base::error::TaskId;
use crate::sched::journal::{JournalEntry, TurnPosition};
use std::collections::{BTreeSet, HashMap};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first difference between the recorded run and the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StrayEvent {
    /// Operations of the replay before it.
    pub(crate) step: usize,
    /// The worker whose journal it is about.
    pub(crate) worker: usize,
    pub(crate) recorded: ExpectedEntry,
    pub(crate) seen: SeenEvent,
}

/// The next entry of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedEntry {
    /// A turn of a task; its number in the replay, if it was spawned there.
    Turn(Option<u32>),
    Spawn,
    /// The end of the turn, without another spawn.
    NoSpawn,
}

/// An event of the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenEvent {
    /// This task had its turn.
    Turn(u32),
    /// None of the tasks that the journal has next is ready.
    NotReady,
    /// This task was spawned.
    Spawn(u32),
    /// No task was spawned.
    NoSpawn,
    /// The run has ended.
    End,
}

/// The course of a replay.
#[derive(Debug, Clone, Default)]
pub(crate) struct FollowReport {
    pub(crate) stray: Option<StrayEvent>,
    /// Turns that were repeated.
    pub(crate) turns: u64,
    /// Whether the replay has come to the end of the journal and went on without it.
    pub(crate) outlived: bool,
}

/// A worker of the recorded run.
struct VirtualWorker {
    entries: Vec<JournalEntry>,
    at: usize,
    /// The beginning of the present segment.
    began: u64,
    /// The task whose turn it is: running, or at the end of a segment.
    task: Option<u32>,
    /// The task that had the last turn.
    last: Option<u32>,
}

/// The next turn of a virtual worker whose task has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NextTurn {
    /// The position behind its entry.
    behind: usize,
    /// The task, if the replay has spawned it.
    task: Option<u32>,
    /// The beginning of its segment.
    began: u64,
}

impl VirtualWorker {
    fn head(&self) -> Option<JournalEntry> {
        self.entries.get(self.at).copied()
    }

    /// The next turn. `number`: that of a task with this id.
    fn next_turn(&self, number: impl Fn(u64) -> Option<u32>) -> Option<NextTurn> {
        let mut began = self.began;
        for (at, entry) in self.entries.iter().enumerate().skip(self.at) {
            match *entry {
                JournalEntry::Turn(task) => {
                    return Some(NextTurn { behind: at + 1, task: number(task), began });
                }
                // The recorded task did not have to wait here, and its turn goes on.
                JournalEntry::Waited if self.last.is_some() => {
                    return Some(NextTurn { behind: at, task: self.last, began });
                }
                JournalEntry::Took(_, clock) => began = began.max(clock),
                JournalEntry::Spawn(_)
                | JournalEntry::Change(..)
                | JournalEntry::Timer(..)
                | JournalEntry::Time(_)
                | JournalEntry::Number(_)
                | JournalEntry::Waited
                | JournalEntry::Again => {}
            }
        }
        None
    }

    /// Whether a spawn comes before the next turn.
    fn has_spawn(&self) -> bool {
        let rest = self.entries[self.at..].iter();
        rest.take_while(|entry| !matches!(entry, JournalEntry::Turn(_)))
            .any(|entry| matches!(entry, JournalEntry::Spawn(_)))
    }

    /// The timer that fires before the next turn: its position, and when it fired.
    fn next_timer(&self) -> Option<(usize, u64)> {
        for (at, entry) in self.entries.iter().enumerate().skip(self.at) {
            match *entry {
                JournalEntry::Turn(_) => return None,
                JournalEntry::Timer(_, clock) => return Some((at, clock)),
                _ => {}
            }
        }
        None
    }
}

/// Repeats a run on threads.
pub(crate) struct Follower {
    workers: Vec<VirtualWorker>,
    /// The ids of root tasks, in order, and how many of them were spawned.
    roots: Vec<u64>,
    roots_seen: usize,
    /// The number in the replay of a task with this id in the recorded run.
    numbers: HashMap<u64, u32>,
    /// Ops that each task had left in its turn, at its last point.
    left: HashMap<u32, u32>,
    /// Where the running task is in its turn; and tasks that are at points.
    place: TurnPosition,
    places: HashMap<u32, TurnPosition>,
    running: Option<(usize, u32)>,
    /// The running task was made to wait at a point, and has not left its turn.
    is_held: bool,
    /// A new turn has begun when the running task went on last.
    is_new_turn: bool,
    steps: usize,
    report: Arc<Mutex<FollowReport>>,
}

impl Follower {
    /// For the journals of all workers. The report is complete when the schedule has ended.
    pub(crate) fn new(journals: &[Vec<JournalEntry>]) -> (Follower, Arc<Mutex<FollowReport>>) {
        let worker = |entries: &Vec<JournalEntry>| VirtualWorker {
            entries: without_vain_turns(entries),
            at: 0,
            began: 0,
            task: None,
            last: None,
        };
        let ids = journals.iter().flatten().filter_map(|entry| match *entry {
            JournalEntry::Turn(task) if task >= TaskId::OUTSIDE => Some(task),
            _ => None,
        });
        let roots: BTreeSet<u64> = ids.collect();
        let report = Arc::default();
        let follower = Follower {
            workers: journals.iter().map(worker).collect(),
            roots: roots.into_iter().collect(),
            roots_seen: 0,
            numbers: HashMap::new(),
            left: HashMap::new(),
            place: TurnPosition::default(),
            places: HashMap::new(),
            running: None,
            is_held: false,
            is_new_turn: false,
            steps: 0,
            report: Arc::clone(&report),
        };
        (follower, report)
    }

    fn report(&self) -> MutexGuard<'_, FollowReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strays(&self, worker: usize, recorded: ExpectedEntry, seen: SeenEvent) {
        let stray = StrayEvent { step: self.steps, worker, recorded, seen };
        self.report().stray.get_or_insert(stray);
    }

    /// The next turn of a virtual worker whose task has left.
    fn turn_of(&self, worker: usize) -> Option<NextTurn> {
        self.workers[worker].next_turn(|id| self.numbers.get(&id).copied())
    }

    /// The virtual worker that goes on first, with its task, among those with a task that
    /// `is_ready`.
    fn first(&self, is_ready: impl Fn(u32) -> bool) -> Option<(usize, u32)> {
        let candidates = (0..self.workers.len()).filter_map(|at| {
            let worker = &self.workers[at];
            let (task, began) = match worker.task {
                Some(task) => (task, worker.began),
                None => {
                    let next = self.turn_of(at)?;
                    (next.task?, self.began_for(at, next))
                }
            };
            is_ready(task).then_some((began, at, task))
        });
        candidates.min().map(|(_, at, task)| (at, task))
    }

    /// The next turn of all: of the virtual worker whose segment began first.
    fn next_of_all(&self) -> Option<(usize, Option<u32>)> {
        let turns = (0..self.workers.len()).filter_map(|at| {
            let next = self.turn_of(at)?;
            Some((next.began, at, next.task))
        });
        turns.min().map(|(_, at, task)| (at, task))
    }

    /// The turn of the running task has ended.
    fn ends_turn(&mut self) {
        if let Some((at, _)) = self.running.take() {
            self.workers[at].task = None;
        }
        self.is_held = false;
    }

    /// Whether the running task left its worker, and was not made to wait.
    fn settle(&mut self) {
        if !self.is_held {
            self.ends_turn();
        }
    }

    /// The beginning of the segment that begins at the operation that the running task is about to
    /// do.
    fn change_here(&self, worker: usize) -> Option<u64> {
        match self.workers[worker].head() {
            Some(JournalEntry::Change(clock, place)) if place.is_reached_at(self.place) => {
                Some(clock)
            }
            _ => None,
        }
    }

    /// The beginning of the segment of this turn: that of the entry behind it, if it is about the
    /// operation in which the task has waited.
    fn began_for(&self, worker: usize, next: NextTurn) -> u64 {
        self.change_in_wait(worker, next).map_or(next.began, |clock| next.began.max(clock))
    }

    /// The beginning of the segment that begins with this turn, before the task comes to a point.
    fn change_in_wait(&self, worker: usize, next: NextTurn) -> Option<u64> {
        let left = *self.left.get(&next.task?)?;
        match self.workers[worker].entries.get(next.behind) {
            Some(JournalEntry::Change(clock, place)) => {
                // A wait for a lock or a signal has cost an op since the point.
                let is_of_wait = place.points == 0 && left.saturating_sub(place.left) <= 1;
                (is_of_wait && place.left <= left).then_some(*clock)
            }
            _ => None,
        }
    }

    /// The operation of the running task happens.
    fn passes_change(&mut self) {
        let Some((at, _)) = self.running else { return };
        while let Some(clock) = self.change_here(at) {
            let worker = &mut self.workers[at];
            (worker.at, worker.began) = (worker.at + 1, clock);
        }
    }

    /// Whether the running task, in the recorded run, went on at the end of its wait for tasks.
    fn has_waited(&self) -> bool {
        let head = self.running.and_then(|(at, _)| self.workers[at].head());
        head == Some(JournalEntry::Waited)
    }

    /// A task goes on, where it was made to wait or in a new turn.
    fn goes_on(&mut self, task: u32, is_resumed: bool) {
        self.is_new_turn = false;
        if !is_resumed && self.running.is_some_and(|(_, running)| running == task) {
            self.is_held = false;
            return;
        }
        self.settle();
        (self.running, self.is_held) = (None, false);
        let held = self.workers.iter().position(|worker| worker.task == Some(task));
        if let Some(at) = held.filter(|_| !is_resumed) {
            self.running = Some((at, task));
            return;
        }
        let turns = (0..self.workers.len()).filter_map(|at| {
            let next = self.turn_of(at)?;
            let is_free = self.workers[at].task.is_none();
            (next.task == Some(task) && is_free).then(|| (self.began_for(at, next), at, next))
        });
        let Some((began, at, next)) = turns.min_by_key(|turn| (turn.0, turn.1)) else {
            match self.next_of_all() {
                Some((at, next)) => {
                    self.strays(at, ExpectedEntry::Turn(next), SeenEvent::Turn(task))
                }
                None => self.report().outlived = true,
            }
            return;
        };
        if self.workers[at].has_spawn() {
            self.strays(at, ExpectedEntry::Spawn, SeenEvent::NoSpawn);
        }
        let is_change = self.change_in_wait(at, next).is_some();
        let is_new = self.workers[at].entries.get(next.behind) != Some(&JournalEntry::Waited);
        let worker = &mut self.workers[at];
        (worker.at, worker.began) = (next.behind + usize::from(is_change), began);
        if is_new {
            self.place.points = 0;
            self.is_new_turn = true;
        }
        let worker = &mut self.workers[at];
        (worker.task, worker.last) = (Some(task), Some(task));
        self.running = Some((at, task));
        self.report().turns += 1;
    }

    /// The value of the next entry, if `value` finds one in it.
    fn take<T>(&mut self, value: impl Fn(JournalEntry) -> Option<T>) -> Option<T> {
        let worker = &mut self.workers[self.running?.0];
        let found = value(worker.head()?)?;
        worker.at += 1;
        Some(found)
    }
}

/// Whether this is the end of a wait for tasks.
fn is_end_of_wait(op: Op) -> bool {
    op == Op { kind: OpKind::Join, object: 0 }
}

/// The entries without turns in which a task only found that it has to wait on for other tasks.
fn without_vain_turns(entries: &[JournalEntry]) -> Vec<JournalEntry> {
    let mut kept = Vec::with_capacity(entries.len());
    for &entry in entries {
        match entry {
            JournalEntry::Again => {
                if let Some(JournalEntry::Turn(_)) = kept.last() {
                    kept.pop();
                }
            }
            entry => kept.push(entry),
        }
    }
    kept
}

impl Chooser for Follower {
    fn begin(&mut self, _seed: u64) {}

    fn spawned(&mut self, task: u32, _path: u64, parent: Option<u32>) {
        if parent.is_none() {
            if let Some(&id) = self.roots.get(self.roots_seen) {
                self.numbers.insert(id, task);
            }
            self.roots_seen += 1;
            return;
        }
        let Some((at, _)) = self.running else { return };
        let worker = &mut self.workers[at];
        while let Some(JournalEntry::Change(..) | JournalEntry::Number(_) | JournalEntry::Time(_)) =
            worker.head()
        {
            worker.at += 1;
        }
        match worker.head() {
            Some(JournalEntry::Spawn(id)) => {
                worker.at += 1;
                self.numbers.insert(id, task);
            }
            Some(_) => self.strays(at, ExpectedEntry::NoSpawn, SeenEvent::Spawn(task)),
            None => self.report().outlived = true,
        }
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let usual = choice.usual();
        if let Some(current) = choice.current {
            let Some((at, _)) = self.running else { return usual };
            let op = choice.enabled[current].op;
            if op.kind == OpKind::Checkpoint || is_end_of_wait(op) && !self.has_waited() {
                self.ends_turn();
            } else if let Some(clock) = self.change_here(at) {
                self.workers[at].began = clock;
                self.is_held = true;
            } else {
                return current;
            }
        } else {
            self.settle();
        }
        let place = |task: u32| choice.enabled.iter().position(|one| one.task == task);
        let first = self.first(|task| place(task).is_some());
        match first.and_then(|(_, task)| place(task)) {
            Some(chosen) => chosen,
            None => {
                match self.next_of_all() {
                    Some((at, next)) => {
                        self.strays(at, ExpectedEntry::Turn(next), SeenEvent::NotReady)
                    }
                    None => self.report().outlived = true,
                }
                usual
            }
        }
    }

    fn does(&mut self, task: u32, _: Op) {
        self.goes_on(task, true);
    }

    fn does_at(&mut self, task: u32, op: Op, _: Option<&'static Location<'static>>) {
        // The chooser is not asked where no other task is ready.
        let is_running = self.running.is_some_and(|(_, running)| running == task);
        let ends = op.kind == OpKind::Checkpoint || is_end_of_wait(op) && !self.has_waited();
        if is_running && ends {
            self.ends_turn();
        }
        let place = self.places.remove(&task);
        self.goes_on(task, false);
        // Where a new turn has begun, its points are counted from here.
        if let Some(place) = place {
            let points = if self.is_new_turn { 0 } else { place.points };
            self.place = TurnPosition { points, ..place };
        }
        if is_end_of_wait(op) {
            self.take(|entry| (entry == JournalEntry::Waited).then_some(()));
        }
        if op.kind != OpKind::Start {
            self.steps += 1;
        }
        self.passes_change();
    }

    fn number(&mut self, at: (u64, u32, u32), below: usize) -> usize {
        if at.0 == 0 {
            return 0; // the executor's
        }
        let number = self.take(|entry| match entry {
            JournalEntry::Number(number) => Some(number as usize),
            _ => None,
        });
        number.unwrap_or(0).min(below - 1)
    }

    fn time(&mut self) -> Option<u64> {
        self.take(|entry| match entry {
            JournalEntry::Time(nanos) => Some(nanos),
            _ => None,
        })
    }

    fn follows(&self) -> bool {
        true
    }

    fn stands(&mut self, kind: OpKind, left: u32) {
        self.place.left = left;
        if kind.counts_in_turn() {
            self.place.points += 1;
        }
        if let Some((_, task)) = self.running {
            self.left.insert(task, left);
            self.places.insert(task, self.place);
        }
    }

    fn passes_timer(&mut self) -> bool {
        self.settle();
        let timers = (0..self.workers.len()).filter(|&at| self.workers[at].task.is_none());
        let timers = timers.filter_map(|at| {
            let (place, clock) = self.workers[at].next_timer()?;
            Some((clock, at, place))
        });
        let Some((clock, at, place)) = timers.min() else { return false };
        let is_first = (0..self.workers.len()).filter(|&other| other != at).all(|other| {
            let worker = &self.workers[other];
            let next = || self.turn_of(other).map(|next| next.began);
            let began = worker.task.map(|_| worker.began).or_else(next);
            began.is_none_or(|began| began > clock)
        });
        if is_first {
            let worker = &mut self.workers[at];
            (worker.at, worker.began) = (place + 1, clock);
        }
        is_first
    }

    fn end(&mut self) -> bool {
        self.settle();
        if let Some((at, next)) = self.next_of_all() {
            self.strays(at, ExpectedEntry::Turn(next), SeenEvent::End);
        }
        false
    }
}
