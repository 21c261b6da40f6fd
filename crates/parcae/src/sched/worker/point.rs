//! Points: the places where the lab may let another task go on.
//!
//! A point is *before* an operation, so that the lab knows the operation that each task is about
//! to do. The functions that wait, wake, lock, unlock, send, receive, spawn and cancel call
//! [`point`]; without a lab in the process that is one load and one branch. Operations on channels,
//! spawns and joins do without these. The former call it on the slow path of their checkpoint,
//! which every checkpoint takes in the lab (`Frame::stay_on_the_slow_path`); the others where their
//! nursery was opened in the lab (`ChildCost::Watched`).
//!
//! A point is never inside of a short lock (`base::lock`): the task that goes on might need it.
//! While the thread unwinds, a point does nothing: the stack must not be left then. Outside of
//! tasks, it does nothing either.

use super::{Worker, with_current, yield_now};
use crate::sched::events::EventKind;
use crate::sched::lab::{
    self, CheckpointFault, Lab, LabState, OpKind, ReadyPlace, Turn, WaitFault,
};
use crate::sched::lab::{is_any_alive, task_object};
use crate::sched::task::{Task, TaskRef};
use crate::sched::worker::events::frame_of;
use crate::stack::StackError;
use std::panic::{Location, resume_unwind};
use std::ptr::NonNull;

/// The payload that unwinds a task which the lab stops.
pub(crate) struct StoppedByLab;

/// The running task is about to do an operation on an object, which is named by its address.
#[inline(always)]
#[track_caller]
pub(crate) fn point(kind: OpKind, object: usize) {
    if is_any_alive() {
        at_point(kind, object, Some(Location::caller()));
    }
}

/// [`point`] of a caller that is at this place.
pub(crate) fn point_from(kind: OpKind, object: usize, site: &'static Location<'static>) {
    if is_any_alive() {
        at_point(kind, object, Some(site));
    }
}

/// [`point`] for an object.
#[inline(always)]
#[track_caller]
pub(crate) fn point_at<T: ?Sized>(kind: OpKind, object: &T) {
    if is_any_alive() {
        at_point(kind, (&raw const *object).cast::<()>().addr(), Some(Location::caller()));
    }
}

/// [`point_at`] in a destructor, which has no place of its own in the program.
#[inline(always)]
pub(crate) fn drop_point<T: ?Sized>(kind: OpKind, object: &T) {
    if is_any_alive() {
        at_point(kind, (&raw const *object).cast::<()>().addr(), None);
    }
}

/// [`point`] for a task that is joined or cancelled.
#[inline(always)]
#[track_caller]
pub(crate) fn point_at_task(kind: OpKind, id: u64) {
    if is_any_alive() {
        at_point(kind, task_object(id), Some(Location::caller()));
    }
}

/// An object begins or ends at this place: for the lab it is not the one that was there before.
/// Objects that can be moved say when they end, others when they begin.
#[inline(always)]
pub(crate) fn forget_address<T: ?Sized>(object: &T) {
    if is_any_alive() {
        lab::forget_address((&raw const *object).cast::<()>().addr());
    }
}

#[cold]
#[inline(never)]
fn at_point(kind: OpKind, object: usize, site: Option<&'static Location<'static>>) {
    if std::thread::panicking() {
        return;
    }
    if let Some(turn) = with_current(|worker| worker.at_point(kind, object, site)) {
        switch_at_point(turn);
    }
}

/// Does what the lab has said at a point.
#[inline]
pub(super) fn switch_at_point(turn: Turn) {
    match turn {
        Turn::GoOn => {}
        Turn::Switch => {
            yield_now();
            with_current(Worker::resumed_at_point);
        }
        Turn::Stop => resume_unwind(Box::new(StoppedByLab)),
    }
}

/// Whether the lab refuses a spawn of the running task.
#[cold]
#[inline(never)]
pub(crate) fn lab_refuses_spawn() -> bool {
    let refuses =
        with_current(|worker| worker.shared.lab.as_ref().map(|lab| lab.lock().refuses_spawn()));
    refuses.flatten() == Some(true)
}

/// A checkpoint of the running task; false if no lab chooses its tasks one by one.
#[cold]
#[inline(never)]
pub(crate) fn checkpoint_in_lab() -> bool {
    let bare = with_current(|worker| worker.shared.lab.as_ref().map(|lab| lab.is_bare()));
    let bare = bare.flatten() == Some(true);
    if bare {
        at_point(OpKind::Checkpoint, 0, None);
    }
    bare
}

/// Whether the lab closes the channel that the running task is about to use.
#[cold]
#[inline(never)]
pub(crate) fn lab_closes_channel() -> bool {
    let closes =
        with_current(|worker| worker.shared.lab.as_ref().map(|lab| lab.lock().closes_channel()));
    closes.flatten() == Some(true)
}

/// The fault that happens to the running task at a checkpoint, if any. In a hunt with workers, the
/// checkpoint is a point; without them its turn has ended with one.
#[cold]
#[inline(never)]
pub(crate) fn lab_fault_at_checkpoint() -> Option<CheckpointFault> {
    let has_workers = with_current(|worker| {
        let lab = worker.shared.lab.as_ref().filter(|lab| !lab.is_bare());
        lab.is_some_and(|lab| !lab.lock().ticks())
    });
    if has_workers == Some(true) {
        at_point(OpKind::Checkpoint, 0, None);
    }
    with_current(|worker| worker.shared.lab.as_ref()?.lock().checks()).flatten()
}

