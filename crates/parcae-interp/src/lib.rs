//! The interpreter of the language: the reference for what programs do and what they are charged.
//!
//! ```
//! use parcae::prelude::*;
//! use parcae_interp::{Host, Program};
//! use parcae_lang::{Profile, Source};
//! use std::sync::{Arc, Mutex};
//!
//! let source = Source::new("first.jan", r#"
//! {.profile: service.}
//! func square(x: i64) -> i64 do
//!     x * x
//! end
//!
//! async func main() do
//!     nursery do
//!         let a = spawn square(6)
//!         let b = spawn square(7)
//!         println($"sum: {await a + await b}")
//!     end
//! end
//! "#);
//! let mut module = parcae_lang::lower(&source, Profile::Core).expect("a correct program");
//! parcae_ir::place_checks(&mut module);
//! let program = Program::new(&module).expect("verified and metered");
//!
//! let output = Arc::new(Mutex::new(String::new()));
//! let out = Arc::clone(&output);
//! let host = Host::new(move |text| out.lock().unwrap().push_str(text));
//! let rt = Runtime::builder().deterministic(1).build()?;
//! assert_eq!(program.run(&rt, host).expect("no failure"), 0);
//! assert_eq!(*output.lock().unwrap(), "sum: 85\n");
//! # Ok::<(), parcae::Error>(())
//! ```
//!
//! It is a crate of its own because it is the first part of the language that needs the runtime:
//! the front-end and the IR build in seconds and depend on nothing. A program of the host embeds
//! the language by [`Program::compile`], [`Functions`] and [`Program::run_in`].
//!
//! # Design
//!
//! | file | idea |
//! |---|---|
//! | `code.rs` | IR with values in slots |
//! | `machine.rs` | frames on the task's heap, no recursion on the host's stack; failures |
//! | `meter.rs` | exact counts, few calls of the runtime |
//! | `heap.rs` | one heap per task, counted, freed with it; messages are copied |
//! | `tasks.rs` | nurseries, tasks, channels, `select` |
//! | `engine.rs` | the seam for generated code, with the feature of that name |
//! | `functions.rs` | functions of the host, with declared costs |
//! | `outside.rs` | files and sockets as such functions, with the feature `io` |
//! | `arithmetic.rs`, `local.rs` | all other operations; overflow, bounds and division are checked |
//!
//! One task of the program is one task of the runtime, on threads or under the deterministic
//! executor. A program is accepted only if it is verified and metered, so no loop and no recursion
//! escapes its budget.

mod arithmetic;
mod code;
#[cfg(feature = "engine")]
pub mod engine;
mod failure;
mod functions;
mod heap;
mod local;
mod machine;
mod meter;
#[cfg(feature = "io")]
mod outside;
mod tasks;

pub use failure::{Failure, FailureKind};
pub use functions::{Answer, Argument, Function, Functions};
#[doc(hidden)]
pub use functions::{HostFault, HostValue};
#[cfg(feature = "io")]
pub use outside::Outside;

use code::Code;
use heap::Message;
use machine::Machine;
use parcae::{Budget, Cx, Handle, NurseryOpts, Runtime};
use parcae_ir::{Module, Violation, verify, verify_metering};
use parcae_lang::{Diagnostic, Profile, Source};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Everything that a program may use of its host.
pub struct Host {
    print: Box<dyn Fn(&str) + Send + Sync>,
    args: Vec<String>,
    functions: Functions,
}

impl Host {
    /// A host that prints by this function, which is called once for each `print`.
    pub fn new(print: impl Fn(&str) + Send + Sync + 'static) -> Host {
        Host { print: Box::new(print), args: Vec::new(), functions: Functions::new() }
    }

    /// Arguments of the program.
    #[must_use]
    pub fn args(mut self, args: Vec<String>) -> Host {
        self.args = args;
        self
    }

    /// Functions that the program may call. Those that it was compiled with must be among them.
    #[must_use]
    pub fn functions(mut self, functions: &Functions) -> Host {
        self.functions = functions.clone();
        self
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("args", &self.args)
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}

/// A program that is verified and metered. It may run many times, also at the same time.
#[derive(Debug, Clone)]
pub struct Program {
    code: Arc<Code>,
    #[cfg(feature = "engine")]
    engine: Option<Arc<dyn engine::Engine>>,
}

/// One run of a program.
struct Run {
    code: Arc<Code>,
    /// Generated code, which runs instead of the interpreter's steps.
    #[cfg(feature = "engine")]
    engine: Option<Arc<dyn engine::Engine>>,
    /// Words of the window, for generated code.
    #[cfg(feature = "engine")]
    window: usize,
    host: Host,
    handle: Handle,
    /// The runtime's time when the first task began.
    start: OnceLock<Instant>,
}

impl Program {
    /// Accepts a module with its budget checks.
    ///
    /// # Errors
    ///
    /// Every violation of the rules of the IR, or of its metering.
    pub fn new(module: &Module) -> Result<Program, Vec<Violation>> {
        let mut found = verify(module);
        if found.is_empty() {
            found = verify_metering(module);
        }
        if found.is_empty() {
            Ok(Program {
                code: Arc::new(Code::new(module)),
                #[cfg(feature = "engine")]
                engine: None,
            })
        } else {
            Err(found)
        }
    }

