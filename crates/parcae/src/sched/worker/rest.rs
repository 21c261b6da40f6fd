//! Picking the next task, and waiting for work: spin first (`idle::SpinPolicy`), then sleep in the
//! poller (`idle::Poller`).

use super::events::frame_of;
use super::faults::{FaultPoint, IdleGuard};
use super::{DueWork, Worker};
use crate::sched::events::EventKind;
use crate::sched::idle::{Slept, Spin};
use crate::sched::run_queue::{PickHooks, TaskSource};
use crate::sched::task::{Task, TaskRef};
use crate::sched::timers::{Due, Expire, NEVER, Nanos, STEP};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Weak;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// The least time after which a worker that runs tenants is made to look at a deadline in the
/// middle of a turn: the length of a turn of a tenant that asks for short ones.
const TURN: Nanos = 200_000;

impl PickHooks for Worker {
    /// Records whether deadlines of this worker have passed, which the deterministic executor does
    /// itself; and looks for events of descriptors.
    fn periodic(&self) {
        self.remote().poller.look();
        let next = self.shared.next_of(self.index);
        if self.expired.has_batch(&self.queue)
            || next != NEVER && self.shared.log.is_none() && next <= self.shared.now()
        {
            self.due.set(DueWork::DEADLINES);
        }
    }

    #[inline(always)]
    fn took(&self, from: TaskSource) {
        self.came_from_elsewhere();
        match from {
            TaskSource::InboxPinned => self.fault(FaultPoint::Inbox),
            TaskSource::InboxShared => self.fault(FaultPoint::Adopt),
            TaskSource::Global { tasks } => {
                self.stats().injected.add(tasks as u64);
                self.fault(FaultPoint::Inject);
            }
            TaskSource::Worker { victim, task } => {
                self.fault(FaultPoint::Steal);
                self.stats().stolen.bump();
                // SAFETY: stolen, hence ours.
                self.note(EventKind::Steal, unsafe { (*task.as_ptr()).id() }, victim as u64);
            }
        }
    }

    #[inline(always)]
    fn missed(&self) {
        self.stats().failed_steals.bump();
    }

    #[inline(always)]
    fn announce(&self) {
        self.shared.notify_any();
    }

    fn now(&self) -> Nanos {
        self.shared.now()
    }

    fn has_tenants(&self) {
        self.due.set(DueWork::TENANTS);
    }

    fn is_due(&self) -> bool {
        let next = self.shared.next_of(self.index);
        let is_due = self.shared.log.is_none() && next != NEVER && next <= PickHooks::now(self);
        if is_due {
            self.due.set(DueWork::DEADLINES);
        }
        is_due
    }

    fn look_up_at(&self, at: Nanos) {
        if self.shared.log.is_some() {
            return; // turns are cut instead
        }
        let mut next = self.shared.next_of(self.index);
        if next != NEVER && !self.shared.queues.has_contexts() {
            // Most turns of tenants end before that, and the thread need not wake up for them.
            next = next.max(self.shared.coarse_now().saturating_add(TURN));
        }
        self.shared.look_up_at(self.index, at.min(next));
    }

    fn arm_release(&self, at: Nanos) {
        self.shared.at(at, Due::Release(self.index)).leave_armed();
    }

    fn expire_now(&self, end: Weak<dyn Expire>) {
        self.shared.at(PickHooks::now(self), Due::Expire(end)).leave_armed();
    }

    fn wake(&self, task: TaskRef) {
        self.unpark(task);
    }

    fn pass(&self, ops: u64) {
        if let Some(log) = &self.shared.log {
            log.advance_to(log.now() + ops);
        }
    }

    fn ops_until_deadline(&self) -> u64 {
        if self.shared.log.is_none() {
            return u64::MAX;
        }
        let next = self.shared.timers.earliest().map_or(NEVER, |(_, next)| next);
        next.saturating_sub(PickHooks::now(self)).div_ceil(STEP)
    }

    fn ops_left(&self, task: &Task) -> u64 {
        // SAFETY: the caller owns the task, or it leaves its stack here.
        frame_of(task).map_or(0, |frame| unsafe { self.shared.host.frames().ops_left(frame) })
    }

    fn strangers(&self) -> u32 {
        u32::try_from(self.pinned.get() - self.bound.get()).unwrap_or(u32::MAX >> 1)
    }

