//! What cannot be budgeted is an error that says why, at the place that is to blame.
//!
//! `TRYBUILD=overwrite cargo test -p parcae-macros --test compile_fail` accepts new messages.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
