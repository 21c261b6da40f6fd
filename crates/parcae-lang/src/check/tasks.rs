//! Tasks: `spawn`, `async`, `await`, nurseries and their budgets.

use super::expr::{nothing, typed};
use super::{Checker, split};
use crate::ast::{self, ExprKind};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, Callee, ExprKind as H};
use crate::source::Span;
use crate::types::Ty;
use std::rc::Rc;

impl<'a> Checker<'a, '_> {
    pub(super) fn awaiting(&mut self, inner: &ast::Expr<'a>, span: Span) -> hir::Expr {
        if !self.state().is_async {
            let fault = Diagnostic::new("N1002", span, "`await` outside of an async function");
            self.fault(fault.hint("write `async func`"));
        }
        // A call runs in this task; a handle is joined.
        if let ExprKind::Call(callee, args) = &inner.kind {
            let args: Vec<&ast::Expr<'a>> = args.iter().collect();
            let value = self.call_async(callee, &args, None, inner.span);
            if !matches!(value.ty, Ty::Task(_)) {
                return value;
            }
            return self.join(value, span);
        }
        let value = self.value(inner, None);
        self.join(value, span)
    }

    fn join(&mut self, task: hir::Expr, span: Span) -> hir::Expr {
        let ty = match &task.ty {
            Ty::Task(of) => (**of).clone(),
            Ty::Unknown => Ty::Unknown,
            other => {
                let message = format!("`{}` cannot be awaited", self.shapes.show(other));
                let fault = Diagnostic::new("S2001", task.span, message);
                self.fault(fault.hint("`await` takes a handle from `spawn`, or a call"));
                Ty::Unknown
            }
        };
        typed(H::Await(Box::new(task)), ty, span)
    }

    pub(super) fn spawn(&mut self, inner: &ast::Expr<'a>, is_async: bool, span: Span) -> hir::Expr {
        let word = if is_async { "async" } else { "spawn" };
        if self.state().nurseries == 0 {
            let message = format!("`{word}` outside of a nursery");
            let hint = "put it into `nursery do … end`, which waits for the task";
            self.fault(Diagnostic::new("N1001", span, message).hint(hint));
        }
        let literal = match &inner.kind {
            ExprKind::Closure(func) => Some(func),
            ExprKind::Call(callee, args) if args.is_empty() => match &callee.kind {
                ExprKind::Closure(func) => Some(func),
                _ => None,
            },
            _ => None,
        };
        if let Some(func) = literal {
            return self.spawn_literal(func, is_async, span);
        }
        let ExprKind::Call(callee, args) = &inner.kind else {
            let fault = Diagnostic::new("S2012", inner.span, format!("`{word}` needs a call"));
            self.fault(fault.hint(format!("write `{word} f(x)`")));
            return nothing(span);
        };
        let named = match callee.kind {
            ExprKind::Name(name) if self.resolve(name).is_none() => self.funcs.get(name).copied(),
            _ => None,
        };
        let Some(id) = named else {
            if let ExprKind::Name(name) = callee.kind
                && self.is_unknown(name)
            {
                let args: Vec<&ast::Expr<'a>> = args.iter().collect();
                self.call_async(callee, &args, None, inner.span); // there is no such function
                return nothing(span);
            }
            let message = "not supported yet: spawning anything but a named function or a literal";
            let fault = Diagnostic::new("S4001", callee.span, message);
            self.fault(fault.hint("write `spawn func() do … end`"));
            return nothing(span);
        };
        let args: Vec<&ast::Expr<'a>> = args.iter().collect();
        let args = self.arguments(id, &args, inner.span);
        for arg in &args {
            self.sendable(&arg.ty, arg.span);
        }
        let (value, _) = split(&self.signatures[id].result);
        self.sendable(&value, inner.span);
        let ty = Ty::Task(Rc::new(value));
        typed(H::Spawn { callee: Callee::Func(id), args, is_async }, ty, span)
    }

    fn spawn_literal(&mut self, func: &ast::Func<'a>, is_async: bool, span: Span) -> hir::Expr {
        if !func.params.is_empty() {
            let message = "a spawned function literal has no parameters";
            self.fault(Diagnostic::new("S2012", func.span, message));
        }
        let (id, captures, ty) = self.closure(func);
        for (outer, _) in &captures {
            let local = &self.state().locals[*outer];
            let (name, ty, mutable) = (local.name.clone(), local.ty.clone(), local.mutable);
            if mutable {
                let message = format!("the spawned function uses the variable `{name}`");
                let hint = format!("two tasks would share it: copy it first, `let copy = {name}`");
                self.fault(Diagnostic::new("N1003", func.span, message).hint(hint));
            }
            self.sendable(&ty, func.span);
        }
        let value = match &ty {
            Ty::Func(signature) => signature.1.clone(),
            _ => Ty::Unknown,
        };
        let captures = captures.into_iter().map(|(outer, _)| outer).collect();
        let callee = Callee::Closure(id, captures);
        typed(H::Spawn { callee, args: Vec::new(), is_async }, Ty::Task(Rc::new(value)), span)
    }

    pub(super) fn nursery(&mut self, nursery: &ast::NurseryExpr<'a>, span: Span) -> hir::Expr {
        let mut budget = [const { None }; 5];
        if let Some(with) = &nursery.with {
            self.budget(with, &mut budget);
        }
        self.state().scopes.push(Vec::new());
        let name = nursery.name.map(|name| self.local(name.text, Ty::Nursery, false, name.span));
        self.state().nurseries += 1;
        let (body, _) = self.block(&nursery.body, false);
        self.state().nurseries -= 1;
        self.state().scopes.pop();
        let failing = spawns_fallible(self, &body);
        if let Some((span, error)) = failing
            && nursery.catch.is_none()
        {
            let name = &self.shapes.errors[error].name;
            let message =
                format!("a task of this nursery can fail with `{name}`, which is not handled");
            let fault = Diagnostic::new("S3004", span, message);
            self.faults.add(fault.hint("add `catch |e| do … end` behind the nursery"));
        }
        let catch = nursery.catch.as_ref().map(|handler| {
            self.state().scopes.push(Vec::new());
            let name = handler.name.map_or("_", |name| name.text);
            let place = handler.name.map_or(span, |name| name.span);
            let local = self.local(name, Ty::Failure, false, place);
            let (body, _) = self.block(&handler.body, false);
            self.state().scopes.pop();
            (local, body)
        });
        let kind = H::Nursery(Box::new(hir::Nursery { name, budget, body, catch }));
        typed(kind, Ty::I64, span)
    }

    /// The components of `with Budget { … }`.
    fn budget(&mut self, with: &ast::Expr<'a>, budget: &mut [Option<hir::Expr>; 5]) {
        let ExprKind::Struct(name, fields) = &with.kind else {
            let message = "not supported yet: nurseries under a capability";
            let fault = Diagnostic::new("S4001", with.span, message);
            self.fault(fault.hint("write `nursery with Budget { ops: … } do`"));
            return;
        };
        if name.text != "Budget" {
            let message = format!("expected `Budget`, found `{}`", name.text);
            self.fault(Diagnostic::new("S2001", name.span, message));
        }
        const NAMES: [&str; 5] = ["ops", "memory", "spawn_count", "channel_ops", "syscalls"];
        for (field, value) in fields {
            let value = self.value(value, Some(&Ty::I64));
            match NAMES.iter().position(|known| *known == field.text) {
                Some(at) => budget[at] = Some(value),
                None => {
                    let message = format!("a budget has no component `{}`", field.text);
                    let hint = format!("the components are: {}", NAMES.join(", "));
                    self.fault(Diagnostic::new("S1001", field.span, message).hint(hint));
                }
            }
        }
    }
}

