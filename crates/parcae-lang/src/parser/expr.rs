//! Expressions, by precedence. From the loosest: `catch` · `or` · `??` · `and` · `== !=` ·
//! `< <= > >=` · `|` · `^` · `&` · `<< >>` · `+ -` · `* / %` · `**` · unary `- not await spawn` ·
//! `|>` · call, field, index, `?`.

use super::Parser;
use crate::ast::{Expr, ExprKind, Handler, Name, NurseryExpr};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Kw, Tok};
use crate::source::Span;

/// Binding strength of a binary operator, and its text.
fn binary(tok: Tok) -> Option<(u8, &'static str)> {
    Some(match tok {
        Tok::Keyword(Kw::Or) => (1, "or"),
        Tok::Sym("??") => (2, "??"),
        Tok::Keyword(Kw::And) => (3, "and"),
        Tok::Sym(op @ ("==" | "!=")) => (4, op),
        Tok::Sym(op @ ("<" | "<=" | ">" | ">=")) => (5, op),
        Tok::Sym("|") => (6, "|"),
        Tok::Sym("^") => (7, "^"),
        Tok::Sym("&") => (8, "&"),
        Tok::Sym(op @ ("<<" | ">>")) => (9, op),
        Tok::Sym(op @ ("+" | "-")) => (10, op),
        Tok::Sym(op @ ("*" | "/" | "%")) => (11, op),
        Tok::Sym("**") => (12, "**"),
        _ => return None,
    })
}

/// Binding strength of an operator, for the formatter.
pub(crate) fn strength(op: &str) -> u8 {
    match op {
        "or" => 1,
        "??" => 2,
        "and" => 3,
        "==" | "!=" => 4,
        "<" | "<=" | ">" | ">=" => 5,
        "|" => 6,
        "^" => 7,
        "&" => 8,
        "<<" | ">>" => 9,
        "+" | "-" => 10,
        "*" | "/" | "%" => 11,
        _ => 12,
    }
}

