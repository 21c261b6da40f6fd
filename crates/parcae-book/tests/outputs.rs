//! The programs of the book print the outputs that it shows.

use std::process::Command;

#[test]
fn programs_print_what_the_book_says() {
    let output = Command::new(env!("CARGO_BIN_EXE_program")).output().expect("the program runs");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    let count: usize =
        report.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(count >= 9, "only {count} programs were found: each step of the tutorial has one");
}
