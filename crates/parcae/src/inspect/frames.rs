//! Return addresses, and their names.
//!
//! Taking a backtrace is cheap, naming its functions is not. So addresses are collected while a task is held,
//! and named when somebody reads them; tasks that wait in the same place are named once.

use crate::arch::{Context, janus_context_observe};
use std::ffi::c_void;
use std::fmt;

/// The most frames that are kept of a backtrace.
const DEPTH: usize = 48;

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

    /// The functions of the program, innermost first, and what they have called of the runtime; those that were
    /// inlined too. The rest, of the runtime and of the standard library, is left out; see
    /// [`all_functions`](Frames::all_functions).
    pub fn functions(&self) -> Vec<Function> {
        trim(self.all_functions())
    }

    /// All functions, innermost first.
    pub fn all_functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for &address in &self.addresses {
            let known = functions.len();
            // The address of the call, not of what comes after it.
            backtrace::resolve(std::ptr::without_provenance_mut(address - 1), |symbol| {
                functions.push(Function {
                    name: symbol.name().map_or_else(String::new, |name| format!("{name:#}")),
                    file: symbol.filename().map(|file| file.display().to_string()),
                    line: symbol.lineno(),
                });
            });
            if functions.len() == known {
                let name = format!("{address:#x}");
                functions.push(Function { name, file: None, line: None });
            }
        }
        functions
    }
}

/// Leaves out what says nothing about the program: of the runtime and of the standard library only what the program
/// has called; and nothing of what has called the task.
fn trim(functions: Vec<Function>) -> Vec<Function> {
    let Some(outermost) = functions.iter().rposition(|function| !is_inner(function)) else {
        return functions; // nothing of the program: better too much than nothing
    };
    let mut kept = Vec::new();
    let mut called = None;
    for function in functions.into_iter().take(outermost + 1) {
        if is_inner(&function) {
            // Of what the runtime does for the program, the last is what the program has called.
            if is_of(&function, &["parcae::"]) {
                called = Some(function);
            }
        } else {
            kept.extend(called.take());
            kept.push(function);
        }
    }
    kept
}

/// Whether a function is the runtime's or the standard library's.
fn is_inner(function: &Function) -> bool {
    const LIBRARIES: [&str; 6] = ["std::", "core::", "alloc::", "__rust", "janus_", "_start"];
    const MODULES: [&str; 22] = [
        "parcae::arch::",
        "parcae::blocking::",
        "parcae::budget::",
        "parcae::cancel::",
        "parcae::channel::",
        "parcae::cx::",
        "parcae::engine::",
        "parcae::executor::",
        "parcae::fiber::",
        "parcae::future::",
        "parcae::inspect::",
        "parcae::memory::",
        "parcae::nursery::",
        "parcae::runtime::",
        "parcae::sched::",
        "parcae::select::",
        "parcae::sync::",
        "parcae::sysmon::",
        "parcae::task::",
        "parcae::time::",
        "parcae::wait::",
        "parcae::worker::",
    ];
    let own_test = function.name.contains("::tests::");
    !own_test && (is_of(function, &LIBRARIES) || is_of(function, &MODULES))
}

/// Whether a function's name begins with one of these, also as `<Type as Trait>::function`.
fn is_of(function: &Function, prefixes: &[&str]) -> bool {
    let name = function.name.trim_start_matches(['<', '&']);
    prefixes.iter().any(|prefix| name.starts_with(prefix))
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
