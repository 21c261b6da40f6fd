//! Calls that block the thread they run on, on threads of their own.
//!
//! A worker that is blocked by one task runs no other. So a task hands such a call to a pool of threads, and
//! parks until it has ended. The pool belongs to the scheduler: its threads start when they are needed,
//! up to a limit, retire when they have had nothing to do for a while, and end with the scheduler.
//!
//! # Bounds
//!
//! `room` has a permit for every call that may run or be queued. A task takes one before it submits, and
//! waits if there is none, so the queue has a bound, and never grows: its memory was
//! set aside beforehand, and nothing is allocated under its lock.
//!
//! # Cancelling
//!
//! A call that has begun cannot be interrupted. What it borrows has to stay, so its task waits until it has
//! ended, whoever asks it to end meanwhile: [`blocking`] is a cancel point as long as the call is queued, and takes it out of
//! the queue then; afterwards it is none, and gives the call's result. Whether a call was begun is
//! decided under the lock of the queue, by who takes it out first.
//! [`blocking_static`] is for calls that may take long: it demands that the call borrows nothing, and leaves it
//! behind when the task is cancelled.

use crate::cx;
use crate::error::{Error, Result};
use crate::sync::{Semaphore, park};
use crate::wait::{Deadline, Waiter, Why};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// How large the pool may get.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most threads.
    pub threads: usize,
    /// The most calls that wait for a thread.
    pub queue: usize,
    /// How long a thread waits for work before it retires.
    pub idle: Duration,
}

impl Default for Limits {
    /// Blocking calls wait for disks and others' locks, not for processors: more threads than processors, but
    /// no more than a system gives without being asked.
    fn default() -> Limits {
        Limits { threads: 128, queue: 1024, idle: Duration::from_secs(10) }
    }
}

/// The threads of a scheduler for calls that block.
pub(crate) struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    limits: Limits,
    room: Semaphore,
    state: Mutex<State>,
    /// There is work, or the threads are to end.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    next_id: u64,
    idle: usize,
    threads: usize,
    handles: HashMap<ThreadId, JoinHandle<()>>,
    stopping: bool,
}

type Call = Box<dyn FnOnce() + Send>;

struct Job {
    id: u64,
    call: Call,
    room: Room,
}

/// A permit of `room`, which comes back when the call has ended or was taken back.
struct Room(Arc<Inner>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.room.add(1);
    }
}

impl Job {
    fn run(self) {
        let Job { call, room, .. } = self;
        // The call catches its own panics; what is caught here comes from dropping a result that nobody wants.
        let _ = catch_unwind(AssertUnwindSafe(call));
        drop(room);
    }
}

impl Pool {
    pub(crate) fn new(limits: Limits) -> Pool {
        let limits = Limits { threads: limits.threads.max(1), ..limits };
        let room = Semaphore::new(limits.threads.saturating_add(limits.queue));
        let inner = Inner { limits, room, state: Mutex::default(), changed: Condvar::new() };
        Pool { inner: Arc::new(inner) }
    }

    /// Threads there are, at this moment.
    #[cfg(test)]
    fn threads(&self) -> usize {
        self.inner.lock().threads
    }

    /// Ends the threads when they have done what is queued.
    pub(crate) fn stop(&self) {
        drop(self.begin_stop());
    }

    fn begin_stop(&self) -> HashMap<ThreadId, JoinHandle<()>> {
        let mut state = self.inner.lock();
        state.stopping = true;
        self.inner.changed.notify_all();
        std::mem::take(&mut state.handles)
    }

    /// The same, and waits for them; those that are late are left behind. Says how many.
    pub(crate) fn stop_and_wait(&self, deadline: Option<Instant>) -> usize {
        let handles = self.begin_stop();
        if let Some(deadline) = deadline {
            let mut state = self.inner.lock();
            while state.threads > 0 {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return state.threads;
                }
                let waited = self.inner.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        for (id, handle) in handles {
            if id != thread::current().id() {
                let _ = handle.join();
            }
        }
        0
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a call.
    fn room(self: &Arc<Inner>) -> Result<Room> {
        self.room.acquire()?.forget();
        Ok(Room(Arc::clone(self)))
    }

    /// Queues a call, for which the caller has room, and makes sure that somebody takes it.
    fn submit(self: &Arc<Inner>, call: Call, room: Room) -> u64 {
        let mut state = self.lock();
        if state.queue.capacity() == 0 {
            // Once, and not under the lock: a task that is out of memory waits in the allocator.
            drop(state);
            let queue = VecDeque::with_capacity(self.limits.threads + self.limits.queue);
            state = self.lock();
            if state.queue.capacity() == 0 {
                state.queue = queue;
            }
        }
        let id = state.next_id;
        state.next_id += 1;
        state.queue.push_back(Job { id, call, room });
        let start = state.queue.len() > state.idle && state.threads < self.limits.threads;
        state.threads += usize::from(start);
        drop(state);
        self.changed.notify_one();
        if start {
            self.start();
        }
        id
    }

    /// Takes a call out of the queue that nobody has begun.
    fn withdraw(&self, id: u64) -> Option<Job> {
        let mut state = self.lock();
        let index = state.queue.iter().position(|job| job.id == id)?;
        state.queue.remove(index)
    }

    fn start(self: &Arc<Inner>) {
        let pool = Arc::clone(self);
        let named = thread::Builder::new().name("parcae-blocking".into());
        match named.spawn(move || pool.work()) {
            Ok(handle) => {
                self.lock().handles.insert(handle.thread().id(), handle);
            }
            Err(_) => {
                // No thread to be had. If others are there they will do it; otherwise it is done here.
                let jobs: VecDeque<Job> = {
                    let mut state = self.lock();
                    state.threads -= 1;
                    if state.threads > 0 {
                        VecDeque::new()
                    } else {
                        state.queue.drain(..).collect()
                    }
                };
                jobs.into_iter().for_each(Job::run);
            }
        }
    }

    /// A thread of the pool, until it retires.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                job.run();
                state = self.lock();
                continue;
            }
            if state.stopping {
                break;
            }
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, self.limits.idle);
            let (now, ended) = waited.unwrap_or_else(PoisonError::into_inner);
            state = now;
            state.idle -= 1;
            if ended.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        if state.stopping {
            self.changed.notify_all(); // somebody may wait for the last one
        }
        let own = state.handles.remove(&thread::current().id());
        drop(state);
        drop(own);
    }
}

