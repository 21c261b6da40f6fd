//! Panics of the runtime itself: guards put back the tasks that a worker holds.
//!
//! A panic in the loop is a defect of the runtime, and the rest of the runtime should survive it:
//! the worker is restarted with its queues (`strand_main`, [`Worker::recover`]). A task that it had
//! taken out of a queue at that moment is in no queue, so each place that holds one has a guard
//! which puts it back while the panic unwinds. Guards are forgotten on the normal path, and cost
//! nothing there: they only exist as landing pads.
//!
//! | held | guard | goes back to |
//! |---|---|---|
//! | a task that was picked, until it is called or switched to | [`TaskGuard`] | the pinned queue |
//! | tasks on their way from one queue to another | [`ChainGuard`] | the pinned or the global queue |
//! | the follow-up of a switch | [`AfterSwitchGuard`] | `after_switch`, and tried again |
//! | a task whose closure has returned | [`FinishGuard`] | `unfinished`, which `recover` finishes |
//! | a task that has ended and is not counted | [`CountGuard`] | counted in either case |
//! | being counted as a searcher or a sleeper | [`IdleGuard`] | taken back from the idle protocol |
//!
//! # Why no task is lost, and none runs twice
//!
//! At any moment a task belongs to one of: a queue, a worker's `handoff`, `after_switch` or
//! `unfinished`, a guard, its own stack (it runs), a waker (PARKED). Each step moves it from one to
//! the next, and between two of them nothing can unwind: they are assignments. A guard is made in
//! the same way right after the task was taken, and forgotten right before it is given on. So a
//! panic finds each task with exactly one owner, which keeps it or puts it into a queue of this
//! worker. A task is called once because the call moves its closure out of the record: a task that
//! is put back was not called, or is suspended, or has only to be finished.
//!
//! The phase of a task in hand is QUEUED, or OWNED by this worker if it was claimed already. Both
//! may be in the pinned queue: `claim` accepts a task that the worker owns. `TaskGuard` uses no
//! other queue because an OWNED task may not be taken by others.
//!
//! Code of the runtime on a task's own stack (`leave_stack`) must not unwind into the task. A panic
//! while choosing the next task is caught there, and the loop goes on, on a spare stack. `settle`
//! runs on the next stack, whose task may be another one, and never unwinds. Neither does waking a
//! task (`Shared::follow_up`): only writing the event can fail there, and that is contained.
//!
//! A panic may lose the wake-up of a *worker*. `recover` makes up for that: if there is work, it
//! wakes another worker.
//!
//! # Tests
//!
//! [`FaultPoint`] names the places at which a test makes the worker panic. They are compiled for
//! tests only.
//!
//! [`TaskGuard`]: crate::sched::run_queue::TaskGuard
//! [`ChainGuard`]: crate::sched::run_queue::ChainGuard

use super::Worker;
use crate::base::error::discard;
use crate::sched::Shared;
use crate::sched::task::group::Group;
use crate::sched::task::{Outcome, Task};
use std::cell::Cell;
use std::mem::{ManuallyDrop, forget};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A place in the loop of a worker at which tests make it panic.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(not(test), allow(dead_code, reason = "only tests fail on purpose"))]
        pub(crate) enum FaultPoint {
            $($(#[$doc])* $name,)*
        }

        #[cfg(test)]
        impl FaultPoint {
            /// All of them.
            pub(crate) const ALL: &[FaultPoint] = &[$(FaultPoint::$name,)*];
        }
    };
}

