//! The comments of the workspace keep four rules of the house, which no lint of the compiler
//! checks:
//!
//! 1. A line with a comment has at most 100 columns. Rows of tables and links cannot be wrapped and
//!    do not count.
//! 2. An atomic access has a comment. Unless it is `Relaxed`, the comment names the partner: a name
//!    in backticks, a fence, a lock.
//! 3. An `unsafe fn` has a `# Safety` section, private functions included.
//! 4. A clause is not a noun: no "whoever", no sentence that begins with "What".
//!
//! Each rule has a list of allowed exceptions, by folder. All lists are empty, and should stay so.
//! A count above its entry fails the test; one below it is printed, for its entry to be lowered.
//!
//! `cargo test -p parcae --test sources prose -- --nocapture` prints every exception with its line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines with a comment and more than 100 columns, by folder.
const LONG: &[(&str, usize)] = &[];

/// Atomic accesses without an explanation, by folder of `crates/parcae/src`.
const UNEXPLAINED: &[(&str, usize)] = &[];

/// Unsafe functions without a `# Safety` section, by folder.
const NO_SAFETY: &[(&str, usize)] = &[];

/// Clauses in place of nouns, by folder.
const CLAUSES: &[(&str, usize)] = &[];

/// Phrases that name nothing: the comment should say waiter, caller, thread, owner or task.
const PHRASES: [&str; 14] = [
    "whoever",
    "whomever",
    "whom",
    "somebody",
    "someone",
    "anybody",
    "nobody",
    "everybody",
    "those who",
    "one who",
    "who waits",
    "who gets",
    "what it belongs to",
    "how manyth",
];

const COLUMNS: usize = 100;

/// A Rust file of the workspace, split into code and comments.
struct Source {
    /// Relative to the workspace, with slashes.
    path: String,
    lines: Vec<Line>,
}

struct Line {
    code: String,
    comment: Option<String>,
    columns: usize,
}

impl Line {
    fn is_blank(&self) -> bool {
        self.code.trim().is_empty() && self.comment.is_none()
    }

    fn is_comment(&self) -> bool {
        self.code.trim().is_empty() && self.comment.is_some()
    }

    /// The comment without its slashes and their mark.
    fn words(&self) -> &str {
        self.comment.as_deref().map_or("", |text| text.trim_start_matches(['/', '!', ' ']))
    }
}

impl Source {
    fn read(root: &Path, path: &Path) -> Source {
        let text = fs::read_to_string(path).unwrap();
        let path = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
        Source { path, lines: split(&text) }
    }

    /// Tests and models: atomic accesses there need no partner.
    fn is_test(&self) -> bool {
        let path = self.path.trim_end_matches(".rs");
        path.split('/').any(|part| matches!(part, "tests" | "models"))
    }

    /// The unit that an exception is counted for: a storey of the library, or a folder of a crate.
    fn folder(&self) -> String {
        let depth = if self.path.starts_with("crates/parcae/src/") { 4 } else { 3 };
        let parts: Vec<&str> = self.path.split('/').collect();
        parts[..depth.min(parts.len() - 1)].join("/")
    }
}

