//! The words that generated code and the host share, and the functions that it calls.
//!
//! [`Words`] is the first argument of every generated function. It lies on the task's stack, in the
//! frame of [`execute`](crate::engine), from the first to the last generated frame of the task, and
//! only the task uses it.
//!
//! # Failures and panics
//!
//! A function of the host never unwinds into generated code, which has no unwind information. A
//! failure is a status that generated code tests. A panic (of the host's print function, or the
//! runtime's way to end a task) is caught here and kept in `panic`; the status says that something
//! failed, generated code sees `panicked` before it would enter a handler, returns from all of its
//! frames, and `execute` lets the panic go on.

use parcae_interp::engine::{Failed, Roots, Site, Task};
use std::any::Any;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// State of a task that executes generated code.
#[repr(C)]
pub(crate) struct Words<'m, 'c> {
    /// Ops until the next payment. In the pinned register while generated code runs; here while
    /// the host runs.
    pub(crate) left: i64,
    /// Whether the last call of `attend` failed.
    failed: u64,
    /// Whether a panic is on its way.
    panicked: u64,
    /// Operands and results of operations.
    window: *mut u64,
    /// Address and length of the contents of each object.
    views: *const u64,
    /// References of the frames, the innermost first.
    roots: *const Roots,
    /// A function whose stack pointer is below this fails.
    limit: usize,
    /// Objects of texts that are constants.
    literals: *const u64,
    task: Task<'m, 'c>,
    /// For each function that is used as a value, code that takes its arguments from memory.
    thunks: *const *const u8,
    pub(crate) panic: Option<Box<dyn Any + Send>>,
}

/// Offsets of the fields that generated code uses.
pub(crate) mod at {
    use super::{Words, offset_of};

    pub(crate) const LEFT: i32 = offset_of!(Words<'static, 'static>, left) as i32;
    pub(crate) const FAILED: i32 = offset_of!(Words<'static, 'static>, failed) as i32;
    pub(crate) const PANICKED: i32 = offset_of!(Words<'static, 'static>, panicked) as i32;
    pub(crate) const WINDOW: i32 = offset_of!(Words<'static, 'static>, window) as i32;
    pub(crate) const VIEWS: i32 = offset_of!(Words<'static, 'static>, views) as i32;
    pub(crate) const ROOTS: i32 = offset_of!(Words<'static, 'static>, roots) as i32;
    pub(crate) const LIMIT: i32 = offset_of!(Words<'static, 'static>, limit) as i32;
    pub(crate) const LITERALS: i32 = offset_of!(Words<'static, 'static>, literals) as i32;
}

impl<'m, 'c> Words<'m, 'c> {
    pub(crate) fn new(
        mut task: Task<'m, 'c>,
        limit: usize,
        thunks: *const *const u8,
    ) -> Words<'m, 'c> {
        Words {
            left: task.left(),
            failed: 0,
            panicked: 0,
            window: task.window(),
            views: task.views(),
            roots: std::ptr::null(),
            limit,
            literals: task.literals(),
            task,
            thunks,
            panic: None,
        }
    }

    /// Calls the machine: the ops that were counted are told to it before, and those that are left
    /// to generated code behind it. True if it failed.
    fn host(&mut self, call: impl FnOnce(&mut Self) -> Result<(), Failed>) -> bool {
        self.task.set_left(self.left);
        let outcome = catch_unwind(AssertUnwindSafe(|| call(self)));
        self.left = self.task.left();
        self.views = self.task.views();
        match outcome {
            Ok(outcome) => outcome.is_err(),
            Err(panic) => {
                self.panic = Some(panic);
                self.panicked = 1;
                true
            }
        }
    }

    /// Leaves the ops that were counted to the machine, at the end.
    pub(crate) fn settle(&mut self) {
        self.task.set_left(self.left);
    }
}

/// The functions that generated code calls, with their names.
pub(crate) const FUNCTIONS: [(&str, *const u8); 7] = [
    ("operate", operate as *const u8),
    ("attend", attend as *const u8),
    ("settle", settle as *const u8),
    ("fault", fault as *const u8),
    ("catch", catch as *const u8),
    ("resume", resume as *const u8),
    ("closure", closure as *const u8),
];

/// Executes an operation whose operands are in the window: whether it failed.
///
/// # Safety
///
/// As for all functions here: called by generated code, with its words and a site of its program.
unsafe extern "C" fn operate(words: *mut Words<'_, '_>, site: *const Site) -> u64 {
    // SAFETY: generated code passes the words of its task, which nothing else uses meanwhile.
    let words = unsafe { &mut *words };
    let roots = words.roots;
    words
        .host(|words| {
            // SAFETY: the engine keeps the sites; operands have the types of the program, which is
            // verified; the roots are those of the calling frames.
            unsafe { words.task.operate(&*site, roots) }
        })
        .into()
}

/// Pays ops. The result is in `failed`: this is called from a function that has none.
///
/// # Safety
///
/// As for `operate`.
unsafe extern "C" fn attend(words: *mut Words<'_, '_>, site: *const Site) {
    // SAFETY: as in `operate`.
    let words = unsafe { &mut *words };
    // SAFETY: as in `operate`.
    words.failed = words.host(|words| words.task.attend(unsafe { &*site })).into();
}

/// Pays ops at the end of a task: whether it failed.
///
/// # Safety
///
/// As for `operate`.
unsafe extern "C" fn settle(words: *mut Words<'_, '_>, site: *const Site) -> u64 {
    // SAFETY: as in `operate`.
    unsafe {
        attend(words, site);
        (*words).failed
    }
}

/// The stack is used up (0), or code was reached that cannot be (1).
///
/// # Safety
///
/// As for `operate`.
unsafe extern "C" fn fault(words: *mut Words<'_, '_>, site: *const Site, which: u64) {
    // SAFETY: as in `operate`.
    let (words, site) = unsafe { (&mut *words, &*site) };
    words.host(|words| {
        Err(if which == 0 { words.task.overflow(site) } else { words.task.unreachable(site) })
    });
}

/// The failure that is on its way, as an object for its handler.
///
/// # Safety
///
/// As for `operate`.
unsafe extern "C" fn catch(words: *mut Words<'_, '_>) -> u64 {
    // SAFETY: as in `operate`.
    let words = unsafe { &mut *words };
    let mut reference = 0;
    words.host(|words| {
        reference = words.task.catch();
        Ok(())
    });
    reference
}

/// Goes on with a failure.
///
/// # Safety
///
/// As for `operate`.
unsafe extern "C" fn resume(words: *mut Words<'_, '_>, failure: u64) {
    // SAFETY: as in `operate`.
    let words = unsafe { &mut *words };
    words.host(|words| Err(words.task.resume(failure)));
}

/// Writes the captured values of a function value and the arguments, which are in the window, to
/// `to`: code that takes them from there.
///
/// # Safety
///
/// As for `operate`; `to` has room for them.
unsafe extern "C" fn closure(
    words: *mut Words<'_, '_>,
    reference: u64,
    count: usize,
    mut to: *mut u64,
) -> *const u8 {
    // SAFETY: as in `operate`.
    let words = unsafe { &mut *words };
    let mut code = std::ptr::null();
    words.host(|words| {
        let (func, captures) = words.task.closure(reference);
        // SAFETY: room for the captured values of any function, and the arguments; the window has
        // `count` of them. Each function that is used as a value has code in the list.
        unsafe {
            for word in captures {
                to.write(word);
                to = to.add(1);
            }
            to.copy_from_nonoverlapping(words.window, count);
            code = *words.thunks.add(func as usize);
        }
        Ok(())
    });
    code
}
