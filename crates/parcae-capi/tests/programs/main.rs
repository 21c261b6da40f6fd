//! The library from C and C++: programs that are compiled with the system's compiler against the
//! installed library, and run.
//!
//! Each program in `tests/c` has one concern and says what it proves; it passes if it ends with 0.

#![cfg(all(target_os = "linux", not(miri)))]

mod documents;
mod installed;
mod llvm;
#[path = "../../../parcae/tests/support/tools.rs"]
mod tools;

use installed::{Linked, Outcome, execute, file, in_valgrind, prefix, read, run};
use std::path::Path;
use std::process::Command;

const ABORTED: Option<i32> = Some(6);

fn passes(name: &str, options: &[&str], linked: Linked) {
    let test = format!("{name}-{linked:?}");
    if let Some(outcome) = run(&test, &[&format!("tests/c/{name}.c")], options, &[], linked) {
        assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
    }
}

/// The frozen functions.
// rule: S0-CAWAIT-1, S0-CREATE-1, S0-CREATE-2, S0-CREATE-3, S0-CREATE-4, S0-CSPAWN-1, S0-CSPAWN-3
// rule: S0-EXPORT-1, S0-EXPORT-2, S0-EXPORT-3, S0-EXPORT-4, S0-LIFE-1, S0-LIFE-3, S0-LIFE-4
// rule: S0-TASKFN-1, S0-TASKFN-2, S1-MAP-1, S2-ENTRY-1
#[test]
fn frozen() {
    passes("frozen", &["-std=gnu99"], Linked::Shared);
}

/// The specification's own declarations agree with the header's, and what goes by value arrives.
// rule: S0-EXPORT-7
#[test]
fn frozen_abi() {
    passes("frozen_abi", &["-std=gnu99"], Linked::Shared);
}

/// The exports are for compilers that emit LLVM IR: structures by value as LLVM passes them.
// rule: S0-EXPORT-7
#[test]
fn a_caller_that_clang_has_compiled() {
    let Some(clang) = tools::find("clang") else {
        // Not a tool that must be there: the next test has a caller that LLVM has compiled,
        // everywhere.
        return println!("skipped: frozen_abi, clang: not found (Debian: apt-get install clang)");
    };
    for name in ["frozen_abi", "budgets"] {
        let (test, source) = (format!("{name}-clang"), format!("tests/c/{name}.c"));
        let options = ["-std=gnu99"];
        let outcome = installed::run_with(&clang, &test, &[&source], &options, &[], Linked::Shared);
        assert_eq!(outcome.as_ref().and_then(|it| it.code), Some(0), "{name}: {outcome:?}");
    }
}

/// rustc is built on LLVM, and lowers `extern "C"` as clang does.
// rule: S0-EXPORT-7
#[test]
fn a_caller_that_llvm_has_compiled() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let (program, lib) = (prefix().join("llvm-caller"), prefix().join("lib"));
    let output = Command::new(rustc)
        .args(["--edition=2024", "-O", "-Dwarnings", "-lparcae", "-L"])
        .arg(&lib)
        .arg(format!("-Clink-arg=-Wl,-rpath,{}", lib.display()))
        .arg("-o")
        .arg(&program)
        .arg(file("tests/c/llvm_caller.rs"))
        .output()
        .expect("rustc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome = execute(&program, &[]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), "as declared\n"), "{outcome:?}");
}

/// -3 by the frozen functions alone, in a runtime that has a budget.
// rule: S0-ERRMAP-5
#[test]
fn frozen_budget() {
    let Some(compiler) = installed::compiler("frozen_budget", "a.c") else { return };
    let hook = installed::trace_hook(&compiler, "frozen_budget");
    let options = ["-std=gnu99", "-fsanitize-coverage=trace-pc", &hook];
    passes("frozen_budget", &options, Linked::Shared);
}

/// A spawn returns although no worker does.
// rule: S0-CSPAWN-4
#[test]
fn spawn_returns() {
    if !in_valgrind() {
        passes("spawn_returns", &["-std=gnu99"], Linked::Shared);
    }
}

/// Every line of the frozen table of results, by a scenario of its own.
// rule: S0-ADAPT-1, S0-CAWAIT-3, S0-ERRMAP-1, S0-ERRMAP-2, S0-ERRMAP-3, S0-ERRMAP-4, S0-ERRMAP-5
// rule: S0-ERRMAP-6, S0-TASKFN-4
#[test]
fn results() {
    passes("results", &["-std=gnu99"], Linked::Shared);
}

