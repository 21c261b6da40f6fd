//! The book as a static site.
//!
//! Every page becomes a file beside one stylesheet. Links to pages become links to those files.
//! Files of the repository that pages link to, mostly sources, are rendered below `source/`, and
//! images are copied there: the site is complete, and can be read without a network.

use crate::Book;
use crate::highlight::{escape, rust};
use crate::page::{Anchors, MARKDOWN, resolve};
use crate::summary::Entry;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Parser, Tag, TagEnd, html};
use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

const STYLE: &str = include_str!("style.css");

/// Renders a book into a folder, and returns the number of pages and sources.
///
/// # Errors
///
/// If a file cannot be read or written.
pub fn build(book: &Book, out: &Path) -> io::Result<usize> {
    let mut sources = BTreeSet::new();
    let mut files = 0;
    write(out, "style.css", STYLE)?;
    for page in book.pages.values() {
        let from = format!("{}/{}", book.folder, page.path);
        let body =
            markdown(&page.text, |to| book.target(&from, to, &page.path, Some(&mut sources)));
        write(out, &html_name(&page.path), &book.frame(&page.path, &page.headings[0].text, &body))?;
        files += 1;
    }
    let rendered = sources.clone();
    for path in rendered {
        if is_image(&path) {
            write(
                out,
                &format!("source/{path}"),
                &fs::read_to_string(book.repository.join(&path))?,
            )?;
            continue;
        }
        let text = fs::read_to_string(book.repository.join(&path))?;
        let here = format!("source/{path}");
        let body = if path.ends_with(".md") {
            markdown(&text, |to| {
                let target = book.target(&path, to, &here, None)?;
                let known = target.1.is_none_or(|source| sources.contains(&source));
                known.then_some((target.0, None))
            })
        } else {
            let code = if path.ends_with(".rs") { rust(&text) } else { escape(&text) };
            format!("<h1>{}</h1>\n<pre class=\"file\"><code>{code}</code></pre>\n", escape(&path))
        };
        write(out, &format!("{here}.html"), &book.frame(&format!("{here}.md"), &path, &body))?;
        files += 1;
    }
    Ok(files)
}

fn write(out: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = out.join(name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

/// Whether a file is copied as it is. Images are text: SVG.
fn is_image(path: &str) -> bool {
    path.ends_with(".svg")
}

/// The file that a page of the book becomes.
fn html_name(page: &str) -> String {
    format!("{}.html", page.strip_suffix(".md").unwrap_or(page))
}

/// The way from a file up to the root of the site.
fn up(here: &str) -> String {
    "../".repeat(here.matches('/').count())
}

/// The target of a link in the site, and the file of the repository that the site needs for it.
type Target = (String, Option<String>);

impl Book {
    /// The target, from the page `here` of the site, of a link `to` in the file `from` of the
    /// repository. None if the site has no such target.
    fn target(
        &self,
        from: &str,
        to: &str,
        here: &str,
        sources: Option<&mut BTreeSet<String>>,
    ) -> Option<Target> {
        if to.contains("://") {
            return Some((to.into(), None));
        }
        let (path, anchor) = resolve(from, to)?;
        let anchor = anchor.map_or(String::new(), |anchor| format!("#{anchor}"));
        let prefix = format!("{}/", self.folder);
        if let Some(page) = path.strip_prefix(&prefix).filter(|page| self.pages.contains_key(*page))
        {
            return Some((format!("{}{}{anchor}", up(here), html_name(page)), None));
        }
        if let Some(sources) = sources {
            sources.insert(path.clone());
        }
        let suffix = if is_image(&path) { "" } else { ".html" };
        Some((format!("{}source/{path}{suffix}{anchor}", up(here)), Some(path)))
    }

    /// A page with its navigation.
    fn frame(&self, here: &str, title: &str, body: &str) -> String {
        let up = up(here);
        let mut contents = String::new();
        for entry in &self.summary.entries {
            match entry {
                Entry::Part(title) => contents.push_str(&format!("<h2>{}</h2>\n", escape(title))),
                Entry::Page { title, path, .. } => {
                    let current = if path == here { " aria-current=\"page\"" } else { "" };
                    let (href, title) = (html_name(path), escape(title));
                    contents.push_str(&format!("<a href=\"{up}{href}\"{current}>{title}</a>\n"));
                }
            }
        }
        let [before, after] = self.summary.neighbours(here);
        let step = |page: Option<(&str, &str)>, class, arrow: [&str; 2]| {
            page.map_or(String::new(), |(title, path)| {
                let (href, [left, right], title) = (html_name(path), arrow, escape(title));
                format!("<a class=\"{class}\" href=\"{up}{href}\">{left}{title}{right}</a>\n")
            })
        };
        let (before, after) =
            (step(before, "before", ["← ", ""]), step(after, "after", ["", " →"]));
        let title = escape(title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title} · Parcae</title>\n\
             <link rel=\"stylesheet\" href=\"{up}style.css\">\n</head>\n<body>\n\
             <nav aria-label=\"Contents\">\n{contents}</nav>\n<main>\n{body}\
             <footer>\n{before}{after}</footer>\n</main>\n</body>\n</html>\n"
        )
    }
}

/// Markdown as HTML, with anchors at its headings and its links mapped by `target`.
fn markdown(text: &str, mut target: impl FnMut(&str) -> Option<Target>) -> String {
    let mut anchors = Anchors::default();
    let mut events = Vec::new();
    let mut parser = Parser::new_ext(text, MARKDOWN);
    let mut dead = 0; // open links without a target
    while let Some(event) = parser.next() {
        match event {
            Event::Start(Tag::Heading { level, id: _, classes, attrs }) => {
                let inner: Vec<_> = parser
                    .by_ref()
                    .take_while(|e| !matches!(e, Event::End(TagEnd::Heading(_))))
                    .collect();
                let words = inner.iter().filter_map(|event| match event {
                    Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
                    _ => None,
                });
                let id = Some(CowStr::from(anchors.next(&words.collect::<String>())));
                events.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
                events.extend(inner);
                events.push(Event::End(TagEnd::Heading(level)));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                let block: String = parser
                    .by_ref()
                    .take_while(|event| !matches!(event, Event::End(TagEnd::CodeBlock)))
                    .filter_map(|event| {
                        if let Event::Text(text) = event { Some(text.into_string()) } else { None }
                    })
                    .collect();
                let language = info.split(',').next().unwrap_or_default();
                events.push(Event::Html(shown(language, &block).into()));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match target(&dest_url) {
                Some((to, _)) => {
                    events.push(Event::Start(Tag::Link {
                        link_type,
                        dest_url: to.into(),
                        title,
                        id,
                    }));
                }
                None => dead += 1,
            },
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let dest_url = target(&dest_url).map_or(dest_url, |(to, _)| to.into());
                events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            Event::End(TagEnd::Link) if dead > 0 => dead -= 1,
            other => events.push(other),
        }
    }
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter());
    out
}

/// A block of code without hidden lines.
fn shown(language: &str, block: &str) -> String {
    let code = match language {
        "rust" => {
            let visible = |line: &&str| !line.starts_with("# ") && *line != "#";
            let lines: Vec<&str> = block.lines().filter(visible).collect();
            rust(&format!("{}\n", lines.join("\n")))
        }
        _ => escape(block),
    };
    format!("<pre class=\"{}\"><code>{code}</code></pre>\n", escape(language))
}
