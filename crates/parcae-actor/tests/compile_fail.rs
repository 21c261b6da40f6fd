//! Programs that must not compile: actors outside of their profile, calls without a deadline,
//! addresses that are widened or guessed, borrows that escape.

#[path = "../../parcae/tests/compile_fail/runner.rs"]
#[allow(dead_code, reason = "its own tests are parcae's")]
mod runner;

#[test]
fn actors_keep_to_their_profile_and_addresses_to_their_rights() {
    runner::compile_fail(env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));
}
