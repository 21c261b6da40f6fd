//! Checks of the book: links, snippets, the table of contents.

use crate::Book;
use crate::fences::Fence;
use crate::page::{Page, resolve};
use crate::summary::Entry;
use std::collections::{BTreeMap, HashSet};
use std::{fmt, fs, io};

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, in the book's folder.
    pub page: String,
    /// The line, from 1.
    pub line: usize,
    /// Its description.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page, self.line, self.what)
    }
}

/// The languages that blocks of code may be in.
const LANGUAGES: &[&str] = &["rust", "c", "sh", "toml", "text", "output", "jan"];

/// Inline code with these prefixes is a path in the repository.
const FOLDERS: &[&str] = &["crates/", "docs/", ".ci/"];

/// All problems of a book, in the order of its files.
pub fn check(book: &Book) -> Vec<Problem> {
    let mut found = Found { book, problems: Vec::new(), documents: BTreeMap::new() };
    found.summary();
    for page in book.pages.values() {
        found.headings(page);
        found.links(page, &format!("{}/{}", book.folder, page.path));
        found.paths(page);
        found.code(page);
    }
    found.problems
}

/// Broken links of another Markdown file of the repository, such as the README, and files that it
/// names and that do not exist.
///
/// # Errors
///
/// If the file cannot be read.
pub fn check_document(book: &Book, path: &str) -> io::Result<Vec<Problem>> {
    let page = Page::parse(path, fs::read_to_string(book.repository.join(path))?);
    let mut found = Found { book, problems: Vec::new(), documents: BTreeMap::new() };
    found.links(&page, path);
    found.paths(&page);
    Ok(found.problems)
}

struct Found<'b> {
    book: &'b Book,
    problems: Vec<Problem>,
    /// Markdown outside of the book that links lead to.
    documents: BTreeMap<String, Option<Page>>,
}

impl Found<'_> {
    fn say(&mut self, page: &str, line: usize, what: impl Into<String>) {
        self.problems.push(Problem { page: page.into(), line, what: what.into() });
    }

    fn summary(&mut self) {
        let book = self.book;
        for &line in &book.summary.strange {
            self.say("SUMMARY.md", line, "neither a part nor a page");
        }
        let mut listed = HashSet::new();
        for entry in &book.summary.entries {
            let Entry::Page { path, line, .. } = entry else { continue };
            if !book.pages.contains_key(path) {
                self.say("SUMMARY.md", *line, format!("there is no {path}"));
            }
            if !listed.insert(path.as_str()) {
                self.say("SUMMARY.md", *line, format!("{path} is there twice"));
            }
        }
        for path in book.pages.keys().filter(|path| !listed.contains(path.as_str())) {
            self.say(path, 1, "not in SUMMARY.md");
        }
    }

    fn headings(&mut self, page: &Page) {
        let first = page.headings.iter().filter(|heading| heading.level == 1).count();
        if first != 1 || page.headings[0].level != 1 {
            self.say(
                &page.path,
                1,
                "a page begins with its title, the one heading of the first level",
            );
        }
    }

    /// `file` is the page's path from the root of the repository.
    fn links(&mut self, page: &Page, file: &str) {
        for link in &page.links {
            let problem = match link.to.split_once(':') {
                Some(("https", _)) => None,
                Some((scheme, _)) => Some(format!("a link by {scheme}: use https")),
                None => self.link(file, &link.to),
            };
            if let Some(what) = problem {
                self.say(&page.path, link.line, what);
            }
        }
    }

    /// Checks a relative link.
    fn link(&mut self, from: &str, to: &str) -> Option<String> {
        let book = self.book;
        let Some((path, anchor)) = resolve(from, to) else {
            return Some(format!("{to} leads out of the repository"));
        };
        let prefix = format!("{}/", book.folder);
        let target = path.strip_prefix(&prefix).and_then(|name| book.pages.get(name));
        if target.is_none() && !book.repository.join(&path).is_file() {
            return Some(format!("{to} leads to {path}, which is no file"));
        }
        let anchor = anchor?;
        let known = match target {
            Some(page) => page.has_anchor(anchor),
            None => self.document(&path).is_some_and(|page| page.has_anchor(anchor)),
        };
        (!known).then(|| format!("{to}: there is no section `{anchor}` in {path}"))
    }

    /// Files of the repository that running text names.
    fn paths(&mut self, page: &Page) {
        for span in &page.spans {
            let path = span.to.split(' ').next().unwrap_or_default();
            let path = path.split("::").next().unwrap_or_default(); // of a test: `file.rs::name`
            let named = FOLDERS.iter().any(|folder| path.starts_with(folder));
            if named && !path.contains('*') && !self.book.repository.join(path).exists() {
                self.say(&page.path, span.line, format!("there is no {path}"));
            }
        }
    }

    /// A Markdown file outside of the book.
    fn document(&mut self, path: &str) -> Option<&Page> {
        let file = self.book.repository.join(path);
        let read = || {
            let text = path.ends_with(".md").then(|| fs::read_to_string(file).ok())??;
            Some(Page::parse(path, text))
        };
        self.documents.entry(path.into()).or_insert_with(read).as_ref()
    }

    fn code(&mut self, page: &Page) {
        if page.fences.len() != page.fenced {
            self.say(
                &page.path,
                1,
                "a fence that does not stand at the beginning of its line, or has no end",
            );
        }
        for (index, fence) in page.fences.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| &page.fences[before]);
            if let Some(what) = wrong_with(fence, before) {
                self.say(&page.path, fence.line, what);
            }
        }
    }
}

/// Checks a block of code.
fn wrong_with(fence: &Fence, before: Option<&Fence>) -> Option<String> {
    let language = fence.language();
    if !LANGUAGES.contains(&language) {
        return Some(format!("code in `{language}`: write one of {}", LANGUAGES.join(", ")));
    }
    if fence.has("ignore") {
        return Some("code that is ignored: let it compile, or call it text".into());
    }
    if fence.has("no_run") && !fence.text.contains("// Not run: ") {
        return Some("code that is not run says why, in a comment: `// Not run: …`".into());
    }
    let main = |fence: &Fence| {
        fence.language() == "rust" && fence.program().contains("fn main() -> parcae::Result<()>")
    };
    if language == "output" && !(fence.follows && before.is_some_and(main)) {
        return Some("output that no program in front of it could have: one with `fn main() -> parcae::Result<()>`".into());
    }
    None
}
