//! The choices of a run on threads, from its journal (`sched::journal`, which has the argument).
//!
//! The journals are cut into segments, one list for each task. A task *stands* before an operation,
//! or has left its worker, or runs. Its next step belongs to a segment; of all tasks that are
//! ready, the one goes on whose segment comes first in the recorded run.
//!
//! | the task | its next segment |
//! |---|---|
//! | has not begun | the first one |
//! | stands before an operation | the last one that begins with this operation or an earlier one |
//! | was woken, or has yielded | the turn that began after so many operations, if there is one; else the present one |
//! | yields again and again, without an operation | the present one, but after all that come before the next one |
//! | has waited for a deadline | that in which the deadline has passed |
//!
//! A segment whose task is not ready is left out until it is. So the replay never stands still
//! while a task is ready; where the recorded order cannot be kept, it goes on and ends with a
//! report.

use super::op::OpKind;
use super::strategy::{Choice, Chooser};
use crate::base::error::TaskId;
use crate::sched::journal::JournalEntry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The first difference between the recorded run and the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StrayEvent {
    /// The task in the replay; `None` if it was not spawned there.
    pub(crate) task: Option<u32>,
    /// The worker that ran it then in the recorded run.
    pub(crate) worker: usize,
    pub(crate) kind: StrayKind,
    /// Operations on objects that the task has done in the replay.
    pub(crate) done: u64,
    /// The last operation that it has begun, with its place.
    pub(crate) op: OpKind,
    pub(crate) site: Option<&'static Location<'static>>,
}

/// Kinds of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StrayKind {
    /// The task does more operations than these.
    Longer(u64),
    /// The task has done fewer operations than these when the run ended.
    Shorter(u64),
    /// The task spawns one that was not spawned in the recorded run.
    Spawns,
    /// A recorded task was never spawned; after this many others of the same task.
    Missing(u32),
}

/// The course of a replay.
#[derive(Debug, Clone, Default)]
pub(crate) struct FollowReport {
    pub(crate) stray: Option<StrayEvent>,
    /// Segments that were repeated.
    pub(crate) segments: u64,
}

