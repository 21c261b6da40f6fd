//! Compiles the programs in `tests/ui` of a crate and compares errors with the expectations in
//! them.
//!
//! An expectation is a comment below the line that the error points at:
//!
//! ```text
//!     n.spawn(move |_| Ok(*mine))?;
//!     //~ error[E0277]: `Rc<i32>` cannot be sent between threads safely
//!     //~ help: the trait `Send` is not implemented for `Rc<i32>`
//! ```
//!
//! - `error`: an error on that line has this code and a message that contains this text. It is the
//!   first one on its line; the compiler may add more there.
//! - `label`, `help`, `note`: the same error has such a part that contains this text. The label is
//!   the one at the place of the error.
//!
//! A line that begins with `//~    ` continues the one above it.
//!
//! An error on a line without an expectation fails the test, and so does a program that compiles.
//! The rest of the output may differ between compilers: notes about private types, lists of other
//! implementations, the drawing. `PARCAE_ACCEPT=1` writes new expectations, which then have to be
//! read.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MARK: &str = "//~ ";
/// Begins a line that continues an expectation.
const MORE: &str = "   ";
/// Accepted expectations are wrapped at this column.
const COLUMNS: usize = 100;

/// One error, as far as expectations can name it.
#[derive(Debug)]
pub(crate) struct Reported {
    /// Counted from 1.
    pub(crate) line: usize,
    /// `error[E0277]: message` and `help: …`, the error first.
    pub(crate) parts: Vec<String>,
}

/// Compiles every program below `tests/ui` of the crate in `package`; `scratch` is for the build.
pub(crate) fn compile_fail(package: &str, scratch: &str) {
    let package = Path::new(package);
    let programs = programs(&package.join("tests/ui"));
    assert!(!programs.is_empty(), "no programs");
    let accept = std::env::var_os("PARCAE_ACCEPT").is_some();
    if accept {
        programs.values().for_each(|path| strip(path));
    }
    let mut reports = build(package, &Path::new(scratch).join("ui"), &programs);
    let mut problems = String::new();
    for (name, path) in &programs {
        let reported = reports.remove(name).unwrap_or_default();
        if reported.is_empty() {
            let _ = writeln!(problems, "{name}: compiles");
        } else if accept {
            annotate(path, &reported);
        } else {
            compare(name, &fs::read_to_string(path).unwrap(), &reported, &mut problems);
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

fn programs(folder: &Path) -> BTreeMap<String, PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let rust = paths.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    rust.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path)).collect()
}

