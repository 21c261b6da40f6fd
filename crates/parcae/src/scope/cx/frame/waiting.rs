//! Cancelling and waiting, and the state of a waiting task that observers read.

use super::watch::{Cancellable, OuterGrace};
use super::{Frame, never, window};
use crate::base::error::{DeadlockReport, Error, ErrorKind, IslandRefused, Rank, Result};
use crate::base::reason::CancelReason;
use crate::base::shim::atomic::AtomicU64;
use crate::sched::events::{EventKind, TaskTimes, WaitReason, cancel_code};
use crate::sched::timers::{Due, Nanos};
use crate::sched::worker;
use crate::scope::budget::Resource;
use crate::scope::cancel::{CancelNode, OwnNode};
use crate::scope::nursery::NurseryCore;
use crate::wait::{NodeState, Waiter, Why, WhyLink};
use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Duration;

/// State of a parked task that observers read (`task::state`).
/// Everything is written by the task itself.
pub(crate) struct Seen {
    /// The reason of the present wait.
    why: Cell<Option<WhyLink<'static>>>,
    /// Whether the wait has a deadline.
    pub(crate) timed: Cell<bool>,
    /// Number of waits so far: distinguishes one wait from the next.
    pub(crate) waits: Cell<u32>,
    /// The number of open scopes whose waits end from outside of the runtime.
    pub(crate) external: Cell<u32>,
    /// Start of the wait, and of the task; by the coarse clock.
    pub(crate) since: Cell<Nanos>,
    pub(crate) started: Cell<Nanos>,
    /// The innermost nursery that it has opened.
    pub(crate) nursery: Cell<Option<NonNull<NurseryCore>>>,
    /// Set by an observer that found a deadlock: the report with which the wait fails.
    pub(crate) verdict: Cell<Option<DeadlockReport>>,
    /// Times that are not added to the nursery's yet. Written by the worker, and by the task.
    pub(crate) times: TaskTimes,
    /// Facts about the task: see [`marks`].
    marks: Cell<u8>,
}

/// Facts about a task that decide whether its error is a cause or a consequence
/// (`nursery::failures`). All but `NOTED` concern the innermost nursery that the task has open, or
/// its own: see `enter_nursery`.
pub(super) mod marks {
    /// Set when the first cancellation was noted for traces. Never cleared.
    pub(super) const NOTED: u8 = 1;
    /// Set when a cancel point returned that the task is cancelled. An error that it returns after
    /// that is a consequence.
    pub(super) const TOLD: u8 = 2;
    /// Set when the task has seen that another one is gone: a channel whose other end was dropped
    /// or closed, a closed semaphore. An error that it returns after that may follow from it.
    pub(super) const PEER_GONE: u8 = 4;
    /// Set when the task was told of a deadlock. The error that it returns is about that.
    pub(super) const SENTENCED: u8 = 8;
    /// Set with `TOLD` by the first cancel point that told the task, cleared by the next one: says
    /// whether the last cancel point was the first.
    pub(super) const FIRST_TOLD: u8 = 16;
}

impl Seen {
    /// The reason of the present wait. Asked by the task, or by an observer while it is parked.
    pub(crate) fn why(&self) -> Option<Why<'static>> {
        self.why.get().map(WhyLink::why) // its objects are there until the waiting call returns
    }

    #[inline(always)]
    pub(super) fn new(now: Nanos) -> Seen {
        Seen {
            why: Cell::new(None),
            timed: Cell::new(false),
            waits: Cell::new(0),
            external: Cell::new(0),
            since: Cell::new(now),
            started: Cell::new(now),
            nursery: Cell::new(None),
            verdict: Cell::new(None),
            times: TaskTimes::default(),
            marks: Cell::new(0),
        }
    }
}

impl Frame {
    /// The reason of the task's cancellation, if it is cancelled and no shield holds that off.
    pub(crate) fn cancel_reason(&self) -> Option<CancelReason> {
        let own = || self.was_asked_to_end().then(|| self.own_reason());
        let reason = self.watch.reason(self, || self.now());
        match self.own_node() {
            // A root task is below the runtime, at whose node it waits.
            Some(_) if self.node_is_own() => reason.map(CancelReason::below),
            _ => reason,
        }
        .or_else(own)
    }

    /// Why this task alone was cancelled.
    #[cold]
    fn own_reason(&self) -> CancelReason {
        match self.own_node().and_then(OwnNode::reason) {
            None => CancelReason::Explicit,
            Some(reason) if self.node_is_own() => reason,
            // Its nursery is below the task, and the pass has not come there yet.
            Some(reason) => reason.below(),
        }
    }

