//! The only global of the adapter: its [`ROOT`], which owns the runtime.
//!
//! ```text
//!              start: init, or a call that needs a runtime
//!   Stopped ───────────────────────────────────────────────► Running
//!      ▲                                                        │
//!      │ ended: the runtime is gone                             │ janus_rt_shutdown
//!      └────────────────────────── Ending ◄─────────────────────┘
//! ```
//!
//! | state | the runtime | left by |
//! |---|---|---|
//! | Stopped | none | the thread that starts one, under the write lock |
//! | Running | owned by the state; each call holds a reference | the thread that shuts it down |
//! | Ending | owned by the thread that shuts it down | that thread, also if it panics |
//!
//! A call that needs a runtime, such as `janus_nursery_create`, starts one where there is none:
//! before the first `janus_rt_init` and after every shutdown, with all defaults. A call during a
//! shutdown waits until the old runtime is gone, and then starts another. So does `janus_rt_init`;
//! a second shutdown waits for the first.
//!
//! # Why there is at most one runtime, and no call waits forever
//!
//! A runtime is started in Stopped only, under the write lock; `Ended` stores Stopped after the old
//! one was dropped. So if several threads start one, one of them does, and the others find it.
//!
//! *Ending ends.* It waits for calls that count a reference, and then for the tasks and threads of
//! the runtime. The runtime's token was cancelled before, so calls that wait on behalf of tasks
//! come back; all others take a few instructions. A thread that has a nursery open does not hold it
//! up: the nursery keeps the workers, and they end with it.
//!
//! *A waiting caller is woken.* It waits on the latch that it found in Ending, with no lock and no
//! reference to the runtime. The latch is set once, by `Ended`, after the state was stored; a later
//! caller finds the new state. A woken caller checks the state again: another runtime may have
//! started or ended since.
//!
//! *No caller waits for itself.* A shutdown waits for tasks, for callbacks that the runtime makes
//! on its own threads, and for callbacks on the thread that shuts down (cancel callbacks). Such a
//! caller ([`is_waited_for`]) gets an error instead. A thread of the program for which a task waits
//! by blocking cannot be detected; the manual names this case.
//!
//! *Between finding a runtime and using it* another thread may begin to shut it down: then opening
//! a nursery fails as cancelled. The caller drops its reference and tries again ([`with_running`]).
//!
//! A task that outlives the shutdown, in a nursery that a thread still has open, is no task of the
//! next runtime: its context records its runtime, and calls that need a runtime fail there.
//!
//! Rejected: starting the next runtime beside one that is ending. Two sets of workers would share
//! the machine, and a program that restarts to change its configuration could not know when the old
//! one is gone.
//!
//! # Fork
//!
//! The child of a fork has one thread and no workers, so nothing can be awaited there. A handler
//! that runs in the child raises a flag, and every call fails from then on, also in destructors.
//! The child may call `exec` or `_exit`; the parent is unaffected.

use crate::caller;
use crate::fault::Fault;
use crate::objects::{Thing, ThingKind};
use crate::stall::Stall;
use crate::table::Table;
use crate::types::*;
use parcae::foreign;
use parcae::profile::{Cluster, Core, Feature, Profile, ProfileId, Service, Sovereign};
use parcae::runtime::Builder;
use parcae::stack::StackSize;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// The state of the adapter for the whole process.
pub(crate) static ROOT: Root = Root {
    state: RwLock::new(State::Stopped),
    objects: Table::new(),
    driven: AtomicBool::new(false),
    forked: AtomicBool::new(false),
    at_fork: Once::new(),
};

pub(crate) struct Root {
    /// The runtime: see the header.
    state: RwLock<State>,
    /// Objects by handle. They may outlive a runtime: a channel does not belong to one.
    pub(crate) objects: Table<Thing>,
    /// Whether the runtime is deterministic: then a thread that waits may have to run the workers.
    driven: AtomicBool,
    /// Whether this is the child of a fork.
    forked: AtomicBool,
    /// Installs the fork handler once.
    at_fork: Once,
}

