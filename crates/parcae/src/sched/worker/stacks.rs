//! Leaving and entering stacks, and the follow-up of a switch.

use super::events::{RecordedYield, YieldNote, YieldedTo};
use super::faults::{AfterSwitchGuard, FaultPoint, contain};
use super::run::strand_main;
use super::{AfterSwitch, DueWork, SPARES, Stepped, WARM, Worker, current, with_current};
use crate::base::error::discard;
use crate::sched::events::EventKind;
use crate::sched::lab::is_any_alive;
use crate::sched::run_queue::{PickHooks, TaskGuard};
use crate::sched::task::state::{Mobility, Parking};
use crate::sched::task::{Lane, Task};
use crate::stack::StackError;
use crate::stack::fiber::strand::Strand;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// The stack on which a worker continues when a task leaves its own.
enum Next {
    /// With the same task, on the same stack.
    Same,
    Strand(NonNull<Strand>),
    /// On the thread's own stack: the executor chooses.
    ThreadStack,
}

impl Worker {
    /// Switches from `here` to `to`. When this strand is resumed, completes the follow-up of the
    /// switch that resumed it.
    ///
    /// # Safety
    ///
    /// `here` is the strand that this runs on; `to` is suspended and ours to resume.
    #[inline]
    pub(super) unsafe fn switch(&self, here: NonNull<Strand>, to: NonNull<Strand>) {
        self.strand.set(Some(to));
        // SAFETY: as the caller says.
        unsafe { here.as_ref().switch_to(to.as_ref()) };
        // It may be another thread by now.
        // SAFETY: as in `with_current`; a strand is only ever on the thread of a worker.
        unsafe { &*current() }.settle();
    }

    /// Leaves the stack of the running task, the strand `here`, because it yields or parks. The
    /// caller has set the follow-up, if there is one: while a task runs there is none. Returns when
    /// the task is resumed.
    #[inline(always)]
    pub(super) fn leave(&self, task: NonNull<Task>, here: NonNull<Strand>, why: EventKind) {
        let span = self.span_of(task);
        span.inspect(|span| span.exit());
        self.leave_stack(task, here, why);
        span.inspect(|span| span.enter());
    }

    #[inline(always)]
    fn leave_stack(&self, task: NonNull<Task>, here: NonNull<Strand>, why: EventKind) {
        // SAFETY: the task runs here, so it is ours until `settle`.
        let this = unsafe { task.as_ref() };
        // SAFETY: as above; it has started.
        unsafe { this.suspend(here) };
        if !this.is_pinned() && !this.traits.get().is_migratable() {
            self.pin(this);
        }
        let to = match self.choose_quickly(task, why).unwrap_or_else(|| self.choose(task, why)) {
            Next::Same => return,
            Next::Strand(to) => to,
            Next::ThreadStack => return self.leave_for_thread(here),
        };
        // SAFETY: the strand of a task that we own, or spare.
        unsafe { self.switch(here, to) };
    }

    /// A task that waits for the first time, and may not move, is counted from now on.
    #[inline(always)]
    fn pin(&self, task: &Task) {
        task.pin();
        self.pinned.set(self.pinned.get() + 1);
        if task.traits.get().lane == Lane::Realtime {
            self.bound.set(self.bound.get() + 1);
        }
    }

    /// A task that was counted is not any more.
    #[inline(always)]
    pub(super) fn unpinned(&self, task: &Task) {
        self.pinned.set(self.pinned.get() - 1);
        if task.traits.get().lane == Lane::Realtime {
            self.bound.set(self.bound.get() - 1);
        }
    }

    /// Leaves a strand for the thread's own stack: the executor chooses.
    #[cold]
    fn leave_for_thread(&self, here: NonNull<Strand>) {
        self.strand.set(None);
        // SAFETY: the executor waits on its own stack; this strand is left.
        unsafe { self.thread_stack.return_from(here.as_ref()) };
        with_current(|worker| worker.settle());
    }

