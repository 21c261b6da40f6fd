//! Calls that block their thread, on a pool of threads for that purpose.
//!
//! A worker that is blocked by one task runs no other. So a task hands such a call to a pool of
//! threads, and parks until it has ended. The pool belongs to the scheduler: its threads start on
//! demand, up to a limit, retire after a time without work, and end with the scheduler.
//!
//! # Bounds
//!
//! `room` has a permit for every call that may run or be queued. A task takes one before it
//! submits, and waits if there is none, so the queue is bounded. A large bound costs nothing:
//! memory is allocated per call, not per permit.
//!
//! Nothing is allocated under the lock of the queue, because a task that is out of memory waits in
//! the allocator. A call is put into a list of one node before the lock is taken, and that list is
//! appended under it.
//!
//! # Cancelling
//!
//! A call that has begun cannot be interrupted. The lock of the queue decides whether a call has
//! begun: the thread that takes it out first wins. If the task is cancelled, or a deadline passes,
//! while it waits:
//!
//! | the call | [`blocking`], which may borrow | [`blocking_static`], which owns |
//! |---|---|---|
//! | is queued | is removed and not made | is removed and not made |
//! | has begun | is waited for: its borrows must stay valid | is left running |
//! | has ended | its result is returned | its result is returned |
//!
//! In the first two rows the task gets the cancellation as an error, which says what became of the
//! call. A call that was waited for may have had an effect, but its result is dropped. If it
//! panics, the panic is reported instead of the cancellation. In a shield there is no cancellation,
//! and the result is returned.
//!
//! Rejected: returning the result of a call that was waited for although the task was cancelled
//! meanwhile. A timeout around it would return late without saying so.

use crate::base::cpu;
use crate::base::error::{Error, IslandRefused, Result};
use crate::sched::run_queue::BlockingAccount;
use crate::scope::cx;
use crate::scope::cx::parking::{self, Deadline, wait};
use crate::scope::errand::Errand;
use crate::sync::Semaphore;
use crate::wait::{Waiter, Wake as _, Why};
use std::collections::LinkedList;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Limits of the pool.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "internals"), allow(unreachable_pub, reason = "public with that feature"))]
pub struct BlockingLimits {
    /// Largest number of threads.
    pub threads: usize,
    /// Largest number of calls that wait for a thread.
    pub queue: usize,
    /// Time without work after which a thread retires.
    pub idle: Duration,
}

impl Default for BlockingLimits {
    /// Blocking calls wait for disks and locks, not for processors: so there are more threads than
    /// processors, but no more than a system allows by default.
    fn default() -> BlockingLimits {
        BlockingLimits { threads: 128, queue: 1024, idle: Duration::from_secs(10) }
    }
}

/// A scheduler's pool of threads for blocking calls.
pub(crate) struct BlockingPool {
    inner: Arc<BlockingInner>,
}

struct BlockingInner {
    limits: BlockingLimits,
    room: Semaphore,
    state: Mutex<BlockingState>,
    /// Signalled when there is work, or the threads have to stop.
    changed: Condvar,
}

#[derive(Default)]
struct BlockingState {
    queue: LinkedList<BlockingJob>,
    next_id: u64,
    idle: usize,
    threads: usize,
    handles: LinkedList<JoinHandle<()>>,
    stopping: bool,
}

type Call = Box<dyn FnOnce() + Send>;

struct BlockingJob {
    id: u64,
    call: Call,
    room: Room,
    /// The task that the call is made for, if the task's spawns are limited.
    errand: Option<Errand>,
}

/// A permit of `room`, returned when the call has ended or was withdrawn.
struct Room(Arc<BlockingInner>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.room.add(1);
    }
}

impl BlockingJob {
    fn run(self) {
        let BlockingJob { call, room, errand, .. } = self;
        // The call catches its own panics. A panic caught here comes from the destructor of an
        // unwanted result.
        let _ = catch_unwind(AssertUnwindSafe(|| match errand {
            Some(errand) => errand.run(call),
            None => call(),
        }));
        drop(room);
    }
}