enum State {
    Stopped,
    Running(Arc<Global>),
    /// Carries the latch that is set when the runtime is gone.
    Ending(Arc<OnceLock<()>>),
}

/// A runtime and its configuration.
pub(crate) struct Global {
    pub(crate) runtime: parcae::Runtime,
    pub(crate) profile: ProfileId,
    pub(crate) deterministic: bool,
    /// The receiver of stall reports.
    pub(crate) stall: Arc<Stall>,
    /// The thread that started it.
    thread: ThreadId,
    /// Its handle, as a number.
    pub(crate) handle: usize,
}

impl Global {
    /// Whether the profile has a feature.
    pub(crate) fn check(&self, feature: Feature) -> Result<(), Fault> {
        self.profile.check(feature).map_err(|error| Fault::new(E_PROFILE, error.to_string()))
    }

    /// Runs a closure that may wait. Under the deterministic executor the thread that started the
    /// runtime runs the workers while it waits.
    pub(crate) fn wait<R: Send>(&self, wait: impl FnOnce() -> R + Send) -> Result<R, Fault> {
        if self.drives() { Ok(self.runtime.run(|_| Ok(wait()))?) } else { Ok(wait()) }
    }

    /// Whether the caller is the thread that runs the workers while it waits.
    pub(crate) fn drives(&self) -> bool {
        self.deterministic && foreign::task_id().is_none() && thread::current().id() == self.thread
    }
}

/// Whether this is the child of a fork.
#[inline]
pub(crate) fn is_forked() -> bool {
    ROOT.forked.load(Ordering::Relaxed) // set by the child's only thread
}

pub(crate) fn forked() -> Fault {
    let text = "the runtime's threads are not in the child of a fork: call exec or _exit there, or fork \
                before the runtime starts";
    Fault::new(E_FORKED, text)
}

