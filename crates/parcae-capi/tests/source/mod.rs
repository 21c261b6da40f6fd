//! Reads Rust sources as far as rules about them need it: items, not lines.
//!
//! Comments and literals are blanked first, and what is compiled for tests only is cut, so a rule
//! sees code and nothing else. Code that the reader does not understand is reported by a name that
//! no list has, such as `$name` of a macro.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A static: where, its name (with `mut` if it has that), its type without spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Static {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) ty: String,
    pub(crate) of: Of,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Process,
    Thread,
}

/// The code of a package below `src`, by file, ready to be searched.
pub(crate) fn package(name: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                files.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut files = Vec::new();
    walk(&root, &mut files);
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        (name, code(&std::fs::read_to_string(file).unwrap()))
    };
    files.iter().map(read).collect()
}

/// A text without comments, literals and what is for tests only.
pub(crate) fn code(text: &str) -> String {
    let mut out = without_literals(text);
    while let Some(at) = out.find("#[cfg(test)]") {
        let rest = &out[at..];
        // An item ends with its block, or with a semicolon if that comes first.
        let end = match (rest.find('{'), rest.find(';')) {
            (Some(open), semicolon) if semicolon.is_none_or(|semicolon| open < semicolon) => {
                open + block(&rest[open..]).len()
            }
            (_, semicolon) => semicolon.map_or(rest.len(), |semicolon| semicolon + 1),
        };
        out.replace_range(at..at + end, "");
    }
    out
}

fn without_literals(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (String::new(), 0);
    while at < bytes.len() {
        let next = bytes.get(at + 1).copied();
        match bytes[at] {
            '/' if next == Some('/') => {
                while at < bytes.len() && bytes[at] != '\n' {
                    at += 1;
                }
            }
            '/' if next == Some('*') => {
                let mut depth = 0;
                loop {
                    match (bytes[at], bytes.get(at + 1)) {
                        ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
                        ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
                        _ => at += 1,
                    }
                    if depth == 0 || at + 1 >= bytes.len() {
                        break;
                    }
                }
            }
            '"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != '"' {
                    at += if bytes[at] == '\\' { 2 } else { 1 };
                }
                at += 1;
                out.push_str("\"\"");
            }
            // A character, not a lifetime: closed after one, or after an escape.
            '\'' if next == Some('\\') || bytes.get(at + 2) == Some(&'\'') => {
                at += if next == Some('\\') { 3 } else { 2 };
                while at < bytes.len() && bytes[at] != '\'' {
                    at += 1;
                }
                at += 1;
                out.push_str("' '");
            }
            other => {
                out.push(other);
                at += 1;
            }
        }
    }
    out
}

/// From an opening brace to the one that closes it, with both.
fn block(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..=at];
        }
    }
    text
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// Where a word stands by itself.
fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(|c| is_word(c) || c == '\'') && !after.is_some_and(is_word)
    })
}

/// Up to the first of these characters that is in no brackets.
fn until<'t>(text: &'t str, stops: &[char]) -> &'t str {
    let mut depth = 0;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if depth == 0 && stops.contains(&c) {
            return &text[..at];
        }
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' => {} // an arrow
            '>' | ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        before = c;
    }
    text
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// All statics of a file.
pub(crate) fn statics(file: &str, code: &str) -> Vec<Static> {
    let locals: Vec<std::ops::Range<usize>> = words(code, "thread_local")
        .map(|at| {
            let open = at + code[at..].find('{').unwrap_or(0);
            open..open + block(&code[open..]).len()
        })
        .collect();
    let found = words(code, "static").filter_map(|at| {
        let rest = code[at + "static".len()..].trim_start();
        let (head, rest) = rest.split_once(':')?;
        let name = head.split_whitespace().collect::<Vec<_>>().join(" ");
        // `static` is no other word of the language but for closures, which have no name.
        let of =
            if locals.iter().any(|local| local.contains(&at)) { Of::Thread } else { Of::Process };
        Some(Static { file: file.to_owned(), name, ty: squeezed(until(rest, &['=', ';'])), of })
    });
    found.collect()
}

/// The fields of a structure: names and types without spaces.
pub(crate) fn fields(code: &str, structure: &str) -> Option<Vec<(String, String)>> {
    let at = words(code, structure).find(|&at| code[..at].trim_end().ends_with("struct"))?;
    let rest = code[at + structure.len()..].trim_start();
    let body = block(rest.strip_prefix(until(rest, &['{', ';']))?);
    let mut body = body.strip_prefix('{')?.strip_suffix('}')?;
    let mut fields = Vec::new();
    loop {
        let field = until(body, &[',']);
        if let Some((name, ty)) = field.split_once(':') {
            let name = name.split_whitespace().last()?;
            fields.push((name.to_owned(), squeezed(ty)));
        }
        match body.get(field.len() + 1..) {
            Some(rest) => body = rest,
            None => return Some(fields),
        }
    }
}

/// All paths that begin with a crate or module, as in `root::a::b`; those of `use` are spelled out.
pub(crate) fn paths(code: &str, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for at in words(code, root) {
        // Not the middle of a longer path.
        if !code[..at].ends_with("::") && code[at + root.len()..].starts_with("::") {
            tree(&code[at..], "", &mut found);
        }
    }
    found
}

/// Reads a path, or a tree of paths as in `a::{b, c::d}`.
fn tree(text: &str, before: &str, found: &mut BTreeSet<String>) {
    let text = text.trim_start();
    if text.starts_with('{') {
        let mut body = &block(text)[1..];
        loop {
            let part = until(body, &[',', '}']);
            if !part.trim().is_empty() {
                tree(part, before, found);
            }
            match body[part.len()..].strip_prefix(',') {
                Some(rest) => body = rest,
                None => return,
            }
        }
    }
    let name: String = text.chars().take_while(|&c| is_word(c) || c == '*').collect();
    let path = if before.is_empty() { name.clone() } else { format!("{before}::{name}") };
    match text[name.len()..].strip_prefix("::") {
        // Arguments of a type, not a part of its path.
        Some(rest) if !rest.starts_with('<') => tree(rest, &path, found),
        _ if name == "self" => _ = found.insert(before.to_owned()),
        _ => _ = found.insert(path),
    }
}
