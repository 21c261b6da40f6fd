//! The base of `parcae-io`. Not public API.
//!
//! Waiting for descriptors needs five things of the runtime that the safe interface does not have:
//!
//! - [`place`]: whether a call parks a task, blocks a thread, or talks to a simulated world;
//! - [`events`]: the kernel's events of the worker that the caller runs on, made when a task first
//!   waits for a descriptor;
//! - [`IoWaiter`] and [`wait`]: the running task as a waiter, and its park, with a reason for
//!   dumps;
//! - [`charge`] and [`refund`]: the cost of an operation, which is a cancel point as every wait;
//! - [`world`]: one value for each deterministic runtime, the state of its simulated world.
//!
//! The caller's part in waking: a waiter is published under a lock of the object that it waits for,
//! and taken out under the same lock, by the thread that wakes it or by its owner (`wait`, *why no
//! wake-up is lost*).

pub use crate::sched::idle::KernelEvents;

use crate::base::error::{Error, ErrorKind, Result};
use crate::sched::timers::{ArmedTimer, Due};
use crate::sched::{Shared, SocketBackend, worker};
use crate::scope::cap::{CapError, CapExec, CapFs, CapNet, IoAuthority};
use crate::scope::cx::Here;
use crate::scope::cx::parking::{self, Deadline, borrowed_waiter};
use crate::wait::{Waiter, Wake, Why};
use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the caller runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoPlace {
    /// On no task: a wait blocks the thread.
    Thread,
    /// On a task of a runtime with threads: a wait parks the task.
    Task,
    /// On a task of a deterministic runtime: the world is simulated.
    Simulated,
}

/// Where the caller runs.
#[inline]
pub fn place() -> IoPlace {
    match Here::new().frame() {
        None => IoPlace::Thread,
        Some(frame) if frame.settings().shared.config.deterministic => IoPlace::Simulated,
        Some(_) => IoPlace::Task,
    }
}

