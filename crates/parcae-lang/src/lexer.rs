//! The lexer: text to tokens, and comments beside them.
//!
//! Newlines are no tokens; a token knows whether it is the first of its line, because a call or an
//! index must begin on the line of its callee. An interpolated string `$"a {x} b"` becomes the
//! tokens `StrOpen "a "`, those of `x`, `StrClose " b"`; with several expressions `StrMid` stands
//! between them. A stack of modes finds the brace that ends the expression, so strings and braces
//! may be nested inside of it.

use crate::diagnostic::{Diagnostic, Faults};
use crate::source::{Source, Span};

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tok {
    Eof,
    Name,
    Int,
    Float,
    /// A plain string, with its quotes.
    Str,
    /// The first, a middle and the last piece of an interpolated string.
    StrOpen,
    StrMid,
    StrClose,
    Keyword(Kw),
    /// `{.` of a directive and its end `.}`.
    DirectiveOpen,
    DirectiveClose,
    Sym(&'static str),
}

macro_rules! keywords {
    ($($name:ident $text:literal)*) => {
        /// Keywords. Words that Janus reserves for later are here too, so that programs do not use
        /// them as names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kw { $($name),* }

        impl Kw {
            fn of(text: &str) -> Option<Kw> {
                match text { $($text => Some(Kw::$name),)* _ => None }
            }

            pub(crate) fn text(self) -> &'static str {
                match self { $(Kw::$name => $text),* }
            }
        }
    };
}

keywords! {
    And "and" Async "async" Await "await" Break "break" Case "case" Catch "catch"
    Continue "continue" Default "default" Defer "defer" Do "do" Else "else" End "end"
    Error "error" Fail "fail" False "false" For "for" Func "func" If "if" In "in" Let "let"
    Match "match" Not "not" Nursery "nursery" Or "or" Profile "profile" Return "return"
    Select "select" Spawn "spawn" Struct "struct" Then "then" Timeout "timeout" True "true"
    Unless "unless" Using "using" Var "var" When "when" While "while" With "with"
    Yield "yield" Enum "enum" Trait "trait" Impl "impl" Import "import" Use "use" Actor "actor"
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) tok: Tok,
    pub(crate) span: Span,
    /// First token of its line.
    pub(crate) first: bool,
}

/// Tokens of a file, ended by `Eof`, and its comments.
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Token>,
    pub(crate) comments: Vec<Span>,
}

/// The longest symbol that these bytes begin with.
fn symbol_at(bytes: &[u8]) -> Option<&'static str> {
    let at = |place: usize| bytes.get(place).copied().unwrap_or(0);
    Some(match (at(0), at(1), at(2)) {
        (b'.', b'.', b'<') => "..<",
        (b'.', b'.', b'=') => "..=",
        (b'*', b'*', _) => "**",
        (b'-', b'>', _) => "->",
        (b'=', b'>', _) => "=>",
        (b'=', b'=', _) => "==",
        (b'!', b'=', _) => "!=",
        (b'<', b'=', _) => "<=",
        (b'>', b'=', _) => ">=",
        (b'<', b'<', _) => "<<",
        (b'>', b'>', _) => ">>",
        (b'|', b'>', _) => "|>",
        (b'|', b'|', _) => "||",
        (b'&', b'&', _) => "&&",
        (b'?', b'?', _) => "??",
        (b':', b'=', _) => ":=",
        (b'+', b'=', _) => "+=",
        (b'-', b'=', _) => "-=",
        (b'*', b'=', _) => "*=",
        (b'/', b'=', _) => "/=",
        (b'%', b'=', _) => "%=",
        (b'.', b'.', _) => "..",
        (b'(', ..) => "(",
        (b')', ..) => ")",
        (b'[', ..) => "[",
        (b']', ..) => "]",
        (b'{', ..) => "{",
        (b'}', ..) => "}",
        (b',', ..) => ",",
        (b';', ..) => ";",
        (b':', ..) => ":",
        (b'.', ..) => ".",
        (b'+', ..) => "+",
        (b'-', ..) => "-",
        (b'*', ..) => "*",
        (b'/', ..) => "/",
        (b'%', ..) => "%",
        (b'=', ..) => "=",
        (b'<', ..) => "<",
        (b'>', ..) => ">",
        (b'|', ..) => "|",
        (b'&', ..) => "&",
        (b'^', ..) => "^",
        (b'~', ..) => "~",
        (b'!', ..) => "!",
        (b'?', ..) => "?",
        (b'@', ..) => "@",
        _ => return None,
    })
}

