//! Marks at tests.
//!
//! A scan by lines, which is good enough for formatted code and needs no parser. A mark belongs to
//! the next function. In Rust that function must carry `#[test]`; in C it must have a body.

use super::rules::is_id;
use std::collections::BTreeMap;

/// One rule at one test.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) rule: String,
    file: String,
    line: usize,
    function: String,
}

impl Mark {
    /// `file:line`, for messages.
    pub(super) fn at(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// `file::function`, as the document names it.
    pub(super) fn test(&self) -> String {
        format!("{}::{}", self.file, self.function)
    }
}

/// Finds the marks of one source.
pub(super) fn collect(file: &str, text: &str, marks: &mut Vec<Mark>, problems: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let function = if file.ends_with(".c") { c_function } else { rust_test };
    for (at, line) in lines.iter().enumerate() {
        let Some(rules) = marked(line) else { continue };
        let line = at + 1;
        let Some(function) = function(&lines[at..]) else {
            problems.push(format!("{file}:{line}: no test follows the mark"));
            continue;
        };
        for rule in rules.split(',').map(str::trim) {
            if !is_id(rule) {
                problems.push(format!("{file}:{line}: {rule:?} is no id of a rule"));
                continue;
            }
            let (rule, file, function) = (rule.into(), file.into(), function.into());
            marks.push(Mark { rule, file, line, function });
        }
    }
}

/// The ids of a line that is a mark.
fn marked(line: &str) -> Option<&str> {
    let c = line.strip_prefix("/* rule:").map(|rest| rest.trim_end_matches("*/"));
    c.or_else(|| line.strip_prefix("// rule:")).map(str::trim)
}

/// The name of the function that comes next, if it is a test.
fn rust_test<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let code = |line: &&&str| !line.starts_with("//");
    let at = lines.iter().position(|line| !line.starts_with("//") && is_fn(line))?;
    let head = &lines[..=at];
    // An attribute may have several lines; an item in between ends with one of these.
    let other = |line: &&str| line.ends_with(['}', ';']) && !line.starts_with('#');
    let attributes = head[..at].iter().filter(code);
    let is_test = head.iter().filter(code).any(|line| line.starts_with("#[test]"));
    if !is_test || attributes.copied().any(|line| other(&line)) {
        return None;
    }
    name_after(head[at], "fn ")
}

fn is_fn(line: &str) -> bool {
    name_after(line, "fn ").is_some()
}

fn name_after<'t>(line: &'t str, keyword: &str) -> Option<&'t str> {
    let at = line.find(keyword)?;
    if !line[..at].is_empty() && !line[..at].ends_with([' ', ']']) {
        return None;
    }
    let rest = &line[at + keyword.len()..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then(|| &rest[..end])
}

/// The name of the function that is defined next.
fn c_function<'t>(lines: &[&'t str]) -> Option<&'t str> {
    let comment = |line: &&str| line.starts_with("/*") || line.starts_with('*') || line.is_empty();
    let code: Vec<&str> = lines.iter().filter(|line| !comment(line)).copied().collect();
    let at = code.iter().position(|line| line.contains('('))?;
    // A prototype, or another statement, ends before there is a body.
    let end = code.iter().skip(at).find(|line| line.contains(['{', ';']))?;
    if end.find('{').unwrap_or(usize::MAX) > end.find(';').unwrap_or(usize::MAX) {
        return None;
    }
    let before = code[at].split('(').next()?;
    before.rsplit([' ', '*']).next().filter(|name| !name.is_empty())
}

/// Tests that more than `limit` rules rest on, with those rules; most first.
pub(super) fn shared(marks: &[Mark], limit: usize) -> Vec<(String, Vec<&str>)> {
    let mut tests: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for mark in marks {
        tests.entry(mark.test()).or_default().push(&mark.rule);
    }
    let mut shared: Vec<_> = tests.into_iter().filter(|(_, rules)| rules.len() > limit).collect();
    shared.sort_by_key(|(_, rules)| std::cmp::Reverse(rules.len()));
    shared
}
