//! Root tasks: those that no nursery spawned.

use super::Inner;
use crate::budget::Resource;
use crate::cancel::{CancelReason, CancelToken, Node};
use crate::cx::{self, Cx, Frame, Kinship, Origin, Terms};
use crate::engine::Waker;
use crate::error::{Error, ErrorKind, Result};
use crate::profile::Profile;
use crate::task::{Start, Task};
use crate::wait::Why;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};

/// Runs a root task and waits for it.
#[track_caller]
pub(super) fn run<P: Profile, R: Send>(
    inner: &Arc<Inner>,
    task: impl FnOnce(&Cx<P>) -> Result<R> + Send,
) -> Result<R> {
    let origin = Origin { name: None, spawned_at: Location::caller() };
    if let Some(reason) = inner.terms.node.reason() {
        return Err(Error::cancelled(reason));
    }
    inner
        .engine
        .run_task(|record, start| body(&inner.terms.for_root(), record, start, origin, task))?
}

/// Starts a root task that belongs to the runtime.
#[track_caller]
pub(super) fn spawn<P: Profile, T: Send + 'static>(
    inner: &Arc<Inner>,
    task: impl FnOnce(&Cx<P>) -> Result<T> + Send + 'static,
) -> Result<RootTask<T>> {
    let origin = Origin { name: None, spawned_at: Location::caller() };
    if inner.terms.node.is_cancelled() {
        return Err(Error::new(ErrorKind::ShuttingDown));
    }
    let slot = Arc::new(Slot { state: Mutex::default(), changed: Condvar::new() });
    let answer = Arc::clone(&slot);
    // A node of its own: what it cancels there is not the runtime.
    let terms = inner.terms.for_root();
    let node = Arc::clone(&terms.node);
    inner.engine.spawn_task(move |record, start| {
        let output = body(&terms, record, start, origin, task);
        answer.set(output);
    })?;
    Ok(RootTask { slot, node })
}

/// A root task from beginning to end.
fn body<P: Profile, R>(
    terms: &Terms,
    record: NonNull<Task>,
    start: Start,
    origin: Origin,
    task: impl FnOnce(&Cx<P>) -> Result<R>,
) -> Result<R> {
    let account = terms.pool.draw(terms.grant, Resource::Ops);
    // SAFETY: the terms outlive the frame; this is the task.
    let cx: Cx<P> = Cx::new(unsafe { Frame::new(record, terms, account, Kinship::Apart, origin) });
    let frame = cx.frame();
    frame.enter();
    let refused = match start {
        Start::Run => frame.check_cancelled(),
        Start::Refused(error) => Err(Error::new(ErrorKind::NoStack(error))),
    };
    let output = catch_unwind(AssertUnwindSafe(|| match refused {
        Ok(()) => task(&cx),
        Err(error) => {
            drop(task);
            Err(error)
        }
    }));
    let output = output.unwrap_or_else(|payload| Err(Error::from_panic(payload)));
    let output = output.map_err(|error| error.in_task(|| frame.info()));
    frame.leave();
    output
}

/// A task that was started by a [`Handle`](super::Handle).
///
/// Dropping it lets the task run on.
pub struct RootTask<T> {
    slot: Arc<Slot<T>>,
    node: Arc<Node>,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    /// For threads that wait.
    changed: Condvar,
}

struct State<T> {
    output: Option<Result<T>>,
    ended: bool,
    /// The task that waits.
    waiter: Option<Waker>,
    /// The future that waits.
    polled: Option<task::Waker>,
}

impl<T> Default for State<T> {
    fn default() -> State<T> {
        State { output: None, ended: false, waiter: None, polled: None }
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, output: Result<T>) {
        let (waiter, polled) = {
            let mut state = self.lock();
            state.output = Some(output);
            state.ended = true;
            (state.waiter.take(), state.polled.take())
        };
        self.changed.notify_all();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
        if let Some(polled) = polled {
            polled.wake();
        }
    }
}

impl<T> RootTask<T> {
    /// Waits until the task has ended and returns its result. On a task this parks the task, and is a
    /// cancel point; elsewhere it blocks the thread.
    ///
    /// Under the deterministic executor, the thread that built the runtime has to
    /// [run](super::Runtime::run) something meanwhile: nobody else does the work.
    ///
    /// # Errors
    ///
    /// What the task failed with, or that the caller was cancelled.
    pub fn join(self) -> Result<T> {
        let mut state = self.slot.lock();
        loop {
            if let Some(output) = state.output.take() {
                return output;
            }
            match cx::current() {
                None => {
                    state = self.slot.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Some(frame) => {
                    state.waiter = Some(frame.waker());
                    drop(state);
                    frame.park(Why::Root)?;
                    state = self.slot.lock();
                }
            }
        }
    }

    /// Asks the task, and all that it has spawned, to end.
    pub fn cancel(&self) {
        self.node.cancel(CancelReason::Explicit);
    }

    /// What cancels the task, from anywhere.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.node)
    }

    /// Whether the task has ended.
    pub fn is_finished(&self) -> bool {
        self.slot.lock().ended
    }
}

/// For async code, on any executor: is ready with the task's result when the task has ended. Dropping it lets the
/// task run on.
///
/// ```
/// use parcae::prelude::*;
///
/// let rt = Runtime::builder().build()?;
/// let task = rt.handle().spawn(|_| Ok(6))?;
/// let answer = async { Ok::<_, parcae::Error>(7 * task.await?) };
/// assert_eq!(parcae::block_on(answer)??, 42);
/// # Ok::<(), parcae::Error>(())
/// ```
///
/// # Panics
///
/// If it is polled again after it was ready.
impl<T> Future for RootTask<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Result<T>> {
        let mut state = self.slot.lock();
        if let Some(output) = state.output.take() {
            return Poll::Ready(output);
        }
        assert!(!state.ended, "polled after it was ready");
        // Under the lock under which the task sets its result: it finds this waker, or we have found the result.
        let stale = match &mut state.polled {
            Some(waker) if waker.will_wake(context.waker()) => None,
            polled => polled.replace(context.waker().clone()),
        };
        drop(state);
        drop(stale);
        Poll::Pending
    }
}

impl<T> fmt::Debug for RootTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootTask").field("finished", &self.is_finished()).finish()
    }
}
