//! The formatter: the canonical form of a program.
//!
//! It prints the tree: `do … end` for statements, braces for shapes, four spaces, one statement per
//! line, parentheses only where they are needed. Comments are kept: those at the end of a
//! statement's line stay there, all others get a line of their own before the next statement. At
//! most one blank line separates statements, where the source has one. Formatting the result again
//! changes nothing.

use crate::ast::{
    Arm, Block, Case, CaseKind, Expr, ExprKind, File, Func, Handler, Item, Over, Pattern, Stmt,
    StmtKind, TypeExpr, TypeKind,
};
use crate::lexer::Lexed;
use crate::parser::strength;
use crate::source::Span;

pub(crate) fn format(text: &str, file: &File<'_>, lexed: &Lexed) -> String {
    let mut printer =
        Printer { text, comments: &lexed.comments, out: String::new(), indent: 0, end: None };
    printer.file(file);
    printer.out
}

/// Longest statement that a one-line closure or arm may have.
const SHORT: usize = 60;

/// Longest array that stays on one line.
const LONG: usize = 72;

struct Printer<'a> {
    text: &'a str,
    /// Comments that are not printed yet.
    comments: &'a [Span],
    out: String,
    indent: usize,
    /// End of the last printed part in the source; `None` at the beginning of a block.
    end: Option<u32>,
}

