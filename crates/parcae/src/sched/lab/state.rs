//! A schedule: its tasks, the choices, the rolling hash.
//!
//! # Bare schedules
//!
//! There is one virtual worker. Before each operation of the running task, and whenever it has left
//! the worker, all tasks that the worker could run are moved to the list `ready`; the strategy
//! chooses from it. The worker's own queues, with their order, take no part in the choice. Time
//! stands still while a task is ready, so no deadline passes because a schedule is long.
//!
//! # Schedules with workers
//!
//! There are several virtual workers with their queues, as in production. The strategy draws the
//! worker that takes the next step, and whether a task goes on at a point.
//!
//! # The end of a schedule that does not end
//!
//! After `limit` operations the schedule becomes fair: all ready tasks in turn, and time passes
//! with each operation. A test that only needed an unfair strategy to end now ends. After twice as
//! many operations the tasks are *stopped*: the runtime's token is cancelled, and a point unwinds
//! the task that reaches it.

use super::faults::FaultRates;
use super::numbers::{ObjectNumber, ObjectNumbers, TaskNumbers};
use super::op::{Op, OpKind};
use super::record::{Recorder, RunStep, TaskLabel};
use super::script::{ChoicePhase, Deviation};
use super::strategy::{Choice, Chooser, Enabled, Strategy, chooser};
use crate::base::rng::mix;
use std::collections::BTreeSet;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::Arc;

/// How a schedule is to run.
pub(crate) struct SchedulePlan {
    pub(crate) seed: u64,
    /// Whether there is one worker, for which the strategy chooses the task.
    pub(crate) bare: bool,
    /// In a schedule with workers: whether tasks may be switched at points.
    pub(crate) preempts: bool,
    /// Operations before the schedule becomes fair.
    pub(crate) limit: u64,
    /// Virtual time, in nanoseconds, after which the schedule has failed.
    pub(crate) until: u64,
    /// Whether steps are recorded.
    pub(crate) record: bool,
    /// The recorded step before which [`Lab::on_dump`](super::Lab::on_dump) is called.
    pub(crate) dump_before: Option<usize>,
    /// Whether a deadlock is reported without backtraces.
    pub(crate) brief: bool,
    /// In a schedule with workers: whether time passes with each step, also while a task is ready.
    pub(crate) ticks: bool,
    /// Chances of faults, in 1 of so many operations; 0 for never.
    pub(crate) faults: FaultRates,
}

/// Trouble that the schedule itself shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// All tasks waited, for nothing.
    Deadlock,
    /// The tasks went on for ever.
    Livelock,
    /// Virtual time passed its bound.
    Late,
}

/// The next step of a task at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    GoOn,
    /// Another task goes on.
    Switch,
    /// The task unwinds.
    Stop,
}

/// The record of a task. The lab keeps it for the executor, and does not look into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadyPlace(pub(crate) NonNull<()>);

// SAFETY: only the executor uses the pointer, on its own thread.
unsafe impl Send for ReadyPlace {}

/// The longest cycle of operations that is looked for.
const TAIL: usize = 256;

/// Operations with their places, each once, in a fixed order.
fn listed(
    operations: impl Iterator<Item = (OpKind, Option<&'static Location<'static>>)>,
) -> String {
    let text = |(kind, site): (OpKind, Option<&'static Location<'static>>)| match site {
        Some(site) => format!("{} at {}:{}", kind.name(), site.file(), site.line()),
        None => kind.name().to_owned(),
    };
    operations.map(text).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}

/// A task of the schedule.
struct LabTask {
    parent: Option<u32>,
    /// The number of its parent's children before it.
    nth: u32,
    children: u32,
    path: u64,
    /// Its operations so far, and the times that it was resumed.
    ops: u32,
    /// Numbers drawn since the last of them.
    numbers: u32,
    /// The operation that it is about to do, or that it does since it was resumed last: a task that
    /// waits tries the same one again when it goes on.
    pending: Op,
    /// The identity of its object.
    identity: u32,
    site: Option<&'static Location<'static>>,
    /// Whether the operation has begun: it is not recorded again.
    begun: bool,
    ended: bool,
}

