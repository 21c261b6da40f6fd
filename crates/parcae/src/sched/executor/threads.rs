//! One OS thread for each worker.

use super::crew::{Crew, SendWorker};
use crate::sched::Shared;
use crate::sched::deque::Owner;
use crate::sched::task::Task;
use crate::sched::worker::{self, Worker};
use crate::view::sysmon;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The threads of a scheduler. Dropping it waits until all tasks have ended, unless it is
/// dropped by one of them.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    crew: Arc<Crew>,
    /// Of workers that are not temporary; empty once they were joined or given up.
    handles: Mutex<Vec<JoinHandle<()>>>,
    monitor: Mutex<Option<JoinHandle<()>>>,
    /// The monitor starts with the first task from outside.
    watched: Once,
    /// Somebody has waited long enough: the end does not wait again.
    given_up: AtomicBool,
}

/// How far a drain has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// All tasks have ended and all workers have left. So many calls that block were left behind.
    Ended {
        /// Calls that block.
        calls: usize,
    },
    /// The deadline has passed first.
    Late,
    /// The caller is one of those who would be waited for.
    Inside,
}

impl Threads {
    /// Starts a thread for each worker. Work that was submitted before is found: a worker
    /// looks at every queue before it first sleeps. The other deques are for temporary workers.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        workers: Vec<Worker>,
        temporary: Vec<Owner<Task>>,
    ) -> io::Result<Threads> {
        let threads = Threads {
            shared: Arc::clone(shared),
            crew: Crew::new(shared, temporary),
            handles: Mutex::default(),
            monitor: Mutex::default(),
            watched: Once::new(),
            given_up: AtomicBool::new(false),
        };
        for worker in workers {
            let name = format!("parcae-{}", worker.index);
            let (worker, crew) = (SendWorker(Box::new(worker)), Arc::clone(&threads.crew));
            threads.crew.expect_one();
            let run = move || {
                let worker = worker.open();
                crew.work(&worker);
                let index = worker.index;
                drop(worker);
                crew.leave(index);
            };
            match std::thread::Builder::new().name(name).spawn(run) {
                Ok(handle) => threads.handles().push(handle),
                Err(error) => {
                    threads.crew.expected_in_vain();
                    return Err(error); // drops `threads`, which stops those that have started
                }
            }
        }
        Ok(threads)
    }

    /// Makes sure that the workers are watched.
    pub(crate) fn watch(&self) {
        self.watched.call_once(|| {
            // Without a thread nobody watches: tasks run all the same.
            *self.monitor.lock().unwrap_or_else(PoisonError::into_inner) =
                sysmon::start(&self.crew).ok();
        });
    }

    fn handles(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends everything when all tasks have ended: workers, the monitor, threads for calls that block, timers.
    /// Without a deadline it takes as long as it takes. Nobody may come in any more: the gate is shut.
    ///
    /// What is late is left behind: its threads end by themselves, when their tasks do, and keep the memory that they
    /// use until then.
    pub(crate) fn drain(&self, deadline: Option<Instant>) -> Drained {
        if worker::current_of(&self.shared).is_some() {
            return Drained::Inside;
        }
        let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        // Whoever came in before the gate was shut is about to be out: a few instructions.
        while !self.shared.gate.is_empty() {
            if late() {
                return Drained::Late;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        self.shared.stop();
        let gone = self.crew.wait_until_gone(deadline);
        let handles = std::mem::take(&mut *self.handles());
        // Relaxed: whoever drops this comes after all callers.
        self.given_up.store(!gone, Ordering::Relaxed);
        if !gone {
            self.shared.blocking.stop();
            return Drained::Late;
        }
        for handle in handles {
            // A worker thread does not panic: its loop catches everything.
            let _ = handle.join();
        }
        self.shared.bell.stop();
        let monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(monitor) = monitor
            && monitor.thread().id() != std::thread::current().id()
        {
            let _ = monitor.join();
        }
        // One that the monitor started at the last moment has found nothing to do.
        self.crew.wait_until_gone(deadline);
        for handle in self.crew.take_handles() {
            let _ = handle.join();
        }
        let calls = self.shared.blocking.stop_and_wait(deadline);
        self.shared.watch.stop_and_join();
        Drained::Ended { calls }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.gate.shut();
        // Relaxed: see `drain`.
        if self.given_up.load(Ordering::Relaxed) || self.drain(None) == Drained::Inside {
            // What is left was given up. Or the last owner is one of the scheduler's own tasks, which cannot wait
            // for itself. The threads end when it and the other tasks have.
            self.shared.stop();
            self.shared.blocking.stop();
        }
    }
}