    /// Whether a shield holds off a cancellation of the innermost nursery that the task has open,
    /// or of the one that it belongs to: a shield inside of that nursery.
    pub(crate) fn is_shielded(&self) -> bool {
        self.watch.holds(self.entered(), || self.now())
    }

    fn now(&self) -> Nanos {
        self.settings().shared.now()
    }

    /// Whether a deadline will cancel the task.
    pub(crate) fn expires(&self) -> bool {
        !self.is_shielded() && self.node().expires()
    }

    /// Whether this task alone was cancelled, and not its nursery, and no shield holds that off.
    pub(crate) fn was_asked_to_end(&self) -> bool {
        self.record().state.is_cancelled() && !self.is_in_shield()
    }

    /// Whether a shield holds off a cancellation of this task alone: any open shield does.
    pub(crate) fn is_in_shield(&self) -> bool {
        self.watch.holds(0, || self.now())
    }

    #[inline]
    pub(crate) fn check_cancelled(&self) -> Result<()> {
        // A node is marked after its reason is set, so without the mark there is no reason to find.
        // In a shield, which may have a grace period, the slow path decides.
        if self.is_asked_to_end() {
            return self.check_closely();
        }
        Ok(())
    }

    /// Whether the task or its nursery is cancelled; a shield may hold that off.
    #[inline]
    pub(super) fn is_asked_to_end(&self) -> bool {
        self.node().is_cancelled() || self.record().state.is_cancelled()
    }

    /// Slow path of a cancel point: the task or its nursery is cancelled. Decides whether a shield
    /// holds that off, and returns the error otherwise.
    #[cold]
    fn check_closely(&self) -> Result<()> {
        if self.is_away() {
            return Err(self.refuse_away());
        }
        if self.is_sealed() {
            return self.unsealed(|| self.check_closely());
        }
        if let Some(deadlock) = self.seen.verdict.take() {
            self.mark(marks::SENTENCED); // also in a shield: nothing else can end this wait
            self.note_cancel(CancelReason::Explicit);
            return Err(Error::new(ErrorKind::Deadlock(deadlock)));
        }
        let Some(reason) = self.cancel_reason() else { return Ok(()) };
        self.note_cancel(reason);
        let first = if self.was_told() { 0 } else { marks::FIRST_TOLD };
        self.seen.marks.set(self.seen.marks.get() & !marks::FIRST_TOLD | marks::TOLD | first);
        Err(Error::cancelled(reason))
    }

    fn note_cancel(&self, reason: CancelReason) {
        if !self.has(marks::NOTED) {
            self.mark(marks::NOTED);
            self.note(EventKind::Cancel, cancel_code(reason));
            self.span.note(EventKind::Cancel, None);
        }
    }

    fn has(&self, mark: u8) -> bool {
        self.seen.marks.get() & mark != 0
    }

    fn mark(&self, mark: u8) {
        self.seen.marks.set(self.seen.marks.get() | mark);
    }

    /// Records that the other end of a channel is gone, or a semaphore closed.
    #[cold]
    pub(crate) fn sees_peer_gone(&self) {
        self.mark(marks::PEER_GONE);
    }

    /// Whether a cancel point has told the task that it is cancelled, since it entered the
    /// innermost nursery that it has open.
    pub(crate) fn was_told(&self) -> bool {
        self.has(marks::TOLD)
    }

    /// Reverts the mark of the last cancel point: its operation succeeded after all, so the program
    /// did not see the cancellation.
    pub(crate) fn untell(&self) {
        if self.has(marks::FIRST_TOLD) {
            self.seen.marks.set(self.seen.marks.get() & !(marks::FIRST_TOLD | marks::TOLD));
        }
    }

    /// Whether the task was told of a deadlock.
    pub(crate) fn was_sentenced(&self) -> bool {
        self.has(marks::SENTENCED)
    }

    /// Adds to an error with which the task ends, or leaves a nursery: the task, and the rank of
    /// the error as a cause. An error of another task has been signed there.
    pub(crate) fn sign(&self, error: Error) -> Error {
        let rank = match error.task() {
            _ if self.was_told() => error.rank().min(Rank::Derived),
            None if self.has(marks::PEER_GONE) => error.rank().min(Rank::Doubtful),
            _ => error.rank(),
        };
        // `Late` refers to the nursery that the error comes from.
        error.in_task(|| self.info()).ranked(rank.max(Rank::Derived))
    }

    /// Takes the marks out, before the task enters a nursery, which they do not concern.
    pub(super) fn put_marks_aside(&self) -> u8 {
        self.seen.marks.replace(self.seen.marks.get() & marks::NOTED)
    }