/// The path above all root tasks.
pub(crate) const ROOT_PATH: u64 = 1;

/// The path of a task that its parent spawned after `nth` others.
pub(crate) fn child_path(parent: u64, nth: u32) -> u64 {
    mix(parent ^ mix(u64::from(nth) + 1)).max(2)
}

/// The state of a schedule.
pub(crate) struct LabState {
    chooser: Box<dyn Chooser>,
    pub(super) plan: SchedulePlan,
    tasks: Vec<LabTask>,
    labels: Vec<(Option<Arc<str>>, Option<&'static Location<'static>>)>,
    /// Root tasks that were spawned by no task.
    roots: u32,
    /// The numbers of tasks, by their ids in the scheduler.
    ids: TaskNumbers,
    objects: ObjectNumbers,
    /// Ready tasks, and their records.
    ready: Vec<Enabled>,
    places: Vec<ReadyPlace>,
    running: Option<u32>,
    /// The position in `ready` of the task that was chosen at a point. Until it is picked, tasks
    /// are only added behind it.
    next: Option<usize>,
    yields: bool,
    last: (u64, u32),
    steps: u64,
    hash: u64,
    deviations: Vec<Deviation>,
    /// The path of the task that was made to go on last.
    forced: Option<u64>,
    recorder: Recorder,
    /// The last operations of a schedule that has passed its limit.
    tail: Vec<(u32, OpKind, Option<&'static Location<'static>>)>,
    trouble: Option<Trouble>,
    /// The places of that trouble.
    sites: String,
    pub(super) stopped: bool,
    pub(super) waits: u64,
    pub(super) checkpoints: u64,
    /// Numbers that the executor has drawn.
    drawn: u32,
}

impl LabState {
    pub(crate) fn new() -> LabState {
        LabState {
            chooser: chooser(Strategy::RandomWalk),
            plan: SchedulePlan {
                seed: 0,
                bare: true,
                preempts: true,
                limit: u64::MAX / 4,
                until: u64::MAX,
                record: false,
                dump_before: None,
                brief: false,
                ticks: false,
                faults: FaultRates::default(),
            },
            tasks: Vec::new(),
            labels: Vec::new(),
            roots: 0,
            ids: TaskNumbers::default(),
            objects: ObjectNumbers::default(),
            ready: Vec::new(),
            places: Vec::new(),
            running: None,
            next: None,
            yields: false,
            last: (0, 0),
            steps: 0,
            hash: 0,
            deviations: Vec::new(),
            forced: None,
            recorder: Recorder::default(),
            tail: Vec::new(),
            trouble: None,
            sites: String::new(),
            stopped: false,
            waits: 0,
            checkpoints: 0,
            drawn: 0,
        }
    }

    /// Begins a schedule. The tasks of the last one have ended.
    pub(crate) fn begin(&mut self, mut chooser: Box<dyn Chooser>, plan: SchedulePlan) {
        chooser.begin(plan.seed);
        self.chooser = chooser;
        self.plan = plan;
        self.tasks.clear();
        self.labels.clear();
        self.ids.clear();
        self.objects.clear();
        self.ready.clear();
        self.places.clear();
        self.deviations.clear();
        self.recorder.begin(self.plan.dump_before);
        self.tail.clear();
        self.sites.clear();
        (self.running, self.next, self.yields, self.last) = (None, None, false, (0, 0));
        (self.steps, self.hash, self.roots, self.waits, self.drawn) = (0, 0, 0, 0, 0);
        (self.trouble, self.stopped, self.forced, self.checkpoints) = (None, false, None, 0);
    }

