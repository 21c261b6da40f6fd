//! The one global of the adapter: the runtime.
//!
//! ```text
//!            init, or the first nursery              shutdown
//!   Fresh ───────────────────────────► Running ────────────────► Stopped
//!                                         ▲                          │
//!                                         └────────── init ──────────┘
//! ```
//!
//! A call that needs a runtime starts one where there never was any. After a shutdown it does not: then it fails, until
//! somebody starts another by name.
//!
//! # Fork
//!
//! The child of a fork has one thread, and none of the workers. Nothing could be waited for there. A handler that runs
//! in the child raises a flag, and every call fails from then on, also the destructors of what is
//! still open. The child may call `exec` or `_exit`; its parent goes on as if nothing had happened.

use crate::decl::Int;
use crate::fault::Fault;
use crate::objects::{OBJECTS, Thing, ThingKind};
use crate::types::*;
use parcae::profile::{Cluster, Core, Feature, Profile, ProfileId, Service, Sovereign};
use parcae::stack::StackSize;
use parcae::{Builder, foreign};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, PoisonError, RwLock, RwLockWriteGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;

static STATE: RwLock<State> = RwLock::new(State::Fresh);
static FORKED: AtomicBool = AtomicBool::new(false);
static AT_FORK: Once = Once::new();
/// Whether the runtime is deterministic: then a thread that waits may have to do the work.
static DRIVEN: AtomicBool = AtomicBool::new(false);

enum State {
    Fresh,
    Running(Arc<Global>),
    Stopped,
}

/// A runtime and what was asked of it.
pub(crate) struct Global {
    pub(crate) runtime: parcae::Runtime,
    pub(crate) profile: ProfileId,
    pub(crate) deterministic: bool,
    /// The thread that started it.
    thread: ThreadId,
    /// Its handle, as a number.
    handle: usize,
}

impl Global {
    /// Whether the profile has a feature.
    pub(crate) fn check(&self, feature: Feature) -> Result<(), Fault> {
        self.profile.check(feature).map_err(|error| Fault::new(E_PROFILE, error.to_string()))
    }

    /// Runs what may wait. Under the deterministic executor somebody has to do the work meanwhile: the thread
    /// that started the runtime.
    pub(crate) fn wait<R: Send>(&self, wait: impl FnOnce() -> R + Send) -> Result<R, Fault> {
        if self.drives() { Ok(self.runtime.run(|_| Ok(wait()))?) } else { Ok(wait()) }
    }

    /// Whether the caller is the thread that has to do the work while it waits.
    pub(crate) fn drives(&self) -> bool {
        self.deterministic && foreign::task_id().is_none() && thread::current().id() == self.thread
    }
}

/// Whether this is the child of a fork.
#[inline]
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed) // set by the only thread that there is
}

pub(crate) fn forked() -> Fault {
    let text = "the runtime's threads are not in the child of a fork: call exec or _exit there, or fork \
                before the runtime starts";
    Fault::new(E_FORKED, text)
}

fn write() -> RwLockWriteGuard<'static, State> {
    STATE.write().unwrap_or_else(PoisonError::into_inner)
}

/// The runtime; one is started if there never was any.
pub(crate) fn get() -> Result<Arc<Global>, Fault> {
    if let State::Running(global) = &*STATE.read().unwrap_or_else(PoisonError::into_inner) {
        return Ok(Arc::clone(global));
    }
    let mut state = write();
    match &*state {
        State::Running(global) => Ok(Arc::clone(global)),
        State::Stopped => Err(stopped()),
        State::Fresh => {
            let global = Arc::new(start(defaults())?);
            *state = State::Running(Arc::clone(&global));
            Ok(global)
        }
    }
}

/// The runtime, if the caller has to do its work while it waits.
#[inline]
pub(crate) fn driven() -> Option<Arc<Global>> {
    // Relaxed: the thread that has to do the work is the one that stored it.
    if DRIVEN.load(Ordering::Relaxed) {
        running().ok().filter(|global| global.drives())
    } else {
        None
    }
}

/// The runtime, if there is one.
pub(crate) fn running() -> Result<Arc<Global>, Fault> {
    match &*STATE.read().unwrap_or_else(PoisonError::into_inner) {
        State::Running(global) => Ok(Arc::clone(global)),
        State::Stopped => Err(stopped()),
        State::Fresh => {
            Err(Fault::new(E_NOT_RUNNING, "the runtime was not started: call janus_rt_init"))
        }
    }
}

fn stopped() -> Fault {
    Fault::new(E_NOT_RUNNING, "the runtime was shut down: janus_rt_init starts another")
}

/// Starts the runtime.
pub(crate) fn init(config: Config) -> Result<Int, Fault> {
    let mut state = write();
    if let State::Running(_) = &*state {
        let text = "the runtime runs already: it is started once, before its first use; shut it down first";
        return Err(Fault::new(E_RUNNING, text));
    }
    *state = State::Running(Arc::new(start(config)?));
    Ok(Int(0))
}

/// Ends the runtime: cancels what is left, waits for it, and ends the workers.
pub(crate) fn shutdown() -> Result<(), Fault> {
    if foreign::task_id().is_some() {
        let text =
            "a task cannot shut the runtime down, which would wait for the task: do it on a thread";
        return Err(Fault::argument(text));
    }
    if running().is_ok() {
        // Now: under the deterministic executor this thread does the work, and needs the runtime for it.
        crate::flow::close_all();
    }
    let mut state = write();
    let mut global = match std::mem::replace(&mut *state, State::Stopped) {
        State::Running(global) => global,
        before => {
            let answer = if matches!(before, State::Fresh) { Ok(()) } else { Err(stopped()) };
            *state = before;
            return answer;
        }
    };
    drop(state);
    drop(OBJECTS.remove::<c_void>(global.pointer(), ThingKind::Runtime));
    global.runtime.token().cancel_because(parcae::CancelReason::Shutdown);
    // Others have it for as long as a call takes.
    loop {
        match Arc::try_unwrap(global) {
            Ok(last) => {
                drop(last.runtime); // waits for the tasks, and ends the workers
                return Ok(());
            }
            Err(shared) => global = shared,
        }
        thread::sleep(Duration::from_micros(50));
    }
}

impl Global {
    pub(crate) fn pointer(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.handle)
    }
}

/// What the header says of `parcae_config_init`.
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
            let text = format!("profile {other}: it is one of PARCAE_CORE to PARCAE_SOVEREIGN");
            return Err(Fault::argument(text));
        }
    };
    let deterministic = match config.executor {
        THREADS => false,
        DETERMINISTIC => true,
        other => {
            let text = format!("executor {other}: it is PARCAE_THREADS or PARCAE_DETERMINISTIC");
            return Err(Fault::argument(text));
        }
    };
    let runtime = match profile {
        ProfileId::Core => build::<Core>(&config, deterministic)?,
        ProfileId::Cluster => build::<Cluster>(&config, deterministic)?,
        ProfileId::Sovereign => build::<Sovereign>(&config, deterministic)?,
        _ => build::<Service>(&config, deterministic)?,
    };
    AT_FORK.call_once(|| {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
    let handle = OBJECTS.insert(Thing::Runtime)?.addr();
    let thread = thread::current().id();
    DRIVEN.store(deterministic, Ordering::Relaxed); // read by `driven`
    Ok(Global { runtime, profile, deterministic, thread, handle })
}

unsafe extern "C" fn after_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

fn build<P: Profile>(config: &Config, deterministic: bool) -> Result<parcae::Runtime, Fault> {
    let mut builder: Builder<P> = parcae::Runtime::builder().profile::<P>().seed(config.seed);
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
