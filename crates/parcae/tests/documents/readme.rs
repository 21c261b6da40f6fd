//! Documents are true: the README's program is the example that runs, the README is short, and the
//! contract of the context switch has all its sections.
//!
//! The other snippets of the README, and the links of all documents, are tests of `parcae-book`.

use std::process::Command;

const README: &str = include_str!("../../../../README.md");
const FIRST: &str = include_str!("../../examples/word_count.rs");
const INVARIANTS: &str = include_str!("../../src/stack/arch/CONTEXT-SWITCH-INVARIANTS.md");

/// The contents of the fenced blocks of this language, in order, whatever their attributes.
fn blocks<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let fences = document.split("```").skip(1).step_by(2);
    let parts = fences.filter_map(|fence| fence.split_once('\n'));
    parts
        .filter(|(info, _)| info.split(',').next() == Some(language))
        .map(|(_, text)| text)
        .collect()
}

/// An example's source without its header comment.
fn program(source: &str) -> &str {
    source.split_once("\n\n").map_or(source, |(_, program)| program)
}

#[test]
fn readme_shows_the_first_program_as_it_is() {
    let shown = blocks(README, "rust");
    assert!(shown.iter().any(|block| block.trim() == program(FIRST).trim()), "{shown:#?}");
}

#[test]
fn the_readme_is_short() {
    let lines = README.lines().count();
    assert!(lines <= 150, "{lines} lines: longer parts belong into the book");
}

#[test]
fn the_first_program_counts_right() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--quiet", "--package", "parcae", "--example", "word_count"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo runs the example");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let words = README.split_whitespace().count();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{words} words\n"));
}

// rule: S0-INVDOC-1, S0-INVDOC-2, S0-INVDOC-3, S0-INVDOC-4, S0-INVDOC-5, S0-INVDOC-6, S0-INVDOC-7
// rule: S1-CTX-6
#[test]
fn invariants_of_the_switch_cover_what_they_must() {
    let sections: Vec<&str> =
        INVARIANTS.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    for section in [
        "Preserved",
        "May be clobbered",
        "Who owns a stack",
        "Allowed callers",
        "A new fiber",
        "Red zone",
        "Signals",
        "Shadow stacks",
        "Threads",
        "Guarantees",
    ] {
        assert!(sections.contains(&section), "no section {section:?} in {sections:?}");
    }
    for word in
        ["rbx", "rbp", "r12", "x19", "d8", "flags", "MXCSR", "x87", "FPCR", "GLIBC_TUNABLES"]
    {
        assert!(INVARIANTS.contains(word), "no word of {word}");
    }
}
