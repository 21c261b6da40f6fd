//! Programs that must not compile: every way in which a borrow, a handle, a nursery, a context or a
//! capability could escape or be forged by safe code, and what the compiler says about it.
//!
//! `runner.rs` explains the expectations in `tests/ui`.

mod runner;

use runner::{Reported, compare};

// rule: S0-ERR-3, S0-GOAL-6, S0-NURSERY-4, S0-NURSERY-9, S0-PROFILE-1, S0-PROFILE-2, S0-PROFILE-8
// rule: S0-PROFILE-9, S0-ROOT-4, S0-SEC-2, S0-SEC-4, S0-SUBSYS-4, S1-GUARD-1, S1-MODULE-3
// rule: S1-PROFILE-1, S1-PROFILE-4, S2-SCOPE-1
#[test]
fn nothing_escapes_and_nothing_is_forged() {
    runner::compile_fail(env!("CARGO_MANIFEST_DIR"), env!("CARGO_TARGET_TMPDIR"));
}

#[test]
fn an_expectation_that_does_not_hold_is_reported() {
    let parts = ["error[E0277]: `Rc` is not `Send`", "help: use `Arc`"].map(str::to_owned);
    let reported = [Reported { line: 2, parts: parts.into() }];
    let problems = |source: &str| {
        let mut problems = String::new();
        compare("program", source, &reported, &mut problems);
        problems
    };
    let right = "first\nsecond\n//~ error[E0277]: `Rc` is\n//~    not `Send`\n//~ help: `Arc`\nend";
    assert_eq!(problems(right), "");
    for (source, problem) in [
        ("first\nsecond", "program:2: not expected"),
        ("first\n//~ error[E0277]: `Rc`\nsecond", "program:1: no error"),
        ("first\nsecond\n//~ error[E0308]: `Rc`", "program:2: no \"error[E0308]: `Rc`\""),
        ("first\nsecond\n//~ error[E0277]: `Arc`", "program:2: no \"error[E0277]: `Arc`\""),
        ("first\nsecond\n//~ note: use `Arc`", "program:2: no \"note: use `Arc`\""),
    ] {
        assert!(problems(source).contains(problem), "{source:?}: {}", problems(source));
    }
}
