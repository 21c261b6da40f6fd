//! One page: its headings with their anchors, its links, its blocks of code.

use crate::fences::{Fence, fences};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::collections::HashMap;
use std::path::{Component, Path};

/// A page.
#[derive(Debug)]
pub struct Page {
    /// Its path in the book.
    pub path: String,
    /// Its text.
    pub text: String,
    /// In order.
    pub headings: Vec<Heading>,
    /// In order.
    pub links: Vec<Link>,
    /// Code in running text, with its line.
    pub spans: Vec<Link>,
    /// In order.
    pub fences: Vec<Fence>,
    /// How many fenced blocks the Markdown parser sees.
    pub fenced: usize,
}

/// A heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// Without markup.
    pub text: String,
    /// The anchor.
    pub anchor: String,
}

/// A link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// As it is written.
    pub to: String,
    /// The line, from 1.
    pub line: usize,
}

/// The Markdown extensions of the book.
pub(crate) const MARKDOWN: Options = Options::ENABLE_TABLES;

impl Page {
    /// Reads a page.
    pub fn parse(path: &str, text: String) -> Page {
        let (mut headings, mut links, mut spans, mut fenced) = (vec![], vec![], vec![], 0);
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let mut anchors = Anchors::default();
        let mut open: Option<(HeadingLevel, String)> = None;
        for (event, range) in Parser::new_ext(&text, MARKDOWN).into_offset_iter() {
            if let Event::Code(span) = &event {
                spans.push(Link { to: span.to_string(), line: line(range.start) });
            }
            match event {
                Event::Start(Tag::Heading { level, .. }) => open = Some((level, String::new())),
                Event::End(TagEnd::Heading(_)) => {
                    if let Some((level, text)) = open.take() {
                        let anchor = anchors.next(&text);
                        headings.push(Heading { level: level as u8, text, anchor });
                    }
                }
                Event::Text(part) | Event::Code(part) => {
                    if let Some((_, text)) = &mut open {
                        text.push_str(&part);
                    }
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(Link { to: dest_url.into_string(), line: line(range.start) });
                }
                Event::Start(Tag::CodeBlock(pulldown_cmark::CodeBlockKind::Fenced(_))) => {
                    fenced += 1;
                }
                _ => {}
            }
        }
        let fences = fences(&text);
        Page { path: path.into(), text, headings, links, spans, fences, fenced }
    }

    /// Whether there is such an anchor.
    pub fn has_anchor(&self, anchor: &str) -> bool {
        self.headings.iter().any(|heading| heading.anchor == anchor)
    }
}

/// Makes anchors of headings as GitHub and GitLab do, so that links work there, too.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    used: HashMap<String, usize>,
}

impl Anchors {
    /// The anchor of the next heading.
    pub(crate) fn next(&mut self, heading: &str) -> String {
        let keep = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        };
        let anchor: String = heading.to_lowercase().chars().filter_map(keep).collect();
        let times = self.used.entry(anchor.clone()).or_default();
        *times += 1;
        if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
    }
}

/// The target of a relative link in the file `from`: a path from the same root, and an anchor. None
/// if the link leaves the root.
pub(crate) fn resolve<'l>(from: &str, to: &'l str) -> Option<(String, Option<&'l str>)> {
    let (path, anchor) = match to.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (to, None),
    };
    if path.is_empty() {
        return Some((from.into(), anchor));
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some((parts.join("/"), anchor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_that_hosts_give_them() {
        let text = "# `Cx::nursery`, and more\n\n## Twice\n\n## Twice\n\n## No wake-up is lost\n";
        let page = Page::parse("a.md", text.into());
        let anchors: Vec<_> = page.headings.iter().map(|heading| heading.anchor.as_str()).collect();
        assert_eq!(anchors, ["cxnursery-and-more", "twice", "twice-1", "no-wake-up-is-lost"]);
        assert_eq!(page.headings[0].text, "Cx::nursery, and more");
    }

    #[test]
    fn links_carry_their_lines() {
        let page = Page::parse("a.md", "one\n[two](b.md#c)\n".into());
        assert_eq!(page.links, [Link { to: "b.md#c".into(), line: 2 }]);
    }

    #[test]
    fn links_resolve_against_the_folder_of_their_page() {
        assert_eq!(resolve("a/b.md", "c.md#d"), Some(("a/c.md".into(), Some("d"))));
        assert_eq!(resolve("a/b.md", "../c.md"), Some(("c.md".into(), None)));
        assert_eq!(resolve("a/b.md", "#d"), Some(("a/b.md".into(), Some("d"))));
        assert_eq!(resolve("a/b.md", "../../c.md"), None, "outside of the root");
        assert_eq!(resolve("a/b.md", "/c.md"), None);
    }
}
