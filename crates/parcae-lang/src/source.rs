//! A source file, positions in it, and the lines that diagnostics show.

/// A range of bytes of a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// Byte behind the last one.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// From the start of this one to the end of the other.
    pub(crate) fn to(self, end: Span) -> Span {
        Span { start: self.start, end: end.end.max(self.start) }
    }
}

/// A source file: its name and its text.
#[derive(Debug, Clone)]
pub struct Source {
    name: String,
    text: String,
    /// First byte of each line.
    lines: Vec<u32>,
}

impl Source {
    /// Largest source file, in bytes. Positions and the memory of the front-end stay bounded.
    pub const MAX_BYTES: usize = 16 << 20;

    /// A file with this name and text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        let (name, text) = (name.into(), text.into());
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1)).collect();
        Source { name, text, lines }
    }

    /// The name that diagnostics show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Line and column of a byte, both counted from 1; columns count characters.
    pub fn position(&self, at: u32) -> (u32, u32) {
        let line = self.lines.partition_point(|start| *start <= at) - 1;
        let start = self.lines[line] as usize;
        let at = (at as usize).min(self.text.len());
        let column = self.text.get(start..at).map_or(0, |text| text.chars().count());
        (line as u32 + 1, column as u32 + 1)
    }

    /// The text of a line, counted from 1, without its end.
    pub(crate) fn line(&self, line: u32) -> &str {
        let start = self.lines.get(line as usize - 1).copied().unwrap_or(0) as usize;
        let end = self.lines.get(line as usize).map_or(self.text.len(), |end| *end as usize);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }
}
