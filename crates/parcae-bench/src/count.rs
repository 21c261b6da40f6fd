//! `count`: instruction counts of single operations, which are the same on every run of a build.
//!
//! Times on a shared machine differ by a quarter from one minute to the next, which hides a change
//! that makes an operation a tenth slower. Instruction counts do not vary, so they catch gradual
//! regressions. They do not show cache misses or stalls: `parcae-bench` measures those.
//!
//! Every [`Operation`] runs in its own process under callgrind, few times and many times; the
//! difference of the two counts belongs to the operations alone, because both contain startup and
//! shutdown. Where tasks are needed there is one worker, which does not spin, so that nothing
//! depends on the clock.
//!
//! The baseline is a file of lines: operation, instructions, separated by a tab; `#` begins a
//! comment. Counts depend on the compiler, whose version is noted there. More than `TOLERANCE`
//! above it is a regression.

use crate::args::CountArgs;
use crate::case::Failure;
use crate::machine::COMPILER;
use crate::workloads;
use clap::ValueEnum;
use parcae::channel::{OneSender, channel, oneshot};
use parcae::fiber::{Fiber, Step};
use parcae::prelude::*;
use parcae::runtime::SocketBackend;
use parcae::stack::{StackPool, StackSize};
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

/// The operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// To a fiber, or back from it
    Switch,
    /// A task yields to another
    Yield,
    /// A task is spawned into a nursery, runs, ends and is joined
    Spawn,
    /// A tenth of a nursery: it is opened, ten children are spawned and joined, it is closed
    Nursery,
    /// A checkpoint on its fast path
    Checkpoint,
    /// A value is sent and received, capacity 1024
    Channel,
    /// A round trip over two channels of capacity 1 between two tasks
    Pingpong,
    /// A question over a channel to another task, and the answer over a oneshot
    Ask,
    /// A message of 64 bytes over a socket to a task, and back, with the client, without the kernel
    Echo,
    /// A request by HTTP and its answer, with the client, without the kernel
    Http,
    /// A message of 64 bytes over the simulated network to another task, and back
    Simulated,
}

/// Repetitions in the run that is subtracted, and in the other one.
type Times = (usize, usize);
const OFTEN: Times = (10_000, 110_000);
/// For operations of thousands of instructions. Multiples of `CONNECTIONS`.
const RARELY: Times = (640, 3_200);
/// Sockets that have input at the same time: the worker does not search for work in between, which
/// would depend on the clock.
const CONNECTIONS: usize = 64;
/// The accepted excess over the baseline.
const TOLERANCE: f64 = 0.10;

impl Operation {
    const ALL: [Operation; 11] = [
        Operation::Switch,
        Operation::Yield,
        Operation::Spawn,
        Operation::Nursery,
        Operation::Checkpoint,
        Operation::Channel,
        Operation::Pingpong,
        Operation::Ask,
        Operation::Echo,
        Operation::Http,
        Operation::Simulated,
    ];

    const fn times(self) -> Times {
        match self {
            Operation::Echo | Operation::Http | Operation::Simulated => RARELY,
            _ => OFTEN,
        }
    }

    /// The name in arguments and in the baseline.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Switch => "switch",
            Operation::Yield => "yield",
            Operation::Spawn => "spawn",
            Operation::Nursery => "nursery",
            Operation::Checkpoint => "checkpoint",
            Operation::Channel => "channel",
            Operation::Pingpong => "pingpong",
            Operation::Ask => "ask",
            Operation::Echo => "echo",
            Operation::Http => "http",
            Operation::Simulated => "simulated",
        }
    }

    /// Repeats the operation.
    ///
    /// # Errors
    ///
    /// If a runtime or a stack cannot be created.
    pub fn run(self, times: usize) -> Result<(), Failure> {
        match self {
            Operation::Switch => switch(times),
            Operation::Yield => on_task(|cx| yields(cx, times)),
            Operation::Spawn => on_task(|cx| spawns(cx, times)),
            Operation::Nursery => on_task(|cx| nurseries(cx, times)),
            Operation::Checkpoint => on_task(|cx| checkpoints(cx, times)),
            Operation::Channel => on_task(|cx| values(cx, times)),
            Operation::Pingpong => on_task(|cx| rallies(cx, times)),
            Operation::Ask => on_task(|cx| questions(cx, times)),
            Operation::Echo => {
                let rounds = times / CONNECTIONS;
                workloads::echo_rounds(SocketBackend::Epoll, CONNECTIONS, rounds).map(drop)
            }
            Operation::Http => workloads::http_rounds(CONNECTIONS, times / CONNECTIONS).map(drop),
            Operation::Simulated => workloads::simulated_echoes(times).map(drop),
        }
    }
}