impl Printer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out.push_str(&"    ".repeat(self.indent));
    }

    fn slice(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    fn newlines(&self, from: u32, to: u32) -> usize {
        let between = self.text.get(from as usize..to.max(from) as usize).unwrap_or_default();
        between.bytes().filter(|byte| *byte == b'\n').count()
    }

    /// Begins the line of a part of the source: comments before it, a blank line if there was one.
    fn begin(&mut self, start: u32) {
        while let Some((comment, rest)) = self.comments.split_first()
            && comment.start < start
        {
            self.comments = rest;
            self.separate(comment.start);
            let text = self.slice(*comment).trim_end().to_owned();
            self.line();
            self.put(&text);
            self.end = Some(comment.end);
        }
        self.separate(start);
        self.line();
    }

    fn separate(&mut self, start: u32) {
        if self.end.is_some_and(|end| self.newlines(end, start) > 1) {
            self.out.push('\n');
        }
    }

    /// Ends a part: a comment on the same line stays there.
    fn finish(&mut self, end: u32) {
        self.end = Some(end);
        if let Some((comment, rest)) = self.comments.split_first()
            && comment.start >= end
            && self.newlines(end, comment.end) == 0
            && self.text[end as usize..comment.start as usize]
                .trim_matches([' ', '\t', ',', ';'])
                .is_empty()
        {
            self.comments = rest;
            let text = self.slice(*comment).trim_end().to_owned();
            self.put(" ");
            self.put(&text);
            self.end = Some(comment.end);
        }
    }

    /// Comments up to the end of a block.
    fn comments_before(&mut self, end: u32) {
        while let Some((comment, rest)) = self.comments.split_first()
            && comment.start < end
        {
            self.comments = rest;
            self.separate(comment.start);
            let text = self.slice(*comment).trim_end().to_owned();
            self.line();
            self.put(&text);
            self.end = Some(comment.end);
        }
    }

    fn file(&mut self, file: &File<'_>) {
        if let Some(profile) = file.profile {
            let start = profile.span.start;
            // The directive begins before the name.
            let open = self.text[..start as usize]
                .rfind("{.")
                .or_else(|| self.text[..start as usize].rfind("profile"));
            self.begin(open.unwrap_or(0) as u32);
            self.put("{.profile: ");
            self.put(profile.text);
            self.put(".}");
            let rest = &self.text[profile.span.end as usize..];
            let close = rest.find(".}").filter(|at| rest[..*at].trim().is_empty());
            self.finish(profile.span.end + close.map_or(0, |at| at as u32 + 2));
        }
        for item in &file.items {
            self.begin(item.span().start);
            match item {
                Item::Func(func) => self.func(func),
                Item::Struct(shape) => {
                    self.put("struct ");
                    self.put(shape.name.text);
                    self.put(" {");
                    self.shape(shape.span, &shape.members, |printer, (name, ty)| {
                        printer.begin(name.span.start);
                        printer.put(name.text);
                        printer.put(": ");
                        printer.ty(ty);
                        printer.put(",");
                        printer.finish(ty.span.end);
                    });
                }
                Item::Error(shape) => {
                    self.put("error ");
                    self.put(shape.name.text);
                    self.put(" {");
                    self.shape(shape.span, &shape.members, |printer, name| {
                        printer.begin(name.span.start);
                        printer.put(name.text);
                        printer.put(",");
                        printer.finish(name.span.end);
                    });
                }
            }
            self.finish(item.span().end);
        }
        self.comments_before(u32::MAX);
        self.out.push('\n');
    }

    fn shape<T>(&mut self, span: Span, members: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.indent += 1;
        self.end = None;
        for member in members {
            each(self, member);
        }
        self.comments_before(span.end);
        self.indent -= 1;
        self.line();
        self.put("}");
    }

    fn func(&mut self, func: &Func<'_>) {
        if func.is_async {
            self.put("async ");
        }
        self.put("func");
        if !func.name.text.is_empty() {
            self.put(" ");
            self.put(func.name.text);
        }
        self.put("(");
        for (at, (name, ty)) in func.params.iter().enumerate() {
            if at > 0 {
                self.put(", ");
            }
            self.put(name.text);
            self.put(": ");
            self.ty(ty);
        }
        self.put(")");
        if let Some(result) = &func.result {
            self.put(" -> ");
            self.ty(result);
        }
        if let Some(error) = func.error {
            self.put(" ! ");
            self.put(error.text);
        }
        self.put(" ");
        if func.name.text.is_empty() {
            self.short_block(&func.body);
        } else {
            self.block(&func.body);
        }
    }

    /// A block on one line, if it has one short statement and no comment.
    fn short_block(&mut self, block: &Block<'_>) {
        let commented = self.comments.first().is_some_and(|c| c.start < block.span.end);
        if let [stmt] = &block.stmts[..]
            && !commented
        {
            let (outer, end) = (std::mem::take(&mut self.out), self.end);
            self.stmt(stmt);
            let text = std::mem::replace(&mut self.out, outer);
            self.end = end;
            if text.len() <= SHORT && !text.contains('\n') {
                self.put("do ");
                self.put(&text);
                self.put(" end");
                return;
            }
        }
        self.block(block);
    }

    fn block(&mut self, block: &Block<'_>) {
        self.put("do");
        self.body(block);
        self.put("end");
    }

    /// Statements, and a line for the word that ends them.
    fn body(&mut self, block: &Block<'_>) {
        self.indent += 1;
        self.end = None;
        for stmt in &block.stmts {
            self.begin(stmt.span.start);
            self.stmt(stmt);
            self.finish(stmt.span.end);
        }
        self.comments_before(block.span.end.saturating_sub(1));
        self.indent -= 1;
        self.line();
    }

    fn ty(&mut self, ty: &TypeExpr<'_>) {
        match &ty.kind {
            TypeKind::Name(name) => self.put(name),
            TypeKind::Array(of) => {
                self.put("[]");
                self.ty(of);
            }
            TypeKind::Optional(of) => {
                self.put("?");
                self.ty(of);
            }
            TypeKind::Of(name, of) => {
                self.put(name);
                self.put("[");
                self.ty(of);
                self.put("]");
            }
            TypeKind::Func(params, result) => {
                self.put("func(");
                for (at, param) in params.iter().enumerate() {
                    if at > 0 {
                        self.put(", ");
                    }
                    self.ty(param);
                }
                self.put(")");
                if let Some(result) = result {
                    self.put(" -> ");
                    self.ty(result);
                }
            }
            TypeKind::Error => self.put("_"),
        }
    }

    fn stmt(&mut self, stmt: &Stmt<'_>) {
        match &stmt.kind {
            StmtKind::Let { mutable, name, ty, value } => {
                self.put(if *mutable { "var " } else { "let " });
                self.put(name.text);
                if let Some(ty) = ty {
                    self.put(": ");
                    self.ty(ty);
                }
                self.put(" = ");
                self.expr(value, 0);
            }
            StmtKind::Assign { target, op, value } => {
                self.expr(target, 0);
                self.put(" ");
                self.put(op);
                self.put("= ");
                self.expr(value, 0);
            }
            StmtKind::Expr(expr) => self.expr(expr, 0),
            StmtKind::Return(value) => {
                self.put("return");
                if let Some(value) = value {
                    self.put(" ");
                    self.expr(value, 0);
                }
            }
            StmtKind::Fail(error) => {
                self.put("fail ");
                self.expr(error, 0);
            }
            StmtKind::Break => self.put("break"),
            StmtKind::Continue => self.put("continue"),
            StmtKind::Yield => self.put("yield"),
            StmtKind::Defer(call) => {
                self.put("defer ");
                self.expr(call, 0);
            }
            StmtKind::Guarded(inner, guard) => {
                self.stmt(inner);
                self.put(if guard.unless { " unless " } else { " when " });
                self.expr(&guard.cond, 0);
            }
            StmtKind::If { arms, otherwise } => self.if_chain(arms, otherwise.as_ref()),
            StmtKind::While { cond, body } => {
                self.put("while ");
                self.expr(cond, 0);
                self.put(" ");
                self.block(body);
            }
            StmtKind::For { name, over, body } => {
                self.put("for ");
                self.put(name.text);
                self.put(" in ");
                match over {
                    Over::Range { from, to, inclusive } => {
                        self.expr(from, 1);
                        self.put(if *inclusive { ".." } else { "..<" });
                        self.expr(to, 1);
                    }
                    Over::Each(of) => self.expr(of, 0),
                }
                self.put(" ");
                self.block(body);
            }
            StmtKind::Match { value, arms } => {
                self.put("match ");
                self.expr(value, 0);
                self.put(" {");
                self.members(stmt.span, arms, |printer, arm| {
                    printer.begin(arm.span.start);
                    printer.arm(arm);
                    printer.finish(arm.span.end);
                });
                self.put("}");
            }
            StmtKind::Select(cases) => {
                self.put("select do");
                self.members(stmt.span, cases, |printer, case| {
                    printer.begin(case.span.start);
                    printer.case(case);
                    printer.finish(case.span.end);
                });
                self.put("end");
            }
            StmtKind::Error => {}
        }
    }

    fn members<T>(&mut self, span: Span, all: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.indent += 1;
        self.end = None;
        for one in all {
            each(self, one);
        }
        self.comments_before(span.end.saturating_sub(1));
        self.indent -= 1;
        self.line();
    }

    fn if_chain(&mut self, arms: &[(Expr<'_>, Block<'_>)], otherwise: Option<&Block<'_>>) {
        for (at, (cond, body)) in arms.iter().enumerate() {
            self.put(if at == 0 { "if " } else { "else if " });
            self.expr(cond, 0);
            self.put(" do");
            self.body(body);
        }
        if let Some(body) = otherwise {
            self.put("else do");
            self.body(body);
        }
        self.put("end");
    }

    fn arm(&mut self, arm: &Arm<'_>) {
        match &arm.pattern {
            Pattern::Value(value) => self.expr(value, 0),
            Pattern::Bind(name) => self.put(name.text),
            Pattern::Any => self.put("else"),
        }
        if let Some(guard) = &arm.guard {
            self.put(" when ");
            self.expr(guard, 0);
        }
        self.put(" => ");
        match &arm.body.stmts[..] {
            [stmt] if self.comments.first().is_none_or(|c| c.start >= arm.body.span.end) => {
                self.stmt(stmt);
            }
            _ => self.block(&arm.body),
        }
        self.put(",");
    }

    fn case(&mut self, case: &Case<'_>) {
        match &case.kind {
            CaseKind::Recv { bind, channel } => {
                self.put("case ");
                if let Some(name) = bind {
                    self.put(name.text);
                    self.put(" = ");
                }
                self.expr(channel, 20);
                self.put(".recv() ");
            }
            CaseKind::Send { channel, value } => {
                self.put("case ");
                self.expr(channel, 20);
                self.put(".send(");
                self.expr(value, 0);
                self.put(") ");
            }
            CaseKind::Timeout(time) => {
                self.put("timeout(");
                self.expr(time, 0);
                self.put(") ");
            }
            CaseKind::Default => self.put("default "),
        }
        self.block(&case.body);
    }

    /// An expression in a place that needs at least this binding strength: 0 anything, 1 to 12
    /// operators, 13 unary, 14 a pipe, 20 postfix.
    fn expr(&mut self, expr: &Expr<'_>, least: u8) {
        let own = match &expr.kind {
            ExprKind::Catch(..) => 0,
            ExprKind::Binary(op, ..) => strength(op),
            ExprKind::Unary(..) | ExprKind::Await(_) | ExprKind::Spawn(_) | ExprKind::Async(_) => {
                13
            }
            ExprKind::Pipe(..) => 14,
            _ => 20,
        };
        if own < least {
            self.put("(");
            self.bare(expr);
            self.put(")");
        } else {
            self.bare(expr);
        }
    }

    fn bare(&mut self, expr: &Expr<'_>) {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Str(_) => {
                let text = self.slice(expr.span).to_owned();
                self.put(&text);
            }
            ExprKind::Interp(texts, parts) => self.interpolated(texts, parts),
            ExprKind::Bool(value) => self.put(if *value { "true" } else { "false" }),
            ExprKind::Name(name) => self.put(name),
            ExprKind::Unary(op, inner) => {
                self.put(op);
                if *op == "not" {
                    self.put(" ");
                }
                self.expr(inner, 13);
            }
            ExprKind::Binary(op, left, right) => {
                let own = strength(op);
                let (more_left, more_right) = if *op == "**" { (1, 0) } else { (0, 1) };
                self.expr(left, own + more_left);
                self.put(" ");
                self.put(op);
                self.put(" ");
                self.expr(right, own + more_right);
            }
            ExprKind::Call(callee, args) => {
                self.expr(callee, 20);
                self.put("(");
                self.list(args);
                self.put(")");
            }
            ExprKind::Pipe(left, right) => {
                self.expr(left, 14);
                self.put(" |> ");
                self.expr(right, 20);
            }
            ExprKind::Field(of, name) => {
                self.expr(of, 20);
                self.put(".");
                self.put(name.text);
            }
            ExprKind::Index(of, index) => {
                self.expr(of, 20);
                self.put("[");
                self.expr(index, 0);
                self.put("]");
            }
            ExprKind::Slice { of, from, to, inclusive } => {
                self.expr(of, 20);
                self.put("[");
                self.expr(from, 1);
                self.put(if *inclusive { ".." } else { "..<" });
                self.expr(to, 1);
                self.put("]");
            }
            ExprKind::Array(items) => {
                let outer = std::mem::take(&mut self.out);
                self.list(items);
                let text = std::mem::replace(&mut self.out, outer);
                self.put("[");
                if text.len() <= LONG && !text.contains('\n') {
                    self.put(&text);
                } else {
                    self.indent += 1;
                    for item in items {
                        self.line();
                        self.expr(item, 0);
                        self.put(",");
                    }
                    self.indent -= 1;
                    self.line();
                }
                self.put("]");
            }
            ExprKind::Struct(name, fields) => {
                self.put(name.text);
                self.put(if fields.is_empty() { " {" } else { " { " });
                for (at, (field, value)) in fields.iter().enumerate() {
                    if at > 0 {
                        self.put(", ");
                    }
                    self.put(field.text);
                    self.put(": ");
                    self.expr(value, 0);
                }
                self.put(if fields.is_empty() { "}" } else { " }" });
            }
            ExprKind::Closure(func) => self.func(func),
            ExprKind::Await(inner) => {
                self.put("await ");
                self.expr(inner, 13);
            }
            ExprKind::Spawn(inner) => {
                self.put("spawn ");
                self.expr(inner, 13);
            }
            ExprKind::Async(inner) => {
                self.put("async ");
                self.expr(inner, 13);
            }
            ExprKind::Try(inner) => {
                self.expr(inner, 20);
                self.put("?");
            }
            ExprKind::Catch(inner, handler) => {
                self.expr(inner, 0);
                self.catch(handler);
            }
            ExprKind::Nursery(nursery) => {
                self.put("nursery ");
                if let Some(name) = nursery.name {
                    self.put("|");
                    self.put(name.text);
                    self.put("| ");
                }
                if let Some(with) = &nursery.with {
                    self.put("with ");
                    self.expr(with, 0);
                    self.put(" ");
                }
                self.block(&nursery.body);
                if let Some(handler) = &nursery.catch {
                    self.catch(handler);
                }
            }
            ExprKind::Error => {}
        }
    }

    fn catch(&mut self, handler: &Handler<'_>) {
        self.put(" catch ");
        if let Some(name) = handler.name {
            self.put("|");
            self.put(name.text);
            self.put("| ");
        }
        self.block(&handler.body);
    }

    fn list(&mut self, items: &[Expr<'_>]) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.put(", ");
            }
            self.expr(item, 0);
        }
    }

    fn interpolated(&mut self, texts: &[String], parts: &[Expr<'_>]) {
        self.put("$\"");
        for (at, text) in texts.iter().enumerate() {
            for c in text.chars() {
                match c {
                    '\n' => self.put("\\n"),
                    '\t' => self.put("\\t"),
                    '\r' => self.put("\\r"),
                    '\0' => self.put("\\0"),
                    '\\' | '"' | '{' | '}' => {
                        self.out.push('\\');
                        self.out.push(c);
                    }
                    c => self.out.push(c),
                }
            }
            if let Some(part) = parts.get(at) {
                self.put("{");
                self.expr(part, 0);
                self.put("}");
            }
        }
        self.put("\"");
    }
}
