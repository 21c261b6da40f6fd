//! Caller contexts: the state that the adapter keeps for each calling task or thread.
//!
//! The frozen functions have no nursery parameter: they act on the innermost nursery that the
//! caller has open. So every caller has a stack of nurseries. A task's is in its [`CallerContext`]
//! at the base of its own stack, found through a word that the runtime keeps for the task, so it
//! moves with the task. A thread's is thread-local. This is the only thread-local state of the
//! adapter, and no scheduler code sees it.
//!
//! # Contents
//!
//! The specification's adapter is [`RtNursery`]: a nursery, and nothing else. The entries of the
//! stack are [`Open`]: such a nursery, and the handles that functions beyond the frozen ones return
//! for it and its children. The context itself keeps state that belongs to a caller and to no
//! nursery: its last error, the result of its last await, the capabilities in use, two objects that
//! it has looked up before, and its runtime.
//!
//! # Ownership
//!
//! A context owns its open nurseries and the handles of their tasks; no other caller touches those.
//! Other callers may use a nursery's token only, which is in the table of handles. A context that
//! is dropped closes its open nurseries, innermost first. A task that returns waits for its
//! children and fails if they do. A task that fails or is ended, and a thread that ends, cancel
//! them first.
//!
//! # Errors
//!
//! The last error belongs to the context, so it moves with a task from thread to thread. A task
//! that returns the code of its last error passes that error on: the reason of a cancellation, or
//! the exhausted budget, is not lost on the way through C.

use crate::actors::{Handling, SystemRef};
use crate::boundary::abort;
use crate::fault::{ChildCode, Fault, number, result_of};
use crate::global::ROOT;
use crate::global::{self, Global};
use crate::objects::{Thing, ThingKind};
use crate::table::Object;
use crate::types::*;
use parcae::budget::Account;
use parcae::cap::{CapBudget, CapSpawn};
use parcae::foreign::{self, OpenNursery};
use parcae::{Error, TaskHandle};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

thread_local! {
    static OUTSIDE: CallerContext = const { CallerContext::new(0) };
}

/// The state of one caller.
pub(crate) struct CallerContext {
    /// The runtime that the caller is a task of, by its handle; 0 for a thread.
    home: usize,
    /// Whether a shutdown waits for this thread: see [`serve`].
    serving: Cell<bool>,
    nurseries: RefCell<Vec<Open>>,
    fault: RefCell<Option<Fault>>,
    /// Texts of the last errors, the newest last: see [`TEXTS`].
    texts: RefCell<Vec<CString>>,
    /// The result of the last await.
    pub(crate) result: Cell<NurseryResult>,
    pub(crate) cap_spawn: RefCell<Option<Arc<CapSpawn>>>,
    pub(crate) cap_budget: RefCell<Option<Arc<CapBudget>>>,
    /// The child that was last reported as exhausted.
    pub(crate) polled: Cell<u64>,
    /// Objects that were looked up before, each in the place that the lowest bit of its handle
    /// selects: see `with_object`.
    known: [Cell<Option<(usize, Thing)>>; 2],
    /// The actor whose callback runs.
    pub(crate) handling: Cell<Option<Handling>>,
    /// For yield checks outside of tasks, which always pass.
    meter: Cell<MeterWords>,
    /// The word that this meter reads: never raised.
    calm: u64,
}

/// How many error texts a context keeps, as the header documents for `parcae_last_error`. Programs
/// print several in one statement, in an order that C leaves open; sixteen are more than a
/// statement has.
const TEXTS: usize = 16;

/// The adapter's nursery: the wrapped nursery, and nothing else.
pub(crate) struct RtNursery {
    pub(crate) nursery: OpenNursery,
}

/// A nursery that a caller has open, and the objects of its handles.
pub(crate) struct Open {
    pub(crate) handle: *mut c_void,
    /// Declared before the nursery: handles must be dropped before it is closed.
    pub(crate) tasks: HashMap<usize, TaskHandle<'static, i64>>,
    /// Accounts of children with a budget of their own, by task number.
    pub(crate) accounts: Vec<(u64, Account)>,
    /// Which children have such an account.
    pub(crate) metered: Accounts,
    /// Whether spawning needs a capability.
    pub(crate) sovereign: bool,
    /// The handle of its runtime.
    pub(crate) home: usize,
    /// The system of actors that the nursery was opened for.
    pub(crate) system: Option<Arc<SystemRef>>,
    pub(crate) rt: RtNursery,
}

