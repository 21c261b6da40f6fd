//! Proves that `docs/conformance.md` tells the truth about this repository.
//!
//! The document has one row per rule of the seeds: id, rule, module, test, where, state. A table
//! like that is worth something only while it cannot rot, so this test reads it and checks that
//!
//! 1. every row has six cells, a rule, a module, a valid place and a valid state; a `decided` row
//!    says what was decided,
//! 2. ids are well formed and unique,
//! 3. every test it names exists: the file is there and holds a `#[test]` function (in C: a
//!    function) of that name,
//! 4. a `done` row names a test and a module that exists, a `partial` row names a test; what holds
//!    in `core` or in a `test` alone is not `done`, and what is `done` or `partial` holds
//!    somewhere,
//! 5. every path in the module column exists,
//! 6. the summary counts each seed's rows and states correctly, and no seed is missing.
//!
//! It does not prove that a named test proves its rule; that is for the reader. To help, it prints
//! (`--nocapture`) the tests that more than a few rows rest on: each row that shares its proof with
//! many others deserves a second look.
//!
//! The checks are functions from the document's text and a [`Tree`] to a list of problems. The real
//! tree is the disk; the tests of the checker use a tree in memory, so that each kind of problem is
//! seen to be reported. All problems are collected before failing: whoever renames a test wants the
//! whole list at once.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const SEEDS: [&str; 5] = ["S0", "S1", "S2", "S3", "S4"];
const STATES: [&str; 4] = ["done", "partial", "decided", "open"];
/// Where a rule holds: without a setting, with one, in the algorithms only, in tests only, nowhere.
const PLACES: [&str; 5] = ["default", "opt-in", "core", "test", NOWHERE];
const RULE_HEADER: [&str; 6] = ["id", "rule", "module", "test", "where", "state"];
const SUMMARY_HEADER: [&str; 7] = ["seed", "title", "rows", "done", "partial", "decided", "open"];
/// First cell of the summary's last row, which adds up the others.
const TOTAL: &str = "all";
/// What the test column holds when there is no test.
const NO_TEST: &str = "–";
/// What the place is of a rule that holds nowhere yet, or is decided not to.
const NOWHERE: &str = "–";
/// A test that more rows than this rest on is listed.
const SHARED: usize = 5;
/// How far above a `fn` its `#[test]` may stand. Room for a few more attributes and a comment.
const ATTRIBUTE_LINES: usize = 10;

// -------------------------------------------------------------------------------------------------
// What the document refers to

/// The files that rows may point to, by path from the repository root.
trait Tree {
    fn exists(&self, path: &str) -> bool;
    fn text(&self, path: &str) -> Option<String>;
}

/// The repository at this root. What lies outside it does not exist.
struct Disk(PathBuf);

impl Disk {
    fn inside(&self, path: &str) -> Option<PathBuf> {
        let plain = |part| matches!(part, Component::Normal(_));
        let inside = !path.is_empty() && Path::new(path).components().all(plain);
        inside.then(|| self.0.join(path))
    }
}

impl Tree for Disk {
    fn exists(&self, path: &str) -> bool {
        self.inside(path).is_some_and(|full| full.exists())
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.inside(path)?).ok()
    }
}

// -------------------------------------------------------------------------------------------------
// Reading the document

/// A table row with its line number (from 1), still unchecked.
#[derive(Clone, Debug)]
struct Row {
    line: usize,
    cells: Vec<String>,
}

impl Row {
    fn cell(&self, column: usize) -> &str {
        self.cells.get(column).map_or("", String::as_str)
    }

    fn id(&self) -> &str {
        self.cell(0)
    }

    fn module(&self) -> &str {
        self.cell(2)
    }

    fn test(&self) -> &str {
        self.cell(3)
    }

    fn place(&self) -> &str {
        self.cell(4)
    }

    fn state(&self) -> &str {
        self.cell(5)
    }