    /// Compiles a program that may call these functions of its host.
    ///
    /// # Errors
    ///
    /// All faults of the program, sorted by place.
    pub fn compile(
        source: &Source,
        profile: Profile,
        functions: &Functions,
    ) -> Result<Program, Vec<Diagnostic>> {
        let mut module = parcae_lang::lower_with(source, profile, &functions.types())?;
        parcae_ir::place_checks(&mut module);
        Program::new(&module).map_err(|found| found.iter().map(Diagnostic::of_compiler).collect())
    }

    /// Runs the program as a task of a runtime: the value that its `main` returns, or 0.
    ///
    /// # Errors
    ///
    /// The failure that ended it.
    pub fn run(&self, runtime: &Runtime, host: Host) -> Result<i64, Failure> {
        let run = self.begin(runtime.handle(), host)?;
        flat(runtime.run(move |cx| Ok(run.execute(cx))))
    }

    /// Runs the program in a nursery of the running task, with a budget that is drawn from the
    /// task's own: the value that its `main` returns, or 0. Ends when all tasks of the program have
    /// ended. Cancelling the running task cancels the program.
    ///
    /// ```
    /// use parcae::prelude::*;
    /// use parcae_interp::{Functions, Host, Program};
    /// use parcae_lang::{Profile, Source};
    ///
    /// let source = Source::new("spin.jan", "func main() do while true do end end");
    /// let program = Program::compile(&source, Profile::Core, &Functions::new()).expect("correct");
    /// let rt = Runtime::builder().deterministic(1).build()?;
    /// let handle = rt.handle();
    /// rt.run(move |cx| {
    ///     let budget = Budget::SERVICE.with_ops(10_000);
    ///     let failure = program.run_in(cx, &handle, budget, Host::new(|_| ())).unwrap_err();
    ///     assert_eq!(failure.to_string(), "BudgetExceeded");
    ///     Ok(()) // the host goes on
    /// })?;
    /// # Ok::<(), parcae::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The failure that ended it.
    pub fn run_in(
        &self,
        cx: &Cx,
        runtime: &Handle,
        budget: Budget,
        host: Host,
    ) -> Result<i64, Failure> {
        let run = self.begin(runtime.clone(), host)?;
        let opts = NurseryOpts::new().budget(budget);
        flat(cx.nursery_with(opts, |nursery| nursery.spawn(move |cx| Ok(run.execute(cx)))?.join()))
    }

    fn begin(&self, handle: Handle, host: Host) -> Result<Arc<Run>, Failure> {
        if let Some(name) = host.functions.missing(&self.code.hosts) {
            let message =
                format!("the host has no function `{name}` of the type that the program expects");
            let kind = failure::panic("P007", message);
            return Err(Failure { kind, at: Default::default(), func: "main".into() });
        }
        Ok(Arc::new(Run {
            code: Arc::clone(&self.code),
            #[cfg(feature = "engine")]
            engine: self.engine.clone(),
            #[cfg(feature = "engine")]
            window: self.window(),
            host,
            handle,
            start: OnceLock::new(),
        }))
    }

    /// The source file.
    pub fn file(&self) -> &str {
        &self.code.file
    }
}

impl Run {
    /// Executes the program on the running task.
    fn execute(self: &Arc<Run>, cx: &Cx) -> Result<i64, Failure> {
        self.start.get_or_init(parcae::time::now);
        match Machine::new(self, cx).execute(self.code.entry, Message::Word(0))? {
            Message::Word(code) => Ok(code as i64),
            Message::Packet(_) => Ok(0),
        }
    }
}

fn flat(outcome: parcae::Result<Result<i64, Failure>>) -> Result<i64, Failure> {
    outcome.unwrap_or_else(|error| {
        let kind = FailureKind::Runtime(error);
        Err(Failure { kind, at: Default::default(), func: "main".into() })
    })
}