impl BlockingPool {
    /// Whether it has threads, or had some.
    pub(crate) fn has_threads(&self) -> bool {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner).next_id != 0
    }

    pub(crate) fn new(limits: BlockingLimits) -> BlockingPool {
        let limits = BlockingLimits { threads: limits.threads.max(1), ..limits };
        let room = Semaphore::new(limits.threads.saturating_add(limits.queue));
        let (state, changed) = (Mutex::default(), Condvar::new());
        let inner = BlockingInner { limits, room, state, changed };
        BlockingPool { inner: Arc::new(inner) }
    }

    /// Number of threads at this moment.
    #[cfg(test)]
    fn threads(&self) -> usize {
        self.inner.lock().threads
    }

    /// Ends the threads once the queue is empty.
    pub(crate) fn stop(&self) {
        drop(self.begin_stop());
    }

    fn begin_stop(&self) -> LinkedList<JoinHandle<()>> {
        let mut state = self.inner.lock();
        state.stopping = true;
        self.inner.changed.notify_all();
        std::mem::take(&mut state.handles)
    }

    /// Like `stop`, and waits for the threads until the deadline. Returns the number of threads
    /// still running.
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
        for handle in handles {
            if handle.thread().id() != thread::current().id() {
                let _ = handle.join();
            }
        }
        0
    }
}

impl BlockingInner {
    fn lock(&self) -> MutexGuard<'_, BlockingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a call.
    fn room(self: &Arc<BlockingInner>) -> Result<Room> {
        self.room.acquire()?.forget();
        Ok(Room(Arc::clone(self)))
    }

    /// Queues a call, for which the caller has room, and ensures that a thread takes it.
    fn submit(self: &Arc<BlockingInner>, call: Call, room: Room, errand: Option<Errand>) -> u64 {
        // allocated outside of the lock
        let mut one = LinkedList::from([BlockingJob { id: 0, call, room, errand }]);
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        one.iter_mut().for_each(|job| job.id = id);
        state.queue.append(&mut one);
        let start = state.queue.len() > state.idle && state.threads < self.limits.threads;
        state.threads += usize::from(start);
        drop(state);
        self.changed.notify_one();
        if start {
            self.start();
        }
        id
    }

    /// Removes a call that has not begun from the queue.
    fn withdraw(&self, id: u64) -> Option<BlockingJob> {
        let mut taken = take_out(&mut self.lock().queue, |job| job.id == id);
        taken.pop_front()
    }

    fn start(self: &Arc<BlockingInner>) {
        let pool = Arc::clone(self);
        let named = thread::Builder::new().name("parcae-blocking".into());
        match named.spawn(move || pool.work()) {
            Ok(handle) => {
                let mut one = LinkedList::from([handle]); // allocated outside of the lock
                self.lock().handles.append(&mut one);
            }
            Err(_) => {
                // No thread could be started. The present ones will make the call; without any it
                // is made here.
                let mut jobs = LinkedList::new();
                let mut state = self.lock();
                state.threads -= 1;
                if state.threads == 0 {
                    jobs.append(&mut state.queue);
                }
                drop(state);
                jobs.into_iter().for_each(BlockingJob::run);
            }
        }
    }

    /// A thread of the pool, until it retires.
    fn work(&self) {
        let _listed = cpu::enter();
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
            self.changed.notify_all(); // a thread in `stop_and_wait` may wait for the last one
        }
        let id = thread::current().id();
        let own = take_out(&mut state.handles, |handle| handle.thread().id() == id);
        drop(state);
        drop(own);
    }
}

/// Moves one element of a list to a list of its own, without allocating or freeing memory.
fn take_out<T>(list: &mut LinkedList<T>, wanted: impl Fn(&T) -> bool) -> LinkedList<T> {
    let Some(index) = list.iter().position(wanted) else { return LinkedList::new() };
    let mut taken = list.split_off(index);
    let mut rest = taken.split_off(1);
    list.append(&mut rest);
    taken
}

/// The slot for the result of a call.
struct CallSlot<R> {
    state: Mutex<Option<thread::Result<R>>>,
    waiter: Waiter,
}

