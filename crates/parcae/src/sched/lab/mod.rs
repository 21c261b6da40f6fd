//! The lab's part in the scheduler: the operations that tasks are about to do, and the choice of
//! the task that goes on.
//!
//! Everything here is pure: it knows tasks and objects by numbers, and no worker or queue. The
//! worker reports operations (`worker::point`), the deterministic executor asks for the next task
//! (`executor::deterministic`).
//!
//! | file | idea |
//! |---|---|
//! | `op` | kinds of operations, and which of them conflict |
//! | `strategy` | the interface of strategies, and the short ones |
//! | `pct`, `pos`, `urw`, `exhaustive`, `feedback` | a strategy each |
//! | `follow` | the choices of a run on threads, from its journal |
//! | `script` | the choices of a recorded run |
//! | `hold` | one task after another, each up to an operation |
//! | `fork` | the beginning of one run and the end of another |
//! | `numbers` | numbers of tasks and objects, the same in each repetition |
//! | `faults` | which faults happen, and where |
//! | `state` | a schedule: tasks, ready tasks, choices, the rolling hash |
//! | `record` | steps of a run, for people |

mod exhaustive;
mod faults;
mod feedback;
#[cfg(feature = "record")]
mod follow;
mod fork;
mod hold;
mod numbers;
mod op;
mod pct;
mod pos;
mod record;
mod script;
mod state;
mod strategy;
mod urw;

pub(crate) use exhaustive::ExhaustiveSearch;
pub(crate) use faults::{CheckpointFault, FaultRates, WaitFault};
#[cfg(feature = "record")]
pub(crate) use follow::{Follower, StrayEvent, StrayKind, WorkerEntries};
pub(crate) use fork::Fork;
pub(crate) use hold::HoldingChooser;
pub(crate) use numbers::task_object;
#[cfg(test)]
pub(crate) use op::Op;
pub use op::OpKind;
pub(crate) use record::Recorder;
pub use record::{RunEvent, RunStep, TaskChange, TaskLabel};
pub(crate) use script::{ChoicePhase, Deviation, Script};
pub(crate) use state::{LabState, ROOT_PATH, ReadyPlace, SchedulePlan, Trouble, Turn, child_path};
#[cfg(test)]
pub(crate) use strategy::{Choice, Enabled};
pub(crate) use strategy::{Chooser, chooser};
pub use strategy::{Strategy, UnknownStrategy};

use crate::stack::{StackError, StackPool};
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};

/// Number of labs and of journals. While it is 0, a point is one load and one branch.
///
/// Relaxed, all accesses: it orders nothing. A task of a lab runs on the thread that made the lab,
/// which sees its own write; a worker with a journal was started by the thread that made it.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Whether there is a lab or a journal in this process.
#[inline(always)]
pub(crate) fn is_any_alive() -> bool {
    ALIVE.load(Ordering::Relaxed) != 0 // see `ALIVE`
}

/// Lets operations look for a lab or a journal while it exists.
pub(crate) struct LabPresence(());

impl LabPresence {
    pub(crate) fn new() -> LabPresence {
        ALIVE.fetch_add(1, Ordering::Relaxed); // see `ALIVE`
        LabPresence(())
    }
}

impl Drop for LabPresence {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed); // see `ALIVE`
    }
}

thread_local! {
    /// The lab whose schedule runs on this thread.
    static HERE: RefCell<Weak<Lab>> = const { RefCell::new(Weak::new()) };
}

/// An object at this address begins or ends: it is not the one that was there before, if any. See
/// the header of `numbers`.
///
/// Also called outside of tasks, where a test makes and drops its objects.
#[cold]
#[inline(never)]
pub(crate) fn forget_address(address: usize) {
    let here = HERE.try_with(|here| here.try_borrow().map(|lab| lab.upgrade()));
    let Ok(Ok(Some(lab))) = here else { return };
    // Not while the lab itself works: it drops no object of a program then.
    match lab.state.try_lock() {
        Ok(mut state) => state.forget_address(address),
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().forget_address(address),
        Err(TryLockError::WouldBlock) => {}
    }
}

/// A lab: it outlives the schedulers of its schedules, and keeps their stacks. Used by one thread;
/// locked, because a scheduler is shared.
#[allow(unreachable_pub, reason = "public with the feature `internals`")]
pub struct Lab {
    state: Mutex<LabState>,
    /// Whether the strategy chooses the task itself. Relaxed: used by one thread, like the lab.
    bare: AtomicBool,
    /// The stacks of the first schedule serve all others: mapping memory takes longer than a
    /// schedule.
    stacks: OnceLock<StackPool>,
    /// Called where [`SchedulePlan::dump_before`] says so.
    on_dump: Mutex<Option<DumpCallback>>,
    _presence: LabPresence,
}

/// Looks at all tasks of a scheduler.
pub(crate) type DumpCallback = Box<dyn FnOnce() + Send>;

impl Lab {
    pub(crate) fn new() -> Arc<Lab> {
        let (state, bare) = (Mutex::new(LabState::new()), AtomicBool::new(true));
        let (stacks, on_dump) = (OnceLock::new(), Mutex::new(None));
        Arc::new(Lab { state, bare, stacks, on_dump, _presence: LabPresence::new() })
    }

    /// Begins a schedule. The tasks of the last one have ended.
    pub(crate) fn begin(self: &Arc<Lab>, chooser: Box<dyn Chooser>, plan: SchedulePlan) {
        HERE.with(|here| *here.borrow_mut() = Arc::downgrade(self));
        self.bare.store(plan.bare, Ordering::Relaxed); // see `bare`
        self.lock().begin(chooser, plan);
    }

    /// Whether the strategy chooses the task itself.
    pub(crate) fn is_bare(&self) -> bool {
        self.bare.load(Ordering::Relaxed) // see `bare`
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LabState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the function that is called where the plan of the schedule says so.
    pub(crate) fn on_dump(&self, callback: DumpCallback) {
        *self.on_dump.lock().unwrap_or_else(PoisonError::into_inner) = Some(callback);
    }

    /// Calls that function, if a step for which the plan wants it has just begun. Not under a lock:
    /// the function may look at any task.
    pub(crate) fn dump_if_due(&self) {
        let due = self.lock().recorder().is_some_and(Recorder::takes_dump);
        let take = || self.on_dump.lock().unwrap_or_else(PoisonError::into_inner).take();
        if due && let Some(callback) = take() {
            callback();
        }
    }

    /// The stacks of all schedules.
    pub(crate) fn stacks(
        &self,
        make: impl FnOnce() -> Result<StackPool, StackError>,
    ) -> Result<StackPool, StackError> {
        if let Some(stacks) = self.stacks.get() {
            return Ok(stacks.clone());
        }
        let made = make()?;
        Ok(self.stacks.get_or_init(|| made).clone())
    }
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lab").finish_non_exhaustive()
    }
}
