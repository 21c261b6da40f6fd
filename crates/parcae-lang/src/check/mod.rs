//! Names and types: from the tree of the parser to the checked program.
//!
//! Signatures are explicit; the types of variables and of the results of function literals are
//! inferred from their values. A fault gives the type `Unknown`, which fits everything, so that it
//! is reported once. The rules of structured concurrency (N1001 to N1004) are checked here, too:
//! they depend on the enclosing function and nursery, not on types.

mod call;
mod expr;
mod stmt;
mod tasks;

use crate::ast::{self, Block, File, Item, Name, Stmt, StmtKind, TypeExpr, TypeKind};
use crate::diagnostic::{Diagnostic, Faults};
use crate::hir::{self, Local, LocalId, Program};
use crate::profile::Profile;
use crate::source::Span;
use crate::types::{ErrorShape, Shapes, StructShape, Ty};
use parcae_ir::HostFunc;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Number of the error set that the library's own functions fail with.
pub(crate) const PARSE_ERROR: usize = 0;

/// Most variables of one function: hostile programs must not make the later passes slow.
const MAX_LOCALS: usize = 4096;

/// `hosts` are the functions of the host.
pub(crate) fn check(
    file: &File<'_>,
    (hosts, profile): (&[HostFunc], Profile),
    faults: &mut Faults,
) -> Program {
    let mut checker = Checker {
        faults,
        hosts,
        gate: (profile, file.profile.is_some()),
        shapes: Shapes::default(),
        structs: BTreeMap::new(),
        errors: BTreeMap::new(),
        funcs: BTreeMap::new(),
        signatures: Vec::new(),
        done: Vec::new(),
        stack: Vec::new(),
    };
    checker
        .shapes
        .errors
        .push(ErrorShape { name: "ParseError".into(), variants: vec!["Invalid".into()] });
    checker.errors.insert("ParseError", PARSE_ERROR);
    checker.declare(file);
    for item in &file.items {
        if let Item::Func(func) = item {
            checker.func(func);
        }
    }
    let main = checker.main(file);
    let funcs = checker.done.into_iter().flatten().collect();
    Program { shapes: checker.shapes, funcs, main }
}

/// The type of a function that can be called by its name.
#[derive(Debug, Clone)]
struct Signature {
    params: Vec<Ty>,
    result: Ty,
    is_async: bool,
}

struct Checker<'a, 'f> {
    faults: &'f mut Faults,
    /// Functions of the host.
    hosts: &'f [HostFunc],
    /// The profile, and whether the file declares it.
    gate: (Profile, bool),
    shapes: Shapes,
    structs: BTreeMap<&'a str, usize>,
    errors: BTreeMap<&'a str, usize>,
    funcs: BTreeMap<&'a str, usize>,
    signatures: Vec<Signature>,
    /// Checked functions, by number; literals behind the named ones.
    done: Vec<Option<hir::Func>>,
    /// The function that is being checked, inside of those around it.
    stack: Vec<FuncState<'a>>,
}

/// State of a function that is being checked.
struct FuncState<'a> {
    locals: Vec<Local>,
    scopes: Vec<Vec<(&'a str, LocalId)>>,
    params: Vec<LocalId>,
    /// Variables of the function around it, and their copies here.
    captured: Vec<(LocalId, LocalId)>,
    result: Want,
    error: Option<usize>,
    is_async: bool,
    /// Open nurseries of this function.
    nurseries: usize,
    /// For each open loop: whether a `break` was found in it.
    loops: Vec<bool>,
    is_literal: bool,
    defers: usize,
}

/// The result that a function should have.
#[derive(Debug, Clone)]
enum Want {
    Known(Ty),
    /// The result of a literal without a type: that of its first `return`.
    Infer(Option<Ty>),
}