fn switch(times: usize) -> Result<(), Failure> {
    let mut fiber = Fiber::new(StackPool::new()?.acquire(StackSize::SERVICE)?, "count")?;
    fiber
        .start(|fiber| {
            loop {
                fiber.suspend().expect("no panic here");
            }
        })?
        .propagate();
    for _ in 0..times / 2 {
        if !matches!(fiber.resume(), Ok(Step::Suspended)) {
            return Err("the fiber ended".into());
        }
    }
    Ok(())
}

fn on_task(body: impl FnOnce(&Cx) -> parcae::Result<()> + Send) -> Result<(), Failure> {
    let rt = Runtime::builder().workers(1).spin(Duration::ZERO).build()?;
    Ok(rt.run(body)?)
}

/// Two tasks yield to each other.
fn yields(cx: &Cx, times: usize) -> parcae::Result<()> {
    cx.nursery(|n| {
        for _ in 0..2 {
            n.spawn(move |cx| (0..times / 2).try_for_each(|_| cx.yield_now()))?;
        }
        Ok(())
    })
}

/// A thousand at a time, as a program has them.
fn spawns(cx: &Cx, times: usize) -> parcae::Result<()> {
    const AT_ONCE: usize = 1000;
    for _ in 0..times / AT_ONCE {
        cx.nursery(|n| {
            let task = |i: usize| n.spawn(move |_| Ok(black_box(i)));
            let tasks: Vec<_> = (0..AT_ONCE).map(task).collect::<parcae::Result<_>>()?;
            tasks.into_iter().try_for_each(|task| task.join().map(drop))
        })?;
    }
    Ok(())
}

/// Ten children at a time, as the inner tasks of a tree have them.
fn nurseries(cx: &Cx, times: usize) -> parcae::Result<()> {
    const CHILDREN: usize = 10;
    for _ in 0..times / CHILDREN {
        cx.nursery(|n| {
            let mut tasks = [const { None }; CHILDREN];
            for (i, task) in tasks.iter_mut().enumerate() {
                *task = Some(n.spawn(move |_| Ok(black_box(i)))?);
            }
            tasks.into_iter().flatten().try_for_each(|task| task.join().map(drop))
        })?;
    }
    Ok(())
}

fn checkpoints(cx: &Cx, times: usize) -> parcae::Result<()> {
    for i in 0..times {
        black_box(i);
        cx.checkpoint()?;
    }
    Ok(())
}

fn values(cx: &Cx, times: usize) -> parcae::Result<()> {
    let (tx, rx) = channel(1024);
    cx.nursery(|n| {
        n.spawn(move |_| Ok((0..times).try_for_each(|value| tx.send(value))?))?;
        for value in rx {
            black_box(value?);
        }
        Ok(())
    })
}

/// Each of them waits for the other's value.
fn rallies(cx: &Cx, times: usize) -> parcae::Result<()> {
    let ((ping, pinged), (pong, ponged)) = (channel(1), channel(1));
    cx.nursery(|n| {
        n.spawn(move |_| {
            for value in pinged {
                pong.send(value?)?;
            }
            Ok(())
        })?;
        for value in 0..times {
            ping.send(value)?;
            black_box(ponged.recv()?);
        }
        drop(ping);
        Ok(())
    })
}

/// The client waits for each answer before it asks again.
fn questions(cx: &Cx, times: usize) -> parcae::Result<()> {
    let (ask, asked) = channel::<(usize, OneSender<usize>)>(16);
    cx.nursery(|n| {
        n.spawn(move |_| {
            for question in &asked {
                let (number, answer) = question?;
                answer.send(number)?;
            }
            Ok(())
        })?;
        for number in 0..times {
            let (answer, answered) = oneshot();
            ask.send((number, answer))?;
            black_box(answered.recv()?);
        }
        drop(ask);
        Ok(())
    })
}