/// Where the caller runs, and the backend for the sockets of a task.
#[inline]
pub fn socket_place() -> (IoPlace, SocketBackend) {
    let here = Here::new();
    let Some(frame) = here.frame() else { return (IoPlace::Thread, SocketBackend::Epoll) };
    let config = &frame.settings().shared.config;
    let place = if config.deterministic { IoPlace::Simulated } else { IoPlace::Task };
    (place, config.sockets)
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// By a wake, or early: the caller checks its condition again.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

/// Parks the running task until its waiter is woken, or until a point in time on the clock of
/// [`time::now`](crate::time::now); may return early. A cancel point. `what` and `object` are shown
/// to observers: "reading from", and the address of the peer.
///
/// # Errors
///
/// If the task was cancelled. The caller withdraws its waiter and returns the error.
#[inline]
pub fn wait(
    until: Option<Instant>,
    what: &'static str,
    object: &dyn fmt::Display,
) -> Result<WaitEnd> {
    let deadline = until.map_or(Deadline::Never, Deadline::at);
    match parking::wait(Here::new().frame(), deadline, Why::Io(what, object))? {
        parking::Ended::Woken => Ok(WaitEnd::Woken),
        parking::Ended::TimedOut => Ok(WaitEnd::TimedOut),
    }
}

/// A timer that wakes the running task at a point in time, in whatever wait it is then; `None`
/// outside of tasks. For deadlines that move on with each operation: a timer that stays armed for
/// many waits costs less than one for each.
pub fn alarm(at: Instant) -> Option<IoTimer> {
    let here = Here::new();
    let frame = here.frame()?;
    let shared = &frame.settings().shared;
    Some(IoTimer(shared.at_for(shared.nanos(at), Due::wake(frame.task_ref()))))
}

/// As [`wait`], and not a cancel point: for an operation that cannot be left. May return early.
pub fn wait_through(what: &'static str, object: &dyn fmt::Display) {
    match Here::new().frame() {
        Some(frame) => frame.leave_to_others(&Why::Io(what, object)),
        None => std::thread::park(),
    }
}

/// The task does not count as told of the cancellation that has just ended a [`wait`]: the
/// operation has happened all the same, and the next cancel point reports it.
pub fn untell() {
    if let Some(frame) = Here::new().frame() {
        frame.untell();
    }
}

/// The running task, for the time of one wait.
#[derive(Debug)]
pub struct IoWaiter(Waiter);

impl IoWaiter {
    /// The running task, or this thread.
    ///
    /// # Safety
    ///
    /// The waiter is taken out of the object that it waits for before the task's wait returns: by
    /// its owner, or by a thread that calls [`taken`](IoWaiter::taken). Both under the lock that
    /// guards the object.
    #[inline]
    pub unsafe fn here() -> IoWaiter {
        // SAFETY: as the caller says.
        IoWaiter(unsafe { borrowed_waiter(Here::new().frame()) })
    }

    /// A future that is polled with this waker, for as long as the object likes.
    pub fn of(waker: &std::task::Waker) -> IoWaiter {
        IoWaiter(Waiter::Future(waker.clone()))
    }

    /// Called by a thread that has taken the waiter out and will wake it, under the lock.
    #[inline]
    pub fn taken(mut self) -> IoWaiter {
        self.0.upgrade();
        self
    }

    /// Wakes the waiter.
    pub fn wake(self) {
        self.0.wake();
    }

    /// Wakes the waiter at a point in time, if it is a task of the running task's scheduler: none
    /// otherwise. It stays where it is, and its owner or another event may come first: then the
    /// result is dropped, which disarms the timer.
    pub fn wake_at(&self, at: Instant) -> Option<IoTimer> {
        let task = worker::with_current(|worker| self.0.task_for(worker)).flatten()?;
        let here = Here::new();
        let shared = &here.frame()?.settings().shared;
        Some(IoTimer(shared.at_for(shared.nanos(at), Due::Wake(task))))
    }

    /// As [`wake`](IoWaiter::wake), for an event of the kernel: a task of this worker goes behind
    /// those that are ready.
    #[inline]
    pub fn wake_behind(self) {
        let behind = worker::with_current(|worker| {
            // SAFETY: records live as long as the scheduler, which is that of the worker.
            let pinned = self
                .0
                .task_for(worker)
                .filter(|task| unsafe { !task.task.as_ref().traits.get().is_migratable() });
            pinned.map(|task| worker.wake_behind(task)).is_some()
        });
        if behind != Some(true) {
            self.0.wake();
        }
    }
}

/// A timer that wakes a task. Dropping it disarms it.
pub struct IoTimer(ArmedTimer<Arc<Shared>>);

impl IoTimer {
    /// Whether its time has come. If not, it may have come all the same.
    pub fn has_fired(&self) -> bool {
        self.0.has_fired()
    }
}

impl fmt::Debug for IoTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoTimer").finish_non_exhaustive()
    }
}

/// Charges an operation on a descriptor before it is attempted: so many ops and as many syscalls.
/// A checkpoint, hence a cancel point. No effect outside of tasks.
///
/// # Errors
///
/// As for [`Cx::charge`](crate::Cx::charge): then nothing was charged.
#[inline]
pub fn charge(cost: u64) -> Result<()> {
    Here::new().frame().map_or(Ok(()), |frame| frame.charge_io(cost))
}

/// A capability over the world outside of the process.
pub trait IoCapability: Sized {
    /// The one that calls of the running task are under if they show none; `None` if there is no
    /// limit.
    ///
    /// # Errors
    ///
    /// In the sovereign profile, if the nursery has none.
    fn implicit() -> Result<Option<Arc<Self>>>;

    /// Whether it gives authority in the runtime of the running task.
    ///
    /// # Errors
    ///
    /// If it was minted by another runtime.
    fn check_here(&self) -> Result<()>;
}

macro_rules! io_capability {
    ($cap:ty, $of:ident) => {
        impl IoCapability for $cap {
            fn implicit() -> Result<Option<Arc<$cap>>> {
                authority(IoAuthority::$of)
            }

            fn check_here(&self) -> Result<()> {
                match Here::new().frame() {
                    Some(frame) => Ok(self.check_issuer(&frame.settings().issuer)?),
                    None => Ok(()),
                }
            }
        }
    };
}

io_capability!(CapNet, net);
io_capability!(CapFs, fs);
io_capability!(CapExec, exec);

