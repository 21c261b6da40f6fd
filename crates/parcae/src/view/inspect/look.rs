//! Reading tasks from outside.
//!
//! All records of a scheduler are in its slab, so tasks need not register anywhere and spawning
//! pays nothing for inspection. The phase of a task decides how much of it can be read:
//!
//! - *parked*: everything. The observer takes the task out of the wakers' reach (`cx::observed`),
//!   so its stack is quiescent and the frame on it can be read. A wake that comes meanwhile is
//!   carried out when the observer is done. That takes some microseconds: the observer only copies.
//! - *queued or running*: its id and its worker, from the atomics of its record. All other fields
//!   belong to the task.
//!
//! The observer waits for no task: the slab's lock is held for the copy of a list, a channel's lock
//! is only tried. So it works when the system is stuck, and on a thread of its own. It does wait
//! for another observer (`Shared::looking`), for one task at a time. A task that one observer holds
//! still would look to the other as if it were about to run, and a deadlock would be missed for
//! good, because a system in which all tasks wait is scanned only once.
//!
//! Different tasks are read at different moments; `deadlock.rs` deals with that.

use super::{Children, EndedBy, TaskSnapshot, TaskState, Wait};
use crate::base::error::{DeadlockReport, TaskId};
use crate::sched::Shared;
use crate::sched::task::state::Phase;
use crate::sched::task::{self, TaskRef};
use crate::scope::cx::{self, Frame, Observed, TaskSettings, alone};
use crate::scope::nursery::{Account, NurseryCore, NurseryState, ParkedFuture};
use crate::stack::frames::Frames;
use crate::wait::Why;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Whether stacks are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stacks {
    Walked,
    Left,
}

/// All tasks. Under the deterministic executor root tasks come first, then the others in the order
/// of their spawns; on threads there is no order.
pub(crate) fn all(shared: &Shared, stacks: Stacks) -> Vec<TaskSnapshot> {
    let mut tasks = Vec::new();
    shared.slab.each(|record| tasks.extend(one(shared, record, stacks)));
    if shared.config.deterministic {
        // Records are in the order of their addresses.
        tasks.sort_by_key(|task: &TaskSnapshot| task.id.as_u64().wrapping_add(TaskId::OUTSIDE));
    }
    tasks
}

/// The task with this id, with its backtrace.
pub(crate) fn find(shared: &Shared, id: u64) -> Option<TaskSnapshot> {
    let mut found = None;
    shared.slab.each(|record| {
        // A record whose id has just changed belongs to another task.
        if found.is_none() && record.id() == id {
            found = one(shared, record, Stacks::Walked).filter(|task| task.id.as_u64() == id);
        }
    });
    found
}

/// The runtime's root nursery; `None` once the runtime is gone.
pub(crate) fn root(shared: &Shared) -> Option<Children> {
    let settings = shared.root()?.downcast::<TaskSettings>().ok()?;
    let live = shared.roots.live();
    let state = match (settings.node.is_cancelled(), live) {
        (false, _) => NurseryState::Open,
        (true, 0) => NurseryState::Cancelled,
        (true, _) => NurseryState::Cancelling,
    };
    let (name, budget) = (settings.name.clone(), settings.pool.standing());
    let account = Account::of(&settings, &settings.pool);
    Some(Children { nursery: settings.nursery, name, state, live, budget, account })
}

/// The task of one record; `None` if the record is free.
fn one(shared: &Shared, record: &task::Task, stacks: Stacks) -> Option<TaskSnapshot> {
    let look = record.state.look();
    let (state, worker) = match look.phase {
        Phase::Gone => return None,
        Phase::Queued => (TaskState::Ready, None),
        Phase::Owned(worker) => (TaskState::Running, Some(worker)),
        Phase::Parked(worker) => (TaskState::Waiting, Some(worker)),
    };
    let task = TaskRef { task: NonNull::from(record), generation: look.generation };
    if state == TaskState::Waiting {
        let _alone = alone(shared);
        if let Some(observed) = Observed::try_of(shared, record, look.generation) {
            return Some(waiting(&observed, task, worker, stacks));
        }
    }
    let id = TaskId(record.id());
    // The id belongs to the observed task if the generation has not changed.
    let same = record.state.look().generation == look.generation;
    same.then(|| TaskSnapshot { worker, ..TaskSnapshot::unknown(id, state, task) })
}