impl<'a> Parser<'a, '_> {
    pub(super) fn expr(&mut self) -> Expr<'a> {
        let start = self.span();
        let parsed = self.deeper(|parser| {
            let mut expr = parser.operators(1);
            while parser.is_kw(Kw::Catch) {
                parser.bump();
                let handler = parser.handler(start);
                let below = expr.depth.max(parser.seen);
                let kind = ExprKind::Catch(Box::new(expr), handler);
                expr = parser.node(kind, start.to(parser.last()), below);
            }
            expr
        });
        parsed.unwrap_or(Expr { kind: ExprKind::Error, span: start, depth: 1 })
    }

    /// `|e| do … end` behind `catch`; the bars may be missing.
    fn handler(&mut self, from: Span) -> Handler<'a> {
        let bars = self.eat("|");
        let name = if self.tok() == Tok::Name { Some(self.name("a name")) } else { None };
        if bars {
            self.expect("|");
        }
        Handler { name, body: self.block("catch", from) }
    }

    fn operators(&mut self, least: u8) -> Expr<'a> {
        let mut left = self.unary();
        while let Some((strength, op)) = binary(self.tok()) {
            // An operator at the beginning of a line goes on with the expression; but a minus that
            // touches its operand there begins a value: `-1` as the last line of a block.
            let token = self.token();
            let touches =
                self.tokens.get(self.at + 1).is_some_and(|next| next.span.start == token.span.end);
            if strength < least || self.panicking || (op == "-" && token.first && touches) {
                break;
            }
            self.bump();
            // `**` binds to the right.
            let right = self.operators_deeper(if op == "**" { strength } else { strength + 1 });
            let below = left.depth.max(right.depth);
            let span = left.span.to(right.span);
            left = self.node(ExprKind::Binary(op, Box::new(left), Box::new(right)), span, below);
        }
        left
    }

    fn operators_deeper(&mut self, least: u8) -> Expr<'a> {
        let span = self.span();
        self.deeper(|parser| parser.operators(least)).unwrap_or(Expr {
            kind: ExprKind::Error,
            span,
            depth: 1,
        })
    }

    pub(super) fn unary(&mut self) -> Expr<'a> {
        let start = self.span();
        let op = match self.tok() {
            Tok::Sym("-") => "-",
            Tok::Keyword(Kw::Not) => "not",
            Tok::Keyword(Kw::Await) => "await",
            Tok::Keyword(Kw::Spawn) => "spawn",
            Tok::Keyword(Kw::Async) => "async",
            _ => return self.piped(),
        };
        self.bump();
        let inner = self.deeper(Parser::unary);
        let inner = inner.unwrap_or(Expr { kind: ExprKind::Error, span: start, depth: 1 });
        let (span, below) = (start.to(inner.span), inner.depth);
        let inner = Box::new(inner);
        let kind = match op {
            "await" => ExprKind::Await(inner),
            "spawn" => ExprKind::Spawn(inner),
            "async" => ExprKind::Async(inner),
            _ => ExprKind::Unary(op, inner),
        };
        self.node(kind, span, below)
    }

    /// `x |> f |> g(y)`.
    fn piped(&mut self) -> Expr<'a> {
        let mut left = self.postfix();
        while self.eat("|>") {
            let right = self.postfix();
            let below = left.depth.max(right.depth);
            let span = left.span.to(right.span);
            let kind = ExprKind::Pipe(Box::new(left), Box::new(right));
            left = self.node(kind, span, below);
        }
        left
    }

    fn postfix(&mut self) -> Expr<'a> {
        let mut expr = self.primary();
        loop {
            let token = self.token();
            let start = expr.span;
            match token.tok {
                Tok::Sym("(") if !token.first => {
                    self.bump();
                    let (args, below) = self.list(")");
                    let below = below.max(expr.depth);
                    let kind = ExprKind::Call(Box::new(expr), args);
                    expr = self.node(kind, start.to(self.last()), below);
                }
                Tok::Sym("[") if !token.first => {
                    self.bump();
                    let outer = std::mem::take(&mut self.no_struct);
                    let index = self.expr();
                    let mut below = index.depth.max(expr.depth);
                    let kind = if let Some(inclusive) = self.range_end() {
                        let to = self.expr();
                        below = below.max(to.depth);
                        let (of, from, to) = (Box::new(expr), Box::new(index), Box::new(to));
                        ExprKind::Slice { of, from, to, inclusive }
                    } else {
                        ExprKind::Index(Box::new(expr), Box::new(index))
                    };
                    self.no_struct = outer;
                    self.expect("]");
                    expr = self.node(kind, start.to(self.last()), below);
                }
                Tok::Sym(".") => {
                    self.bump();
                    let name = self.field_name();
                    let below = expr.depth;
                    let kind = ExprKind::Field(Box::new(expr), name);
                    expr = self.node(kind, start.to(self.last()), below);
                }
                Tok::Sym("?") => {
                    self.bump();
                    let below = expr.depth;
                    let kind = ExprKind::Try(Box::new(expr));
                    expr = self.node(kind, start.to(self.last()), below);
                }
                _ => return expr,
            }
            if self.panicking {
                return expr;
            }
        }
    }

    /// Names of fields and methods may be words that are keywords elsewhere.
    fn field_name(&mut self) -> Name<'a> {
        let span = self.span();
        if let Tok::Keyword(Kw::Spawn | Kw::Error | Kw::Default | Kw::Timeout) = self.tok() {
            self.bump();
            return Name { text: self.text_of(span), span };
        }
        self.name("the name of a field")
    }

    /// Expressions up to a closing symbol, and their height.
    fn list(&mut self, close: &str) -> (Vec<Expr<'a>>, u16) {
        let outer = std::mem::take(&mut self.no_struct);
        let (mut items, mut below) = (Vec::new(), 0);
        while !self.is(close) && self.tok() != Tok::Eof && !self.panicking {
            let item = self.expr();
            below = below.max(item.depth);
            items.push(item);
            if !self.eat(",") {
                break;
            }
        }
        if !self.panicking {
            self.expect(close);
        }
        self.no_struct = outer;
        (items, below)
    }

    fn primary(&mut self) -> Expr<'a> {
        let span = self.span();
        let kind = match self.tok() {
            Tok::Int => {
                let text = std::borrow::Cow::from(self.text_of(span));
                let text = if text.contains('_') { text.replace('_', "").into() } else { text };
                self.bump();
                let value = match text.get(..2) {
                    Some("0x") => u64::from_str_radix(&text[2..], 16),
                    Some("0b") => u64::from_str_radix(&text[2..], 2),
                    Some("0o") => u64::from_str_radix(&text[2..], 8),
                    _ => text.parse(),
                };
                ExprKind::Int(value.unwrap_or(0)) // the lexer has reported it
            }
            Tok::Float => {
                let text = self.text_of(span).replace('_', "");
                self.bump();
                ExprKind::Float(text.parse().unwrap_or(0.0))
            }
            Tok::Str => {
                let text = self.text_of(span);
                self.bump();
                ExprKind::Str(unescape(text))
            }
            Tok::StrOpen => return self.interpolated(),
            Tok::Keyword(Kw::True) => {
                self.bump();
                ExprKind::Bool(true)
            }
            Tok::Keyword(Kw::False) => {
                self.bump();
                ExprKind::Bool(false)
            }
            Tok::Name => {
                let name = self.name("a name");
                let literal = !self.no_struct && self.is("{") && self.begins_fields();
                if literal {
                    return self.struct_literal(name);
                }
                ExprKind::Name(name.text)
            }
            Tok::Sym("(") => {
                self.bump();
                let outer = std::mem::take(&mut self.no_struct);
                let inner = self.expr();
                self.no_struct = outer;
                if !self.panicking {
                    self.expect(")");
                }
                return inner;
            }
            Tok::Sym("[") => {
                self.bump();
                let (items, below) = self.list("]");
                return self.node(ExprKind::Array(items), span.to(self.last()), below);
            }
            Tok::Keyword(Kw::Func) => {
                let outer = std::mem::take(&mut self.seen);
                let func = self.func();
                let below = std::mem::replace(&mut self.seen, outer);
                return self.node(ExprKind::Closure(Box::new(func)), span.to(self.last()), below);
            }
            Tok::Keyword(Kw::Nursery) => return self.nursery(),
            Tok::Sym("!") => {
                let fault = Diagnostic::new("P0001", span, "`!` is not an operator");
                self.fault(fault.hint("write `not`"));
                ExprKind::Error
            }
            _ => {
                self.expected("an expression");
                ExprKind::Error
            }
        };
        Expr { kind, span, depth: 1 }
    }

    /// Whether a brace begins the fields of a literal: `{ name:` or `{}`.
    fn begins_fields(&self) -> bool {
        match self.ahead(1) {
            Tok::Sym("}") => true,
            Tok::Name => self.ahead(2) == Tok::Sym(":"),
            _ => false,
        }
    }

    fn struct_literal(&mut self, name: Name<'a>) -> Expr<'a> {
        self.bump();
        let (mut fields, mut below) = (Vec::new(), 0);
        while self.tok() == Tok::Name && !self.panicking {
            let field = self.name("a field");
            self.expect(":");
            let value = self.expr();
            below = below.max(value.depth);
            fields.push((field, value));
            if !self.eat(",") {
                break;
            }
        }
        if !self.panicking {
            self.expect("}");
        }
        self.node(ExprKind::Struct(name, fields), name.span.to(self.last()), below)
    }

    fn interpolated(&mut self) -> Expr<'a> {
        let start = self.span();
        let outer = std::mem::take(&mut self.no_struct);
        let (mut texts, mut parts, mut below) = (Vec::new(), Vec::new(), 0);
        let first = self.bump();
        texts.push(unescape_piece(&self.text_of(first)[2..]));
        loop {
            let part = self.expr();
            below = below.max(part.depth);
            parts.push(part);
            let piece = self.tok();
            if !matches!(piece, Tok::StrMid | Tok::StrClose) {
                self.expected("`}`");
                break;
            }
            let span = self.bump();
            texts.push(unescape_piece(&self.text_of(span)[1..]));
            if piece == Tok::StrClose {
                break;
            }
        }
        if texts.len() == parts.len() {
            texts.push(String::new());
        }
        self.no_struct = outer;
        self.node(ExprKind::Interp(texts, parts), start.to(self.last()), below)
    }

    fn nursery(&mut self) -> Expr<'a> {
        let start = self.bump();
        let outer = std::mem::take(&mut self.seen);
        let name = if self.eat("|") {
            let name = self.name("a name");
            self.expect("|");
            Some(name)
        } else {
            None
        };
        let with = self.eat_kw(Kw::With).then(|| self.with_options());
        let body = self.block("nursery", start);
        let catch = self.is_kw(Kw::Catch).then(|| {
            let from = self.bump();
            self.handler(from)
        });
        let below = std::mem::replace(&mut self.seen, outer);
        let nursery = NurseryExpr { name, with, body, catch };
        self.node(ExprKind::Nursery(Box::new(nursery)), start.to(self.last()), below)
    }

    /// `Budget { … }`, or the name of a capability.
    fn with_options(&mut self) -> Expr<'a> {
        let name = self.name("`Budget { … }` or a capability");
        if self.is("{") && self.begins_fields() {
            return self.struct_literal(name);
        }
        Expr { kind: ExprKind::Name(name.text), span: name.span, depth: 1 }
    }
}

/// The value of a plain string with its quotes; `$` may be in front.
fn unescape(text: &str) -> String {
    let text = text.strip_prefix('$').unwrap_or(text);
    unescape_piece(text.get(1..).unwrap_or_default())
}

/// The value of a piece of a string, which ends with a quote or a brace.
fn unescape_piece(text: &str) -> String {
    let text = text.strip_suffix(['"', '{']).unwrap_or(text);
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('r')) => '\r',
            ('\\', Some('0')) => '\0',
            ('\\', Some(other)) => other,
            (other, _) => other,
        });
    }
    out
}