    fn problem(&self, what: impl std::fmt::Display) -> String {
        format!("line {}, row {}: {what}", self.line, self.id())
    }
}

/// The two kinds of table that are checked; others are prose in the form of a table.
#[derive(Default)]
struct Document {
    rules: Vec<Row>,
    summary: Vec<Row>,
    /// Rows that look like rules and stand in no rule table: nothing would check them.
    strays: Vec<Row>,
}

#[derive(Clone, Copy, PartialEq)]
enum Table {
    None,
    Rules,
    Summary,
    Other,
}

/// Sorts the rows by the header of the table that they stand in.
fn read(text: &str) -> Document {
    let mut document = Document::default();
    let mut table = Table::None;
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = cells(line) else {
            table = Table::None;
            continue;
        };
        let row = Row { line: index + 1, cells };
        if table == Table::None {
            table = kind(&row.cells);
            if table == Table::Other && is_id(row.id()) {
                document.strays.push(row);
            }
        } else if !is_separator(&row.cells) {
            match table {
                Table::Rules => document.rules.push(row),
                Table::Summary => document.summary.push(row),
                Table::Other if is_id(row.id()) => document.strays.push(row),
                Table::Other | Table::None => {}
            }
        }
    }
    document
}

/// The trimmed cells of a table line; `None` when the line belongs to no table.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    Some(inner.split('|').map(|cell| cell.trim().into()).collect())
}

fn is_separator(cells: &[String]) -> bool {
    cells.iter().all(|cell| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':')))
}

fn kind(header: &[String]) -> Table {
    if header == RULE_HEADER {
        Table::Rules
    } else if header == SUMMARY_HEADER {
        Table::Summary
    } else {
        Table::Other
    }
}

/// `S[0-4]-[A-Z0-9]+-[0-9]+`
fn is_id(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let &[seed, topic, number] = parts.as_slice() else {
        return false;
    };
    SEEDS.contains(&seed)
        && !topic.is_empty()
        && topic.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
}

/// The parts of a cell that stand in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The tests that a cell names, as (file, function); an error for a piece that has another form.
fn named_tests(cell: &str) -> Vec<Result<(&str, &str), String>> {
    if cell == NO_TEST {
        return Vec::new();
    }
    cell.split("<br>")
        .map(|piece| {
            let piece = piece.trim();
            piece
                .strip_prefix('`')
                .and_then(|rest| rest.strip_suffix('`'))
                .and_then(|rest| rest.rsplit_once("::"))
                .filter(|(file, function)| !file.is_empty() && !function.is_empty())
                .ok_or_else(|| format!("{NO_TEST} or `path::function` expected, found {piece:?}"))
        })
        .collect()
}

// -------------------------------------------------------------------------------------------------
// The checks

/// All that is wrong with the document, in the order of the list in the header.
fn problems(text: &str, tree: &dyn Tree) -> Vec<String> {
    let document = read(text);
    let mut found = Vec::new();
    if document.rules.is_empty() {
        found.push("the document has no table of rules".into());
    }
    found.extend(check_strays(&document.strays));
    found.extend(document.rules.iter().flat_map(check_form));
    found.extend(check_ids(&document.rules));
    // The cells of a row with too few or too many are not what they seem.
    let well_formed = |row: &&Row| row.cells.len() == RULE_HEADER.len();
    for row in document.rules.iter().filter(well_formed) {
        found.extend(check_tests(row, tree));
        found.extend(check_proof(row));
        found.extend(check_module(row, tree));
    }
    found.extend(check_summary(&document));
    found
}

fn check_strays(strays: &[Row]) -> Vec<String> {
    strays
        .iter()
        .map(|row| row.problem(format!("stands in a table whose header is not {RULE_HEADER:?}")))
        .collect()
}

