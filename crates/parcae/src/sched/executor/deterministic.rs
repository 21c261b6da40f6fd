//! Virtual workers on one thread: the same seed gives the same run.
//!
//! At each step the seed chooses one of the workers that are awake, and that worker does
//! one step. What a step does depends only on the queues and on the worker's own random
//! numbers, which come from the same seed; time is the number of the step. So the whole
//! run is a function of seed, number of workers, configuration and program, as long as the
//! program asks nobody else: no clock, no other threads. When nobody can run, time jumps to
//! the next deadline. When there is none either, those who wait in vain are told so (`inspect`).

use crate::base::rng::Rng;
use crate::sched::Shared;
use crate::sched::worker::{self, Worker};
use crate::view::inspect::{self, OnDeadlock};
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// All virtual workers of a scheduler.
pub(crate) struct Conductor {
    shared: Arc<Shared>,
    /// At one address for good: strands refer to their worker by it.
    workers: Box<[Worker]>,
    rng: Rng,
    /// The thread that tasks run on. A started task must not move to another.
    thread: ThreadId,
}

// SAFETY: `run_until` refuses to run on another thread than the one that made it.
unsafe impl Send for Conductor {}

impl Conductor {
    pub(crate) fn new(shared: &Arc<Shared>, workers: Vec<Worker>) -> Conductor {
        let rng = Rng::new(shared.config.seed, 0);
        Conductor {
            shared: Arc::clone(shared),
            workers: workers.into(),
            rng,
            thread: thread::current().id(),
        }
    }

    /// Steps until `done` says so. Sleeps while nobody can run: only a foreign thread can
    /// change that, and it will wake us.
    pub(crate) fn run_until(&self, done: impl Fn() -> bool) {
        self.check_thread();
        let mut awake = Vec::with_capacity(self.workers.len());
        let mut reported = false;
        while !done() {
            self.shared.fire_timers();
            awake.clear();
            awake.extend(self.workers.iter().filter(|w| !self.shared.idle.is_asleep(w.index)));
            if awake.is_empty() {
                if self.shared.jump_to_next_deadline() {
                    continue;
                }
                if self.tell_deadlock(&mut reported) == 0 {
                    self.shared.conductor.park();
                }
                continue;
            }
            let worker: &Worker = awake[self.rng.below(awake.len())];
            if let Some(log) = &self.shared.log {
                log.advance();
            }
            // A scheduler may run inside of another's task.
            let before = worker::make_current(worker);
            worker.go();
            worker::make_current(before);
        }
    }

    /// Nobody can run, however much time passes: does what was asked for with tasks that wait in vain, and returns how many
    /// were told to end. The others may be woken by another thread.
    fn tell_deadlock(&self, reported: &mut bool) -> usize {
        let on = self.shared.config.on_deadlock;
        if on == OnDeadlock::Ignore || (on == OnDeadlock::Report && *reported) {
            return 0;
        }
        *reported = true;
        inspect::all_asleep(&self.shared).map_or(0, |found| inspect::act(&self.shared, found, on))
    }

    /// Steps until all tasks have ended, nobody can run, or it is too late; not on another thread than the one
    /// that made it.
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

    /// Whether nobody can run, however much time passes.
    pub(crate) fn is_stuck(&self) -> bool {
        self.workers.iter().all(|worker| self.shared.idle.is_asleep(worker.index))
            && !self.shared.has_deadlines()
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        // What was spawned runs to its end, as it does with threads. Tasks that wait for
        // ever keep their stacks for ever: nobody may free those without unwinding them.
        if thread::current().id() == self.thread && !thread::panicking() {
            self.run_until(|| self.shared.live() == 0 || self.is_stuck());
        }
    }
}
