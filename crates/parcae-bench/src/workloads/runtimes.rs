//! The schedulers that the workloads of tasks run on, each with a number of workers.
//!
//! A workload is written once for all that run futures ([`Futures`]) and once for each of the
//! others. Each measurement creates a new scheduler, which ends when dropped. The exception is may:
//! it has one per process, whose number of workers is fixed at its first use. Here that is one, so
//! may takes part only in variants with one worker.

use crate::case::Failure;
use async_executor::Executor;
use futures_lite::future;
use parcae::Runtime;
use parcae::engine::{Engine, EngineOpts};
use parcae::profile::Profile;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::sync::oneshot;

/// A scheduler of parcae with its defaults.
pub(super) fn parcae(workers: usize) -> Result<Engine, Failure> {
    engine(EngineOpts { workers, ..EngineOpts::default() })
}

/// A scheduler of parcae.
pub(super) fn engine(opts: EngineOpts) -> Result<Engine, Failure> {
    Engine::new(opts).map_err(|error| format!("{error:?}").into())
}

/// A runtime of parcae, as its users have it.
pub(super) fn runtime<P: Profile>(workers: usize) -> Result<Runtime<P>, Failure> {
    Ok(Runtime::builder().profile::<P>().workers(workers).build()?)
}

/// A scheduler of rayon.
pub(super) fn rayon(workers: usize) -> Result<rayon::ThreadPool, Failure> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(workers).build()?)
}

/// A coroutine on may's only worker.
pub(super) fn may<R: Send + 'static>(
    body: impl FnOnce() -> R + Send + 'static,
) -> may::coroutine::JoinHandle<R> {
    static ONE_WORKER: Once = Once::new();
    ONE_WORKER.call_once(|| {
        may::config().set_workers(1);
    });
    // SAFETY: no body in this crate needs much stack, nor uses thread-local data across a
    // point where it waits.
    unsafe { may::coroutine::spawn(body) }
}

/// Runs a coroutine to its end; blocks the calling thread.
pub(super) fn may_run<R: Send + 'static>(
    body: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Failure> {
    may(body).join().map_err(|_| "a coroutine of may panicked".into())
}

/// A scheduler of futures.
pub(super) trait Futures: Sized + 'static {
    /// Spawns, from its tasks as from anywhere.
    type Spawner: Spawner;

    /// A new one.
    fn start(workers: usize) -> Result<Self, Failure>;

    /// For use in its tasks.
    fn spawner(&self) -> Self::Spawner;

    /// Runs a future as a task; blocks the calling thread.
    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        future::block_on(self.spawner().spawn(root))
    }
}

/// Spawns tasks.
pub(super) trait Spawner: Clone + Send + Sync + 'static {
    /// Spawns a task whose value is awaited.
    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + Unpin + 'static;

    /// Spawns a detached task.
    fn detach(&self, task: impl Future<Output = ()> + Send + 'static);

    /// The scheduler's yield.
    fn yield_now() -> impl Future<Output = ()> + Send;
}

/// <https://docs.rs/tokio>
pub(super) struct Tokio(runtime::Runtime);

impl Tokio {
    /// With timers, which the others do without.
    pub(super) fn with_timers(workers: usize) -> Result<Tokio, Failure> {
        let mut builder = runtime::Builder::new_multi_thread();
        Ok(Tokio(builder.worker_threads(workers).enable_time().build()?))
    }
}

impl Futures for Tokio {
    type Spawner = runtime::Handle;

    fn start(workers: usize) -> Result<Tokio, Failure> {
        Ok(Tokio(runtime::Builder::new_multi_thread().worker_threads(workers).build()?))
    }

    fn spawner(&self) -> runtime::Handle {
        self.0.handle().clone()
    }
}

impl Spawner for runtime::Handle {
    #[inline]
    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + Unpin + 'static {
        Joined(runtime::Handle::spawn(self, task))
    }

    #[inline]
    fn detach(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(runtime::Handle::spawn(self, task));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }
}

/// A task of tokio, whose panic continues in its joiner.
struct Joined<T>(tokio::task::JoinHandle<T>);

impl<T> Future for Joined<T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|joined| joined.expect("no task panics"))
    }
}

