//! A scanner that finds statics in Rust sources, and the types that they reach.
//!
//! It reads tokens, not lines: comments, strings and lifetimes are left out, a type may go over
//! several lines and have any generics. A static *reaches* a name if its type has it, or has the
//! name of a struct, enum, union or alias whose definition reaches it. A name is that of a type of
//! the same file, or else, if the file imports it from its own crate or writes its path, that of
//! any type of the sources which is called so: the scanner errs on the side of reporting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One `static` item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Static {
    pub(crate) file: String,
    pub(crate) name: String,
    /// All identifiers of its type.
    pub(crate) names: Vec<String>,
}

/// Facts about a set of sources.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) statics: Vec<Static>,
    /// By type name: the files that define it, and the identifiers of the definitions there.
    types: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// By file: its imports from the same crate.
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl Sources {
    /// All Rust files below a folder, but tests and models.
    pub(crate) fn of_library(root: &Path) -> Sources {
        let mut sources = Sources::default();
        for file in files(root) {
            let name = file.strip_prefix(root).unwrap().display().to_string();
            sources.read(&name, &std::fs::read_to_string(&file).unwrap());
        }
        sources
    }

    /// Adds a file.
    pub(crate) fn read(&mut self, file: &str, text: &str) {
        let tokens = tokens(text);
        for at in 0..tokens.len() {
            match tokens[at].as_str() {
                "static" => self.statics.extend(static_at(file, &tokens, at)),
                "struct" | "enum" | "union" | "type" => {
                    if let Some((name, names)) = definition_at(&tokens, at) {
                        let files = self.types.entry(name).or_default();
                        files.entry(file.into()).or_default().extend(names);
                    }
                }
                "crate" | "super" => {
                    let path = tokens[at..].iter().take_while(|token| !ends_path(token));
                    let names = path.filter(|token| is_identifier(token)).cloned();
                    self.imports.entry(file.into()).or_default().extend(names);
                }
                _ => {}
            }
        }
    }

    /// How a static comes to hold one of the names: the types on the way, the name last.
    pub(crate) fn reaches(&self, found: &Static, names: &[&str]) -> Option<Vec<String>> {
        let mut seen = BTreeSet::new();
        let start = |name: &String| (found.file.clone(), vec![name.clone()]);
        let mut ways: Vec<(String, Vec<String>)> = found.names.iter().map(start).collect();
        while let Some((file, way)) = ways.pop() {
            let last = way.last().unwrap();
            if names.contains(&last.as_str()) {
                return Some(way);
            }
            for (place, names) in self.definitions(&file, last) {
                if seen.insert((place, last.clone())) {
                    let next =
                        |name: &String| [way.as_slice(), std::slice::from_ref(name)].concat();
                    ways.extend(names.iter().map(|name| (place.clone(), next(name))));
                }
            }
        }
        None
    }

    /// The possible meanings of a name in a file.
    fn definitions(&self, file: &str, name: &str) -> Vec<(&String, &BTreeSet<String>)> {
        let Some(files) = self.types.get(name) else { return Vec::new() };
        if let Some(here) = files.get_key_value(file) {
            return vec![here];
        }
        let imported = self.imports.get(file).is_some_and(|names| names.contains(name));
        if imported { files.iter().collect() } else { Vec::new() }
    }
}