/// Which children of a nursery have an account of their own without naming a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounts {
    /// None: they draw from the nursery's.
    Shared,
    /// All of them: the nursery has a `child_budget`.
    OfChildren,
}

/// Calls `use_it` with the context of the caller.
///
/// Not inlined: the address of thread-local data must not be kept across a wait.
#[inline(never)]
pub(crate) fn current<R>(use_it: impl FnOnce(&CallerContext) -> R) -> R {
    match foreign::local() {
        Ok(Some(local)) if !local.is_null() => {
            // SAFETY: set by `run_task` to a context on this task's own stack.
            use_it(unsafe { &*local.cast::<CallerContext>() })
        }
        Ok(_) => OUTSIDE.with(use_it),
        Err(foreign::WrongStack) => abort(
            "called on a stack that is not the running task's: a longjmp from one task or thread into \
             another, or a stack of the program's own",
        ),
    }
}

/// Calls `use_it` with the object of a handle.
///
/// The context caches the last objects, so that repeated uses of one channel compare only its
/// generation, without an atomic read-modify-write. An object in use is taken out of the cache, so
/// that nothing is borrowed across a wait.
pub(crate) fn with_object<H, R>(
    handle: *mut H,
    kind: ThingKind,
    use_it: impl FnOnce(&Thing) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let place = handle.addr() & 1; // the lowest bit of the slot
    current(|caller| {
        let thing = match caller.known[place].take() {
            Some((addr, thing)) if addr == handle.addr() && ROOT.objects.is_live(handle) => thing,
            _ => ROOT.objects.get(handle, kind)?,
        };
        if thing.kind() != kind {
            // Returns the error.
            return ROOT.objects.get(handle, kind).and_then(|thing| use_it(&thing));
        }
        let answer = use_it(&thing);
        caller.known[place].set(Some((handle.addr(), thing)));
        answer
    })
}

impl CallerContext {
    pub(crate) const fn new(home: usize) -> CallerContext {
        CallerContext {
            home,
            serving: Cell::new(false),
            nurseries: RefCell::new(Vec::new()),
            fault: RefCell::new(None),
            texts: RefCell::new(Vec::new()),
            result: Cell::new(NurseryResult { kind: 0, reason: 0, code: 0, task: 0, others: 0 }),
            cap_spawn: RefCell::new(None),
            cap_budget: RefCell::new(None),
            polled: Cell::new(0),
            known: [const { Cell::new(None) }; 2],
            handling: Cell::new(None),
            meter: Cell::new(MeterWords {
                slice: u64::MAX,
                limit: std::ptr::null(),
                signal: std::ptr::null(),
            }),
            calm: 0,
        }
    }

    /// A number that identifies this context among the live ones. Nothing that is stored with it
    /// outlives the context: the handles of its tasks end with their nursery.
    pub(crate) fn number(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The runtime that the caller is a task of, by its handle; 0 for a thread.
    pub(crate) fn home(&self) -> usize {
        self.home
    }

    /// Whether a shutdown waits for this thread.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.get()
    }

    // ----- errors ---------------------------------------------------------------------------

    /// Records an error of a call.
    pub(crate) fn note(&self, call: &str, fault: Fault) {
        let text = format!("{call}: {}", fault.text).replace('\0', " ");
        let mut texts = self.texts.borrow_mut();
        if texts.len() == TEXTS {
            texts.remove(0);
        }
        texts.push(CString::new(text).unwrap_or_default());
        *self.fault.borrow_mut() = Some(fault);
    }

    /// The text of the last error. It is on the heap and stays there when later errors are
    /// recorded.
    pub(crate) fn error_text(&self) -> *const c_char {
        match (&*self.fault.borrow(), self.texts.borrow().last()) {
            (Some(_), Some(text)) => text.as_ptr(),
            _ => c"".as_ptr(),
        }
    }

    pub(crate) fn error_kind(&self) -> i32 {
        self.fault.borrow().as_ref().map_or(E_NONE, |fault| fault.kind)
    }

    /// Clears the last error; its text stays valid.
    pub(crate) fn clear_error(&self) {
        *self.fault.borrow_mut() = None;
    }

    /// The error of a task that returned a negative code.
    fn error_for(&self, code: i64) -> Error {
        if let Some(fault) = &*self.fault.borrow()
            && let Some(error) = &fault.error
            && matches!(fault.status(), CANCELLED | PANIC | BUDGET)
            // Functions that return a plain `int` return -1 for every failure.
            && [i64::from(fault.status()), -1].contains(&code)
        {
            return error.clone();
        }
        match foreign::check_cancelled() {
            Err(cancelled) if code == i64::from(CANCELLED) => cancelled,
            _ => Error::from(ChildCode(code)),
        }
    }

