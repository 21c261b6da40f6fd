//! One step of a worker: picks a task, starts or resumes it, and finishes it.

use super::faults::{CountGuard, FaultPoint, FinishGuard};
use super::{AfterSwitch, DueWork, Stepped, Worker, with_current};
use crate::base::error::discard;
use crate::sched::events::EventKind;
use crate::sched::run_queue::TaskGuard;
use crate::sched::task::state::Finished;
use crate::sched::task::{Outcome, Task};
use crate::stack::StackSize;
use crate::stack::fiber::strand::Strand;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

impl Worker {
    /// One unit of work: picks a task and runs it until it ends, yields or parks.
    ///
    /// Runs at the base of a strand. May return on another worker: ask for the current one.
    fn step(&self, strand: StrandKind) -> Stepped {
        if strand == StrandKind::Odd {
            self.leave_odd_strand();
        }
        self.fault(FaultPoint::Begin);
        if self.due.has(DueWork::DEADLINES) {
            self.fire_timers(self.shared.now());
        }
        let next = match self.handoff.get() {
            None => self.pick(),
            handoff => {
                self.handoff.set(None);
                handoff
            }
        };
        // No child of the group is left here: counting may make its owner ready.
        let next = next.or_else(|| self.count_ended().and_then(|()| self.pick()));
        let Some(task) = next.or_else(|| self.pick_by_event()) else {
            return Stepped::Idle;
        };
        let guard = TaskGuard::new(&self.queue, task);
        self.fault(FaultPoint::Picked);
        if self.searching.take() && self.shared.idle.stop_searching() {
            self.fault(FaultPoint::StoppedSearching);
            self.shared.notify_any();
        }
        self.dispatch(guard);
        Stepped::Ran
    }

    /// Runs a task that was picked. May return on another worker.
    #[inline]
    fn dispatch(&self, guard: TaskGuard<'_>) {
        let task = guard.task;
        // SAFETY: picked, hence ours.
        let this = unsafe { &*task.as_ptr() };
        let stack = this.traits.get().stack;
        let mut guard = guard;
        if stack != self.shared.config.stack_size && !this.has_started() {
            match self.dispatch_elsewhere(guard, stack) {
                Some(here) => guard = here,
                None => return,
            }
        }
        this.state.claim(self.index);
        self.current.set(Some(task));
        self.stats().executed.bump();
        // SAFETY: ours, and it does not run.
        match unsafe { this.strand() } {
            Some(strand) => {
                self.count_ended();
                self.note_turn(EventKind::Resume, this);
                self.fault(FaultPoint::Resume);
                if let Some(here) = self.strand.get() {
                    guard.give();
                    self.after_switch.set(AfterSwitch::Spare(here));
                    // SAFETY: the task is ours, and so is its strand; this one is spare.
                    unsafe { self.switch(here, strand) };
                }
            }
            None => {
                if this.group.get() != self.ended.get().group {
                    self.count_ended();
                } else if self.late_joiner.is_some() {
                    self.look_after_joiner();
                }
                self.note_turn(EventKind::Start, this);
                self.fault(FaultPoint::Start);
                let spare = self.ensure_spare();
                guard.give();
                let outcome = match spare {
                    // SAFETY: claimed, and it has no strand, so it has not run.
                    Ok(()) => unsafe { Task::run(task) },
                    Err(error) => {
                        // The closure's values are dropped outside of any task: there is no strand
                        // to wait on.
                        self.current.set(None);
                        // SAFETY: as above.
                        unsafe { Task::refuse(task, error) }
                    }
                };
                // The task may have waited, and come back on another worker.
                with_current(|worker| worker.finish_called(task, outcome));
            }
        }
    }