/// The place of a segment in the recorded run: its stamp, its worker, the position in the log.
type SegmentKey = (u64, usize, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentKind {
    Turn,
    Change,
    TimedOut,
}

/// A part of a task's run.
#[derive(Debug, Clone, Copy)]
struct Segment {
    key: SegmentKey,
    /// Its first operation.
    first: u64,
    kind: SegmentKind,
}

/// A task of the recorded run.
#[derive(Debug, Default)]
struct RecordedTask {
    segments: Vec<Segment>,
    /// Ids of the tasks that it has spawned, in order.
    children: Vec<u64>,
    times: VecDeque<u64>,
    numbers: VecDeque<u64>,
    /// Its operations.
    ops: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskStanding {
    New,
    Runs,
    /// Before an operation, which is counted.
    Before,
    /// It has left its worker: it was woken, or has yielded.
    Left {
        yields: bool,
    },
    /// Before this segment, in which its deadline has passed.
    TimedOut(usize),
}

/// Yields without an operation after which a task lets all others go on.
const VAIN_YIELDS: u32 = 1000;

/// A task of the replay.
struct FollowedTask {
    /// The recorded one; `None` if there is none.
    recorded: Option<RecordedTask>,
    standing: TaskStanding,
    /// The present segment.
    at: usize,
    /// Operations, with the one that it stands before.
    ops: u64,
    /// Yields since the last of them.
    vain_yields: u32,
    spawned: u32,
    op: OpKind,
    site: Option<&'static Location<'static>>,
}

impl FollowedTask {
    fn segments(&self) -> &[Segment] {
        self.recorded.as_ref().map_or(&[], |task| &task.segments)
    }

    /// The segment of its next step, and its place in the order; the last place for a task that
    /// was not recorded.
    fn next(&self) -> (usize, SegmentKey) {
        const LAST: SegmentKey = (u64::MAX, usize::MAX, usize::MAX);
        let segments = self.segments();
        let key = |at: usize| segments.get(at).map_or(LAST, |segment| segment.key);
        let behind = self.at + 1;
        match self.standing {
            TaskStanding::New | TaskStanding::Runs => (self.at, key(self.at)),
            TaskStanding::Before => {
                let later = segments.get(behind..).unwrap_or_default();
                let passed = later.iter().take_while(|segment| segment.first <= self.ops).count();
                (self.at + passed, key(self.at + passed))
            }
            TaskStanding::TimedOut(at) => (at, key(at)),
            TaskStanding::Left { yields } => match segments.get(behind) {
                Some(next) if next.kind == SegmentKind::Turn && next.first == self.ops + 1 => {
                    (behind, next.key)
                }
                // A yield of a task that was alone has no entry. A loop of them may wait for
                // something that is not recorded: others go on at last.
                _ if yields && self.vain_yields > VAIN_YIELDS => (self.at, key(behind)),
                _ => (self.at, key(self.at)),
            },
        }
    }

    /// The segment in which the deadline passes for which the task is about to wait.
    fn timeout(&self) -> Option<usize> {
        let segments = self.segments();
        let here = |at: &usize| segments[*at].first == self.ops + 1;
        let mut candidates = (self.at + 1..segments.len()).take_while(here);
        candidates.find(|&at| segments[at].kind == SegmentKind::TimedOut)
    }
}

/// Repeats a run on threads.
pub(crate) struct Follower {
    recorded: HashMap<u64, RecordedTask>,
    /// The ids of root tasks, in order, and how many of them were spawned.
    roots: Vec<u64>,
    roots_seen: usize,
    tasks: Vec<FollowedTask>,
    running: Option<u32>,
    /// Whether the record has all that happened.
    is_whole: bool,
    report: Arc<Mutex<FollowReport>>,
}

/// The journal of a worker: its entries, and its count of operations at the end.
pub(crate) type WorkerEntries = (Vec<JournalEntry>, u64);

/// A turn in the log of a worker.
struct RecordedTurn<'j> {
    task: u64,
    key: SegmentKey,
    /// The counts of the worker's operations at its beginning and at its end.
    counts: (u64, u64),
    /// The entries in it, each with its key.
    entries: Vec<(SegmentKey, &'j JournalEntry)>,
}

/// The turns of each task, in the order in which they were.
fn turns(journals: &[WorkerEntries]) -> BTreeMap<u64, Vec<RecordedTurn<'_>>> {
    let mut tasks: BTreeMap<u64, Vec<RecordedTurn<'_>>> = BTreeMap::new();
    for (worker, (entries, end)) in journals.iter().enumerate() {
        let (mut stamp, mut turn) = (0, None::<RecordedTurn<'_>>);
        for (position, entry) in entries.iter().enumerate() {
            if let JournalEntry::Took(clock)
            | JournalEntry::Change(_, clock)
            | JournalEntry::TimedOut(_, clock) = *entry
            {
                stamp = stamp.max(clock);
            }
            let key = (stamp, worker, position);
            if let JournalEntry::Turn(task, count) = *entry {
                if let Some(mut ended) = turn.take() {
                    ended.counts.1 = count;
                    tasks.entry(ended.task).or_default().push(ended);
                }
                turn = Some(RecordedTurn { task, key, counts: (count, *end), entries: Vec::new() });
            } else if let Some(turn) = &mut turn {
                turn.entries.push((key, entry));
            }
        }
        if let Some(turn) = turn {
            tasks.entry(turn.task).or_default().push(turn);
        }
    }
    tasks.values_mut().for_each(|turns| turns.sort_by_key(|turn| turn.key));
    tasks
}

impl RecordedTask {
    fn of(turns: &[RecordedTurn<'_>]) -> RecordedTask {
        let mut task = RecordedTask::default();
        for turn in turns {
            let before = task.ops;
            let own = |count: u64| before + count.saturating_sub(turn.counts.0);
            let (key, kind) = (turn.key, SegmentKind::Turn);
            task.segments.push(Segment { key, first: before + 1, kind });
            for &(key, entry) in &turn.entries {
                // An operation that goes on after a wait is in the turn that ended the wait.
                let last = task.segments.last().map_or(0, |segment| segment.first);
                match *entry {
                    JournalEntry::Change(count, _) => {
                        let kind = SegmentKind::Change;
                        task.segments.push(Segment { key, first: own(count).max(last), kind });
                    }
                    JournalEntry::TimedOut(count, _) => {
                        let kind = SegmentKind::TimedOut;
                        task.segments.push(Segment {
                            key,
                            first: (own(count) + 1).max(last),
                            kind,
                        });
                    }
                    JournalEntry::Spawn(child) => task.children.push(child),
                    JournalEntry::Time(nanos) => task.times.push_back(nanos),
                    JournalEntry::Number(number) => task.numbers.push_back(number),
                    JournalEntry::Turn(..) | JournalEntry::Took(_) => {}
                }
            }
            task.ops = own(turn.counts.1);
        }
        task
    }
}

impl Follower {
    /// For the journals of all workers, which have the whole run or its beginning. The report is
    /// complete when the schedule has ended.
    pub(crate) fn new(
        journals: &[WorkerEntries],
        is_whole: bool,
    ) -> (Follower, Arc<Mutex<FollowReport>>) {
        let turns = turns(journals);
        let roots = turns.keys().copied().filter(|&id| id >= TaskId::OUTSIDE).collect();
        let recorded = turns.iter().map(|(&id, turns)| (id, RecordedTask::of(turns))).collect();
        let report = Arc::default();
        let follower = Follower {
            recorded,
            roots,
            roots_seen: 0,
            tasks: Vec::new(),
            running: None,
            is_whole,
            report: Arc::clone(&report),
        };
        (follower, report)
    }

    fn report(&self) -> MutexGuard<'_, FollowReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strays(&self, number: u32, kind: StrayKind) {
        if !self.is_whole {
            return;
        }
        let task = &self.tasks[number as usize];
        let worker = task.segments().get(task.at).map_or(0, |segment| segment.key.1);
        let (done, op, site) = (task.ops, task.op, task.site);
        let stray = StrayEvent { task: Some(number), worker, kind, done, op, site };
        self.report().stray.get_or_insert(stray);
    }

    /// The running task begins an operation at this place of the program.
    pub(super) fn is_about_to(
        &mut self,
        task: u32,
        op: OpKind,
        site: Option<&'static Location<'static>>,
    ) {
        let task = &mut self.tasks[task as usize];
        (task.op, task.site) = (op, site);
    }

    /// The running task is about to do an operation on an object. Returns whether it goes on at
    /// once, because that is in the same segment.
    pub(super) fn stands(&mut self, number: u32) -> bool {
        let task = &mut self.tasks[number as usize];
        task.ops += 1;
        task.vain_yields = 0;
        task.standing = TaskStanding::Before;
        let (ops, is_due) = (task.ops, task.next().0 == task.at);
        let recorded = task.recorded.as_ref().map_or(0, |recorded| recorded.ops);
        if ops > recorded && task.recorded.is_some() {
            self.strays(number, StrayKind::Longer(recorded));
        }
        is_due
    }

    /// Whether the deadline passes for which the running task is about to wait. It stands before
    /// that.
    pub(super) fn stands_at_timeout(&mut self, number: u32) -> bool {
        let task = &mut self.tasks[number as usize];
        let timeout = task.timeout();
        if let Some(at) = timeout {
            task.standing = TaskStanding::TimedOut(at);
        }
        timeout.is_some()
    }

    /// The task that ran last has left its worker, if it does not stand somewhere.
    fn has_left(&mut self, is_ready: bool) {
        if let Some(task) = self.running.take().map(|task| &mut self.tasks[task as usize])
            && task.standing == TaskStanding::Runs
        {
            task.standing = TaskStanding::Left { yields: is_ready };
            task.vain_yields += u32::from(is_ready);
        }
    }

    /// This task goes on.
    pub(super) fn goes_on(&mut self, number: u32) {
        self.has_left(false);
        let task = &mut self.tasks[number as usize];
        let before = task.at;
        task.at = task.next().0;
        task.standing = TaskStanding::Runs;
        self.running = Some(number);
        let passed = task.at - before;
        self.report().segments += passed as u64;
    }

    /// The next time that the task has read in the recorded run.
    pub(super) fn time(&mut self, task: u32) -> Option<u64> {
        self.tasks[task as usize].recorded.as_mut()?.times.pop_front()
    }

    /// The next number that the task has drawn in the recorded run.
    pub(super) fn drawn(&mut self, task: u32, below: usize) -> usize {
        let recorded = self.tasks[task as usize].recorded.as_mut();
        let number = recorded.and_then(|recorded| recorded.numbers.pop_front());
        number.map_or(0, |number| (number as usize).min(below - 1))
    }
}

impl Chooser for Follower {
    fn begin(&mut self, _seed: u64) {}

    fn spawned(&mut self, task: u32, _path: u64, parent: Option<u32>) {
        let id = match parent {
            None => {
                self.roots_seen += 1;
                self.roots.get(self.roots_seen - 1).copied()
            }
            Some(parent) => {
                let parent = &mut self.tasks[parent as usize];
                parent.spawned += 1;
                let children = parent.recorded.as_ref().map(|recorded| &recorded.children);
                children.and_then(|all| all.get(parent.spawned as usize - 1).copied())
            }
        };
        let recorded = id.map(|id| self.recorded.remove(&id).unwrap_or_default());
        let is_strange = recorded.is_none();
        debug_assert_eq!(self.tasks.len(), task as usize);
        self.tasks.push(FollowedTask {
            recorded,
            standing: TaskStanding::New,
            at: 0,
            ops: 0,
            vain_yields: 0,
            spawned: 0,
            op: OpKind::Start,
            site: None,
        });
        if is_strange && let Some(parent) = parent {
            self.strays(parent, StrayKind::Spawns);
        }
    }

    fn choose(&mut self, choice: &Choice<'_>) -> usize {
        let is_ready = |task| choice.enabled.iter().any(|one| one.task == task);
        let is_running_ready = self.running.is_some_and(is_ready);
        self.has_left(is_running_ready);
        let next = |at: &usize| self.tasks[choice.enabled[*at].task as usize].next().1;
        // The order of those that are ready, for tasks that were not recorded.
        (0..choice.enabled.len()).min_by_key(next).unwrap_or_else(|| choice.usual())
    }

    fn number(&mut self, _at: (u64, u32, u32), _below: usize) -> usize {
        0 // the executor's
    }

    fn follower(&mut self) -> Option<&mut Follower> {
        Some(self)
    }

    fn end(&mut self) -> bool {
        if !self.is_whole {
            return false;
        }
        let shorter = (0..self.tasks.len() as u32).filter_map(|number| {
            let task = &self.tasks[number as usize];
            let recorded = task.recorded.as_ref()?;
            let key = task.segments().get(task.at).map(|segment| segment.key);
            (task.ops < recorded.ops).then_some((key, number, recorded.ops))
        });
        if let Some((_, number, ops)) = shorter.min() {
            self.strays(number, StrayKind::Shorter(ops));
        }
        let missing = (0..self.tasks.len() as u32).find_map(|number| {
            let task = &self.tasks[number as usize];
            let children = task.recorded.as_ref()?.children.len();
            (children > task.spawned as usize).then_some((number, task.spawned))
        });
        if let Some((number, spawned)) = missing {
            self.strays(number, StrayKind::Missing(spawned));
        }
        if self.roots_seen < self.roots.len() {
            let (kind, done) = (StrayKind::Missing(self.roots_seen as u32), 0);
            let (op, site) = (OpKind::Spawn, None);
            let stray = StrayEvent { task: None, worker: 0, kind, done, op, site };
            self.report().stray.get_or_insert(stray);
        }
        false
    }
}