steps! {
    /// Between two steps, with nothing in hand.
    Begin,
    /// With the strand or task that was left.
    Settle,
    /// With a task that was woken before it was parked.
    SettleWoken,
    /// When some of the deadlines that have passed were acted on.
    Timers,
    /// Before a queue is looked at.
    Pick,
    /// With tasks out of the inbox.
    Inbox,
    /// With tasks that go into the deque.
    Adopt,
    /// With a task of the global queue.
    Inject,
    /// With a stolen task.
    Steal,
    /// With a picked task.
    Picked,
    /// As above, after the worker has stopped searching.
    StoppedSearching,
    /// With a task that needs another size of stack, and that stack.
    Elsewhere,
    /// With a task that was claimed and has not started.
    Start,
    /// With a task that was claimed and is about to go on.
    Resume,
    /// When its closure has returned.
    Finish,
    /// When its end was published, before its joiner is notified.
    Tell,
    /// Before children that have ended are counted.
    Count,
    /// With a task that was woken.
    Wake,
    /// On the stack of a task that leaves it.
    Leave,
    /// As above, with the next one.
    LeavePicked,
    /// As above, when that was claimed.
    LeaveClaimed,
    /// Before the worker searches for work, or sleeps.
    Rest,
    /// As a searcher, or not.
    Look,
    /// As a sleeper.
    Asleep,
    /// When it has slept.
    Awake,
}

/// For each step: the number of panics requested, and of those that have happened.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct LoopFaults {
    wanted: [std::sync::atomic::AtomicUsize; FaultPoint::ALL.len()],
    had: [std::sync::atomic::AtomicUsize; FaultPoint::ALL.len()],
}

#[cfg(test)]
#[cfg_attr(loom, allow(dead_code, reason = "models do not drive workers"))]
impl LoopFaults {
    /// Makes the next `times` arrivals of workers at this step panic.
    pub(crate) fn arm(&self, step: FaultPoint, times: usize) {
        self.wanted[step as usize].store(times, std::sync::atomic::Ordering::Relaxed);
    }

    /// Number of panics at this step so far.
    pub(crate) fn had(&self, step: FaultPoint) -> usize {
        self.had[step as usize].load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether any worker is to panic at any step.
    fn is_any_armed(&self) -> bool {
        // Relaxed: counters of a test.
        self.wanted.iter().any(|wanted| wanted.load(std::sync::atomic::Ordering::Relaxed) > 0)
    }

    fn at(&self, step: FaultPoint) {
        use std::sync::atomic::Ordering::Relaxed;
        let wanted = &self.wanted[step as usize];
        // Relaxed: counters of a test, which reads them after its tasks have ended.
        if wanted.fetch_update(Relaxed, Relaxed, |times| times.checked_sub(1)).is_ok() {
            self.had[step as usize].fetch_add(1, Relaxed); // as above
            // Panics without a message.
            std::panic::resume_unwind(Box::new(step));
        }
    }
}

impl Worker {
    /// Panics if a test has requested it.
    #[inline(always)]
    pub(super) fn fault(&self, step: FaultPoint) {
        #[cfg(test)]
        self.shared.faults.at(step);
        let _ = step;
    }
}

impl Worker {
    /// Whether a test wants a worker to panic: short cuts without fault points are not taken then.
    #[inline(always)]
    pub(super) fn is_to_fail(&self) -> bool {
        #[cfg(test)]
        return self.shared.faults.is_any_armed();
        #[cfg(not(test))]
        false
    }
}

/// As `Worker::fault`, for code that tasks and other threads run too: they do not panic.
#[inline(always)]
pub(crate) fn fault_in_loop(shared: &Shared, step: FaultPoint) {
    #[cfg(test)]
    if super::with_current_of(shared, |here| {
        here.is_some_and(|worker| worker.current.get().is_none())
    }) {
        shared.faults.at(step);
    }
    let _ = (shared, step);
}

/// Runs code that nothing depends on, and contains its panic. Cold: used on rare paths.
#[cold]
pub(crate) fn contain(act: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(act)) {
        discard(payload);
    }
}

/// The follow-up of the last switch.
pub(super) struct AfterSwitchGuard<'w> {
    worker: &'w Worker,
    after_switch: super::AfterSwitch,
}

impl<'w> AfterSwitchGuard<'w> {
    #[inline(always)]
    pub(super) fn new(worker: &'w Worker) -> AfterSwitchGuard<'w> {
        AfterSwitchGuard {
            worker,
            after_switch: worker.after_switch.replace(super::AfterSwitch::Nothing),
        }
    }

    #[inline(always)]
    pub(super) fn settled(self) -> super::AfterSwitch {
        let after_switch = self.after_switch;
        forget(self);
        after_switch
    }
}

impl Drop for AfterSwitchGuard<'_> {
    #[cold]
    fn drop(&mut self) {
        self.worker.after_switch.set(self.after_switch);
    }
}