    /// Ends the schedule: gives back the chooser, and whether it has more schedules.
    pub(crate) fn end(&mut self) -> (Box<dyn Chooser>, bool) {
        let mut used = std::mem::replace(&mut self.chooser, chooser(Strategy::RandomWalk));
        let more = used.end();
        (used, more)
    }

    // ----- tasks ------------------------------------------------------------------------

    /// A task was spawned, by another one or from outside.
    pub(crate) fn spawned(&mut self, id: u64, parent: u64) -> u32 {
        let parent = self.ids.get(parent);
        let (path, nth) = match parent {
            Some(parent) => {
                let parent = &mut self.tasks[parent as usize];
                parent.children += 1;
                (parent.path, parent.children - 1)
            }
            None => {
                self.roots += 1;
                (ROOT_PATH, self.roots - 1)
            }
        };
        let path = child_path(path, nth);
        let number = self.tasks.len() as u32;
        self.ids.insert(id, number);
        self.tasks.push(LabTask {
            parent,
            nth,
            children: 0,
            path,
            ops: 0,
            numbers: 0,
            pending: Op::default(),
            identity: 0,
            site: None,
            begun: false,
            ended: false,
        });
        self.chooser.spawned(number, path, parent);
        number
    }

    /// Whether the lab knows the name of this task.
    pub(crate) fn wants_label(&self, id: u64) -> bool {
        self.plan.record
            && self.ids.get(id).is_some_and(|at| {
                self.labels.get(at as usize).is_none_or(|label| label.1.is_none())
            })
    }

    /// The name of a task, and the place of its spawn.
    pub(crate) fn label(
        &mut self,
        id: u64,
        name: Option<Arc<str>>,
        spawned_at: &'static Location<'static>,
    ) {
        let Some(at) = self.ids.get(id) else { return };
        if self.labels.len() <= at as usize {
            self.labels.resize(at as usize + 1, (None, None));
        }
        self.labels[at as usize] = (name, Some(spawned_at));
    }

    /// A task is ready.
    pub(crate) fn is_ready(&mut self, id: u64, place: ReadyPlace) {
        let task = self.ids.get(id).unwrap_or_else(|| self.spawned(id, 0));
        let LabTask { path, ops, pending, .. } = self.tasks[task as usize];
        self.ready.push(Enabled { task, path, ops, op: pending });
        self.places.push(place);
    }

    /// Whether no task is ready, as far as the lab was told.
    pub(crate) fn has_none_ready(&self) -> bool {
        self.ready.is_empty()
    }

    // ----- choices ----------------------------------------------------------------------

    /// The running task is about to do an operation.
    pub(crate) fn point(
        &mut self,
        id: u64,
        kind: OpKind,
        object: usize,
        site: Option<&'static Location<'static>>,
    ) -> Turn {
        if self.stopped {
            return Turn::Stop;
        }
        let Some(task) = self.ids.get(id) else { return Turn::GoOn };
        self.count_step();
        let ObjectNumber { shown: object, identity } = self.objects.of(kind, object);
        let this = &mut self.tasks[task as usize];
        this.ops += 1;
        this.numbers = 0;
        // A wait charges the task: such a checkpoint is a part of the operation that waits.
        let is_within = kind == OpKind::Checkpoint && this.begun && this.pending.kind.may_wait();
        if self.plan.bare || !is_within {
            (this.pending, this.identity) = (Op { kind, object }, identity);
            (this.site, this.begun) = (site, false);
        }
        self.running = Some(task);
        self.last = (this.path, this.ops);
        if self.is_to_stop() {
            return Turn::Switch; // to the executor, which stops all
        }
        #[cfg(feature = "record")]
        if let Some(follower) = self.chooser.follower() {
            follower.is_about_to(task, kind, site);
            if kind != OpKind::Checkpoint {
                self.does(task); // the choice is at the operation itself: `ordered_point`
                return Turn::GoOn;
            }
        }
        if !self.plan.bare {
            let switches = self.plan.preempts && (self.is_fair() || self.number(3) == 1);
            if !switches {
                self.does(task);
            }
            return if switches { Turn::Switch } else { Turn::GoOn };
        }
        if self.ready.is_empty() {
            self.does(task);
            return Turn::GoOn;
        }
        if self.is_chosen_again(task) {
            #[cfg(feature = "record")]
            if let Some(follower) = self.chooser.follower() {
                follower.goes_on(task);
            }
            self.does(task);
            return Turn::GoOn;
        }
        Turn::Switch
    }