impl<'a> Checker<'a, '_> {
    fn fault(&mut self, fault: Diagnostic) {
        self.faults.add(fault);
    }

    fn mismatch(&mut self, span: Span, expected: &Ty, found: &Ty) {
        let (want, got) = (self.shapes.show(expected), self.shapes.show(found));
        let mut fault = Diagnostic::new("S2001", span, format!("expected `{want}`, found `{got}`"));
        if expected.is_number() && found.is_number() {
            fault = fault.hint(format!("convert it: `{want}(…)`"));
        }
        self.fault(fault);
    }

    fn state(&mut self) -> &mut FuncState<'a> {
        self.stack.last_mut().expect("a function is being checked")
    }

    // Declarations.

    fn declare(&mut self, file: &File<'a>) {
        for item in &file.items {
            match item {
                Item::Struct(shape) => {
                    let id = self.shapes.structs.len();
                    self.define(&shape.name, self.structs.contains_key(shape.name.text));
                    self.structs.insert(shape.name.text, id);
                    let name = shape.name.text.to_owned();
                    self.shapes.structs.push(StructShape { name, fields: Vec::new() });
                }
                Item::Error(shape) => {
                    let id = self.shapes.errors.len();
                    self.define(&shape.name, self.errors.contains_key(shape.name.text));
                    self.errors.insert(shape.name.text, id);
                    let mut variants: Vec<String> = Vec::new();
                    for name in &shape.members {
                        self.define(name, variants.iter().any(|known| known == name.text));
                        variants.push(name.text.to_owned());
                    }
                    if variants.is_empty() {
                        let message = "an error set needs at least one error";
                        self.fault(Diagnostic::new("S1003", shape.name.span, message));
                    }
                    let name = shape.name.text.to_owned();
                    self.shapes.errors.push(ErrorShape { name, variants });
                }
                Item::Func(_) => {}
            }
        }
        for item in &file.items {
            match item {
                Item::Struct(shape) => {
                    let id = self.structs[shape.name.text];
                    let mut fields: Vec<(String, Ty)> = Vec::new();
                    for (name, ty) in &shape.members {
                        self.define(name, fields.iter().any(|(known, _)| known == name.text));
                        fields.push((name.text.to_owned(), self.ty(ty)));
                    }
                    self.shapes.structs[id].fields = fields;
                }
                Item::Func(func) => {
                    let id = self.done.len();
                    self.define(&func.name, self.funcs.contains_key(func.name.text));
                    if call::is_builtin(func.name.text) {
                        let message = format!("`{}` is a function of the library", func.name.text);
                        self.fault(Diagnostic::new("S1002", func.name.span, message));
                    }
                    if self.hosts.iter().any(|host| host.name == func.name.text) {
                        let message = format!("`{}` is a function of the host", func.name.text);
                        self.fault(Diagnostic::new("S1002", func.name.span, message));
                    }
                    self.funcs.insert(func.name.text, id);
                    let signature = self.signature(func);
                    self.signatures.push(signature);
                    self.done.push(None);
                }
                Item::Error(_) => {}
            }
        }
        self.finite_structs(file);
    }

    fn define(&mut self, name: &Name<'_>, known: bool) {
        if known {
            let message = format!("`{}` is defined twice", name.text);
            self.fault(Diagnostic::new("S1002", name.span, message));
        }
    }

    /// A struct that contains itself would have no end; in an array it may.
    fn finite_structs(&mut self, file: &File<'_>) {
        for item in &file.items {
            let Item::Struct(shape) = item else { continue };
            let id = self.structs[shape.name.text];
            let mut seen = vec![false; self.shapes.structs.len()];
            let mut open = vec![id];
            while let Some(next) = open.pop() {
                for (_, ty) in &self.shapes.structs[next].fields {
                    match ty {
                        Ty::Struct(inner) if *inner == id => {
                            let message =
                                format!("the struct `{}` contains itself", shape.name.text);
                            let fault = Diagnostic::new("S2009", shape.name.span, message);
                            self.faults.add(fault.hint("put it into an array: `[]T`"));
                            open.clear();
                            break;
                        }
                        Ty::Struct(inner) if !seen[*inner] => {
                            seen[*inner] = true;
                            open.push(*inner);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    fn signature(&mut self, func: &ast::Func<'a>) -> Signature {
        let params = func.params.iter().map(|(_, ty)| self.ty(ty)).collect();
        let value = match &func.result {
            Some(ty) => self.ty(ty),
            None if returns_value(&func.body) => Ty::I64,
            None => Ty::Void,
        };
        let result = match func.error.and_then(|name| self.error_set(&name)) {
            Some(error) => Ty::Fallible(Rc::new(value), error),
            None => value,
        };
        Signature { params, result, is_async: func.is_async }
    }

    fn error_set(&mut self, name: &Name<'_>) -> Option<usize> {
        let found = self.errors.get(name.text).copied();
        if found.is_none() {
            let message = format!("there is no error set `{}`", name.text);
            self.fault(Diagnostic::new("S1001", name.span, message));
        }
        found
    }

    fn ty(&mut self, ty: &TypeExpr<'_>) -> Ty {
        match &ty.kind {
            TypeKind::Name(name) => match *name {
                "i64" => Ty::I64,
                "i32" => Ty::I32,
                "u8" => Ty::U8,
                "bool" => Ty::Bool,
                "f64" => Ty::F64,
                "String" | "string" => Ty::Str,
                "void" => Ty::Void,
                "Channel" => Ty::Channel(Rc::new(Ty::I64)),
                "CapSpawn" | "CapBudget" | "CapChannel" | "CancelToken" | "Budget" | "Root" => {
                    let message = format!("not supported yet: the type `{name}`");
                    self.fault(Diagnostic::new("S4001", ty.span, message));
                    Ty::Unknown
                }
                _ => self.named(name, ty.span),
            },
            TypeKind::Array(of) => Ty::Array(Rc::new(self.ty(of))),
            TypeKind::Optional(_) => {
                let message = "not supported yet: optional types";
                self.fault(Diagnostic::new("S4001", ty.span, message));
                Ty::Unknown
            }
            TypeKind::Of("Channel", of) => {
                let inner = self.ty(of);
                self.sendable(&inner, of.span);
                Ty::Channel(Rc::new(inner))
            }
            TypeKind::Of("Task", of) => Ty::Task(Rc::new(self.ty(of))),
            TypeKind::Of(name, _) => {
                let message = format!("`{name}` takes no type");
                self.fault(Diagnostic::new("S1001", ty.span, message));
                Ty::Unknown
            }
            TypeKind::Func(params, result) => {
                let params = params.iter().map(|ty| self.ty(ty)).collect();
                let result = result.as_ref().map_or(Ty::Void, |ty| self.ty(ty));
                Ty::Func(Rc::new((params, result)))
            }
            TypeKind::Error => Ty::Unknown,
        }
    }

    fn named(&mut self, name: &str, span: Span) -> Ty {
        if let Some(id) = self.structs.get(name) {
            return Ty::Struct(*id);
        }
        if let Some(id) = self.errors.get(name) {
            return Ty::Error(*id);
        }
        let fault = Diagnostic::new("S1001", span, format!("there is no type `{name}`"));
        self.fault(match name {
            "int" | "Int" => fault.hint("write `i64`"),
            "str" => fault.hint("write `String`"),
            "float" | "double" => fault.hint("write `f64`"),
            _ => fault,
        });
        Ty::Unknown
    }

    fn sendable(&mut self, ty: &Ty, span: Span) {
        if !self.shapes.is_sendable(ty) {
            let message = format!("`{}` cannot go to another task", self.shapes.show(ty));
            let hint = "handles, functions and failures belong to their task";
            self.fault(Diagnostic::new("S2006", span, message).hint(hint));
        }
    }

    fn main(&mut self, file: &File<'_>) -> usize {
        let Some(id) = self.funcs.get("main").copied() else {
            let fault = Diagnostic::new("S1004", Span::default(), "there is no function `main`");
            self.fault(fault.hint("a program begins with `func main() do … end`"));
            return 0;
        };
        let signature = self.signatures[id].clone();
        let span = file.items.iter().find_map(|item| match item {
            Item::Func(func) if func.name.text == "main" => Some(func.name.span),
            _ => None,
        });
        let value = match &signature.result {
            Ty::Fallible(value, _) => (**value).clone(),
            other => other.clone(),
        };
        if !signature.params.is_empty() || !matches!(value, Ty::Void | Ty::I64 | Ty::Unknown) {
            let message = "`main` has no parameters, and returns nothing or an `i64`";
            let fault = Diagnostic::new("S1004", span.unwrap_or_default(), message);
            self.fault(fault.hint("the arguments of the program are `args()`"));
        }
        id
    }

    // Functions.

    fn func(&mut self, func: &ast::Func<'a>) {
        let id = self.funcs[func.name.text];
        if self.done[id].is_some() {
            return; // defined twice, which has been reported
        }
        let signature = self.signatures[id].clone();
        let (value, error) = split(&signature.result);
        self.enter(func, Want::Known(value.clone()), error, signature.params);
        // Without a declared result the last expression is no value.
        let tail = func.result.is_some() && value != Ty::Void;
        let (mut body, ends) = self.block(&func.body, tail);
        if ends && value != Ty::Void {
            let span =
                Span { start: func.body.span.end.saturating_sub(3), end: func.body.span.end };
            if func.result.is_some() {
                let message = format!("`{}` can end without a value", func.name.text);
                self.fault(
                    Diagnostic::new("S2008", span, message).hint("return one on every path"),
                );
            } else {
                let zero = hir::Expr { kind: hir::ExprKind::Int(0), ty: Ty::I64, span };
                body.push(hir::Stmt { kind: hir::StmtKind::Return(Some(zero)), span });
            }
        }
        let state = self.stack.pop().expect("entered above");
        self.done[id] = Some(hir::Func {
            name: func.name.text.to_owned(),
            params: state.params,
            captures: 0,
            locals: state.locals,
            result: signature.result,
            body,
            span: func.name.span,
        });
    }

    fn enter(&mut self, func: &ast::Func<'a>, result: Want, error: Option<usize>, params: Vec<Ty>) {
        self.stack.push(FuncState {
            locals: Vec::new(),
            scopes: vec![Vec::new()],
            params: Vec::new(),
            captured: Vec::new(),
            result,
            error,
            is_async: func.is_async,
            nurseries: 0,
            loops: Vec::new(),
            is_literal: func.name.text.is_empty(),
            defers: 0,
        });
        for ((name, _), ty) in func.params.iter().zip(params) {
            let twice = self.state().scopes[0].iter().any(|(known, _)| *known == name.text);
            self.define(name, twice);
            let local = self.local(name.text, ty, false, name.span);
            self.state().params.push(local);
        }
    }

    fn local(&mut self, name: &'a str, ty: Ty, mutable: bool, span: Span) -> LocalId {
        let state = self.state();
        let id = state.locals.len();
        state.locals.push(Local { name: name.to_owned(), ty, mutable, boxed: false });
        state.scopes.last_mut().expect("a scope").push((name, id));
        if id == MAX_LOCALS {
            let message = format!("a function has at most {MAX_LOCALS} variables");
            self.fault(Diagnostic::new("S4002", span, message));
        }
        id
    }

    /// Finds a variable, in this function or those around it.
    fn resolve(&mut self, name: &str) -> Option<LocalId> {
        let top = self.stack.len() - 1;
        self.resolve_at(top, name)
    }

    fn resolve_at(&mut self, level: usize, name: &str) -> Option<LocalId> {
        let state = &self.stack[level];
        let found = state.scopes.iter().rev().find_map(|scope| {
            scope.iter().rev().find(|(known, _)| *known == name).map(|(_, id)| *id)
        });
        if found.is_some() || level == 0 || !state.is_literal {
            return found;
        }
        let outer = self.resolve_at(level - 1, name)?;
        let around = &mut self.stack[level - 1].locals[outer];
        around.boxed |= around.mutable;
        let (text, ty, mutable) = (around.name.clone(), around.ty.clone(), around.mutable);
        let state = &mut self.stack[level];
        if let Some((_, inner)) = state.captured.iter().find(|(known, _)| *known == outer) {
            return Some(*inner);
        }
        let inner = state.locals.len();
        state.locals.push(Local { name: text, ty, mutable, boxed: mutable });
        state.captured.push((outer, inner));
        Some(inner)
    }
}

/// The value and the error set of a result.
fn split(result: &Ty) -> (Ty, Option<usize>) {
    match result {
        Ty::Fallible(value, error) => ((**value).clone(), Some(*error)),
        value => (value.clone(), None),
    }
}

/// Whether a `return` with a value is in a block; those of function literals do not count.
fn returns_value(block: &Block<'_>) -> bool {
    fn of(stmt: &Stmt<'_>) -> bool {
        match &stmt.kind {
            StmtKind::Return(value) => value.is_some(),
            StmtKind::Guarded(inner, _) => of(inner),
            StmtKind::If { arms, otherwise } => {
                arms.iter().any(|(_, body)| returns_value(body))
                    || otherwise.as_ref().is_some_and(returns_value)
            }
            StmtKind::While { body, .. } | StmtKind::For { body, .. } => returns_value(body),
            StmtKind::Match { arms, .. } => arms.iter().any(|arm| returns_value(&arm.body)),
            StmtKind::Select(cases) => cases.iter().any(|case| returns_value(&case.body)),
            StmtKind::Expr(expr) | StmtKind::Let { value: expr, .. } => in_expr(expr),
            _ => false,
        }
    }
    fn in_expr(expr: &ast::Expr<'_>) -> bool {
        match &expr.kind {
            ast::ExprKind::Nursery(nursery) => {
                returns_value(&nursery.body)
                    || nursery.catch.as_ref().is_some_and(|handler| returns_value(&handler.body))
            }
            ast::ExprKind::Catch(of, handler) => in_expr(of) || returns_value(&handler.body),
            _ => false,
        }
    }
    block.stmts.iter().any(of)
}
