//! Every way in which a borrow, a handle, a nursery, a context or a capability could get to where it
//! must not be, and what the compiler says about it: rule 7 of the design for those who write no
//! `unsafe`.
//!
//! `TRYBUILD=overwrite cargo test -p parcae --test compile_fail` accepts new messages.

// rule: S0-ERR-3, S0-GOAL-6, S0-NURSERY-4, S0-NURSERY-9, S0-PROFILE-1, S0-PROFILE-2, S0-PROFILE-8
// rule: S0-PROFILE-9, S0-ROOT-4, S0-SEC-2, S0-SEC-4, S0-SUBSYS-4, S1-GUARD-1, S1-MODULE-3
// rule: S1-PROFILE-1, S1-PROFILE-4, S2-SCOPE-1
#[test]
fn nothing_escapes_and_nothing_is_forged() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
