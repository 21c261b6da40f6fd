//! `parcae run`, `check`, `ir` and `fmt`: programs of the language.

pub(crate) mod args;

use crate::{Exit, allocator, complain};
use args::{CheckArgs, Common, Emit, FmtArgs, IrArgs, Messages, RunArgs, Stage};
use parcae::Runtime;
use parcae::cap::{Delegation, FsAccess, FsLimits, NetLimits};
use parcae::inspect::OnDeadlock;
use parcae::stack::StackSize;
use parcae_interp::{Failure, FailureKind, Functions, Host, Outside, Program};
use parcae_ir::{HostFunc, Module};
use parcae_lang::{Authority, Diagnostic, Source, library};
use std::io::Write;
use std::path::Path;

/// Most files, and most sockets, that a program has open.
const MOST_OPEN: u32 = 256;

/// Runs a program: the value of its `main`.
///
/// # Errors
///
/// If the file cannot be read, the program has faults, or it fails.
pub(crate) fn run(args: &RunArgs) -> Result<i64, Exit> {
    let mut granted = library();
    granted.retain(|func| match Authority::of(&func.name) {
        Some(Authority::Read) => args.allow_read.is_some(),
        Some(Authority::Write) => args.allow_write.is_some(),
        Some(Authority::Net) => args.allow_net.is_some(),
        _ => false,
    });
    let mut module = compile(&args.file, &args.common, &granted)?;
    parcae_ir::place_checks(&mut module);
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
    let functions = outside(args, &runtime).map_err(|error| {
        complain(&error);
        Exit::Missing
    })?;
    // A closed standard output ends nothing: the program does not know about it.
    let host = Host::new(|text| drop(std::io::stdout().lock().write_all(text.as_bytes())));
    let host = host.functions(&functions);
    let outcome = program.run(&runtime, host.args(args.args.clone()));
    let _ = std::io::stdout().flush();
    outcome.map_err(|failure| {
        complain(describe(&program, &failure));
        Exit::Failed
    })
}

/// The functions for files and sockets that the arguments allow.
fn outside(args: &RunArgs, runtime: &Runtime) -> parcae::Result<Functions> {
    let mut outside = Outside::new();
    let directory = |path: &Path, access| {
        let limits = FsLimits { access, max_files: MOST_OPEN };
        runtime.cap_fs(path, limits, Delegation::Forbidden).map_err(|error| {
            parcae::Error::msg(format!("the directory {} cannot be used: {error}", path.display()))
        })
    };
    if let Some(path) = &args.allow_read {
        outside = outside.read(directory(path, FsAccess::Read)?);
    }
    if let Some(path) = &args.allow_write {
        outside = outside.write(directory(path, FsAccess::Write)?);
    }
    if let Some(addresses) = &args.allow_net {
        let (bind, connect) = (addresses.clone(), addresses.clone());
        let limits = NetLimits { bind, connect, max_sockets: MOST_OPEN };
        outside = outside.net(runtime.cap_net(limits, Delegation::Forbidden));
    }
    Ok(outside.functions())
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
        // The authority of a program is given when it is run.
        let checked = parcae_lang::lower_with(&source, args.common.profile, &library());
        if let Err(faults) = checked {
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
    let mut module = compile(&args.file, &args.common, &library())?;
    if args.emit == Emit::Llvm {
        parcae_ir::insert_checks(&mut module);
        parcae_ir::merge_checks(&mut module);
        let text = parcae_ir::emit_llvm(&module).map_err(|error| {
            complain(&error);
            Exit::Failed
        })?;
        return write(&text);
    }
    if args.stage != Stage::High {
        parcae_ir::insert_checks(&mut module);
    }
    if matches!(args.stage, Stage::Merged | Stage::Placed | Stage::Low) {
        parcae_ir::merge_checks(&mut module);
    }
    if matches!(args.stage, Stage::Placed | Stage::Low) {
        parcae_ir::strip_loops(&mut module);
        parcae_ir::unroll_loops(&mut module);
    }
    if args.stage == Stage::Low {
        parcae_ir::lower_tasks(&mut module);
    }
    write(&parcae_ir::print(&module))
}

fn write(text: &str) -> Result<(), Exit> {
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(|_| Exit::Failed)
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

/// `hosts` are the functions that the program may call beside its own.
fn compile(file: &Path, common: &Common, hosts: &[HostFunc]) -> Result<Module, Exit> {
    let source = read(file)?;
    parcae_lang::lower_with(&source, common.profile, hosts).map_err(|faults| {
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