/// A parked task, completely.
fn waiting(
    observed: &Observed<'_>,
    task: TaskRef,
    worker: Option<usize>,
    stacks: Stacks,
) -> TaskSnapshot {
    let id = TaskId(observed.task.id());
    let mut seen = TaskSnapshot { worker, ..TaskSnapshot::unknown(id, TaskState::Waiting, task) };
    // SAFETY: observed: it has left its stack, and does not run.
    let strand = unsafe { observed.task.strand().map(|strand| strand.as_ref()) };
    if let Some(strand) = strand {
        seen.stack = Some((strand.stack_end(), strand.size().bytes()));
        if stacks == Stacks::Walked {
            // SAFETY: as above.
            seen.frames = unsafe { Frames::of(strand.context()) };
        }
    }
    if let Some(frame) = observed.frame() {
        read(&mut seen, frame, observed.shared);
    }
    observed.future(|future| read_future(&mut seen, future, observed));
    seen
}

/// Reads a future that waits between two polls.
fn read_future(seen: &mut TaskSnapshot, future: &ParkedFuture, observed: &Observed<'_>) {
    let shared = observed.shared;
    // SAFETY: the observed task.
    let settings = unsafe { future.settings(NonNull::from(observed.task)) };
    let (name, spawned_at) = future.origin();
    let (noted, now) = (future.frame(), shared.coarse_now().max(shared.now()));
    seen.name = name.cloned();
    seen.spawned_at = Some(spawned_at);
    seen.nursery = settings.nursery;
    seen.nursery_name = settings.name.clone();
    seen.owner = (settings.owner != 0).then_some(TaskId(settings.owner));
    seen.age = Some(Duration::from_nanos(now.saturating_sub(noted.started)));
    seen.budget = Some(future.balance().unwrap_or(settings.default_grant));
    seen.waits = noted.waits;
    let since = Duration::from_nanos(now.saturating_sub(noted.since));
    let timed = settings.node.expires();
    seen.wait = Some(Wait { since, timed, ..describe(Why::Future, None, shared) });
}

/// Completes the snapshot of the calling task.
pub(crate) fn itself(shared: &Shared, tasks: &mut [TaskSnapshot]) {
    let here = cx::Here::new();
    let Some(frame) = here.frame() else { return };
    if std::ptr::eq(Arc::as_ptr(&frame.settings().shared), shared) {
        let id = frame.info().id;
        if let Some(task) = tasks.iter_mut().find(|task| task.id == id) {
            read(task, frame, shared);
        }
    }
}

/// Reads a frame. The caller is the task, or holds it still.
fn read(seen: &mut TaskSnapshot, frame: &Frame, shared: &Shared) {
    let (noted, now) = (frame.seen(), shared.coarse_now().max(shared.now()));
    let info = frame.info();
    let why = noted.why();
    seen.name = info.name;
    seen.spawned_at = Some(info.spawned_at);
    seen.nursery = frame.settings().nursery;
    seen.nursery_name = info.nursery;
    seen.owner = (frame.settings().owner != 0).then(|| TaskId(frame.settings().owner));
    seen.age = Some(Duration::from_nanos(now.saturating_sub(noted.started.get())));
    seen.budget = Some(frame.balance());
    seen.waits = noted.waits.get();
    let since = Duration::from_nanos(now.saturating_sub(noted.since.get()));
    seen.wait = why.map(|why| Wait {
        since,
        timed: noted.timed.get() || frame.expires(),
        external: noted.external.get() > 0,
        ..describe(why, noted.nursery.get(), shared)
    });
    if matches!(why, Some(Why::Budget(_))) {
        seen.state = TaskState::Exhausted;
    }
    let mut inner = noted.nursery.get();
    while let Some(core) = inner {
        // SAFETY: on the stack of the observed task, which has not left the nursery.
        let core: &NurseryCore = unsafe { core.as_ref() };
        seen.children.push(Children {
            nursery: core.settings().nursery,
            name: core.settings().name.clone(),
            state: core.state(),
            live: core.live(),
            budget: core.settings().pool.standing(),
            account: Account::of(core.settings(), &core.settings().pool),
        });
        inner = core.outer();
    }
}

