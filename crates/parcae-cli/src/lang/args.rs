//! Arguments of `run`, `check`, `ir` and `fmt`.

use clap::ValueEnum;
use parcae::Budget;
use parcae::cap::AddressSet;
use parcae_lang::Profile;
use std::path::PathBuf;

/// Run a program of the language, within a budget
///
/// A program is a subset of Janus. All of its loops, calls and allocations are metered: no program
/// escapes the budget. A program reaches neither files nor sockets unless an option allows it; with
/// --seed they are simulated. The exit code is the value that `main` returns, 0 if there is none,
/// and 1 if the program has faults or fails.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The program, for example examples/jan/hello.jan
    pub(crate) file: PathBuf,

    /// Run under the deterministic executor with this seed: the same seed gives the same run
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Number of workers, virtual ones with --seed [default: one per processor]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) workers: Option<u64>,

    /// Budget of the whole run: ops=N,memory=BYTES,spawn_count=N,channel_ops=N,syscalls=N, each
    /// unlimited unless it is named
    #[arg(long, value_name = "LIST", value_parser = budget)]
    pub(crate) budget: Option<Budget>,

    /// Run by the interpreter: the default, and the reference
    #[arg(long, conflicts_with = "jit")]
    pub(crate) interp: bool,

    /// Compile to machine code and run that: the same output and the same ops, faster
    #[arg(long)]
    pub(crate) jit: bool,

    /// The files beneath this directory may be read; paths of the program are relative to it
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_read: Option<PathBuf>,

    /// The files beneath this directory may be written and removed
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_write: Option<PathBuf>,

    /// Sockets may listen at and connect to these addresses, for example 127.0.0.1:*
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) allow_net: Option<AddressSet>,

    #[command(flatten)]
    pub(crate) common: Common,

    /// Arguments of the program, which `args()` returns
    #[arg(trailing_var_arg = true)]
    pub(crate) args: Vec<String>,
}

/// Check programs of the language: syntax, profile, names and types
///
/// All faults of a file are reported in one run. The exit code is 1 if there is one.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The programs
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Print the intermediate representation of a program
#[derive(Debug, clap::Args)]
pub(crate) struct IrArgs {
    /// The program
    pub(crate) file: PathBuf,

    /// The stage of compilation
    #[arg(long, value_enum, default_value_t = Stage::Placed)]
    pub(crate) stage: Stage,

    /// The language of the output
    #[arg(long, value_enum, default_value_t = Emit::Ir, conflicts_with = "stage")]
    pub(crate) emit: Emit,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Rewrite programs in the canonical form
#[derive(Debug, clap::Args)]
pub(crate) struct FmtArgs {
    /// The programs
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Change nothing; name the files that are not in the canonical form, and exit with 1
    #[arg(long)]
    pub(crate) check: bool,

    /// Form of messages about faults
    #[arg(long, value_enum, default_value_t = Messages::Human)]
    pub(crate) message_format: Messages,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Profile of files that do not declare one: core, service or cluster
    #[arg(long, value_name = "PROFILE", value_parser = profile, default_value = "core")]
    pub(crate) profile: Profile,

    /// Form of messages about faults
    #[arg(long, value_enum, default_value_t = Messages::Human)]
    pub(crate) message_format: Messages,
}

/// Form of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Messages {
    /// With an excerpt of the source
    Human,
    /// One JSON object per line
    Json,
}

/// A stage of compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stage {
    /// After lowering, without budget checks
    High,
    /// With a check at each place that S0 §4.1 names
    Checks,
    /// With merged checks
    Merged,
    /// With loops in strips or unrolled: the form that is run
    Placed,
    /// With Task_Create and Task_Join
    Low,
}

/// The language of the output of `ir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// The intermediate representation
    Ir,
    /// LLVM text, which is linked with the C library
    Llvm,
}

fn profile(name: &str) -> Result<Profile, String> {
    let known = Profile::from_name(name).filter(|profile| *profile != Profile::Sovereign);
    known.ok_or_else(|| "the profiles are core, service and cluster".into())
}

fn budget(list: &str) -> Result<Budget, String> {
    let mut budget = Budget::UNLIMITED;
    for part in list.split(',') {
        let (name, amount) =
            part.split_once('=').ok_or_else(|| format!("`{part}` has no `=`; write ops=1000"))?;
        let amount: u64 =
            amount.replace('_', "").parse().map_err(|_| format!("`{amount}` is no number"))?;
        budget = match name {
            "ops" => budget.with_ops(amount),
            "memory" => budget.with_memory(amount),
            "spawn_count" | "spawns" => budget.with_spawn_count(amount),
            "channel_ops" => budget.with_channel_ops(amount),
            "syscalls" => budget.with_syscalls(amount),
            _ => {
                let known = "ops, memory, spawn_count, channel_ops, syscalls";
                return Err(format!("`{name}` is no resource; there are {known}"));
            }
        };
    }
    Ok(budget)
}