fn authority<C>(
    of: impl FnOnce(&IoAuthority) -> Result<Option<Arc<C>>, CapError>,
) -> Result<Option<Arc<C>>> {
    let here = Here::new();
    let io = here.frame().and_then(|frame| frame.settings().io.as_deref());
    Ok(io.map_or(Ok(None), of)?)
}

/// Opens a path beneath the directory of a capability.
///
/// # Errors
///
/// `EXDEV` if the path leads out of it; otherwise as `open`.
pub fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &Path,
    flags: i32,
    mode: u32,
) -> io::Result<OwnedFd> {
    crate::scope::cap::open_beneath(dir, path, flags, mode)
}

/// Takes a charge back: the operation has not happened.
pub fn refund(cost: u64) {
    if let Some(frame) = Here::new().frame() {
        frame.refund_io(cost);
    }
}

/// Makes a call on a thread of the runtime's pool for blocking calls; directly outside of tasks.
/// The result of a call that was made is returned in any case: a cancellation that came meanwhile
/// is for the next cancel point. Costs nothing: the caller has [charged](charge) the operation.
///
/// # Errors
///
/// If the task is cancelled before the call has begun; if the call panics.
pub fn blocking<R: Send>(call: impl FnOnce() -> R + Send) -> Result<R> {
    let mut made = None;
    let place = &mut made;
    let outcome = crate::sync::blocking::blocking(move || *place = Some(call()));
    let Some(result) = made else {
        return Err(outcome.err().unwrap_or_else(|| Error::new(ErrorKind::Unwinding)));
    };
    if let Some(frame) = Here::new().frame() {
        frame.refund_op(); // that of the checkpoint in it
        if outcome.is_err() {
            frame.untell();
        }
    }
    Ok(result)
}

/// As [`blocking`], of a call that owns its data and may outlive the wait for it.
///
/// # Errors
///
/// If the task is cancelled; if the call panics.
pub fn blocking_static<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> Result<R> {
    let outcome = crate::sync::blocking::blocking_static(call);
    if outcome.is_ok()
        && let Some(frame) = Here::new().frame()
    {
        frame.refund_op(); // as in `blocking`
    }
    outcome
}

/// Lets other tasks run. Not a cancel point: the task is not told that it is cancelled.
pub fn let_others_run() {
    worker::yield_now();
}

/// The address of the kernel's events of this worker; 0 if there are none.
#[inline]
pub fn events_here() -> usize {
    let address = |worker: &worker::Worker| {
        worker.poller().events().map_or(0, |events| Arc::as_ptr(events).cast::<()>().addr())
    };
    worker::with_current(address).unwrap_or(0)
}

/// The kernel's events of this worker, made by the first call there.
///
/// # Errors
///
/// Those of `make`; and outside of tasks, which have no worker to poll for them.
pub fn events<T: KernelEvents>(make: impl FnOnce() -> io::Result<Arc<T>>) -> io::Result<Arc<T>> {
    let here = |worker: &worker::Worker| {
        let poller = worker.poller();
        if poller.events().is_none() {
            poller.install(make()?);
        }
        let events: Option<Arc<dyn Any + Send + Sync>> =
            poller.events().map(|events| Arc::clone(events) as _);
        let known = events.and_then(|events| events.downcast::<T>().ok());
        known.ok_or_else(|| io::Error::other("the worker has a poller of another kind"))
    };
    worker::with_current(here).unwrap_or_else(|| Err(io::Error::other("not on a worker")))
}

/// The simulated world of the running task's runtime, made from its seed by the first call; `None`
/// outside of deterministic runtimes.
pub fn world<T: Any + Send + Sync>(make: impl FnOnce(u64) -> T) -> Option<Arc<T>> {
    let here = Here::new();
    let shared = &here.frame()?.settings().shared;
    if !shared.config.deterministic {
        return None;
    }
    let world = shared.world.get_or_init(|| Arc::new(make(shared.seed())));
    Arc::clone(world).downcast().ok()
}

/// The error of the runtime that a standard error carries.
pub fn error_of<'e>(error: &'e (dyn StdError + Send + Sync + 'static)) -> Option<&'e Error> {
    Error::in_std(error)
}

/// The time by which a wait of so long ends; `None` if that is beyond all clocks.
pub fn after(time: Duration) -> Option<Instant> {
    crate::time::now().checked_add(time)
}
