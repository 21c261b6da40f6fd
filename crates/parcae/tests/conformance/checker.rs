//! The checker is seen to fail: one small document for each kind of problem.

use super::*;

/// A tree of one Rust and one C test file and one module.
struct Sample;

const SAMPLE_RUST: &str = "
#[test]
fn proven() {}

// A comment that mentions fn commented() must not count.
#[test]
#[cfg_attr(
    miri,
    ignore
)]
fn proven_with_attributes() {}

fn helper() {}
";

const SAMPLE_C: &str = "
static int prototype_only(void);
int defined(void (*callback)(void))
{
    if (called(1)) { return 0; }
    return 1;
}
";

impl Tree for Sample {
    fn exists(&self, path: &str) -> bool {
        path == "src/stack" || self.text(path).is_some()
    }

    fn text(&self, path: &str) -> Option<String> {
        match path {
            "src/tests.rs" => Some(SAMPLE_RUST.into()),
            "tests/abi.c" => Some(SAMPLE_C.into()),
            "src/switch.s" => Some("proven:".into()),
            _ => None,
        }
    }
}

const SUMMARY: &str =
    "| seed | title | rows | done | partial | decided | open |\n|---|---|---|---|---|---|---|\n";
const RULES: &str = "| id | rule | module | test | where | state |\n|---|---|---|---|---|---|\n";

/// One correct row per seed, one in each state and one more.
const CORRECT: [&str; 5] = [
    "| S0-STK-1 | guard | `src/stack` | `src/tests.rs::proven`<br>`tests/abi.c::defined` | default | done |",
    "| S1-A-1 | part | parcae/nursery | `src/tests.rs::proven_with_attributes` | core | partial |",
    "| S2-A-1 | other way; decided: no | parcae/nursery | – | – | decided |",
    "| S3-A2-10 | later | parcae/nursery | – | – | open |",
    "| S4-A-1 | later | `src/stack`, parcae/time | – | – | open |",
];

const CORRECT_COUNTS: [&str; 6] = [
    "| S0 | a | 1 | 1 | 0 | 0 | 0 |",
    "| S1 | b | 1 | 0 | 1 | 0 | 0 |",
    "| S2 | c | 1 | 0 | 0 | 1 | 0 |",
    "| S3 | d | 1 | 0 | 0 | 0 | 1 |",
    "| S4 | e | 1 | 0 | 0 | 0 | 1 |",
    "| all | | 5 | 1 | 1 | 1 | 2 |",
];

fn document(counts: &[&str], rules: &[&str]) -> String {
    format!("# T\n\n{SUMMARY}{}\n\nText.\n\n{RULES}{}\n", counts.join("\n"), rules.join("\n"))
}

/// The problems of the correct document after its S0 row was replaced.
fn with_row(row: &str) -> Vec<String> {
    let mut rules = CORRECT;
    rules[0] = row;
    problems(&document(&CORRECT_COUNTS, &rules), &Sample)
}

#[track_caller]
fn assert_reports(found: &[String], row: &str, what: &str) {
    assert!(
        found.iter().any(|problem| problem.contains(row) && problem.contains(what)),
        "expected a problem that names {row:?} and says {what:?}, found {found:#?}"
    );
}