/// The stack of nurseries goes where its task goes.
// rule: S0-ADAPT-2, S0-ADAPT-5, S0-CAWAIT-2, S0-CREATE-4, S0-CSPAWN-2, S0-TLS-1, S0-TLS-4, S1-MAP-3
#[test]
fn nesting() {
    passes("nesting", &["-std=gnu99"], Linked::Shared);
}

/// NULL, forged, stale, twice destroyed, of another kind, another's.
// rule: S0-ADAPT-2, S0-CAWAIT-2, S0-CSPAWN-3, S0-EXPORT-2, S1-MAP-3, S1-MAP-4
#[test]
fn handles() {
    passes("handles", &["-std=gnu99"], Linked::Shared);
}

/// Starting by itself, ending, after the end.
// rule: S0-CREATE-5, S0-LIFE-1, S0-LIFE-2, S0-ROOT-10
#[test]
fn lifecycle() {
    passes("lifecycle", &["-std=gnu99"], Linked::Shared);
}

/// Starting again by itself: after a shutdown, during one, from many threads.
// rule: S0-CREATE-2
#[test]
fn restart() {
    let rounds = if in_valgrind() { "-DROUNDS=5" } else { "-DROUNDS=200" };
    passes("restart", &["-std=gnu99", rounds], Linked::Shared);
}

/// The owner of the last error, and the lifetime of its text.
#[test]
fn errors() {
    passes("errors", &["-std=gnu99"], Linked::Shared);
}

fn stall(how: &str) -> Option<Outcome> {
    if in_valgrind() {
        return None; // everything is slow there, and everything looks stuck
    }
    run("stalls", &["tests/c/stalls.c"], &["-std=gnu99"], &[how], Linked::Shared)
}

#[test]
fn a_stuck_worker_is_told_to_the_callback() {
    let Some(outcome) = stall("callback") else { return };
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(!outcome.stderr.contains("stuck"), "the callback has it: {outcome:?}");
}

/// With what C can do about it.
#[test]
fn a_stuck_worker_is_reported_on_the_standard_error() {
    let Some(outcome) = stall("stderr") else { return };
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let said = outcome.stdout.lines().next().unwrap_or_default();
    assert!(said.starts_with("parcae: worker ") && said.contains("stuck for"), "{outcome:?}");
    assert!(!said.contains("::"), "Rust's remedies are no use in C: {said}");
    assert!(said.contains("blocked in read(): hand such calls to parcae_blocking"), "{said}");
}

/// Calls that block, on threads for them; mutexes that park tasks.
#[test]
fn blocking() {
    passes("blocking", &["-std=gnu99"], Linked::Shared);
}

/// Options, joins, cancels, exits.
// rule: S0-CSPAWN-1, S0-TASKFN-3, S0-TASKFN-4, S1-MAP-2
#[test]
fn tasks() {
    passes("tasks", &["-std=gnu99"], Linked::Shared);
}

/// Charges, exhaustion, recharging.
// rule: S0-CSPAWN-3, S0-EXHAUST-6, S0-EXPORT-5, S0-EXPORT-6
#[test]
fn budgets() {
    passes("budgets", &["-std=gnu99"], Linked::Shared);
}

/// Time by weight, refusals, a change of weight, figures.
#[test]
fn shares() {
    passes("shares", &["-std=gnu99"], Linked::Shared);
}

/// Numbers and pointers, between tasks and threads.
// rule: S0-CAWAIT-4
#[test]
fn channels() {
    passes("channels", &["-std=gnu99"], Linked::Shared);
}

/// One case wins.
#[test]
fn selects() {
    passes("selects", &["-std=gnu99"], Linked::Shared);
}

/// Tokens and their callbacks.
#[test]
fn tokens() {
    passes("tokens", &["-std=gnu99"], Linked::Shared);
}

/// Profiles and capabilities.
// rule: S0-CREATE-5
#[test]
fn profiles() {
    passes("profiles", &["-std=gnu99"], Linked::Shared);
}

/// The inlined check counts, lets others run, and stops a loop.
// rule: S0-EXPORT-5
#[test]
fn yield_checks() {
    passes("yield_checks", &["-std=gnu99"], Linked::Shared);
}

/// The same seed, the same order; virtual time.
#[test]
fn deterministic() {
    passes("deterministic", &["-std=gnu99"], Linked::Shared);
}

