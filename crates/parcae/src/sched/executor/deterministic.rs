//! Virtual workers on one thread: the same seed gives the same run.
//!
//! At each step the seed chooses one of the workers that are awake, and that worker does
//! one step. A step depends only on the queues and on the worker's own random numbers, which come
//! from the same seed; time is the number of the step. So the whole run is a function of seed,
//! number of workers, configuration and program, as long as the program uses no clock and no other
//! threads. When no task can run, time jumps to the next deadline. Without a deadline the tasks are
//! deadlocked, and the host ends their waits (`view::inspect`).

use crate::base::rng::Rng;
use crate::sched::Shared;
use crate::sched::lab::{Lab, LabState, Trouble};
use crate::sched::worker::{self, Worker};
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// Steps by which a timer is late, if the lab makes it so.
const LATE: u64 = 10_000;

/// All virtual workers of a scheduler.
pub(crate) struct Conductor {
    shared: Arc<Shared>,
    /// Boxed, because strands refer to their worker by its address.
    workers: Box<[Worker]>,
    rng: Rng,
    /// The thread that tasks run on. A started task must not move to another.
    thread: ThreadId,
}

// SAFETY: `run_until` refuses to run on another thread than the one that made it.
unsafe impl Send for Conductor {}

impl Conductor {
    pub(crate) fn new(shared: &Arc<Shared>, workers: Vec<Worker>) -> Conductor {
        let rng = Rng::new(shared.seed(), 0);
        Conductor {
            shared: Arc::clone(shared),
            workers: workers.into(),
            rng,
            thread: thread::current().id(),
        }
    }

    /// References to the scheduler: its own, and one for each worker.
    pub(crate) fn references(&self) -> usize {
        1 + self.workers.len()
    }

    /// Whether nothing of a task is left, and the caller is on the right thread.
    pub(crate) fn is_clean(&self) -> bool {
        thread::current().id() == self.thread && self.workers.iter().all(Worker::is_clean)
    }

    /// As new, with this seed. It is [clean](Conductor::is_clean).
    pub(crate) fn reset(&mut self, seed: u64) {
        let Conductor { shared: _, workers, rng, thread: _ } = self;
        *rng = Rng::new(seed, 0);
        workers.iter_mut().for_each(|worker| worker.reset(seed));
    }

    /// Steps until `done` returns true. Sleeps while no task can run: only a foreign thread can
    /// change that, and it unparks the conductor.
    pub(crate) fn run_until(&self, done: impl Fn() -> bool) {
        self.check_thread();
        if let Some(lab) = self.bare_lab() {
            return self.run_bare(lab, done);
        }
        let mut awake = Vec::with_capacity(self.workers.len());
        let (mut stuck, mut jumps) = (0, 0_u64);
        let lab = self.shared.lab.as_deref();
        while !done() {
            self.fire_timers();
            self.shared.tick();
            awake.clear();
            awake.extend(self.workers.iter().filter(|w| !self.shared.idle.is_asleep(w.index)));
            if awake.is_empty() {
                if self.shared.has_deadlines()
                    && lab.is_some_and(|l| self.is_partly_stuck(l, jumps))
                {
                    continue;
                }
                if self.shared.jump_to_next_deadline() {
                    jumps += 1;
                    lab.iter().for_each(|lab| self.tell_time(lab));
                    continue;
                }
                self.tell_deadlock();
                if self.shared.host.all_asleep(&self.shared, stuck) == 0 {
                    self.shared.conductor.park();
                }
                stuck += 1;
                continue;
            }
            if lab.is_some_and(|lab| self.stalls(&mut lab.lock())) {
                self.shared.jump_to_next_deadline();
                continue;
            }
            let worker: &Worker = awake[self.choose(awake.len())];
            let ticks = self.shared.lab.as_ref().is_none_or(|lab| lab.lock().ticks());
            if ticks && let Some(log) = &self.shared.log {
                log.advance();
            }
            go(worker);
            self.stop_if_told();
        }
    }

    /// Acts on the deadlines that have passed. In the lab, those of one instant come in any order.
    fn fire_timers(&self) {
        match &self.shared.lab {
            Some(lab) if !lab.lock().ticks() => {
                self.shared.fire_timers_by(|due| lab.lock().executor_number(due));
            }
            _ => self.shared.fire_timers(),
        }
    }

    /// Time has jumped to a deadline, because no task was ready. The lab may let it be late.
    fn tell_time(&self, lab: &Lab) {
        let mut state = lab.lock();
        if state.is_late()
            && let Some(log) = &self.shared.log
        {
            log.advance_to(log.now() + LATE);
        }
        state.is_now(self.shared.now());
    }

    /// Whether time passes although a task is ready.
    fn stalls(&self, state: &mut LabState) -> bool {
        state.may_stall() && self.shared.has_deadlines() && state.stalls()
    }

    /// Tells the lab that all tasks wait, and for nothing.
    fn tell_deadlock(&self) {
        let Some(lab) = &self.shared.lab else { return };
        let mut state = lab.lock();
        if !state.ticks() {
            self.workers[0].tell_events(&mut state);
            state.has(Trouble::Deadlock);
        }
    }

