//! The scheduler and the budget of the running task, under the names that generated code uses.

use crate::api::nursery::Argument;
use crate::api::rt::expand;
use crate::api::task::spawn;
use crate::decl::{Int, c_api};
use crate::fault::Fault;
use crate::types::*;
use crate::{caller, global};
use parcae::foreign;
use std::ffi::c_void;

c_api! {
    /// Starts the runtime and returns it; NULL on failure. A process has one runtime for C: while
    /// it runs, a second scheduler is refused with NULL and PARCAE_E_RUNNING.
    fn janus_scheduler_create(config: SchedulerConfig) -> *mut c_void {
        global::init(expand(config.worker_count, config.deterministic_seed))
    }

    /// Ends the runtime that janus_scheduler_create, or janus_rt_get, has returned.
    fn janus_scheduler_shutdown(scheduler: *mut c_void) -> () {
        global::shutdown(Some(scheduler))
    }

    /// As janus_nursery_spawn; task is a janus_task_fn.
    fn janus_scheduler_spawn(task: *mut c_void, arg: *mut c_void) -> Int {
        if task.is_null() {
            return Err(Fault::new(E_NULL, "a task is required, not NULL"));
        }
        // SAFETY: the caller promises that it is a function; function pointers have the size of
        // data pointers, and this one is not NULL.
        let task = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(*mut c_void) -> i64>(task)
        };
        let arg = Argument::new(arg);
        // SAFETY: as above.
        spawn(move || unsafe { task(arg.get()) })
    }

    /// Yields to other tasks. 0, or -1 if the task was cancelled.
    fn janus_scheduler_yield() -> Int {
        foreign::yield_now()?;
        Ok(Int(0))
    }

    /// How many turns tasks have run in total.
    fn janus_scheduler_stats() -> u64 {
        Ok(global::running()?.runtime.stats().counters().executed)
    }

    /// The remaining budget of the running task; unlimited outside of tasks.
    fn janus_budget_get_current() -> Budget {
        Ok(foreign::balance().into())
    }

    /// Adds to the budget that the running task draws from, by the authority of its capability in
    /// use (parcae_cap_use). 0, or -1 if there is none or it does not allow the amount.
    fn janus_budget_recharge(amount: Budget) -> Int {
        let cap = caller::current(|caller| caller.cap_budget.borrow().clone());
        let cap = cap.ok_or_else(|| {
            let text = "no capability to recharge is in use here: call parcae_cap_use with one";
            Fault::new(E_CAPABILITY, text)
        })?;
        let account = foreign::account().ok_or_else(|| Fault::argument("only a task has a budget"))?;
        account.recharge(&cap, amount.into())?;
        Ok(Int(0))
    }
}