impl<R: Send> CallSlot<R> {
    /// A slot, and the call that fills it.
    fn for_call<'c>(
        call: impl FnOnce() -> R + Send + 'c,
        account: Option<BlockingAccount>,
    ) -> (Arc<CallSlot<R>>, Box<dyn FnOnce() + Send + 'c>)
    where
        R: 'c,
    {
        let slot = Arc::new(CallSlot { state: Mutex::new(None), waiter: parking::waiter() });
        let theirs = Arc::clone(&slot);
        let call = move || {
            let account = account.map(|account| (account, Instant::now()));
            let result = catch_unwind(AssertUnwindSafe(call));
            // Before the task is woken: it sees its own charge.
            if let Some((account, began)) = account {
                account.charge(began.elapsed().as_nanos() as u64);
            }
            theirs.set(result);
        };
        (slot, Box::new(call))
    }
}

impl<R> CallSlot<R> {
    fn take(&self) -> Option<thread::Result<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, result: thread::Result<R>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        self.waiter.wake();
    }
}

/// A task that makes a blocking call, as the pool needs it.
struct BlockingCaller {
    pool: Arc<BlockingInner>,
    /// If its spawns are limited.
    errand: Option<Errand>,
    /// The account of its tenant, if there are tenants.
    account: Option<BlockingAccount>,
}

/// A checkpoint. Returns the running task as a caller; `None` if the call has to be made in place.
fn caller() -> Result<Option<BlockingCaller>> {
    let here = cx::Here::new();
    let Some(frame) = here.frame().filter(|_| !thread::panicking()) else { return Ok(None) };
    frame.refuse_sealed(IslandRefused::Blocking)?;
    parking::checkpoint(frame)?;
    let shared = &frame.settings().shared;
    // Under the deterministic executor calls are made in place.
    let pool = shared.part::<BlockingPool>().filter(|_| !shared.config.deterministic);
    let account = shared.queues.blocking_account(frame.settings().tenant);
    let Some(pool) = pool else {
        // Its time is a part of the task's own turn.
        account.into_iter().for_each(|account| account.charge(0));
        return Ok(None);
    };
    let pool = Arc::clone(&pool.inner);
    Ok(Some(BlockingCaller { pool, errand: Errand::of(frame), account }))
}

fn in_place<R>(call: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(call)).map_err(Error::from_panic)
}

/// The error of a task that was cancelled during a call that has begun, with the fate of the call.
fn interrupted(error: Error, at: &Location<'_>, fate: &str) -> Error {
    error.noting(Some(format!("the blocking call at {at} {fate}").into()))
}

/// Runs a blocking call on a thread of the runtime's pool. The task is parked meanwhile, and its
/// worker runs other tasks.
///
/// # Deadlines and cancellation
///
/// A thread cannot be interrupted in a call, and this call may borrow. So if the task is cancelled
/// or a deadline passes, such as that of [`Cx::timeout`](crate::Cx::timeout), a call that has begun
/// **is waited for**. Only then is the error returned, which says so, and the result of the call is
/// dropped. **The deadline does not bound the wait.** A call that owns its data can be left running
/// instead: [`blocking_static`] returns at the deadline. A call that can take long should have a
/// time limit of its own as well, such as the read timeout of a socket.
///
/// - A call that is queued because all threads of the pool are busy is not made if the task is
///   cancelled.
/// - If the call ends before the cancellation is noticed, its result is returned.
/// - To get the result in any case, make the call in a [shield](crate::Cx::shield).
///
/// # Budgets
///
/// The call runs on a thread, outside of the task, so its computing time, memory and channel
/// operations are not charged. Calls of a [tenant](crate::NurseryOpts::share) and their time are
/// counted: [`TenantFigures::blocked`](crate::stats::TenantFigures::blocked).
///
/// The call cannot spawn on behalf of a task whose spawns are limited: a
/// handle of the runtime refuses that, and so does a nursery lent to the task. Spawn on the task
/// itself, before or after the call.
///
/// ```
/// use parcae::prelude::*;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().build()?;
/// let log = std::sync::Mutex::new(Vec::new());
/// let outcome = rt.run(|cx| {
///     cx.timeout(Duration::from_millis(5), || {
///         parcae::blocking(|| {
///             std::thread::sleep(Duration::from_millis(50));
///             log.lock().unwrap().push("written"); // borrows, so this is waited for
///         })
///     })
/// });
/// let error = outcome.unwrap_err();
/// assert!(error.is_timed_out());
/// assert!(error.to_string().contains("was waited for because it may borrow"));
/// assert_eq!(*log.lock().unwrap(), ["written"]);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Where there is no pool
///
/// On a thread that runs no task the call is made directly. The same holds under the deterministic
/// executor, because other threads would make runs differ: all tasks stand still meanwhile, and the
/// call must not wait for any of them.
///
/// A checkpoint: charges one op, and on a cancelled task the call is not made.
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
/// If the call panics, the task is cancelled before it has ended, or the budget is exhausted.
#[track_caller]
pub fn blocking<R: Send>(call: impl FnOnce() -> R + Send) -> Result<R> {
    let at = Location::caller();
    let Some(caller) = caller()? else { return in_place(call) };
    let BlockingCaller { pool, errand, account } = caller;
    let room = pool.room()?;
    let (slot, job) = CallSlot::for_call(call, account);
    // SAFETY: only the lifetime changes. The closure is called and dropped before this function
    // returns or unwinds: `pending` removes it from the queue, or waits for its result. After that
    // only the slot is left, which is empty once the result was taken.
    let job = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Call>(job) };
    let mut pending =
        Pending { pool: &pool, slot: &slot, id: Some(pool.submit(job, room, errand)) };
    loop {
        if let Some(result) = slot.take() {
            pending.id = None;
            return result.map_err(Error::from_panic);
        }
        if let Err(error) = wait(cx::Here::new().frame(), Deadline::Never, Why::Blocking) {
            return match pending.withdraw() {
                None => Err(error),
                Some(Err(payload)) => Err(Error::from_panic(payload)),
                Some(Ok(_)) => {
                    let fate = "was waited for because it may borrow, and its result dropped; \
                                `blocking_static` leaves it behind";
                    Err(interrupted(error, at, fate))
                }
            };
        }
    }
}