/// A number below `below` from the strategy of the lab; `None` outside of the lab.
#[cold]
#[inline(never)]
pub(crate) fn lab_number(below: usize) -> Option<usize> {
    with_current(|worker| Some(worker.shared.lab.as_ref()?.lock().number(below))).flatten()
}

impl Worker {
    fn at_point(
        &self,
        kind: OpKind,
        object: usize,
        site: Option<&'static Location<'static>>,
    ) -> Turn {
        let (Some(lab), Some(task)) = (&self.shared.lab, self.current.get()) else {
            return Turn::GoOn;
        };
        // SAFETY: the running task.
        let task = unsafe { task.as_ref() };
        let mut state = lab.lock();
        if lab.is_bare() {
            self.tell_ready(&mut state);
        }
        self.tell_events(&mut state);
        if state.wants_label(task.id())
            && let Some(frame) = frame_of(task)
        {
            // SAFETY: the running task's own frame.
            let (name, at) = unsafe { self.shared.host.frames().origin(frame) };
            state.label(task.id(), name, at);
        }
        let turn = state.point(task.id(), kind, object, site);
        let recording = state.recorder().is_some();
        drop(state);
        if recording {
            lab.dump_if_due();
        }
        turn
    }

    /// Tells the lab how long the event log is, if it records the run.
    pub(crate) fn tell_events(&self, state: &mut LabState) {
        if let (Some(recorder), Some(log)) = (state.recorder(), &self.shared.log) {
            recorder.heard(log.len());
        }
    }

    /// The running task goes on after a switch at its point. In a bare schedule the lab knows that
    /// already: it has chosen the task.
    fn resumed_at_point(&self) {
        if let (Some(lab), Some(task)) = (&self.shared.lab, self.current.get())
            && !lab.is_bare()
        {
            let mut state = lab.lock();
            self.tell_events(&mut state);
            // SAFETY: the running task.
            state.resumed(unsafe { task.as_ref() }.id());
        }
    }

    /// The fault that happens to a task which is about to park, if any. A wake that comes before
    /// the park is latched, so the wait ends at once.
    pub(super) fn inject_fault(&self, task: NonNull<Task>) {
        let Some(fault) = self.shared.lab.as_ref().and_then(|lab| lab.lock().waits()) else {
            return;
        };
        // SAFETY: the task is ours until it is parked.
        let generation = unsafe { task.as_ref() }.state.generation();
        let task = TaskRef { task, generation };
        match fault {
            WaitFault::Early => self.unpark(task),
            WaitFault::Cancel => self.shared.ask_to_end(task),
        }
    }

    fn lab_refuses_stack(&self) -> bool {
        self.shared.lab.as_ref().is_some_and(|lab| lab.lock().refuses_stack())
    }

    /// A task is about to start, in a schedule with workers in which it may get no stack: hides the
    /// spare strands, so that `ensure_spare` asks the lab.
    pub(super) fn hide_spares(&self, task: &Task) {
        let starts = self.current.get() == Some(NonNull::from(task));
        let may_refuse = |lab: &Lab| !lab.is_bare() && lab.lock().may_refuse_stacks();
        if starts && self.shared.lab.as_deref().is_some_and(may_refuse) {
            self.hidden_spares.set(Some(self.spares.take()));
        }
    }

    /// The answer of the lab, where the spare strands were hidden. They are there again.
    #[cold]
    pub(super) fn ask_lab_for_spare(&self) -> Option<Result<(), StackError>> {
        let spares = self.hidden_spares.take()?;
        self.spares.set(spares);
        if self.lab_refuses_stack() {
            return Some(Err(StackError::PoolLimit { max_stacks: 0 }));
        }
        spares.map(|_| Ok(())) // or one is made
    }

    /// Moves all tasks that this worker could run to the lab's list.
    pub(crate) fn tell_ready(&self, state: &mut LabState) {
        // Mostly there is one task or none, and a look in vain at all queues takes long.
        while !self.queue.has_none_alone()
            && let Some(task) = self.queue.pick(self)
        {
            // SAFETY: picked, hence ours.
            state.is_ready(unsafe { task.as_ref() }.id(), ReadyPlace(task.cast()));
        }
    }

    /// Runs this task, which was picked, from the thread's own stack, until it leaves.
    pub(crate) fn run_chosen(&self, ReadyPlace(task): ReadyPlace) {
        let task = task.cast::<Task>();
        // SAFETY: picked, hence ours, and it does not run.
        let (this, strand) = unsafe { (task.as_ref(), task.as_ref().strand()) };
        match strand {
            // A task that has started needs no strand of the worker to lead to it.
            Some(strand) if !self.due.is_any() && !self.asleep.get() => {
                this.state.claim(self.index);
                self.current.set(Some(task));
                self.stats().executed.bump();
                self.note_turn(EventKind::Resume, this);
                self.go_to(strand);
            }
            None if self.lab_refuses_stack() => {
                let error = StackError::PoolLimit { max_stacks: 0 };
                this.state.claim(self.index);
                self.stats().executed.bump();
                self.note_turn(EventKind::Start, this);
                // SAFETY: claimed, and it has not run. Nothing that waits runs on this stack.
                let outcome = unsafe { Task::refuse(task, error) };
                self.finish(task, outcome);
                self.count_ended();
            }
            _ => {
                self.handoff.set(Some(task));
                // A spare strand may first have to return from the step in which it became spare.
                while self.handoff.get().is_some() {
                    self.go();
                }
            }
        }
    }
}
