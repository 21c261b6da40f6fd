//! Statements. Each says whether control can come out of its end.

use super::{Checker, Want};
use crate::ast::{self, Block, CaseKind, ExprKind, Over, Pattern, Stmt, StmtKind};
use crate::diagnostic::Diagnostic;
use crate::hir;
use crate::hir::StmtKind as H;
use crate::source::Span;
use crate::types::Ty;

impl<'a> Checker<'a, '_> {
    /// A block in a scope of its own; and whether control comes out of its end. With `tail` its
    /// last expression is the value of the function.
    pub(super) fn block(&mut self, block: &Block<'a>, tail: bool) -> (Vec<hir::Stmt>, bool) {
        self.state().scopes.push(Vec::new());
        let checked = self.stmts(&block.stmts, tail);
        self.state().scopes.pop();
        checked
    }

    pub(super) fn stmts(&mut self, stmts: &[Stmt<'a>], tail: bool) -> (Vec<hir::Stmt>, bool) {
        let mut out = Vec::with_capacity(stmts.len());
        let mut ends = true;
        for (at, stmt) in stmts.iter().enumerate() {
            let last = tail && at + 1 == stmts.len();
            if let Some((kind, goes_on)) = self.stmt(stmt, last) {
                out.push(hir::Stmt { kind, span: stmt.span });
                ends &= goes_on;
            }
        }
        (out, ends)
    }

    fn stmt(&mut self, stmt: &Stmt<'a>, tail: bool) -> Option<(H, bool)> {
        Some(match &stmt.kind {
            StmtKind::Let { mutable, name, ty, value } => {
                let want = ty.as_ref().map(|ty| self.ty(ty));
                let value = self.value(value, want.as_ref());
                let ty = want.unwrap_or_else(|| value.ty.clone());
                if ty == Ty::Void {
                    let message = format!("`{}` would have no value", name.text);
                    self.fault(Diagnostic::new("S2002", value.span, message));
                }
                self.shadowing(name, *mutable);
                let goes_on = value.ty != Ty::Never;
                let local = self.local(name.text, ty, *mutable, name.span);
                (H::Let(local, value), goes_on)
            }
            StmtKind::Assign { target, op, value } => {
                (self.assign(target, op, value, stmt.span)?, true)
            }
            StmtKind::Expr(expr) => self.expr_stmt(expr, tail),
            StmtKind::Return(value) => (self.ret(value.as_ref(), stmt.span), false),
            StmtKind::Fail(error) => (self.fail(error, stmt.span)?, false),
            StmtKind::Break | StmtKind::Continue => {
                let is_break = matches!(stmt.kind, StmtKind::Break);
                let Some(found) = self.state().loops.last_mut() else {
                    let word = if is_break { "break" } else { "continue" };
                    let message = format!("`{word}` outside of a loop");
                    self.fault(Diagnostic::new("S1005", stmt.span, message));
                    return None;
                };
                *found |= is_break;
                (if is_break { H::Break } else { H::Continue }, false)
            }
            StmtKind::Yield => (H::Yield, true),
            StmtKind::Defer(call) => {
                let expr = self.expr(call, None);
                self.state().defers += 1;
                if self.state().defers > 64 {
                    let message = "a function has at most 64 deferred calls";
                    self.fault(Diagnostic::new("S4002", stmt.span, message));
                }
                let fallible = matches!(expr.ty, Ty::Fallible(..));
                let is_call = matches!(
                    expr.kind,
                    hir::ExprKind::Call(..)
                        | hir::ExprKind::CallValue(..)
                        | hir::ExprKind::Builtin(..)
                        | hir::ExprKind::Nothing
                );
                if !is_call || fallible {
                    let message = if fallible {
                        "a deferred call cannot fail: it has no caller"
                    } else {
                        "`defer` needs a call"
                    };
                    self.fault(Diagnostic::new("S1006", expr.span, message));
                }
                (H::Defer(expr), true)
            }
            StmtKind::Guarded(inner, guard) => {
                let mut cond = self.value(&guard.cond, Some(&Ty::Bool));
                if guard.unless {
                    let span = cond.span;
                    let kind = hir::ExprKind::Not(Box::new(cond));
                    cond = hir::Expr { kind, ty: Ty::Bool, span };
                }
                let (kind, _) = self.stmt(inner, false)?;
                let then = vec![hir::Stmt { kind, span: inner.span }];
                (H::If(vec![(cond, then)], Vec::new()), true)
            }
            StmtKind::If { arms, otherwise } => self.if_chain(arms, otherwise.as_ref(), tail),
            StmtKind::While { cond, body } => {
                let endless = matches!(cond.kind, ExprKind::Bool(true));
                let cond = self.value(cond, Some(&Ty::Bool));
                self.state().loops.push(false);
                let (body, _) = self.block(body, false);
                let broken = self.state().loops.pop().unwrap_or(false);
                (H::While(cond, body), !endless || broken)
            }
            StmtKind::For { name, over, body } => (self.for_loop(name, over, body), true),
            StmtKind::Match { value, arms } => self.match_on(value, arms, tail, stmt.span),
            StmtKind::Select(cases) => self.select(cases, stmt.span),
            StmtKind::Error => return None,
        })
    }

    /// `let` may shadow `let`, `var` may shadow `var`; in the same scope the kinds do not mix.
    fn shadowing(&mut self, name: &ast::Name<'a>, mutable: bool) {
        let state = self.state();
        let scope = state.scopes.last().expect("a scope");
        let known = scope.iter().rev().find(|(known, _)| *known == name.text);
        if known.is_some_and(|(_, id)| state.locals[*id].mutable != mutable) {
            let (old, new) = if mutable { ("let", "var") } else { ("var", "let") };
            let message = format!("`{new} {0}` shadows `{old} {0}`", name.text);
            let hint = "use another name: the kinds of variables do not mix";
            self.fault(Diagnostic::new("S2005", name.span, message).hint(hint));
        }
    }

    fn expr_stmt(&mut self, expr: &ast::Expr<'a>, tail: bool) -> (H, bool) {
        if !tail {
            let value = self.discarded(expr);
            let goes_on = value.ty != Ty::Never;
            return (H::Expr(value), goes_on);
        }
        let want = match &self.state().result {
            Want::Known(ty) => Some(ty.clone()),
            Want::Infer(known) => known.clone(),
        };
        let infer = matches!(self.state().result, Want::Infer(_));
        if infer && want.is_none() {
            let value = self.discarded(expr);
            if matches!(value.ty, Ty::Void | Ty::Never) {
                let goes_on = value.ty != Ty::Never;
                return (H::Expr(value), goes_on);
            }
            self.state().result = Want::Infer(Some(value.ty.clone()));
            return (H::Return(Some(value)), false);
        }
        let value = self.value(expr, want.as_ref());
        if value.ty == Ty::Never {
            (H::Expr(value), false)
        } else {
            (H::Return(Some(value)), false)
        }
    }

    /// An expression whose value is not used: an error in it must be handled nevertheless.
    fn discarded(&mut self, expr: &ast::Expr<'a>) -> hir::Expr {
        let value = self.expr(expr, None);
        self.handled(value)
    }

    fn ret(&mut self, value: Option<&ast::Expr<'a>>, span: Span) -> H {
        let want = match &self.state().result {
            Want::Known(ty) => Some(ty.clone()),
            Want::Infer(known) => known.clone(),
        };
        match (value, want) {
            (None, None) => {
                self.state().result = Want::Infer(Some(Ty::Void));
                H::Return(None)
            }
            (None, Some(Ty::Void | Ty::Unknown)) => H::Return(None),
            (None, Some(want)) => {
                self.mismatch(span, &want, &Ty::Void);
                H::Return(None)
            }
            (Some(value), None) => {
                let value = self.value(value, None);
                self.state().result = Want::Infer(Some(value.ty.clone()));
                H::Return(Some(value))
            }
            (Some(value), Some(want)) => {
                let value = self.value(value, Some(&want));
                if want == Ty::Void && value.ty == Ty::Void {
                    return H::Block(vec![
                        hir::Stmt { kind: H::Expr(value), span },
                        hir::Stmt { kind: H::Return(None), span },
                    ]);
                }
                H::Return(Some(value))
            }
        }
    }

    fn fail(&mut self, error: &ast::Expr<'a>, span: Span) -> Option<H> {
        let error = self.value(error, None);
        let Some(set) = self.state().error else {
            let fault = Diagnostic::new("S3002", span, "this function cannot fail");
            self.fault(fault.hint("declare the error set: `func f() -> T ! E do`"));
            return None;
        };
        if !error.ty.fits(&Ty::Error(set)) {
            self.mismatch(error.span, &Ty::Error(set), &error.ty);
        }
        Some(H::Fail(error))
    }

    fn assign(
        &mut self,
        target: &ast::Expr<'a>,
        op: &'static str,
        value: &ast::Expr<'a>,
        span: Span,
    ) -> Option<H> {
        let (place, ty) = self.place(target)?;
        if op.is_empty() {
            let value = self.value(value, Some(&ty));
            return Some(H::Assign(place, value));
        }
        // The target is read and written: `a[f()] += 1` would call `f` twice.
        if let hir::Root::Element(array, index) = &place.root
            && !(is_simple(array) && is_simple(index))
        {
            let message = "not supported yet: this target for a combined assignment";
            let hint = "put the array and the index into variables first";
            self.fault(Diagnostic::new("S4001", target.span, message).hint(hint));
            return None;
        }
        let old = self.expr(target, None);
        let value = self.binary_with(op, old, value, span);
        if !value.ty.fits(&ty) {
            self.mismatch(span, &ty, &value.ty);
        }
        Some(H::Assign(place, value))
    }

    /// The target of an assignment, and its type.
    fn place(&mut self, target: &ast::Expr<'a>) -> Option<(hir::Place, Ty)> {
        match &target.kind {
            ExprKind::Name(name) => {
                let Some(id) = self.resolve(name) else {
                    let message = format!("there is no variable `{name}`");
                    self.fault(Diagnostic::new("S1001", target.span, message));
                    return None;
                };
                let local = &self.state().locals[id];
                let ty = local.ty.clone();
                if !local.mutable {
                    let message = format!("`{name}` cannot be assigned: it is not a `var`");
                    let fault = Diagnostic::new("S2004", target.span, message);
                    self.fault(fault.hint("declare it by `var`"));
                }
                Some((hir::Place { root: hir::Root::Local(id), fields: Vec::new() }, ty))
            }
            ExprKind::Index(array, index) => {
                let array = self.value(array, None);
                let index = self.value(index, Some(&Ty::I64));
                let ty = match &array.ty {
                    Ty::Array(of) => (**of).clone(),
                    Ty::Unknown => Ty::Unknown,
                    other => {
                        let other = other.clone();
                        let message = format!(
                            "elements of `{}` cannot be assigned",
                            self.shapes.show(&other)
                        );
                        self.fault(Diagnostic::new("S2001", target.span, message));
                        return None;
                    }
                };
                let root = hir::Root::Element(Box::new(array), Box::new(index));
                Some((hir::Place { root, fields: Vec::new() }, ty))
            }
            ExprKind::Field(of, name) => {
                let (mut place, ty) = self.place(of)?;
                let (id, field, ty) = self.field_of(&ty, name)?;
                place.fields.push((id, field));
                Some((place, ty))
            }
            ExprKind::Error => None,
            _ => {
                let message = "this cannot be assigned";
                let fault = Diagnostic::new("S2004", target.span, message);
                self.fault(fault.hint("a target is a variable, an element or a field"));
                None
            }
        }
    }

    fn if_chain(
        &mut self,
        arms: &[(ast::Expr<'a>, Block<'a>)],
        otherwise: Option<&Block<'a>>,
        tail: bool,
    ) -> (H, bool) {
        let tail = tail && otherwise.is_some();
        let mut ends = otherwise.is_none();
        let mut checked = Vec::with_capacity(arms.len());
        for (cond, body) in arms {
            let cond = self.value(cond, Some(&Ty::Bool));
            let (body, goes_on) = self.block(body, tail);
            ends |= goes_on;
            checked.push((cond, body));
        }
        let rest = otherwise.map_or(Vec::new(), |body| {
            let (body, goes_on) = self.block(body, tail);
            ends |= goes_on;
            body
        });
        (H::If(checked, rest), ends)
    }

    fn for_loop(&mut self, name: &ast::Name<'a>, over: &Over<'a>, body: &Block<'a>) -> H {
        let (range, each, ty) = match over {
            Over::Range { from, to, inclusive } => {
                let from = self.value(from, None);
                let to = self.value(to, Some(&from.ty.clone()));
                let ty = from.ty.clone();
                if !ty.is_integer() && ty != Ty::Unknown {
                    self.mismatch(from.span, &Ty::I64, &ty);
                }
                (Some((from, to, *inclusive)), None, ty)
            }
            Over::Each(of) => {
                let of = self.value(of, None);
                let ty = match &of.ty {
                    Ty::Array(item) | Ty::Channel(item) => (**item).clone(),
                    Ty::Unknown => Ty::Unknown,
                    other => {
                        let message = format!("`{}` cannot be iterated", self.shapes.show(other));
                        let fault = Diagnostic::new("S2001", of.span, message);
                        self.fault(fault.hint("loops go over ranges, arrays and channels"));
                        Ty::Unknown
                    }
                };
                (None, Some(of), ty)
            }
        };
        self.state().scopes.push(Vec::new());
        let local = self.local(name.text, ty, false, name.span);
        self.state().loops.push(false);
        let (body, _) = self.block(body, false);
        self.state().loops.pop();
        self.state().scopes.pop();
        match (range, each) {
            (Some((from, to, inclusive)), _) => H::ForRange { local, from, to, inclusive, body },
            (_, Some(of)) if matches!(of.ty, Ty::Channel(_)) => {
                H::ForChannel { local, channel: of, body }
            }
            (_, Some(of)) => H::ForEach { local, of, body },
            _ => H::Block(Vec::new()),
        }
    }

    fn match_on(
        &mut self,
        value: &ast::Expr<'a>,
        arms: &[ast::Arm<'a>],
        tail: bool,
        span: Span,
    ) -> (H, bool) {
        let value = self.value(value, None);
        let ty = value.ty.clone();
        self.state().scopes.push(Vec::new());
        // A name that no program can have.
        let subject = self.local(" match", ty.clone(), false, span);
        let read = |span| hir::Expr { kind: hir::ExprKind::Local(subject), ty: ty.clone(), span };
        let complete = self.is_complete(&ty, arms);
        if !complete {
            let fault = Diagnostic::new("S2007", span, "this `match` does not cover all values");
            self.fault(fault.hint("add a last arm `else => …`"));
        }
        let mut checked = Vec::with_capacity(arms.len());
        let mut ends = !complete;
        for arm in arms {
            self.state().scopes.push(Vec::new());
            let (mut test, mut bind) = (None, None);
            match &arm.pattern {
                Pattern::Any => {}
                Pattern::Bind(name) => {
                    bind = Some(self.local(name.text, ty.clone(), false, name.span));
                }
                Pattern::Value(pattern) => {
                    test = Some(self.binary_with("==", read(pattern.span), pattern, pattern.span));
                }
            }
            let guard = arm.guard.as_ref().map(|guard| self.value(guard, Some(&Ty::Bool)));
            let (body, goes_on) = self.block(&arm.body, tail);
            ends |= goes_on;
            self.state().scopes.pop();
            checked.push(hir::Arm { test, bind, guard, body });
        }
        self.state().scopes.pop();
        (H::Match(subject, value, checked), ends)
    }

    /// Whether the arms cover all values: by an arm without a test, or by all errors of a set.
    fn is_complete(&self, ty: &Ty, arms: &[ast::Arm<'a>]) -> bool {
        let free = arms.iter().filter(|arm| arm.guard.is_none());
        if free.clone().any(|arm| !matches!(arm.pattern, Pattern::Value(_))) {
            return true;
        }
        let count = |name: &dyn Fn(&ExprKind<'a>) -> Option<String>| {
            let mut found: Vec<String> = free
                .clone()
                .filter_map(|arm| match &arm.pattern {
                    Pattern::Value(value) => name(&value.kind),
                    _ => None,
                })
                .collect();
            found.sort();
            found.dedup();
            found.len()
        };
        match ty {
            Ty::Error(set) => {
                let variant = |kind: &ExprKind<'a>| match kind {
                    ExprKind::Field(_, name) => Some(name.text.to_owned()),
                    _ => None,
                };
                count(&variant) == self.shapes.errors[*set].variants.len()
            }
            Ty::Bool => {
                let value = |kind: &ExprKind<'a>| match kind {
                    ExprKind::Bool(value) => Some(value.to_string()),
                    _ => None,
                };
                count(&value) == 2
            }
            Ty::Unknown => true,
            _ => false,
        }
    }

    fn select(&mut self, cases: &[ast::Case<'a>], span: Span) -> (H, bool) {
        let mut checked = Vec::new();
        let mut ends = cases.is_empty();
        let defaults = cases.iter().filter(|case| matches!(case.kind, CaseKind::Default)).count();
        let timeouts =
            cases.iter().filter(|case| matches!(case.kind, CaseKind::Timeout(_))).count();
        if cases.is_empty() || defaults > 1 || timeouts > 1 || cases.len() > 64 {
            let message = "a `select` has 1 to 64 cases, at most one `default` and one `timeout`";
            self.fault(Diagnostic::new("S1007", span, message));
        }
        for case in cases {
            self.state().scopes.push(Vec::new());
            let kind = match &case.kind {
                CaseKind::Recv { bind, channel } => {
                    let channel = self.value(channel, None);
                    let item = self.item_of(&channel);
                    let local = bind.map(|name| self.local(name.text, item, false, name.span));
                    hir::CaseKind::Recv(local, channel)
                }
                CaseKind::Send { channel, value } => {
                    let channel = self.value(channel, None);
                    let item = self.item_of(&channel);
                    let value = self.value(value, Some(&item));
                    hir::CaseKind::Send(channel, value)
                }
                CaseKind::Timeout(time) => hir::CaseKind::Timeout(self.value(time, Some(&Ty::I64))),
                CaseKind::Default => hir::CaseKind::Default,
            };
            let (body, goes_on) = self.block(&case.body, false);
            ends |= goes_on;
            self.state().scopes.pop();
            checked.push((kind, body));
        }
        (H::Select(checked), ends)
    }

    fn item_of(&mut self, channel: &hir::Expr) -> Ty {
        match &channel.ty {
            Ty::Channel(item) => (**item).clone(),
            Ty::Unknown => Ty::Unknown,
            other => {
                let message = format!("expected a channel, found `{}`", self.shapes.show(other));
                self.fault(Diagnostic::new("S2001", channel.span, message));
                Ty::Unknown
            }
        }
    }
}

/// Whether reading an expression twice is the same as reading it once.
fn is_simple(expr: &hir::Expr) -> bool {
    match &expr.kind {
        hir::ExprKind::Local(_) | hir::ExprKind::Int(_) => true,
        hir::ExprKind::Field(of, _) | hir::ExprKind::Neg(of) => is_simple(of),
        hir::ExprKind::Index(of, index) => is_simple(of) && is_simple(index),
        hir::ExprKind::Binary(_, left, right) => is_simple(left) && is_simple(right),
        _ => false,
    }
}
