//! One OS thread for each worker.

use crate::sched::Shared;
use crate::stack;
use crate::worker::{self, Worker};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The threads of a scheduler. Dropping it waits until all tasks have ended, unless it is
/// dropped by one of them.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts a thread for each worker. Work that was submitted before is found: a worker
    /// looks at every queue before it first sleeps.
    pub(crate) fn start(shared: &Arc<Shared>, workers: Vec<Worker>) -> io::Result<Threads> {
        let mut threads = Threads { shared: Arc::clone(shared), handles: Vec::new() };
        for worker in workers {
            let worker = SendWorker(worker);
            let name = format!("parcae-{}", worker.0.index);
            // An error drops `threads`, which stops those that have started.
            let handle = std::thread::Builder::new().name(name).spawn(move || run(worker))?;
            threads.handles.push(handle);
        }
        Ok(threads)
    }
}

/// A worker on its way to its thread.
struct SendWorker(Worker);

// SAFETY: a worker that has not run is used by nobody; from then on it stays on its thread.
unsafe impl Send for SendWorker {}

fn run(worker: SendWorker) {
    // From here on at one address: strands refer to their worker by it.
    let worker = &worker.0;
    // Without a signal stack an overflow is a plain fault: worse to read, not worse.
    let _ = stack::arm_thread();
    worker::make_current(worker);
    worker.go();
    worker::make_current(std::ptr::null());
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop();
        if worker::current_of(&self.shared).is_some() {
            // The last owner is one of the scheduler's own tasks. It cannot wait for itself:
            // the threads end when it and the other tasks have.
            self.shared.blocking.stop(false);
            return;
        }
        for handle in self.handles.drain(..) {
            // A worker thread does not panic: its loop catches everything.
            let _ = handle.join();
        }
        self.shared.blocking.stop(true);
        self.shared.watch.stop_and_join();
    }
}
