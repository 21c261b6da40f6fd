//! Backtraces: return addresses, and the functions that they belong to. `program` selects the
//! functions to show.
//!
//! Collecting addresses is cheap, resolving them to functions is not. So addresses are collected
//! while a task is held, and resolved when the backtrace is displayed; tasks that wait in the same
//! place are resolved once.
//!
//! The unwinder knows no generated code: `generated` goes on where it ends.

use super::generated::{self, LastFrame};
use super::program::{self, Author};
use crate::stack::arch::{Context, janus_context_observe};
use std::ffi::c_void;
use std::fmt;

/// The most frames that a backtrace keeps: the runtime's own, which are not shown, and enough of
/// the program's.
const DEPTH: usize = 128;

/// A backtrace of a task that waits or is stuck: return addresses, innermost first.
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
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetGR(context: *mut c_void, register: i32) -> usize;
}

/// The number of the frame pointer in unwind information.
const FRAME_POINTER: i32 = if cfg!(target_arch = "aarch64") { 29 } else { 6 };

/// The frame that the unwinder is at: its address, and the registers there.
///
/// # Safety
///
/// `context` is the argument of a visitor.
unsafe fn frame_at(context: *mut c_void) -> LastFrame {
    // SAFETY: as the caller says; the unwinder keeps all registers that calls preserve.
    unsafe {
        LastFrame {
            address: _Unwind_GetIP(context),
            sp: _Unwind_GetCFA(context),
            fp: _Unwind_GetGR(context, FRAME_POINTER),
        }
    }
}

/// Return values of a visitor, for the unwinder.
const GO_ON: i32 = 0;
const STOP: i32 = 5; // _URC_END_OF_STACK

/// A buffer of return addresses that is filled without allocating.
#[derive(Debug)]
pub(crate) struct Collected {
    addresses: [usize; DEPTH],
    len: usize,
    /// The outermost frame; 0 if that is the base.
    last: LastFrame,
}

impl Collected {
    pub(crate) const fn nothing() -> Collected {
        let last = LastFrame { address: 0, sp: 0, fp: 0 };
        Collected { addresses: [0; DEPTH], len: 0, last }
    }

    /// Collects the return addresses of the caller. Calls nothing but the unwinder, and the
    /// registry of generated code, which tries its lock and never waits.
    pub(crate) fn collect(&mut self) {
        self.len = 0;
        self.last = LastFrame::default();
        // SAFETY: the unwinder calls `collect` with it, and nothing else.
        unsafe { _Unwind_Backtrace(collect, (&raw mut *self).cast()) };
        generated::continue_from(self.last, |address| self.push(address));
    }

    fn push(&mut self, address: usize) -> bool {
        let Some(slot) = self.addresses.get_mut(self.len) else { return false };
        *slot = address;
        self.len += 1;
        true
    }

    pub(crate) fn addresses(&self) -> &[usize] {
        &self.addresses[..self.len]
    }
}

extern "C" fn collect(context: *mut c_void, into: *mut c_void) -> i32 {
    // SAFETY: the unwinder passes on the argument of `_Unwind_Backtrace`, a `Collected`.
    unsafe {
        let into = &mut *into.cast::<Collected>();
        into.last = frame_at(context);
        // 0 is the base.
        if into.last.address == 0 || !into.push(into.last.address) {
            return STOP;
        }
    }
    GO_ON
}

impl Frames {
    /// The innermost frames of a suspended stack.
    ///
    /// # Safety
    ///
    /// `context` is suspended, and stays so during the call.
    pub(crate) unsafe fn of(context: *const Context) -> Frames {
        // SAFETY: as the caller says.
        unsafe { Frames::up_to(DEPTH, context) }
    }

    /// All frames of a suspended stack.
    ///
    /// # Safety
    ///
    /// As for [`of`](Frames::of).
    pub(crate) unsafe fn whole(context: *const Context) -> Frames {
        // SAFETY: as the caller says.
        unsafe { Frames::up_to(usize::MAX, context) }
    }

    /// At most `depth` frames of a suspended stack.
    ///
    /// Nothing runs on the suspended stack: `janus_context_observe` calls a function on the
    /// *current* stack whose unwind information names the suspended context as its caller. An
    /// ordinary backtrace taken there continues in the frames of the fiber, and ends at its base.
    ///
    /// # Safety
    ///
    /// As for [`of`](Frames::of).
    unsafe fn up_to(depth: usize, context: *const Context) -> Frames {
        /// The frames of the observer, which come first: `capture`, and the seam.
        const OBSERVER: usize = 2;
        struct Into {
            skipped: usize,
            depth: usize,
            addresses: Vec<usize>,
            last: LastFrame,
        }
        extern "C" fn visit(context: *mut c_void, into: *mut c_void) -> i32 {
            // SAFETY: the unwinder passes on the argument of `capture`, an `Into`.
            let (frame, into) = unsafe { (frame_at(context), &mut *into.cast::<Into>()) };
            let address = frame.address;
            into.last = frame;
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
            // Prevents a tail call: this frame is one of the observer's.
            std::hint::black_box(ended);
        }
        let last = LastFrame::default();
        let mut into = Into { skipped: 0, depth, addresses: Vec::new(), last };
        // SAFETY: suspended, as the caller says; `capture` does not unwind.
        unsafe { janus_context_observe(context, capture, (&raw mut into).cast()) };
        generated::continue_from(into.last, |address| {
            let room = into.addresses.len() < depth;
            into.addresses.extend(room.then_some(address));
            room
        });
        Frames { addresses: into.addresses }
    }

    /// The frames of the caller, generated code included: for functions that generated code calls,
    /// and panic hooks, where the standard library's backtrace would end there.
    pub fn here() -> Frames {
        let mut collected = Collected::nothing();
        collected.collect();
        Frames::new(collected.addresses().to_vec())
    }

    /// A backtrace from return addresses that were collected elsewhere.
    pub(crate) fn new(addresses: Vec<usize>) -> Frames {
        Frames { addresses }
    }

    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The program's own functions, innermost first, with inlined ones, each with its file and
    /// line. Frames of the runtime, the standard library and the C library are left out; see
    /// [`all_functions`](Frames::all_functions). If no frame belongs to the program, all are
    /// returned.
    ///
    /// Inlined functions, files and lines come from debug information: in release builds
    /// `debug = "line-tables-only"` is enough.
    pub fn functions(&self) -> Vec<Function> {
        program::own(self.resolve())
    }

    /// All functions, innermost first.
    pub fn all_functions(&self) -> Vec<Function> {
        self.resolve().into_iter().map(|(function, _)| function).collect()
    }

    /// The selected functions.
    pub(crate) fn shown(&self, shown: Shown) -> Vec<Function> {
        match shown {
            Shown::Program => self.functions(),
            Shown::All => self.all_functions(),
        }
    }

    fn resolve(&self) -> Vec<(Function, Author)> {
        let mut functions = Vec::new();
        let mut generated = false;
        for &address in &self.addresses {
            let known = functions.len();
            // The address of the call, not of the instruction after it.
            let call = address - 1;
            if let Some((function, own)) = generated::function_at(call) {
                generated = true;
                functions.push((function, if own { Author::Program } else { Author::Other }));
                continue;
            }
            let mut push = |function: Function| {
                let author = program::author(call, &function);
                functions.push((function, author));
            };
            // Called for each function that was inlined there, then for the function around them.
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
        if generated {
            // Their own machinery is not theirs.
            for (function, author) in &mut functions {
                if program::is_of_an_engine(function) {
                    *author = Author::Other;
                }
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
