//! Every check is seen to fail: one small list or source for each kind of problem.

use super::marks::{Mark, collect, shared};
use super::rules::{Seed, check, is_id, parse};
use super::{SEEDS, document};

const MODULE: &str = "`src/stack`";

/// One rule for each seed; the rule of S0 is given by its head, its module and its text.
fn seeds(head: &str, module: &str, text: &str) -> (Vec<Seed>, Vec<String>) {
    let mut problems = Vec::new();
    let list = |seed: &&str| match *seed {
        "S0" => format!("# S0: zero\n\n## A\n\n{head}\n  module: {module}\n  {text}\n"),
        seed => format!("# {seed}: more\n\n## A\n\n{seed}-A-1 open –\n  module: later\n  no\n"),
    };
    let seeds = SEEDS.iter().map(|seed| parse("list.txt", &list(seed), &mut problems)).collect();
    (seeds, problems)
}

/// Marks of a source. `@` stands for the word that makes a comment a mark, so that this file has
/// none.
fn marks(file: &str, source: &str) -> (Vec<Mark>, Vec<String>) {
    let (mut marks, mut problems) = (Vec::new(), Vec::new());
    collect(file, &source.replace('@', "rule:"), &mut marks, &mut problems);
    (marks, problems)
}

/// All problems of the rule, with a test that is marked with these ids.
fn problems(head: &str, module: &str, text: &str, ids: &str) -> Vec<String> {
    let (seeds, mut found) = seeds(head, module, text);
    let source =
        if ids.is_empty() { String::new() } else { format!("// @ {ids}\n#[test]\nfn t() {{}}") };
    let (marks, wrong) = marks("src/tests.rs", &source);
    found.extend(wrong);
    check(&seeds, &marks, &|path| path == "src/stack", &mut found);
    found
}

#[track_caller]
fn assert_reports(found: &[String], what: &str) {
    assert!(found.iter().any(|problem| problem.contains(what)), "no {what:?} in {found:#?}");
}

#[test]
fn correct_rules_have_no_problems() {
    let none: [&str; 0] = [];
    assert_eq!(problems("S0-A-1 done default", MODULE, "a rule", "S0-A-1"), none);
    assert_eq!(problems("S0-A-1 partial core", "later", "a rule", "S0-A-1"), none);
    assert_eq!(problems("S0-A-1 decided –", "none", "a rule; decided: no", ""), none);
    assert_eq!(problems("S0-A-1 decided –", "none", "a rule; decided: no", "S0-A-1"), none);
    assert_eq!(problems("S0-A-1 open –", "later", "a rule", ""), none);
}

#[test]
fn a_rule_of_another_form_is_reported() {
    assert_reports(
        &problems("S0-A-1 done", MODULE, "a rule", "S0-A-1"),
        "`id state place` expected",
    );
    assert_reports(&problems("S0-A-1 finished default", MODULE, "a", "S0-A-1"), "unknown state");
    assert_reports(&problems("S0-A-1 done often", MODULE, "a", "S0-A-1"), "unknown place");
    assert_reports(&problems("S0-A-1 open –", "", "a", ""), "no text or no module");
    assert_reports(&problems("S0-A-1 open –", "later", "", ""), "no text or no module");
    assert_reports(&problems("S0-A-1 open –", "later", "a | b", ""), "ends a cell");
    assert_reports(&problems("S0-A-1 decided –", "none", "a rule", ""), "no decision");
}

#[test]
fn a_wrong_id_is_reported() {
    for id in ["S5-A-1", "S0-a-1", "S0--1", "S0-A-", "S0-A-1x", "S0-A", "A", "S1-A-7"] {
        assert_reports(
            &problems(&format!("{id} open –"), "later", "a", ""),
            "does not have the form",
        );
    }
    assert!(is_id("S3-A2-10") && !is_id("S5-A-1"));
    let twice = "S0-A-1 open –\n  module: later\n  a\n\nS0-A-1 open –";
    assert_reports(&problems(twice, "later", "a", ""), "duplicate id, first used in list.txt:5");
}

#[test]
fn text_without_a_rule_and_a_rule_without_a_section_are_reported() {
    let mut found = Vec::new();
    parse("list.txt", "# S0: zero\n\nS0-A-1 open –\n  module: later\n", &mut found);
    assert_reports(&found, "list.txt:3: a rule before the first section");
    assert_reports(&found, "list.txt:4: text before the first rule");
}