/// Checks all programs with one call of cargo; the errors of each.
fn build(
    package: &Path,
    project: &Path,
    programs: &BTreeMap<String, PathBuf>,
) -> BTreeMap<String, Vec<Reported>> {
    let name = package.file_name().unwrap().to_str().unwrap();
    let mut manifest = format!(
        "[package]\nname = \"ui\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\
         [workspace]\n[dependencies]\n{name} = {{ path = {package:?} }}\n"
    );
    if name != "parcae" {
        let _ = writeln!(manifest, "parcae = {{ path = {:?} }}", package.join("../parcae"));
    }
    for (program, path) in programs {
        let _ = write!(manifest, "[[bin]]\nname = \"{program}\"\npath = {path:?}\n");
    }
    fs::create_dir_all(project).unwrap();
    fs::write(project.join("Cargo.toml"), manifest).unwrap();
    // The versions that the workspace has, so that nothing needs to be downloaded.
    fs::copy(package.join("../../Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["check", "--offline", "--bins", "--keep-going", "--message-format=json"])
        .current_dir(project)
        .env("CARGO_TARGET_DIR", project.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo runs");
    let mut reports: BTreeMap<String, Vec<Reported>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let program = message["target"]["name"].as_str().unwrap_or_default();
        let ours = message["target"]["kind"][0] == "bin" && programs.contains_key(program);
        if let Some(error) = ours.then(|| reported(&message["message"])).flatten() {
            reports.entry(program.into()).or_default().push(error);
        }
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!reports.is_empty(), "cargo reports no error in any program:\n{stderr}");
    reports
}

/// An error that has a place; the compiler's last words have none.
fn reported(message: &Value) -> Option<Reported> {
    if message["level"] != "error" {
        return None;
    }
    let spans = message["spans"].as_array()?;
    let primary = spans.iter().find(|span| span["is_primary"] == true)?;
    let line = place(primary);
    let code = message["code"]["code"].as_str().map_or(String::new(), |code| format!("[{code}]"));
    let mut parts = vec![format!("error{code}: {}", text(&message["message"]))];
    let mut add = |kind: &str, value: &Value| {
        if value.is_string() {
            parts.push(format!("{kind}: {}", text(value)));
        }
    };
    add("label", &primary["label"]);
    for child in message["children"].as_array()? {
        add(child["level"].as_str()?, &child["message"]);
    }
    Some(Reported { line, parts })
}

/// The line of the program that a span stands for: of the call, if a macro wrote the code.
fn place(span: &Value) -> usize {
    let outer = &span["expansion"]["span"];
    if outer.is_object() { place(outer) } else { span["line_start"].as_u64().unwrap() as usize }
}

/// A text in one line.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Compares the errors of a program with its expectations.
pub(crate) fn compare(name: &str, source: &str, reported: &[Reported], problems: &mut String) {
    let mut expected: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let mut line = 0;
    for (at, text) in source.lines().enumerate() {
        match text.trim().strip_prefix(MARK) {
            Some(part) => {
                let parts = expected.entry(line).or_default();
                match (part.strip_prefix(MORE), parts.last_mut()) {
                    (Some(more), Some(last)) => *last += &format!(" {}", more.trim()),
                    _ => parts.push(part.to_owned()),
                }
            }
            None => line = at + 1,
        }
    }
    for (line, parts) in &expected {
        let Some(first) = reported.iter().find(|error| error.line == *line) else {
            let _ = writeln!(problems, "{name}:{line}: no error");
            continue;
        };
        for part in parts.iter().filter(|part| !says(first, part)) {
            let _ = writeln!(problems, "{name}:{line}: no {part:?} in {:#?}", first.parts);
        }
    }
    for error in reported.iter().filter(|error| !expected.contains_key(&error.line)) {
        let _ = writeln!(problems, "{name}:{}: not expected: {:#?}", error.line, error.parts);
    }
}

/// Whether a part of the error is of this kind and contains this text.
fn says(error: &Reported, expected: &str) -> bool {
    let (kind, text) = expected.split_once(": ").unwrap_or((expected, ""));
    let mut parts = error.parts.iter().filter_map(|part| part.split_once(": "));
    parts.any(|(other, message)| other == kind && message.contains(text))
}

/// Removes all expectations from a program.
fn strip(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let kept = text.lines().filter(|line| !line.trim().starts_with(MARK.trim_end()));
    fs::write(path, kept.fold(String::new(), |text, line| text + line + "\n")).unwrap();
}

/// Writes the first error of each line below that line.
fn annotate(path: &Path, reported: &[Reported]) {
    let source = fs::read_to_string(path).unwrap();
    let mut text = String::new();
    for (at, line) in source.lines().enumerate() {
        let _ = writeln!(text, "{line}");
        let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
        let Some(first) = reported.iter().find(|error| error.line == at + 1) else { continue };
        let headline = first.parts[0].split_once(": ").unwrap().1;
        let repeats = |part: &&String| !part.ends_with(headline) || part.starts_with("error");
        for part in first.parts.iter().filter(|part| lasting(part)).filter(repeats) {
            wrap(&mut text, &format!("{indent}{MARK}"), part);
        }
    }
    fs::write(path, text).unwrap();
}

/// Whether a part is about the program, and not a detail of the compiler or a place in the crate.
fn lasting(part: &str) -> bool {
    const DETAILS: [&str; 14] = [
        "label: required",
        "label: within",
        "help: the following other types",
        "help: there is a method",
        "note: required",
        "note: requirement",
        "note: method defined",
        "note: associated function defined",
        "note: function defined",
        "note: function requires",
        "note: the struct",
        "note: the lint level",
        "note: if you want to do aliasing",
        "note: for more information",
    ];
    // Closures are named by their place.
    !part.contains("{closure@") && !DETAILS.iter().any(|detail| part.starts_with(detail))
}

/// Writes a part over as many lines as it needs.
fn wrap(text: &mut String, start: &str, part: &str) {
    let mut line = start.to_owned();
    for (at, word) in part.split(' ').enumerate() {
        if at > 0 && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            let _ = writeln!(text, "{line}");
            line = format!("{start}{MORE}{word}");
        } else {
            line += if at > 0 { " " } else { "" };
            line += word;
        }
    }
    let _ = writeln!(text, "{line}");
}