    // ----- nurseries ------------------------------------------------------------------------

    /// Opens a nursery, which becomes the innermost.
    pub(crate) fn open(
        &self,
        global: &Global,
        opts: parcae::NurseryOpts,
        metered: Accounts,
    ) -> Result<*mut c_void, Fault> {
        // SAFETY: a context belongs to one thread of control, and is the only owner of the nursery;
        // it closes its nurseries innermost first, and all of them before it is dropped. The header
        // states the remaining obligations of the caller that spawns.
        let nursery = unsafe { OpenNursery::open(&global.runtime.handle(), opts)? };
        let handle = ROOT.objects.insert(Thing::Nursery(nursery.token()))?;
        self.nurseries.borrow_mut().push(Open {
            handle,
            tasks: HashMap::new(),
            accounts: Vec::new(),
            metered,
            sovereign: global.profile.needs_capability(),
            home: global.handle,
            system: None,
            rt: RtNursery { nursery },
        });
        Ok(handle)
    }

    /// Calls `use_it` with the nursery of a handle; NULL is the innermost.
    pub(crate) fn with_nursery<R>(
        &self,
        handle: *mut c_void,
        use_it: impl FnOnce(&mut Open) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let mut nurseries = self.nurseries.borrow_mut();
        if handle.is_null() {
            let innermost = nurseries.last_mut().ok_or_else(no_nursery)?;
            return use_it(innermost);
        }
        if let Some(open) = nurseries.iter_mut().rev().find(|open| open.handle == handle) {
            return use_it(open);
        }
        drop(nurseries);
        crate::objects::find!(handle, Nursery);
        Err(not_yours("nursery"))
    }

    /// How many nurseries are open.
    pub(crate) fn depth(&self) -> usize {
        self.nurseries.borrow().len()
    }

    /// The first answer of the open nurseries, innermost first.
    pub(crate) fn find_nursery<R>(&self, mut ask: impl FnMut(&Open) -> Option<R>) -> Option<R> {
        self.nurseries.borrow().iter().rev().find_map(&mut ask)
    }

    /// Closes the innermost nursery. A handle that is not NULL has to name it.
    pub(crate) fn close(&self, handle: *mut c_void) -> Result<NurseryResult, Fault> {
        let open = {
            let mut nurseries = self.nurseries.borrow_mut();
            let innermost = nurseries.last().ok_or_else(no_nursery)?;
            if !handle.is_null() && innermost.handle != handle {
                let known = nurseries.iter().any(|open| open.handle == handle);
                drop(nurseries);
                crate::objects::find!(handle, Nursery);
                return Err(if known {
                    Fault::argument(
                        "nurseries end innermost first: another was opened after this one",
                    )
                } else {
                    not_yours("nursery")
                });
            }
            nurseries.pop()
        };
        let Some(open) = open else { return Err(no_nursery()) };
        let outcome = open.close();
        let result = result_of(&outcome);
        self.result.set(result);
        if let Err(error) = outcome {
            self.note("janus_nursery_await_all", error.into());
        }
        Ok(result)
    }

    /// Cancels and closes all open nurseries.
    fn abandon(&self) {
        while let Some(open) = self.nurseries.borrow_mut().pop() {
            open.rt.nursery.cancel();
            let _ = open.close();
        }
    }

    /// Closes all open nurseries, innermost first; returns the first failure.
    fn close_all(&self) -> Result<(), Error> {
        let mut first = Ok(());
        loop {
            let Some(open) = self.nurseries.borrow_mut().pop() else { return first };
            let outcome = open.close();
            if first.is_ok() {
                first = outcome;
            }
        }
    }

    /// The meter of a thread that is no task.
    pub(crate) fn meter(&self) -> *mut MeterWords {
        let calm = &raw const self.calm;
        self.meter.set(MeterWords { slice: u64::MAX, limit: calm, signal: calm.cast() });
        self.meter.as_ptr()
    }
}

impl Open {
    /// Keeps the account of a child, for recharging it. Accounts of children that have ended are
    /// dropped from time to time, so that a nursery that stays open for months does not grow.
    pub(crate) fn keep_account(&mut self, task: u64, account: Account) {
        if self.accounts.len() % 64 == 63 {
            self.accounts.retain(|(_, account)| account.standing().granted != parcae::Budget::ZERO);
        }
        self.accounts.push((task, account));
    }