    /// As [`choose`](Worker::choose), if nothing is due but a switch to a task that only this
    /// worker may run: no event to write, no deadline, no children to count. Cannot panic. Under
    /// the deterministic executor there always is an event to write.
    #[inline(always)]
    fn choose_quickly(&self, task: NonNull<Task>, why: EventKind) -> Option<Next> {
        if self.has_duties() {
            #[cfg(feature = "record")]
            if let Some(note) = self.journal_note() {
                return self.choose_private(task, why, note);
            }
            return if why == EventKind::Yield { self.choose_recorded(task) } else { None };
        }
        self.choose_private(task, why, ())
    }

    /// The same for a task that yields, where a recording runs and nothing else is due. In line: a
    /// call would take as long as recording the yield.
    #[inline(always)]
    fn choose_recorded(&self, task: NonNull<Task>) -> Option<Next> {
        if self.has_other_duties() {
            return None;
        }
        let ring = self.fast_ring()?;
        self.choose_private(
            task,
            EventKind::Yield,
            RecordedYield { worker: self, ring, from: task },
        )
    }

    /// The next task, if it is one that only this worker may run. Cannot panic, unless `note` does,
    /// which is called with that task and before it is claimed.
    #[inline(always)]
    fn choose_private(
        &self,
        task: NonNull<Task>,
        why: EventKind,
        note: impl YieldNote,
    ) -> Option<Next> {
        let next = self.queue.pick_private(why == EventKind::Yield)?;
        debug_assert!(next != task || why == EventKind::Yield, "a task that waits is in no queue");
        if why == EventKind::Yield && next == task {
            // SAFETY: the task that runs.
            note.note(unsafe { next.as_ref() }, YieldedTo::Itself);
            self.after_switch.set(AfterSwitch::Nothing);
            return Some(Next::Same);
        }
        // SAFETY: picked, hence ours.
        let this = unsafe { next.as_ref() };
        // SAFETY: as above.
        if let Some(strand) = unsafe { this.strand() } {
            note.note(this, YieldedTo::Resumed);
            this.state.claim(self.index);
            self.current.set(Some(next));
            self.stats().executed.bump();
            return Some(Next::Strand(strand));
        }
        note.note(this, YieldedTo::Unstarted);
        self.current.set(None);
        self.handoff.set(Some(next));
        Some(Next::Strand(self.spare()))
    }

    /// Whether the end of a turn has to do more than to choose the next task: events to write,
    /// deadlines, children to count.
    #[inline(always)]
    pub(super) fn has_duties(&self) -> bool {
        self.shared.tracer.is_on() || self.has_other_duties()
    }

    #[inline(always)]
    pub(super) fn has_other_duties(&self) -> bool {
        self.due.is_any() || self.is_to_fail()
    }

    /// Where the worker continues when a task leaves its stack. A panic of the runtime itself must
    /// not end the task, which is half-way off its stack.
    #[inline(never)]
    fn choose(&self, task: NonNull<Task>, why: EventKind) -> Next {
        self.current.set(None);
        let next = catch_unwind(AssertUnwindSafe(|| self.choose_next(task, why)));
        next.unwrap_or_else(|payload| self.choose_after_a_panic(payload))
    }

