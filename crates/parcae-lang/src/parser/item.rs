//! The profile directive, functions, structs, error sets, and types.

use super::Parser;
use crate::ast::{Block, File, Func, Item, Name, Shape, TypeExpr, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Kw, Tok};
use crate::source::Span;

impl<'a> Parser<'a, '_> {
    pub(super) fn file(&mut self) -> File<'a> {
        let profile = self.directive();
        let mut items = Vec::new();
        while self.tok() != Tok::Eof && !self.faults.is_full() {
            let before = self.at;
            match self.item() {
                Some(item) => items.push(item),
                None => self.recover_item(before),
            }
        }
        File { profile, items }
    }

    /// `{.profile: service.}`, `{.profile: :service.}` or `profile :service`.
    fn directive(&mut self) -> Option<Name<'a>> {
        let braces = self.tok() == Tok::DirectiveOpen;
        if !braces && !self.is_kw(Kw::Profile) {
            return None;
        }
        if braces {
            self.bump();
        }
        if !self.eat_kw(Kw::Profile) {
            self.expected("`profile`");
        }
        self.eat(":");
        self.eat(":");
        let name = self.name("the name of a profile");
        if braces && self.tok() == Tok::DirectiveClose {
            self.bump();
        } else if braces {
            self.expected("`.}`");
        }
        Some(name).filter(|name| !name.text.is_empty())
    }

    fn recover_item(&mut self, before: usize) {
        if self.at == before && self.tok() != Tok::Eof {
            self.at += 1;
        }
        loop {
            match self.tok() {
                Tok::Eof => break,
                Tok::Keyword(Kw::Func | Kw::Struct | Kw::Error) if self.token().first => break,
                Tok::Keyword(Kw::Async) if self.ahead(1) == Tok::Keyword(Kw::Func) => break,
                _ => self.at += 1,
            }
        }
        self.panicking = false;
    }

    fn item(&mut self) -> Option<Item<'a>> {
        let start = self.span();
        match self.tok() {
            Tok::Keyword(Kw::Func) => Some(Item::Func(self.func())),
            Tok::Keyword(Kw::Async) if self.ahead(1) == Tok::Keyword(Kw::Func) => {
                Some(Item::Func(self.func()))
            }
            Tok::Keyword(Kw::Struct) => {
                self.bump();
                let name = self.name("the name of the struct");
                let members = self.members("struct", start, |parser| {
                    let name = parser.name("the name of a field");
                    parser.expect(":");
                    (name, parser.type_expr())
                });
                Some(Item::Struct(Shape { name, members, span: start.to(self.last()) }))
            }
            Tok::Keyword(Kw::Error) => {
                self.bump();
                let name = self.name("the name of the error set");
                let members =
                    self.members("error", start, |parser| parser.name("the name of an error"));
                Some(Item::Error(Shape { name, members, span: start.to(self.last()) }))
            }
            Tok::Keyword(
                keyword @ (Kw::Enum | Kw::Trait | Kw::Impl | Kw::Import | Kw::Use | Kw::Actor),
            ) => {
                let message = format!("not supported yet: `{}`", keyword.text());
                self.fault(Diagnostic::new("S4001", start, message));
                None
            }
            Tok::DirectiveOpen | Tok::Keyword(Kw::Profile) => {
                let fault = Diagnostic::new("P0005", start, "the profile must be declared first");
                self.fault(fault.hint("move the line to the beginning of the file"));
                None
            }
            _ => {
                self.expected("`func`, `struct` or `error`");
                None
            }
        }
    }

    /// `{ a, b }`, with or without commas.
    fn members<T>(
        &mut self,
        word: &'static str,
        from: Span,
        mut member: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let mut members = Vec::new();
        if !self.expect("{") {
            return members;
        }
        self.open.push((word, from));
        while self.tok() == Tok::Name {
            members.push(member(self));
            if self.panicking {
                break;
            }
            self.eat(",");
        }
        self.close(true);
        members
    }

    /// A function with its name, or a literal without one.
    pub(super) fn func(&mut self) -> Func<'a> {
        let start = self.span();
        let is_async = self.eat_kw(Kw::Async);
        self.eat_kw(Kw::Func);
        let literal = self.is("(");
        let name = if literal {
            Name { text: "", span: start }
        } else {
            self.name("the name of the function")
        };
        let mut params = Vec::new();
        if self.expect("(") {
            while self.tok() == Tok::Name {
                let name = self.name("a parameter");
                self.expect(":");
                params.push((name, self.type_expr()));
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")");
        }
        let (mut result, mut error) = (None, None);
        if self.eat("->") {
            self.eat("!"); // `!T`: the error set is named behind it
            result = Some(self.type_expr());
        }
        if self.eat("!") {
            error = Some(self.name("an error set"));
        }
        let head = start.to(self.last());
        let body = if self.panicking && !self.is_kw(Kw::Do) && !self.is("{") {
            Block { stmts: Vec::new(), span: head }
        } else {
            self.block("func", head)
        };
        Func { name, is_async, params, result, error, body, span: start.to(self.last()) }
    }

    pub(super) fn type_expr(&mut self) -> TypeExpr<'a> {
        let start = self.span();
        let kind = self.deeper(Parser::type_kind).unwrap_or(TypeKind::Error);
        TypeExpr { kind, span: start.to(self.last()) }
    }

    fn type_kind(&mut self) -> TypeKind<'a> {
        if self.eat("[") {
            self.expect("]");
            return TypeKind::Array(Box::new(self.type_expr()));
        }
        if self.eat("?") {
            return TypeKind::Optional(Box::new(self.type_expr()));
        }
        if self.eat_kw(Kw::Func) {
            let mut params = Vec::new();
            self.expect("(");
            while !self.is(")") && !self.panicking && self.tok() != Tok::Eof {
                params.push(self.type_expr());
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")");
            let result = self.eat("->").then(|| Box::new(self.type_expr()));
            return TypeKind::Func(params, result);
        }
        if self.tok() != Tok::Name {
            self.expected("a type");
            return TypeKind::Error;
        }
        let name = self.name("a type").text;
        if self.eat("[") {
            let of = self.type_expr();
            self.expect("]");
            return TypeKind::Of(name, Box::new(of));
        }
        TypeKind::Name(name)
    }
}