    /// A number below `below`: from the lab, or the seed.
    fn choose(&self, below: usize) -> usize {
        match &self.shared.lab {
            Some(lab) => lab.lock().executor_number(below),
            None => self.rng.below(below),
        }
    }

    /// The lab, if it chooses tasks one by one.
    fn bare_lab(&self) -> Option<&Lab> {
        self.shared.lab.as_deref().filter(|lab| lab.is_bare())
    }

    /// As [`run_until`](Conductor::run_until), with one worker whose next task the lab chooses.
    ///
    /// Time stands still while a task is ready, except in a schedule that has passed its limit.
    /// When no task is ready, time jumps to the next deadline. Without one the tasks are
    /// deadlocked, unless one of them waits for another thread by its own account.
    fn run_bare(&self, lab: &Lab, done: impl Fn() -> bool) {
        let worker = &self.workers[0];
        let (mut stuck, mut jumps) = (0, 0_u64);
        while !done() {
            self.shared.tick();
            let (next, is_fair, must_stop, recording) = {
                let mut state = lab.lock();
                worker.tell_ready(&mut state);
                worker.tell_events(&mut state);
                if !state.has_none_ready() && self.stalls(&mut state) {
                    drop(state);
                    self.shared.jump_to_next_deadline();
                    self.shared.fire_timers();
                    continue;
                }
                let next = state.pick();
                (next, state.is_fair(), state.must_stop(), state.recorder().is_some())
            };
            if recording {
                lab.dump_if_due();
            }
            if must_stop {
                self.shared.host.abandon(&self.shared);
            }
            if let Some(task) = next {
                if is_fair && let Some(log) = &self.shared.log {
                    log.advance();
                }
                // A scheduler may run inside of a task of another scheduler.
                let before = worker::make_current(worker);
                worker.run_chosen(task);
                worker::make_current(before);
                if is_fair {
                    self.shared.fire_timers();
                }
                continue;
            }
            if self.shared.has_deadlines() && self.is_partly_stuck(lab, jumps) {
                continue;
            }
            if self.shared.jump_to_next_deadline() {
                jumps += 1;
                self.tell_time(lab);
                self.fire_timers();
                continue;
            }
            lab.lock().has(Trouble::Deadlock);
            if self.shared.host.all_asleep(&self.shared, stuck) == 0 {
                self.shared.conductor.park();
            }
            stuck += 1;
        }
    }

    /// No task is ready, and time is about to pass: whether some tasks wait for each other, so that
    /// no passing of time helps them. Their waits then fail. A look at all tasks takes long, so it
    /// becomes rare when time passes often; a deadlock stays.
    fn is_partly_stuck(&self, lab: &Lab, jumps: u64) -> bool {
        if jumps >= 8 && !jumps.is_power_of_two() || !lab.lock().looks_for_cycles() {
            return false;
        }
        let told = self.shared.host.some_asleep(&self.shared) > 0;
        if told {
            let mut state = lab.lock();
            self.workers[0].tell_events(&mut state);
            state.has(Trouble::Deadlock);
        }
        told
    }

    /// Cancels all tasks, if the lab says that they go on for ever.
    fn stop_if_told(&self) {
        let told = self.shared.lab.as_ref().is_some_and(|lab| lab.lock().must_stop());
        if told {
            self.shared.host.abandon(&self.shared);
        }
    }

    /// Steps until all tasks have ended, no task can run, or it is too late; only on the thread
    /// that made the conductor.
    pub(crate) fn drain(&self, late: impl Fn() -> bool) {
        if thread::current().id() == self.thread {
            self.run_until(|| self.shared.live() == 0 || self.is_stuck() || late());
        }
    }

    /// Panics on another thread than the one that made the scheduler.
    pub(crate) fn check_thread(&self) {
        assert!(
            thread::current().id() == self.thread,
            "a deterministic runtime runs on the thread that built it"
        );
    }

    /// Whether no task can run, and no deadline is left.
    pub(crate) fn is_stuck(&self) -> bool {
        if let Some(lab) = self.bare_lab() {
            let mut state = lab.lock();
            self.workers[0].tell_ready(&mut state);
            return state.has_none_ready() && !self.shared.has_deadlines();
        }
        self.workers.iter().all(|worker| self.shared.idle.is_asleep(worker.index))
            && !self.shared.has_deadlines()
    }
}

/// One step of a worker, on this thread's own stack.
fn go(worker: &Worker) {
    // A scheduler may run inside of a task of another scheduler.
    let before = worker::make_current(worker);
    worker.go();
    worker::make_current(before);
}

impl Drop for Conductor {
    fn drop(&mut self) {
        // Spawned tasks run to their end, as they do with threads. Tasks that wait for ever keep
        // their stacks: freeing a stack without unwinding it would be unsound.
        if thread::current().id() == self.thread && !thread::panicking() {
            self.run_until(|| self.shared.live() == 0 || self.is_stuck());
        }
    }
}