#[test]
fn a_correct_document_has_no_problems() {
    let found = problems(&document(&CORRECT_COUNTS, &CORRECT), &Sample);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn an_empty_document_is_reported() {
    assert_reports(&problems("", &Sample), "", "no table of rules");
}

#[test]
fn a_missing_cell_and_an_extra_cell_are_reported() {
    let short = with_row("| S0-STK-1 | guard | `src/stack` | default | done |");
    assert_reports(&short, "S0-STK-1", "5 cells");
    let long = with_row("| S0-STK-1 | guard | `src/stack` | – | – | open | x |");
    assert_reports(&long, "S0-STK-1", "7 cells");
}

#[test]
fn an_empty_cell_is_reported() {
    let found = with_row("| S0-STK-1 | guard | | `src/tests.rs::proven` | default | partial |");
    assert_reports(&found, "S0-STK-1", "`module` is empty");
}

#[test]
fn an_unknown_state_is_reported() {
    let found = with_row("| S0-STK-1 | guard | `src/stack` | – | – | finished |");
    assert_reports(&found, "S0-STK-1", "unknown state \"finished\"");
}

#[test]
fn an_unknown_place_is_reported() {
    let found = with_row("| S0-STK-1 | g | `src/stack` | `src/tests.rs::proven` | often | done |");
    assert_reports(&found, "S0-STK-1", "unknown place \"often\"");
}

#[test]
fn done_in_the_algorithms_or_in_tests_alone_is_reported() {
    for place in ["core", "test"] {
        let proof = "`src/stack` | `src/tests.rs::proven`";
        let found = with_row(&format!("| S0-STK-1 | g | {proof} | {place} | done |"));
        assert_reports(&found, "S0-STK-1", &format!("holds only in {place}"));
    }
    for state in ["done", "partial"] {
        let proof = "`src/stack` | `src/tests.rs::proven`";
        let found = with_row(&format!("| S0-STK-1 | g | {proof} | – | {state} |"));
        assert_reports(&found, "S0-STK-1", "holds nowhere");
    }
}

#[test]
fn tests_that_many_rows_rest_on_are_listed() {
    let row =
        |n| format!("| S0-A-{n} | g | `src/stack` | `t.rs::a`<br>`t.rs::a` | default | done |");
    let listed = |rows: u32| {
        let rows: Vec<String> = (1..=rows).map(row).collect();
        shared_tests(&format!("{RULES}{}\n", rows.join("\n")))
    };
    assert_eq!(listed(5), [], "each row counts once");
    let listed = listed(6);
    assert_eq!((listed[0].0.as_str(), listed[0].1.len()), ("t.rs::a", 6));
}

#[test]
fn a_decided_row_without_decision_is_reported() {
    let found = with_row("| S0-STK-1 | guard | `src/stack` | – | – | decided |");
    assert_reports(&found, "S0-STK-1", "no decision");
}

#[test]
fn a_malformed_id_is_reported() {
    for id in ["S5-A-1", "S0-a-1", "S0--1", "S0-A-", "S0-A-1x", "S0-A", "A"] {
        let found = with_row(&format!("| {id} | guard | `src/stack` | – | – | open |"));
        assert_reports(&found, id, "does not have the form");
    }
}

#[test]
fn a_duplicate_id_is_reported() {
    let mut rules = CORRECT.to_vec();
    rules.push(CORRECT[0]);
    let found = problems(&document(&CORRECT_COUNTS, &rules), &Sample);
    assert_reports(&found, "S0-STK-1", "duplicate id, first used in line 16");
}

#[test]
fn a_missing_test_is_reported() {
    let rust =
        with_row("| S0-STK-1 | guard | `src/stack` | `src/tests.rs::gone` | default | done |");
    assert_reports(&rust, "S0-STK-1", "has no test function gone");
    let c = with_row("| S0-STK-1 | guard | `src/stack` | `tests/abi.c::gone` | default | done |");
    assert_reports(&c, "S0-STK-1", "has no test function gone");
    let second = with_row(
        "| S0-STK-1 | g | `src/stack` | `src/tests.rs::proven`<br>`src/tests.rs::gone` | default | done |",
    );
    assert_reports(&second, "S0-STK-1", "has no test function gone");
}

#[test]
fn a_missing_test_file_is_reported() {
    let found =
        with_row("| S0-STK-1 | guard | `src/stack` | `src/gone.rs::proven` | default | done |");
    assert_reports(&found, "S0-STK-1", "test file src/gone.rs does not exist");
}

#[test]
fn a_test_file_of_another_language_is_reported() {
    let found =
        with_row("| S0-STK-1 | guard | `src/stack` | `src/switch.s::proven` | default | done |");
    assert_reports(&found, "S0-STK-1", "neither Rust");
}

#[test]
fn a_test_cell_of_another_form_is_reported() {
    for cell in ["-", "proven", "src/tests.rs::proven", "`src/tests.rs`"] {
        let found = with_row(&format!("| S0-STK-1 | g | `src/stack` | {cell} | default | done |"));
        assert_reports(&found, "S0-STK-1", "`path::function` expected");
    }
}

#[test]
fn only_functions_that_carry_the_attribute_are_tests() {
    assert!(has_rust_test(SAMPLE_RUST, "proven"));
    assert!(has_rust_test(SAMPLE_RUST, "proven_with_attributes"));
    assert!(has_rust_test("    #[test] fn inline() {}", "inline"));
    assert!(!has_rust_test(SAMPLE_RUST, "helper"));
    assert!(!has_rust_test(SAMPLE_RUST, "commented"));
    assert!(!has_rust_test(SAMPLE_RUST, "prove"));
    assert!(!has_rust_test("#[test]\nfn a() {\n    b();\n}\nfn b() {}", "b"));
}

#[test]
fn only_definitions_count_in_c() {
    assert!(has_c_function(SAMPLE_C, "defined"));
    assert!(!has_c_function(SAMPLE_C, "prototype_only"));
    assert!(!has_c_function(SAMPLE_C, "called"));
    assert!(!has_c_function(SAMPLE_C, "define"));
}

#[test]
fn done_and_partial_without_a_test_are_reported() {
    for state in ["done", "partial"] {
        let found =
            with_row(&format!("| S0-STK-1 | guard | `src/stack` | – | default | {state} |"));
        assert_reports(&found, "S0-STK-1", "without a test");
    }
}

#[test]
fn done_without_an_existing_module_is_reported() {
    let planned =
        with_row("| S0-STK-1 | guard | parcae/stack | `src/tests.rs::proven` | default | done |");
    assert_reports(&planned, "S0-STK-1", "done without a module");
    let gone =
        with_row("| S0-STK-1 | guard | `src/gone` | `src/tests.rs::proven` | default | done |");
    assert_reports(&gone, "S0-STK-1", "module src/gone does not exist");
}

#[test]
fn a_missing_module_of_an_open_row_is_reported() {
    let found = with_row("| S0-STK-1 | guard | `src/stack`, `src/gone` | – | – | open |");
    assert_reports(&found, "S0-STK-1", "module src/gone does not exist");
}

#[test]
fn a_wrong_count_is_reported() {
    let mut counts = CORRECT_COUNTS;
    counts[3] = "| S3 | d | 2 | 0 | 0 | 0 | 1 |";
    counts[5] = "| all | | 5 | 1 | 1 | 1 | many |";
    let found = problems(&document(&counts, &CORRECT), &Sample);
    assert_reports(&found, "S3", "rows = \"2\", there are 1");
    assert_reports(&found, "all", "open = \"many\", there are 2");
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn a_missing_or_repeated_summary_row_is_reported() {
    let missing = problems(&document(&CORRECT_COUNTS[1..], &CORRECT), &Sample);
    assert_reports(&missing, "S0", "exactly one row");
    let mut counts = CORRECT_COUNTS.to_vec();
    counts.push(CORRECT_COUNTS[0]);
    let repeated = problems(&document(&counts, &CORRECT), &Sample);
    assert_reports(&repeated, "S0", "exactly one row");
}

#[test]
fn a_seed_without_rows_is_reported() {
    let found = problems(&document(&CORRECT_COUNTS, &CORRECT[1..]), &Sample);
    assert_reports(&found, "S0", "has no rows");
}

#[test]
fn a_rule_outside_a_rule_table_is_reported() {
    let text = format!(
        "{}\n| id | rule |\n|---|---|\n| S0-LOST-1 | unseen |\n\n| S0-LOST-2 | unseen |\n",
        document(&CORRECT_COUNTS, &CORRECT)
    );
    let found = problems(&text, &Sample);
    assert_reports(&found, "S0-LOST-1", "whose header is not");
    assert_reports(&found, "S0-LOST-2", "whose header is not");
}

#[test]
fn the_disk_ends_at_the_repository() {
    let disk = Disk(REPOSITORY.into());
    assert!(disk.exists("crates/parcae/tests/conformance/main.rs"));
    for outside in ["", "/", "..", "crates/../.."] {
        assert!(!disk.exists(outside), "{outside:?}");
    }
}
