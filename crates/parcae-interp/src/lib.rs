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
//! parcae_ir::insert_checks(&mut module);
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
//! the front-end and the IR build in seconds and depend on nothing.
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
//! | `arithmetic.rs`, `local.rs` | all other operations; overflow, bounds and division are checked |
//!
//! One task of the program is one task of the runtime, on threads or under the deterministic
//! executor. A program is accepted only if it is verified and metered, so no loop and no recursion
//! escapes its budget.

mod arithmetic;
mod code;
mod failure;
mod heap;
mod local;
mod machine;
mod meter;
mod tasks;

pub use failure::{Failure, FailureKind};

use code::Code;
use heap::Message;
use machine::Machine;
use parcae::{Handle, Runtime};
use parcae_ir::{Module, Violation, verify, verify_metering};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Everything that a program may use of its host.
pub struct Host {
    print: Box<dyn Fn(&str) + Send + Sync>,
    args: Vec<String>,
}

impl Host {
    /// A host that prints by this function, which is called once for each `print`.
    pub fn new(print: impl Fn(&str) + Send + Sync + 'static) -> Host {
        Host { print: Box::new(print), args: Vec::new() }
    }

    /// Arguments of the program.
    #[must_use]
    pub fn args(mut self, args: Vec<String>) -> Host {
        self.args = args;
        self
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("args", &self.args).finish_non_exhaustive()
    }
}

/// A program that is verified and metered. It may run many times, also at the same time.
#[derive(Debug, Clone)]
pub struct Program {
    code: Arc<Code>,
}

/// One run of a program.
struct Run {
    code: Arc<Code>,
    host: Host,
    handle: Handle,
    start: Instant,
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
            Ok(Program { code: Arc::new(Code::new(module)) })
        } else {
            Err(found)
        }
    }

    /// Runs the program as a task of a runtime: the value that its `main` returns, or 0.
    ///
    /// # Errors
    ///
    /// The failure that ended it.
    pub fn run(&self, runtime: &Runtime, host: Host) -> Result<i64, Failure> {
        let (code, handle) = (Arc::clone(&self.code), runtime.handle());
        let outcome = runtime.run(move |cx| {
            let run = Arc::new(Run { code, host, handle, start: parcae::time::now() });
            let mut machine = Machine::new(&run, cx);
            match machine.execute(run.code.entry, Message::Word(0)) {
                Ok(Message::Word(code)) => Ok(Ok(code as i64)),
                Ok(Message::Packet(_)) => Ok(Ok(0)),
                Err(failure) => Ok(Err(failure)),
            }
        });
        outcome.unwrap_or_else(|error| {
            let kind = FailureKind::Runtime(error);
            Err(Failure { kind, at: Default::default(), func: "main".into() })
        })
    }

    /// The source file.
    pub fn file(&self) -> &str {
        &self.code.file
    }
}
