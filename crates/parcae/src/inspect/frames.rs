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
    const GO_ON: i32 = 0;
    const STOP: i32 = 5; // _URC_END_OF_STACK
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
    /// Of a stack that does not run.
    ///
    /// # Safety
    ///
    /// `context` is suspended, and stays so during the call.
    pub(crate) unsafe fn of(context: *const Context) -> Frames {
        extern "C" fn capture(into: *mut ()) {
            // SAFETY: the unwinder calls `collect` with it, and nothing else.
            unsafe { _Unwind_Backtrace(collect, into.cast()) };
        }
        let mut collected = Collected::nothing();
        // SAFETY: suspended, as the caller says; `capture` does not unwind.
        unsafe { janus_context_observe(context, capture, (&raw mut collected).cast()) };
        // Above the task's own frames are those of the observer: `capture`, and the seam.
        let own = collected.addresses.get(2..collected.len).unwrap_or_default();
        Frames { addresses: own.to_vec() }
    }

    /// Of return addresses that somebody else has collected.
    pub(crate) fn new(addresses: Vec<usize>) -> Frames {
        Frames { addresses }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The functions, innermost first; those that were inlined too. What belongs to the runtime's own waiting is
    /// left out at the inner end, and its loop at the outer.
    pub fn functions(&self) -> Vec<Function> {
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
        trim(functions)
    }
}

/// Leaves out what every task's stack begins and ends with.
fn trim(mut functions: Vec<Function>) -> Vec<Function> {
    const OUTER: [&str; 3] =
        ["parcae::task::call", "parcae::nursery::spawn::run", "parcae::runtime::root::body"];
    const INNER: [&str; 6] = [
        "parcae::worker::",
        "parcae::cx::frame::",
        "parcae::fiber::",
        "parcae::wait::",
        "parcae::arch::",
        "<parcae::cx::frame::",
    ];
    let outer = functions.iter().position(|f| OUTER.iter().any(|name| f.name.starts_with(name)));
    if let Some(outer) = outer.filter(|&at| at > 0) {
        functions.truncate(outer);
        while functions.last().is_some_and(is_glue) {
            functions.pop();
        }
    }
    let inner = functions.iter().take_while(|f| INNER.iter().any(|name| f.name.starts_with(name)));
    let inner = inner.count();
    if inner < functions.len() {
        functions.drain(..inner);
    }
    functions
}

/// Whether a function only stands between `catch_unwind` and what it calls.
fn is_glue(function: &Function) -> bool {
    const GLUE: [&str; 6] = [
        "std::panic",
        "core::panic",
        "<core::panic",
        "core::ops::function",
        "__rust_try",
        "parcae::nursery::spawn::",
    ];
    GLUE.iter().any(|name| function.name.starts_with(name))
        || function.name.starts_with("std::panicking")
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