/// Messages, calls, errors, monitors, supervisors; on threads, and with seeds.
#[test]
fn actors() {
    let source = &["tests/c/actors.c"];
    let seeds = [&[][..], &["1"], &["2"], &["3"]];
    for seed in &seeds[..if in_valgrind() { 2 } else { seeds.len() }] {
        let test = format!("actors{}", seed.concat());
        let Some(outcome) = run(&test, source, &["-std=gnu99"], seed, Linked::Shared) else {
            return;
        };
        assert_eq!(outcome.code, Some(0), "seed {seed:?}: {outcome:?}");
    }
}

/// Many foreign threads.
#[test]
fn stress() {
    let rounds = if in_valgrind() { "-DROUNDS=3" } else { "-DROUNDS=60" };
    passes("stress", &["-std=gnu99", rounds], Linked::Shared);
}

#[test]
fn the_static_library_is_complete() {
    for name in ["frozen", "tasks"] {
        passes(name, &["-std=gnu99"], Linked::Static);
    }
}

// ----- what ends a process
// --------------------------------------------------------------------------

fn crash(test: &str, how: &str) -> Option<Outcome> {
    if in_valgrind() {
        return None; // it has handlers of its own
    }
    run(test, &["tests/c/crashes.c"], &["-std=gnu99"], &[how], Linked::Shared)
}

#[test]
fn a_stack_overflow_names_the_task_and_ends_the_process() {
    let Some(outcome) = crash("overflow", "overflow") else { return };
    assert_eq!(outcome.signal, ABORTED, "{outcome:?}");
    assert!(
        outcome.stderr.contains("a task \"culprit\" overflowed its stack of 256 KiB"),
        "{outcome:?}"
    );
}

/// Probes, which the manual asks for, meet the guard although the frame is larger than that.
#[test]
fn a_frame_that_would_jump_over_the_guard_is_noticed() {
    let Some(outcome) = crash("large-frame", "large-frame") else { return };
    assert_eq!(outcome.signal, ABORTED, "{outcome:?}");
    assert!(outcome.stderr.contains("\"culprit\" overflowed its stack"), "{outcome:?}");
}

#[test]
fn a_longjmp_into_another_thread_is_noticed_by_the_next_call() {
    let Some(outcome) = crash("longjmp", "longjmp") else { return };
    assert_eq!(outcome.signal, ABORTED, "{outcome:?}");
    assert!(outcome.stderr.contains("not the running task's: a longjmp"), "{outcome:?}");
}

#[test]
fn nothing_but_a_task_can_end_itself() {
    let Some(outcome) = crash("exit", "exit") else { return };
    assert_eq!(outcome.signal, ABORTED, "{outcome:?}");
    assert!(
        outcome.stderr.contains("parcae_task_exit was called outside of a task"),
        "{outcome:?}"
    );
}