    /// Chooses the stack on which the worker continues when a task leaves its own.
    #[inline]
    fn choose_next(&self, task: NonNull<Task>, why: EventKind) -> Next {
        // SAFETY: as in `leave_stack`.
        let this = unsafe { task.as_ref() };
        if why == EventKind::Yield {
            self.queue.yielded(this);
        }
        self.fault(FaultPoint::Leave);
        if self.shared.config.deterministic {
            if self.due.has(DueWork::TENANTS) {
                self.count_ops(this);
            }
            self.note_end_of_turn(why, this);
            self.count_ended();
            if why == EventKind::Park && self.shared.lab.is_some() {
                self.inject_fault(task);
            }
            return Next::ThreadStack;
        }
        // Deadlines that have passed are left to the loop: their callbacks may need more stack than
        // a task has left.
        let next = if self.due.has(DueWork::DEADLINES | DueWork::TENANTS) {
            self.pick_with_duties(this)
        } else {
            self.pick()
        };
        match next {
            Some(next) if next == task => {
                // The task yielded and is the only one here: an owner of a group may still wait for
                // children that have ended.
                let guard = TaskGuard::new(&self.queue, next);
                self.count_ended();
                self.note_end_of_turn(EventKind::Alone, this);
                guard.give();
                self.after_switch.set(AfterSwitch::Nothing);
                self.current.set(Some(task));
                Next::Same
            }
            Some(next) => {
                let guard = TaskGuard::new(&self.queue, next);
                self.fault(FaultPoint::LeavePicked);
                self.note_end_of_turn(why, this);
                // SAFETY: picked, hence ours.
                let strand = unsafe { (*next.as_ptr()).strand() };
                match strand {
                    Some(strand) => {
                        self.count_ended();
                        // SAFETY: as above.
                        unsafe { (*next.as_ptr()).state.claim(self.index) };
                        self.current.set(Some(next));
                        self.stats().executed.bump();
                        // SAFETY: as above.
                        self.note_turn(EventKind::Resume, unsafe { next.as_ref() });
                        self.fault(FaultPoint::LeaveClaimed);
                        guard.give();
                        Next::Strand(strand)
                    }
                    None => {
                        self.handoff.set(Some(guard.give()));
                        Next::Strand(self.spare())
                    }
                }
            }
            None if matches!(self.after_switch.get(), AfterSwitch::Park(_))
                && self.linger(this) =>
            {
                if self.due.has(DueWork::TENANTS) {
                    self.queue.goes_on_unpicked(task, self);
                }
                self.after_switch.set(AfterSwitch::Nothing);
                self.current.set(Some(task));
                Next::Same
            }
            None => {
                self.note_end_of_turn(why, this);
                Next::Strand(self.spare())
            }
        }
    }

    /// Counts the ops of a task that leaves its stack, and picks the next one unless deadlines have
    /// passed.
    #[cold]
    fn pick_with_duties(&self, left: &Task) -> Option<NonNull<Task>> {
        if self.due.has(DueWork::TENANTS) {
            self.count_ops(left);
        }
        if self.due.has(DueWork::DEADLINES) { None } else { self.pick() }
    }

    /// Counts the ops of a task that leaves its stack.
    fn count_ops(&self, task: &Task) {
        self.queue.run_ends(PickHooks::ops_left(self, task), self);
    }

    /// The next stack after a panic in `choose_next`: the loop, which picks again. Guards have put
    /// back the tasks that the worker held.
    #[cold]
    fn choose_after_a_panic(&self, payload: Box<dyn std::any::Any + Send>) -> Next {
        discard(payload);
        self.current.set(None);
        self.stats().restarts.bump();
        if self.shared.config.deterministic {
            Next::ThreadStack
        } else {
            Next::Strand(self.spare())
        }
    }

    /// Does the follow-up of the last switch. Does not unwind: this may be the stack of a task.
    #[inline]
    pub(crate) fn settle(&self) {
        match self.after_switch.get() {
            AfterSwitch::Park(task) if !self.is_to_fail() => {
                self.after_switch.set(AfterSwitch::Nothing);
                // SAFETY: the task has left its stack.
                unsafe { self.settle_park(task) };
            }
            AfterSwitch::Nothing => {}
            _ => self.settle_slow(),
        }
    }

    /// Publishes a task that has left its stack as parked, or queues it if a wake came first.
    ///
    /// # Safety
    ///
    /// As for [`park_left`](Worker::park_left).
    #[inline(always)]
    unsafe fn settle_park(&self, task: NonNull<Task>) {
        // SAFETY: as the caller says.
        if unsafe { task.as_ref() }.state.park_again() {
            self.stats().parked.bump();
        } else {
            // SAFETY: as the caller says; nothing has happened yet.
            unsafe { self.settle_first_park(task) };
        }
    }

    /// As `settle_park`, for a task that parks for the first time, may move, or was woken.
    ///
    /// # Safety
    ///
    /// As for [`park_left`](Worker::park_left).
    #[cold]
    unsafe fn settle_first_park(&self, task: NonNull<Task>) {
        // SAFETY: as the caller says.
        if unsafe { self.park_left(task) } == Parking::Woken {
            self.settle_woken(task);
        }
    }