    fn is_watching(&self) -> bool {
        self.remote().poller.is_watching()
    }

    fn becomes_stranger(&self) {
        self.bound.set(self.bound.get() - 1);
    }

    fn gets_context(&self) {
        self.bound.set(self.bound.get() + 1);
    }

    #[inline(always)]
    fn random_below(&self, bound: usize) -> usize {
        self.rng.below(bound)
    }
}

impl Worker {
    /// Waits for a moment for the wake of a task that is about to leave its stack, while there is
    /// nothing else to do (`idle::Linger`). True if it came: then the task goes on.
    pub(super) fn linger(&self, task: &Task) -> bool {
        let shared = &self.shared;
        if shared.tracer.is_on()
            || self.due.has(DueWork::DEADLINES)
            || !shared.idle.is_another_awake(shared.active_slots())
            || shared.queues.has_contexts() // the context was charged, and has stopped
            || !self.lingering.is_worth_it()
            || self.count_ended().is_some()
        {
            return false;
        }
        let woken = self.lingering.look(|| {
            if task.state.take_wake() {
                Some(true)
            } else {
                self.queue.has_inbox().then_some(false)
            }
        });
        woken == Some(true)
    }

    /// The next task.
    pub(super) fn pick(&self) -> Option<NonNull<Task>> {
        self.fault(FaultPoint::Pick);
        self.tell_before_pick();
        self.queue.pick(self)
    }

    /// The next task out of any queue that this worker may take from.
    fn pick_anywhere(&self) -> Option<NonNull<Task>> {
        self.fault(FaultPoint::Pick);
        self.queue.pick_anywhere(self)
    }

    /// Becomes a sleeper of the idle protocol; false if there is work after all. For virtual
    /// workers, which do not spin and whose executor sleeps for them.
    pub(super) fn fall_asleep(&self) -> bool {
        let idle = &self.shared.idle;
        if let Some(task) = self.pick_anywhere() {
            self.handoff.set(Some(task));
            return false;
        }
        self.stop_searching_for_others(&self.searching);
        let guard = IdleGuard::new(self, false);
        idle.fall_asleep(self.index, self.searching.take());
        guard.asleep.set(true);
        self.fault(FaultPoint::Asleep);
        let stays = self.shared.queues.has_work_for(self.index);
        guard.done();
        if stays {
            idle.stay_awake(self.index);
            self.searching.set(true);
            return false;
        }
        self.stats().slept.bump();
        true
    }

    /// With threads: spins for a while, then sleeps until woken. Leaves a task to run in `handoff`.
    /// Returns false if the worker has to stop.
    pub(super) fn wait_for_work(&self) -> bool {
        let shared = &self.shared;
        let resting = &self.remote().thread.resting;
        resting.begin();
        let guard = IdleGuard::new(self, self.try_search());
        let searching = &guard.searching;
        loop {
            self.fault(FaultPoint::Look);
            let started = Instant::now();
            let now = shared.nanos(started);
            if shared.next_of(self.index) <= now || !self.expired.is_empty() {
                // Callbacks of tokens are user code and may take long: no publisher may rely on
                // this searcher.
                if searching.take() && shared.idle.stop_searching() {
                    fence(Ordering::SeqCst); // as a publisher: pairs with `Idle::fall_asleep`
                    if shared.queues.has_work() {
                        shared.notify_any();
                    }
                }
                shared.monitor.back_to_work(resting);
                self.fire_timers(now);
                resting.begin();
                searching.set(self.try_search());
            }
            let left = shared.next_of(self.index).saturating_sub(now);
            let mut spin = self.spin.begin(started, Duration::from_nanos(left));
            if let Some(task) = self.spin_for_work(&mut spin, searching) {
                self.handoff.set(Some(task));
                if searching.take() && shared.idle.stop_searching() {
                    shared.notify_any();
                }
                shared.monitor.back_to_work(resting);
                self.spin.found(&spin);
                guard.done();
                return true;
            }
            self.stop_searching_for_others(searching);
            shared.idle.fall_asleep(self.index, searching.take());
            guard.asleep.set(true);
            self.fault(FaultPoint::Asleep);
            // After the fence of `fall_asleep`: of the workers that ran the last tasks, at least
            // the one whose fence comes last sees that all have ended, and tells the others.
            if shared.is_stopping() && shared.live() == 0 {
                shared.idle.leave(self.index);
                guard.done();
                shared.stop();
                return false;
            }
            let slept = match shared.queues.has_work_for(self.index) {
                true => Some(Slept::Woken),
                false => self.sleep(now),
            };
            let Some(slept) = slept else {
                guard.done(); // it has retired, and counts as nothing
                self.note_rest(EventKind::Awake);
                return false;
            };
            // Work after all, or woken. A worker that was chosen is a searcher already, and its
            // token is spent or on its way; otherwise its bit is still set, and it takes it back.
            // Events are for tasks of its own: then it searches for nothing.
            let searches = slept != Slept::Events || !shared.idle.retire(self.index);
            if searches {
                shared.idle.stay_awake(self.index);
            }
            guard.asleep.set(false);
            searching.set(searches);
        }
    }

