//! Kernels with and without checks, over several placements of the code, beside C and node.
//!
//! ```text
//! cargo run --release -p parcae-jit --features unmetered --example kernels [ROUNDS]
//! ```
//!
//! Each figure is CPU time. A placement puts functions of another size before the kernel, because
//! the place of a loop in memory changes its time by more than a check does. Peers that are not
//! installed are left out. All programs print the same checksum, or the run stops.

use parcae::prelude::*;
use parcae_interp::{Host, Program};
use parcae_lang::{Profile, Source};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const KERNELS: [(&str, &str); 7] = [
    ("sum", include_str!("sum.jan")),
    ("hash", include_str!("hash.jan")),
    ("matmul", include_str!("matmul.jan")),
    ("sieve", include_str!("sieve.jan")),
    ("collatz", include_str!("collatz.jan")),
    ("fib", include_str!("fib.jan")),
    ("nbody", include_str!("nbody.jan")),
];
const PLACEMENTS: usize = 5;

/// CPU time of all threads, in milliseconds.
fn cpu() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0)
    };
    tasks.flatten().map(of).sum::<f64>() / 1e6
}

/// The module with the checks of programs that are run, and with those that are only merged: to be
/// compiled without them, so that loops have the form that they have without any metering.
fn modules(name: &str, text: &str, placement: usize) -> [parcae_ir::Module; 2] {
    let filler = " + n".repeat(7 * placement);
    let text = format!("func filler(n: i64) -> i64 do n{filler} end\n{text}");
    let source = Source::new(format!("{name}.jan"), text);
    let mut module = parcae_lang::lower(&source, Profile::Core).expect("a correct program");
    parcae_ir::insert_checks(&mut module);
    parcae_ir::merge_checks(&mut module);
    let merged = module.clone();
    parcae_ir::strip_loops(&mut module);
    parcae_ir::unroll_loops(&mut module);
    [module, merged]
}

/// CPU time of one run, and its output.
fn run(program: &Program) -> (f64, String) {
    let output = Arc::new(Mutex::new(String::new()));
    let out = Arc::clone(&output);
    let rt = Runtime::builder().workers(1).build().expect("a runtime");
    let start = cpu();
    let host = Host::new(move |text| out.lock().unwrap().push_str(text));
    program.run(&rt, host).expect("a kernel does not fail");
    let time = cpu() - start;
    let output = output.lock().unwrap().trim().to_owned();
    (time, output)
}

/// CPU time that a peer reports; it must print the same checksum.
fn peer(command: &mut Command, expected: &str) -> Option<f64> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (value, time) = text.trim().split_once(' ')?;
    assert_eq!(value, expected, "{command:?}");
    time.parse::<f64>().ok().map(|time| time / 1e3)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(5);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/kernels");
    let binary = std::env::temp_dir().join(format!("parcae-kernels-{}", std::process::id()));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fno-tree-vectorize", "-o"]).arg(&binary).arg(folder.join("kernels.c"));
    let has_gcc = gcc.arg("-lm").status().is_ok_and(|status| status.success());
    println!(
        "kernel   bare ms  checks ms  overhead %  gcc ms  ratio  node ms  interp ms  compile us"
    );
    let mut overheads = Vec::new();
    for (name, text) in KERNELS.into_iter() {
        let expected = run(&Program::new(&modules(name, text, 0)[0]).expect("metered"));
        let (mut ratios, mut with, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        let mut compile = f64::MAX;
        for placement in 0..PLACEMENTS {
            let [module, merged] = modules(name, text, placement);
            let start = Instant::now();
            let metered = parcae_jit::compile(&module).expect("supported");
            compile = compile.min(start.elapsed().as_secs_f64() * 1e6);
            let unmetered = parcae_jit::compile_unmetered(&merged).expect("supported");
            let same = parcae_jit::compile_unmetered(&module).expect("supported");
            let mut best = [f64::MAX; 3];
            for _ in 0..rounds {
                for (best, program) in best.iter_mut().zip([&metered, &unmetered, &same]) {
                    let (time, output) = run(program);
                    assert_eq!(output, expected.1, "{name}");
                    *best = best.min(time);
                }
            }
            // The faster form of a loop without checks is the one that they are compared with.
            let free = best[1].min(best[2]);
            bare.push(free);
            with.push(best[0]);
            ratios.push(best[0] / free);
        }
        let best = |times: &[f64]| times.iter().copied().fold(f64::MAX, f64::min);
        let of = |command: &dyn Fn() -> Command| {
            (0..rounds).filter_map(|_| peer(&mut command(), &expected.1)).reduce(f64::min)
        };
        let c = has_gcc.then(|| of(&|| with_arg(Command::new(&binary), name))).flatten();
        let script = folder.join("kernels.js");
        let node = of(&|| with_arg(with_arg(Command::new("node"), &script), name));
        let shown = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
        let overhead = median(ratios);
        overheads.push(overhead);
        println!(
            "{name:8} {:7.1} {:10.1} {:11.1} {:>7} {:>6} {:>8} {:10.0} {:11.0}",
            best(&bare),
            best(&with),
            (overhead - 1.0) * 100.0,
            shown(c),
            c.map_or("-".into(), |c| format!("{:.2}", best(&with) / c)),
            shown(node),
            expected.0,
            compile,
        );
    }
    let logs = overheads.iter().map(|ratio| ratio.ln()).sum::<f64>() / overheads.len() as f64;
    println!("geometric mean of the overheads: {:.1} %", (logs.exp() - 1.0) * 100.0);
    let _ = std::fs::remove_file(binary);
    let hello = "func main() do println(\"hello\") end";
    let times = (0..20).map(|_| {
        let start = Instant::now();
        let program = parcae_jit::compile(&modules("hello", hello, 0)[0]).expect("supported");
        assert_eq!(run(&program).1, "hello");
        start.elapsed().as_secs_f64() * 1e3
    });
    println!("hello world, from its text to its end: {:.2} ms", median(times.collect()));
}

fn with_arg(mut command: Command, arg: impl AsRef<std::ffi::OsStr>) -> Command {
    command.arg(arg);
    command
}
