//! The manual and the book show programs as they are, with what they print.

use crate::installed::{Linked, read, run, trace_hook};

const MANUAL: &str = "../../docs/c.md";
const MANUAL_PAGE: &str = "../../docs/book/coming-from/manual-page.md";
const HOW_TO: &str = "../../docs/book/howto/call-it-from-c.md";

/// The program, and its output, are in the document, one after the other.
fn shown(document: &str, name: &str, output: &str) {
    let manual = read(document);
    let source = read(&format!("examples/c/{name}.c"));
    let block = format!("```c\n{}```\n", source);
    let (_, rest) =
        manual.split_once(&block).unwrap_or_else(|| panic!("{name}.c is not shown as it is"));
    let printed = rest.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(printed, Some(output), "what {name} prints");
}

fn example(name: &str, sources: &[&str], options: &[&str]) {
    example_of(MANUAL, name, sources, options);
}

fn example_of(document: &str, name: &str, sources: &[&str], options: &[&str]) {
    let Some(outcome) = run(&format!("example-{name}"), sources, options, &[], Linked::Shared)
    else {
        return;
    };
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    shown(document, name, &outcome.stdout);
}

#[test]
fn fan_out() {
    example("fan_out", &["examples/c/fan_out.c"], &["-std=c99"]);
}

#[test]
fn pipeline() {
    example("pipeline", &["examples/c/pipeline.c"], &["-std=c99"]);
}

#[test]
fn budget() {
    example("budget", &["examples/c/budget.c"], &["-std=c99"]);
}

#[test]
fn actors() {
    example("actors", &["examples/c/actors.c"], &["-std=c99"]);
}

#[test]
fn manual_page() {
    example_of(MANUAL_PAGE, "manual", &["examples/c/manual.c"], &["-std=c99"]);
}

#[test]
fn squares() {
    example_of(HOW_TO, "squares", &["examples/c/squares.c"], &["-std=c99"]);
}

/// The calls that the compiler inserts are yield checks: an endless loop that knows nothing of them
/// is stopped by its budget, and other tasks have their turns meanwhile.
#[test]
fn endless() {
    let Some(compiler) = crate::installed::compiler("endless", "a.c") else { return };
    let object = trace_hook(&compiler, "endless");
    let options = ["-std=c99", "-fsanitize-coverage=trace-pc", &object];
    example("endless", &["examples/c/endless.c"], &options);
}
