//! Calls: functions of the program, functions of the library, and methods.

use super::expr::{nothing, typed};
use super::{Checker, PARSE_ERROR};
use crate::ast::{self, ExprKind};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, BinOp, Builtin, ExprKind as H};
use crate::library::Authority;
use crate::profile;
use crate::source::Span;
use crate::types::Ty;
use parcae_ir::{HostFunc, Type};
use std::rc::Rc;

/// Functions of the library.
pub(super) const BUILTINS: [&str; 26] = [
    "print",
    "println",
    "print_int",
    "sleep",
    "now_ms",
    "args",
    "assert",
    "panic",
    "array",
    "channel",
    "wrap_add",
    "wrap_sub",
    "wrap_mul",
    "min",
    "max",
    "abs",
    "sqrt",
    "i64",
    "i32",
    "u8",
    "f64",
    "String",
    "chr",
    "is_cancelled",
    "cancel",
    "unreachable",
];

pub(super) fn is_builtin(name: &str) -> bool {
    BUILTINS.contains(&name)
}

impl<'a> Checker<'a, '_> {
    pub(super) fn call(
        &mut self,
        callee: &ast::Expr<'a>,
        args: &[&ast::Expr<'a>],
        want: Option<&Ty>,
        span: Span,
    ) -> hir::Expr {
        if let ExprKind::Name(name) = callee.kind
            && let Some(id) = self.funcs.get(name).copied()
            && self.signatures[id].is_async
            && self.resolve(name).is_none()
        {
            let message = format!("the async function `{name}` is called like a plain one");
            let hint = format!("write `await {name}(…)`, or `spawn {name}(…)` in a nursery");
            self.fault(Diagnostic::new("N1004", span, message).hint(hint));
        }
        self.call_async(callee, args, want, span)
    }

    /// Whether no variable, function or builtin has this name.
    pub(super) fn is_unknown(&mut self, name: &str) -> bool {
        let is_function = self.funcs.contains_key(name) || is_builtin(name);
        let is_host = Authority::of(name).is_some() || self.hosts.iter().any(|it| it.name == name);
        self.resolve(name).is_none() && !is_function && !is_host
    }

    /// A call, of an async function too.
    pub(super) fn call_async(
        &mut self,
        callee: &ast::Expr<'a>,
        args: &[&ast::Expr<'a>],
        want: Option<&Ty>,
        span: Span,
    ) -> hir::Expr {
        match &callee.kind {
            ExprKind::Name(name) if self.resolve(name).is_none() => {
                if let Some(id) = self.funcs.get(name).copied() {
                    let args = self.arguments(id, args, span);
                    let ty = self.signatures[id].result.clone();
                    return typed(H::Call(id, args), ty, span);
                }
                if let Some(host) = self.hosts.iter().find(|host| host.name == **name) {
                    if let Some(authority) = Authority::of(name) {
                        profile::gate_call(self.gate, authority, callee.span, self.faults);
                    }
                    return self.host(host, args, span);
                }
                if is_builtin(name) {
                    return self.builtin(name, args, want, span);
                }
                if let Some(authority) = Authority::of(name) {
                    let message = format!("`{name}` needs authority that this run does not have");
                    let hint = format!("run the program with {}", authority.option());
                    self.fault(Diagnostic::new("S3001", callee.span, message).hint(hint));
                } else {
                    let message = format!("there is no function `{name}`");
                    let fault = Diagnostic::new("S1001", callee.span, message);
                    let near = self.near(name);
                    self.fault(match near {
                        Some(near) => fault.hint(format!("is `{near}` meant?")),
                        None => fault,
                    });
                }
                args.iter().for_each(|arg| drop(self.value(arg, None)));
                nothing(span)
            }
            ExprKind::Field(of, name) => {
                // A field that holds a function is called through a variable.
                self.method(of, name, args, span)
            }
            _ => {
                let callee = self.value(callee, None);
                let Ty::Func(signature) = callee.ty.clone() else {
                    if callee.ty != Ty::Unknown {
                        let message =
                            format!("`{}` cannot be called", self.shapes.show(&callee.ty));
                        self.fault(Diagnostic::new("S2001", callee.span, message));
                    }
                    args.iter().for_each(|arg| drop(self.value(arg, None)));
                    return nothing(span);
                };
                let args = self.fit(&signature.0, args, span);
                typed(H::CallValue(Box::new(callee), args), signature.1.clone(), span)
            }
        }
    }

    pub(super) fn arguments(
        &mut self,
        id: usize,
        args: &[&ast::Expr<'a>],
        span: Span,
    ) -> Vec<hir::Expr> {
        let params = self.signatures[id].params.clone();
        self.fit(&params, args, span)
    }

    /// Arguments for these parameters.
    fn fit(&mut self, params: &[Ty], args: &[&ast::Expr<'a>], span: Span) -> Vec<hir::Expr> {
        if params.len() != args.len() {
            let (want, got) = (params.len(), args.len());
            let s = if want == 1 { "" } else { "s" };
            let message = format!("expected {want} argument{s}, found {got}");
            self.fault(Diagnostic::new("S2002", span, message));
        }
        let mut values: Vec<hir::Expr> =
            args.iter().enumerate().map(|(at, arg)| self.value(arg, params.get(at))).collect();
        values.truncate(params.len());
        while values.len() < params.len() {
            values.push(nothing(span));
        }
        values
    }

    /// A call of a function of the host.
    fn host(&mut self, host: &HostFunc, args: &[&ast::Expr<'a>], span: Span) -> hir::Expr {
        let ty = |ty: &Type| match ty {
            Type::Bool => Ty::Bool,
            Type::I64 => Ty::I64,
            Type::F64 => Ty::F64,
            Type::Str => Ty::Str,
            _ => Ty::Void,
        };
        let params: Vec<Ty> = host.params.iter().map(ty).collect();
        let args = self.fit(&params, args, span);
        typed(H::Host(host.name.clone(), args), ty(&host.result), span)
    }

    fn builtin(
        &mut self,
        name: &str,
        args: &[&ast::Expr<'a>],
        want: Option<&Ty>,
        span: Span,
    ) -> hir::Expr {
        let call = |builtin, args, ty| typed(H::Builtin(builtin, args), ty, span);
        match name {
            "print" | "println" | "print_int" => {
                let mut values: Vec<hir::Expr> =
                    args.iter().map(|arg| self.value(arg, None)).collect();
                if name == "println" && values.is_empty() {
                    values.push(typed(H::Str(String::new()), Ty::Str, span));
                }
                if values.len() != 1 {
                    let message = format!("`{name}` takes one argument");
                    let fault = Diagnostic::new("S2002", span, message);
                    self.fault(fault.hint("print several values by `$\"{a} {b}\"`"));
                    return typed(H::Nothing, Ty::Void, span);
                }
                self.printable(&values[0]);
                // `print` ends the line behind everything but a text.
                let newline = name != "print" || values[0].ty != Ty::Str;
                call(Builtin::Print { newline }, values, Ty::Void)
            }
            "sleep" => call(Builtin::Sleep, self.fit(&[Ty::I64], args, span), Ty::Void),
            "now_ms" => call(Builtin::NowMs, self.fit(&[], args, span), Ty::I64),
            "args" => call(Builtin::Args, self.fit(&[], args, span), Ty::Array(Rc::new(Ty::Str))),
            "assert" => call(Builtin::Assert, self.fit(&[Ty::Bool], args, span), Ty::Void),
            "panic" => call(Builtin::Panic, self.fit(&[Ty::Str], args, span), Ty::Never),
            "unreachable" => {
                self.fit(&[], args, span);
                let text = typed(H::Str("reached `unreachable()`".into()), Ty::Str, span);
                call(Builtin::Panic, vec![text], Ty::Never)
            }
            "array" => {
                if args.len() != 2 {
                    self.fit(&[Ty::I64, Ty::Unknown], args, span);
                    return nothing(span);
                }
                let count = self.value(args[0], Some(&Ty::I64));
                let item = match want {
                    Some(Ty::Array(of)) => Some((**of).clone()),
                    _ => None,
                };
                let value = self.value(args[1], item.as_ref());
                let ty = Ty::Array(Rc::new(value.ty.clone()));
                call(Builtin::NewArray, vec![count, value], ty)
            }
            "channel" => {
                let args = self.fit(&[Ty::I64], args, span);
                let item = match want {
                    Some(Ty::Channel(of)) => (**of).clone(),
                    _ => Ty::I64,
                };
                call(Builtin::NewChannel, args, Ty::Channel(Rc::new(item)))
            }
            "wrap_add" | "wrap_sub" | "wrap_mul" => {
                let op = match name {
                    "wrap_add" => BinOp::Add,
                    "wrap_sub" => BinOp::Sub,
                    _ => BinOp::Mul,
                };
                call(Builtin::Wrap(op), self.fit(&[Ty::I64, Ty::I64], args, span), Ty::I64)
            }
            "min" | "max" | "abs" => {
                let count = if name == "abs" { 1 } else { 2 };
                if args.len() != count {
                    self.fit(&vec![Ty::I64; count], args, span);
                    return nothing(span);
                }
                let first = self.value(args[0], want.filter(|ty| ty.is_number()));
                let ty = first.ty.clone();
                if !ty.is_number() && ty != Ty::Unknown {
                    self.mismatch(first.span, &Ty::I64, &ty);
                }
                let mut values = vec![first];
                if count == 2 {
                    values.push(self.value(args[1], Some(&ty)));
                }
                let builtin = match name {
                    "min" => Builtin::Min,
                    "max" => Builtin::Max,
                    _ => Builtin::Abs,
                };
                call(builtin, values, ty)
            }
            "sqrt" => call(Builtin::Sqrt, self.fit(&[Ty::F64], args, span), Ty::F64),
            "chr" => call(Builtin::Chr, self.fit(&[Ty::I64], args, span), Ty::Str),
            "i64" | "i32" | "u8" | "f64" | "String" => {
                let ty = match name {
                    "i64" => Ty::I64,
                    "i32" => Ty::I32,
                    "u8" => Ty::U8,
                    "f64" => Ty::F64,
                    _ => Ty::Str,
                };
                let [arg] = args else {
                    self.fit(&[Ty::Unknown], args, span);
                    return nothing(span);
                };
                let value = self.value(arg, None);
                if ty == Ty::Str {
                    self.printable(&value);
                    return call(Builtin::ToText, vec![value], ty);
                }
                if !value.ty.is_number() && !matches!(value.ty, Ty::Unknown | Ty::Never) {
                    let fault = Diagnostic::new(
                        "S2001",
                        value.span,
                        format!("`{}` is no number", self.shapes.show(&value.ty)),
                    );
                    self.fault(if value.ty == Ty::Str {
                        fault.hint("read a number by `text.parse()`")
                    } else {
                        fault
                    });
                }
                call(Builtin::Convert, vec![value], ty)
            }
            "is_cancelled" => call(Builtin::IsCancelled, self.fit(&[], args, span), Ty::Bool),
            _ => {
                // cancel
                let [arg] = args else {
                    self.fit(&[Ty::Unknown], args, span);
                    return nothing(span);
                };
                let task = self.value(arg, None);
                if !matches!(task.ty, Ty::Task(_) | Ty::Unknown) {
                    let message =
                        format!("expected a task, found `{}`", self.shapes.show(&task.ty));
                    self.fault(Diagnostic::new("S2001", task.span, message));
                }
                call(Builtin::Cancel, vec![task], Ty::Void)
            }
        }
    }

    fn method(
        &mut self,
        of: &ast::Expr<'a>,
        name: &ast::Name<'a>,
        args: &[&ast::Expr<'a>],
        span: Span,
    ) -> hir::Expr {
        let of = self.value(of, None);
        let ty = of.ty.clone();
        let (builtin, params, result) = match (&ty, name.text) {
            (Ty::Channel(item), "send") => (Builtin::Send, vec![(**item).clone()], Ty::Void),
            (Ty::Channel(item), "recv") => (Builtin::Recv, vec![], (**item).clone()),
            (Ty::Channel(item), "try_send" | "trySend") => {
                (Builtin::TrySend, vec![(**item).clone()], Ty::Bool)
            }
            (Ty::Channel(_), "close") => (Builtin::Close, vec![], Ty::Void),
            (Ty::Channel(_), "is_closed" | "isClosed") => (Builtin::IsClosed, vec![], Ty::Bool),
            (Ty::Channel(_), "try_recv" | "tryRecv") => {
                let message = "not supported yet: `try_recv`";
                let fault = Diagnostic::new("S4001", name.span, message);
                self.fault(fault.hint("use `select` with `default`"));
                return nothing(span);
            }
            (Ty::Array(item), "push") => (Builtin::Push, vec![(**item).clone()], Ty::Void),
            (Ty::Array(item), "pop") => (Builtin::Pop, vec![], (**item).clone()),
            (Ty::Array(_) | Ty::Str, "len") => (Builtin::Len, vec![], Ty::I64),
            (Ty::Str, "parse") => {
                (Builtin::Parse, vec![], Ty::Fallible(Rc::new(Ty::I64), PARSE_ERROR))
            }
            (Ty::Str, "split") => (Builtin::Split, vec![Ty::Str], Ty::Array(Rc::new(Ty::Str))),
            (Ty::Task(_), "cancel") => (Builtin::Cancel, vec![], Ty::Void),
            (Ty::Nursery, "cancel") => (Builtin::CancelNursery, vec![], Ty::Void),
            (Ty::Unknown, _) => {
                args.iter().for_each(|arg| drop(self.value(arg, None)));
                return nothing(span);
            }
            (Ty::Struct(id), text) => {
                let id = *id;
                let fields = &self.shapes.structs[id].fields;
                let found = fields.iter().position(|(known, _)| known == text);
                if let Some(at) = found
                    && let Ty::Func(signature) = fields[at].1.clone()
                {
                    let callee =
                        typed(H::Field(Box::new(of), at), Ty::Func(signature.clone()), span);
                    let args = self.fit(&signature.0, args, span);
                    return typed(H::CallValue(Box::new(callee), args), signature.1.clone(), span);
                }
                return self.no_method(&ty, name, args, span);
            }
            _ => return self.no_method(&ty, name, args, span),
        };
        let mut values = vec![of];
        values.extend(self.fit(&params, args, span));
        typed(H::Builtin(builtin, values), result, span)
    }

    fn no_method(
        &mut self,
        ty: &Ty,
        name: &ast::Name<'a>,
        args: &[&ast::Expr<'a>],
        span: Span,
    ) -> hir::Expr {
        let message = format!("`{}` has no method `{}`", self.shapes.show(ty), name.text);
        let fault = Diagnostic::new("S1001", name.span, message);
        self.fault(match (ty, name.text) {
            (Ty::Nursery, "spawn") => fault.hint("write `spawn f(x)` in the nursery"),
            _ => fault,
        });
        args.iter().for_each(|arg| drop(self.value(arg, None)));
        nothing(span)
    }
}