#[test]
fn an_empty_list_is_reported() {
    let mut found = Vec::new();
    let empty: Vec<Seed> = SEEDS.iter().map(|_| parse("list.txt", "", &mut found)).collect();
    check(&empty, &[], &|_| true, &mut found);
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn a_state_that_its_proof_does_not_bear_is_reported() {
    for state in ["done", "partial"] {
        let found = problems(&format!("S0-A-1 {state} default"), MODULE, "a", "");
        assert_reports(&found, "no test is marked with it");
        let found = problems(&format!("S0-A-1 {state} –"), MODULE, "a", "S0-A-1");
        assert_reports(&found, "holds nowhere");
    }
    for place in ["core", "test"] {
        let found = problems(&format!("S0-A-1 done {place}"), MODULE, "a", "S0-A-1");
        assert_reports(&found, &format!("holds only in {place}"));
    }
    assert_reports(
        &problems("S0-A-1 open –", "later", "a", "S0-A-1"),
        "open, but a test is marked",
    );
}

#[test]
fn a_missing_module_is_reported() {
    let found = problems("S0-A-1 done default", "parcae/stack", "a", "S0-A-1");
    assert_reports(&found, "done without a module");
    let found = problems("S0-A-1 open –", "`src/stack`, `src/gone`", "a", "");
    assert_reports(&found, "module src/gone does not exist");
}

#[test]
fn a_mark_of_an_unknown_rule_is_reported() {
    let found = problems("S0-A-1 done default", MODULE, "a", "S0-A-1, S0-A-2");
    assert_reports(&found, "src/tests.rs:1 names the unknown rule \"S0-A-2\"");
    let found = problems("S0-A-1 open –", "later", "a", "S0-A-x");
    assert_reports(&found, "src/tests.rs:1: \"S0-A-x\" is no id");
}

#[test]
fn marks_belong_to_the_test_that_follows() {
    let source = "
        /// Documentation.
        // @ S0-A-1, S0-A-2
        // @ S0-A-3
        #[test]
        #[cfg_attr(
            miri,
            ignore
        )]
        fn first() {}

        // @ S0-A-4
        #[test] fn second() {}
    ";
    let (found, wrong) = marks("a.rs", source);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let names: Vec<String> = found.iter().map(|mark| mark.test() + " " + &mark.rule).collect();
    let expected =
        ["a.rs::first S0-A-1", "a.rs::first S0-A-2", "a.rs::first S0-A-3", "a.rs::second S0-A-4"];
    assert_eq!(names, expected);
}

#[test]
fn a_mark_without_a_test_is_reported() {
    for source in [
        "// @ S0-A-1",
        "// @ S0-A-1\nfn helper() {}",
        "// @ S0-A-1\nstruct S;\n#[test]\nfn t() {}",
        "// @ S0-A-1\nfn helper() {\n}\n#[test]\nfn t() {}",
        "// @ S0-A-1\n// #[test]\nfn helper() {}",
    ] {
        assert_reports(&marks("a.rs", source).1, "a.rs:1: no test follows the mark");
    }
}

#[test]
fn only_definitions_count_in_c() {
    let defined = "/* @ S0-A-1 */\nstatic int\ndefined(void (*call)(void))\n{\n";
    assert_eq!(marks("a.c", defined).0[0].test(), "a.c::defined");
    let line = "/* @ S0-A-1 */\nstatic void *defined(void) {\n";
    assert_eq!(marks("a.c", line).0[0].test(), "a.c::defined");
    let prototype = "/* @ S0-A-1 */\nstatic int prototype(void);\nint other(void) {\n";
    assert_reports(&marks("a.c", prototype).1, "a.c:1: no test follows the mark");
}

#[test]
fn tests_that_many_rules_rest_on_are_listed() {
    let source = |ids: &str| format!("// @ {ids}\n#[test]\nfn t() {{}}");
    let (two, _) = marks("a.rs", &source("S0-A-1, S0-A-2"));
    assert_eq!(shared(&two, 2), []);
    assert_eq!(shared(&two, 1), [("a.rs::t".to_owned(), vec!["S0-A-1", "S0-A-2"])]);
}

#[test]
fn the_document_has_counts_and_tests() {
    let (seeds, _) = seeds("S0-A-1 done default", MODULE, "a\n  rule");
    let (marks, _) =
        marks("a.rs", "// @ S0-A-1\n#[test]\nfn t() {}\n// @ S0-A-1\n#[test]\nfn u() {}");
    let text = document::render("# Title\n", &seeds, &marks);
    let row = "| S0-A-1 | a rule | `src/stack` | `a.rs::t`<br>`a.rs::u` | default | done |";
    for line in
        ["# Title", "| S0 | zero | 1 | 1 | 0 | 0 | 0 |", "| all |  | 5 | 1 | 0 | 0 | 4 |", row]
    {
        assert!(text.lines().any(|it| it == line), "no {line:?} in\n{text}");
    }
}
