//! Return addresses, and their names. Which of them are shown: `program`.
//!
//! Taking a backtrace is cheap, naming its functions is not. So addresses are collected while a task is held,
//! and named when somebody reads them; tasks that wait in the same place are named once.

use super::program::{self, Author};
use crate::stack::arch::{Context, janus_context_observe};
use std::ffi::c_void;
use std::fmt;

/// The most frames that are kept of a backtrace: those of the runtime that are not shown, and enough of the
/// program's.
const DEPTH: usize = 128;

/// Where a task waits, or is stuck: return addresses, innermost first.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Frames {
    addresses: Vec<usize>,
}

/// A function on a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// Its name; its address if it has none.
    pub name: String,
    /// The file, if it is known.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> i32,
        into: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// What a visitor tells the unwinder.
const GO_ON: i32 = 0;
const STOP: i32 = 5; // _URC_END_OF_STACK

/// Addresses as they are collected, without allocating.
#[derive(Debug)]
pub(crate) struct Collected {
    addresses: [usize; DEPTH],
    len: usize,
}

impl Collected {
    pub(crate) const fn nothing() -> Collected {
        Collected { addresses: [0; DEPTH], len: 0 }
    }

    /// Collects those of the caller. The only thing that it calls is the unwinder.
    pub(crate) fn collect(&mut self) {
        self.len = 0;
        // SAFETY: the unwinder calls `collect` with it, and nothing else.
        unsafe { _Unwind_Backtrace(collect, (&raw mut *self).cast()) };
    }

    pub(crate) fn addresses(&self) -> &[usize] {
        &self.addresses[..self.len]
    }
}

extern "C" fn collect(context: *mut c_void, into: *mut c_void) -> i32 {
    // SAFETY: called by the unwinder with what `_Unwind_Backtrace` was given below.
    unsafe {
        let into = &mut *into.cast::<Collected>();
        let Some(slot) = into.addresses.get_mut(into.len) else { return STOP };
        *slot = _Unwind_GetIP(context);
        if *slot == 0 {
            return STOP; // the base
        }
        into.len += 1;
    }
    GO_ON
}

impl Frames {
    /// Of a stack that does not run: its innermost frames.
    ///
    /// # Safety
    ///
    /// `context` is suspended, and stays so during the call.
    pub(crate) unsafe fn of(context: *const Context) -> Frames {
        // SAFETY: as the caller says.
        unsafe { Frames::up_to(DEPTH, context) }
    }

    /// All of them.
    ///
    /// # Safety
    ///
    /// As for [`of`](Frames::of).
    pub(crate) unsafe fn whole(context: *const Context) -> Frames {
        // SAFETY: as the caller says.
        unsafe { Frames::up_to(usize::MAX, context) }
    }

    /// Nothing is made to run on the suspended stack: `janus_context_observe` calls a function on the *current* one
    /// whose unwind information says that its caller is the suspended context. An ordinary
    /// backtrace taken there goes on in the frames of the fiber, and ends at its base.
    unsafe fn up_to(depth: usize, context: *const Context) -> Frames {
        /// The frames of the observer, which come first: `capture`, and the seam.
        const OBSERVER: usize = 2;
        struct Into {
            skipped: usize,
            depth: usize,
            addresses: Vec<usize>,
        }
        extern "C" fn visit(context: *mut c_void, into: *mut c_void) -> i32 {
            // SAFETY: called by the unwinder with what `capture` has given it.
            let (address, into) = unsafe { (_Unwind_GetIP(context), &mut *into.cast::<Into>()) };
            if address == 0 || into.addresses.len() == into.depth {
                return STOP; // the base
            }
            if into.skipped < OBSERVER {
                into.skipped += 1;
            } else {
                into.addresses.push(address);
            }
            GO_ON
        }
        extern "C" fn capture(into: *mut ()) {
            // SAFETY: the unwinder calls `visit` with it, and nothing else.
            let ended = unsafe { _Unwind_Backtrace(visit, into.cast()) };
            // No tail call: this frame is one of those of the observer.
            std::hint::black_box(ended);
        }
        let mut into = Into { skipped: 0, depth, addresses: Vec::new() };
        // SAFETY: suspended, as the caller says; `capture` does not unwind.
        unsafe { janus_context_observe(context, capture, (&raw mut into).cast()) };
        Frames { addresses: into.addresses }
    }

    /// Of return addresses that somebody else has collected.
    pub(crate) fn new(addresses: Vec<usize>) -> Frames {
        Frames { addresses }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The program's own functions, innermost first; those that were inlined too, with the file and line in
    /// each. What is the runtime's, the standard library's or the C library's is left out, above and below
    /// them; see [`all_functions`](Frames::all_functions). If nothing of the program is found, all are shown.
    ///
    /// Functions that were inlined, files and lines are known from debug information: in release builds
    /// `debug = "line-tables-only"` is enough.
    pub fn functions(&self) -> Vec<Function> {
        program::own(self.resolve())
    }

    /// All functions, innermost first.
    pub fn all_functions(&self) -> Vec<Function> {
        self.resolve().into_iter().map(|(function, _)| function).collect()
    }

    /// Those that are asked for.
    pub(crate) fn shown(&self, shown: Shown) -> Vec<Function> {
        match shown {
            Shown::Program => self.functions(),
            Shown::All => self.all_functions(),
        }
    }

    fn resolve(&self) -> Vec<(Function, Author)> {
        let mut functions = Vec::new();
        for &address in &self.addresses {
            let known = functions.len();
            // The address of the call, not of what comes after it.
            let call = address - 1;
            let mut push = |function: Function| {
                let author = program::author(call, &function);
                functions.push((function, author));
            };
            // Called for each function that was inlined there, and for the one that they were inlined into.
            backtrace::resolve(std::ptr::without_provenance_mut(call), |symbol| {
                push(Function {
                    name: symbol.name().map_or_else(String::new, |name| format!("{name:#}")),
                    file: symbol.filename().map(|file| file.display().to_string()),
                    line: symbol.lineno(),
                });
            });
            if functions.len() == known {
                let function = Function { name: format!("{address:#x}"), file: None, line: None };
                let author = program::author(call, &function);
                functions.push((function, author));
            }
        }
        functions
    }
}

/// Which functions of a backtrace are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shown {
    /// The program's own.
    #[default]
    Program,
    All,
}

impl Shown {
    /// All for `{:#}`.
    pub(crate) fn by(f: &fmt::Formatter<'_>) -> Shown {
        if f.alternate() { Shown::All } else { Shown::Program }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            write!(f, " at {file}:{line}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.functions().iter().map(|f| format!("{f}"))).finish()
    }
}