    /// Parks a task that has returned to the loop to be called again when it is woken; or queues it
    /// behind the others, if a wake came first. It has no stack, so nothing has to be left first.
    #[cold]
    #[inline(never)]
    pub(super) fn park_until_called(&self, task: NonNull<Task>) {
        self.current.set(None);
        // SAFETY: the task is OWNED by this worker until it is parked.
        let this = unsafe { task.as_ref() };
        this.clear_again();
        let migratable = this.traits.get().is_migratable();
        // It was pinned if it has waited on the stack of the call.
        if migratable && this.is_pinned() {
            this.unpin();
            self.unpinned(this);
        } else if !migratable && !this.is_pinned() {
            self.pin(this);
        }
        if self.shared.config.deterministic && self.shared.lab.is_some() {
            self.inject_fault(task);
        }
        // SAFETY: there is no stack to leave. Not `park_again`, after which it could not move.
        unsafe { self.settle_first_park(task) };
    }

    /// Publishes a task that has left its stack as parked. Nothing here can panic.
    ///
    /// # Safety
    ///
    /// The task is OWNED by this worker, and has left its stack. It is not touched after `Parked`.
    #[inline]
    unsafe fn park_left(&self, task: NonNull<Task>) -> Parking {
        // SAFETY: as the caller says.
        let this = unsafe { &*task.as_ptr() };
        let mobility = if this.is_pinned() { Mobility::Pinned } else { Mobility::Movable };
        let parking = this.state.park(mobility);
        if parking == Parking::Parked {
            self.stats().parked.bump();
        }
        parking
    }

    #[cold]
    fn settle_slow(&self) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.settle_once())) {
            self.settle_again(payload);
        }
    }

    /// Queues a task that was woken before it was parked. A panic leaves it in a queue.
    #[cold]
    fn settle_woken(&self, task: NonNull<Task>) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| self.queue_woken(task))) {
            discard(payload);
            self.stats().restarts.bump();
        }
    }

    /// Queues a task that was woken before it was parked, behind the tasks that were ready.
    fn queue_woken(&self, task: NonNull<Task>) {
        let guard = TaskGuard::new(&self.queue, task);
        self.fault(FaultPoint::SettleWoken);
        // SAFETY: still ours.
        let this = unsafe { task.as_ref() };
        self.note_latched(this);
        let traits = this.traits.get();
        if traits.is_migratable() {
            self.requeue(guard.give());
        } else {
            // SAFETY: in no other queue.
            unsafe { self.queue.push_woken_behind(guard.give()) };
        }
    }

    #[cold]
    fn settle_again(&self, payload: Box<dyn std::any::Any + Send>) {
        let mut payload = Some(payload);
        for _ in 0..3 {
            discard(payload.take());
            self.stats().restarts.bump();
            match catch_unwind(AssertUnwindSafe(|| self.settle_once())) {
                Ok(()) => return,
                Err(again) => payload = Some(again),
            }
        }
        Worker::give_up("a task that has left its stack cannot be queued");
    }

    #[inline]
    fn settle_once(&self) {
        let unsettled = AfterSwitchGuard::new(self);
        self.fault(FaultPoint::Settle);
        match unsettled.settled() {
            AfterSwitch::Nothing => {}
            AfterSwitch::Spare(strand) => self.keep_spare(strand),
            AfterSwitch::Park(task) => {
                // SAFETY: the task has left its stack.
                if unsafe { self.park_left(task) } == Parking::Woken {
                    self.queue_woken(task);
                }
            }
            AfterSwitch::Requeue(task) => self.requeue(task),
        }
    }

    /// Queues a task that has left its stack where any worker may resume it.
    fn requeue(&self, task: NonNull<Task>) {
        // SAFETY: the task is OWNED by this worker until `release`.
        let lane = unsafe {
            let this = &*task.as_ptr();
            let lane = this.traits.get().lane;
            this.state.release();
            lane
        };
        self.shared.submit(lane, task);
    }

    /// Ensures that the loop has a spare strand to continue on if the next task keeps this one.
    /// Called before each task starts, so a task that waits always finds a spare.
    #[inline]
    pub(crate) fn ensure_spare(&self) -> Result<(), StackError> {
        if self.spares.get().is_some() {
            return Ok(());
        }
        if is_any_alive()
            && let Some(answer) = self.ask_lab_for_spare()
        {
            return answer;
        }
        // SAFETY: one thread; no other reference at the same time.
        let stack = unsafe { (*self.stacks.get()).acquire(self.shared.config.stack_size)? };
        self.keep_spare(Strand::new(stack, strand_main));
        Ok(())
    }

    /// Makes the spare strands that the first tasks need. A new stack takes microseconds (its
    /// guard, its first page); a task that waited for one would look as if its spawner computed,
    /// and a thief would take it away from its partners (`run_queue`). Not where the number of
    /// stacks is bounded: another worker's task may need them.
    pub(crate) fn warm_up(&self) {
        // SAFETY: one thread; no other reference at the same time.
        let is_bounded = unsafe { (*self.stacks.get()).is_bounded() };
        while !is_bounded && self.spare_count.get() < WARM {
            // SAFETY: as above.
            let stack = unsafe { (*self.stacks.get()).acquire(self.shared.config.stack_size) };
            let Ok(stack) = stack else { return }; // the first task that needs it is told
            self.keep_spare(Strand::new(stack, strand_main));
        }
    }

    /// Takes a spare strand, which runs the loop.
    pub(super) fn spare(&self) -> NonNull<Strand> {
        let Some(strand) = self.spares.get() else {
            // `ensure_spare` came before every start of a task.
            Worker::give_up("a worker without a spare strand");
        };
        // SAFETY: spares belong to the worker.
        self.spares.set(unsafe { strand.as_ref().next.take() });
        self.spare_count.set(self.spare_count.get() - 1);
        strand
    }

    pub(super) fn keep_spare(&self, strand: NonNull<Strand>) {
        // SAFETY: just left, or new: the worker's.
        let usual = unsafe { strand.as_ref() }.size() == self.shared.config.stack_size;
        if usual && self.spare_count.get() < SPARES {
            // SAFETY: just left, without a task: the worker's.
            unsafe { strand.as_ref().next.set(self.spares.replace(Some(strand))) };
            self.spare_count.set(self.spare_count.get() + 1);
        } else {
            // SAFETY: the loop on it owns nothing where it is suspended; not used again.
            unsafe { (*self.stacks.get()).release(Strand::into_stack(strand)) };
        }
    }
}