pub(crate) fn lex(source: &Source, faults: &mut Faults) -> Lexed {
    let text = source.text();
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        first: true,
        tokens: Vec::with_capacity(text.len() / 5 + 1),
        comments: Vec::new(),
        modes: Vec::new(),
        directive: false,
        faults,
    };
    if text.len() > Source::MAX_BYTES {
        let message = format!("the file is larger than {} bytes", Source::MAX_BYTES);
        lexer.fault("L0006", 0, message, None);
    } else {
        lexer.run();
    }
    let end = lexer.bytes.len();
    lexer.at = end;
    lexer.push(Tok::Eof, end);
    Lexed { tokens: lexer.tokens, comments: lexer.comments }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    first: bool,
    tokens: Vec<Token>,
    comments: Vec<Span>,
    /// Open braces in each interpolated expression that we are in, the innermost last.
    modes: Vec<u32>,
    /// In `{.profile: …`, up to its end.
    directive: bool,
    faults: &'a mut Faults,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, tok: Tok, start: usize) {
        let token = Token { tok, span: Span::new(start, self.at), first: self.first };
        self.tokens.push(token);
        self.first = false;
    }

    fn fault(&mut self, code: &'static str, start: usize, message: String, hint: Option<&str>) {
        let fault = Diagnostic::new(code, Span::new(start, self.at), message);
        self.faults.add(match hint {
            Some(hint) => fault.hint(hint),
            None => fault,
        });
    }

    fn run(&mut self) {
        while self.at < self.bytes.len() && !self.faults.is_full() {
            let start = self.at;
            match self.bytes[start] {
                b'\n' => {
                    self.first = true;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if self.peek(1) == b'/' => self.line_comment(),
                b'/' if self.peek(1) == b'*' => self.block_comment(),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
                b'0'..=b'9' => self.number(),
                b'"' => {
                    self.at += 1;
                    self.string_body(start, Tok::Str, Tok::Str);
                }
                b'$' if self.peek(1) == b'"' => {
                    self.at += 2;
                    self.string_body(start, Tok::StrOpen, Tok::Str);
                }
                b'{' if self.bytes[start..].starts_with(b"{.profile") => {
                    self.at += 2;
                    self.directive = true;
                    self.push(Tok::DirectiveOpen, start);
                }
                b'.' if self.peek(1) == b'}' && self.directive => {
                    self.at += 2;
                    self.directive = false;
                    self.push(Tok::DirectiveClose, start);
                }
                b'}' if self.modes.last() == Some(&0) => {
                    self.modes.pop();
                    self.at += 1;
                    self.string_body(start, Tok::StrMid, Tok::StrClose);
                }
                _ => self.symbol(),
            }
        }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        while self.at < self.bytes.len() && self.bytes[self.at] != b'\n' {
            self.at += 1;
        }
        self.comments.push(Span::new(start, self.at));
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let mut depth = 0_u32;
        while self.at < self.bytes.len() {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => (depth, self.at) = (depth + 1, self.at + 2),
                (b'*', b'/') => (depth, self.at) = (depth - 1, self.at + 2),
                (byte, _) => {
                    self.first |= byte == b'\n';
                    self.at += 1;
                }
            }
            if depth == 0 {
                return self.comments.push(Span::new(start, self.at));
            }
        }
        self.at = start + 2;
        self.fault("L0003", start, "this comment is never closed".into(), Some("close it by `*/`"));
        self.at = self.bytes.len();
    }

    fn word(&mut self) {
        let start = self.at;
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
            self.at += 1;
        }
        let keyword = Kw::of(&self.text[start..self.at]);
        self.push(keyword.map_or(Tok::Name, Tok::Keyword), start);
    }

    fn number(&mut self) {
        let start = self.at;
        let radix = match (self.peek(0), self.peek(1)) {
            (b'0', b'x') => 16,
            (b'0', b'b') => 2,
            (b'0', b'o') => 8,
            _ => 10,
        };
        if radix != 10 {
            self.at += 2;
        }
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_ascii_alphanumeric() || lexer.peek(0) == b'_' {
                let exponent = radix == 10 && matches!(lexer.peek(0), b'e' | b'E');
                lexer.at += 1;
                if exponent && matches!(lexer.peek(0), b'+' | b'-') {
                    lexer.at += 1;
                }
            }
        };
        digits(self);
        let mut tok = Tok::Int;
        if radix == 10 && self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
            self.at += 1;
            digits(self);
            tok = Tok::Float;
        }
        let plain = self.bytes[start..self.at].iter().all(u8::is_ascii_digit);
        if plain && self.at - start < 19 {
            return self.push(Tok::Int, start);
        }
        let text = self.text[start..self.at].replace('_', "");
        if radix == 10 && text.contains(['e', 'E']) {
            tok = Tok::Float;
        }
        let good = match tok {
            Tok::Float => text.parse::<f64>().is_ok_and(f64::is_finite),
            _ if radix == 10 => text.parse::<u64>().is_ok(),
            _ => u64::from_str_radix(&text[2..], radix).is_ok(),
        };
        if !good {
            let message = format!("`{}` is no number", clip(&self.text[start..self.at]));
            self.fault("L0004", start, message, Some("integers have up to 64 bits"));
        }
        self.push(tok, start);
    }

    /// The rest of a string, or of a piece of an interpolated one. A piece that ends at a brace is
    /// an `open` token, one that ends at the quote a `close` token. `start` is the first byte.
    fn string_body(&mut self, start: usize, open: Tok, close: Tok) {
        let interpolated = open != close || open == Tok::StrMid;
        while self.at < self.bytes.len() {
            match self.bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    // An interpolated string without expressions is a plain one.
                    return self.push(close, start);
                }
                b'\\' => {
                    let at = self.at;
                    self.at += 2;
                    let known = matches!(
                        self.bytes.get(at + 1),
                        Some(b'n' | b't' | b'r' | b'\\' | b'"' | b'0' | b'{' | b'}')
                    );
                    if !known {
                        while !self.text.is_char_boundary(self.at.min(self.bytes.len())) {
                            self.at += 1;
                        }
                        self.at = self.at.min(self.bytes.len());
                        let hint = "known are \\n \\t \\r \\0 \\\\ \\\" \\{ \\}";
                        self.fault("L0005", at, "unknown escape".into(), Some(hint));
                    }
                }
                b'{' if interpolated => {
                    self.at += 1;
                    if self.modes.len() >= 32 {
                        let message = "strings are nested too deeply".to_owned();
                        self.fault("L0007", start, message, Some("use a variable"));
                        self.at = self.bytes.len();
                        return;
                    }
                    self.push(open, start);
                    return self.modes.push(0);
                }
                b'\n' => break,
                _ => self.at += 1,
            }
        }
        let end = self.at;
        self.at = end.min(start + 1);
        let hint = "a string ends on its line; a line break inside of it is written \\n";
        self.fault("L0002", start, "this string is never closed".into(), Some(hint));
        self.at = end;
        self.push(close, start);
    }

    fn symbol(&mut self) {
        let start = self.at;
        let Some(symbol) = symbol_at(&self.bytes[start..]) else {
            while {
                self.at += 1;
                !self.text.is_char_boundary(self.at)
            } {}
            let what = self.text[start..self.at].escape_debug().to_string();
            return self.fault("L0001", start, format!("unexpected character `{what}`"), None);
        };
        if let Some(open) = self.modes.last_mut() {
            match symbol {
                "{" => *open += 1,
                "}" => *open -= 1,
                _ => {}
            }
        }
        self.at += symbol.len();
        self.push(Tok::Sym(symbol), start);
    }
}

/// A text for a message, at most 40 characters long.
pub(crate) fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(40).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}
