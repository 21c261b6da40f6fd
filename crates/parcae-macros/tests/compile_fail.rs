//! Code that cannot be budgeted is an error that says why, at the place that is to blame.

#[path = "../../parcae/tests/compile_fail/runner.rs"]
mod runner;

#[test]
fn misuse_does_not_compile() {
    runner::compile_fail(env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));
}