    /// Becomes a searcher, unless others search or the worker is leased: it would not find the work
    /// of others.
    fn try_search(&self) -> bool {
        let shared = &self.shared;
        !shared.queues.is_closed(self.index) && shared.idle.try_search()
    }

    /// A leased worker that is a searcher, and is about to sleep, stops being one: publishers of
    /// work that it may not take have relied on it (`run_queue::realtime::lease`).
    fn stop_searching_for_others(&self, searching: &Cell<bool>) {
        let shared = &self.shared;
        if shared.queues.is_closed(self.index) && searching.take() && shared.idle.stop_searching() {
            fence(Ordering::SeqCst); // as a publisher: pairs with `Idle::fall_asleep`
            if shared.queues.has_work() {
                shared.notify_any();
            }
        }
    }

    /// Searches for work until there is some or the spin is over.
    fn spin_for_work(&self, spin: &mut Spin, searching: &Cell<bool>) -> Option<NonNull<Task>> {
        let shared = &self.shared;
        loop {
            if let Some(task) = self.pick_anywhere() {
                return Some(task);
            }
            // While there are enough searchers, only the inboxes are checked.
            loop {
                if shared.is_stopping() || !spin.pause(|| self.queue.has_inbox()) {
                    return None;
                }
                searching.set(searching.get() || self.try_search());
                let events = self.remote().poller.look();
                if events || searching.get() || self.queue.has_inbox() {
                    break;
                }
            }
        }
    }

    /// Sleeps, after the last check of the idle protocol. `None` if the worker retires. `since`:
    /// when it began to spin.
    fn sleep(&self, since: Nanos) -> Option<Slept> {
        self.stats().slept.bump();
        self.note_rest(EventKind::Sleep);
        let slept = self.poll()?;
        self.fault(FaultPoint::Awake);
        self.note_rest(EventKind::Awake);
        self.shared.now(); // after a long sleep: sets the coarse clock
        match self.remote().poller.called() {
            at if at > since => self.spin.slept(Duration::from_nanos(at - since)),
            _ => self.spin.slept_in(),
        }
        Some(slept)
    }

    /// The next task that an event of a descriptor has made ready. For a worker whose queues are
    /// empty.
    #[cold]
    pub(super) fn pick_by_event(&self) -> Option<NonNull<Task>> {
        let poller = &self.remote().poller;
        if poller.is_busy() && poller.look() { self.pick() } else { None }
    }

    /// Sleeps in the poller, until a wake, an event or the worker's next deadline. `None` if the
    /// worker retires.
    ///
    /// A temporary worker retires when it was not woken for a while. It must not while a pinned
    /// task that has waited here has not ended: that task is woken into this worker's inbox only;
    /// nor while descriptors are registered here, for which tasks of other workers may wait.
    /// Otherwise no work can come for this worker alone, and its queues were empty at the last
    /// check. (Movable tasks that it ran last are woken into the global queue, see
    /// `Shared::follow_up`.)
    fn poll(&self) -> Option<Slept> {
        let shared = &self.shared;
        let poller = &self.remote().poller;
        // Only this worker sets deadlines of its own.
        let due = shared.wake_up_time(self.index);
        if due.is_some() || !self.is_temporary() {
            // A temporary worker stays for its deadlines, too.
            return Some(poller.sleep(due));
        }
        let slept = poller.sleep(Some(Instant::now() + shared.config.temporary_idle));
        // A worker that was chosen meanwhile is a searcher by now, and stays.
        let stays = slept != Slept::TimedOut || self.pinned.get() > 0 || poller.is_watching();
        (stays || !shared.idle.retire(self.index)).then_some(slept)
    }
}
