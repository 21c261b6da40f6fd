//! Writes `docs/conformance.md`: the introduction, a summary with counts, and a table for each
//! section.

use super::marks::Mark;
use super::rules::{Rule, STATES, Seed};
use std::collections::BTreeMap;
use std::fmt::Write;

pub(super) fn render(intro: &str, seeds: &[Seed], marks: &[Mark]) -> String {
    let mut tests: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for mark in marks {
        tests.entry(&mark.rule).or_default().push(format!("`{}`", mark.test()));
    }
    let mut out = format!("{}\n\n## Summary\n\n", intro.trim_end());
    let _ = writeln!(out, "| seed | title | rows | {} |", STATES.join(" | "));
    out += "|---|---|---|---|---|---|---|\n";
    for seed in seeds {
        count(&mut out, &seed.name, &seed.title, &seed.rules().collect::<Vec<_>>());
    }
    count(&mut out, "all", "", &seeds.iter().flat_map(Seed::rules).collect::<Vec<_>>());
    for seed in seeds {
        let _ = write!(out, "\n## {}: {}\n", seed.name, seed.title);
        for section in &seed.sections {
            let _ = write!(out, "\n### {}\n\n", section.title);
            out += "| id | rule | module | test | where | state |\n|---|---|---|---|---|---|\n";
            for rule in &section.rules {
                let proof =
                    tests.get(rule.id.as_str()).map_or("–".into(), |all| all.join("<br>"));
                let Rule { id, text, module, place, state, .. } = rule;
                let _ = writeln!(out, "| {id} | {text} | {module} | {proof} | {place} | {state} |");
            }
        }
    }
    out
}

fn count(out: &mut String, name: &str, title: &str, rules: &[&Rule]) {
    let of = |state: &&str| rules.iter().filter(|rule| rule.state == **state).count().to_string();
    let states: Vec<String> = STATES.iter().map(of).collect();
    let _ = writeln!(out, "| {name} | {title} | {} | {} |", rules.len(), states.join(" | "));
}
