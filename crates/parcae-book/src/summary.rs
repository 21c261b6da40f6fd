//! The table of contents: `SUMMARY.md`, in a plain form of what mdBook reads.
//!
//! ```text
//! # Summary                       the title; not shown
//! [Introduction](index.md)        a page before all parts
//! # Tutorial                      a part
//! - [Hello](tutorial/1-hello.md)  a page of it
//! ```

/// The table of contents.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// In order.
    pub entries: Vec<Entry>,
    /// Lines that are neither, with their numbers.
    pub strange: Vec<usize>,
}

/// A line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The title of a part.
    Part(String),
    /// A page.
    Page {
        /// Its title.
        title: String,
        /// Its path in the book's folder.
        path: String,
        /// The line in the summary.
        line: usize,
    },
}

impl Summary {
    /// Reads a summary.
    pub fn parse(text: &str) -> Summary {
        let mut summary = Summary::default();
        let mut titled = false;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if let Some(title) = line.strip_prefix("# ") {
                if std::mem::replace(&mut titled, true) {
                    summary.entries.push(Entry::Part(title.into()));
                }
            } else if let Some((title, path)) = link(line.strip_prefix("- ").unwrap_or(line)) {
                let (title, path) = (title.into(), path.into());
                summary.entries.push(Entry::Page { title, path, line: index + 1 });
            } else if !line.is_empty() {
                summary.strange.push(index + 1);
            }
        }
        summary
    }

    /// The pages, in order: title and path.
    pub fn pages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Page { title, path, .. } => Some((title.as_str(), path.as_str())),
            Entry::Part(_) => None,
        })
    }

    /// The pages before and after one.
    pub fn neighbours(&self, path: &str) -> [Option<(&str, &str)>; 2] {
        let pages: Vec<_> = self.pages().collect();
        let Some(at) = pages.iter().position(|page| page.1 == path) else { return [None, None] };
        let before = at.checked_sub(1).and_then(|before| pages.get(before));
        [before.copied(), pages.get(at + 1).copied()]
    }
}

/// Title and target of a line that is a link.
fn link(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('[')?.strip_suffix(')')?.split_once("](")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Summary\n\n[Start](index.md)\n\n\
                        # Part\n\n- [One](a/1.md)\n- [Two](a/2.md)\n\nnonsense\n";

    #[test]
    fn parts_and_pages_in_order_and_nonsense_is_noticed() {
        let summary = Summary::parse(TEXT);
        let pages: Vec<_> = summary.pages().collect();
        assert_eq!(pages, [("Start", "index.md"), ("One", "a/1.md"), ("Two", "a/2.md")]);
        assert_eq!(summary.entries[1], Entry::Part("Part".into()));
        assert_eq!(summary.strange, [10]);
    }

    #[test]
    fn the_first_has_nobody_before_it_and_the_last_nobody_after() {
        let summary = Summary::parse(TEXT);
        assert_eq!(summary.neighbours("index.md"), [None, Some(("One", "a/1.md"))]);
        assert_eq!(summary.neighbours("a/2.md"), [Some(("One", "a/1.md")), None]);
        assert_eq!(summary.neighbours("elsewhere.md"), [None, None]);
    }
}
