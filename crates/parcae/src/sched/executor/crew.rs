//! Who is at work: the threads of a scheduler, and temporary workers among them.
//!
//! # Temporary workers
//!
//! Every scheduler has slots for a number of them behind those of its workers: a deque, an inbox, a bit in the idle
//! protocol. `Shared::span` says how many slots are to be looked at by thieves; beyond it all is empty.
//!
//! | slot | the worker is | left by |
//! |---|---|---|
//! | New | not made yet | the monitor: Starting |
//! | Starting | here, for a thread that is about to fetch it | that thread: Busy; the monitor, if there is no thread: Resting |
//! | Busy | on its thread | its thread, when it retires: Resting |
//! | Resting | here, for the next time | the monitor: Starting |
//!
//! A worker that has retired is kept, because the ids of its tasks must not come again.
//!
//! # Why retiring loses no work
//!
//! A temporary worker retires from its sleep (`Worker::sleep`): it is a sleeper with its bit set, has looked at every
//! queue after that, and keeps no task that may not move.
//!
//! 1. Its own queues are empty: it was the only one to put something into its deque and private queues; the inbox is for
//!    tasks that it keeps, of which there are none; the shared inbox of temporary workers is never used.
//! 2. Whoever publishes work either chooses it before it takes its bit back: then it notices and stays. Or it does not find
//!    it, and chooses another sleeper if there is one: as if it had never been there. The count of sleepers may be one too
//!    high meanwhile, and one who tries to choose it may count as a searcher for a moment: whoever that was looks at all sleepers
//!    again, behind a fence (`Idle::choose`).
//! 3. The span shrinks afterwards. Thieves that use the old one find an empty deque.
//!
//! The model `sysmon::models::retire_against_submit` explores 2.

use crate::sched::Shared;
use crate::sched::deque::Owner;
use crate::sched::task::Task;
use crate::sched::worker::{self, Worker};
use crate::stack;
use crate::stack::frames::Frames;
use crate::view::sysmon::{Pinned, ThreadState, ask, on_cpu, thread_state};
use crate::view::sysmon::{Seen, StallKind, StallReport, admit_signal};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The threads of a scheduler.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// A thread has left.
    changed: Condvar,
}

struct State {
    /// Threads that have not left; counted before they start.
    present: usize,
    temporary: Box<[Slot]>,
    /// Of temporary workers.
    handles: Vec<JoinHandle<()>>,
}

/// The place of a temporary worker.
enum Slot {
    New(Owner<Task>),
    Starting(Box<Worker>),
    Busy,
    Resting(Box<Worker>),
}

// SAFETY: a worker that does not run, and the deque of one that was not made, are used by nobody; whoever takes
// one out of its slot, under the lock, has it alone.
unsafe impl Send for State {}

/// A worker on its way to its thread.
pub(super) struct SendWorker(pub(super) Box<Worker>);

// SAFETY: as above; from then on it stays on its thread.
unsafe impl Send for SendWorker {}

impl SendWorker {
    /// Not by field: a closure takes along only the fields that it names.
    pub(super) fn open(self) -> Box<Worker> {
        self.0
    }
}

