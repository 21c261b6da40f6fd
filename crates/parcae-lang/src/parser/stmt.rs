//! Statements.

use super::Parser;
use crate::ast::{
    Arm, Block, Case, CaseKind, Expr, ExprKind, Guard, Over, Pattern, Stmt, StmtKind,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Kw, Tok};
use crate::source::Span;

impl<'a> Parser<'a, '_> {
    pub(super) fn statement(&mut self) -> Stmt<'a> {
        let start = self.span();
        let kind = self.statement_kind(start);
        let mut stmt = Stmt { kind, span: start.to(self.last()) };
        let guarded = matches!(
            stmt.kind,
            StmtKind::Return(_)
                | StmtKind::Fail(_)
                | StmtKind::Break
                | StmtKind::Continue
                | StmtKind::Expr(_)
                | StmtKind::Assign { .. }
        );
        if guarded && !self.panicking && (self.is_kw(Kw::When) || self.is_kw(Kw::Unless)) {
            let unless = self.is_kw(Kw::Unless);
            self.bump();
            let cond = self.expr();
            let guard = Guard { unless, cond };
            let kind = StmtKind::Guarded(Box::new(stmt), guard);
            stmt = Stmt { kind, span: start.to(self.last()) };
        }
        self.eat(";");
        stmt
    }

    fn statement_kind(&mut self, start: Span) -> StmtKind<'a> {
        let Tok::Keyword(keyword) = self.tok() else { return self.simple() };
        match keyword {
            Kw::Let | Kw::Var => self.binding(keyword == Kw::Var),
            Kw::Return => {
                self.bump();
                let value = self.begins_value().then(|| self.expr());
                StmtKind::Return(value)
            }
            Kw::Fail => {
                self.bump();
                StmtKind::Fail(self.expr())
            }
            Kw::Break => {
                self.bump();
                StmtKind::Break
            }
            Kw::Continue => {
                self.bump();
                StmtKind::Continue
            }
            Kw::Yield => {
                self.bump();
                StmtKind::Yield
            }
            Kw::Defer => {
                self.bump();
                StmtKind::Defer(self.expr())
            }
            Kw::If => self.if_chain(start),
            Kw::While => {
                self.bump();
                let cond = self.condition();
                StmtKind::While { cond, body: self.block("while", start) }
            }
            Kw::For => self.for_loop(start),
            Kw::Match => self.match_on(start),
            Kw::Select => self.select(start),
            Kw::Using | Kw::Actor | Kw::Import | Kw::Use | Kw::Enum | Kw::Trait | Kw::Impl => {
                let message = format!("not supported yet: `{}`", keyword.text());
                self.fault(Diagnostic::new("S4001", start, message));
                StmtKind::Error
            }
            _ => self.simple(),
        }
    }

    /// Whether a value follows on the same line.
    fn begins_value(&self) -> bool {
        let token = self.token();
        !token.first
            && match token.tok {
                Tok::Eof | Tok::StrMid | Tok::StrClose => false,
                Tok::Sym(symbol) => matches!(symbol, "(" | "[" | "-" | "." | "~"),
                Tok::Keyword(keyword) => matches!(
                    keyword,
                    Kw::True
                        | Kw::False
                        | Kw::Not
                        | Kw::Await
                        | Kw::Func
                        | Kw::Spawn
                        | Kw::Nursery
                        | Kw::Async
                ),
                _ => true,
            }
    }

    fn binding(&mut self, mutable: bool) -> StmtKind<'a> {
        self.bump();
        let name = self.name("a name");
        let ty = self.eat(":").then(|| self.type_expr());
        if !self.eat("=") && !self.eat(":=") {
            self.expected("`=`");
            return StmtKind::Error;
        }
        StmtKind::Let { mutable, name, ty, value: self.expr() }
    }

    /// An expression, or an assignment.
    fn simple(&mut self) -> StmtKind<'a> {
        let target = self.expr();
        let op = match self.tok() {
            Tok::Sym("=") => "",
            Tok::Sym("+=") => "+",
            Tok::Sym("-=") => "-",
            Tok::Sym("*=") => "*",
            Tok::Sym("/=") => "/",
            Tok::Sym("%=") => "%",
            _ => {
                let bare = matches!(target.kind, ExprKind::Name(_) | ExprKind::Field(..));
                if bare && !self.panicking && self.begins_command() {
                    let name = self.text_of(target.span);
                    let message = format!("a call of `{name}` needs parentheses");
                    let hint = format!("write `{name}(…)`");
                    self.fault(Diagnostic::new("P0006", target.span, message).hint(hint));
                }
                return StmtKind::Expr(target);
            }
        };
        self.bump();
        let value = self.expr();
        StmtKind::Assign { target, op, value }
    }

    /// Whether an argument without parentheses follows.
    fn begins_command(&self) -> bool {
        !self.token().first && matches!(self.tok(), Tok::Name | Tok::Int | Tok::Float | Tok::Str)
    }

    /// A condition or a value before a block: a brace behind a name begins the block.
    fn condition(&mut self) -> Expr<'a> {
        let outer = std::mem::replace(&mut self.no_struct, true);
        let cond = self.expr();
        self.no_struct = outer;
        cond
    }

    fn if_chain(&mut self, start: Span) -> StmtKind<'a> {
        let mut arms = Vec::new();
        let mut otherwise = None;
        let mut from = start;
        // One `end` closes the whole chain of `do` blocks; each pair of braces closes itself.
        loop {
            self.eat_kw(Kw::If);
            let cond = self.condition();
            let (block, braces, closed) = self.part(from);
            arms.push((cond, block));
            if closed && !braces || self.panicking {
                break;
            }
            from = self.span();
            if !self.eat_kw(Kw::Else) {
                if !braces {
                    self.open.push(("if", start));
                    self.close(false);
                }
                break;
            }
            if self.is_kw(Kw::If) {
                continue;
            }
            // `else` needs no `do`.
            if self.is("{") {
                let (block, ..) = self.part(from);
                otherwise = Some(block);
            } else {
                let at = self.span();
                self.eat_kw(Kw::Do);
                self.open.push(("else", from));
                let (stmts, _) = self.statements(false);
                self.close(false);
                otherwise = Some(Block { stmts, span: at.to(self.last()) });
            }
            break;
        }
        StmtKind::If { arms, otherwise }
    }

    /// One part of an `if`: whether it has braces, and whether its `end` was found, which ends
    /// the whole chain. A following `else` is not consumed.
    fn part(&mut self, from: Span) -> (Block<'a>, bool, bool) {
        if self.is("{") {
            return (self.block("if", from), true, true);
        }
        let start = self.span();
        if self.is_kw(Kw::Then) {
            let fault = Diagnostic::new("P0007", start, "`then` is not used here");
            self.fault(fault.hint("write `do`"));
            self.bump();
        } else if !self.eat_kw(Kw::Do) {
            self.expected("`do`");
            return (Block { stmts: Vec::new(), span: start }, false, true);
        }
        self.open.push(("if", from));
        let (stmts, _) = self.statements(false);
        let closed = !self.is_kw(Kw::Else);
        if closed {
            self.close(false);
        } else {
            self.open.pop();
        }
        (Block { stmts, span: start.to(self.last()) }, false, closed)
    }

    fn for_loop(&mut self, start: Span) -> StmtKind<'a> {
        self.bump();
        let name = self.name("the name of the variable");
        if !self.eat_kw(Kw::In) {
            self.expected("`in`");
            return StmtKind::Error;
        }
        let outer = std::mem::replace(&mut self.no_struct, true);
        let over = self.range_or_expr();
        self.no_struct = outer;
        StmtKind::For { name, over, body: self.block("for", start) }
    }

    /// `a..b`, `a..<b`, or a value.
    fn range_or_expr(&mut self) -> Over<'a> {
        let from = self.expr();
        if self.is("||") {
            let message = "not supported yet: parallel ranges".to_owned();
            self.fault(Diagnostic::new("S4001", self.span(), message).hint("write `..<`"));
            self.bump();
            let to = self.expr();
            return Over::Range { from, to, inclusive: false };
        }
        match self.range_end() {
            Some(inclusive) => Over::Range { from, to: self.expr(), inclusive },
            None => Over::Each(from),
        }
    }

    /// The operator of a range, if one follows: whether it includes its end.
    pub(super) fn range_end(&mut self) -> Option<bool> {
        let inclusive = match self.tok() {
            Tok::Sym("..") | Tok::Sym("..=") => true,
            Tok::Sym("..<") => false,
            _ => return None,
        };
        self.bump();
        Some(inclusive)
    }

    fn match_on(&mut self, start: Span) -> StmtKind<'a> {
        self.bump();
        let value = self.condition();
        let braces = self.eat("{");
        if !braces && !self.eat_kw(Kw::Do) {
            self.expected("`{`");
            return StmtKind::Error;
        }
        self.open.push(("match", start));
        let mut arms = Vec::new();
        let end = |parser: &Self| match parser.tok() {
            Tok::Eof | Tok::Sym("}") | Tok::Keyword(Kw::End | Kw::Func) => true,
            _ => parser.panicking,
        };
        while !end(self) {
            let from = self.span();
            let pattern = self.pattern();
            let guard = self.eat_kw(Kw::When).then(|| self.expr());
            if !self.eat("=>") && !self.eat("->") {
                self.expected("`=>`");
                break;
            }
            let at = self.span();
            let body = if self.is("{") || self.is_kw(Kw::Do) {
                self.block("match", from)
            } else {
                let outer = std::mem::take(&mut self.no_struct);
                let stmt = self.deeper(Parser::statement);
                self.no_struct = outer;
                Block { stmts: stmt.into_iter().collect(), span: at.to(self.last()) }
            };
            self.eat(",");
            arms.push(Arm { pattern, guard, body, span: from.to(self.last()) });
        }
        self.close(braces);
        StmtKind::Match { value, arms }
    }

    fn pattern(&mut self) -> Pattern<'a> {
        let span = self.span();
        match self.tok() {
            Tok::Keyword(Kw::Else) => {
                self.bump();
                Pattern::Any
            }
            Tok::Name if self.text_of(span) == "_" => {
                self.bump();
                Pattern::Any
            }
            Tok::Name if self.ahead(1) != Tok::Sym(".") => Pattern::Bind(self.name("a pattern")),
            _ => Pattern::Value(self.unary()),
        }
    }

    fn select(&mut self, start: Span) -> StmtKind<'a> {
        self.bump();
        let braces = self.eat("{");
        if !braces && !self.eat_kw(Kw::Do) {
            self.expected("`do`");
            return StmtKind::Error;
        }
        self.open.push(("select", start));
        let mut cases = Vec::new();
        loop {
            let from = self.span();
            let kind = match self.tok() {
                Tok::Keyword(Kw::Case) => {
                    self.bump();
                    if self.is_kw(Kw::Timeout) { self.timeout() } else { self.channel_case() }
                }
                Tok::Keyword(Kw::Timeout) => self.timeout(),
                Tok::Keyword(Kw::Default) => {
                    self.bump();
                    CaseKind::Default
                }
                _ => break,
            };
            if self.panicking {
                break;
            }
            let body = self.block("case", from);
            cases.push(Case { kind, body, span: from.to(self.last()) });
        }
        self.close(braces);
        StmtKind::Select(cases)
    }

    fn timeout(&mut self) -> CaseKind<'a> {
        self.bump();
        self.expect("(");
        let time = self.expr();
        self.expect(")");
        CaseKind::Timeout(time)
    }

    /// `[v =] ch.recv()` or `ch.send(x)`.
    fn channel_case(&mut self) -> CaseKind<'a> {
        let named = self.tok() == Tok::Name && matches!(self.ahead(1), Tok::Sym("=" | ":="));
        let bind = named.then(|| {
            let name = self.name("a name");
            self.bump();
            name
        });
        let outer = std::mem::replace(&mut self.no_struct, true);
        let call = self.expr();
        self.no_struct = outer;
        let span = call.span;
        if let ExprKind::Call(callee, mut args) = call.kind
            && let ExprKind::Field(channel, method) = callee.kind
        {
            match (method.text, args.len()) {
                ("recv", 0) => return CaseKind::Recv { bind, channel: *channel },
                ("send", 1) if bind.is_none() => {
                    return CaseKind::Send { channel: *channel, value: args.remove(0) };
                }
                _ => {}
            }
        }
        let message = "a case is `ch.recv()`, `v = ch.recv()` or `ch.send(x)`";
        self.fault(Diagnostic::new("P0009", span, message));
        CaseKind::Default
    }
}