/// Describes a wait, and the tasks that could end it.
fn describe(why: Why<'static>, nursery: Option<NonNull<NurseryCore>>, shared: &Shared) -> Wait {
    match why {
        Why::Wake => Wait::new("for a wake-up", EndedBy::Anybody),
        Why::Sleep(until) => {
            Wait { until: until.map(Duration::from_nanos), ..Wait::new("sleeping", EndedBy::Clock) }
        }
        Why::Children => {
            // SAFETY: as in `waiting`: of the observed task.
            let nursery = nursery.map_or(0, |core| unsafe { core.as_ref() }.settings().nursery);
            Wait::new("for its children", EndedBy::Children(nursery))
        }
        Why::Task(id) => Wait::new("for a task", EndedBy::Task(id)),
        Why::Elsewhere => Wait::new("for a task of another runtime", EndedBy::Outside),
        Why::Budget(resource) => {
            let wait = Wait::new("for a recharge", EndedBy::Anybody);
            Wait { note: Some(format!("out of {resource}")), ..wait }
        }
        Why::Blocking => Wait::new("for a blocking call", EndedBy::Call),
        Why::Future => Wait::new("for a future", EndedBy::Outside),
        Why::Select(cases) => Wait {
            note: Some(format!("{cases} cases")),
            ..Wait::new("for a select", EndedBy::Anybody)
        },
        Why::Lock(what, holder) => {
            let on = Some((&raw const *holder).addr());
            let held_by = match holder.address() {
                0 => EndedBy::Anybody,
                stack => EndedBy::Stack(stack),
            };
            Wait { on, ..Wait::new(what, held_by) }
        }
        Why::Signal(what, on) => Wait { on: Some(on), ..Wait::new(what, EndedBy::Anybody) },
        #[cfg(feature = "io")]
        Why::Io(what, object) => {
            // Under the deterministic executor the other side is a task, too.
            let simulated = shared.config.deterministic;
            let by = if simulated { EndedBy::Anybody } else { EndedBy::Outside };
            Wait { name: Some(object.to_string().into()), ..Wait::new(what, by) }
        }
        Why::Channel(what, channel) => {
            let on = Some((&raw const *channel).cast::<()>().addr());
            let what = match what {
                "receive" => "receiving from channel",
                "send" => "sending to channel",
                other => other,
            };
            let note = channel.stats().map(|told| {
                let content = match (told.values, told.capacity) {
                    (_, 0) => "unbuffered".to_owned(),
                    (0, usize::MAX) => "empty, unbounded".to_owned(),
                    (values, usize::MAX) => format!("{}, unbounded", counted(values, "value")),
                    (0, capacity) => format!("empty, capacity {capacity}"),
                    (values, capacity) if values >= capacity => {
                        format!("full, capacity {capacity}")
                    }
                    (values, capacity) => {
                        format!("{}, capacity {capacity}", counted(values, "value"))
                    }
                };
                let (senders, receivers) =
                    (counted(told.senders, "sender"), counted(told.receivers, "receiver"));
                format!("{content}; {senders}, {receivers}")
            });
            let maker = channel.maker(shared);
            let held_by = maker.map_or(EndedBy::Outside, EndedBy::Family);
            let (name, made_by) = (channel.name().cloned(), maker.map(TaskId));
            Wait { on, name, note, made_by, ..Wait::new(what, held_by) }
        }
    }
}

/// A number of things: "1 sender", "2 senders".
fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Ends the waits of deadlocked tasks with this error, if a task still is in the same wait. Tasks
/// that only wait for such children get the error from them. Tasks in a shield are ended only if
/// there are no others. Returns the number of ended waits.
pub(crate) fn sentence(shared: &Shared, verdict: &DeadlockReport) -> usize {
    let for_children = |task: &&TaskSnapshot| {
        task.wait.as_ref().is_none_or(|wait| matches!(wait.holder, EndedBy::Children(_)))
    };
    let tell = |shielded: bool| {
        let others = verdict.tasks.iter().filter(|task| !for_children(task));
        others.filter(|task| tell(shared, verdict, task, shielded)).count()
    };
    match tell(false) {
        0 => tell(true),
        told => told,
    }
}

/// Ends the wait of one task, if it still is in the same wait, and in a shield or not as `shielded`
/// says.
fn tell(shared: &Shared, verdict: &DeadlockReport, task: &TaskSnapshot, shielded: bool) -> bool {
    // SAFETY: records live as long as the scheduler.
    let record = unsafe { task.task.task.as_ref() };
    let _alone = alone(shared);
    let Some(observed) = Observed::try_of(shared, record, task.task.generation) else {
        return false;
    };
    let same =
        |frame: &&Frame| frame.seen().waits.get() == task.waits && frame.is_in_shield() == shielded;
    let told = match observed.frame() {
        Some(frame) if same(&frame) => {
            frame.seen().verdict.set(Some(verdict.clone()));
            true
        }
        Some(_) => false,
        // There is no shield between two polls.
        None => {
            let tell = |future: &mut ParkedFuture| {
                let same = future.frame().waits == task.waits && !shielded;
                if same {
                    future.sentence(verdict.clone());
                }
                same
            };
            observed.future(tell).unwrap_or(false)
        }
    };
    if !told {
        return false;
    }
    // While it is held still, so that this wait ends and not a later one.
    shared.cancel(task.task);
    drop(observed);
    true
}
