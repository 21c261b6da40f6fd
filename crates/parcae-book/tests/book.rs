//! The book has no problems, and the checks find planted ones.

use parcae_book::{Book, DOCTESTED, check, check_document, site};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn nothing_is_wrong_with_the_book() {
    let problems = check(&Book::of_this_repository().expect("the book is there"));
    let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
}

#[test]
fn links_of_the_other_documents_lead_somewhere() {
    let book = Book::of_this_repository().expect("the book is there");
    for path in [
        "README.md",
        "HACKING.md",
        "CHANGELOG.md",
        "docs/c.md",
        "docs/glossary.md",
        "docs/traps.md",
    ] {
        let problems = check_document(&book, path).expect("the document is there");
        let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(list.is_empty(), "{}", list.join("\n"));
    }
}

/// mdBook finds the table of contents in the folder that `src` names, from where `book.toml` is.
#[test]
fn mdbook_finds_the_book() {
    let book = Book::of_this_repository().expect("the book is there");
    let folder = book.repository.join(&book.folder);
    let settings = fs::read_to_string(folder.join("book.toml")).expect("settings for mdBook");
    let src = settings.lines().find_map(|line| line.strip_prefix("src = "));
    let src = src.expect("a folder").trim_matches('"');
    assert!(folder.join(src).join("SUMMARY.md").is_file(), "no SUMMARY.md in {src}");
    let target = settings.lines().find_map(|line| line.strip_prefix("build-dir = "));
    assert!(target.is_some_and(|to| to.starts_with("\"../../target/")), "{target:?}: not ignored");
}

#[test]
fn the_snippets_of_every_page_are_tested() {
    let book = Book::of_this_repository().expect("the book is there");
    let pages: Vec<&str> = book.summary.pages().map(|(_, path)| path).collect();
    assert_eq!(DOCTESTED, pages, "left: the list in lib.rs; right: SUMMARY.md");
}

