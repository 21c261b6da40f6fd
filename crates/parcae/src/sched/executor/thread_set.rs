//! The threads of a scheduler, and temporary workers among them.
//!
//! # Temporary workers
//!
//! Every scheduler has slots for temporary workers behind those of its workers: a deque, an inbox,
//! a bit in the idle protocol. `RunQueues::active` is the number of slots that thieves look at;
//! the slots beyond it are empty.
//!
//! | slot | the worker is | left by |
//! |---|---|---|
//! | New | not made yet | the monitor: Starting |
//! | Starting | in the slot, for a thread that is about to fetch it | that thread: Busy; the monitor, if no thread could be started: Resting |
//! | Busy | on its thread | its thread, when it retires: Resting |
//! | Resting | in the slot, for the next time | the monitor: Starting |
//!
//! A worker that has retired is kept, because the ids of its tasks must not be used again.
//!
//! # Why retiring loses no work
//!
//! A temporary worker retires from its sleep (`Worker::sleep`): it is a sleeper with its bit set,
//! has checked every queue after that, and keeps no pinned task.
//!
//! 1. Its own queues are empty. It was the only one to fill its deque and private queues; its
//!    pinned inbox is for tasks that it keeps, of which there are none; the shared inbox of a
//!    temporary worker is never used.
//! 2. A thread that publishes work either chooses it before it takes its bit back; then it notices
//!    and stays. Or that thread does not find it, and chooses another sleeper if there is one, as
//!    if the worker had never been there. The count of sleepers may be one too high meanwhile, and
//!    a thread that fails to choose it may count as a searcher for a moment; that thread checks all
//!    sleepers again, behind a fence (`Idle::choose`).
//! 3. The number shrinks afterwards. Thieves that use the old value find an empty deque.
//!
//! The model `monitor::models::retire_against_submit` explores 2.

use crate::base::cpu;
use crate::sched::Shared;
use crate::sched::deque::DequeOwner;
use crate::sched::task::Task;
use crate::sched::worker::{self, Worker};
use crate::stack;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// The threads of a scheduler.
pub(crate) struct ThreadSet {
    shared: Arc<Shared>,
    state: Mutex<ThreadSetState>,
    /// A thread has left.
    changed: Condvar,
}

struct ThreadSetState {
    /// Threads that have not left; counted before they start.
    present: usize,
    temporary: Box<[TemporarySlot]>,
    /// Threads of temporary workers.
    handles: Vec<JoinHandle<()>>,
}

/// The slot of a temporary worker.
enum TemporarySlot {
    New(DequeOwner<Task>),
    Starting(Box<Worker>),
    Busy,
    Resting(Box<Worker>),
}

// SAFETY: a worker that does not run, and the deque of one that was not made, are in use by no
// thread; the thread that takes one out of its slot, under the lock, owns it.
unsafe impl Send for ThreadSetState {}

/// A worker on its way to its thread.
pub(super) struct SendWorker(pub(super) Box<Worker>);

// SAFETY: as above; from then on it stays on its thread.
unsafe impl Send for SendWorker {}

impl SendWorker {
    /// A method, because a closure captures only the fields that it names.
    pub(super) fn open(self) -> Box<Worker> {
        self.0
    }
}

