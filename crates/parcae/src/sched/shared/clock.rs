//! The clock of a scheduler, and its deadlines.

use super::Shared;
use crate::sched::task::TaskRef;
use crate::sched::timers::{ArmedTimer, Due, FOREVER, GRACE, NEVER, Nanos, PACE, STEP, Timers};
use crate::sched::worker;
use crate::sched::worker::faults::{FaultPoint, fault_in_loop};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The most that the coarse clock is behind while any thread reads the real one.
const COARSE: Nanos = 1_000_000;

impl Shared {
    /// The present time.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        if let Some(log) = &self.log {
            return log.now().saturating_mul(STEP);
        }
        self.read(Instant::now())
    }

    /// A reading of the monotonic clock, in the scheduler's unit.
    #[inline]
    fn read(&self, at: Instant) -> Nanos {
        let now = at.saturating_duration_since(self.started).as_nanos() as Nanos;
        // Relaxed, here and below: the coarse clock orders no other access. Not written for every
        // reading, so that workers do not contend for it.
        if now.saturating_sub(self.coarse.load(Ordering::Relaxed)) > COARSE {
            self.coarse.store(now, Ordering::Relaxed);
        }
        now
    }

    /// The present time, as a time of the monotonic clock.
    #[inline]
    pub(crate) fn now_instant(&self) -> Instant {
        if self.log.is_some() {
            return self.instant(self.now());
        }
        let at = Instant::now();
        self.read(at);
        at
    }

    /// Whether a deadline is far away by the coarse clock, which may be late: a timer that is armed
    /// for a deadline that has passed meanwhile fires at once.
    #[inline]
    pub(crate) fn seems_far(&self, at: Nanos) -> bool {
        at > self.coarse_now().saturating_add(COARSE)
    }

    /// The coarse clock: a recent time, read without a system call. For reports.
    #[inline]
    pub(crate) fn coarse_now(&self) -> Nanos {
        match &self.log {
            Some(log) => log.now().saturating_mul(STEP),
            None => self.coarse.load(Ordering::Relaxed), // see `now`
        }
    }

    /// A time of the scheduler as a time of the monotonic clock.
    pub(crate) fn instant(&self, at: Nanos) -> Instant {
        let epoch = self.epoch.load(Ordering::Relaxed); // see there
        self.started + Duration::from_nanos(epoch.saturating_add(at))
    }

    /// The reverse of [`instant`](Shared::instant). Times before the scheduler was made are 0.
    pub(crate) fn nanos(&self, at: Instant) -> Nanos {
        let since = at.saturating_duration_since(self.started);
        let epoch = self.epoch.load(Ordering::Relaxed); // see there
        let since = Nanos::try_from(since.as_nanos()).unwrap_or(FOREVER);
        since.saturating_sub(epoch).min(FOREVER)
    }

    /// The time that is so much later than now.
    pub(crate) fn later(&self, time: Duration) -> Nanos {
        let time = Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX);
        self.now().saturating_add(time).min(FOREVER)
    }

    /// Arms a timer. Dropping the result disarms it.
    pub(crate) fn at(&self, at: Nanos, what: Due) -> ArmedTimer<&Shared> {
        let worker = worker::with_current_of(self, |here| here.map(|worker| worker.index));
        let wheel = self.timers.wheel_for(worker, &what);
        let ring = self.timers.ring(wheel);
        let (entry, is_first) = ring.insert(at, what);
        if is_first && self.timers.is_watched(wheel) && self.log.is_none() {
            let overdue = ring.next().saturating_add(worker.map_or(0, |_| GRACE));
            if self.timer_thread.horizon.must_tell(overdue) {
                self.timer_thread.tell(&self.me);
            }
        }
        ArmedTimer::new(self, self.timers.key(wheel, entry))
    }

    /// As [`at`](Shared::at), with a result that keeps the scheduler alive.
    pub(crate) fn at_for(self: &Arc<Shared>, at: Nanos, what: Due) -> ArmedTimer<Arc<Shared>> {
        self.at(at, what).owned(Arc::clone(self))
    }

    /// The earliest deadline of a worker.
    #[inline]
    pub(crate) fn next_of(&self, worker: usize) -> Nanos {
        let [watched, sleepers] = self.timers.of(worker);
        watched.next().min(sleepers.next())
    }

    /// A worker acts on up to `limit` of its own deadlines. Tasks that only it may run are given to
    /// `wake`.
    pub(crate) fn fire_own(
        &self,
        worker: usize,
        now: Nanos,
        limit: usize,
        mut wake: impl FnMut(TaskRef),
    ) {
        let fired = &self.remotes[worker].stats.fired;
        let mut act = |due| {
            fired.bump();
            match due {
                Due::WakePinned(task) => wake(task),
                due => due.act(self),
            }
            fault_in_loop(self, FaultPoint::Timers);
        };
        for ring in self.timers.of(worker) {
            if ring.next() <= now {
                ring.fire(now, limit, &mut act);
            }
            ring.looked(now);
        }
    }

    /// Acts on overdue deadlines. For any thread, at any time. Leaves alone a wheel whose worker
    /// looks after it.
    pub(crate) fn fire_overdue(&self, now: Nanos) {
        for (ring, grace) in self.timers.graces() {
            if ring.overdue(grace) <= now {
                // Without a limit: each is late.
                ring.fire(now, Timers::ALL, |due| due.act(self));
            }
        }
    }

    /// Under the deterministic executor: acts on the deadlines that have passed, in their order.
    pub(crate) fn fire_timers(&self) {
        let now = self.now();
        while let Some((ring, next)) = self.timers.earliest()
            && next <= now
        {
            // Only those of this tick: another wheel may have a deadline before the next one here.
            ring.fire(next, Timers::ALL, |due| due.act(self));
        }
    }

    /// Under the deterministic executor: calls [`Host::tick`](crate::sched::host::Host::tick) at
    /// this time.
    pub(crate) fn tick_at(&self, at: Nanos) {
        self.next_tick.store(at, Ordering::Relaxed); // see there
    }

    /// Under the deterministic executor: lets the host act, if it has asked for it. No deadline:
    /// time does not jump to it, and tasks that wait for each other stay a deadlock.
    pub(crate) fn tick(&self) {
        let at = self.next_tick.load(Ordering::Relaxed); // see there
        if at != NEVER && self.now() >= at {
            let next = self.host.tick(self);
            // Relaxed: see there. The policy may have gone meanwhile.
            let _ = self.next_tick.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// As [`fire_timers`](Shared::fire_timers), one instant after the other. `choose` is asked for
    /// the next of several timers that are due at the same instant.
    pub(crate) fn fire_timers_by(&self, mut choose: impl FnMut(usize) -> usize) {
        let until = self.now();
        while let Some((_, next)) = self.timers.earliest()
            && next <= until
        {
            let mut due = Vec::new();
            while let Some((ring, same)) = self.timers.earliest()
                && same <= next
            {
                ring.fire(next, Timers::ALL, |one| due.push(one));
            }
            while !due.is_empty() {
                let at = if due.len() > 1 { choose(due.len()) } else { 0 };
                due.remove(at).act(self);
            }
        }
    }

    /// Under the deterministic executor, when no task can run: jumps to the next deadline; false if
    /// there is none.
    pub(crate) fn jump_to_next_deadline(&self) -> bool {
        let (Some(log), Some((_, next))) = (&self.log, self.timers.earliest()) else {
            return false;
        };
        log.advance_to(next / STEP); // a multiple
        true
    }

    /// Whether there are deadlines that have not passed.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.timers.earliest().is_some()
    }

    /// Time until the next deadline of any wheel; `None` if there is none.
    pub(crate) fn until_next_deadline(&self) -> Option<Duration> {
        let (_, next) = self.timers.earliest()?;
        Some(Duration::from_nanos(next.saturating_sub(self.now())))
    }

    /// The worker, which begins to run a task, has to look up at this time. Called on its thread.
    pub(crate) fn look_up_at(&self, worker: usize, at: Nanos) {
        if self.signal_timer.set(worker, at) {
            self.signal_timer.tell(&self.me);
        }
    }

    /// When an idle worker has to wake up for its deadlines; `None` if it has none.
    pub(crate) fn wake_up_time(&self, worker: usize) -> Option<Instant> {
        let (next, last_look) = (self.next_of(worker), self.timers.of(worker)[0].last_look());
        // Jobs of a context are not to wait for others.
        let pace = if self.queues.has_contexts() { 0 } else { PACE };
        (next != NEVER).then(|| self.instant(next.max(last_look + pace)))
    }
}