/// Where a call leaves its result.
struct Slot<R> {
    state: Mutex<Option<thread::Result<R>>>,
    waiter: Waiter,
}

impl<R: Send> Slot<R> {
    /// A slot, and what fills it.
    fn for_call<'c>(
        call: impl FnOnce() -> R + Send + 'c,
    ) -> (Arc<Slot<R>>, Box<dyn FnOnce() + Send + 'c>)
    where
        R: 'c,
    {
        let slot = Arc::new(Slot { state: Mutex::new(None), waiter: Waiter::current() });
        let theirs = Arc::clone(&slot);
        (slot, Box::new(move || theirs.set(catch_unwind(AssertUnwindSafe(call)))))
    }
}

impl<R> Slot<R> {
    fn take(&self) -> Option<thread::Result<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, result: thread::Result<R>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.waiter.wake();
    }
}

/// The pool of the running task; none where the call is done in place.
fn pool() -> Option<Arc<Inner>> {
    let shared = &cx::current()?.terms().shared;
    let in_place = shared.config.deterministic || std::thread::panicking();
    (!in_place).then(|| Arc::clone(&shared.blocking.inner))
}

fn in_place<R>(call: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(call)).map_err(Error::from_panic)
}

/// Runs a call that blocks its thread, on a thread that is meant for that. The task is parked meanwhile, and its
/// worker runs others.
///
/// The call may borrow. Therefore it is waited for once it has begun, also when the task is cancelled: then its
/// result is returned all the same, and the next cancel point notices. While all threads of the pool are
/// busy the call is queued, and this is a cancel point; a call that was cancelled in the queue is not made.
///
/// On a thread that runs no task the call is simply made. Under the deterministic executor too, because
/// other threads would make runs differ: all tasks stand still meanwhile, and the call must not wait for any
/// of them.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let path = String::from("/proc/self/status");
/// let text = rt.run(|_| parcae::blocking(|| std::fs::read_to_string(&path)))??;
/// assert!(text.contains("Threads"));
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If the call panicked, or the task was cancelled before it was made.
pub fn blocking<R: Send>(call: impl FnOnce() -> R + Send) -> Result<R> {
    let Some(pool) = pool() else { return in_place(call) };
    let room = pool.room()?;
    let (slot, job) = Slot::for_call(call);
    // SAFETY: only the lifetime changes. The closure is called and dropped before this function returns or
    // unwinds: `pending` takes it out of the queue, or waits for its result. What is left of it when the result
    // is there is the slot, which is empty once the result was taken.
    let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Call>(job) };
    let mut pending = Pending { pool: &pool, slot: &slot, id: Some(pool.submit(job, room)) };
    loop {
        if let Some(result) = slot.take() {
            pending.id = None;
            return result.map_err(Error::from_panic);
        }
        if let Err(error) = park(Deadline::Never, Why::Blocking) {
            return pending
                .withdraw()
                .map_or(Err(error), |result| result.map_err(Error::from_panic));
        }
    }
}

/// As [`blocking`], for calls that may take long and borrow nothing: a cancel point all the time. If the task is
/// cancelled a call that has begun is left behind: it goes on, and its result is dropped when it has ended.
/// The end of the runtime waits for it.
///
/// ```
/// use parcae::prelude::*;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().build()?;
/// let (never, receiver) = mpsc::channel::<()>();
/// let outcome = rt.run(|cx| {
///     cx.nursery_with(NurseryOpts::new().timeout(Duration::from_millis(5)), |_| {
///         parcae::blocking_static(move || receiver.recv().is_ok())
///     })
/// });
/// assert!(outcome.unwrap_err().is_cancelled()); // and the call still waits
/// drop(never); // now it has ended
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Errors
///
/// If the call panicked, or the task was cancelled.
pub fn blocking_static<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> Result<R> {
    let Some(pool) = pool() else { return in_place(call) };
    let room = pool.room()?;
    let (slot, job) = Slot::for_call(call);
    let id = pool.submit(job, room);
    loop {
        if let Some(result) = slot.take() {
            return result.map_err(Error::from_panic);
        }
        if let Err(error) = park(Deadline::Never, Why::Blocking) {
            drop(pool.withdraw(id));
            return Err(error);
        }
    }
}

/// A call that was submitted, and that must have ended before this is gone.
struct Pending<'p, R> {
    pool: &'p Inner,
    slot: &'p Slot<R>,
    id: Option<u64>,
}

impl<R> Pending<'_, R> {
    /// Takes the call back; or waits for its result if it has begun.
    fn withdraw(&mut self) -> Option<thread::Result<R>> {
        if let Some(job) = self.pool.withdraw(self.id.take()?) {
            drop(job);
            return None;
        }
        loop {
            if let Some(result) = self.slot.take() {
                return Some(result);
            }
            // Not a cancel point.
            match cx::current() {
                Some(frame) => frame.leave_to_others(Why::Blocking),
                None => thread::park(),
            }
        }
    }
}

impl<R> Drop for Pending<'_, R> {
    fn drop(&mut self) {
        drop(self.withdraw());
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