/// Check 1.
fn check_form(row: &Row) -> Vec<String> {
    if row.cells.len() != RULE_HEADER.len() {
        return vec![row.problem(format!(
            "{} cells instead of {}",
            row.cells.len(),
            RULE_HEADER.len()
        ))];
    }
    let mut found = Vec::new();
    for (name, cell) in RULE_HEADER.iter().zip(&row.cells) {
        if cell.is_empty() {
            found.push(row.problem(format!("the cell `{name}` is empty")));
        }
    }
    if !STATES.contains(&row.state()) {
        found.push(row.problem(format!("unknown state {:?}", row.state())));
    }
    if !PLACES.contains(&row.place()) {
        found.push(row.problem(format!("unknown place {:?}", row.place())));
    }
    if row.state() == "decided" && !row.cell(1).contains("; ") {
        found.push(row.problem("decided, but no decision after `;`"));
    }
    found
}

/// Check 2.
fn check_ids(rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        if !is_id(row.id()) {
            found.push(row.problem("the id does not have the form S[0-4]-[A-Z0-9]+-[0-9]+"));
        }
        if let Some(line) = first.get(row.id()) {
            found.push(row.problem(format!("duplicate id, first used in line {line}")));
        } else {
            first.insert(row.id(), row.line);
        }
    }
    found
}

/// Check 3.
fn check_tests(row: &Row, tree: &dyn Tree) -> Vec<String> {
    named_tests(row.test())
        .into_iter()
        .filter_map(|test| test.and_then(|(file, function)| find_test(file, function, tree)).err())
        .map(|what| row.problem(what))
        .collect()
}

fn find_test(file: &str, function: &str, tree: &dyn Tree) -> Result<(), String> {
    let text = tree.text(file).ok_or_else(|| format!("test file {file} does not exist"))?;
    let found = if file.ends_with(".rs") {
        has_rust_test(&text, function)
    } else if file.ends_with(".c") {
        has_c_function(&text, function)
    } else {
        return Err(format!("test file {file} is neither Rust (.rs) nor C (.c)"));
    };
    if found { Ok(()) } else { Err(format!("{file} has no test function {function}")) }
}

/// Check 4. The existence of what is named is for checks 3 and 5.
fn check_proof(row: &Row) -> Vec<String> {
    let mut found = Vec::new();
    if matches!(row.state(), "done" | "partial") && named_tests(row.test()).is_empty() {
        found.push(row.problem(format!("{} without a test", row.state())));
    }
    if row.state() == "done" && matches!(row.place(), "core" | "test") {
        found.push(row.problem(format!("done, but holds only in {}", row.place())));
    }
    if matches!(row.state(), "done" | "partial") && row.place() == NOWHERE {
        found.push(row.problem(format!("{}, but holds nowhere", row.state())));
    }
    if row.state() == "done" && quoted(row.module()).is_empty() {
        found.push(row.problem("done without a module in backticks"));
    }
    found
}

/// Check 5.
fn check_module(row: &Row, tree: &dyn Tree) -> Vec<String> {
    quoted(row.module())
        .into_iter()
        .filter(|path| !tree.exists(path))
        .map(|path| row.problem(format!("module {path} does not exist")))
        .collect()
}

/// Check 6.
fn check_summary(document: &Document) -> Vec<String> {
    let mut found = Vec::new();
    for seed in SEEDS {
        let rows = of_seed(&document.rules, seed);
        if rows.is_empty() {
            found.push(format!("seed {seed} has no rows"));
        }
        found.extend(check_counts(document, seed, &rows));
    }
    found.extend(check_counts(document, TOTAL, &document.rules));
    for row in &document.summary {
        if row.id() != TOTAL && !SEEDS.contains(&row.id()) {
            found.push(row.problem("the summary has a row for an unknown seed"));
        }
    }
    found
}

fn of_seed(rows: &[Row], seed: &str) -> Vec<Row> {
    rows.iter().filter(|row| row.id().split('-').next() == Some(seed)).cloned().collect()
}