impl ThreadSet {
    pub(super) fn new(shared: &Arc<Shared>, temporary: Vec<DequeOwner<Task>>) -> Arc<ThreadSet> {
        let temporary = temporary.into_iter().map(TemporarySlot::New).collect();
        let state = ThreadSetState { present: 0, temporary, handles: Vec::new() };
        let threads = Arc::new(ThreadSet {
            shared: Arc::clone(shared),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        shared.set_thread_set(&threads);
        threads
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn lock(&self) -> MutexGuard<'_, ThreadSetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is about to be started.
    pub(super) fn expect_one(&self) {
        self.lock().present += 1;
    }

    /// The thread could not be started.
    pub(super) fn expect_one_less(&self) {
        self.lock().present -= 1;
    }

    /// A worker's thread, from beginning to end.
    pub(super) fn work(&self, worker: &Worker) {
        let _listed = cpu::enter();
        let thread = &self.shared.remotes[worker.index].thread;
        // Without a signal stack an overflow is a plain fault, which is harder to read but no less
        // safe. And the thread is not probed: the handler would run on a task's stack.
        let armed = stack::arm_thread().is_ok();
        if let Some(signal) = self.shared.config.probe_signal {
            unblock_signal(signal);
        }
        // SAFETY: asks for a number.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
        {
            let _state = self.lock();
            thread.set_tid(tid, armed);
        }
        worker::make_current(worker);
        // A worker that has retired before is still marked as resting.
        self.shared.monitor.back_to_work(&thread.resting);
        worker.warm_up();
        worker.go();
        worker::make_current(std::ptr::null());
        self.shared.remotes[worker.index].poller.close();
    }

    /// The thread of this worker ends; the worker is not used any more.
    pub(super) fn leave(&self, index: usize) {
        self.leave_under(self.lock(), index);
    }

    fn leave_under(&self, mut state: MutexGuard<'_, ThreadSetState>, index: usize) {
        let thread = &self.shared.remotes[index].thread;
        thread.set_tid(0, false);
        thread.resting.begin();
        state.present -= 1;
        if state.present == 0 {
            // No worker is left to monitor, or to wake. `ThreadExecutor::drain` would do the same,
            // but it may not be running.
            self.shared.monitor.stop();
            drop(state);
            self.shared.timer_thread.stop();
            self.shared.signal_timer.stop();
        }
        self.changed.notify_all();
    }

    /// Waits until all threads have left, or the deadline has passed. Returns whether they have.
    pub(super) fn wait_until_gone(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.lock();
        while state.present > 0 {
            state = match deadline {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        true
    }

    /// The threads of temporary workers, to be joined.
    pub(super) fn take_handles(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.lock().handles)
    }

    /// Starts a temporary worker, if there is a slot for one.
    pub(crate) fn start_temporary(threads: &Arc<ThreadSet>) -> io::Result<()> {
        let workers = threads.shared.config.workers;
        let mut state = threads.lock();
        let Some(slot) = state.temporary.iter().position(|slot| !slot.is_taken()) else {
            return Ok(());
        };
        let worker = match std::mem::replace(&mut state.temporary[slot], TemporarySlot::Busy) {
            TemporarySlot::New(deque) => {
                Box::new(Worker::new(workers + slot, Arc::clone(&threads.shared), deque))
            }
            TemporarySlot::Resting(worker) => worker,
            TemporarySlot::Starting(_) | TemporarySlot::Busy => unreachable!("the slot is free"),
        };
        if let Err(error) = worker.ensure_spare() {
            state.temporary[slot] = TemporarySlot::Resting(worker);
            return Err(io::Error::other(error));
        }
        state.temporary[slot] = TemporarySlot::Starting(worker);
        state.present += 1;
        // Before the thread can put anything into its deque.
        threads.shared.queues.set_active(state.active_slots(workers));
        state.handles.retain(|handle| !handle.is_finished());
        let theirs = Arc::clone(threads);
        let name = format!("parcae-{}-temp", workers + slot);
        let run = move || theirs.work_temporarily(slot);
        match std::thread::Builder::new().name(name).spawn(run) {
            Ok(handle) => {
                state.handles.push(handle);
                Ok(())
            }
            Err(error) => {
                state.present -= 1;
                state.put_to_rest(slot);
                threads.shared.queues.set_active(state.active_slots(workers));
                Err(error)
            }
        }
    }

    fn work_temporarily(&self, slot: usize) {
        let fetched = std::mem::replace(&mut self.lock().temporary[slot], TemporarySlot::Busy);
        let TemporarySlot::Starting(worker) = fetched else {
            unreachable!("the slot is this thread's")
        };
        self.work(&worker);
        worker.trim();
        let mut state = self.lock();
        let index = worker.index;
        state.temporary[slot] = TemporarySlot::Resting(worker);
        self.shared.queues.set_active(state.active_slots(self.shared.config.workers));
        self.leave_under(state, index);
    }

    /// Calls `act` with the id of this worker's thread, if the thread may be probed by a signal.
    /// The thread does not end meanwhile.
    pub(crate) fn with_thread<R>(
        &self,
        slot: usize,
        act: impl FnOnce(i32) -> Option<R>,
    ) -> Option<R> {
        let _state = self.lock();
        act(self.shared.remotes[slot].thread.probeable()?)
    }
}

impl ThreadSetState {
    fn active_slots(&self, workers: usize) -> usize {
        let last = self.temporary.iter().rposition(TemporarySlot::is_taken);
        workers + last.map_or(0, |last| last + 1)
    }

    /// Takes back a worker whose thread could not be started.
    fn put_to_rest(&mut self, slot: usize) {
        if let TemporarySlot::Starting(worker) =
            std::mem::replace(&mut self.temporary[slot], TemporarySlot::Busy)
        {
            self.temporary[slot] = TemporarySlot::Resting(worker);
        }
    }
}

impl TemporarySlot {
    fn is_taken(&self) -> bool {
        matches!(self, TemporarySlot::Starting(_) | TemporarySlot::Busy)
    }
}

/// Unblocks a signal for this thread, so that the monitor can probe it.
fn unblock_signal(signal: i32) {
    // SAFETY: changes the mask of this thread, by a set that is made here.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}
