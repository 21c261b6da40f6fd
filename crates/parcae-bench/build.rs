//! Hands the compiler's version to the crate, which prints it among the conditions.
#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let version = std::env::var_os("RUSTC")
        .and_then(|rustc| Command::new(rustc).arg("--version").output().ok())
        .and_then(|output| String::from_utf8(output.stdout).ok());
    // Without it the crate says "unknown compiler".
    if let Some(version) = version {
        println!("cargo::rustc-env=PARCAE_BENCH_RUSTC={}", version.trim());
    }
}
