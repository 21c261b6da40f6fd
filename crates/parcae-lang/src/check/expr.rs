//! Expressions.

use super::{Checker, Want, split};
use crate::ast::{self, ExprKind, Name};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, BinOp, Builtin, ExprKind as H};
use crate::source::Span;
use crate::types::Ty;
use std::rc::Rc;

pub(super) fn typed(kind: H, ty: Ty, span: Span) -> hir::Expr {
    hir::Expr { kind, ty, span }
}

pub(super) fn nothing(span: Span) -> hir::Expr {
    typed(H::Nothing, Ty::Unknown, span)
}

impl<'a> Checker<'a, '_> {
    /// An expression of which a value is needed: its errors are handled, its type fits.
    pub(super) fn value(&mut self, expr: &ast::Expr<'a>, want: Option<&Ty>) -> hir::Expr {
        let value = self.expr(expr, want);
        let value = self.handled(value);
        if let Some(want) = want
            && !value.ty.fits(want)
        {
            self.mismatch(value.span, want, &value.ty);
        }
        value
    }

    /// Reports an error that is not handled.
    pub(super) fn handled(&mut self, mut value: hir::Expr) -> hir::Expr {
        if let Ty::Fallible(inner, error) = &value.ty {
            let name = &self.shapes.errors[*error].name;
            let message = format!("this can fail with `{name}`, which is not handled");
            let fault = Diagnostic::new("S3004", value.span, message);
            self.faults.add(fault.hint("handle it by `catch |e| do … end`, or pass it on by `?`"));
            value.ty = (**inner).clone();
        }
        value
    }

    pub(super) fn expr(&mut self, expr: &ast::Expr<'a>, want: Option<&Ty>) -> hir::Expr {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(value) => self.integer(*value, false, want, span),
            ExprKind::Float(value) => typed(H::Float(*value), Ty::F64, span),
            ExprKind::Str(text) => typed(H::Str(text.clone()), Ty::Str, span),
            ExprKind::Bool(value) => typed(H::Bool(*value), Ty::Bool, span),
            ExprKind::Interp(texts, parts) => {
                let parts = parts.iter().map(|part| {
                    let part = self.value(part, None);
                    self.printable(&part);
                    part
                });
                let parts = parts.collect();
                typed(H::Interp(texts.clone(), parts), Ty::Str, span)
            }
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::Unary(op, inner) => self.unary(op, inner, want, span),
            ExprKind::Binary(op, left, right) => self.binary(op, left, right, want, span),
            ExprKind::Call(callee, args) => {
                let args: Vec<&ast::Expr<'a>> = args.iter().collect();
                self.call(callee, &args, want, span)
            }
            ExprKind::Pipe(left, right) => match &right.kind {
                ExprKind::Call(callee, args) => {
                    let args: Vec<_> = std::iter::once(&**left).chain(args).collect();
                    self.call(callee, &args, want, span)
                }
                _ => self.call(right, &[left], want, span),
            },
            ExprKind::Field(of, name) => self.field(of, name, span),
            ExprKind::Index(of, index) => self.index(of, index, span),
            ExprKind::Slice { of, from, to, inclusive } => {
                let of = self.value(of, None);
                let from = self.value(from, Some(&Ty::I64));
                let to = self.value(to, Some(&Ty::I64));
                if !matches!(of.ty, Ty::Str | Ty::Array(_) | Ty::Unknown) {
                    let message = format!("`{}` has no slices", self.shapes.show(&of.ty));
                    self.fault(Diagnostic::new("S2001", of.span, message));
                }
                let ty = of.ty.clone();
                let slice = Builtin::SliceOf { inclusive: *inclusive };
                typed(H::Builtin(slice, vec![of, from, to]), ty, span)
            }
            ExprKind::Array(items) => self.array(items, want, span),
            ExprKind::Struct(name, fields) => self.struct_literal(name, fields, span),
            ExprKind::Closure(func) => {
                let (id, captures, ty) = self.closure(func);
                let captures = captures.into_iter().map(|(outer, _)| outer).collect();
                typed(H::Closure(id, captures), ty, span)
            }
            ExprKind::Await(inner) => self.awaiting(inner, span),
            ExprKind::Spawn(inner) => self.spawn(inner, false, span),
            ExprKind::Async(inner) => self.spawn(inner, true, span),
            ExprKind::Try(inner) => self.try_(inner, want, span),
            ExprKind::Catch(inner, handler) => self.catch(inner, handler, want, span),
            ExprKind::Nursery(nursery) => self.nursery(nursery, span),
            ExprKind::Error => nothing(span),
        }
    }

    pub(super) fn printable(&mut self, part: &hir::Expr) {
        if !part.ty.is_printable() {
            let message = format!("`{}` cannot be printed", self.shapes.show(&part.ty));
            self.fault(Diagnostic::new("S2001", part.span, message));
        }
    }

    fn integer(&mut self, value: u64, negative: bool, want: Option<&Ty>, span: Span) -> hir::Expr {
        let ty = want.filter(|ty| ty.is_integer()).cloned().unwrap_or(Ty::I64);
        let wide = if negative { -i128::from(value) } else { i128::from(value) };
        let (least, most) = match ty {
            Ty::U8 => (0, i128::from(u8::MAX)),
            Ty::I32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
            _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
        };
        if wide < least || wide > most {
            let message = format!("{wide} is out of the range of `{}`", self.shapes.show(&ty));
            self.fault(Diagnostic::new("S2010", span, message));
        }
        typed(H::Int(wide as i64), ty, span)
    }

    fn name(&mut self, name: &str, span: Span) -> hir::Expr {
        if let Some(id) = self.resolve(name) {
            let ty = self.state().locals[id].ty.clone();
            return typed(H::Local(id), ty, span);
        }
        if let Some(id) = self.funcs.get(name).copied() {
            let signature = &self.signatures[id];
            let ty = Ty::Func(Rc::new((signature.params.clone(), signature.result.clone())));
            let (_, error) = split(&signature.result);
            if error.is_some() || signature.is_async {
                let message = "not supported yet: functions that fail or are async, as values";
                self.fault(Diagnostic::new("S4001", span, message));
            }
            return typed(H::Func(id), ty, span);
        }
        let fault = Diagnostic::new("S1001", span, format!("there is no variable `{name}`"));
        let near = self.near(name);
        self.fault(match near {
            Some(near) => fault.hint(format!("is `{near}` meant?")),
            None => fault,
        });
        nothing(span)
    }

    /// A known name that differs in one letter, or only in case.
    pub(super) fn near(&mut self, name: &str) -> Option<String> {
        let scopes = self.stack.iter().flat_map(|state| state.scopes.iter().flatten());
        let known = scopes.map(|(name, _)| *name).chain(self.funcs.keys().copied());
        known
            .chain(super::call::BUILTINS.iter().copied())
            .find(|other| is_near(name, other))
            .map(str::to_owned)
    }

    fn unary(
        &mut self,
        op: &str,
        inner: &ast::Expr<'a>,
        want: Option<&Ty>,
        span: Span,
    ) -> hir::Expr {
        if op == "not" {
            let inner = self.value(inner, Some(&Ty::Bool));
            return typed(H::Not(Box::new(inner)), Ty::Bool, span);
        }
        if let ExprKind::Int(value) = inner.kind {
            return self.integer(value, true, want, span);
        }
        let inner = self.value(inner, want);
        let ty = inner.ty.clone();
        if !matches!(ty, Ty::I64 | Ty::I32 | Ty::F64 | Ty::Unknown | Ty::Never) {
            let message = format!("`-` does not apply to `{}`", self.shapes.show(&ty));
            self.fault(Diagnostic::new("S2001", span, message));
        }
        typed(H::Neg(Box::new(inner)), ty, span)
    }

    fn binary(
        &mut self,
        op: &'static str,
        left: &ast::Expr<'a>,
        right: &ast::Expr<'a>,
        want: Option<&Ty>,
        span: Span,
    ) -> hir::Expr {
        if matches!(op, "and" | "or") {
            let left = Box::new(self.value(left, Some(&Ty::Bool)));
            let right = Box::new(self.value(right, Some(&Ty::Bool)));
            let kind = if op == "and" { H::And(left, right) } else { H::Or(left, right) };
            return typed(kind, Ty::Bool, span);
        }
        if op == "??" {
            let message = "not supported yet: `??`";
            self.fault(Diagnostic::new("S4001", span, message).hint("use `catch`"));
            return nothing(span);
        }
        let want = want.filter(|ty| ty.is_integer() && is_arithmetic(op));
        // A literal takes the type of the other side.
        if is_literal(left) && !is_literal(right) {
            let right = self.value(right, want);
            let side = right.ty.clone();
            let left = self.value(left, Some(&side).filter(|ty| ty.is_integer()));
            return self.combine(op, left, right, span);
        }
        let left = self.value(left, want);
        self.binary_with(op, left, right, span)
    }

    pub(super) fn binary_with(
        &mut self,
        op: &'static str,
        left: hir::Expr,
        right: &ast::Expr<'a>,
        span: Span,
    ) -> hir::Expr {
        let side = left.ty.clone();
        let right = self.expr(right, Some(&side).filter(|ty| ty.is_number()));
        let right = self.handled(right);
        self.combine(op, left, right, span)
    }

    fn combine(
        &mut self,
        op: &'static str,
        left: hir::Expr,
        right: hir::Expr,
        span: Span,
    ) -> hir::Expr {
        let ty = if left.ty.fits(&Ty::Unknown) && left.ty != Ty::Never {
            left.ty.clone()
        } else {
            right.ty.clone()
        };
        let ty = if ty == Ty::Unknown { right.ty.clone() } else { ty };
        let compared = matches!(op, "==" | "!=");
        let failure = compared
            && matches!(
                (&left.ty, &right.ty),
                (Ty::Failure, Ty::Error(_)) | (Ty::Error(_), Ty::Failure)
            );
        if !failure && !right.ty.fits(&left.ty) && left.ty != Ty::Never {
            self.mismatch(right.span, &left.ty, &right.ty);
            return nothing(span);
        }
        let kind = match op {
            "+" => BinOp::Add,
            "-" => BinOp::Sub,
            "*" => BinOp::Mul,
            "/" => BinOp::Div,
            "%" => BinOp::Rem,
            "**" => BinOp::Pow,
            "==" => BinOp::Eq,
            "!=" => BinOp::Ne,
            "<" => BinOp::Lt,
            "<=" => BinOp::Le,
            ">" => BinOp::Gt,
            ">=" => BinOp::Ge,
            "&" => BinOp::BitAnd,
            "|" => BinOp::BitOr,
            "^" => BinOp::Xor,
            "<<" => BinOp::Shl,
            _ => BinOp::Shr,
        };
        let unknown = matches!(ty, Ty::Unknown | Ty::Never);
        let applies = unknown
            || match kind {
                BinOp::Add => ty.is_number() || ty == Ty::Str,
                BinOp::Sub | BinOp::Mul | BinOp::Div => ty.is_number(),
                BinOp::Rem | BinOp::Pow => ty.is_integer(),
                BinOp::Eq | BinOp::Ne => {
                    failure || ty.is_number() || matches!(ty, Ty::Str | Ty::Bool | Ty::Error(_))
                }
                BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => ty.is_number() || ty == Ty::Str,
                _ => ty.is_integer(),
            };
        if !applies {
            let message = format!("`{op}` does not apply to `{}`", self.shapes.show(&ty));
            self.fault(Diagnostic::new("S2001", span, message));
        }
        let result = if is_arithmetic(op) { ty } else { Ty::Bool };
        typed(H::Binary(kind, Box::new(left), Box::new(right)), result, span)
    }

    /// A field of a struct: the struct, the field's number and its type.
    pub(super) fn field_of(&mut self, ty: &Ty, name: &Name<'_>) -> Option<(usize, usize, Ty)> {
        match ty {
            Ty::Struct(id) => {
                let fields = &self.shapes.structs[*id].fields;
                if let Some(at) = fields.iter().position(|(known, _)| known == name.text) {
                    return Some((*id, at, fields[at].1.clone()));
                }
                let known: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
                let hint = format!("its fields are: {}", known.join(", "));
                let message = format!("`{}` has no field `{}`", self.shapes.show(ty), name.text);
                self.fault(Diagnostic::new("S1001", name.span, message).hint(hint));
            }
            Ty::Unknown | Ty::Never => {}
            _ => {
                let message = format!("`{}` has no field `{}`", self.shapes.show(ty), name.text);
                self.fault(Diagnostic::new("S1001", name.span, message));
            }
        }
        None
    }

    fn field(&mut self, of: &ast::Expr<'a>, name: &Name<'a>, span: Span) -> hir::Expr {
        // `E.A`, unless a variable has the name.
        if let ExprKind::Name(set) = of.kind
            && let Some(id) = self.errors.get(set).copied()
            && self.resolve(set).is_none()
        {
            let variants = &self.shapes.errors[id].variants;
            let Some(at) = variants.iter().position(|known| known == name.text) else {
                let hint = format!("its errors are: {}", variants.join(", "));
                let message = format!("the error set `{set}` has no `{}`", name.text);
                self.fault(Diagnostic::new("S1001", name.span, message).hint(hint));
                return typed(H::Nothing, Ty::Error(id), span);
            };
            return typed(H::Error(at), Ty::Error(id), span);
        }
        let of = self.value(of, None);
        if name.text == "len" && matches!(of.ty, Ty::Str | Ty::Array(_)) {
            return typed(H::Builtin(Builtin::Len, vec![of]), Ty::I64, span);
        }
        if name.text == "token" && of.ty == Ty::Nursery {
            self.fault(Diagnostic::new("S4001", name.span, "not supported yet: `token`"));
            return nothing(span);
        }
        match self.field_of(&of.ty.clone(), name) {
            Some((_, at, ty)) => typed(H::Field(Box::new(of), at), ty, span),
            None => nothing(span),
        }
    }

    fn index(&mut self, of: &ast::Expr<'a>, index: &ast::Expr<'a>, span: Span) -> hir::Expr {
        let of = self.value(of, None);
        let index = self.value(index, Some(&Ty::I64));
        let ty = match &of.ty {
            Ty::Array(item) => (**item).clone(),
            Ty::Str => Ty::U8,
            Ty::Unknown => Ty::Unknown,
            other => {
                let message = format!("`{}` has no elements", self.shapes.show(other));
                self.fault(Diagnostic::new("S2001", of.span, message));
                Ty::Unknown
            }
        };
        typed(H::Index(Box::new(of), Box::new(index)), ty, span)
    }

    fn array(&mut self, items: &[ast::Expr<'a>], want: Option<&Ty>, span: Span) -> hir::Expr {
        let mut item = match want {
            Some(Ty::Array(of)) => Some((**of).clone()),
            _ => None,
        };
        let mut values = Vec::with_capacity(items.len());
        for expr in items {
            let value = self.value(expr, item.as_ref());
            if value.ty == Ty::Void {
                self.mismatch(value.span, &Ty::I64, &Ty::Void);
            }
            item.get_or_insert_with(|| value.ty.clone());
            values.push(value);
        }
        if item.is_none() {
            let fault = Diagnostic::new("S2003", span, "the type of this array is not known");
            self.fault(fault.hint("declare the variable: `let a: []i64 = []`"));
        }
        let ty = Ty::Array(Rc::new(item.unwrap_or(Ty::Unknown)));
        typed(H::Array(values), ty, span)
    }

    fn struct_literal(
        &mut self,
        name: &Name<'a>,
        fields: &[(Name<'a>, ast::Expr<'a>)],
        span: Span,
    ) -> hir::Expr {
        let Some(id) = self.structs.get(name.text).copied() else {
            let fault = match name.text {
                "CapSpawn" | "CapBudget" | "CapChannel" => {
                    let message = format!("a program cannot make a `{}`", name.text);
                    let hint = "authority comes from the caller; it cannot be forged";
                    Diagnostic::new("S3001", name.span, message).hint(hint)
                }
                text => Diagnostic::new("S1001", name.span, format!("there is no struct `{text}`")),
            };
            self.fault(fault);
            return nothing(span);
        };
        let wanted = self.shapes.structs[id].fields.clone();
        let mut values: Vec<Option<hir::Expr>> = wanted.iter().map(|_| None).collect();
        for (field, value) in fields {
            let at = wanted.iter().position(|(known, _)| known == field.text);
            let value = self.value(value, at.map(|at| &wanted[at].1));
            match at {
                Some(at) if values[at].is_none() => values[at] = Some(value),
                Some(_) => self.define(field, true),
                None => {
                    let message = format!("`{}` has no field `{}`", name.text, field.text);
                    self.fault(Diagnostic::new("S1001", field.span, message));
                }
            }
        }
        let missing: Vec<&str> = wanted
            .iter()
            .zip(&values)
            .filter(|(_, value)| value.is_none())
            .map(|((name, _), _)| name.as_str())
            .collect();
        if !missing.is_empty() {
            let message = format!("`{}` needs the fields: {}", name.text, missing.join(", "));
            self.fault(Diagnostic::new("S2011", name.span, message));
        }
        let values = values.into_iter().map(|value| value.unwrap_or_else(|| nothing(span)));
        let values = values.collect();
        typed(H::Struct(values), Ty::Struct(id), span)
    }

    /// A function literal: its number, the variables that it captures (outside, inside), its type.
    pub(super) fn closure(&mut self, func: &ast::Func<'a>) -> (usize, Vec<(usize, usize)>, Ty) {
        let params: Vec<Ty> = func.params.iter().map(|(_, ty)| self.ty(ty)).collect();
        let want = func.result.as_ref().map(|ty| self.ty(ty));
        let tail = want.as_ref() != Some(&Ty::Void);
        let error = func.error.and_then(|name| self.error_set(&name));
        if error.is_some() || func.is_async {
            let message = "not supported yet: function literals that fail or are async";
            self.fault(Diagnostic::new("S4001", func.span, message));
        }
        let id = self.done.len();
        self.done.push(None);
        let result = want.map_or(Want::Infer(None), Want::Known);
        let is_async = self.state().is_async;
        self.enter(func, result, error, params.clone());
        self.state().is_async = is_async;
        let (body, ends) = self.block(&func.body, tail);
        let state = self.stack.pop().expect("entered above");
        let result = match state.result {
            Want::Known(ty) => ty,
            Want::Infer(found) => found.unwrap_or(Ty::Void),
        };
        if ends && !matches!(result, Ty::Void | Ty::Unknown) {
            let fault =
                Diagnostic::new("S2008", func.span, "this function can end without a value");
            self.fault(fault.hint("return one on every path"));
        }
        let inner = state.captured.iter().map(|(_, inner)| *inner);
        let all = inner.chain(state.params).collect();
        self.done[id] = Some(hir::Func {
            name: format!("literal{id}"),
            params: all,
            captures: state.captured.len(),
            locals: state.locals,
            result: result.clone(),
            body,
            span: func.span,
        });
        (id, state.captured, Ty::Func(Rc::new((params, result))))
    }

    fn try_(&mut self, inner: &ast::Expr<'a>, want: Option<&Ty>, span: Span) -> hir::Expr {
        let inner = self.expr(inner, want);
        let own = self.state().error;
        match &inner.ty {
            Ty::Fallible(value, error) => {
                let value = (**value).clone();
                if own != Some(*error) {
                    let name = self.shapes.errors[*error].name.clone();
                    let message =
                        format!("`?` passes on `{name}`, which this function cannot fail with");
                    let hint = format!("declare it: `! {name}`; or handle it by `catch`");
                    self.fault(Diagnostic::new("S3002", span, message).hint(hint));
                }
                typed(H::Try(Box::new(inner)), value, span)
            }
            Ty::Unknown => nothing(span),
            _ => {
                let fault = Diagnostic::new("S3003", span, "this does not fail with a typed error");
                self.fault(
                    fault.hint("leave `?` out; failures of the runtime pass on by themselves"),
                );
                inner
            }
        }
    }

    fn catch(
        &mut self,
        inner: &ast::Expr<'a>,
        handler: &ast::Handler<'a>,
        want: Option<&Ty>,
        span: Span,
    ) -> hir::Expr {
        let of = self.expr(inner, want);
        let (value, caught) = match &of.ty {
            Ty::Fallible(value, error) => ((**value).clone(), Ty::Error(*error)),
            other => {
                let waits = matches!(
                    of.kind,
                    H::Builtin(Builtin::Recv | Builtin::Send | Builtin::TrySend, _)
                );
                let known = waits || *other == Ty::Unknown;
                let (value, span) = (other.clone(), of.span);
                if !known {
                    let message = "this does not fail with a typed error";
                    let hint = "failures of tasks are caught at their nursery";
                    self.fault(Diagnostic::new("S3003", span, message).hint(hint));
                }
                (value, Ty::Failure)
            }
        };
        self.state().scopes.push(Vec::new());
        let name = handler.name.map_or("_", |name| name.text);
        let place = handler.name.map_or(span, |name| name.span);
        let local = self.local(name, caught, false, place);
        let (mut last, mut stmts) = (None, &handler.body.stmts[..]);
        if value != Ty::Void
            && let Some((ast::Stmt { kind: ast::StmtKind::Expr(expr), .. }, rest)) =
                stmts.split_last()
        {
            (last, stmts) = (Some(expr), rest);
        }
        let (body, ends) = self.stmts(stmts, false);
        let result = last.map(|expr| Box::new(self.value(expr, Some(&value))));
        self.state().scopes.pop();
        if ends && result.is_none() && !matches!(value, Ty::Void | Ty::Unknown) {
            let message =
                format!("this handler needs a value of type `{}`", self.shapes.show(&value));
            let fault = Diagnostic::new("S2008", handler.body.span, message);
            self.fault(fault.hint("end it with a value, `return`, `break` or `continue`"));
        }
        let kind = H::Catch { of: Box::new(of), name: local, body, value: result };
        typed(kind, value, span)
    }
}

fn is_arithmetic(op: &str) -> bool {
    !matches!(op, "==" | "!=" | "<" | "<=" | ">" | ">=")
}

fn is_literal(expr: &ast::Expr<'_>) -> bool {
    match &expr.kind {
        ExprKind::Int(_) => true,
        ExprKind::Unary("-", inner) => is_literal(inner),
        _ => false,
    }
}

fn is_near(a: &str, b: &str) -> bool {
    if a.len() < 3 || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    if a.eq_ignore_ascii_case(b) {
        return true;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let same = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    let skip = |text: &'_ [u8]| text.get(1..).unwrap_or_default().to_vec();
    skip(a) == b || a == skip(b) || skip(a) == skip(b)
}