    /// Continues the loop on a strand of another size, which starts with this task. Returns the
    /// task if this strand already has that size; `None` if the task runs on another strand, or was
    /// refused for lack of a stack.
    #[cold]
    fn dispatch_elsewhere<'w>(
        &self,
        guard: TaskGuard<'w>,
        size: StackSize,
    ) -> Option<TaskGuard<'w>> {
        let Some(here) = self.strand.get() else { return Some(guard) };
        // SAFETY: the strand that this runs on.
        if unsafe { here.as_ref() }.size() == size {
            return Some(guard);
        }
        // SAFETY: one thread; no other reference at the same time.
        match unsafe { (*self.stacks.get()).acquire(size) } {
            Ok(stack) => {
                self.fault(FaultPoint::Elsewhere);
                let to = Strand::new(stack, strand_main);
                self.handoff.set(Some(guard.give()));
                self.after_switch.set(AfterSwitch::Spare(here));
                // SAFETY: new; this one is spare.
                unsafe { self.switch(here, to) };
            }
            Err(error) => {
                let task = guard.task;
                self.stats().executed.bump();
                // SAFETY: picked, hence ours.
                if unsafe { (*task.as_ptr()).group.get() } != self.ended.get().group {
                    self.count_ended(); // before it is added to those of its own group
                }
                // SAFETY: picked, hence ours; it has not run.
                let outcome = unsafe {
                    (*task.as_ptr()).state.claim(self.index);
                    self.note_turn(EventKind::Start, task.as_ref());
                    Task::refuse(guard.give(), error)
                };
                self.finish(task, outcome);
            }
        }
        None
    }

    /// Leaves a strand that was made for one task, when that has ended.
    #[cold]
    fn leave_odd_strand(&self) {
        if let Some(here) = self.strand.get()
            && self.handoff_is_empty()
        {
            // Every task that has waited has left a spare strand of the default size.
            let to = self.spare();
            self.after_switch.set(AfterSwitch::Spare(here));
            // SAFETY: spare; so is this one, which is given back and not entered again.
            unsafe { self.switch(here, to) };
        }
    }

    fn handoff_is_empty(&self) -> bool {
        self.handoff.get().is_none()
    }

    /// As [`finish_called`](Worker::finish_called), out of line.
    #[cold]
    pub(super) fn finish(&self, task: NonNull<Task>, outcome: Outcome) {
        self.finish_called(task, outcome);
    }

    /// Finishes a task whose closure has returned to the loop: the strand belongs to the worker
    /// again.
    #[inline(always)]
    fn finish_called(&self, task: NonNull<Task>, outcome: Outcome) {
        // SAFETY: the task is OWNED by this worker, which just ran it.
        if unsafe { task.as_ref() }.is_to_be_called_again() {
            return self.park_until_called(task);
        }
        let unfinished = FinishGuard::new(self, task, outcome);
        self.fault(FaultPoint::Finish);
        // SAFETY: the task is OWNED by this worker, which just ran it.
        self.note_end_of_turn(EventKind::Finish, unsafe { task.as_ref() });
        let outcome = unfinished.give();
        // SAFETY: as above; the record is not touched after `finish` unless it is ours.
        let (group, finished) = unsafe {
            let this = &*task.as_ptr();
            if this.is_pinned() {
                self.unpinned(this);
            }
            (this.group.get(), this.state.finish(|| this.joiner.get()))
        };
        self.current.set(None);
        self.stats().ended.bump();
        // Runs last, and also if notifying the joiner fails: the group may be used until then.
        let _counts = CountGuard { worker: self, group };
        if let Err(payload) = outcome {
            let surplus = match group {
                // SAFETY: the group waits for this task, which is not counted yet.
                Some(group) => unsafe { group.as_ref().panicked(payload) },
                None => Some(payload),
            };
            // Contained: dropping it may panic.
            discard(surplus);
        }
        match finished {
            Finished::Free => {
                // SAFETY: the record is ours.
                unsafe { Task::drop_output(task) };
                self.recycle(task);
                self.fault(FaultPoint::Tell);
            }
            Finished::Held(joiner) => {
                if let Some(joiner) = joiner.flatten() {
                    // SAFETY: `finish` has taken JOIN out.
                    unsafe { self.tell(joiner, group) };
                }
                self.fault(FaultPoint::Tell);
            }
        }
    }
}

/// Whether a strand has the size that most tasks need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StrandKind {
    Usual,
    /// Made for one task: it is left when that has ended.
    Odd,
}

/// The base of every strand: the loop of the worker that is on it.
///
/// # Safety
///
/// Called as the main function of a strand, on that strand.
pub(super) unsafe extern "C" fn strand_main(_: *mut ()) {
    let mut kind = StrandKind::Usual;
    with_current(|worker| {
        if let Some(strand) = worker.strand.get() {
            // SAFETY: just entered for the first time.
            let strand = unsafe {
                strand.as_ref().entered();
                strand.as_ref()
            };
            if strand.size() != worker.shared.config.stack_size {
                kind = StrandKind::Odd;
            }
        }
    });
    let mut failed = false;
    loop {
        let turn = catch_unwind(AssertUnwindSafe(|| {
            if std::mem::take(&mut failed) {
                with_current(Worker::recover);
            }
            loop {
                let stepped = with_current(|worker| {
                    worker.settle();
                    let is_threaded = !worker.shared.config.deterministic;
                    (worker.step(kind), is_threaded)
                });
                let Some((stepped, is_threaded)) = stepped else { std::process::abort() };
                if !is_threaded || stepped == Stepped::Idle {
                    // It may be another worker by now.
                    with_current(|worker| worker.rest(stepped));
                }
            }
        }));
        // A panic in the runtime itself: the worker goes on, with its queues and the tasks that it
        // held.
        let Err(payload): Result<std::convert::Infallible, _> = turn;
        discard(payload);
        failed = true;
        with_current(|worker| worker.stats().restarts.bump());
    }
}
