//! The worker's part in a pick, and its rest when it has found nothing: spin, then sleep.

use super::Worker;
use super::faults::{Looking, Step};
use crate::sched::events::EventKind;
use crate::sched::run_queue::{PickHooks, TaskSource};
use crate::sched::task::Task;
use crate::sched::timers::{NEVER, Nanos, Rest};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// At most this many deadlines are acted on before tasks have their turn.
const DEADLINES: usize = 256;

impl PickHooks for Worker {
    /// Notes whether deadlines of this worker have passed. Under the deterministic executor they
    /// are the executor's business.
    fn periodic(&self) {
        let next = self.shared.next_of(self.index);
        if next != NEVER && self.shared.log.is_none() && next <= self.shared.now() {
            self.deadlines_passed.set(true);
        }
    }

    #[inline(always)]
    fn took(&self, from: TaskSource) {
        self.events.came_from_elsewhere();
        match from {
            TaskSource::InboxPinned => self.fault(Step::Inbox),
            TaskSource::InboxShared => self.fault(Step::Adopt),
            TaskSource::Global { tasks } => {
                self.stats().injected.add(tasks as u64);
                self.fault(Step::Inject);
            }
            TaskSource::Worker { victim, task } => {
                self.fault(Step::Steal);
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

    #[inline(always)]
    fn random_below(&self, bound: usize) -> usize {
        self.rng.below(bound)
    }
}

impl Worker {
    /// The next task.
    pub(super) fn pick(&self) -> Option<NonNull<Task>> {
        self.fault(Step::Pick);
        self.queue.pick(self)
    }

    /// Any task of any queue that this worker may take from; nothing is left out.
    fn pick_anywhere(&self) -> Option<NonNull<Task>> {
        self.fault(Step::Pick);
        self.queue.pick_anywhere(self)
    }

    /// Acts on deadlines of this worker that have passed. Called in the loop, outside of any task: callbacks of
    /// tokens run here. Never inlined: its batch would lie at the base of every stack.
    #[cold]
    #[inline(never)]
    pub(super) fn fire_timers(&self, now: Nanos) {
        self.events.act_for_worker();
        let rest = self.shared.fire_own(self.index, now, DEADLINES);
        self.deadlines_passed.set(rest != Rest::Nothing);
    }

    /// Becomes a sleeper of the idle protocol; false if there was something to do after all.
    pub(super) fn fall_asleep(&self) -> bool {
        let idle = &self.shared.idle;
        if let Some(task) = self.pick_anywhere() {
            self.handoff.set(Some(task));
            return false;
        }
        let looking = Looking::of(self, false);
        idle.fall_asleep(self.index, self.searching.take());
        looking.asleep.set(true);
        self.fault(Step::Asleep);
        let stays = self.shared.queues.has_work_for(self.index);
        looking.done();
        if stays {
            idle.stay_awake(self.index);
            self.searching.set(true);
            return false;
        }
        self.stats().slept.bump();
        true
    }

    /// With threads: looks for work for a while, then sleeps until somebody wakes it.
    /// Leaves a task to run in `handoff`. False if the worker is to leave.
    ///
    /// How long it looks depends on whether that has paid lately ([`patience`](super::patience)).
    pub(super) fn wait_for_work(&self) -> bool {
        let shared = &self.shared;
        let resting = &shared.remotes[self.index].thread.resting;
        resting.begin();
        let looking = Looking::of(self, shared.idle.try_search());
        let Looking { searching, asleep, .. } = &looking;
        loop {
            self.fault(Step::Look);
            let started = Instant::now();
            let now = shared.nanos(started);
            if shared.next_of(self.index) <= now {
                // Callbacks of tokens are the program's: nobody may rely on this worker meanwhile.
                if searching.take() && shared.idle.stop_searching() {
                    fence(Ordering::SeqCst); // as whoever publishes work
                    if shared.queues.has_work() {
                        shared.notify_any();
                    }
                }
                shared.monitor.back_to_work(resting);
                self.fire_timers(now);
                resting.begin();
                searching.set(shared.idle.try_search());
            }
            // No longer than until its next deadline.
            let left = shared.next_of(self.index).saturating_sub(now);
            let patience = self.patience.time().min(Duration::from_nanos(left));
            let mut pause = 1_u32;
            'looking: loop {
                if let Some(task) = self.pick_anywhere() {
                    self.handoff.set(Some(task));
                    if searching.take() && shared.idle.stop_searching() {
                        shared.notify_any();
                    }
                    shared.monitor.back_to_work(resting);
                    if pause > 1 {
                        self.patience.found(started.elapsed());
                    }
                    looking.done();
                    return true;
                }
                // There are searchers enough, but what only this worker may take is for nobody else to find.
                loop {
                    // Nor when it is to leave, however long it may look.
                    let enough = patience.is_zero() || started.elapsed() >= patience;
                    if enough || shared.is_stopping() {
                        break 'looking;
                    }
                    for _ in 0..pause {
                        std::hint::spin_loop();
                    }
                    pause = (pause * 2).min(64);
                    searching.set(searching.get() || shared.idle.try_search());
                    if searching.get() || self.queue.has_inbox() {
                        break;
                    }
                }
            }
            shared.idle.fall_asleep(self.index, searching.take());
            asleep.set(true);
            self.fault(Step::Asleep);
            // After the fence of `fall_asleep`: of the workers that ran the last tasks, at
            // least the one whose fence comes last sees that all have ended, and tells.
            if shared.is_stopping() && shared.live() == 0 {
                shared.idle.leave(self.index);
                looking.done();
                shared.stop();
                return false;
            }
            if shared.queues.has_work_for(self.index) {
                // A searcher again. If somebody chose us, our token is on its way.
                shared.idle.stay_awake(self.index);
                asleep.set(false);
                searching.set(true);
                continue;
            }
            self.stats().slept.bump();
            self.note_rest(EventKind::Sleep);
            let stays = self.sleep();
            if !stays {
                looking.done(); // it has retired, and counts as nothing
                self.note_rest(EventKind::Awake);
                return false;
            }
            self.fault(Step::Awake);
            self.note_rest(EventKind::Awake);
            shared.now(); // after a long sleep: sets the coarse clock
            match shared.called(self.index) {
                at if at > now => self.patience.slept(Duration::from_nanos(at - now)),
                _ => self.patience.slept_in(),
            }
            // Woken by whoever took our bit, which made us a searcher; or by a token from
            // an earlier choice, or by `stop`: then the bit is still ours.
            shared.idle.stay_awake(self.index);
            asleep.set(false);
            searching.set(true);
        }
    }
}
