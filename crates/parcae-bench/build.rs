//! Passes the compiler's version to the crate, which prints it among the conditions, and builds the
//! C side of the `capi` workload, which is left out if there is no C compiler.
#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC");
    let version = std::env::var_os("RUSTC")
        .and_then(|rustc| Command::new(rustc).arg("--version").output().ok())
        .and_then(|output| String::from_utf8(output.stdout).ok());
    // If this fails, the crate prints "unknown compiler".
    if let Some(version) = version {
        println!("cargo::rustc-env=PARCAE_BENCH_RUSTC={}", version.trim());
    }

    println!("cargo::rustc-check-cfg=cfg(parcae_bench_c)");
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=../parcae-capi/include/parcae.h");
    println!("cargo::rerun-if-changed=../parcae-capi/trace/parcae_trace_pc.c");
    match build_c() {
        Ok(folder) => {
            println!("cargo::rustc-link-search=native={}", folder.display());
            println!("cargo::rustc-link-lib=static=parcae_bench_c");
            println!("cargo::rustc-cfg=parcae_bench_c");
        }
        Err(why) => println!("cargo::warning=the workload capi is left out: {why}"),
    }
}

/// The folder of the library with the C side.
fn build_c() -> Result<PathBuf, String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no folder")?);
    let traced = "-fsanitize-coverage=trace-pc";
    let objects = [
        compile(&out, "c/capi.c", "capi.o", &[])?,
        compile(&out, "c/hash.c", "hash.o", &[])?,
        compile(&out, "c/hash.c", "hash_traced.o", &["-DTRACED", traced])?,
        compile(&out, "../parcae-capi/trace/parcae_trace_pc.c", "trace_pc.o", &[])?,
    ];
    let library = out.join("libparcae_bench_c.a");
    let _ = std::fs::remove_file(&library); // of an earlier build, with other members
    run(Command::new("ar").arg("rcs").arg(&library).args(&objects))?;
    Ok(out)
}

fn compile(out: &Path, source: &str, object: &str, options: &[&str]) -> Result<PathBuf, String> {
    let object = out.join(object);
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-O2", "-fPIC", "-Wall", "-Wextra", "-I../parcae-capi/include", "-Ic"]);
    run(cc.args(options).args(["-c", source, "-o"]).arg(&object))?;
    Ok(object)
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).replace('\n', " ")),
        Err(error) => Err(format!("{}: {error}", command.get_program().display())),
    }
}