fn read() -> RwLockReadGuard<'static, State> {
    ROOT.state.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, State> {
    ROOT.state.write().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the end of the runtime waits for the caller: a task, or a callback that the runtime
/// makes.
pub(crate) fn is_waited_for() -> bool {
    foreign::task_id().is_some() || caller::current(|caller| caller.is_serving())
}

/// Waits until a runtime that is being shut down is gone.
fn wait_for_end(done: &OnceLock<()>) -> Result<(), Fault> {
    if is_waited_for() {
        let text = "the runtime is being shut down, which waits for the caller: tasks and callbacks of a \
                    runtime end with it";
        return Err(Fault::new(E_NOT_RUNNING, text));
    }
    done.wait(); // pairs with the `set` of `Ended`
    Ok(())
}

/// The runtime; one is started if there is none.
pub(crate) fn get() -> Result<Arc<Global>, Fault> {
    let home = caller::current(|caller| caller.home());
    loop {
        if let State::Running(global) = &*read() {
            return at_home(global, home);
        }
        let mut state = write();
        let done = match &*state {
            State::Running(global) => return at_home(global, home),
            State::Stopped if home != 0 => return Err(not_home()),
            State::Stopped => {
                let global = Arc::new(start(defaults())?);
                *state = State::Running(Arc::clone(&global));
                return Ok(global);
            }
            State::Ending(done) => Arc::clone(done),
        };
        drop(state);
        wait_for_end(&done)?;
    }
}

/// The runtime, if the caller is a thread, or one of its own tasks.
fn at_home(global: &Arc<Global>, home: usize) -> Result<Arc<Global>, Fault> {
    if home == 0 || home == global.handle { Ok(Arc::clone(global)) } else { Err(not_home()) }
}

fn not_home() -> Fault {
    Fault::new(E_NOT_RUNNING, "the runtime that this task belongs to was shut down")
}

/// Uses the runtime, which is started if there is none; tries again if it was shut down in between.
pub(crate) fn with_running<R>(
    mut use_it: impl FnMut(&Global) -> Result<R, Fault>,
) -> Result<R, Fault> {
    loop {
        let global = get()?;
        match use_it(&global) {
            // Only a shutdown cancels this token. On a task the error is final: the task ends with
            // its runtime.
            Err(_) if global.runtime.token().is_cancelled() && !is_waited_for() => {}
            answer => return answer,
        }
    }
}

/// The runtime, if the caller has to run its workers while it waits.
#[inline]
pub(crate) fn driven() -> Option<Arc<Global>> {
    // Relaxed: the thread that has to run the workers is the one that stored it.
    if ROOT.driven.load(Ordering::Relaxed) {
        running().ok().filter(|global| global.drives())
    } else {
        None
    }
}

/// Runs an operation that may wait.
#[inline]
pub(crate) fn waiting<R: Send>(operation: impl FnOnce() -> R + Send) -> Result<R, Fault> {
    match driven() {
        Some(global) => global.wait(operation),
        None => Ok(operation()),
    }
}

/// The runtime, if there is one.
pub(crate) fn running() -> Result<Arc<Global>, Fault> {
    match &*read() {
        State::Running(global) => Ok(Arc::clone(global)),
        State::Ending(_) => Err(Fault::new(E_NOT_RUNNING, "the runtime is being shut down")),
        State::Stopped => Err(Fault::new(E_NOT_RUNNING, "there is no runtime: call janus_rt_init")),
    }
}

/// Starts the runtime and returns its handle.
pub(crate) fn init(config: Config) -> Result<*mut c_void, Fault> {
    loop {
        let mut state = write();
        let done = match &*state {
            State::Running(_) => {
                let text = "the runtime runs already: it is started once, before its first use; shut it \
                            down first";
                return Err(Fault::new(E_RUNNING, text));
            }
            State::Stopped => {
                let global = Arc::new(start(config)?);
                let handle = global.pointer();
                *state = State::Running(global);
                return Ok(handle);
            }
            State::Ending(done) => Arc::clone(done),
        };
        drop(state);
        wait_for_end(&done)?;
    }
}

/// Ends the runtime: cancels the remaining tasks, waits for them, and ends the workers. With a
/// handle, only the runtime that it names.
pub(crate) fn shutdown(which: Option<*mut c_void>) -> Result<(), Fault> {
    if is_waited_for() {
        let text = "a task or a callback cannot shut the runtime down, which would wait for it: do it on a \
                    thread of the program";
        return Err(Fault::argument(text));
    }
    if let Some(handle) = which {
        ROOT.objects.get(handle, ThingKind::Runtime)?;
    }
    if running().is_ok() {
        // Before the state changes: under the deterministic executor this thread runs the workers,
        // and needs the runtime for that.
        caller::close_all();
    }
    let mut state = write();
    match &*state {
        State::Stopped => return Ok(()),
        State::Ending(done) => {
            let done = Arc::clone(done);
            drop(state);
            return wait_for_end(&done);
        }
        State::Running(global) => {
            if let Some(handle) = which.filter(|handle| handle.addr() != global.handle) {
                drop(state); // another thread has ended it, and there is a new one
                return ROOT.objects.get(handle, ThingKind::Runtime).map(drop);
            }
        }
    }
    let done = Arc::new(OnceLock::new());
    let before = std::mem::replace(&mut *state, State::Ending(Arc::clone(&done)));
    drop(state);
    let _ended = Ended(done);
    if let State::Running(global) = before {
        // Callbacks during the shutdown must not wait for this thread.
        caller::serve(|| end(global));
    }
    Ok(())
}

/// Cancels and drops a runtime that no new call can find.
fn end(mut global: Arc<Global>) {
    drop(ROOT.objects.remove::<c_void>(global.pointer(), ThingKind::Runtime));
    global.runtime.token().cancel_because(parcae::CancelReason::Shutdown);
    // Running calls hold references for a short time.
    loop {
        match Arc::try_unwrap(global) {
            Ok(last) => return drop(last.runtime), // waits for the tasks, and ends the workers
            Err(shared) => global = shared,
        }
        thread::sleep(Duration::from_micros(50));
    }
}

/// Records on drop, also during a panic, that a runtime is gone.
struct Ended(Arc<OnceLock<()>>);

impl Drop for Ended {
    fn drop(&mut self) {
        *write() = State::Stopped; // before the latch: a woken caller reads it
        let _ = self.0.set(()); // pairs with the wait of `wait_for_end`
    }
}

impl Global {
    pub(crate) fn pointer(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.handle)
    }
}