    fn close(self) -> Result<(), Error> {
        let Open { handle, tasks, home, system, rt, .. } = self;
        if let Some(system) = system {
            system.close();
        }
        for task in tasks.keys() {
            let handle = std::ptr::without_provenance_mut::<c_void>(*task);
            drop(ROOT.objects.remove(handle, ThingKind::Task));
        }
        drop(tasks);
        drop(ROOT.objects.remove(handle, ThingKind::Nursery));
        match global::driven().filter(|global| global.handle == home) {
            // This thread has to run the children, on a task that waits for them.
            Some(global) => {
                let lent = Lent(rt);
                global.runtime.run(move |_| lent.close())
            }
            None => rt.nursery.close(),
        }
    }
}

/// A nursery that the thread lends to its own root task, which runs on the same thread.
struct Lent(RtNursery);

// SAFETY: under the deterministic executor everything runs on one thread.
unsafe impl Send for Lent {}

impl Lent {
    fn close(self) -> Result<(), Error> {
        self.0.nursery.close()
    }
}

impl Drop for CallerContext {
    fn drop(&mut self) {
        let nurseries = std::mem::take(self.nurseries.get_mut());
        if global::is_forked() {
            std::mem::forget(nurseries); // no worker is left that could end the children
            return;
        }
        for open in nurseries.into_iter().rev() {
            open.rt.nursery.cancel();
            let _ = open.close();
        }
    }
}

/// Runs a callback of the program for which a shutdown waits, on a thread. Calls in it must not
/// wait for that shutdown (see [`global`]).
pub(crate) fn serve<R>(call: impl FnOnce() -> R) -> R {
    struct Serving(bool);
    impl Drop for Serving {
        fn drop(&mut self) {
            current(|caller| caller.serving.set(self.0));
        }
    }
    let _serving = Serving(current(|caller| caller.serving.replace(true)));
    call()
}

/// Runs a call of the program on a thread of the runtime, and resets the thread's context
/// afterwards.
pub(crate) fn serve_call<R>(call: impl FnOnce() -> R) -> R {
    let returned = serve(call);
    close_all();
    current(CallerContext::clear_error);
    returned
}

/// Closes all nurseries that the calling thread has open.
pub(crate) fn close_all() {
    current(CallerContext::abandon);
}

pub(crate) fn no_nursery() -> Fault {
    Fault::new(E_NO_NURSERY, "no nursery is open here: call janus_nursery_create first")
}

pub(crate) fn not_yours(what: &str) -> Fault {
    let text = format!(
        "the {what} belongs to another caller: only the task or thread that opened the nursery may use it"
    );
    Fault::new(E_NOT_YOURS, text)
}

/// Runs a C task of the runtime with this handle from beginning to end.
pub(crate) fn run_task(home: usize, call: impl FnOnce() -> i64) -> Result<i64, Error> {
    run(CallerContext::new(home), std::ptr::null(), call)
}

/// Runs a callback of the program on a task, with this context; that of the task's code around it,
/// if it has one, is back afterwards.
pub(crate) fn run_callback(
    caller: CallerContext,
    call: impl FnOnce() -> i64,
) -> Result<i64, Error> {
    let Ok(before) = foreign::local() else {
        abort("an actor runs on a stack that is not its task's")
    };
    run(caller, before.unwrap_or(std::ptr::null()), call)
}

/// Runs code of the program with its context. `before` is the context that it replaces.
fn run(caller: CallerContext, before: *const (), call: impl FnOnce() -> i64) -> Result<i64, Error> {
    foreign::set_local((&raw const caller).cast());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    let outcome = match outcome {
        Ok(code) => Ok(code),
        Err(payload) => match payload.downcast::<Exit>() {
            Ok(exit) => Ok(exit.0),
            Err(payload) => Err(payload),
        },
    };
    let outcome = match outcome {
        Ok(code) if code >= 0 => caller.close_all().map(|()| code),
        Ok(code) => {
            caller.abandon();
            Err(caller.error_for(code))
        }
        Err(payload) => {
            caller.abandon();
            foreign::set_local(before);
            drop(caller);
            std::panic::resume_unwind(payload);
        }
    };
    foreign::set_local(before);
    outcome
}

/// The panic payload that ends a task from within: raised without a message, caught at its base.
pub(crate) struct Exit(pub(crate) i64);

/// The number of a handle's task.
pub(crate) fn number_of(task: &TaskHandle<'static, i64>) -> u64 {
    number(task.id())
}
