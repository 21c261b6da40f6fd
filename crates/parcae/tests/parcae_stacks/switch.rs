//! The context switch without Rust: `src/arch/*.s`, linked with a C program.
//!
//! The header of `switch.c` lists what it proves. This file compiles it, with the assembly
//! file that the library includes, and runs it: natively, and for aarch64 in an
//! emulator, so that the second architecture is tested on every machine.

#![cfg(all(target_os = "linux", not(miri)))]

use crate::support::tools;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// Warnings are errors; unwinding in the harness needs the other options.
const OPTIONS: [&str; 7] = [
    "-std=c11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fasynchronous-unwind-tables",
    "-fno-omit-frame-pointer",
];

/// With landing pads, the harness also tests the switch between guarded pages.
const OPTIONS_AARCH64: [&str; 1] = ["-mbranch-protection=bti"];

const NATIVE_HINT: &str = "Debian: apt-get install gcc libc6-dev";
const AARCH64_HINT: &str =
    "Debian: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user";

/// Compiles the harness for `architecture` into a directory of its own.
fn compile(test: &str, compiler: &Path, options: &[&str], architecture: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", process::id()));
    fs::create_dir_all(&directory).expect("a directory for the harness");
    let program = directory.join("harness");
    let output = Command::new(compiler)
        .args(OPTIONS)
        .args(options)
        .arg(package.join("tests/parcae_stacks/switch.c"))
        .arg(package.join(format!("src/stack/arch/{architecture}.s")))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("a compiler that runs");
    assert!(
        output.status.success(),
        "the harness does not compile:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

/// Runs the harness, as an argument of `emulator` if there is one, and deletes it
/// if all is well. A failure leaves it for a debugger.
fn run(program: &Path, emulator: Option<&Path>) {
    let directory = program.parent().expect("the harness is in a directory");
    let first: &OsStr = emulator.unwrap_or(program).as_ref();
    let output = Command::new(first)
        .args(emulator.map(|_| program))
        .current_dir(directory)
        .output()
        .expect("a harness that runs");
    let lines = String::from_utf8_lossy(&output.stdout);
    let passed = lines
        .lines()
        .last()
        .and_then(|line| line.strip_suffix(" passed, 0 failed"))
        .and_then(|count| count.parse::<u32>().ok());
    assert!(
        output.status.success() && passed.is_some_and(|count| count > 0),
        "{}: {}\n{lines}{}",
        program.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    // Tests that this system cannot run are reported past the capture of output.
    for line in lines.lines().filter(|line| line.starts_with("skipped ")) {
        let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
    }
    fs::remove_dir_all(directory).expect("the harness can be deleted");
}

// rule: S0-SWITCH-1, S0-SWITCH-2, S0-SWITCH-3, S0-SWITCH-4, S0-SWITCH-5, S0-SWITCH-6, S0-SWITCH-7
// rule: S1-CTX-1, S1-CTX-2, S1-CTX-3, S1-CTX-4, S1-TEST-1
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn switch_from_c_native() {
    const TEST: &str = "switch_from_c_native";
    #[cfg(target_arch = "x86_64")]
    let (architecture, options): (_, &[&str]) = ("x86_64", &[]);
    #[cfg(target_arch = "aarch64")]
    let (architecture, options): (_, &[&str]) = ("aarch64", &OPTIONS_AARCH64);
    let Some(compiler) = tools::find("cc") else {
        return tools::skip(TEST, "cc", NATIVE_HINT);
    };
    run(&compile(TEST, &compiler, options, architecture), None);
}

// rule: S0-SWITCH-1, S0-SWITCH-2, S2-FILES-1
#[test]
fn switch_from_c_aarch64_under_emulation() {
    const TEST: &str = "switch_from_c_aarch64_under_emulation";
    let Some(compiler) = tools::find("aarch64-linux-gnu-gcc") else {
        return tools::skip(TEST, "aarch64-linux-gnu-gcc", AARCH64_HINT);
    };
    let Some(emulator) = tools::find("qemu-aarch64") else {
        return tools::skip(TEST, "qemu-aarch64", AARCH64_HINT);
    };
    // Static: the emulator then needs no libraries of the other architecture.
    let options = [&["-static"], OPTIONS_AARCH64.as_slice()].concat();
    let program = compile(TEST, &compiler, &options, "aarch64");
    run(&program, Some(&emulator));
}
