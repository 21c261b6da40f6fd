//! Which task is next, whom to steal from, and when to sleep.

use super::faults::{Batch, Hand, Looking, Step};
use super::{FAIRNESS, LIFO_STREAK, Worker};
use crate::sched::Victims;
use crate::sched::deque::Steal;
use crate::sched::events::EventKind;
use crate::sched::queue::Chain;
use crate::sched::task::{Priority, Task};
use crate::sched::timers::{NEVER, Nanos, Rest};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// At most this many victims are looked at in one attempt.
const VICTIMS: usize = 4;
/// How often a busy worker looks for tasks that others woke.
const INBOX: u32 = 8;
/// At most this many deadlines are acted on before tasks have their turn.
const DEADLINES: usize = 256;
/// How many tasks come from the global queue at once.
const INJECT_BATCH: usize = 32;
/// At most this many are stolen at once, half of what the victim has otherwise.
const STEAL_BATCH: usize = 256;

impl Worker {
    /// The next task, in the order of the table in the module header.
    pub(super) fn pick(&self) -> Option<NonNull<Task>> {
        self.fault(Step::Pick);
        let tick = self.tick.get().wrapping_add(1);
        self.tick.set(tick);
        if tick.is_multiple_of(FAIRNESS) {
            self.look_at_the_clock();
            if let Some(task) = self.pick_neglected(tick / FAIRNESS) {
                return Some(task);
            }
        }
        if tick.is_multiple_of(INBOX) {
            self.empty_inbox(); // behind those who wait here already
        }
        self.pick_mine(tick)
            .or_else(|| self.pick_inboxes())
            .or_else(|| self.pick_injected(Priority::Normal))
            .or_else(|| self.pick_low())
            .or_else(|| self.steal(VICTIMS))
    }