    /// Whether the running task goes on, which could. If not, `next` is the one that does.
    fn is_chosen_again(&mut self, task: u32) -> bool {
        let this = &self.tasks[task as usize];
        let current = self.ready.len();
        self.ready.push(Enabled { task, path: this.path, ops: this.ops, op: this.pending });
        let chosen = self.decide(Some(current));
        self.ready.pop();
        if chosen != current {
            self.next = Some(chosen);
        }
        chosen == current
    }

    /// The record of the task that goes on; none if no task is ready.
    pub(crate) fn pick(&mut self) -> Option<ReadyPlace> {
        if self.ready.is_empty() {
            self.next = None;
            return None;
        }
        self.count_step();
        let chosen = match self.next.take() {
            Some(chosen) => chosen,
            None if self.ready.len() == 1 => 0,
            None => {
                self.yields = self.ready.iter().any(|e| Some(e.task) == self.running);
                let chosen = self.decide(None);
                self.yields = false;
                chosen
            }
        };
        let task = self.ready.remove(chosen).task;
        let place = self.places.remove(chosen);
        let this = &mut self.tasks[task as usize];
        this.ops += 1;
        this.numbers = 0;
        self.last = (this.path, this.ops);
        self.running = Some(task);
        #[cfg(feature = "record")]
        if let Some(follower) = self.chooser.follower() {
            follower.goes_on(task);
        }
        self.does(task);
        Some(place)
    }

    /// The position in `ready` of the task that goes on.
    fn decide(&mut self, current: Option<usize>) -> usize {
        let choice = Choice { enabled: &self.ready, current, yields: self.yields, last: self.last };
        let usual = choice.usual();
        // After the limit, all in turn.
        let chosen = if self.is_fair() { 0 } else { self.chooser.choose(&choice) };
        if chosen != usual && !self.is_fair() {
            let phase = if current.is_some() { ChoicePhase::Before } else { ChoicePhase::Left };
            let (path, ops) = self.last;
            let target = self.ready[chosen].path;
            self.deviations.push(Deviation { path, ops, phase, target });
            self.forced = Some(target);
        }
        chosen
    }

    /// A task that was preempted goes on; only told in schedules with workers.
    pub(crate) fn resumed(&mut self, id: u64) {
        if let Some(task) = self.ids.get(id) {
            self.running = Some(task);
            self.does(task);
        }
    }

    /// A number below `below`; 0 by the default policy.
    pub(crate) fn number(&mut self, below: usize) -> usize {
        if below < 2 || self.is_fair() {
            return 0;
        }
        #[cfg(feature = "record")]
        if let (Some(task), Some(follower)) = (self.running, self.chooser.follower()) {
            return follower.drawn(task, below);
        }
        let at = match self.running.map(|task| &mut self.tasks[task as usize]) {
            Some(task) => {
                task.numbers += 1;
                (task.path, task.ops, task.numbers)
            }
            None => self.executor(),
        };
        self.number_at(at, below)
    }

    /// As [`number`](LabState::number), for a choice of the executor.
    pub(crate) fn executor_number(&mut self, below: usize) -> usize {
        self.count_step();
        if below < 2 {
            return 0;
        }
        let at = self.executor();
        // After the limit, all in turn.
        if self.is_fair() { at.1 as usize % below } else { self.number_at(at, below) }
    }