    /// Restores the marks when the task leaves the nursery. Adds the mark of a cancellation that
    /// came from above the nursery, which still holds.
    pub(super) fn take_marks_up(&self, aside: u8, reason: Option<CancelReason>) {
        let mut learned = self.seen.marks.get();
        let from_above = matches!(reason, Some(CancelReason::Parent | CancelReason::Shutdown));
        if !from_above && !self.was_asked_to_end() {
            learned &= !marks::TOLD;
        }
        self.seen.marks.set(aside | learned);
    }

    /// Writes an event about the running task.
    #[inline]
    fn note(&self, kind: EventKind, detail: u64) {
        worker::with_current(|worker| worker.note(kind, self.record().id(), detail));
    }

    /// Writes the event that a resource is used up, or was recharged.
    pub(super) fn note_budget(&self, kind: EventKind, resource: Resource) {
        self.note(kind, resource as u64);
        self.span.note(kind, Some(resource));
    }

    /// Adds the task's running and waiting times to those of the nursery, if times are measured.
    #[inline]
    pub(super) fn flush_times(&self) {
        if let Some(tally) = &self.settings().tally {
            tally.add_times(self.seen.times.take());
        }
    }

    /// Reason of the task's wait, as it is recorded in events.
    pub(crate) fn wait_reason(&self) -> WaitReason {
        self.seen.why().unwrap_or(Why::Wake).recorded()
    }