    /// Notes whether deadlines of this worker have passed. Under the deterministic executor they are the
    /// executor's business.
    fn look_at_the_clock(&self) {
        let next = self.shared.next_of(self.index);
        if next != NEVER && self.shared.log.is_none() && next <= self.shared.now() {
            self.deadlines_passed.set(true);
        }
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

    /// What is this worker's own: urgent, just woken, then in turn.
    #[inline]
    fn pick_mine(&self, tick: u32) -> Option<NonNull<Task>> {
        if let Some(task) = self.pick_at(Priority::High, tick) {
            return Some(task);
        }
        self.pick_normal(tick)
    }

    /// A task of this priority that is not the normal one: started and unstarted ones take
    /// turns, so that one that yields until another has run does not wait for ever.
    #[inline]
    fn pick_at(&self, priority: Priority, tick: u32) -> Option<NonNull<Task>> {
        // SAFETY: the reference ends with the statement.
        let started = || unsafe { self.local()[priority as usize].pop_front() };
        let unstarted = || self.pick_injected(priority);
        if tick.is_multiple_of(2) {
            started().or_else(unstarted)
        } else {
            unstarted().or_else(started)
        }
    }

    /// Just woken, then in turn.
    #[inline]
    fn pick_normal(&self, tick: u32) -> Option<NonNull<Task>> {
        if self.lifo_streak.get() < LIFO_STREAK
            && let Some(task) = self.lifo.take()
        {
            self.lifo_streak.set(self.lifo_streak.get() + 1);
            return Some(task);
        }
        self.lifo_streak.set(0);
        // Started and unstarted tasks take turns, so that neither kind starves the other.
        // SAFETY: the reference ends with the statement.
        let started = || unsafe { self.local()[Priority::Normal as usize].pop_front() };
        // The look saves the fence in `pop`, most of the time.
        let unstarted = || if self.deque.is_empty() { None } else { self.deque.pop() };
        let task = if tick.is_multiple_of(2) {
            started().or_else(unstarted)
        } else {
            unstarted().or_else(started)
        };
        task.or_else(|| self.lifo.take())
    }

    /// What others woke. Pinned tasks join the private queue, movable ones the deque.
    fn pick_inboxes(&self) -> Option<NonNull<Task>> {
        self.empty_inbox();
        let remote = self.remote();
        if !remote.mail.is_empty() {
            let mail = remote.mail.drain();
            self.adopt(mail);
        }
        let tick = self.tick.get();
        self.pick_mine(tick)
    }

    /// Takes over the pinned tasks that others woke.
    #[inline]
    fn empty_inbox(&self) {
        let inbox = &self.remote().inbox;
        if inbox.is_empty() {
            return;
        }
        let mut batch = Batch::of(self, inbox.drain());
        self.events.came_from_elsewhere();
        self.fault(Step::Inbox);
        while let Some(task) = batch.chain.pop_front() {
            // SAFETY: out of the inbox, hence ours.
            unsafe {
                let priority = (*task.as_ptr()).traits.get().priority;
                self.local()[priority as usize].push_back(task);
            }
        }
    }

    /// Puts movable tasks into the deque, or the global queue if they do not fit.
    fn adopt(&self, chain: Chain<Task>) {
        let mut batch = Batch::of(self, chain);
        self.events.came_from_elsewhere();
        self.fault(Step::Adopt);
        while let Some(task) = batch.chain.pop_front() {
            if let Err(task) = self.deque.push(task) {
                self.overflow(task);
            }
        }
        self.announce_rest();
    }

    /// Tasks were moved, and for a moment no queue showed them: whoever looked then and
    /// went to sleep is woken for what the worker does not run itself.
    fn announce_rest(&self) {
        if self.shared.steals() && !self.deque.is_empty() {
            self.shared.notify_any();
        }
    }

    #[inline]
    fn pick_injected(&self, priority: Priority) -> Option<NonNull<Task>> {
        if self.shared.inject[priority as usize].is_empty() {
            return None;
        }
        self.take_injected(priority)
    }

    #[inline(never)]
    fn take_injected(&self, priority: Priority) -> Option<NonNull<Task>> {
        self.events.came_from_elsewhere();
        let inject = &self.shared.inject[priority as usize];
        if priority != Priority::Normal {
            let task = inject.pop();
            self.stats().injected.add(u64::from(task.is_some()));
            return task;
        }
        // A share for this worker; the rest is for the others.
        let share = (inject.len_hint() / self.shared.span() + 1).min(INJECT_BATCH);
        let mut chain = inject.pop_batch(share);
        self.stats().injected.add(chain.len() as u64);
        let first = chain.pop_front().map(|task| Hand::of(self, task));
        let batch = Batch::of(self, chain);
        self.fault(Step::Inject);
        let chain = batch.give();
        if !chain.is_empty() {
            // Started ones may only be movable here. The oldest is taken next: the deque
            // is last in, first out, so they go in backwards.
            self.adopt(chain.reversed());
        }
        first.map(Hand::give)
    }

    fn pick_low(&self) -> Option<NonNull<Task>> {
        self.pick_at(Priority::Low, self.tick.get())
    }

    /// The queues that would be looked at last, in turn.
    #[cold]
    fn pick_neglected(&self, turn: u32) -> Option<NonNull<Task>> {
        // Each is looked at until one has something, and each has its turn to be the first.
        (0..6).find_map(|i| match (turn + i) % 6 {
            0 => self.pick_injected(Priority::Normal),
            1 => self.pick_inboxes(),
            // Past urgent tasks that never end.
            2 => self.pick_normal(turn),
            3 => self.pick_low(),
            // Woken tasks whose worker is stuck, while nobody is idle enough to rescue them.
            4 => self.rescue_mail((self.index + 1 + turn as usize) % self.shared.span()),
            // The oldest of our own deque, as a thief would take it.
            _ => match self.shared.remotes[self.index].stealer.steal() {
                Steal::Task(task) => Some(task),
                Steal::Empty | Steal::Retry => None,
            },
        })
    }

    /// Tries to steal from up to `limit` victims.
    fn steal(&self, limit: usize) -> Option<NonNull<Task>> {
        if !self.shared.steals() {
            return None;
        }
        let workers = self.shared.span();
        for attempt in 0..limit.min(workers - 1) {
            let victim = self.victim(attempt, workers);
            if victim == self.index {
                continue;
            }
            if let Some(task) = self.steal_from(victim) {
                return Some(task);
            }
            self.stats().failed_steals.bump();
        }
        None
    }

    fn victim(&self, attempt: usize, workers: usize) -> usize {
        match self.shared.config.victims {
            Victims::Nobody => self.index,
            Victims::Random => self.rng.below(workers),
            Victims::RoundRobin => {
                let next = (self.next_victim.get() + 1) % workers;
                self.next_victim.set(next);
                next
            }
            Victims::MostLoaded => {
                let load = |worker: &usize| self.shared.remotes[*worker].stealer.len_hint();
                let others = || (0..workers).filter(|&worker| worker != self.index);
                // The busiest first; if that fails, others at random.
                if attempt == 0 {
                    others().max_by_key(load).unwrap_or(self.index)
                } else {
                    self.rng.below(workers)
                }
            }
        }
    }

    fn steal_from(&self, victim: usize) -> Option<NonNull<Task>> {
        if !self.shared.steals() {
            return None;
        }
        let stealer = &self.shared.remotes[victim].stealer;
        // A lost race means that somebody else made progress; once more, then elsewhere.
        for _ in 0..2 {
            match stealer.steal_batch(&self.deque, STEAL_BATCH) {
                Steal::Task(task) => {
                    let hand = Hand::of(self, task);
                    self.events.came_from_elsewhere();
                    self.fault(Step::Steal);
                    self.announce_rest();
                    self.stats().stolen.bump();
                    // SAFETY: stolen, hence ours.
                    let id = unsafe { (*task.as_ptr()).id() };
                    self.note(EventKind::Steal, id, victim as u64);
                    return Some(hand.give());
                }
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
        None
    }

    /// Whether others woke tasks of this worker.
    fn has_mail(&self) -> bool {
        let remote = self.remote();
        !remote.inbox.is_empty() || !remote.mail.is_empty()
    }

    /// The last look before sleeping: every queue that this worker may take from.
    fn last_look(&self) -> bool {
        let shared = &self.shared;
        !shared.remotes[self.index].inbox.is_empty() || shared.work_waits()
    }

    /// Any task of any queue that this worker may take from; nothing is left out.
    fn pick_anywhere(&self) -> Option<NonNull<Task>> {
        self.pick().or_else(|| {
            (0..self.shared.span())
                .filter(|&other| other != self.index)
                .find_map(|other| self.steal_from(other).or_else(|| self.rescue_mail(other)))
        })
    }

    /// Takes the movable tasks that were woken for another worker, if there are any.
    fn rescue_mail(&self, other: usize) -> Option<NonNull<Task>> {
        let mail = &self.shared.remotes[other].mail;
        if mail.is_empty() {
            return None;
        }
        self.adopt(mail.rescue());
        self.deque.pop()
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
        let stays = self.last_look();
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
        let resting = &shared.remotes[self.index].presence.resting;
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
                    if shared.work_waits() {
                        shared.notify_any();
                    }
                }
                shared.bell.back_to_work(resting);
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
                    shared.bell.back_to_work(resting);
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
                    if searching.get() || self.has_mail() {
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
            if self.last_look() {
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