/// A spawn of a function that can fail, in these statements and those inside of them, but not in
/// nurseries inside, which report it themselves.
fn spawns_fallible(checker: &Checker<'_, '_>, body: &[hir::Stmt]) -> Option<(Span, usize)> {
    use hir::StmtKind as S;
    let in_expr = |expr: &hir::Expr| match &expr.kind {
        H::Spawn { callee: Callee::Func(id), .. } => match &checker.signatures[*id].result {
            Ty::Fallible(_, error) => Some((expr.span, *error)),
            _ => None,
        },
        _ => None,
    };
    let within = |body: &[hir::Stmt]| spawns_fallible(checker, body);
    body.iter().find_map(|stmt| match &stmt.kind {
        S::Let(_, expr) | S::Assign(_, expr) | S::Expr(expr) => in_expr(expr),
        S::Block(body) | S::While(_, body) => within(body),
        S::ForRange { body, .. } | S::ForEach { body, .. } | S::ForChannel { body, .. } => {
            within(body)
        }
        S::If(arms, rest) => {
            arms.iter().find_map(|(_, body)| within(body)).or_else(|| within(rest))
        }
        S::Match(_, _, arms) => arms.iter().find_map(|arm| within(&arm.body)),
        S::Select(cases) => cases.iter().find_map(|(_, body)| within(body)),
        _ => None,
    })
}