    /// A step of the schedule. After twice the limit, it does not end.
    fn count_step(&mut self) {
        self.steps += 1;
        if self.steps > self.plan.limit.saturating_mul(2) && !self.stopped {
            self.has(Trouble::Livelock);
        }
    }

    /// Whether the executor has to stop the tasks.
    fn is_to_stop(&self) -> bool {
        !self.stopped && matches!(self.trouble, Some(Trouble::Livelock | Trouble::Late))
    }

    fn executor(&mut self) -> (u64, u32, u32) {
        self.drawn += 1;
        (0, self.drawn, 0)
    }

    fn number_at(&mut self, at: (u64, u32, u32), below: usize) -> usize {
        let number = self.chooser.number(at, below);
        if number != 0 {
            let (path, ops, nth) = at;
            let phase = ChoicePhase::Number(nth);
            self.deviations.push(Deviation { path, ops, phase, target: number as u64 });
        }
        number
    }

    /// The object at this address ends, or begins.
    pub(super) fn forget_address(&mut self, address: usize) {
        self.objects.forget(address);
    }

    /// A task does its pending operation.
    fn does(&mut self, task: u32) {
        let LabTask { path, pending, identity, site, begun, .. } = self.tasks[task as usize];
        self.tasks[task as usize].begun = true;
        let kind = if begun { OpKind::Start } else { pending.kind };
        if begun {
            self.chooser.does(task, pending);
        } else {
            self.chooser.does_at(task, pending, site);
        }
        if self.trouble.is_some() {
            return; // the tasks only clean up
        }
        let object = if begun { 0 } else { u64::from(identity) };
        self.hash = mix(self.hash.rotate_left(5) ^ path ^ kind as u64 ^ object << 8);
        if kind == OpKind::Start {
            return;
        }
        if self.is_fair() {
            self.tail.push((task, pending.kind, site));
            if self.tail.len() == 2 * TAIL {
                self.tail.drain(..TAIL);
            }
        }
        if self.plan.record {
            let forced = self.forced.take() == Some(path);
            let (op, object) = (pending.kind, pending.object);
            self.recorder.push(RunStep { task, op, object, identity, site, forced });
        }
    }

    /// Time has jumped.
    pub(crate) fn is_now(&mut self, now: u64) {
        if now > self.plan.until {
            self.has(Trouble::Late);
        }
    }

    // ----- replays of runs on threads ---------------------------------------------------

    /// Whether the schedule repeats a run on threads.
    #[cfg(feature = "record")]
    pub(crate) fn replays(&mut self) -> bool {
        self.chooser.follower().is_some()
    }

    /// The running task is about to do an operation on an object, in a replay of a run on threads.
    #[cfg(feature = "record")]
    pub(crate) fn ordered_point(&mut self, id: u64) -> Turn {
        if self.stopped {
            return Turn::GoOn; // it unwinds at a point
        }
        let (Some(task), Some(follower)) = (self.ids.get(id), self.chooser.follower()) else {
            return Turn::GoOn;
        };
        let is_due = follower.stands(task);
        self.goes_on_if(task, is_due)
    }

    /// Whether the running task, whose deadline is not near, is told in this replay that it has
    /// passed; and whether others go on first.
    #[cfg(feature = "record")]
    pub(crate) fn replays_timeout(&mut self, id: u64) -> Option<Turn> {
        let task = self.ids.get(id)?;
        if self.stopped || !self.chooser.follower()?.stands_at_timeout(task) {
            return None;
        }
        Some(self.goes_on_if(task, false))
    }

    #[cfg(feature = "record")]
    fn goes_on_if(&mut self, task: u32, is_due: bool) -> Turn {
        self.count_step();
        if self.is_to_stop() {
            return Turn::Switch; // to the executor, which stops all
        }
        self.running = Some(task);
        if is_due || self.ready.is_empty() || self.is_chosen_again(task) {
            if let Some(follower) = self.chooser.follower() {
                follower.goes_on(task);
            }
            return Turn::GoOn;
        }
        Turn::Switch
    }

