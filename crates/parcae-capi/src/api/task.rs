//! Tasks: spawning with options, joining, and ending from within.

use crate::api::nursery::Argument;
use crate::boundary::{abort, sized, text};
use crate::caller::{self, Accounts, CallerContext, Exit, Open};
use crate::decl::{CType, Function, Int, Returns, Status, c_api};
use crate::fault::{Fault, number};
use crate::global;
use crate::global::ROOT;
use crate::objects::{TaskRef, Thing, ThingKind, find};
use crate::types::*;
use parcae::cap::CapSpawn;
use parcae::{Priority, TaskHandle, foreign};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// Spawns a child of the innermost nursery, without a handle.
pub(crate) fn spawn(call: impl FnOnce() -> i64 + Send + 'static) -> Result<Int, Fault> {
    caller::current(|caller| {
        caller.with_nursery(std::ptr::null_mut(), |open| {
            let cap = authority(caller, open)?;
            let home = open.home;
            let nursery = &open.rt.nursery;
            // SAFETY: the handle is dropped here.
            let child =
                unsafe { nursery.spawn(cap.as_deref(), move |_| caller::run_task(home, call)) }?;
            if open.metered == Accounts::OfChildren || cap.is_some() {
                open.keep_account(caller::number_of(&child), child.account());
            }
            drop(child);
            Ok(Int(0))
        })
    })
}

/// The capability by which a caller spawns; `None` where none is needed.
fn authority(caller: &CallerContext, open: &Open) -> Result<Option<Arc<CapSpawn>>, Fault> {
    if !open.sovereign {
        return Ok(None);
    }
    let cap = caller.cap_spawn.borrow().clone();
    cap.map(Some).ok_or_else(|| {
        let text = "the sovereign profile spawns with a capability, and none is in use here: call \
                    parcae_cap_use with one";
        Fault::new(E_CAPABILITY, text)
    })
}

/// Has a task of the caller's done something to.
fn with_task<R>(
    task: *mut Task,
    use_it: impl FnOnce(&mut Open, usize) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let known = find!(task, Task);
    caller::current(|caller| {
        if caller.number() != known.caller {
            return Err(caller::not_yours("task"));
        }
        caller.with_nursery(known.nursery, |open| use_it(open, task.addr()))
    })
}

/// Takes the handle of a task out of its nursery and the table.
fn take(task: *mut Task) -> Result<TaskHandle<'static, i64>, Fault> {
    let handle = with_task(task, |open, key| {
        open.tasks.remove(&key).ok_or_else(|| Fault::argument("the task is being joined"))
    })?;
    drop(ROOT.objects.remove(task, ThingKind::Task));
    Ok(handle)
}