/// Counts, and compares with the baseline or replaces it. Returns the number of regressions.
///
/// # Errors
///
/// If the baseline cannot be read or written, valgrind fails, or output cannot be written.
pub(crate) fn run(args: &CountArgs) -> io::Result<usize> {
    let mut out = io::stdout().lock();
    if let Err(reason) = available() {
        if std::env::var_os("PARCAE_REQUIRE_TOOLS").is_some() {
            return Err(io::Error::other(reason));
        }
        writeln!(out, "skipped: {reason}")?;
        return Ok(0);
    }
    let chosen =
        if args.operations.is_empty() { &Operation::ALL[..] } else { &args.operations[..] };
    let text = match std::fs::read_to_string(&args.baseline) {
        Ok(text) => text,
        Err(error) if args.accept && error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            let path = args.baseline.display();
            return Err(io::Error::new(error.kind(), format!("baseline {path}: {error}")));
        }
    };
    let mut baseline = Baseline::parse(&text).map_err(io::Error::other)?;
    let mut regressions = 0;
    for &operation in chosen {
        let counted = instructions(operation)?;
        let known = baseline.of(operation);
        let verdict = if args.accept { Verdict::Accepted } else { Verdict::of(counted, known) };
        regressions += usize::from(verdict == Verdict::Regression);
        let name = operation.name();
        writeln!(
            out,
            "{name:<11} {counted:9.1} instructions  {}",
            verdict.explain(counted, known)
        )?;
        baseline.set(operation, counted);
    }
    if args.accept {
        std::fs::write(&args.baseline, baseline.text())?;
    } else if regressions > 0 && baseline.compiler != COMPILER {
        let theirs = &baseline.compiler;
        writeln!(
            out,
            "the baseline is of {theirs}, this is {COMPILER}; counts may differ for that alone"
        )?;
    }
    out.flush()?;
    Ok(regressions)
}

/// An error if counting is not possible here.
fn available() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the baseline is for x86_64".to_owned());
    }
    if cfg!(debug_assertions) {
        return Err("a debug build; use --release".to_owned());
    }
    match Command::new("valgrind").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("valgrind not found".to_owned()),
    }
}

/// Instructions of one operation.
fn instructions(operation: Operation) -> io::Result<f64> {
    let (few, many) = operation.times();
    let counted = collected(operation, many)? as f64 - collected(operation, few)? as f64;
    Ok(counted / (many - few) as f64)
}

/// Instructions of a whole process.
fn collected(operation: Operation, times: usize) -> io::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["count-once", operation.name(), &times.to_string()])
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    match total(&text) {
        Some(total) if output.status.success() => Ok(total),
        _ => Err(io::Error::other(format!("{} under valgrind: {text}", operation.name()))),
    }
}

/// `Collected : 123456`, on a line of callgrind's.
fn total(output: &str) -> Option<u64> {
    let line = output.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.split_whitespace().next()?.parse().ok()
}

/// A count compared with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Within,
    /// So far below the baseline that the baseline should be lowered, to guard the improvement.
    Improvement,
    Regression,
    New,
    Accepted,
}

impl Verdict {
    fn of(counted: f64, known: Option<f64>) -> Verdict {
        match known {
            None => Verdict::New,
            Some(known) if counted > known * (1.0 + TOLERANCE) => Verdict::Regression,
            Some(known) if counted < known * (1.0 - TOLERANCE) => Verdict::Improvement,
            Some(_) => Verdict::Within,
        }
    }

    fn explain(self, counted: f64, known: Option<f64>) -> String {
        let difference = known.map_or(String::new(), |known| {
            format!("{:+.1} % of {known:.1}", (counted / known - 1.0) * 100.0)
        });
        let remark = match self {
            Verdict::Within => "",
            Verdict::Improvement => ": better; `count --accept` keeps it so",
            Verdict::Regression => ": REGRESSION; if it is meant, `count --accept`",
            Verdict::New => "not in the baseline; `count --accept` adds it",
            Verdict::Accepted if known.is_none() => "accepted",
            Verdict::Accepted => ": accepted",
        };
        difference + remark
    }
}