impl Worker {
    /// Between two steps: returns to the executor, or sleeps. Never inlined: the loop is at the
    /// base of every stack, and this would make its frame larger.
    #[inline(never)]
    pub(super) fn rest(&self, stepped: Stepped) {
        self.fault(FaultPoint::Rest);
        self.count_ended();
        if self.shared.config.deterministic {
            // A strand that became spare in the middle of an earlier step ends that step here. In
            // the lab that is no step of its own: spare strands outlive a schedule.
            if stepped == Stepped::Ran && !self.acted.get() && self.shared.lab.is_some() {
                return;
            }
            if stepped == Stepped::Idle && self.fall_asleep() {
                self.asleep.set(true);
                self.note_rest(EventKind::Sleep);
            }
            self.go_to_thread_stack();
        } else if !self.wait_for_work() {
            self.go_to_thread_stack();
        }
    }

    /// Back to the thread's own stack; this strand becomes a spare.
    fn go_to_thread_stack(&self) {
        if let Some(here) = self.strand.take() {
            self.after_switch.set(AfterSwitch::Spare(here));
            // SAFETY: the thread waits on its own stack; this strand has no task.
            unsafe { self.thread_stack.return_from(here.as_ref()) };
        }
    }

    /// Runs from the thread's own stack until a strand comes back to it.
    pub(crate) fn go(&self) {
        if self.asleep.take() {
            self.searching.set(true); // counted by the thread that took our bit
            // Contained: no loop below this would continue after a panic.
            contain(|| self.note_rest(EventKind::Awake));
        }
        self.go_to(self.spare());
    }

    /// Runs on this strand, which is spare or that of the current task, from the thread's own stack
    /// until a strand comes back to it.
    pub(super) fn go_to(&self, strand: NonNull<Strand>) {
        self.acted.set(false);
        self.enter(strand);
    }

    /// As [`go_to`](Worker::go_to), in a step that has begun: it ends when the task leaves or ends.
    pub(super) fn enter(&self, strand: NonNull<Strand>) {
        self.strand.set(Some(strand));
        // SAFETY: suspended, and ours; this runs on the thread's own stack.
        unsafe { self.thread_stack.switch_to(strand.as_ref()) };
        self.settle();
    }
}