#[test]
fn in_the_child_of_a_fork_calls_fail_and_nothing_hangs() {
    let Some(outcome) = crash("fork", "fork") else { return };
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

// ----- C++
// --------------------------------------------------------------------------------------------

#[test]
fn cpp_destructors_run_and_exceptions_stay_inside() {
    let options = ["-std=c++17"];
    let outcome = run("cpp", &["tests/c/consumer.cpp"], &options, &[], Linked::Shared);
    if let Some(outcome) = outcome {
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}

#[test]
fn a_cpp_exception_that_leaves_a_task_ends_the_process() {
    if in_valgrind() {
        return;
    }
    let options = ["-std=c++17"];
    let outcome = run("throws", &["tests/c/consumer.cpp"], &options, &["throw"], Linked::Shared);
    if let Some(outcome) = outcome {
        assert_eq!(outcome.signal, ABORTED, "{outcome:?}");
        assert!(outcome.stderr.contains("foreign exceptions"), "{outcome:?}");
    }
}

// ----- header and libraries
// -----------------------------------------------------------------------------

// rule: S0-CAWAIT-1, S0-CREATE-1, S0-ERRMAP-7, S0-FREEZE-1, S0-TASKFN-1
#[test]
fn the_committed_header_is_what_the_code_says() {
    let printed = parcae_capi::header::header();
    assert!(
        printed == read("include/parcae.h"),
        "print it again: cargo run -p parcae-capi --bin parcae-header > crates/parcae-capi/include/parcae.h"
    );
}

/// The header alone, by all that promise to take it, with and without the short names.
#[test]
fn the_header_compiles_as_c99_and_cpp17_without_a_warning() {
    for (source, standard) in [("a.c", "-std=c99"), ("a.c", "-std=c11"), ("a.cpp", "-std=c++17")] {
        let Some(compiler) = installed::compiler("header", source) else { return };
        let language = if source == "a.c" { "c" } else { "c++" };
        for define in ["-DPARCAE_NO_SHORT_NAMES", "-DANYTHING"] {
            let output = Command::new(&compiler)
                .args([
                    "-x",
                    language,
                    standard,
                    define,
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-pedantic",
                ])
                .arg("-fsyntax-only")
                .arg(file("include/parcae.h"))
                .output()
                .expect("a compiler that runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// An assertion about a layout can fail, or it would prove nothing.
// rule: S0-FREEZE-2
#[test]
fn the_header_notices_another_layout() {
    let Some(compiler) = installed::compiler("layout", "a.c") else { return };
    let changed = read("include/parcae.h").replace("uint64_t ops;", "uint64_t ops, more;");
    let path = prefix().join("changed.h");
    std::fs::write(&path, changed).expect("a file");
    let output = Command::new(compiler).args(["-x", "c", "-fsyntax-only"]).arg(path).output();
    let said = String::from_utf8_lossy(&output.expect("a compiler that runs").stderr).into_owned();
    assert!(said.contains("parcae_assert_janus_budget"), "{said}");
}

// rule: S0-FREEZE-1
#[test]
fn the_libraries_export_the_interface_and_nothing_else() {
    let Some(nm) = tools::find("nm") else {
        return tools::skip("exports", "nm", installed::HINT);
    };
    let declared: Vec<&str> = parcae_capi::api::SECTIONS
        .iter()
        .flat_map(|(_, _, lists)| lists.iter().flat_map(|list| list.iter().map(|it| it.name)))
        .collect();
    assert!(declared.len() > 80, "{}", declared.len());
    for (library, kind) in [("lib/libparcae.so", "-D"), ("lib/libparcae.a", "-g")] {
        let output = Command::new(&nm)
            .args([kind, "--defined-only", "--format=posix"])
            .arg(prefix().join(library))
            .output()
            .expect("nm runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let symbols: Vec<&str> =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name).collect();
        for symbol in &symbols {
            let ours = symbol.starts_with("janus_") || symbol.starts_with("parcae_");
            assert!(ours, "{library} exports {symbol}");
        }
        for name in &declared {
            assert!(symbols.contains(name), "{library} has no {name}");
        }
    }
}

// rule: S0-ERRMAP-7, S0-FREEZE-2
#[test]
fn the_shared_library_has_the_soname_of_its_abi() {
    let Some(readelf) = tools::find("readelf") else {
        return tools::skip("soname", "readelf", installed::HINT);
    };
    let library = prefix().join("lib/libparcae.so");
    let output = Command::new(readelf).arg("-d").arg(&library).output().expect("readelf runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Library soname: [libparcae.so.0]"), "{text}");
    let version = parcae_capi::header::VERSION_TEXT.to_str().expect("digits");
    assert_eq!(version, env!("CARGO_PKG_VERSION"), "the version of the package");
    assert!(prefix().join(format!("lib/libparcae.so.{version}")).exists());
    let numbers: Vec<i32> = version.split('.').map(|n| n.parse().expect("a number")).collect();
    let number = numbers.iter().fold(0, |all, n| all * 100 + n);
    assert_eq!(number, parcae_capi::header::VERSION);
    if numbers[0] > 0 {
        assert!(
            text.contains(&format!("libparcae.so.{}]", numbers[0])),
            "the soname follows the major"
        );
    }
}

#[test]
fn pkg_config_finds_it() {
    let Some(pkg_config) = tools::find("pkg-config") else {
        return tools::skip("pkg_config", "pkg-config", "Debian: apt-get install pkg-config");
    };
    let Some(compiler) = installed::compiler("pkg_config", "a.c") else { return };
    let output = Command::new(pkg_config)
        .args(["--cflags", "--libs", "parcae"])
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"))
        .output()
        .expect("pkg-config runs");
    let flags = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && flags.contains("-lparcae"), "{flags}");
    let program = prefix().join("by-pkg-config");
    let lib = prefix().join("lib");
    let status = Command::new(compiler)
        .arg(file("examples/c/fan_out.c"))
        .args(flags.split_whitespace())
        .arg(format!("-Wl,-rpath,{}", lib.display()))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(status.expect("a compiler that runs").success());
    assert_eq!(execute(Path::new(&program), &[]).code, Some(0));
}