/// The accepted counts.
#[derive(Debug, PartialEq)]
struct Baseline {
    compiler: String,
    counts: Vec<(String, f64)>,
}

const COMPILER_LINE: &str = "# compiler: ";

impl Baseline {
    fn parse(text: &str) -> Result<Baseline, String> {
        let mut baseline = Baseline { compiler: "an unknown compiler".into(), counts: Vec::new() };
        for line in text.lines() {
            if let Some(compiler) = line.strip_prefix(COMPILER_LINE) {
                baseline.compiler = compiler.to_owned();
            }
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let entry = line.split_once('\t').and_then(|(name, count)| {
                let count = count.parse::<f64>().ok().filter(|&count| count > 0.0)?;
                Some((name.to_owned(), count))
            });
            baseline.counts.push(entry.ok_or_else(|| format!("baseline: not a count: {line:?}"))?);
        }
        Ok(baseline)
    }

    fn of(&self, operation: Operation) -> Option<f64> {
        self.counts.iter().find(|entry| entry.0 == operation.name()).map(|entry| entry.1)
    }

    fn set(&mut self, operation: Operation, count: f64) {
        self.counts.retain(|entry| entry.0 != operation.name());
        self.counts.push((operation.name().to_owned(), count));
    }

    /// The text of the file, in the order of the operations, with this build's compiler.
    fn text(&self) -> String {
        let mut text = format!(
            "# Instructions per operation, x86_64, release build. `parcae-bench count --accept` writes this file.\n\
             {COMPILER_LINE}{COMPILER}\n"
        );
        for operation in Operation::ALL {
            if let Some(count) = self.of(operation) {
                let _ = writeln!(text, "{}\t{count:.1}", operation.name()); // a string takes all
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_baseline_has_every_operation() {
        let text = include_str!("../instructions.tsv");
        let baseline = Baseline::parse(text).unwrap();
        for operation in Operation::ALL {
            assert!(baseline.of(operation).is_some(), "{}", operation.name());
        }
        assert_eq!(baseline.counts.len(), Operation::ALL.len());
    }

    #[test]
    fn a_tenth_more_is_a_regression_and_a_tenth_less_worth_a_word() {
        assert_eq!(Verdict::of(109.0, Some(100.0)), Verdict::Within);
        assert_eq!(Verdict::of(111.0, Some(100.0)), Verdict::Regression);
        assert_eq!(Verdict::of(91.0, Some(100.0)), Verdict::Within);
        assert_eq!(Verdict::of(89.0, Some(100.0)), Verdict::Improvement);
        assert_eq!(Verdict::of(1.0, None), Verdict::New);
        let text = Verdict::Regression.explain(120.0, Some(100.0));
        assert_eq!(text, "+20.0 % of 100.0: REGRESSION; if it is meant, `count --accept`");
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let mut baseline =
            Baseline::parse("# compiler: old\n\nspawn\t300\nswitch\t12.5\n").unwrap();
        assert_eq!(baseline.compiler, "old");
        baseline.set(Operation::Spawn, 250.0);
        let text = baseline.text();
        assert!(text.ends_with("switch\t12.5\nspawn\t250.0\n"), "{text}");
        assert_eq!(Baseline::parse(&text).unwrap().compiler, COMPILER);
        for wrong in ["switch 12", "switch\tmany", "switch\t-1"] {
            assert!(
                Baseline::parse(wrong)
                    .unwrap_err()
                    .contains(wrong.split(['\t', ' ']).next().unwrap())
            );
        }
    }

    #[test]
    fn the_total_is_found_among_what_valgrind_says() {
        let output = "==7== Callgrind\n==7== Events    : Ir\n==7== Collected : 5412345\n==7==\n";
        assert_eq!(total(output), Some(5_412_345));
        assert_eq!(total("==7== nothing"), None);
    }

    #[test]
    fn every_operation_can_be_done() {
        for operation in Operation::ALL {
            let times = operation.times().0.min(2_000);
            operation.run(times).unwrap_or_else(|error| panic!("{}: {error}", operation.name()));
        }
    }
}