/// The defaults that the header documents for `parcae_config_init`.
pub(crate) fn defaults() -> Config {
    Config {
        size: size_of::<Config>(),
        profile: SERVICE,
        workers: 0,
        executor: THREADS,
        yield_interval: 0,
        seed: 0,
        stack_size: 0,
        max_stacks: 0,
        budget: parcae::Budget::UNLIMITED.into(),
    }
}

fn start(config: Config) -> Result<Global, Fault> {
    let profile = match config.profile {
        CORE => ProfileId::Core,
        SERVICE => ProfileId::Service,
        CLUSTER => ProfileId::Cluster,
        SOVEREIGN => ProfileId::Sovereign,
        other => {
            let text =
                format!("unknown profile {other}: choose one of PARCAE_CORE to PARCAE_SOVEREIGN");
            return Err(Fault::argument(text));
        }
    };
    let deterministic = match config.executor {
        THREADS => false,
        DETERMINISTIC => true,
        other => {
            let text =
                format!("unknown executor {other}: choose PARCAE_THREADS or PARCAE_DETERMINISTIC");
            return Err(Fault::argument(text));
        }
    };
    let stall = Arc::new(Stall::default());
    let runtime = match profile {
        ProfileId::Core => build::<Core>(&config, deterministic, &stall)?,
        ProfileId::Cluster => build::<Cluster>(&config, deterministic, &stall)?,
        ProfileId::Sovereign => build::<Sovereign>(&config, deterministic, &stall)?,
        _ => build::<Service>(&config, deterministic, &stall)?,
    };
    ROOT.at_fork.call_once(|| {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
    let handle = ROOT.objects.insert(Thing::Runtime)?.addr();
    let thread = thread::current().id();
    ROOT.driven.store(deterministic, Ordering::Relaxed); // read by `driven`
    Ok(Global { runtime, profile, deterministic, stall, thread, handle })
}

/// Marks the child of a fork.
///
/// # Safety
///
/// Safe at any time; the signature is that of `pthread_atfork`.
unsafe extern "C" fn after_fork() {
    ROOT.forked.store(true, Ordering::Relaxed); // the child has one thread
}

fn build<P: Profile>(
    config: &Config,
    deterministic: bool,
    stall: &Arc<Stall>,
) -> Result<parcae::Runtime, Fault> {
    let mut builder: Builder<P> = parcae::Runtime::builder().profile::<P>().seed(config.seed);
    let stall = Arc::clone(stall);
    builder = builder.on_stall(move |report| stall.tell(report));
    if config.workers > 0 {
        builder = builder.workers(config.workers as usize);
    }
    if deterministic {
        builder = builder.deterministic(config.seed);
    }
    if config.yield_interval > 0 {
        builder = builder.yield_interval(config.yield_interval.into());
    }
    if config.stack_size > 0 {
        builder = builder.stack_size(stack_size(config.stack_size)?);
    }
    if config.max_stacks > 0 {
        builder = builder.max_stacks(config.max_stacks);
    }
    Ok(foreign::erase(builder.budget(config.budget.into()).build()?))
}

pub(crate) fn stack_size(bytes: usize) -> Result<StackSize, Fault> {
    StackSize::new(bytes).map_err(|error| Fault::argument(error.to_string()))
}
