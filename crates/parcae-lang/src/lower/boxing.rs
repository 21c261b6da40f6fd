//! Variables that need a cell: those that the body of a nursery with a `catch` assigns and that
//! were declared outside of it. The handler of the nursery sees their last values, which no SSA
//! value could have, because a failure may happen anywhere in the body.

use crate::hir::{ExprKind, Func, Root, Stmt, StmtKind};

pub(super) fn mark(func: &mut Func) {
    let mut assigned = Vec::new();
    stmts(&func.body, false, &mut assigned);
    for local in assigned {
        // A variable that is declared inside is boxed for nothing, which is correct too.
        func.locals[local].boxed = true;
    }
}

fn stmts(body: &[Stmt], caught: bool, assigned: &mut Vec<usize>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign(place, value) => {
                if let (Root::Local(local), true) = (&place.root, caught) {
                    assigned.push(*local);
                }
                expr(&value.kind, caught, assigned);
            }
            StmtKind::Let(_, value) | StmtKind::Expr(value) => expr(&value.kind, caught, assigned),
            StmtKind::Return(Some(value)) => expr(&value.kind, caught, assigned),
            StmtKind::Block(body)
            | StmtKind::While(_, body)
            | StmtKind::ForRange { body, .. }
            | StmtKind::ForEach { body, .. }
            | StmtKind::ForChannel { body, .. } => stmts(body, caught, assigned),
            StmtKind::If(arms, rest) => {
                arms.iter().for_each(|(_, body)| stmts(body, caught, assigned));
                stmts(rest, caught, assigned);
            }
            StmtKind::Match(_, value, arms) => {
                expr(&value.kind, caught, assigned);
                arms.iter().for_each(|arm| stmts(&arm.body, caught, assigned));
            }
            StmtKind::Select(cases) => {
                cases.iter().for_each(|(_, body)| stmts(body, caught, assigned));
            }
            _ => {}
        }
    }
}

/// Nurseries and handlers, wherever they are in an expression.
fn expr(kind: &ExprKind, caught: bool, assigned: &mut Vec<usize>) {
    let mut each = |kind: &ExprKind| expr(kind, caught, assigned);
    match kind {
        ExprKind::Nursery(nursery) => {
            stmts(&nursery.body, caught || nursery.catch.is_some(), assigned);
            if let Some((_, body)) = &nursery.catch {
                stmts(body, caught, assigned);
            }
        }
        ExprKind::Catch { of, body, value, .. } => {
            each(&of.kind);
            stmts(body, caught, assigned);
            if let Some(value) = value {
                expr(&value.kind, caught, assigned);
            }
        }
        ExprKind::Neg(of)
        | ExprKind::Not(of)
        | ExprKind::Field(of, _)
        | ExprKind::Await(of)
        | ExprKind::Try(of) => each(&of.kind),
        ExprKind::Binary(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b)
        | ExprKind::Index(a, b) => {
            each(&a.kind);
            each(&b.kind);
        }
        ExprKind::Interp(_, args)
        | ExprKind::Call(_, args)
        | ExprKind::Host(_, args)
        | ExprKind::Builtin(_, args)
        | ExprKind::Array(args)
        | ExprKind::Struct(args)
        | ExprKind::Spawn { args, .. } => args.iter().for_each(|arg| each(&arg.kind)),
        ExprKind::CallValue(callee, args) => {
            each(&callee.kind);
            args.iter().for_each(|arg| each(&arg.kind));
        }
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Bool(_)
        | ExprKind::Str(_)
        | ExprKind::Local(_)
        | ExprKind::Func(_)
        | ExprKind::Closure(..)
        | ExprKind::Error(_)
        | ExprKind::Nothing => {}
    }
}