/// Compares the one summary row called `name` with the counts of `rows`.
fn check_counts(document: &Document, name: &str, rows: &[Row]) -> Vec<String> {
    let mut named = document.summary.iter().filter(|row| row.id() == name);
    let (Some(row), None) = (named.next(), named.next()) else {
        return vec![format!("the summary needs exactly one row for {name}")];
    };
    SUMMARY_HEADER
        .iter()
        .enumerate()
        .skip(2) // seed and title
        .filter_map(|(column, title)| {
            let expected = match *title {
                "rows" => rows.len(),
                state => rows.iter().filter(|row| row.state() == state).count(),
            };
            let stated = row.cell(column);
            (stated.parse() != Ok(expected)).then(|| {
                row.problem(format!("the summary says {title} = {stated:?}, there are {expected}"))
            })
        })
        .collect()
}

/// The tests that more than [`SHARED`] rows rest on, with those rows; most first.
fn shared_tests(text: &str) -> Vec<(String, Vec<String>)> {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in read(text).rules {
        for (file, function) in named_tests(row.test()).into_iter().flatten() {
            let rows = rows.entry(format!("{file}::{function}")).or_default();
            if !rows.contains(&row.id().to_owned()) {
                rows.push(row.id().into());
            }
        }
    }
    let mut shared: Vec<_> = rows.into_iter().filter(|(_, rows)| rows.len() > SHARED).collect();
    shared.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    shared
}

// -------------------------------------------------------------------------------------------------
// Looking for a function

/// Whether Rust source has `fn name` with `#[test]` above it. A scan by lines: good enough for
/// formatted code, and it needs no parser.
fn has_rust_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    (0..lines.len()).any(|at| {
        defines_rust_fn(lines[at], name)
            && (lines[at].starts_with("#[test]") || carries_test(&lines[..at]))
    })
}

fn is_comment(line: &str) -> bool {
    line.starts_with("//")
}

fn defines_rust_fn(line: &str, name: &str) -> bool {
    !is_comment(line)
        && occurrences(line, name).any(|(before, after)| {
            before.trim_end().ends_with("fn") && (after.starts_with('(') || after.starts_with('<'))
        })
}

/// Whether the lines that lead up to a `fn` hold `#[test]` before another item ends or begins.
fn carries_test(above: &[&str]) -> bool {
    above
        .iter()
        .rev()
        .take(ATTRIBUTE_LINES)
        .filter(|line| !is_comment(line))
        .take_while(|line| !line.ends_with(['}', '{', ';']))
        .any(|line| line.starts_with("#[test]"))
}

/// Whether C source defines `name`: the name, its parameters, and a body. A call or a prototype
/// does not count.
fn has_c_function(source: &str, name: &str) -> bool {
    occurrences(source, name).any(|(_, after)| {
        after
            .trim_start()
            .strip_prefix('(')
            .and_then(after_parenthesis)
            .is_some_and(|rest| rest.trim_start().starts_with('{'))
    })
}

/// What follows the parenthesis that closes the one just opened.
fn after_parenthesis(text: &str) -> Option<&str> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[at + 1..]);
        }
    }
    None
}

/// The places where `name` stands as a whole identifier: what is before it and what is after it.
fn occurrences<'t>(text: &'t str, name: &str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name)
        .map(move |(at, found)| (&text[..at], &text[at + found.len()..]))
        .filter(move |(before, after)| !before.ends_with(in_name) && !after.starts_with(in_name))
}

// -------------------------------------------------------------------------------------------------
// The document

#[test]
fn the_document_is_true() {
    let text = std::fs::read_to_string(DOCUMENT)
        .unwrap_or_else(|error| panic!("cannot read {DOCUMENT}: {error}"));
    for (test, rows) in shared_tests(&text) {
        println!("{} rows rest on {test}: {}", rows.len(), rows.join(" "));
    }
    let found = problems(&text, &Disk(REPOSITORY.into()));
    assert!(
        found.is_empty(),
        "docs/conformance.md has {} problem(s):\n  {}",
        found.len(),
        found.join("\n  ")
    );
}

mod checker;
