//! Machine code for programs of the language, by Cranelift.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_interp::Host;
//! use parcae_lang::{Profile, Source};
//!
//! let source = Source::new("sum.jan", r#"
//! func main() -> i64 do
//!     var sum = 0
//!     for i in 1..1000 do
//!         sum += i
//!     end
//!     sum
//! end
//! "#);
//! let mut module = parcae_lang::lower(&source, Profile::Core).expect("a correct program");
//! parcae_ir::place_checks(&mut module);
//! let program = parcae_jit::compile(&module).expect("all constructs are supported");
//! let rt = Runtime::builder().deterministic(1).build()?;
//! assert_eq!(program.run(&rt, Host::new(|_| ())).expect("no failure"), 500_500);
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! The result is a [`Program`] of `parcae-interp`: it runs on the same machine (heap, meter,
//! nurseries, failures), charges the same ops before every observable action, and reports the same
//! failures at the same places. Only its functions are executed by generated code.
//!
//! # Design
//!
//! | file | idea |
//! |---|---|
//! | `backend.rs` | the adapter to Cranelift: settings, declarations, memory |
//! | `translate.rs` | a function: blocks, calls, checks, failures, roots |
//! | `inline.rs` | operations that need no call: numbers, elements, fields |
//! | `words.rs` | the words that generated code and the host share; the functions that it calls |
//! | `engine.rs` | the way into generated code and back; who frees it |
//! | `debug/` | names, lines and frames for backtraces and debuggers |
//!
//! # Guarantees
//!
//! - **Metered.** The module is verified and metered, as for the interpreter. A `Budget_Decrement`
//!   is a subtraction from the pinned register, a `Budget_Check` a comparison; the slow path
//!   preserves all registers, so that code around a check saves none.
//! - **Contained.** Overflow, bounds and division are tested; the failing operation is executed
//!   again by the machine, which reports it. A function that calls tests the stack.
//! - **No unwinding** through generated frames: failures are statuses; a panic of the host is
//!   caught before it reaches generated code, and goes on behind it.
//! - **No thread-local data** in generated code: a task may go on on another worker.
//!
//! # Limits
//!
//! Memory and depth of calls are not those of the interpreter: frames are on the task's stack and
//! not in its heap, so a memory budget does not pay for them, and the size of the stack bounds the
//! depth. Unsupported constructs are an [error](CompileError::NotSupported), never a silent
//! fallback.
//!
//! # Debuggers and backtraces
//!
//! Dumps, stall reports and `parcae::inspect::Frames` name generated functions with their lines.
//! gdb reads functions, lines and frames through its JIT interface: `break file.jan:12` and `bt`
//! work; it does not know variables. For `perf` there is a [map](Options::map), for other unwinders
//! there are [tables](Options::unwinder).

mod backend;
mod debug;
mod engine;
mod inline;
mod translate;
mod words;

use parcae_interp::Program;
use parcae_ir::{Module, Violation};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// A module cannot be compiled.
#[derive(Debug)]
#[non_exhaustive]
pub enum CompileError {
    /// The module violates the rules of the IR, or is not metered.
    Invalid(Vec<Violation>),
    /// A construct that the compiler does not know, with the function that has it. The interpreter
    /// runs the program.
    NotSupported {
        /// The construct.
        construct: String,
        /// The function.
        func: String,
    },
    /// The code generator failed.
    Backend(String),
    /// The map of functions cannot be written.
    Map(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Invalid(found) => match found.first() {
                Some(first) => write!(f, "the module is not valid: {first}"),
                None => f.write_str("the module is not valid"),
            },
            CompileError::NotSupported { construct, func } => {
                write!(f, "not supported by the JIT yet: {construct}, in `{func}`")
            }
            CompileError::Map(message) => write!(f, "the map of functions: {message}"),
            CompileError::Backend(message) => write!(f, "the code generator failed: {message}"),
        }
    }
}

impl std::error::Error for CompileError {}