    /// The time that the running task has read in the recorded run.
    #[cfg(feature = "record")]
    pub(crate) fn replayed_time(&mut self, id: u64) -> Option<u64> {
        let task = self.ids.get(id)?;
        self.chooser.follower()?.time(task)
    }

    // ----- the end ----------------------------------------------------------------------

    /// Whether the limit of operations has passed.
    pub(crate) fn is_fair(&self) -> bool {
        self.steps > self.plan.limit
    }

    /// Whether the tasks have to be stopped, and have not been yet. Asked by the executor, which
    /// then stops them.
    pub(crate) fn must_stop(&mut self) -> bool {
        let stops = self.is_to_stop();
        self.stopped |= stops;
        stops
    }

    /// The schedule has this trouble; only the first counts.
    pub(crate) fn has(&mut self, trouble: Trouble) {
        if self.trouble.is_some() {
            return;
        }
        self.trouble = Some(trouble);
        self.recorder.ends();
        self.sites = match trouble {
            Trouble::Deadlock | Trouble::Late => self.waits_at(),
            Trouble::Livelock => self.cycle(),
        };
    }

    /// A task has ended.
    pub(crate) fn ended(&mut self, id: u64) {
        if let Some(task) = self.ids.get(id) {
            self.tasks[task as usize].ended = true;
        }
    }

    /// The operations in which tasks wait now, with their places; each once.
    pub(crate) fn waits_at(&self) -> String {
        let waits = |task: &&LabTask| !task.ended && task.begun && task.pending.kind.may_wait();
        let waiting = self.tasks.iter().filter(waits);
        listed(waiting.map(|task| (task.pending.kind, task.site)))
    }

    /// The operations that the tasks do again and again, with their places.
    fn cycle(&self) -> String {
        let last = &self.tail[self.tail.len().saturating_sub(TAIL)..];
        let back = |from: usize| last.iter().rev().skip(from);
        let repeats = |period: &usize| back(0).zip(back(*period)).all(|(a, b)| a == b);
        let period = (1..=last.len() / 2).find(repeats).unwrap_or(last.len());
        listed(last[last.len() - period..].iter().map(|&(_, kind, site)| (kind, site)))
    }

    /// The places of the trouble, or of the tasks that are left.
    pub(crate) fn sites(&self) -> String {
        if self.trouble.is_some() { self.sites.clone() } else { self.waits_at() }
    }

    /// Whether tasks that wait for each other are looked for: there are two, and no trouble yet.
    pub(crate) fn looks_for_cycles(&self) -> bool {
        !self.plan.ticks && self.trouble.is_none() && self.tasks.len() > 1
    }

    /// Whether time passes with each step.
    pub(crate) fn ticks(&self) -> bool {
        self.plan.ticks || self.is_fair()
    }

    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }

    pub(crate) fn is_brief(&self) -> bool {
        self.plan.brief
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Equal runs have equal hashes.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn deviations(&self) -> &[Deviation] {
        &self.deviations
    }

    // ----- the record -------------------------------------------------------------------

    /// The record, if steps are recorded.
    pub(crate) fn recorder(&mut self) -> Option<&mut Recorder> {
        self.plan.record.then_some(&mut self.recorder)
    }

    /// The number of a task, by its id in the scheduler.
    pub(crate) fn number_of_task(&self, id: u64) -> Option<u32> {
        self.ids.get(id)
    }

    /// The tasks of the schedule.
    pub(crate) fn labels(&self) -> Vec<TaskLabel> {
        let label = |(at, task): (usize, &LabTask)| {
            let (name, spawned_at) = self.labels.get(at).cloned().unwrap_or((None, None));
            TaskLabel { parent: task.parent, nth: task.nth, name, spawned_at }
        };
        self.tasks.iter().enumerate().map(label).collect()
    }
}
