//! Tasks without nurseries: scopes, for the scheduler's own tests and measurements.

use super::Engine;
use crate::sched::task::group::Group;
use crate::sched::task::state::RecordHandle;
use crate::sched::task::{Binding, Placement, Priority, Start, Task, TaskRef, Traits};
use crate::sched::worker::{self, Cancelled, Worker};
use crate::stack::StackPool;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::ptr::NonNull;

impl Engine {
    /// Runs `root` as a task and returns its value. Blocks the calling thread.
    ///
    /// # Panics
    ///
    /// On a task of the same scheduler, which would wait for itself; under the
    /// deterministic executor on another thread than the one that made it. If there is no stack
    /// for it.
    pub fn run<R: Send>(&self, root: impl FnOnce() -> R + Send) -> R {
        let outcome = self.run_task(self.shared.usual_traits(), |_, start| match start {
            Start::Run => std::panic::catch_unwind(std::panic::AssertUnwindSafe(root)),
            Start::Refused(error) => Err(error as Box<dyn std::any::Any + Send>),
        });
        let outcome = outcome.expect("room for a task");
        outcome.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Spawns a task from any thread.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        // SAFETY: the closure is `'static`.
        unsafe { self.spawn_unchecked(task) }
    }

    /// # Safety
    ///
    /// Values that the closure borrows outlive the task.
    unsafe fn spawn_unchecked(&self, closure: impl FnOnce() + Send) {
        // SAFETY: as the caller says.
        unsafe {
            self.submit(self.shared.usual_traits(), plain(closure)).expect("room for a task");
        };
    }

    /// Under the deterministic executor: steps until no task can run.
    pub fn run_until_idle(&self) {
        if let Some(conductor) = self.conductor() {
            conductor.run_until(|| conductor.is_stuck());
        }
    }

    /// Stacks.
    pub fn stacks(&self) -> &StackPool {
        &self.shared.stacks
    }
}

/// Whether a started task may move.
enum Moves {
    No,
    Freely,
}

/// A closure that needs to know nothing of its task.
fn plain(closure: impl FnOnce()) -> impl FnOnce(NonNull<Task>, Start) {
    move |_, start| {
        if let Start::Run = start {
            closure();
        }
    }
}

/// Children that borrow from the task that waits for them.
///
/// ```compile_fail,E0277
/// # use parcae::engine::*;
/// # let engine = Engine::new(EngineOpts::default()).unwrap();
/// engine.run(|| scope(|s| s.spawn(move || s.spawn(|| {})))); // only the owner spawns
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    group: Group,
    /// Only the owner spawns: it counts without atomics. So a child cannot have this.
    _not_sync: PhantomData<std::cell::Cell<()>>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// Runs `body`, which may spawn tasks that borrow from outside of it, and waits for them.
/// Must be called on a task.
pub fn scope<'env, R>(body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R) -> R {
    assert!(
        !std::thread::panicking(),
        "a scope in a destructor that runs for a panic: children could not be waited for"
    );
    let owner = current_task();
    assert!(
        crate::scope::cx::Here::new().frame().is_none(),
        "a task of a runtime opens nurseries, not scopes"
    );
    let scope = Scope {
        group: Group::new(owner),
        _not_sync: PhantomData,
        _scope: PhantomData,
        _env: PhantomData,
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&scope)));
    scope.group.close();
    while !scope.group.is_empty() {
        // Requests to end are not passed on to children: they are waited for.
        if !worker::must_not_switch() {
            worker::wait();
        }
    }
    if let Some(payload) = scope.group.take_panic() {
        resume_unwind(payload);
    }
    match outcome {
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a child.
    #[inline]
    pub fn spawn(&'scope self, child: impl FnOnce() + Send + 'scope) {
        // SAFETY: the scope waits for the child, which therefore does not outlive 'scope.
        unsafe { self.spawn_with(Priority::Normal, Moves::No, child) };
    }

    /// Spawns a child with a priority.
    pub fn spawn_at(&'scope self, priority: Priority, child: impl FnOnce() + Send + 'scope) {
        // SAFETY: as above.
        unsafe { self.spawn_with(priority, Moves::No, child) };
    }

    /// Spawns a child that may move to another thread after it has started.
    ///
    /// # Safety
    ///
    /// Everything that lives on the child's stack while it waits is `Send`. No function on it
    /// uses thread-local data both before and after a wait: the compiler may remember where
    /// it was.
    pub unsafe fn spawn_migratable(&'scope self, child: impl FnOnce() + Send + 'scope) {
        // SAFETY: as above, and as the caller says.
        unsafe { self.spawn_with(Priority::Normal, Moves::Freely, child) };
    }

    /// # Safety
    ///
    /// As for [`spawn_migratable`](Scope::spawn_migratable) if it is.
    #[inline]
    unsafe fn spawn_with(
        &'scope self,
        priority: Priority,
        moves: Moves,
        child: impl FnOnce() + Send + 'scope,
    ) {
        let binding = Binding::movable(matches!(moves, Moves::Freely));
        let group = Some(NonNull::from(&self.group));
        let spawned = worker::with_current(|worker| {
            let lane = priority.into();
            let traits = Traits { lane, binding, ..worker.shared.usual_traits() };
            // SAFETY: the scope waits for the child.
            unsafe { worker.spawn(group, traits, Placement::Any, RecordHandle::None, plain(child)) }
        });
        spawned.expect("spawn on a task").expect("memory for a task record");
        // Counted when it is certain; the bias covers a child that has ended already.
        self.group.add();
    }
}

pub(super) fn current_task() -> TaskRef {
    worker::with_current(Worker::task).flatten().expect("called on a task")
}

/// Lets other tasks run.
#[inline]
pub fn yield_now() {
    worker::yield_now();
}

/// Waits until the task's [`Waker`](crate::task::Waker) is used; may return early.
///
/// # Errors
///
/// If the task was asked to end.
pub fn park() -> Result<(), Cancelled> {
    worker::with_current(Worker::park).unwrap_or(Ok(()))
}

/// The index of the worker that runs this task.
pub fn worker_index() -> Option<usize> {
    worker::with_current(|worker| worker.index)
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scope")
    }
}