/// Compiles a module with its budget checks.
///
/// # Errors
///
/// If the module is not valid, has a construct that is not supported, or the code generator fails.
pub fn compile(module: &Module) -> Result<Program, CompileError> {
    Options::new().compile(module)
}

/// Settings of a compilation.
///
/// ```
/// # use parcae_lang::{Profile, Source};
/// # let source = Source::new("one.jan", "func main() -> i64 do 1 end");
/// # let mut module = parcae_lang::lower(&source, Profile::Core).expect("a correct program");
/// # parcae_ir::place_checks(&mut module);
/// # let map = std::env::temp_dir().join(format!("one-{}.map", std::process::id()));
/// let program = parcae_jit::Options::new().map(&map).compile(&module)?;
/// assert!(std::fs::read_to_string(&map)?.contains(" main at one.jan:1\n"));
/// # std::fs::remove_file(&map)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    map: Option<PathBuf>,
    unwinder: bool,
}

impl Options {
    /// Those of [`compile`].
    pub fn new() -> Options {
        Options::default()
    }

    /// Appends the names of all functions, with their places in the source, to a map for `perf`,
    /// which looks for `/tmp/perf-PID.map`.
    ///
    /// Generated code keeps frame pointers: `perf record --call-graph fp` follows its calls.
    #[must_use]
    pub fn map(mut self, file: impl Into<PathBuf>) -> Options {
        self.map = Some(file.into());
        self
    }

    /// Announces unwind tables to the unwinder of the process, so that backtraces of others, such
    /// as `std::backtrace::Backtrace`, go through generated frames; they do not know their names.
    /// Linux with glibc only.
    ///
    /// Backtraces of the runtime and of debuggers do not need it. Unwinders before gcc 13 take a
    /// lock to search such tables: with one of them, switch off the signal that asks stuck workers
    /// for backtraces (`Builder::no_stall_signal`).
    #[must_use]
    pub fn unwinder(mut self) -> Options {
        self.unwinder = true;
        self
    }

    /// Compiles a module with its budget checks.
    ///
    /// # Errors
    ///
    /// As for [`compile()`]; if the map cannot be written.
    pub fn compile(&self, module: &Module) -> Result<Program, CompileError> {
        let (program, generated) = generate(module, Metering::Kept, self.unwinder)?;
        if let Some(map) = &self.map {
            let symbols = generated.symbols.iter();
            let lines: String = symbols
                .map(|it| format!("{:x} {:x} {}\n", it.start, it.len, it.title(&module.file)))
                .collect();
            let file = std::fs::OpenOptions::new().append(true).create(true).open(map);
            let written = file.and_then(|mut file| file.write_all(lines.as_bytes()));
            written.map_err(|error| CompileError::Map(format!("{}: {error}", map.display())))?;
        }
        Ok(program.with_engine(Arc::new(generated)))
    }
}

/// Compiles a module without the code of its budget checks, to measure what they cost. Nothing
/// stops a program that loops.
///
/// # Errors
///
/// As for [`compile`].
#[cfg(feature = "unmetered")]
pub fn compile_unmetered(module: &Module) -> Result<Program, CompileError> {
    let (program, generated) = generate(module, Metering::Dropped, false)?;
    Ok(program.with_engine(Arc::new(generated)))
}

/// Whether budget checks become code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metering {
    Kept,
    #[cfg(feature = "unmetered")]
    Dropped,
}

fn generate(
    module: &Module,
    metering: Metering,
    unwinder: bool,
) -> Result<(Program, engine::Generated), CompileError> {
    let program = Program::new(module).map_err(CompileError::Invalid)?;
    // A panic of the code generator is a fault of this compiler, and not the end of its host.
    let generate = || backend::generate(module, &program, metering, unwinder);
    let generated = std::panic::catch_unwind(std::panic::AssertUnwindSafe(generate));
    let generated = generated.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(CompileError::Backend(text.unwrap_or("a panic").to_owned()))
    })?;
    Ok((program, generated))
}