c_api! {
    /// Spawns a child with options, which may be NULL, and returns a handle for joining it. nursery
    /// is one that the caller has open; NULL is the innermost. The handle is valid until
    /// parcae_task_join, parcae_task_release or the end of its nursery.
    fn parcae_spawn(
        nursery: *mut c_void,
        task: TaskFn,
        arg: *mut c_void,
        opts: *const SpawnOpts,
    ) -> *mut Task {
        let task = task.ok_or_else(|| Fault::new(E_NULL, "a task is required, not NULL"))?;
        let arg = Argument::new(arg);
        // SAFETY: the caller's.
        let call = move || unsafe { task(arg.get()) };
        // SAFETY: the caller's.
        let given = unsafe { sized(opts)? };
        let mut opts = parcae::SpawnOpts::new();
        let mut own_budget = false;
        if let Some(given) = given {
            // SAFETY: the caller's.
            if let Some(name) = unsafe { text(given.name) } {
                opts = opts.name(name);
            }
            // SAFETY: the caller's.
            if let Some(budget) = unsafe { given.budget.as_ref() } {
                opts = opts.budget((*budget).into());
                own_budget = true;
            }
            if given.stack_size > 0 {
                opts = opts.stack_size(global::stack_size(given.stack_size)?);
            }
            opts = opts.priority(match given.priority {
                NORMAL => Priority::Normal,
                LOW => Priority::Low,
                HIGH => Priority::High,
                other => return Err(Fault::argument(format!("priority {other} is unknown"))),
            });
        }
        caller::current(|caller| caller.with_nursery(nursery, |open| {
            let cap = authority(caller, open)?;
            let home = open.home;
            // SAFETY: the handle is in `tasks`, which is emptied before the nursery is closed.
            let child = unsafe {
                open.rt.nursery.spawn_with(cap.as_deref(), opts, move |_| caller::run_task(home, call))
            }?;
            let known = TaskRef {
                caller: caller.number(),
                nursery: open.handle,
                number: caller::number_of(&child),
            };
            if own_budget || open.metered == Accounts::OfChildren || cap.is_some() {
                open.keep_account(known.number, child.account());
            }
            let handle = ROOT.objects.insert(Thing::Task(Arc::new(known)))?;
            open.tasks.insert(handle.addr(), child);
            Ok(handle.cast())
        }))
    }

    /// Waits for one child. Returns PARCAE_OK and stores its value, if value is not NULL. If the
    /// child returned a negative code, returns PARCAE_ERROR and stores that code. Ends the handle,
    /// also if the caller was cancelled; the child then continues.
    fn parcae_task_join(task: *mut Task, value: *mut i64) -> Status {
        let handle = take(task)?;
        let outcome = match global::driven() {
            Some(global) => global.wait(move || handle.join())?,
            None => handle.join(),
        };
        let put = |code| {
            if !value.is_null() {
                // SAFETY: the caller's.
                unsafe { value.write(code) };
            }
        };
        match outcome {
            Ok(code) => {
                put(code);
                Ok(Status(OK))
            }
            Err(error) => {
                if let Some(child) = error.downcast_ref::<crate::fault::ChildCode>() {
                    put(child.0);
                }
                Err(error.into())
            }
        }
    }

    /// Whether a child has ended: 1 or 0; -1 for an invalid handle.
    fn parcae_task_is_finished(task: *mut Task) -> Int {
        with_task(task, |open, key| {
            Ok(Int(open.tasks.get(&key).is_none_or(|task| task.is_finished()).into()))
        })
    }

    /// Cancels one child. 0 or -1.
    fn parcae_task_cancel(task: *mut Task) -> Int {
        with_task(task, |open, key| {
            if let Some(task) = open.tasks.get(&key) {
                task.cancel();
            }
            Ok(Int(0))
        })
    }

    /// Ends the handle; the child continues, and its nursery waits for it. 0 or -1.
    fn parcae_task_release(task: *mut Task) -> Int {
        drop(take(task)?);
        Ok(Int(0))
    }

    /// The number of a task, unique in its runtime; 0 for an invalid handle.
    fn parcae_task_id(task: *mut Task) -> u64 {
        Ok(find!(task, Task).number)
    }

    /// The number of the running task; 0 outside of tasks.
    fn parcae_task_self() -> u64 {
        Ok(foreign::task_id().map_or(0, number))
    }

    /// How much stack the running task has left, in bytes; SIZE_MAX outside of tasks.
    fn parcae_stack_left() -> usize {
        Ok(foreign::stack_left().unwrap_or(usize::MAX))
    }

    /// Yields to other tasks. A cancel point.
    fn parcae_yield() -> Status {
        foreign::yield_now()?;
        Ok(Status(OK))
    }

    /// The meter of the running task, for parcae_yield_check. Outside of tasks, the thread's meter,
    /// which never runs out.
    fn parcae_meter_get() -> *mut MeterWords {
        match foreign::meter() {
            Some(meter) => Ok(meter.cast()),
            None => Ok(caller::current(|caller| caller.meter())),
        }
    }

    /// The slow path of parcae_yield_check: yields, draws the next slice of the budget, waits for a
    /// recharge, or returns why the task has to end.
    fn parcae_yield_slow() -> Status {
        // C++ destructors that run because the task ends cannot report an error.
        if !std::thread::panicking() {
            foreign::checkpoint_slow()?;
        }
        Ok(Status(OK))
    }
}

/// Ends the running task as if its function had returned `code`.
///
/// Unwinds the task's stack, without a word. Frames of C are skipped; those of C++ run their
/// destructors.
///
/// # Safety
///
/// As the header says: the functions that are left have tables for unwinding, as they have by
/// default on the platforms of the runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn parcae_task_exit(code: i64) -> ! {
    end_task("parcae_task_exit", Box::new(Exit(code)))
}

/// Fails the running task: its nursery comes to `PARCAE_PANIC`, with this text.
///
/// # Safety
///
/// As for [`parcae_task_exit`]; `message` is NULL or a text that ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn parcae_task_panic(message: *const c_char) -> ! {
    // SAFETY: the caller's.
    let message = unsafe { text(message) }.unwrap_or_else(|| "a task has panicked".to_owned());
    end_task("parcae_task_panic", Box::new(message))
}

/// Unwinds the running task, if this is one, and not one that unwinds already.
fn end_task(name: &str, payload: Box<dyn std::any::Any + Send>) -> ! {
    if std::thread::panicking() {
        abort(&format!("{name} while the task is being unwound"));
    }
    match foreign::local() {
        Ok(Some(local)) if !local.is_null() => std::panic::resume_unwind(payload),
        _ => abort(&format!("{name} was called outside of a task, and has no task to end")),
    }
}

/// The functions that do not come back.
pub const ENDING: &[Function] = &[
    Function {
        name: "parcae_task_exit",
        docs: &[
            " Ends the running task as if its function had returned code. Its stack is unwound:",
            " C functions are skipped as by longjmp, C++ destructors run. Outside of a task it \
             aborts the process.",
        ],
        params: &[("code", <i64 as CType>::NAME)],
        result: "void",
        returns: Returns::Never,
    },
    Function {
        name: "parcae_task_panic",
        docs: &[
            " Fails the running task in the same way: the result of its nursery is PARCAE_PANIC, \
             with this message.",
        ],
        params: &[("message", <*const c_char as CType>::NAME)],
        result: "void",
        returns: Returns::Never,
    },
];
