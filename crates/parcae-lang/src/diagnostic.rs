//! Diagnostics: code, message, place, hint; as text with an excerpt of the source, and as JSON.
//!
//! Codes: `L0xxx` lexer, `P0xxx` parser, `S1xxx` names, `S2xxx` types, `S3xxx` errors, profiles and
//! capabilities, `S4xxx` limits and parts of the language that are not supported yet, `N1xxx` rules
//! of structured concurrency. The codes N1001 to N1003, S2001, S2005, S3001, S3004 and S3005 are
//! those of Janus.

use crate::source::{Source, Span};
use std::fmt::Write;

/// One error of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// For example `S2001`.
    pub code: &'static str,
    /// The fault, in one sentence without a full stop.
    pub message: String,
    /// The place of the fault.
    pub span: Span,
    /// A second place, with its explanation: where a block was opened, for example.
    pub note: Option<(Span, String)>,
    /// Advice on the repair.
    pub hint: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, message: message.into(), span, note: None, hint: None }
    }

    /// A fault of the compiler itself: it made incorrect code, which must not be run.
    pub fn of_compiler(violation: &parcae_ir::Violation) -> Diagnostic {
        let message = format!("the compiler made incorrect code: {violation}");
        Diagnostic::new("S9001", Span { start: 0, end: 0 }, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn note(mut self, span: Span, note: impl Into<String>) -> Diagnostic {
        self.note = Some((span, note.into()));
        self
    }

    /// The diagnostic with an excerpt of the source, for a terminal.
    ///
    /// ```text
    /// error[S2001]: expected `i64`, found `String`
    ///  --> shop.jan:3:18
    ///   |
    /// 3 |     let n: i64 = "three"
    ///   |                  ^^^^^^^
    ///   = hint: …
    /// ```
    pub fn render(&self, source: &Source) -> String {
        let (line, column) = source.position(self.span.start);
        let note_line = self.note.as_ref().map_or(0, |(span, _)| source.position(span.start).0);
        let width = line.max(note_line).to_string().len();
        let mut out = String::new();
        let _ = writeln!(out, "error[{}]: {}", self.code, self.message);
        let _ = writeln!(out, "{:width$}--> {}:{line}:{column}", "", source.name());
        excerpt(&mut out, source, self.span, '^', width);
        if let Some((span, note)) = &self.note {
            let (line, column) = source.position(span.start);
            let _ = writeln!(out, "{:width$} = note: {note}, line {line}:{column}", "");
            excerpt(&mut out, source, *span, '-', width);
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(out, "{:width$} = hint: {hint}", "");
        }
        out
    }

    /// The diagnostic as one line of JSON.
    pub fn json(&self, source: &Source) -> String {
        let mut out = String::from("{\"level\":\"error\",\"code\":");
        quote(&mut out, self.code);
        out.push_str(",\"message\":");
        quote(&mut out, &self.message);
        place(&mut out, source, self.span);
        if let Some((span, note)) = &self.note {
            out.push_str(",\"note\":{\"message\":");
            quote(&mut out, note);
            place(&mut out, source, *span);
            out.push('}');
        }
        if let Some(hint) = &self.hint {
            out.push_str(",\"hint\":");
            quote(&mut out, hint);
        }
        out.push('}');
        out
    }
}

/// Longest part of a line that an excerpt shows: a hostile file may have one line of megabytes.
const WIDEST: usize = 160;

fn excerpt(out: &mut String, source: &Source, span: Span, mark: char, width: usize) {
    let (line, column) = source.position(span.start);
    let (last, end) = source.position(span.end.max(span.start));
    let text = source.line(line);
    let from = (column as usize - 1).saturating_sub(WIDEST / 2);
    let shown: String = text.chars().skip(from).take(WIDEST).map(printable).collect();
    let length = text.chars().count();
    let until = if last == line { end as usize - 1 } else { length };
    let at = column as usize - 1 - from;
    let marks =
        until.saturating_sub(column as usize - 1).clamp(1, WIDEST.saturating_sub(at).max(1));
    let _ = writeln!(out, "{:width$} |", "");
    let _ = writeln!(out, "{line:width$} | {shown}");
    let _ = writeln!(out, "{:width$} | {:at$}{}", "", "", mark.to_string().repeat(marks));
}

/// Control characters would move the cursor of the terminal; a tab would shift the marks.
fn printable(c: char) -> char {
    if c == '\t' {
        ' '
    } else if c.is_control() {
        '\u{fffd}'
    } else {
        c
    }
}

fn place(out: &mut String, source: &Source, span: Span) {
    out.push_str(",\"file\":");
    quote(out, source.name());
    let (line, column) = source.position(span.start);
    let (end_line, end_column) = source.position(span.end);
    let _ = write!(
        out,
        ",\"line\":{line},\"column\":{column},\"end_line\":{end_line},\"end_column\":{end_column}"
    );
}

/// Writes a JSON string.
fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Faults of one file, sorted by place when they are taken. Their number is bounded: beyond the
/// limit a fault is only counted.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<Diagnostic>,
}

impl Faults {
    /// More faults of one file are not worth reading, and a hostile file has millions.
    const MOST: usize = 200;

    pub(crate) fn add(&mut self, fault: Diagnostic) {
        if self.found.len() < Faults::MOST {
            self.found.push(fault);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= Faults::MOST
    }

    pub(crate) fn take(&mut self) -> Vec<Diagnostic> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|fault| (fault.span.start, fault.code));
        found.dedup();
        found
    }
}
