//! Colours for Rust: comments, strings, numbers, keywords, types, lifetimes and macros.
//!
//! Not a complete lexer. Unknown tokens are left as they are, and the text of the output always
//! equals the input.

/// Escapes text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const KEYWORDS: &[&str] = &[
    "as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum", "extern",
    "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod", "move", "mut", "pub",
    "ref", "return", "self", "Self", "static", "struct", "super", "trait", "true", "type",
    "unsafe", "use", "where", "while",
];

/// Rust as HTML.
pub fn rust(source: &str) -> String {
    let mut html = String::with_capacity(source.len() * 2);
    let mut rest = source;
    while !rest.is_empty() {
        let (len, class) = token(rest);
        let (text, behind) = rest.split_at(len);
        match class {
            Some(class) => {
                html.push_str(&format!("<span class=\"{class}\">{}</span>", escape(text)));
            }
            None => html.push_str(&escape(text)),
        }
        rest = behind;
    }
    html
}

/// The length and kind of the next token. The length is never 0.
fn token(text: &str) -> (usize, Option<&'static str>) {
    let first = text.chars().next().unwrap_or_default();
    let until = |end: &str, from: usize| {
        text[from..].find(end).map_or(text.len(), |at| from + at + end.len())
    };
    let name =
        |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    if text.starts_with("//") {
        return (text.find('\n').unwrap_or(text.len()), Some("comment"));
    }
    if text.starts_with("/*") {
        return (until("*/", 2), Some("comment"));
    }
    if text.starts_with("#[") || text.starts_with("#![") {
        return (until("]", 0), Some("attribute"));
    }
    if first == '"' {
        return (quoted(text), Some("string"));
    }
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            return (until(&format!("\"{}", "#".repeat(hashes)), hashes + 2), Some("string"));
        }
    }
    if first == '\'' {
        return character(text);
    }
    if first.is_ascii_digit() {
        let len = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        return (len, Some("number"));
    }
    if first.is_alphabetic() || first == '_' {
        let len = name(text);
        let word = &text[..len];
        let class = match word {
            _ if KEYWORDS.contains(&word) => Some("keyword"),
            _ if text[len..].starts_with('!') && !text[len..].starts_with("!=") => Some("macro"),
            _ if first.is_uppercase() => Some("type"),
            _ => None,
        };
        return (len, class);
    }
    (first.len_utf8(), None)
}

/// The length of a string that begins with a quotation mark.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character or a lifetime.
fn character(text: &str) -> (usize, Option<&'static str>) {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => (text[2..].find('\'').map_or(text.len(), |at| at + 3), Some("string")),
        Some((_, _)) if chars.next().is_some_and(|(_, c)| c == '\'') => {
            let end = text.char_indices().nth(3).map_or(text.len(), |(at, _)| at);
            (end, Some("string"))
        }
        _ => {
            let name = |c: char| !c.is_alphanumeric() && c != '_';
            (text[1..].find(name).map_or(text.len(), |at| at + 1), Some("lifetime"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the output, without its spans.
    fn text(html: &str) -> String {
        let mut text = String::new();
        for (index, part) in html.split(['<', '>']).enumerate() {
            if index % 2 == 0 {
                text.push_str(part);
            }
        }
        text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    }

    #[test]
    fn every_source_file_of_this_crate_comes_out_as_it_went_in() {
        for source in
            [include_str!("highlight.rs"), include_str!("check.rs"), include_str!("page.rs")]
        {
            assert_eq!(text(&rust(source)), source);
        }
    }

    #[test]
    fn strings_hide_what_is_in_them() {
        assert_eq!(
            rust(r#""a \" // b""#),
            r#"<span class="string">&quot;a \&quot; // b&quot;</span>"#
        );
        assert_eq!(rust("r#\"x\"#;"), "<span class=\"string\">r#&quot;x&quot;#</span>;");
    }

    #[test]
    fn characters_are_not_lifetimes() {
        assert_eq!(rust("'a'"), "<span class=\"string\">'a'</span>");
        assert_eq!(rust("'\\n'"), "<span class=\"string\">'\\n'</span>");
        assert_eq!(rust("&'a u"), "&amp;<span class=\"lifetime\">'a</span> u");
    }

    #[test]
    fn words_are_told_apart() {
        assert_eq!(rust("fn"), "<span class=\"keyword\">fn</span>");
        assert_eq!(rust("fnord"), "fnord");
        assert_eq!(rust("vec!"), "<span class=\"macro\">vec</span>!");
        assert_eq!(rust("a!=b"), "a!=b");
    }

    #[test]
    fn an_end_that_does_not_come_is_no_trouble() {
        for cut in ["\"open", "/* open", "r#\"open", "'", "'\\", "#[open", "ä'ö"] {
            assert_eq!(text(&rust(cut)), cut);
        }
    }
}
