//! `parcae run`, `check`, `ir` and `fmt`: programs of the language.

pub(crate) mod args;

use crate::{Exit, allocator, complain};
use args::{CheckArgs, Common, FmtArgs, IrArgs, Messages, RunArgs, Stage};
use parcae::Runtime;
use parcae::inspect::OnDeadlock;
use parcae::stack::StackSize;
use parcae_interp::{Failure, FailureKind, Host, Program};
use parcae_ir::Module;
use parcae_lang::{Diagnostic, Source};
use std::io::Write;
use std::path::Path;

/// Runs a program: the value of its `main`.
///
/// # Errors
///
/// If the file cannot be read, the program has faults, or it fails.
pub(crate) fn run(args: &RunArgs) -> Result<i64, Exit> {
    let mut module = compile(&args.file, &args.common)?;
    parcae_ir::insert_checks(&mut module);
    parcae_ir::merge_checks(&mut module);
    let program = if args.jit { machine_code(&module)? } else { interpreted(&module)? };
    allocator::stop_counting();
    let mut builder = Runtime::builder().on_deadlock(OnDeadlock::Fail);
    if args.jit {
        // Frames of machine code are on the task's stack; those of the interpreter are not.
        builder = builder.stack_size(StackSize::new(1 << 20).unwrap_or(StackSize::SERVICE));
    }
    if let Some(workers) = args.workers {
        builder = builder.workers(workers as usize);
    }
    if let Some(seed) = args.seed {
        builder = builder.deterministic(seed);
    }
    if let Some(budget) = args.budget {
        builder = builder.budget(budget);
    }
    let runtime = builder.build().map_err(|error| {
        complain(&error);
        Exit::Failed
    })?;
    // A closed standard output ends nothing: the program does not know about it.
    let host = Host::new(|text| drop(std::io::stdout().lock().write_all(text.as_bytes())));
    let outcome = program.run(&runtime, host.args(args.args.clone()));
    let _ = std::io::stdout().flush();
    outcome.map_err(|failure| {
        complain(describe(&program, &failure));
        Exit::Failed
    })
}

fn interpreted(module: &Module) -> Result<Program, Exit> {
    Program::new(module).map_err(|found| {
        complain(format!("the compiler made incorrect code, which is not run: {}", found[0]));
        Exit::Failed
    })
}

#[cfg(feature = "jit")]
fn machine_code(module: &Module) -> Result<Program, Exit> {
    parcae_jit::compile(module).map_err(|error| {
        complain(format!("{error}\n  run it without --jit: the interpreter knows all constructs"));
        Exit::Failed
    })
}

#[cfg(not(feature = "jit"))]
fn machine_code(_: &Module) -> Result<Program, Exit> {
    complain(
        "this parcae was built without the JIT\n  build it with `cargo build --release -p \
         parcae-cli --features jit` (Rust 1.95 or newer), or run the program without --jit",
    );
    Err(Exit::Usage)
}

/// The failure, its place, and the details that the runtime knows.
fn describe(program: &Program, failure: &Failure) -> String {
    let mut text = failure.to_string();
    if failure.at.line > 0 {
        let (line, column) = (failure.at.line, failure.at.column);
        text += &format!("\n  at {}:{line}:{column} in `{}`", program.file(), failure.func);
    }
    if let FailureKind::Runtime(error) = &failure.kind {
        text += &format!("\n  {error}");
    }
    text
}

/// Checks programs.
///
/// # Errors
///
/// If a file cannot be read or has a fault.
pub(crate) fn check(args: &CheckArgs) -> Result<(), Exit> {
    let mut outcome = Ok(());
    for file in &args.files {
        let source = read(file)?;
        if let Err(faults) = parcae_lang::check(&source, args.common.profile) {
            report(&source, &faults, args.common.message_format);
            outcome = Err(Exit::Failed);
        }
    }
    outcome
}

/// Prints the IR of a program.
///
/// # Errors
///
/// If the file cannot be read, or the program has faults.
pub(crate) fn ir(args: &IrArgs) -> Result<(), Exit> {
    let mut module = compile(&args.file, &args.common)?;
    if args.stage != Stage::High {
        parcae_ir::insert_checks(&mut module);
    }
    if matches!(args.stage, Stage::Merged | Stage::Low) {
        parcae_ir::merge_checks(&mut module);
    }
    if args.stage == Stage::Low {
        parcae_ir::lower_tasks(&mut module);
    }
    let written = std::io::stdout().lock().write_all(parcae_ir::print(&module).as_bytes());
    written.map_err(|_| Exit::Failed)
}

/// Rewrites programs in the canonical form.
///
/// # Errors
///
/// If a file cannot be read or written, or has a fault; with `--check`, if one would change.
pub(crate) fn fmt(args: &FmtArgs) -> Result<(), Exit> {
    let mut outcome = Ok(());
    for file in &args.files {
        let source = read(file)?;
        match parcae_lang::format(&source) {
            Ok(text) if text == source.text() => {}
            Ok(_) if args.check => {
                complain(format!("{} is not in the canonical form", file.display()));
                outcome = Err(Exit::Failed);
            }
            Ok(text) => {
                if let Err(error) = std::fs::write(file, text) {
                    complain(format!("{}: {error}", file.display()));
                    outcome = Err(Exit::Failed);
                }
            }
            Err(faults) => {
                report(&source, &faults, args.message_format);
                outcome = Err(Exit::Failed);
            }
        }
    }
    outcome
}

fn compile(file: &Path, common: &Common) -> Result<Module, Exit> {
    let source = read(file)?;
    parcae_lang::lower(&source, common.profile).map_err(|faults| {
        report(&source, &faults, common.message_format);
        Exit::Failed
    })
}

fn read(file: &Path) -> Result<Source, Exit> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Source::new(file.display().to_string(), text)),
        Err(error) => {
            complain(format!("{}: {error}", file.display()));
            Err(Exit::Missing)
        }
    }
}

fn report(source: &Source, faults: &[Diagnostic], form: Messages) {
    let mut out = anstream::stderr().lock();
    for fault in faults {
        let _ = match form {
            Messages::Human => writeln!(out, "{}", fault.render(source)),
            Messages::Json => writeln!(out, "{}", fault.json(source)),
        };
    }
    if form == Messages::Human {
        let s = if faults.len() == 1 { "" } else { "s" };
        let _ = writeln!(out, "{}: {} fault{s}", source.name(), faults.len());
    }
}
