//! The parser: recursive descent for items and statements, operator precedence for expressions.
//!
//! # Recovery
//!
//! A fault is reported once; then the parser skips to the next token that can begin a statement or
//! end a block, and goes on. A missing `end` is noticed at the keyword of the next item, because
//! items are not nested: the message names the block that is open, and its line.
//!
//! # Bounds
//!
//! Trees have a bounded height (`MAX_DEPTH`): the parser counts the nesting of its own calls and
//! the height of what it builds, so that neither it nor the passes that recurse over its tree, nor
//! dropping it, use up the stack. Every loop consumes a token or ends.

mod expr;
mod item;
mod stmt;

pub(crate) use expr::strength;

use crate::ast::{Block, Expr, ExprKind, File, Name, Stmt};
use crate::diagnostic::{Diagnostic, Faults};
use crate::lexer::{Kw, Lexed, Tok, Token};
use crate::source::{Source, Span};

/// Greatest height of a tree. Hand-written programs stay below 30.
pub(crate) const MAX_DEPTH: u16 = 100;

pub(crate) fn parse<'a>(source: &'a Source, lexed: &Lexed, faults: &mut Faults) -> File<'a> {
    let mut parser = Parser {
        text: source.text(),
        tokens: &lexed.tokens,
        at: 0,
        nesting: 0,
        seen: 0,
        no_struct: false,
        open: Vec::new(),
        panicking: false,
        faults,
    };
    parser.file()
}

struct Parser<'a, 't> {
    text: &'a str,
    tokens: &'t [Token],
    at: usize,
    /// Depth of the parser's own recursion.
    nesting: u16,
    /// Greatest height of an expression in the block that is being parsed.
    seen: u16,
    /// In the condition of a block that may begin with a brace: `x {` is no literal there.
    no_struct: bool,
    /// Blocks that are open: their word, and where they were opened.
    open: Vec<(&'static str, Span)>,
    /// A fault was reported, and no token has been accepted since.
    panicking: bool,
    faults: &'t mut Faults,
}

impl<'a> Parser<'a, '_> {
    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn tok(&self) -> Tok {
        self.tokens[self.at].tok
    }

    fn ahead(&self, by: usize) -> Tok {
        self.tokens.get(self.at + by).map_or(Tok::Eof, |token| token.tok)
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// Place of the token before.
    fn last(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn text_of(&self, span: Span) -> &'a str {
        &self.text[span.start as usize..span.end as usize]
    }

    fn bump(&mut self) -> Span {
        let span = self.span();
        if self.tok() != Tok::Eof {
            self.at += 1;
        }
        self.panicking = false;
        span
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.tok(), Tok::Sym(found) if found == symbol)
    }

