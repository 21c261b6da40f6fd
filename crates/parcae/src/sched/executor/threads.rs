//! One OS thread for each worker.

use super::thread_set::{SendWorker, ThreadSet};
use crate::sched::Shared;
use crate::sched::deque::DequeOwner;
use crate::sched::task::Task;
use crate::sched::worker::{self, Worker};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The threads of a scheduler. Dropping it waits until all tasks have ended, unless it is
/// dropped by one of them.
pub(crate) struct ThreadExecutor {
    shared: Arc<Shared>,
    set: Arc<ThreadSet>,
    /// Threads of workers that are not temporary; empty once they were joined or given up.
    handles: Mutex<Vec<JoinHandle<()>>>,
    monitor: Mutex<Option<JoinHandle<()>>>,
    /// The monitor starts with the first task from outside.
    monitored: Once,
    /// A drain has timed out: dropping does not wait again.
    given_up: AtomicBool,
}

/// Result of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// All tasks have ended and all workers have left.
    Ended {
        /// Blocking calls that were left behind.
        calls: usize,
    },
    /// The deadline has passed first.
    Late,
    /// The caller is a task of this scheduler, which would wait for itself.
    Inside,
}

impl ThreadExecutor {
    /// Starts a thread for each worker. Work that was submitted before is found: a worker
    /// looks at every queue before it first sleeps. The other deques are for temporary workers.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        workers: Vec<Worker>,
        temporary: Vec<DequeOwner<Task>>,
    ) -> io::Result<ThreadExecutor> {
        let threads = ThreadExecutor {
            shared: Arc::clone(shared),
            set: ThreadSet::new(shared, temporary),
            handles: Mutex::default(),
            monitor: Mutex::default(),
            monitored: Once::new(),
            given_up: AtomicBool::new(false),
        };
        for worker in workers {
            let name = format!("parcae-{}", worker.index);
            let (worker, set) = (SendWorker(Box::new(worker)), Arc::clone(&threads.set));
            threads.set.expect_one();
            let run = move || {
                let worker = worker.open();
                set.work(&worker);
                let index = worker.index;
                drop(worker);
                set.leave(index);
            };
            match std::thread::Builder::new().name(name).spawn(run) {
                Ok(handle) => threads.handles().push(handle),
                Err(error) => {
                    threads.set.expect_one_less();
                    return Err(error); // drops `threads`, which stops those that have started
                }
            }
        }
        Ok(threads)
    }

    /// Starts the monitor, unless it was started before.
    pub(crate) fn monitor(&self) {
        self.monitored.call_once(|| {
            // If the thread cannot be started there is no monitor, and tasks run nevertheless.
            *self.monitor.lock().unwrap_or_else(PoisonError::into_inner) =
                self.shared.host.start_monitor(&self.set).ok();
        });
    }

    fn handles(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all tasks have ended, then ends the workers, the monitor, the threads of
    /// blocking calls and the timer thread. Waits for ever without a deadline. The gate is shut, so
    /// no task comes in meanwhile.
    ///
    /// Threads that are late are left behind: they end by themselves, when their tasks do,
    /// and keep the memory that they use until then.
    pub(crate) fn drain(&self, deadline: Option<Instant>) -> Drained {
        if worker::is_current_of(&self.shared) {
            return Drained::Inside;
        }
        let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        // A spawner that came in before the gate was shut leaves after a few instructions.
        while !self.shared.gate.is_empty() {
            if late() {
                return Drained::Late;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        self.shared.stop();
        let gone = self.set.wait_until_gone(deadline);
        let handles = std::mem::take(&mut *self.handles());
        // Relaxed: the drop of this is ordered after all calls.
        self.given_up.store(!gone, Ordering::Relaxed);
        if !gone {
            self.shared.host.stop();
            return Drained::Late;
        }
        for handle in handles {
            // A worker thread does not panic: its loop catches everything.
            let _ = handle.join();
        }
        self.shared.monitor.stop();
        let monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(monitor) = monitor
            && monitor.thread().id() != std::thread::current().id()
        {
            let _ = monitor.join();
        }
        // A worker that the monitor started at the last moment has found nothing to do.
        self.set.wait_until_gone(deadline);
        for handle in self.set.take_handles() {
            let _ = handle.join();
        }
        let calls = self.shared.host.stop_and_wait(deadline);
        self.shared.timer_thread.stop_and_join();
        self.shared.signal_timer.stop_and_join();
        Drained::Ended { calls }
    }
}

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        self.shared.gate.shut();
        // Relaxed: see `drain`.
        if self.given_up.load(Ordering::Relaxed) || self.drain(None) == Drained::Inside {
            // The remaining threads were given up. Or the last owner is a task of this scheduler,
            // which cannot wait for itself. The threads end when all tasks have ended.
            self.shared.stop();
            self.shared.host.stop();
        }
    }
}