/// A folder that is gone when the test is.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("book/part")).expect("a folder");
        Folder(path)
    }

    fn with(self, file: &str, text: &str) -> Folder {
        fs::write(self.0.join(file), text).expect("a file");
        self
    }

    fn book(&self) -> Book {
        Book::load(&self.0, "book").expect("a book")
    }

    /// The problems, without line numbers.
    fn problems(&self) -> Vec<String> {
        check(&self.book())
            .into_iter()
            .map(|problem| format!("{}: {}", problem.page, problem.what))
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A book of one page.
fn one(name: &str, page: &str) -> Folder {
    Folder::new(name).with("book/SUMMARY.md", "# Summary\n\n[A](a.md)\n").with("book/a.md", page)
}

#[test]
fn a_good_page_is_good() {
    let page =
        "# A\n\n## Part\n\n[here](#part) [out](../NOTES.md#notes)\n\n```rust\nlet a = 1;\n```\n";
    let book = one("good", page).with("NOTES.md", "# Notes\n");
    assert_eq!(book.problems(), [""; 0]);
}

#[test]
fn a_page_that_is_not_listed_is_found() {
    let book = one("unlisted", "# A\n").with("book/part/b.md", "# B\n");
    assert_eq!(book.problems(), ["part/b.md: not in SUMMARY.md"]);
}

#[test]
fn a_page_that_is_missing_or_listed_twice_is_found() {
    let book = one("missing", "# A\n")
        .with("book/SUMMARY.md", "# Summary\n\n[A](a.md)\n[A](a.md)\n[B](b.md)\n");
    assert_eq!(
        book.problems(),
        ["SUMMARY.md: a.md is there twice", "SUMMARY.md: there is no b.md"]
    );
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let page =
        "# A\n\n[1](b.md) [2](#none) [3](../../x) [4](../NOTES.md#none) [5](http://a.b) [6](..)\n";
    let problems = one("links", page).with("NOTES.md", "# Notes\n").problems();
    let expected = [
        "a.md: b.md leads to book/b.md, which is no file",
        "a.md: #none: there is no section `none` in book/a.md",
        "a.md: ../../x leads out of the repository",
        "a.md: ../NOTES.md#none: there is no section `none` in NOTES.md",
        "a.md: a link by http: use https",
        "a.md: .. leads to , which is no file",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn links_of_another_document_are_checked_from_where_it_is() {
    let folder = one("document", "# A\n\n## Part\n")
        .with("NOTES.md", "# Notes\n\n[1](book/a.md#part) [2](a.md) [3](#none)\n\n`crates/a.rs`\n");
    let problems = check_document(&folder.book(), "NOTES.md").expect("it is there");
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let expected = [
        "NOTES.md:3: a.md leads to a.md, which is no file",
        "NOTES.md:3: #none: there is no section `none` in NOTES.md",
        "NOTES.md:5: there is no crates/a.rs",
    ];
    assert_eq!(problems, expected);
}

#[test]
fn a_path_that_leads_nowhere_is_found() {
    let page = "# A\n\n`crates/a.rs` `crates/*/b.rs` `docs/c.md --flag` `other/d.rs`\n";
    assert_eq!(
        one("paths", page).problems(),
        ["a.md: there is no crates/a.rs", "a.md: there is no docs/c.md"]
    );
}

#[test]
fn a_page_without_a_title_is_found() {
    assert_eq!(one("untitled", "## Part\n").problems().len(), 1);
    assert_eq!(one("two-titles", "# A\n\n# B\n").problems().len(), 1);
}

#[test]
fn code_that_nobody_tests_is_found() {
    let wrong = |name, code: &str| {
        let problems = one(name, &format!("# A\n\n{code}")).problems();
        assert_eq!(problems.len(), 1, "{code}: {problems:?}");
    };
    wrong("language", "```\nno language\n```\n");
    wrong("ignored", "```rust,ignore\n```\n");
    wrong("no-run", "```rust,no_run\nloop {}\n```\n");
    wrong("indented", "- a\n\n  ```text\n  in a list\n  ```\n");
    wrong("output", "```rust\nlet a = 1;\n```\n\n```output\n1\n```\n");
    let reason = "# A\n\n```rust,no_run\n// Not run: it never ends.\nloop {}\n```\n";
    assert_eq!(one("reason", reason).problems(), [""; 0]);
}

#[test]
fn the_site_has_pages_sources_and_links_between_them() {
    let page = "# A & B\n\n[b](part/b.md#sub-part) [code](../code.rs) [notes](../NOTES.md) ![plot](../plot.svg)\n\n```rust\n# hidden();\nfn a() {}\n```\n";
    let folder = one("site", page)
        .with("book/part/b.md", "# B\n\n## Sub part\n\n[back](../a.md)\n")
        .with("book/SUMMARY.md", "# Summary\n\n[A](a.md)\n\n# Part\n\n- [B](part/b.md)\n")
        .with("code.rs", "fn main() {}\n")
        .with("plot.svg", "<svg></svg>\n")
        .with("NOTES.md", "# Notes\n\n[code](code.rs) [unknown](other.rs) [page](book/a.md)\n");
    let out = folder.0.join("out");
    assert_eq!(site::build(&folder.book(), &out).expect("written"), 4);
    let read = |name: &str| {
        fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let a = read("a.html");
    for expected in [
        "<title>A &amp; B · Parcae</title>",
        "href=\"part/b.html#sub-part\"",
        "href=\"source/code.rs.html\"",
        "href=\"source/NOTES.md.html\"",
        "src=\"source/plot.svg\"",
        "<span class=\"keyword\">fn</span>",
        "<a class=\"after\" href=\"part/b.html\">B →</a>",
    ] {
        assert!(a.contains(expected), "no {expected} in\n{a}");
    }
    assert!(!a.contains("hidden"), "{a}");
    let b = read("part/b.html");
    for expected in
        ["<h2 id=\"sub-part\">", "href=\"../a.html\"", "href=\"../style.css\"", "aria-current"]
    {
        assert!(b.contains(expected), "no {expected} in\n{b}");
    }
    let notes = read("source/NOTES.md.html");
    for expected in ["href=\"../source/code.rs.html\"", "href=\"../a.html\""] {
        assert!(notes.contains(expected), "no {expected} in\n{notes}");
    }
    assert!(!notes.contains("other.rs"), "a link to what is not part of the site: {notes}");
    assert_eq!(read("source/plot.svg"), "<svg></svg>\n");
    assert!(read("source/code.rs.html").contains("main"));
    assert!(read("style.css").contains("body"));
}

/// All values of an attribute in a page.
fn values<'p>(page: &'p str, attribute: &str) -> Vec<&'p str> {
    let start = format!(" {attribute}=\"");
    page.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_link_of_the_real_site_leads_somewhere() {
    let folder = Folder::new("real-site");
    let out = folder.0.join("out");
    site::build(&Book::of_this_repository().expect("the book is there"), &out).expect("written");
    let mut folders = vec![out];
    let mut links = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("a page");
            for link in values(&text, "href").into_iter().filter(|link| !link.contains("://")) {
                links += 1;
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = if file.is_empty() { path.clone() } else { folder.join(file) };
                let there = fs::read_to_string(&target);
                let there =
                    there.unwrap_or_else(|error| panic!("{}: {link}: {error}", path.display()));
                let known = anchor.is_empty() || values(&there, "id").contains(&anchor);
                assert!(known, "{}: no section {anchor} in {}", path.display(), target.display());
            }
        }
    }
    assert!(links > 1_000, "only {links} links: each page has all of the contents");
}