    fn is_kw(&self, keyword: Kw) -> bool {
        self.tok() == Tok::Keyword(keyword)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.bump();
        }
        found
    }

    fn eat_kw(&mut self, keyword: Kw) -> bool {
        let found = self.is_kw(keyword);
        if found {
            self.bump();
        }
        found
    }

    fn fault(&mut self, fault: Diagnostic) {
        if !self.panicking {
            self.faults.add(fault);
        }
        self.panicking = true;
    }

    /// Reports that something else was expected here.
    fn expected(&mut self, what: &str) {
        let found = self.describe();
        let fault =
            Diagnostic::new("P0001", self.span(), format!("expected {what}, found {found}"));
        self.fault(self.with_hint(fault));
    }

    fn with_hint(&self, fault: Diagnostic) -> Diagnostic {
        match self.tok() {
            Tok::Sym("&&") => fault.hint("write `and`"),
            Tok::Sym("||") => fault.hint("write `or`"),
            Tok::Sym("!") => fault.hint("write `not`"),
            Tok::Keyword(keyword) if self.ahead(1) == Tok::Sym("=") => {
                fault.hint(format!("`{}` is a keyword and cannot be a name", keyword.text()))
            }
            _ => fault,
        }
    }

    fn describe(&self) -> String {
        match self.tok() {
            Tok::Eof => "the end of the file".into(),
            Tok::Keyword(keyword) => format!("the keyword `{}`", keyword.text()),
            _ => format!("`{}`", crate::lexer::clip(self.text_of(self.span()))),
        }
    }

    fn expect(&mut self, symbol: &str) -> bool {
        let found = self.eat(symbol);
        if !found {
            self.expected(&format!("`{symbol}`"));
        }
        found
    }

    fn name(&mut self, what: &str) -> Name<'a> {
        let span = self.span();
        if self.tok() == Tok::Name {
            self.bump();
            return Name { text: self.text_of(span), span };
        }
        self.expected(what);
        Name { text: "", span }
    }

    /// A node, unless the tree would be too high.
    fn node(&mut self, kind: ExprKind<'a>, span: Span, below: u16) -> Expr<'a> {
        let depth = below + 1;
        self.seen = self.seen.max(depth);
        if depth > MAX_DEPTH {
            self.too_deep(span);
            // The part below is kept: its own nodes are within the bound.
            return Expr { kind: ExprKind::Error, span, depth: 1 };
        }
        Expr { kind, span, depth }
    }

    fn too_deep(&mut self, span: Span) {
        let fault =
            Diagnostic::new("P0008", span, format!("nested deeper than {MAX_DEPTH} levels"))
                .hint("use variables, or functions");
        self.fault(fault);
    }

    /// Runs a part of the parser one level deeper; `None` if that is too deep.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.nesting >= MAX_DEPTH {
            self.too_deep(self.span());
            self.skip_nest();
            return None;
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        Some(parsed)
    }

    /// Skips a part that is nested too deeply: brackets up to their partner.
    fn skip_nest(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.tok() {
                Tok::Eof => return,
                Tok::Sym("(" | "[" | "{") => depth += 1,
                Tok::Sym(")" | "]" | "}") if depth > 0 => depth -= 1,
                Tok::Sym(")" | "]" | "}") => return,
                Tok::Keyword(Kw::Func | Kw::End) if depth == 0 => return,
                _ => {}
            }
            self.at += 1;
        }
    }

    /// A block of statements: `do … end` or `{ … }`. `word` names it in messages.
    fn block(&mut self, word: &'static str, from: Span) -> Block<'a> {
        let start = self.span();
        let braces = if self.eat("{") {
            true
        } else if self.eat_kw(Kw::Do) {
            false
        } else if self.is_kw(Kw::Then) {
            let fault = Diagnostic::new("P0007", self.span(), "`then` is not used here");
            self.fault(fault.hint("write `do`"));
            self.bump();
            false
        } else {
            self.expected("`do`");
            return Block { stmts: Vec::new(), span: start };
        };
        self.open.push((word, from));
        let (stmts, _) = self.statements(braces);
        self.close(braces);
        Block { stmts, span: start.to(self.last()) }
    }

    /// Consumes the end of the innermost block.
    fn close(&mut self, braces: bool) {
        let (word, from) = self.open.pop().unwrap_or(("block", self.span()));
        let closed = if braces { self.eat("}") } else { self.eat_kw(Kw::End) };
        if !closed {
            let end = if braces { "}" } else { "end" };
            let found = self.describe();
            let message = format!("this `{word}` has no `{end}`: found {found} instead");
            let fault = Diagnostic::new("P0002", self.span(), message)
                .note(from, format!("the `{word}` that is open"))
                .hint(format!("close it by `{end}`"));
            self.fault(fault);
        }
    }

    /// Statements up to the end of a block, which is not consumed; and their height.
    fn statements(&mut self, braces: bool) -> (Vec<Stmt<'a>>, u16) {
        let outer = std::mem::take(&mut self.seen);
        let no_struct = std::mem::take(&mut self.no_struct);
        let mut stmts = Vec::new();
        let parsed = self.deeper(|parser| {
            while !parser.at_block_end(braces) && !parser.faults.is_full() {
                let before = parser.at;
                let stmt = parser.statement();
                stmts.push(stmt);
                if parser.panicking {
                    parser.recover(before);
                }
            }
        });
        if parsed.is_none() {
            // Too deep: the statements are skipped up to the end of this block, if it is found.
            while !self.at_block_end(braces) {
                self.at += 1;
            }
        }
        let height = self.seen + 1;
        if height > MAX_DEPTH {
            self.too_deep(self.last());
            stmts.clear();
        }
        self.seen = outer.max(if height > MAX_DEPTH { 1 } else { height });
        self.no_struct = no_struct;
        (stmts, height.min(MAX_DEPTH))
    }

    fn at_block_end(&self, braces: bool) -> bool {
        match self.tok() {
            Tok::Eof => true,
            Tok::Keyword(Kw::End | Kw::Else | Kw::Case) => !braces || self.is_kw(Kw::Case),
            Tok::Sym("}") => true,
            // An item: the block's end is missing. A literal function has no name.
            Tok::Keyword(Kw::Func) => self.ahead(1) == Tok::Name,
            Tok::Keyword(Kw::Async) => {
                self.ahead(1) == Tok::Keyword(Kw::Func) && self.ahead(2) == Tok::Name
            }
            Tok::Keyword(Kw::Struct | Kw::Error) => {
                self.ahead(1) == Tok::Name && self.ahead(2) == Tok::Sym("{")
            }
            Tok::Keyword(Kw::Timeout | Kw::Default) => true,
            _ => false,
        }
    }

    /// Skips to a token that can begin a statement or end a block.
    fn recover(&mut self, before: usize) {
        if self.at == before && self.tok() != Tok::Eof {
            self.at += 1;
        }
        loop {
            let token = self.token();
            let found = match token.tok {
                Tok::Eof | Tok::Sym("}") => true,
                Tok::Keyword(keyword) => starts_statement(keyword),
                Tok::Name => token.first,
                _ => false,
            };
            if found {
                break;
            }
            self.at += 1;
        }
        self.panicking = false;
    }
}

fn starts_statement(keyword: Kw) -> bool {
    !matches!(
        keyword,
        Kw::And
            | Kw::Or
            | Kw::Not
            | Kw::In
            | Kw::Do
            | Kw::Then
            | Kw::When
            | Kw::Unless
            | Kw::With
            | Kw::True
            | Kw::False
            | Kw::Catch
            | Kw::Await
    )
}