/// Like [`blocking()`], for long calls that borrow nothing: a cancelled task does not wait for the
/// call.
///
/// # Deadlines and cancellation
///
/// If the task is cancelled or a deadline passes, such as that of
/// [`Cx::timeout`](crate::Cx::timeout), this returns at once, with an error that says what became
/// of the call. A queued call is not made. A call that has begun **is left running**: it keeps its
/// thread and its place in the pool, and its result is dropped when it has ended. The end of the
/// runtime waits for it, as long as [shutdown](crate::Runtime::shutdown) allows.
///
/// ```
/// use parcae::prelude::*;
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let rt = Runtime::builder().build()?;
/// let (never, receiver) = mpsc::channel::<()>();
/// let outcome = rt.run(|cx| {
///     cx.timeout(Duration::from_millis(5), || {
///         parcae::blocking_static(move || receiver.recv().is_ok())
///     })
/// });
/// let error = outcome.unwrap_err(); // while the call still waits
/// assert!(error.is_timed_out() && error.to_string().contains("was left running"));
/// drop(never); // now it has ended
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// A checkpoint, like [`blocking()`].
///
/// # Errors
///
/// If the call panics, the task is cancelled before it has ended, or the budget is exhausted.
#[track_caller]
pub fn blocking_static<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> Result<R> {
    let at = Location::caller();
    let Some(caller) = caller()? else { return in_place(call) };
    let BlockingCaller { pool, errand, account } = caller;
    let room = pool.room()?;
    let (slot, job) = CallSlot::for_call(call, account);
    let id = pool.submit(job, room, errand);
    loop {
        if let Some(result) = slot.take() {
            return result.map_err(Error::from_panic);
        }
        if let Err(error) = wait(cx::Here::new().frame(), Deadline::Never, Why::Blocking) {
            return match pool.withdraw(id) {
                Some(_) => Err(error),
                // It may just have ended.
                None => match slot.take() {
                    Some(result) => result.map_err(Error::from_panic),
                    None => Err(interrupted(error, at, "was left running")),
                },
            };
        }
    }
}

/// A submitted call, which has ended or was withdrawn when this is dropped.
struct Pending<'p, R> {
    pool: &'p BlockingInner,
    slot: &'p CallSlot<R>,
    id: Option<u64>,
}

impl<R> Pending<'_, R> {
    /// Withdraws the call, or waits for its result if it has begun.
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
            match cx::Here::new().frame() {
                Some(frame) => frame.leave_to_others(&Why::Blocking),
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