/// Separates code from comments. Knows strings, raw strings and characters, so that slashes inside
/// of them start no comment; a string that spans lines stays a string.
fn split(text: &str) -> Vec<Line> {
    let mut until: Option<String> = None; // the end of the string that the line begins in
    let mut lines = Vec::new();
    for line in text.lines() {
        let (mut code, mut rest, mut comment) = (String::new(), line, None);
        while !rest.is_empty() {
            if let Some(end) = &until {
                let escaped = end == "\"" && rest.starts_with('\\');
                let step = if escaped { 2 } else { 1 };
                if rest.starts_with(end.as_str()) {
                    rest = &rest[end.len()..];
                    until = None;
                } else {
                    rest = rest.char_indices().nth(step).map_or("", |(at, _)| &rest[at..]);
                }
                continue;
            }
            if rest.starts_with("//") {
                comment = Some(rest.to_owned());
                break;
            }
            let hashes = rest.strip_prefix('r').map(|r| r.len() - r.trim_start_matches('#').len());
            let raw = hashes.filter(|n| rest[1 + n..].starts_with('"') && !ends_in_name(&code));
            if let Some(n) = raw {
                until = Some(format!("\"{}", "#".repeat(n)));
                rest = &rest[n + 2..];
            } else if let Some(after) = rest.strip_prefix('"') {
                until = Some("\"".to_owned());
                code.push('"');
                rest = after;
            } else if rest.starts_with("'\"'") {
                rest = &rest[3..];
            } else {
                let c = rest.chars().next().unwrap();
                code.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        lines.push(Line { code, comment, columns: line.chars().count() });
    }
    lines
}

fn ends_in_name(code: &str) -> bool {
    code.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap();
    let mut files = Vec::new();
    collect(&root.join("crates"), &mut files);
    files.sort();
    files.iter().map(|path| Source::read(root, path)).collect()
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

/// An exception to a rule: the unit that it counts for, and what to print about it.
struct Found {
    unit: String,
    place: String,
}

/// Compares the exceptions with the list of those that are allowed.
#[track_caller]
fn check(rule: &str, found: &[Found], allowed: &[(&str, usize)]) {
    let mut counts: BTreeMap<&str, usize> = allowed.iter().map(|(unit, _)| (*unit, 0)).collect();
    for Found { unit, place } in found {
        println!("{place}");
        *counts.entry(unit).or_default() += 1;
    }
    println!("{rule}: {}", found.len());
    let allowed: BTreeMap<&str, usize> = allowed.iter().copied().collect();
    let (mut more, mut fewer) = (String::new(), String::new());
    for (unit, now) in counts {
        let most = allowed.get(unit).copied().unwrap_or(0);
        let list = if now > most { &mut more } else { &mut fewer };
        if now != most {
            *list += &format!("\n    (\"{unit}\", {now}), // listed: {most}");
        }
    }
    if !fewer.is_empty() {
        println!("{rule}: lower these entries:{fewer}");
    }
    assert!(more.is_empty(), "{rule}: more than before, see the lines above:{more}");
}

#[test]
fn comments_end_at_column_100() {
    let mut found = Vec::new();
    for source in sources() {
        for (at, line) in source.lines.iter().enumerate() {
            let words = line.words();
            let fixed = words.starts_with('|') || words.contains("://");
            if line.comment.is_some() && line.columns > COLUMNS && !fixed {
                let place = format!("{}:{}: {} columns", source.path, at + 1, line.columns);
                found.push(Found { unit: source.folder(), place });
            }
        }
    }
    check("long comment lines", &found, LONG);
}

/// The part of a file before its tests and its forms for the model checker.
fn without_tests(lines: &[Line]) -> &[Line] {
    let starts = ["#[cfg(test", "#[cfg(all(test", "#[cfg(loom", "#[cfg(all(loom"];
    let module = |at: &usize| {
        let line = lines[*at].code.as_str(); // at the margin: an item of the file
        let next = lines.get(at + 1).map_or("", |line| line.code.as_str());
        starts.iter().any(|start| line.starts_with(start))
            && (next.starts_with("mod ") || next.starts_with("pub(crate) mod "))
            && next.ends_with('{')
    };
    let end = (0..lines.len()).find(module).unwrap_or(lines.len());
    &lines[..end]
}

const ACCESSES: [&str; 6] =
    [".load(", ".store(", ".swap(", ".fetch_", ".compare_exchange", "fence("];
const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// The lines of the statement around a line. Statements are laid out by rustfmt.
fn statement(lines: &[Line], at: usize) -> std::ops::RangeInclusive<usize> {
    let ends = |line: &Line| {
        let code = line.code.trim_end();
        line.is_blank() || line.is_comment() || code.ends_with([';', '{', '}', ','])
    };
    let continues = |line: &Line| line.code.trim_start().starts_with(['.', ')', '&', '|', '}']);
    let mut first = at;
    while first > 0 && (!ends(&lines[first - 1]) || continues(&lines[first])) {
        first -= 1;
    }
    let open = |last: usize| {
        let code: String = lines[at..=last].iter().map(|line| line.code.as_str()).collect();
        code.matches('(').count() > code.matches(')').count()
    };
    let mut last = at;
    while last + 1 < lines.len() && (open(last) || !ends(&lines[last])) {
        last += 1;
    }
    first..=last
}

/// The comments of a statement: those on its lines, the block just above it, and the documentation
/// of a function that it begins. Statements that follow each other share the block above the first.
fn explanation(lines: &[Line], at: usize) -> String {
    let around = statement(lines, at);
    let mut text: String = lines[around.clone()].iter().map(Line::words).collect();
    let mut above = *around.start();
    while above > 0 && is_access(&lines[above - 1].code) {
        above = *statement(lines, above - 1).start();
        text.extend(lines[above..*around.start()].iter().map(Line::words));
    }
    if above > 0 && lines[above - 1].code.trim_end().ends_with('{') {
        let head = (0..above).rev().take(8).find(|&line| is_function(&lines[line].code));
        above = head.unwrap_or(above);
        while above > 0 && lines[above - 1].code.trim_start().starts_with("#[") {
            above -= 1;
        }
    }
    while above > 0 && lines[above - 1].is_comment() {
        above -= 1;
        text.insert(0, ' ');
        text.insert_str(0, lines[above].words());
    }
    text
}

fn is_function(code: &str) -> bool {
    code.trim_start().starts_with("fn ") || code.contains(" fn ")
}

fn is_access(code: &str) -> bool {
    ACCESSES.iter().any(|access| code.contains(access))
}

#[test]
fn atomic_accesses_are_explained() {
    let mut found = Vec::new();
    for source in sources() {
        if !source.path.starts_with("crates/parcae/src/") || source.is_test() {
            continue;
        }
        let lines = without_tests(&source.lines);
        for (at, line) in lines.iter().enumerate() {
            if !is_access(&line.code) {
                continue;
            }
            let around = statement(lines, at);
            let code: String = lines[around].iter().map(|line| line.code.as_str()).collect();
            let orderings: Vec<_> = ORDERINGS.iter().filter(|o| code.contains(**o)).collect();
            if orderings.is_empty() {
                continue; // an ordering is named, or this is another `load`
            }
            let text = explanation(lines, at);
            let relaxed = orderings == [&"Relaxed"];
            let partner = ["`", "fence", "lock", "CAS", "itself"];
            let named = partner.iter().any(|word| text.contains(word));
            if text.is_empty() || !(relaxed || named) {
                let place = format!("{}:{}: {}", source.path, at + 1, line.code.trim());
                found.push(Found { unit: source.folder(), place });
            }
        }
    }
    check("atomic accesses without explanation", &found, UNEXPLAINED);
}

/// Whether a line is in the implementation of a trait, which has the documentation.
fn implements_a_trait(lines: &[Line], at: usize) -> bool {
    let indent = |line: &Line| line.code.len() - line.code.trim_start().len();
    let own = indent(&lines[at]);
    let head = lines[..at].iter().rev().find(|line| {
        !line.code.trim().is_empty() && indent(line) < own && line.code.contains("impl")
    });
    head.is_some_and(|line| line.code.contains(" for "))
}

#[test]
fn unsafe_functions_state_their_contract() {
    let mut found = Vec::new();
    for source in sources() {
        for (at, line) in source.lines.iter().enumerate() {
            let code = line.code.trim_start();
            // The name of the interface is a string, which the code is without.
            let names = ["unsafe fn ", "unsafe extern \" fn "];
            let declared = names.iter().any(|name| code.contains(name));
            if !declared || source.is_test() || implements_a_trait(&source.lines, at) {
                continue;
            }
            let mut above = at;
            while above > 0 {
                let line = &source.lines[above - 1];
                let attribute = line.code.trim_start().starts_with(['#', ')', ']']);
                if !(line.is_comment() || attribute) {
                    break;
                }
                above -= 1;
            }
            let comments = &source.lines[above..at];
            if !comments.iter().any(|line| line.words().starts_with("# Safety")) {
                let place = format!("{}:{}: {code}", source.path, at + 1);
                found.push(Found { unit: source.folder(), place });
            }
        }
    }
    check("unsafe functions without a contract", &found, NO_SAFETY);
}

/// Sentences of a comment that begin with a question word and ask nothing.
fn starts_with_clause(words: &str, before: &str) -> bool {
    let begins = before.is_empty() || before.ends_with(['.', ':', '!', '?']);
    let question = words.split(['.', '!']).next().unwrap().contains('?');
    let clause = ["What ", "Who ", "Whom ", "Whose "].iter().any(|word| words.starts_with(word));
    begins && clause && !question
}

#[test]
fn clauses_are_not_nouns() {
    let mut found = Vec::new();
    for source in sources() {
        if source.path.ends_with("tests/sources/prose.rs") {
            continue; // lists them
        }
        let mut before = "";
        let mut in_example = false;
        for (at, line) in source.lines.iter().enumerate() {
            let words = line.words();
            if !line.is_comment() {
                before = "";
                in_example = false;
            }
            in_example ^= words.starts_with("```");
            let lower = words.to_lowercase();
            let letters = |c: char| c.is_alphanumeric() || c == '\'';
            let phrase = PHRASES.iter().find(|phrase| {
                lower.match_indices(**phrase).any(|(at, _)| {
                    let after = &lower[at + phrase.len()..];
                    !lower[..at].ends_with(letters) && !after.starts_with(letters)
                })
            });
            let clause = !in_example && starts_with_clause(words, before);
            let inner = words
                .match_indices(". ")
                .find(|(at, _)| !in_example && starts_with_clause(&words[at + 2..], "."));
            for _ in 0..usize::from(phrase.is_some()) + usize::from(clause || inner.is_some()) {
                let place = format!("{}:{}: {words}", source.path, at + 1);
                found.push(Found { unit: source.folder(), place });
            }
            before = words.trim_end();
        }
    }
    check("clauses in place of nouns", &found, CLAUSES);
}

#[test]
fn code_and_comments_are_told_apart() {
    let lines = split(concat!(
        "let a = \"//\"; // \"one\"\n",
        "let b = r#\"a \" // \"#; // two\n",
        "let c = '\"'; // three\n",
        "let d = \"begins\n",
        "// goes on\\\" // \";\n",
        "for_raw(r, \"x\") // four\n",
    ));
    let comments: Vec<&str> = lines.iter().map(Line::words).collect();
    assert_eq!(comments, ["\"one\"", "two", "three", "", "", "four"]);
}

#[test]
fn an_explanation_stands_at_the_statement() {
    let lines = split(concat!(
        "fn a() {\n",
        "    // above\n",
        "    x.load(Relaxed);\n",
        "    y.load(Relaxed);\n",
        "\n",
        "    z.load(Relaxed);\n",
        "    if a\n",
        "        .load(Relaxed) // beside\n",
        "        .is_empty()\n",
        "    {}\n",
        "}\n",
        "/// Documented.\n",
        "#[inline]\n",
        "fn b() -> u8 {\n",
        "    c.load(Relaxed)\n",
        "}\n",
    ));
    let texts: Vec<String> = [2, 3, 5, 7, 14].map(|at| explanation(&lines, at)).into();
    assert_eq!(
        texts.iter().map(|text| text.trim()).collect::<Vec<_>>(),
        ["above", "above", "", "beside", "Documented."]
    );
}