/// A task whose closure has returned.
pub(super) struct FinishGuard<'w> {
    worker: &'w Worker,
    task: NonNull<Task>,
    outcome: ManuallyDrop<Outcome>,
}

impl<'w> FinishGuard<'w> {
    #[inline(always)]
    pub(super) fn new(
        worker: &'w Worker,
        task: NonNull<Task>,
        outcome: Outcome,
    ) -> FinishGuard<'w> {
        FinishGuard { worker, task, outcome: ManuallyDrop::new(outcome) }
    }

    #[inline(always)]
    pub(super) fn give(mut self) -> Outcome {
        // SAFETY: forgotten at once: taken once.
        let outcome = unsafe { ManuallyDrop::take(&mut self.outcome) };
        forget(self);
        outcome
    }
}

impl Drop for FinishGuard<'_> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: taken once: dropping.
        let outcome = unsafe { ManuallyDrop::take(&mut self.outcome) };
        self.worker.unfinished.set(Some((self.task, outcome)));
    }
}

/// A child that has ended: dropping this counts it, also while a panic unwinds.
pub(super) struct CountGuard<'w> {
    pub(super) worker: &'w Worker,
    pub(super) group: Option<NonNull<Group>>,
}

impl Drop for CountGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let Some(group) = self.group else { return };
        let ended = self.worker.ended.get();
        debug_assert!(ended.group.is_none_or(|other| other == group), "children not counted");
        self.worker
            .ended
            .set(super::EndedChildren { group: Some(group), children: ended.children + 1 });
        self.worker.due.set(super::DueWork::ENDED);
    }
}

/// The standing of an idle worker in the idle protocol.
pub(super) struct IdleGuard<'w> {
    worker: &'w Worker,
    pub(super) searching: Cell<bool>,
    pub(super) asleep: Cell<bool>,
}

impl<'w> IdleGuard<'w> {
    pub(super) fn new(worker: &'w Worker, searching: bool) -> IdleGuard<'w> {
        IdleGuard { worker, searching: Cell::new(searching), asleep: Cell::new(false) }
    }

    /// Disarms the guard: the worker has found work, leaves, or stays as it is, and the caller
    /// updates its standing.
    pub(super) fn done(self) {
        forget(self);
    }
}

impl Drop for IdleGuard<'_> {
    #[cold]
    fn drop(&mut self) {
        let idle = &self.worker.shared.idle;
        if self.asleep.get() {
            // Chosen meanwhile or not, it counts as a searcher now.
            idle.stay_awake(self.worker.index);
            self.searching.set(true);
        }
        if self.searching.get() {
            // If it was the last one, `recover` wakes another if there is work.
            idle.stop_searching();
        }
    }
}

impl Worker {
    /// Called first after a panic in the loop. Guards have put back the tasks that the worker held.
    #[cold]
    pub(super) fn recover(&self) {
        self.current.set(None);
        if self.asleep.take() {
            // Under the deterministic executor: it was about to return to the thread's stack as a
            // sleeper.
            self.shared.idle.stay_awake(self.index);
            self.searching.set(true);
        }
        if let Some((task, outcome)) = self.unfinished.take() {
            self.finish(task, outcome);
        }
        self.count_ended();
        if !self.shared.config.deterministic {
            self.shared.monitor.back_to_work(&self.remote().thread.resting);
        }
        if self.shared.queues.has_work() {
            self.shared.notify_any();
        }
    }

    /// Aborts: a follow-up keeps failing, and going on would lose a task.
    #[cold]
    pub(super) fn give_up(what: &str) -> ! {
        let text = format!("parcae: {what}; this is a defect of the runtime, which cannot go on\n");
        // A message that cannot be written is lost: there is nothing else to do.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        std::process::abort()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