    /// The state that observers read while the task is parked.
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Runs a closure whose waits end from outside of the runtime.
    pub(in crate::scope::cx) fn externally<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Close<'f>(&'f Cell<u32>);
        impl Drop for Close<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() - 1);
            }
        }
        let open = &self.seen.external;
        open.set(open.get() + 1);
        let _close = Close(open);
        body()
    }

    /// Waits to be woken, or cancelled; may return early.
    pub(crate) fn park(&self, why: Why<'_>) -> Result<()> {
        if std::thread::panicking() {
            // An unwinding task cannot leave its stack, so it could only spin; and the task that
            // would wake it may need this worker.
            return Err(Error::new(ErrorKind::Unwinding));
        }
        if self.overdraft() != 0 {
            // Paying may wait, and so consume the wake that the caller waits for. The caller checks
            // again.
            return self.park_indebted(why);
        }
        self.park_as_it_is(why)
    }

    /// As `park`, for a task that owes memory, or is sealed.
    #[cold]
    fn park_indebted(&self, why: Why<'_>) -> Result<()> {
        self.pay_for_memory()?;
        if !self.is_sealed() {
            return Ok(());
        }
        if !self.seen.timed.get() && !matches!(why, Why::Sleep(_)) {
            self.refuse_unbounded()?;
        }
        self.park_as_it_is(why)
    }

    /// Refuses a wait without a deadline to sealed code, unless a deadline will cancel it.
    fn refuse_unbounded(&self) -> Result<()> {
        if self.expires() { Ok(()) } else { self.refuse_sealed(IslandRefused::Wait) }
    }

    /// Waits until a queued node has a final state; for waits without a deadline. If the node was
    /// granted, the task was perhaps cancelled meanwhile: the next cancel point tells.
    ///
    /// # Errors
    ///
    /// If the task cannot wait, or was cancelled. The node is perhaps granted all the same: the
    /// caller withdraws it.
    ///
    /// The first park of a task that is subscribed to its node comes without a look at the mark of
    /// the node: see the header of `watch`.
    #[inline(never)]
    pub(crate) fn wait_until_final(&self, node: &NodeState, why: WhyLink<'_>) -> Result<()> {
        if std::thread::panicking()
            || self.overdraft() != 0
            || self.record().state.is_cancelled()
            || !self.watch.is_subscribed()
        {
            return self.wait_with_care(node, why);
        }
        self.begin_wait(why);
        // SAFETY: this function is never inlined, and uses no thread-local variable below. The
        // frame is that of the running task, which does not unwind.
        unsafe { worker::wait_inlined(self.record) };
        if !node.is_final() {
            return self.wait_again(node);
        }
        self.end_wait();
        Ok(())
    }

    /// Continues `wait_until_final` after an early wake.
    #[cold]
    #[inline(never)]
    fn wait_again(&self, node: &NodeState) -> Result<()> {
        let why = self.seen.why.get();
        self.end_wait();
        self.wait_with_care(node, why.unwrap_or_else(|| WhyLink::to(&Why::Wake)))
    }

    /// As `wait_until_final`, for a task that is perhaps cancelled, is not subscribed, owes memory
    /// or was woken early.
    #[cold]
    #[inline(never)]
    fn wait_with_care(&self, node: &NodeState, why: WhyLink<'_>) -> Result<()> {
        if std::thread::panicking() {
            return Err(Error::new(ErrorKind::Unwinding)); // as in `park`
        }
        let is_sealed = self.is_sealed();
        if is_sealed {
            self.check_seal()?;
            self.refuse_unbounded()?;
        }
        loop {
            if is_sealed || self.overdraft() == 0 {
                // SAFETY: as in `park_as_it_is`.
                unsafe { self.watch.begin(self) }?;
                self.leave_by(why, worker::wait);
            } else {
                // This may wait, and so consume the wake that the task waits for: the node is
                // looked at after it.
                self.pay_for_memory()?;
            }
            if node.is_final() {
                return Ok(());
            }
        }
    }

    /// As `park`, without paying for memory.
    pub(super) fn park_as_it_is(&self, why: Why<'_>) -> Result<()> {
        // SAFETY: the frame stays at the base of the task's stack. `unsubscribe` is called before
        // the task changes its node or ends.
        unsafe { self.watch.wait(self, || self.leave_to_others(&why)) }
    }

    /// Waits to be woken; may return early. Not a cancel point.
    #[inline(always)]
    pub(crate) fn leave_to_others(&self, why: &Why<'_>) {
        if !worker::must_not_switch() {
            self.leave_by(WhyLink::to(why), worker::wait);
        }
    }

    /// Records the reason of a wait for its time. On a task that does not unwind.
    #[inline(always)]
    fn leave_by(&self, why: WhyLink<'_>, wait: impl FnOnce()) {
        self.begin_wait(why);
        wait();
        self.end_wait();
    }

    /// Records the reason of a wait, until `end_wait`, which is called before the objects of the
    /// reason end.
    #[inline(always)]
    fn begin_wait(&self, why: WhyLink<'_>) {
        // SAFETY: taken back by `end_wait`.
        self.seen.why.set(Some(unsafe { why.detach() }));
        self.seen.waits.set(self.seen.waits.get().wrapping_add(1));
        self.seen.since.set(self.settings().shared.coarse_now());
    }

    #[inline(always)]
    fn end_wait(&self) {
        self.seen.why.set(None);
        self.flush_times();
    }

    /// Ends the turn of a task that is called again when it is woken: the last act of the frame
    /// that observers read.
    pub(super) fn end_call(&self) {
        if self.settings().reports {
            worker::turn::ended(self.ops_left()); // to its tenant
        }
        self.begin_wait(WhyLink::to(&Why::Future));
        worker::with_current(|worker| worker.note_end_of_turn(EventKind::Park, self.record()));
        self.end_wait();
    }

    /// The facts about the task, to be kept for the frame of its next call.
    pub(super) fn facts(&self) -> u8 {
        self.seen.marks.get()
    }

    pub(super) fn set_facts(&self, facts: u8) {
        self.seen.marks.set(facts);
    }

    /// Leaves the queue of the node that cancels the task, if it is there.
    #[inline]
    pub(super) fn unsubscribe(&self) {
        // SAFETY: called before each change of the node.
        unsafe { self.watch.unsubscribe(self) };
    }

    /// Runs the closure in a shield: cancellation from outside of it is held off, for at most the
    /// time `grace` if there is one. Nurseries opened in the closure are cancelled as always by
    /// events inside of them.
    pub(crate) fn shielded<R>(&self, grace: Option<Duration>, body: impl FnOnce() -> R) -> R {
        struct Unshield<'f> {
            frame: &'f Frame,
            limit: NonNull<AtomicU64>,
            outer: OuterGrace,
        }
        impl Drop for Unshield<'_> {
            fn drop(&mut self) {
                let frame = self.frame;
                frame.watch.unshield(self.outer);
                frame.limit.set(self.limit);
                frame.record().signal.end_shield(&frame.record().state);
            }
        }
        let shared = &self.settings().shared;
        let asked = grace.map(|grace| shared.later(grace));
        let _timer = asked.map(|at| shared.at(at, Due::Interrupt(self.task_ref())));
        let outer = self.watch.shield(asked);
        let _unshield = Unshield { frame: self, limit: self.limit.replace(never()), outer };
        body()
    }
}

impl Cancellable<Waiter> for Frame {
    type Error = Error;

    #[inline]
    fn node(&self) -> &CancelNode {
        Frame::node(self)
    }

    #[inline]
    fn entered(&self) -> u32 {
        self.scope.get().shields
    }

    #[inline]
    fn check(&self) -> Result<()> {
        self.check_cancelled()
    }

    fn waiter(&self) -> Waiter {
        window::before_registering();
        // SAFETY: it leaves the queue in `unsubscribe`, which is called before the task changes its
        // node or ends.
        unsafe { Waiter::borrowed(&self.settings().shared, self.task_ref()) }
    }
}
