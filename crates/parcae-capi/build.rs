//! Gives the shared library its soname: the name that programs ask for when they start.
//!
//! The number in it changes when the ABI does, and only then; `docs/c.md` has the policy.
#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libparcae.so.0");
}
