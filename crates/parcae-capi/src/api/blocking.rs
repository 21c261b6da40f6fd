//! Calls that block, and a mutex that does not block workers.

use crate::api::nursery::Argument;
use crate::decl::{Int, Status, c_api};
use crate::fault::Fault;
use crate::flow;
use crate::global::{self, ROOT};
use crate::objects::{Lock, Thing, ThingKind, find};
use crate::types::*;
use parcae::foreign;
use std::ffi::c_void;
use std::sync::Arc;

/// Runs an operation that may wait.
fn waiting<R: Send>(operation: impl FnOnce() -> R + Send) -> Result<R, Fault> {
    match global::driven() {
        Some(global) => global.wait(operation),
        None => Ok(operation()),
    }
}

c_api! {
    /// Calls a function that blocks its thread, on a thread for such calls: the calling task is
    /// parked until it has returned, and its worker runs others. There are 128 such threads at
    /// most; more calls wait. The function is no task: it must not end or yield one. PARCAE_OK and
    /// what it returned, if value is not NULL; PARCAE_CANCELLED if the task was cancelled before
    /// the call began. A call that has begun is waited for. Outside of tasks it is called at once.
    fn parcae_blocking(function: TaskFn, arg: *mut c_void, value: *mut i64) -> Status {
        let function = function.ok_or_else(|| Fault::new(E_NULL, "NULL where a function is wanted"))?;
        let arg = Argument::new(arg);
        // SAFETY: the caller's.
        let call = move || unsafe { function(arg.get()) };
        let returned = if foreign::task_id().is_some() {
            foreign::check_cancelled()?;
            // Under the deterministic executor it is made on the task itself.
            parcae::blocking(move || match foreign::task_id() {
                Some(_) => call(),
                None => flow::serve_call(call),
            })?
        } else {
            call()
        };
        if !value.is_null() {
            // SAFETY: the caller's.
            unsafe { value.write(returned) };
        }
        Ok(Status(OK))
    }

    /// A mutex: for any task or thread. A task that waits for it is parked, and it may be held over
    /// waits, unlike a pthread_mutex_t.
    fn parcae_mutex_create() -> *mut c_void {
        ROOT.objects.insert(Thing::Lock(Arc::new(Lock::default())))
    }

    /// Waits until the mutex is free, and takes it. A cancel point if it has to wait. PARCAE_OK,
    /// PARCAE_CANCELLED, or PARCAE_ERROR: the handle is none, or the caller has the mutex already.
    fn parcae_mutex_lock(mutex: *mut c_void) -> Status {
        let lock = find!(mutex, Lock);
        let me = flow::current(|flow| flow.number());
        lock.lock(me, |take| waiting(take))?;
        Ok(Status(OK))
    }

    /// Takes the mutex if it is free: PARCAE_OK; PARCAE_PENDING if it is not.
    fn parcae_mutex_try_lock(mutex: *mut c_void) -> Status {
        let lock = find!(mutex, Lock);
        if lock.try_lock(flow::current(|flow| flow.number())) {
            Ok(Status(OK))
        } else {
            Err(Fault::new(E_WOULD_WAIT, "the mutex is locked"))
        }
    }

    /// Gives the mutex back. 0, or -1 if the caller does not have it.
    fn parcae_mutex_unlock(mutex: *mut c_void) -> Int {
        let lock = find!(mutex, Lock);
        lock.unlock(flow::current(|flow| flow.number()))?;
        Ok(Int(0))
    }

    /// Ends the handle of a mutex that nobody has or waits for. 0 or -1.
    fn parcae_mutex_destroy(mutex: *mut c_void) -> Int {
        drop(ROOT.objects.remove(mutex, ThingKind::Lock)?);
        Ok(Int(0))
    }
}
