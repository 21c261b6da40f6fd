//! Every way in which a borrow, a handle, a nursery, a context or a capability could get to where it
//! must not be, and what the compiler says about it: rule 7 of the design for those who write no
//! `unsafe`.
//!
//! `TRYBUILD=overwrite cargo test -p parcae --test compile_fail` accepts new messages.

#[test]
fn nothing_escapes_and_nothing_is_forged() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
