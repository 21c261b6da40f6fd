//! Nurseries.

use crate::api::task::spawn;
use crate::caller::{self, Accounts};
use crate::decl::{Int, Long, Status, c_api};
use crate::fault::Fault;
use crate::global;
use crate::global::ROOT;
use crate::objects::{Thing, TokenRef, find};
use crate::types::*;
use parcae::profile::Feature;
use std::ffi::c_void;
use std::sync::Arc;

c_api! {
    /// Opens a nursery, which is the caller's innermost until janus_nursery_await_all. Starts the
    /// runtime with default settings if there is none, also after a shutdown; during a shutdown it
    /// waits until the old runtime is gone. NULL on failure.
    fn janus_nursery_create() -> *mut c_void {
        create(parcae::NurseryOpts::new(), Accounts::Shared)
    }

    /// Spawns a child of the innermost nursery that the caller has open. 0, or -1 on failure.
    /// Neither waits nor starts a thread. The task may continue on another thread after each wait:
    /// it must not keep thread-local data, or the address of such data (errno!), across a wait.
    fn janus_nursery_spawn(task: TaskFn, arg: *mut c_void) -> Int {
        let task = task.ok_or_else(|| Fault::new(E_NULL, "a task is required, not NULL"))?;
        let arg = Argument(arg);
        spawn(move || {
            // SAFETY: the caller's.
            unsafe { task(arg.get()) }
        })
    }

    /// Closes the innermost nursery that the caller has open: waits for all its children. 0 if they
    /// succeeded, PARCAE_CANCELLED, PARCAE_PANIC, PARCAE_BUDGET, or the negative code of the first
    /// child that failed. Also -1 if there is no nursery; parcae_last_error_kind distinguishes the
    /// two. It is the only wait of a task that is not a cancel point.
    fn janus_nursery_await_all() -> Long {
        Ok(Long(caller::current(|caller| caller.close(std::ptr::null_mut()))?.code))
    }
}

/// The part of the header that does not change.
pub const FROZEN: &[crate::decl::Function] = FUNCTIONS;

/// An argument on its way to a task. Its target belongs to the program.
#[derive(Clone, Copy)]
pub(crate) struct Argument(*mut c_void);

// SAFETY: only carried.
unsafe impl Send for Argument {}

impl Argument {
    pub(crate) fn new(arg: *mut c_void) -> Argument {
        Argument(arg)
    }

    pub(crate) fn get(self) -> *mut c_void {
        self.0
    }
}

fn create(opts: parcae::NurseryOpts, accounts: Accounts) -> Result<*mut c_void, Fault> {
    global::with_running(|global| {
        global.check(Feature::Nursery)?;
        caller::current(|caller| caller.open(global, opts.clone(), accounts))
    })
}

/// Functions beyond the frozen ones.
pub mod more {
    use super::*;
    use crate::api::share;
    use crate::boundary::{sized, text};
    use parcae::{OnExhausted, OnFailure};
    use std::time::Duration;