/// Whether this is no part of a path, nor of a list of them.
fn ends_path(token: &str) -> bool {
    !(is_identifier(token) || matches!(token, "::" | "{" | "}" | "," | "*"))
        || matches!(token, "fn" | "impl" | "struct" | "enum" | "mod" | "pub" | "let")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if stem == "tests" || stem == "models" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Identifiers, and every other character by itself; but `->`, `=>` and `::` are one token each.
/// Comments, strings, characters and lifetimes are left out.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        match (at(i), at(i + 1)) {
            ('/', '/') => {
                while i < chars.len() && at(i) != '\n' {
                    i += 1;
                }
            }
            ('/', '*') => i = after_comment(&chars, i + 2),
            ('"', _) => i = after_string(&chars, i + 1),
            ('r' | 'b' | 'c', _) if raw_string(&chars, i).is_some() => {
                i = raw_string(&chars, i).unwrap();
            }
            ('b' | 'c', '"') => i = after_string(&chars, i + 2),
            // A character, or a lifetime.
            ('\'', '\\') => {
                i += 3;
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            ('\'', _) if at(i + 2) == '\'' => i += 3,
            ('\'', _) => {
                i += 1;
                while is_name(at(i)) {
                    i += 1;
                }
            }
            (c, _) if is_name(c) => {
                let start = i;
                while is_name(at(i)) {
                    i += 1;
                }
                found.push(chars[start..i].iter().collect());
            }
            (a @ ('-' | '='), '>') | (a @ ':', ':') => {
                found.push([a, at(i + 1)].iter().collect());
                i += 2;
            }
            (c, _) => {
                if !c.is_whitespace() {
                    found.push(c.into());
                }
                i += 1;
            }
        }
    }
    found
}

/// Behind a block comment, which may have others inside.
fn after_comment(chars: &[char], mut i: usize) -> usize {
    let mut depth = 1;
    while i < chars.len() && depth > 0 {
        match chars[i..].get(..2) {
            Some(['/', '*']) => (depth, i) = (depth + 1, i + 2),
            Some(['*', '/']) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    i
}

/// Behind the closing quote.
fn after_string(chars: &[char], mut i: usize) -> usize {
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// Behind a raw string that begins here, if one does.
fn raw_string(chars: &[char], start: usize) -> Option<usize> {
    if start > 0 && (chars[start - 1].is_alphanumeric() || chars[start - 1] == '_') {
        return None;
    }
    let mut i = start;
    if matches!(chars[i], 'b' | 'c') {
        i += 1;
    }
    if chars.get(i) != Some(&'r') {
        return None;
    }
    i += 1;
    let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
    i += hashes;
    if chars.get(i) != Some(&'"') {
        return None;
    }
    i += 1;
    while i < chars.len() {
        let closes = chars[i] == '"' && chars[i + 1..].iter().take(hashes).all(|c| *c == '#');
        i += 1;
        if closes {
            return Some(i + hashes);
        }
    }
    Some(i)
}

fn is_identifier(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn static_at(file: &str, tokens: &[String], at: usize) -> Option<Static> {
    let mut next = at + 1;
    if tokens.get(next).is_some_and(|token| token == "mut") {
        next += 1;
    }
    // Not a closure (`static || …`), which is no item.
    let name = tokens.get(next).filter(|token| is_identifier(token))?;
    if tokens.get(next + 1)? != ":" {
        return None;
    }
    let names = until(&tokens[next + 2..], &["=", ";"]);
    Some(Static { file: file.into(), name: name.clone(), names })
}

/// A type's name, and the identifiers of its definition.
fn definition_at(tokens: &[String], at: usize) -> Option<(String, Vec<String>)> {
    let name = tokens.get(at + 1).filter(|token| is_identifier(token))?;
    let rest = &tokens[at + 2..];
    // `type` ends with a semicolon, and so do a unit and a tuple struct; others with their braces.
    let mut depth = 0_i32;
    let mut end = 0;
    for token in rest {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        end += 1;
        if depth < 0 || (depth == 0 && (token == ";" || token == "}")) {
            break;
        }
    }
    let names = rest[..end].iter().filter(|token| is_identifier(token)).cloned().collect();
    Some((name.clone(), names))
}

/// The identifiers up to one of these tokens, outside of all brackets.
fn until(tokens: &[String], ends: &[&str]) -> Vec<String> {
    let mut depth = 0_i32;
    let mut names = Vec::new();
    for token in tokens {
        match token.as_str() {
            "<" | "(" | "[" | "{" => depth += 1,
            ">" | ")" | "]" | "}" => depth -= 1,
            end if depth == 0 && ends.contains(&end) => break,
            name if is_identifier(name) => names.push(name.into()),
            _ => {}
        }
    }
    names
}
