//! Blocking calls, and a mutex that does not block workers.

use crate::api::nursery::Argument;
use crate::caller;
use crate::decl::{Int, Status, c_api};
use crate::fault::Fault;
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
    /// Calls a blocking function on a thread for such calls: the calling task is parked until the
    /// function has returned, and its worker runs other tasks. There are at most 128 such threads;
    /// further calls wait. The function runs on no task: it must not end or yield one. Returns
    /// PARCAE_OK and stores the function's result, if value is not NULL; PARCAE_CANCELLED if the
    /// task was cancelled before the call began. Once the call has begun, the task waits for it
    /// even if it is cancelled. Outside of tasks the function is called directly.
    fn parcae_blocking(function: TaskFn, arg: *mut c_void, value: *mut i64) -> Status {
        let function = function.ok_or_else(|| Fault::new(E_NULL, "a function is required, not NULL"))?;
        let arg = Argument::new(arg);
        // SAFETY: the caller's.
        let call = move || unsafe { function(arg.get()) };
        let returned = if foreign::task_id().is_some() {
            foreign::check_cancelled()?;
            // Under the deterministic executor the call runs on the task itself.
            parcae::blocking(move || match foreign::task_id() {
                Some(_) => call(),
                None => caller::serve_call(call),
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

    /// Creates a mutex for any task or thread. A task that waits for it is parked, and it may be
    /// held across waits, unlike a pthread_mutex_t.
    fn parcae_mutex_create() -> *mut c_void {
        ROOT.objects.insert(Thing::Lock(Arc::new(Lock::default())))
    }

    /// Waits until the mutex is free, and locks it. A cancel point if it has to wait. PARCAE_OK,
    /// PARCAE_CANCELLED, or PARCAE_ERROR if the handle is invalid or the caller holds the mutex
    /// already.
    fn parcae_mutex_lock(mutex: *mut c_void) -> Status {
        let lock = find!(mutex, Lock);
        let me = caller::current(|caller| caller.number());
        lock.lock(me, |take| waiting(take))?;
        Ok(Status(OK))
    }

    /// Locks the mutex if it is free: PARCAE_OK; otherwise PARCAE_PENDING.
    fn parcae_mutex_try_lock(mutex: *mut c_void) -> Status {
        let lock = find!(mutex, Lock);
        if lock.try_lock(caller::current(|caller| caller.number())) {
            Ok(Status(OK))
        } else {
            Err(Fault::new(E_WOULD_WAIT, "the mutex is locked"))
        }
    }

    /// Unlocks the mutex. 0, or -1 if the caller does not hold it.
    fn parcae_mutex_unlock(mutex: *mut c_void) -> Int {
        let lock = find!(mutex, Lock);
        lock.unlock(caller::current(|caller| caller.number()))?;
        Ok(Int(0))
    }

    /// Destroys a mutex that is neither held nor waited for. 0 or -1.
    fn parcae_mutex_destroy(mutex: *mut c_void) -> Int {
        drop(ROOT.objects.remove(mutex, ThingKind::Lock)?);
        Ok(Int(0))
    }
}