    c_api! {
        /// Opens a nursery with options; NULL: as janus_nursery_create.
        fn parcae_nursery_open(opts: *const NurseryOpts) -> *mut c_void {
            // SAFETY: the caller's.
            let Some(given) = (unsafe { sized(opts)? }) else {
                return create(parcae::NurseryOpts::new(), Accounts::Shared);
            };
            let (mut opts, mut accounts) = (parcae::NurseryOpts::new(), Accounts::Shared);
            // SAFETY: the caller's.
            if let Some(name) = unsafe { text(given.name) } {
                opts = opts.name(name);
            }
            // SAFETY: the caller's.
            if let Some(budget) = unsafe { given.budget.as_ref() } {
                opts = opts.budget((*budget).into());
            }
            // SAFETY: the caller's.
            if let Some(budget) = unsafe { given.child_budget.as_ref() } {
                opts = opts.child_budget((*budget).into());
                accounts = Accounts::OfChildren;
            }
            // SAFETY: the caller's.
            if let Some(budget) = unsafe { given.slice.as_ref() } {
                opts = opts.slice((*budget).into());
            }
            opts = opts.on_failure(match given.on_failure {
                FAIL_FAST => OnFailure::FailFast,
                ISOLATE => OnFailure::Isolate,
                COLLECT => OnFailure::Collect,
                other => return Err(Fault::argument(format!("on_failure {other} is unknown"))),
            });
            opts = match given.on_exhausted {
                INHERIT => opts,
                REFILL => opts.on_exhausted(OnExhausted::Refill),
                SUSPEND => opts.on_exhausted(OnExhausted::Suspend),
                FAIL => opts.on_exhausted(OnExhausted::Fail),
                other => return Err(Fault::argument(format!("on_exhausted {other} is unknown"))),
            };
            if given.timeout_ns > 0 {
                opts = opts.timeout(Duration::from_nanos(given.timeout_ns));
            }
            if given.stack_size > 0 {
                opts = opts.stack_size(global::stack_size(given.stack_size)?);
            }
            create(share::apply(opts, &given)?, accounts)
        }

        /// As janus_nursery_await_all, for a nursery by its handle, which has to be the innermost.
        fn parcae_nursery_close(nursery: *mut c_void) -> Long {
            if nursery.is_null() {
                return Err(Fault::new(E_NULL, "a nursery is required, not NULL"));
            }
            Ok(Long(caller::current(|caller| caller.close(nursery))?.code))
        }

        /// PARCAE_PENDING while the nursery has live children, PARCAE_OK when it has none. Does not
        /// wait.
        fn parcae_nursery_poll(nursery: *mut c_void) -> Status {
            let live = caller::current(|caller| {
                caller.with_nursery(nursery, |open| Ok(open.rt.nursery.live()))
            })?;
            Ok(Status(if live > 0 { PENDING } else { OK }))
        }

        /// The full result of the caller's last await. 0, or -1 if result is NULL.
        fn parcae_last_result(result: *mut NurseryResult) -> Int {
            if result.is_null() {
                return Err(Fault::new(E_NULL, "a parcae_result is required, not NULL"));
            }
            let last = caller::current(|caller| caller.result.get());
            // SAFETY: the caller's.
            unsafe { result.write(last) };
            Ok(Int(0))
        }

        /// Spawns a child without an argument.
        fn janus_nursery_spawn_noarg(task: NoArgTaskFn) -> Int {
            let task = task.ok_or_else(|| Fault::new(E_NULL, "a task is required, not NULL"))?;
            // SAFETY: the caller's.
            spawn(move || unsafe { task() })
        }

        /// Spawns a child whose result is an int32_t; it is widened with its sign.
        fn janus_nursery_spawn_i32(task: TaskFn32, arg: *mut c_void) -> Int {
            let task = task.ok_or_else(|| Fault::new(E_NULL, "a task is required, not NULL"))?;
            let arg = Argument::new(arg);
            // SAFETY: the caller's.
            spawn(move || i64::from(unsafe { task(arg.get()) }))
        }

        /// The same without an argument.
        fn janus_nursery_spawn_noarg_i32(task: NoArgTaskFn32) -> Int {
            let task = task.ok_or_else(|| Fault::new(E_NULL, "a task is required, not NULL"))?;
            // SAFETY: the caller's.
            spawn(move || i64::from(unsafe { task() }))
        }

        /// How many children of the innermost nursery have not ended; -1 if there is no nursery.
        fn janus_nursery_task_count() -> Int {
            let none = std::ptr::null_mut();
            let live = caller::current(|caller| caller.with_nursery(none, |open| Ok(open.rt.nursery.live())))?;
            Ok(Int(live.try_into().unwrap_or(i32::MAX)))
        }

        /// Cancels the innermost nursery, its children, and their nurseries.
        fn janus_nursery_cancel() -> () {
            let none = std::ptr::null_mut();
            caller::current(|caller| caller.with_nursery(none, |open| {
                open.rt.nursery.cancel();
                Ok(())
            }))
        }

        /// Cancels a nursery by its handle, from any task or thread. 0 or -1.
        fn parcae_nursery_cancel(nursery: *mut c_void) -> Int {
            find!(nursery, Nursery).cancel();
            Ok(Int(0))
        }

        /// Whether the innermost nursery was cancelled; without one, whether the task was. 1 or 0.
        fn janus_nursery_is_cancelled() -> Int {
            let none = std::ptr::null_mut();
            let cancelled = caller::current(|caller| {
                caller.with_nursery(none, |open| Ok(open.rt.nursery.token().is_cancelled()))
            });
            let cancelled = cancelled.unwrap_or_else(|_| parcae::foreign::check_cancelled().is_err());
            Ok(Int(cancelled.into()))
        }

        /// The token of the innermost nursery; destroy it after use. NULL if there is no nursery.
        fn janus_nursery_get_token() -> *mut Token {
            let none = std::ptr::null_mut();
            let token = caller::current(|caller| caller.with_nursery(none, |open| Ok(open.rt.nursery.token())))?;
            let token = TokenRef { token, callbacks: Default::default() };
            Ok(ROOT.objects.insert(Thing::Token(Arc::new(token)))?.cast())
        }

        /// How many nurseries the caller has open.
        fn parcae_nursery_depth() -> Int {
            Ok(Int(caller::current(|caller| caller.depth()) as i32))
        }
    }
}