/// <https://docs.rs/async-executor>: a queue of tasks, and threads that run them.
pub(super) struct AsyncExecutor {
    executor: Arc<Executor<'static>>,
    threads: Vec<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl AsyncExecutor {
    /// With timers, as `smol` runs it: the threads drive the reactor of async-io in turns.
    pub(super) fn with_timers(workers: usize) -> Result<AsyncExecutor, Failure> {
        AsyncExecutor::start_on(workers, |executor, stopped| {
            drop(async_io::block_on(executor.run(stopped)));
        })
    }

    /// With threads that do this until they are stopped.
    fn start_on(
        workers: usize,
        run: fn(&Executor<'static>, oneshot::Receiver<()>),
    ) -> Result<AsyncExecutor, Failure> {
        let executor = Arc::new(Executor::new());
        let started = (0..workers).map(|_| {
            let (stop, stopped) = oneshot::channel();
            let executor = Arc::clone(&executor);
            let body = move || run(&executor, stopped);
            Ok((stop, thread::Builder::new().spawn(body)?))
        });
        let threads = started.collect::<Result<_, Failure>>()?;
        Ok(AsyncExecutor { executor, threads })
    }
}

impl Futures for AsyncExecutor {
    type Spawner = Arc<Executor<'static>>;

    fn start(workers: usize) -> Result<AsyncExecutor, Failure> {
        AsyncExecutor::start_on(workers, |executor, stopped| {
            drop(future::block_on(executor.run(stopped)));
        })
    }

    fn spawner(&self) -> Arc<Executor<'static>> {
        Arc::clone(&self.executor)
    }
}

impl Drop for AsyncExecutor {
    fn drop(&mut self) {
        for (stop, thread) in self.threads.drain(..) {
            drop(stop);
            let _ = thread.join(); // panics were reported when they happened
        }
    }
}

impl Spawner for Arc<Executor<'static>> {
    #[inline]
    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + Unpin + 'static {
        Executor::spawn(self, task)
    }

    #[inline]
    fn detach(&self, task: impl Future<Output = ()> + Send + 'static) {
        Executor::spawn(self, task).detach();
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        future::yield_now()
    }
}

/// Counts tasks that ran, by thread: a counter for all would cost more than the tasks.
pub(super) struct Tally(u64);

const SLOTS: usize = 64;

#[repr(align(128))]
struct Slot(AtomicU64);

static TALLIES: [Slot; SLOTS] = [const { Slot(AtomicU64::new(0)) }; SLOTS];

thread_local! {
    // Threads that count at the same time belong to one scheduler and were started together,
    // so they have slots of their own.
    static SLOT: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS
    };
}

impl Tally {
    /// One more.
    #[inline]
    pub(super) fn count() {
        let slot = &TALLIES[SLOT.with(|slot| *slot)].0;
        // Only this thread writes here. Release: a thread that learns of the task's end by other
        // means sees the count.
        slot.store(slot.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// One more, on one of many threads at the same time.
    pub(super) fn count_shared() {
        TALLIES[SLOT.with(|slot| *slot)].0.fetch_add(1, Ordering::Release);
    }

    /// The count so far.
    pub(super) fn now() -> Tally {
        Tally(TALLIES.iter().map(|slot| slot.0.load(Ordering::Acquire)).sum())
    }

    /// Fails if the count since then is not `count`.
    pub(super) fn expect(&self, count: usize) -> Result<(), Failure> {
        let counted = Tally::now().0 - self.0;
        if counted == count as u64 {
            Ok(())
        } else {
            Err(format!("{counted} tasks ran instead of {count}").into())
        }
    }
}

/// A latch for a thread outside of a scheduler: counts down tasks.
pub(super) struct Countdown {
    left: AtomicUsize,
    waiter: Thread,
}

impl Countdown {
    /// For the calling thread. Leaked, so that tasks need not count references to it.
    pub(super) fn new() -> &'static Countdown {
        Box::leak(Box::new(Countdown { left: AtomicUsize::new(0), waiter: thread::current() }))
    }

    /// Before tasks are spawned.
    pub(super) fn set(&self, count: usize) {
        self.left.store(count, Ordering::Relaxed); // the spawns publish it
    }

    /// At the end of a task.
    #[inline]
    pub(super) fn down(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    /// Waits for the last one, with a timeout.
    pub(super) fn wait(&self) -> Result<(), Failure> {
        let start = Instant::now();
        while self.left.load(Ordering::Acquire) > 0 {
            if start.elapsed() > TIMEOUT {
                let left = self.left.load(Ordering::Relaxed);
                return Err(format!("{left} tasks have not run").into());
            }
            thread::park_timeout(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// The timeout of waits that take milliseconds.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
