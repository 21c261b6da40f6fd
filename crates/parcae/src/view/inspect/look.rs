//! Looking at tasks from outside.
//!
//! All records of a scheduler are in its slab, so nobody has to register a task, and spawning one costs nothing
//! for it. What can be said of a task depends on its phase:
//!
//! - *parked*: everything. The observer takes it out of the wakers' reach (`cx::observed`), so its stack is
//!   quiescent and its frame, which lies there, can be read like one's own. A wake that comes meanwhile is carried
//!   out when the observer lets go. That takes some microseconds; a task is never observed for longer than
//!   it takes to copy what is wanted.
//! - *queued or running*: its number and its worker, from the atomics of its record; nothing else of it is
//!   anybody's but its own.
//!
//! The observer waits for no task: the slab's lock is held for the copy of a list, a channel's lock is only
//! tried. So it works when the system is stuck, and on a thread of its own. It does wait for another observer
//! (`Shared::looking`), for one task at a time: a task that one holds still looks to the other as if it were about to run, and a deadlock would be
//! missed for good, because a system in which all wait is looked at only once.
//!
//! What is seen of different tasks is not from the same moment. `deadlock.rs` says how it gets along with that.

use super::{Children, EndedBy, TaskSnapshot, TaskState, Wait};
use crate::base::error::{DeadlockReport, TaskId};
use crate::sched::Shared;
use crate::sched::task::state::Phase;
use crate::sched::task::{self, TaskRef};
use crate::scope::cx::{self, Frame, Observed, Terms, alone};
use crate::scope::nursery::{Account, Core, NurseryState};
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

/// Looks at all tasks, in no particular order.
pub(crate) fn all(shared: &Shared, stacks: Stacks) -> Vec<TaskSnapshot> {
    let mut tasks = Vec::new();
    shared.slab.each(|record| tasks.extend(one(shared, record, stacks)));
    tasks
}

/// Looks at the task with this number, and at its stack.
pub(crate) fn find(shared: &Shared, id: u64) -> Option<TaskSnapshot> {
    let mut found = None;
    shared.slab.each(|record| {
        // Whose number has just changed is not the one that was asked for.
        if found.is_none() && record.id() == id {
            found = one(shared, record, Stacks::Walked).filter(|task| task.id.as_u64() == id);
        }
    });
    found
}

/// The runtime's root nursery; none once the runtime is gone. `tasks` are all of its tasks.
pub(crate) fn root(shared: &Shared, tasks: &[TaskSnapshot]) -> Option<Children> {
    let terms = shared.root.get()?.upgrade()?.downcast::<Terms>().ok()?;
    // Each root task has a node below the root's, unless that was cancelled, which unlinks them.
    let (state, live) = if terms.node.is_cancelled() {
        let roots = tasks.iter().filter(|task| task.owner.is_none()).count();
        let ended = roots == 0;
        (if ended { NurseryState::Cancelled } else { NurseryState::Cancelling }, roots)
    } else {
        (NurseryState::Open, terms.node.below())
    };
    let (name, budget) = (terms.name.clone(), terms.pool.standing());
    let account = Account::of(&terms, &terms.pool);
    Some(Children { nursery: terms.nursery, name, state, live, budget, account })
}

/// Looks at one record; none if it is nobody's.
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
    // The number is that of the task that we have seen if the record is still the same task's.
    let same = record.state.look().generation == look.generation;
    same.then(|| TaskSnapshot { worker, ..TaskSnapshot::unknown(id, state, task) })
}

/// All about a parked task.
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
    seen
}

/// The calling task looks at itself.
pub(crate) fn itself(shared: &Shared, tasks: &mut [TaskSnapshot]) {
    let Some(frame) = cx::current() else { return };
    if std::ptr::eq(Arc::as_ptr(&frame.terms().shared), shared) {
        let id = frame.info().id;
        if let Some(task) = tasks.iter_mut().find(|task| task.id == id) {
            read(task, frame, shared);
        }
    }
}

/// All that a frame says of its task. The caller is the task, or holds it still.
fn read(seen: &mut TaskSnapshot, frame: &Frame, shared: &Shared) {
    let (noted, now) = (frame.seen(), shared.coarse_now().max(shared.now()));
    let info = frame.info();
    let why = noted.why.get();
    seen.name = info.name;
    seen.spawned_at = Some(info.spawned_at);
    seen.nursery = frame.terms().nursery;
    seen.nursery_name = info.nursery;
    seen.owner = (frame.terms().owner != 0).then(|| TaskId(frame.terms().owner));
    seen.age = Some(Duration::from_nanos(now.saturating_sub(noted.started)));
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
        let core: &Core = unsafe { core.as_ref() };
        seen.children.push(Children {
            nursery: core.terms().nursery,
            name: core.terms().name.clone(),
            state: core.state(),
            live: core.live(),
            budget: core.terms().pool.standing(),
            account: Account::of(core.terms(), &core.terms().pool),
        });
        inner = core.outer();
    }
}

/// What is waited for, in words, and who could end it.
fn describe(why: Why<'static>, nursery: Option<NonNull<Core>>, shared: &Shared) -> Wait {
    match why {
        Why::Wake => Wait::new("to be woken", EndedBy::Anybody),
        Why::Sleep => Wait::new("for time to pass", EndedBy::Clock),
        Why::Children => {
            // SAFETY: as in `waiting`: of the observed task.
            let nursery = nursery.map_or(0, |core| unsafe { core.as_ref() }.terms().nursery);
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
        Why::Channel(what, channel) => {
            let on = Some((&raw const *channel).cast::<()>().addr());
            let note = channel.stats().map(|told| {
                let capacity = match told.capacity {
                    usize::MAX => "no bound".to_owned(),
                    capacity => format!("capacity {capacity}"),
                };
                format!(
                    "{} values, {capacity}, {} senders, {} receivers",
                    told.values, told.senders, told.receivers
                )
            });
            let held_by = channel.maker(shared).map_or(EndedBy::Outside, EndedBy::Family);
            Wait { on, note, ..Wait::new(what, held_by) }
        }
    }
}

/// Tells parked tasks that they wait in vain: each that still does the same wait ends it with this error. Those
/// who only wait for such children learn it from them. Tasks in a shield are told only if there are no others.
/// Returns how many were told.
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

/// Tells one task, if it still does the same wait, and is in a shield or not as `shielded` says.
fn tell(shared: &Shared, verdict: &DeadlockReport, task: &TaskSnapshot, shielded: bool) -> bool {
    // SAFETY: records live as long as the scheduler.
    let record = unsafe { task.task.task.as_ref() };
    let _alone = alone(shared);
    let Some(observed) = Observed::try_of(shared, record, task.task.generation) else {
        return false;
    };
    let same =
        |frame: &&Frame| frame.seen().waits.get() == task.waits && frame.is_in_shield() == shielded;
    let Some(frame) = observed.frame().filter(same) else { return false };
    frame.seen().verdict.set(Some(verdict.clone()));
    // While it is held still: it is this wait that ends, and none that comes after it.
    shared.cancel(task.task);
    drop(observed);
    true
}