impl Crew {
    pub(super) fn new(shared: &Arc<Shared>, temporary: Vec<Owner<Task>>) -> Arc<Crew> {
        let temporary = temporary.into_iter().map(Slot::New).collect();
        let state = State { present: 0, temporary, handles: Vec::new() };
        let crew = Arc::new(Crew {
            shared: Arc::clone(shared),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        shared.set_crew(&crew);
        crew
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is about to be started.
    pub(super) fn expect_one(&self) {
        self.lock().present += 1;
    }

    /// It could not be started.
    pub(super) fn expected_in_vain(&self) {
        self.lock().present -= 1;
    }

    /// A worker's thread, from beginning to end.
    pub(super) fn work(&self, worker: &Worker) {
        let presence = &self.shared.remotes[worker.index].presence;
        // Without a signal stack an overflow is a plain fault: worse to read, not worse. And the thread is not
        // asked where it is: the handler would run on a task's stack.
        let armed = stack::arm_thread().is_ok();
        if let Some(signal) = self.shared.config.monitor.signal {
            admit_signal(signal);
        }
        // SAFETY: asks for a number.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
        {
            let _state = self.lock();
            presence.set_tid(tid, armed);
        }
        worker::make_current(worker);
        // One that has retired before is still marked as resting.
        self.shared.bell.back_to_work(&presence.resting);
        worker.go();
        worker::make_current(std::ptr::null());
    }

    /// The thread of this worker, which is not used any more, ends.
    pub(super) fn leave(&self, index: usize) {
        self.leave_under(self.lock(), index);
    }

    fn leave_under(&self, mut state: MutexGuard<'_, State>, index: usize) {
        let presence = &self.shared.remotes[index].presence;
        presence.set_tid(0, false);
        presence.resting.begin();
        state.present -= 1;
        if state.present == 0 {
            // Nobody is left to be watched, or to be woken. Whoever waits for this thread would do the same; but
            // perhaps nobody does.
            self.shared.bell.stop();
            drop(state);
            self.shared.watch.stop();
        }
        self.changed.notify_all();
    }

    /// Waits until all threads have left, or the deadline has passed. Says whether they have.
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
    pub(crate) fn start_temporary(crew: &Arc<Crew>) -> io::Result<()> {
        let workers = crew.shared.config.workers;
        let mut state = crew.lock();
        let Some(slot) = state.temporary.iter().position(|slot| !slot.is_taken()) else {
            return Ok(());
        };
        let worker = match std::mem::replace(&mut state.temporary[slot], Slot::Busy) {
            Slot::New(deque) => {
                Box::new(Worker::new(workers + slot, Arc::clone(&crew.shared), deque))
            }
            Slot::Resting(worker) => worker,
            Slot::Starting(_) | Slot::Busy => unreachable!("the slot is free"),
        };
        if let Err(error) = worker.ensure_spare() {
            state.temporary[slot] = Slot::Resting(worker);
            return Err(io::Error::other(error));
        }
        state.temporary[slot] = Slot::Starting(worker);
        state.present += 1;
        // Before the thread can put anything into its deque.
        crew.shared.queues.set_active(state.span(workers));
        state.handles.retain(|handle| !handle.is_finished());
        let theirs = Arc::clone(crew);
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
                crew.shared.queues.set_active(state.span(workers));
                Err(error)
            }
        }
    }

    fn work_temporarily(&self, slot: usize) {
        let fetched = std::mem::replace(&mut self.lock().temporary[slot], Slot::Busy);
        let Slot::Starting(worker) = fetched else { unreachable!("the slot is this thread's") };
        self.work(&worker);
        worker.trim();
        let mut state = self.lock();
        let index = worker.index;
        state.temporary[slot] = Slot::Resting(worker);
        self.shared.queues.set_active(state.span(self.shared.config.workers));
        self.leave_under(state, index);
    }

    // ----- looking at workers -------------------------------------------------------------

    /// Whether the thread of this worker sleeps in the kernel.
    pub(crate) fn is_blocked(&self, slot: usize) -> bool {
        let tid = self.shared.remotes[slot].presence.tid();
        tid != 0 && thread_state(tid) == Some(ThreadState::Blocked)
    }

    /// How long the thread of this worker has been on a processor.
    pub(crate) fn on_cpu(&self, slot: usize) -> Option<Duration> {
        let tid = self.shared.remotes[slot].presence.tid();
        if tid == 0 { None } else { on_cpu(tid) }
    }

    /// Asks a worker where it is. None if it is not there, cannot be asked, or does not answer.
    pub(crate) fn ask(&self, slot: usize) -> Option<Seen> {
        // Locked, so that the thread stays until it has answered.
        let _state = self.lock();
        let presence = &self.shared.remotes[slot].presence;
        ask(presence.askable()?, self.shared.config.monitor.signal?)
    }

    /// Asks every worker that runs a task, but the one that asks.
    pub(crate) fn running(&self) -> Vec<(usize, Seen)> {
        let own = worker::current_of(&self.shared).map(|worker| worker.index);
        let others = (0..self.shared.span()).filter(|&slot| Some(slot) != own);
        let busy = others.filter(|&slot| !self.shared.remotes[slot].presence.rests());
        busy.filter_map(|slot| self.ask(slot).map(|seen| (slot, seen))).collect()
    }

    /// What there is to say about a worker that has had this pulse for so long. None if it has moved on.
    pub(crate) fn examine(
        &self,
        slot: usize,
        pulse: u64,
        age: Duration,
        on_cpu_before: Option<Duration>,
    ) -> Option<StallReport> {
        let remote = &self.shared.remotes[slot];
        // Before it is asked, which interrupts what it does.
        let kind = match thread_state(remote.presence.tid()) {
            Some(ThreadState::Blocked) => StallKind::Blocked,
            Some(ThreadState::Runs) => {
                let used = on_cpu_before.zip(self.on_cpu(slot));
                let used = used.map(|(before, now)| now.saturating_sub(before));
                // A tenth: less than a fair share among as many threads as a busy machine has.
                let starved = used.is_some_and(|used| used < age / 10);
                if starved { StallKind::Starved } else { StallKind::Computing }
            }
            None => StallKind::Unknown,
        };
        let seen = self.ask(slot);
        let sight = match &seen {
            Some(Seen { pulse, task: Some(_), .. }) => Sight::InTask { pulse: *pulse },
            Some(seen) => Sight::Elsewhere { pulse: seen.pulse },
            None => Sight::Unasked { pulse: remote.stats.pulse() },
        };
        if !sight.shows_stall(pulse, remote.presence.rests()) {
            return None;
        }
        let pinned =
            if self.shared.queues.has_pinned(slot) { Pinned::Waiting } else { Pinned::None };
        let frames = seen.as_ref().map_or_else(Frames::default, Seen::frames);
        let task = seen.and_then(|seen| seen.task);
        Some(StallReport {
            worker: slot,
            task,
            still_for: age,
            kind,
            stealable_behind: self.shared.queues.stealable(slot),
            pinned_behind: pinned,
            frames,
        })
    }
}

/// What was seen of a worker that is said to be stuck, with what it had counted then.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sight {
    /// It answered inside of a task.
    InTask { pulse: u64 },
    /// It answered, but not inside of a task.
    Elsewhere { pulse: u64 },
    /// It could not be asked, or has not answered.
    Unasked { pulse: u64 },
}

impl Sight {
    /// Whether the worker was stuck since it had counted `since`; `rests` is what it does now.
    ///
    /// The question ends calls that the system does not restart (`nanosleep`, `poll`): the worker
    /// may be done with the task, and rest, before the report is made. What it has answered inside
    /// of the task counts all the same.
    pub(crate) fn shows_stall(self, since: u64, rests: bool) -> bool {
        match self {
            Sight::InTask { pulse } => pulse == since,
            Sight::Elsewhere { pulse } | Sight::Unasked { pulse } => pulse == since && !rests,
        }
    }
}

impl State {
    fn span(&self, workers: usize) -> usize {
        let last = self.temporary.iter().rposition(Slot::is_taken);
        workers + last.map_or(0, |last| last + 1)
    }

    /// Takes back a worker whose thread could not be started.
    fn put_to_rest(&mut self, slot: usize) {
        if let Slot::Starting(worker) = std::mem::replace(&mut self.temporary[slot], Slot::Busy) {
            self.temporary[slot] = Slot::Resting(worker);
        }
    }
}

impl Slot {
    fn is_taken(&self) -> bool {
        matches!(self, Slot::Starting(_) | Slot::Busy)
    }
}
