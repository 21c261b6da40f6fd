//! The storeys of the crate: a module uses its own storey and those below. The sources are scanned; what
//! goes up today is listed, and the lists may only shrink.
//!
//! `cargo test -p parcae --test storeys -- --nocapture` prints the diagram.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up.
const STOREYS: [&str; 8] = ["base", "stack", "sched", "wait", "scope", "sync", "view", "api"];

/// References from a module to a storey above its own. An entry that is no longer needed fails the test.
const UP: [(&str, &str); 24] = [
    // An error carries its cause: a stack that could not be had, a deadlock.
    ("base::error", "stack"),
    ("base::error", "view::inspect"),
    // The scheduler writes events and figures, and is set up with what observers want to know.
    ("sched::executor", "view::inspect"),
    ("sched::executor", "view::sysmon"),
    ("sched::executor", "view::trace"),
    ("sched::shared", "sync"),
    ("sched::shared", "view::inspect"),
    ("sched::shared", "view::stats"),
    ("sched::shared", "view::sysmon"),
    ("sched::shared", "view::trace"),
    ("sched::worker", "view::trace"),
    // A record points to the frame of its task; a joiner to an end; a timer to a node that it cancels.
    ("sched::task", "scope::cx"),
    ("sched::task", "wait"),
    ("sched::timers", "scope::cancel"),
    // A worker collects the accounts of tasks that have ended on it.
    ("sched::worker", "scope::budget"),
    ("sched::worker", "scope::cx"),
    // A frame has what observers read, and writes events.
    ("scope::cx", "view::inspect"),
    ("scope::cx", "view::stats"),
    ("scope::cx", "view::trace"),
    ("scope::life", "view::stats"),
    // A nursery for C code has a runtime, and an event that ends it.
    ("scope::nursery", "api::runtime"),
    ("scope::nursery", "sync"),
    // A signal dumps the runtime that asked for it.
    ("view::inspect", "api::runtime"),
    // Waiting on a task goes through its frame.
    ("wait", "scope::cx"),
];

/// Modules that use each other in a circle, at most.
const LARGEST_CYCLE: usize = 20;

/// Type names that mean two things, at most.
const HOMONYMS: usize = 42;

/// A source file that is no test: its module, and its text without comments and tests.
struct Source {
    module: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files
        .iter()
        .filter_map(|path| {
            let relative = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let parts: Vec<&str> = relative.trim_end_matches(".rs").split('/').collect();
            let test = parts.iter().any(|part| matches!(*part, "tests" | "models"));
            if test || parts == ["lib"] {
                return None;
            }
            // What lies in the folder of a storey itself is the storey's.
            let folder = path.parent().unwrap().parent() == Some(&root);
            let whole = folder && matches!(parts[0], "stack" | "wait" | "sync");
            let module = if whole || parts[1] == "mod" {
                parts[0].to_owned()
            } else {
                format!("{}::{}", parts[0], parts[1])
            };
            let text = fs::read_to_string(path).unwrap();
            let text = text.split("#[cfg(test").next().unwrap();
            let text = text.split("#[cfg(all(test").next().unwrap();
            let code: Vec<&str> =
                text.lines().map(|line| line.split("//").next().unwrap()).collect();
            Some(Source { module, text: code.join("\n") })
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn storey(module: &str) -> usize {
    let name = module.split("::").next().unwrap();
    STOREYS.iter().position(|storey| *storey == name).unwrap_or_else(|| panic!("{module}"))
}

/// The modules that each module names by a path from the root of the crate.
fn references(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let modules: BTreeSet<&str> = sources.iter().map(|source| source.module.as_str()).collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let targets = found.entry(source.module.clone()).or_default();
        for (at, _) in source.text.match_indices("crate::") {
            if source.text[..at].ends_with('$') {
                continue; // a path in a macro is the user's
            }
            let path = &source.text[at + "crate::".len()..];
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let path = path.split(|c| !is_path(c)).next().unwrap();
            let mut parts = path.split("::");
            let Some(first) = parts.next().filter(|first| STOREYS.contains(first)) else {
                continue;
            };
            let second = parts.next().map(|second| format!("{first}::{second}"));
            let target = second.filter(|second| modules.contains(second.as_str()));
            let target = target.unwrap_or_else(|| first.to_owned());
            if target != source.module {
                targets.insert(target);
            }
        }
    }
    found
}

#[test]
fn a_module_uses_its_own_storey_and_those_below() {
    let references = references(&sources());
    let mut up = BTreeSet::new();
    let mut counts = [[0; STOREYS.len()]; STOREYS.len()];
    for (module, targets) in &references {
        for target in targets {
            counts[storey(module)][storey(target)] += 1;
            if storey(target) > storey(module) {
                up.insert((module.as_str(), target.as_str()));
            }
        }
    }
    println!(
        "references between modules, from the storey on the left to the one above the column:"
    );
    println!("{:>8} {}", "", STOREYS.map(|storey| format!("{storey:>6}")).concat());
    for (name, row) in STOREYS.iter().zip(counts) {
        println!("{name:>8} {}", row.map(|count| format!("{count:>6}")).concat());
    }
    let allowed: BTreeSet<(&str, &str)> = UP.into_iter().collect();
    let new: Vec<_> = up.difference(&allowed).collect();
    assert!(new.is_empty(), "these go up; move what is used to a storey below: {new:?}");
    let gone: Vec<_> = allowed.difference(&up).collect();
    assert!(gone.is_empty(), "these do not go up any more; take them out of the list: {gone:?}");
}

#[test]
fn no_cycle_of_modules_grows() {
    let references = references(&sources());
    let reach = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            for target in references.get(&module).into_iter().flatten() {
                if seen.insert(target.clone()) {
                    next.push(target.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        references.keys().map(|module| (module, reach(module))).collect();
    let cycle = |module: &String| {
        let back = |other: &&String| reached.get(other).is_some_and(|seen| seen.contains(module));
        reached[module].iter().filter(back).count()
    };
    let largest = references.keys().map(cycle).max().unwrap();
    println!("the largest cycle has {largest} modules");
    assert_eq!(largest, LARGEST_CYCLE, "more is not allowed; less: lower the bound");
}

#[test]
fn no_type_name_gets_another_meaning() {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        for line in source.text.lines() {
            let line = line.trim_start();
            let line = line.strip_prefix("pub ").unwrap_or(line);
            let line = match line.strip_prefix("pub(") {
                Some(rest) => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
                None => line,
            };
            let kinds = ["struct ", "enum ", "union ", "trait "];
            let Some(rest) = kinds.iter().find_map(|kind| line.strip_prefix(kind)) else {
                continue;
            };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
            if !name.is_empty() {
                names.entry(name).or_default().insert(source.module.clone());
            }
        }
    }
    let homonyms: Vec<_> = names.iter().filter(|(_, modules)| modules.len() > 1).collect();
    println!("{} type names have several meanings: {homonyms:?}", homonyms.len());
    assert_eq!(homonyms.len(), HOMONYMS, "more is not allowed; less: lower the bound");
}
