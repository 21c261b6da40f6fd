//! Every suite that has a command of its own (`.cargo/config.toml`) finds tests with each of its
//! filters, in each of its test programs, and stands in `HACKING.md`.

use std::path::{Path, PathBuf};

const ALIASES: &str = include_str!("../../../../.cargo/config.toml");
const HACKING: &str = include_str!("../../../../HACKING.md");

/// A command: its name, its package, its test programs (`None` is the library) and its filters.
struct Suite<'a> {
    name: &'a str,
    package: &'a str,
    programs: Vec<Option<&'a str>>,
    filters: Vec<&'a str>,
}

fn suites(aliases: &str) -> Vec<Suite<'_>> {
    let alias = |line| -> Option<Suite<'_>> {
        let (name, command) = str::split_once(line, " = \"")?;
        let command = command.trim_end_matches('"');
        let (options, filters) = command.split_once(" -- ").unwrap_or((command, ""));
        let options: Vec<&str> = options.split(' ').collect();
        let (mut package, mut programs) = ("parcae", Vec::new());
        for (at, option) in options.iter().enumerate() {
            match *option {
                "-p" => package = options[at + 1],
                "--lib" => programs.push(None),
                "--test" => programs.push(Some(options[at + 1])),
                _ => {}
            }
        }
        Some(Suite { name, package, programs, filters: filters.split_whitespace().collect() })
    };
    aliases.lines().filter(|line| line.starts_with("test-")).filter_map(alias).collect()
}

/// The tests of a program, named as libtest names them.
fn tests(package: &str, program: Option<&str>) -> Vec<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(package);
    let Some(program) = program else { return in_folder(&package.join("src"), "") };
    let program = package.join("tests").join(program);
    if program.is_dir() {
        return in_folder(&program, "");
    }
    functions(&std::fs::read_to_string(program.with_extension("rs")).unwrap())
}

fn in_folder(folder: &Path, path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let mut found = Vec::new();
    for file in paths {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let inner = if matches!(stem, "mod" | "main") {
            path.to_owned()
        } else {
            format!("{path}{stem}::")
        };
        if file.is_dir() {
            found.extend(in_folder(&file, &inner));
        } else if file.extension().is_some_and(|ext| ext == "rs") {
            let text = std::fs::read_to_string(&file).unwrap();
            found.extend(functions(&text).iter().map(|name| format!("{inner}{name}")));
        }
    }
    found
}

/// The names of the functions that carry `#[test]`.
fn functions(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at_test = |&at: &usize| lines[at] == "#[test]";
    let name = |at: usize| {
        let line = lines[at..].iter().find_map(|line| line.strip_prefix("fn "))?;
        Some(line.split('(').next()?.to_owned())
    };
    (0..lines.len()).filter(at_test).filter_map(name).collect()
}

// rule: S1-TEST-7
#[test]
fn every_suite_finds_tests_by_its_name() {
    let suites = suites(ALIASES);
    let names: Vec<&str> = suites.iter().map(|suite| suite.name).collect();
    for asked in [
        "context-switch",
        "worker-integration",
        "nursery-integration",
        "nursery-correctness",
        "async-lower",
        "async-e2e",
    ] {
        assert!(names.contains(&format!("test-{asked}").as_str()), "{asked} is not in {names:?}");
    }
    for Suite { name, package, programs, filters } in suites {
        assert!(HACKING.contains(&format!("cargo {name}")), "{name} is not in HACKING.md");
        let tests = |program: &Option<&str>| tests(package, *program);
        let all: Vec<Vec<String>> = programs.iter().map(tests).collect();
        for filter in &filters {
            let matches = all.iter().flatten().filter(|test| test.contains(filter)).count();
            assert!(matches > 0, "{name}: no test for {filter:?}");
        }
        for (program, tests) in programs.iter().zip(&all) {
            let chosen = |test: &str| filters.iter().any(|filter| test.contains(filter));
            let matched = |test: &&String| filters.is_empty() || chosen(test);
            assert!(tests.iter().any(|test| matched(&test)), "{name}: none in {program:?}");
        }
    }
}
