//! Programs for the tests, and runs of them.

#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod cases;
pub(crate) mod generator;
pub(crate) mod hostile;

use parcae::prelude::*;
use parcae_interp::{Failure, Host, Program};
use parcae_ir::Module;
use parcae_lang::{Profile, Source};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Form of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checks {
    Naive,
    Merged,
    /// As programs are run.
    Placed,
}

pub(crate) fn module(text: &str, checks: Checks) -> Module {
    let source = Source::new("test.jan", text);
    let mut module = parcae_lang::lower(&source, Profile::Service).unwrap_or_else(|faults| {
        panic!("{}", faults.iter().map(|fault| fault.render(&source)).collect::<String>())
    });
    parcae_ir::insert_checks(&mut module);
    if checks != Checks::Naive {
        parcae_ir::merge_checks(&mut module);
    }
    if checks == Checks::Placed {
        parcae_ir::strip_loops(&mut module);
        parcae_ir::unroll_loops(&mut module);
    }
    module
}

pub(crate) fn program(text: &str, checks: Checks) -> Program {
    Program::new(&module(text, checks)).unwrap_or_else(|found| panic!("{found:#?}\n{text}"))
}

/// Outcome and output of a run.
pub(crate) fn run(program: &Program, rt: &Runtime) -> (Result<i64, Failure>, String) {
    let output = Arc::new(Mutex::new(String::new()));
    let out = Arc::clone(&output);
    let host = Host::new(move |text| out.lock().unwrap().push_str(text));
    let outcome = program.run(rt, host.args(vec!["one".into(), "two".into()]));
    let output = output.lock().unwrap().clone();
    (outcome, output)
}

/// Outcome, output, ops spent and events of a run.
pub(crate) type Charged = (String, String, u64, Vec<u8>);

/// A run with a budget, under a seed.
pub(crate) fn charged(program: &Program, ops: u64, seed: u64) -> Charged {
    let budget = Budget::UNLIMITED.with_ops(ops);
    let rt = Runtime::builder().deterministic(seed).workers(2).budget(budget).build().unwrap();
    let (outcome, output) = run(program, &rt);
    let outcome = match outcome {
        Ok(value) => value.to_string(),
        Err(failure) => format!("{failure}"),
    };
    (outcome, output, rt.budget().spent.ops, rt.event_log())
}

/// The output of a program that succeeds, or its failure, under the deterministic executor.
pub(crate) fn output(text: &str) -> String {
    let rt = Runtime::builder().deterministic(1).build().unwrap();
    match run(&program(text, Checks::Naive), &rt) {
        (Ok(_), output) => output,
        (Err(failure), output) => format!("{output}failed: {failure}"),
    }
}

/// Name, text and expected output of each example.
pub(crate) fn examples() -> Vec<(String, String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/jan");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jan"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let expected = std::fs::read_to_string(path.with_extension("out"));
            let expected = expected.unwrap_or_else(|_| panic!("{name}.out is missing"));
            (name, std::fs::read_to_string(&path).unwrap(), expected)
        })
        .collect();
    found.sort();
    assert!(found.len() >= 15);
    found
}
