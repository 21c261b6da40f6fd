//! The lists of rules.
//!
//! ```text
//! # S0: title of the seed
//!
//! ## section
//!
//! S0-GOAL-1 done default
//!   module: `crates/parcae/src/scope/cx`
//!   the rule in one or more lines
//! ```
//!
//! The first line of a rule has its id, its state and where it holds. `docs/conformance/intro.md`
//! explains the words.

use super::SEEDS;
use super::marks::Mark;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const STATES: [&str; 4] = ["done", "partial", "decided", "open"];
const PLACES: [&str; 5] = ["default", "opt-in", "core", "test", NOWHERE];
const NOWHERE: &str = "–";

#[derive(Debug, Default)]
pub(super) struct Seed {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) sections: Vec<Section>,
}

#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Default)]
pub(super) struct Rule {
    /// `file:line`, for messages.
    at: String,
    pub(super) id: String,
    pub(super) state: String,
    pub(super) place: String,
    pub(super) module: String,
    pub(super) text: String,
}

impl Seed {
    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.sections.iter().flat_map(|section| &section.rules)
    }
}

/// Reads one list.
pub(super) fn parse(path: &str, text: &str, problems: &mut Vec<String>) -> Seed {
    let mut seed = Seed::default();
    for (number, line) in text.lines().enumerate() {
        let at = format!("{path}:{}", number + 1);
        if let Some(title) = line.strip_prefix("## ") {
            seed.sections.push(Section { title: title.into(), rules: Vec::new() });
        } else if let Some(title) = line.strip_prefix("# ") {
            let (name, title) = title.split_once(": ").unwrap_or((title, ""));
            (seed.name, seed.title) = (name.into(), title.into());
        } else if let Some(line) = line.strip_prefix("  ") {
            let last = seed.sections.last_mut().and_then(|section| section.rules.last_mut());
            match (last, line.strip_prefix("module: ")) {
                (None, _) => problems.push(format!("{at}: text before the first rule")),
                (Some(rule), Some(module)) => rule.module = module.trim().into(),
                (Some(rule), None) if rule.text.is_empty() => rule.text = line.trim().into(),
                (Some(rule), None) => rule.text = format!("{} {}", rule.text, line.trim()),
            }
        } else if !line.is_empty() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (words.as_slice(), seed.sections.last_mut()) {
                (&[id, state, place], Some(section)) => section.rules.push(Rule {
                    at,
                    id: id.into(),
                    state: state.into(),
                    place: place.into(),
                    ..Rule::default()
                }),
                (_, None) => problems.push(format!("{at}: a rule before the first section")),
                _ => problems.push(format!("{at}: `id state place` expected, found {line:?}")),
            }
        }
    }
    seed
}

/// Checks all rules, and the marks against them.
pub(super) fn check(
    seeds: &[Seed],
    marks: &[Mark],
    exists: &dyn Fn(&str) -> bool,
    problems: &mut Vec<String>,
) {
    let mut ids: BTreeMap<&str, &str> = BTreeMap::new();
    let proven: BTreeSet<&str> = marks.iter().map(|mark| mark.rule.as_str()).collect();
    for (seed, name) in seeds.iter().zip(SEEDS) {
        if seed.name != name || seed.rules().next().is_none() {
            problems.push(format!("the list of {name} is that of {:?}, or empty", seed.name));
        }
        for rule in seed.rules() {
            let mut report = |problem: String| {
                problems.push(format!("{}: {}: {problem}", rule.at, rule.id));
            };
            if !is_id(&rule.id) || !rule.id.starts_with(name) {
                report(format!("the id does not have the form {name}-[A-Z0-9]+-[0-9]+"));
            }
            if let Some(first) = ids.insert(&rule.id, &rule.at) {
                report(format!("duplicate id, first used in {first}"));
            }
            check_rule(rule, proven.contains(rule.id.as_str()), exists, &mut report);
        }
    }
    for mark in marks.iter().filter(|mark| !ids.contains_key(mark.rule.as_str())) {
        problems.push(format!("{} names the unknown rule {:?}", mark.at(), mark.rule));
    }
}

fn check_rule(
    rule: &Rule,
    proven: bool,
    exists: &dyn Fn(&str) -> bool,
    report: &mut dyn FnMut(String),
) {
    let Rule { state, place, module, text, .. } = rule;
    if text.is_empty() || module.is_empty() {
        report("has no text or no module".into());
    }
    if format!("{text}{module}").contains('|') {
        report("has a `|`, which ends a cell of the table".into());
    }
    if !STATES.contains(&state.as_str()) {
        report(format!("unknown state {state:?}"));
    }
    if !PLACES.contains(&place.as_str()) {
        report(format!("unknown place {place:?}"));
    }
    if state == "decided" && !text.contains("; ") {
        report("decided, but no decision after `;`".into());
    }
    if state == "open" && proven {
        report("open, but a test is marked with it".into());
    }
    if matches!(state.as_str(), "done" | "partial") {
        if !proven {
            report(format!("{state}, but no test is marked with it"));
        }
        if place == NOWHERE {
            report(format!("{state}, but holds nowhere"));
        }
    }
    if state == "done" {
        if matches!(place.as_str(), "core" | "test") {
            report(format!("done, but holds only in {place}"));
        }
        if quoted(module).is_empty() {
            report("done without a module in backticks".into());
        }
    }
    for path in quoted(module).into_iter().filter(|path| !exists(path)) {
        report(format!("module {path} does not exist"));
    }
}

/// `S[0-4]-[A-Z0-9]+-[0-9]+`
pub(super) fn is_id(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let &[seed, topic, number] = parts.as_slice() else { return false };
    let topic_byte = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    SEEDS.contains(&seed)
        && !topic.is_empty()
        && topic.bytes().all(topic_byte)
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The parts of a cell in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
