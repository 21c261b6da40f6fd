//! Lowering: from the checked program to IR.
//!
//! # Scopes and failures
//!
//! `cleanups` is the list of scopes that control is in, the innermost last: nurseries, deferred
//! calls, handlers. An exit (`return`, `break`, `continue`, `?`, `fail`, the end of a block) runs
//! the cleanups of the scopes that it leaves, innermost first, in place. A failure takes another
//! way: each block names its handler, which runs one cleanup and goes on with the handler of the
//! scope around. Handlers are made on demand and shared.
//!
//! The deferred calls of a nursery's body stand *below* the nursery in the list: its tasks end
//! first, then the deferred calls run, the last one first. Callee and arguments of a deferred call
//! are evaluated at the `defer`.
//!
//! # Tasks
//!
//! `spawn f(x)` starts `f.task`, the root of a task (`CPU_Parallel`), which calls `f` and turns a
//! typed error into a failure of the task.

mod boxing;
mod expr;
mod ssa;
mod stmt;

use crate::hir::{self, Program};
use crate::source::{Source, Span};
use crate::types::Ty;
use parcae_ir::{
    BlockId, ErrorSet, Func, Imm, Module, Opcode, Pos, StructDef, Tenancy, Term, Type, Value,
};
use ssa::{Builder, Var};

pub(crate) fn lower(source: &Source, mut program: Program) -> Module {
    for func in &mut program.funcs {
        boxing::mark(func);
    }
    let structs = program.shapes.structs.iter().map(|shape| StructDef {
        name: shape.name.clone(),
        fields: shape.fields.iter().map(|(name, ty)| (name.clone(), ir_type(ty))).collect(),
    });
    let errors = program.shapes.errors.iter();
    let errors =
        errors.map(|shape| ErrorSet { name: shape.name.clone(), variants: shape.variants.clone() });
    let mut module = Module {
        file: source.name().to_owned(),
        structs: structs.collect(),
        errors: errors.collect(),
        hosts: Vec::new(),
        funcs: Vec::new(),
        entry: program.main as u32,
    };
    let mut roots = vec![None; program.funcs.len()];
    let mut next_root = program.funcs.len() as u32;
    for func in &program.funcs {
        let mut lowerer = Lowerer::new(source, func, &mut roots, &mut next_root);
        lowerer.body();
        let lowered = lowerer.builder.finish();
        module.funcs.push(lowered);
    }
    let mut roots: Vec<(u32, usize)> =
        roots.iter().enumerate().filter_map(|(id, root)| root.map(|root| (root, id))).collect();
    roots.sort_unstable();
    for (_, id) in roots {
        let root = root(&module.funcs[id], id as u32);
        module.funcs.push(root);
    }
    module
}

/// The root of a task that runs a function.
fn root(func: &Func, id: u32) -> Func {
    let result = match &func.result {
        Type::Result(value, _) => (**value).clone(),
        other => other.clone(),
    };
    let mut root = Func::new(format!("{}.task", func.name), result.clone(), Tenancy::CPU_Parallel);
    root.at = func.at;
    let params: Vec<Value> = func.params.iter().map(|p| root.value(func.ty(*p).clone())).collect();
    root.params.clone_from(&params);
    let mut b = Builder::new(root);
    let call = (Opcode::Call, Imm::Func(id), params);
    match &func.result {
        Type::Void => {
            b.effect(call.0, call.1, call.2);
            b.end(Term::Return(None));
        }
        Type::Result(_, set) => {
            let outcome = b.inst(call.0, call.1, call.2, func.result.clone());
            let failed = b.inst(Opcode::Error_Is, Imm::None, vec![outcome], Type::Bool);
            let (bad, good) = (b.new_block(None), b.new_block(None));
            b.branch(failed, bad, good);
            b.block = bad;
            let error = b.inst(Opcode::Error_Get, Imm::None, vec![outcome], Type::Error(*set));
            b.effect(Opcode::Raise, Imm::None, vec![error]);
            b.end(Term::Unreachable);
            b.block = good;
            let value = (result != Type::Void)
                .then(|| b.inst(Opcode::Error_Unwrap, Imm::None, vec![outcome], result.clone()));
            b.end(Term::Return(value));
        }
        _ => {
            let value = b.inst(call.0, call.1, call.2, func.result.clone());
            b.end(Term::Return(Some(value)));
        }
    }
    b.finish()
}

fn ir_type(ty: &Ty) -> Type {
    let boxed = |ty: &Ty| Box::new(ir_type(ty));
    match ty {
        Ty::Void => Type::Void,
        Ty::Bool => Type::Bool,
        // The first two occur in code only that is never reached.
        Ty::Unknown | Ty::Never | Ty::I64 => Type::I64,
        Ty::I32 => Type::I32,
        Ty::U8 => Type::U8,
        Ty::F64 => Type::F64,
        Ty::Str => Type::Str,
        Ty::Failure => Type::Failure,
        Ty::Nursery => Type::Nursery,
        Ty::Array(of) => Type::Array(boxed(of)),
        Ty::Struct(id) => Type::Struct(*id as u32),
        Ty::Error(id) => Type::Error(*id as u32),
        Ty::Fallible(of, id) => Type::Result(boxed(of), *id as u32),
        Ty::Func(signature) => {
            let params = signature.0.iter().map(ir_type).collect();
            Type::Func(Box::new((params, ir_type(&signature.1))))
        }
        Ty::Channel(of) => Type::Channel(boxed(of)),
        Ty::Task(of) => Type::Task(boxed(of)),
    }
}

/// A scope that control is in.
#[derive(Debug, Clone)]
struct Cleanup {
    kind: CleanupKind,
    /// Handler of failures, if it was needed already.
    handler: Option<BlockId>,
    /// The block before the scope.
    before: BlockId,
}

#[derive(Debug, Clone)]
enum CleanupKind {
    Nursery(Value),
    /// Operation, constant and operands of a deferred call; whether it has a result.
    Defer(Opcode, Imm, Vec<Value>, Option<Type>),
    /// Failures go to this block, whose parameter is the failure.
    Catch(BlockId),
}

struct Loop {
    /// Scopes that are open outside of the loop.
    depth: usize,
    exit: BlockId,
    next: BlockId,
}

struct Lowerer<'p> {
    source: &'p Source,
    func: &'p hir::Func,
    builder: Builder,
    /// Variables of the function, by local; of cells the type is that of the cell.
    locals: Vec<Var>,
    cleanups: Vec<Cleanup>,
    /// Number of cleanups where the innermost list of statements began; in the body of a nursery,
    /// that of the nursery itself.
    scope_start: usize,
    loops: Vec<Loop>,
    /// Numbers of the roots of tasks, by function.
    roots: &'p mut Vec<Option<u32>>,
    next_root: &'p mut u32,
}

impl<'p> Lowerer<'p> {
    fn new(
        source: &'p Source,
        func: &'p hir::Func,
        roots: &'p mut Vec<Option<u32>>,
        next_root: &'p mut u32,
    ) -> Lowerer<'p> {
        let mut lowered = Func::new(&func.name, ir_type(&func.result), Tenancy::CPU_Serial);
        lowered.at = pos(source, func.span);
        let builder = Builder::new(lowered);
        let (cleanups, loops) = (Vec::new(), Vec::new());
        let locals = Vec::new();
        let mut lowerer = Lowerer {
            source,
            func,
            builder,
            locals,
            cleanups,
            scope_start: 0,
            loops,
            roots,
            next_root,
        };
        lowerer.locals = func
            .locals
            .iter()
            .map(|local| {
                let ty = ir_type(&local.ty);
                lowerer.builder.var(if local.boxed { Type::Cell(Box::new(ty)) } else { ty })
            })
            .collect();
        lowerer
    }

    fn body(&mut self) {
        for (at, local) in self.func.params.iter().enumerate() {
            let var = self.locals[*local];
            // A captured variable arrives in its cell.
            let ty = self.builder.vars[var].clone();
            let value = self.builder.func.value(ty);
            self.builder.func.params.push(value);
            self.builder.write(var, value);
            debug_assert!(at < self.func.captures || !self.func.locals[*local].boxed);
        }
        self.scope(&self.func.body);
        let value = match &self.func.result {
            Ty::Void => None,
            Ty::Fallible(of, _) if **of == Ty::Void => {
                Some(self.op(Opcode::Error_Wrap, vec![], ir_type(&self.func.result)))
            }
            // The checker has proved that this place cannot be reached.
            _ => return self.builder.end(Term::Unreachable),
        };
        self.builder.end(Term::Return(value));
    }

    fn at(&mut self, span: Span) {
        self.builder.at = pos(self.source, span);
    }

    fn op(&mut self, op: Opcode, args: Vec<Value>, ty: Type) -> Value {
        self.builder.inst(op, Imm::None, args, ty)
    }

    fn int(&mut self, value: i64) -> Value {
        self.builder.inst(Opcode::Constant, Imm::Int(value), vec![], Type::I64)
    }

    fn text(&mut self, text: &str) -> Value {
        self.builder.inst(Opcode::Constant, Imm::Str(text.to_owned()), vec![], Type::Str)
    }

    /// A new block in the present scopes.
    fn block(&mut self) -> BlockId {
        let unwind = self.handler();
        self.builder.new_block(unwind)
    }

    /// Goes on in a new block: the scopes have changed, or an operation must be alone.
    fn split(&mut self) {
        let block = self.block();
        self.builder.jump(block);
        self.builder.seal(block);
        self.builder.block = block;
    }

    /// Where failures go in the present scopes.
    fn handler(&mut self) -> Option<BlockId> {
        self.handler_at(self.cleanups.len())
    }

    /// Where failures go in the outermost scopes.
    fn handler_at(&mut self, depth: usize) -> Option<BlockId> {
        // Handlers are made from the outside, without recursion.
        let missing =
            (0..depth).rev().take_while(|at| self.cleanups[*at].handler.is_none()).count();
        for at in depth - missing..depth {
            let outer = if at == 0 { None } else { self.cleanups[at - 1].handler };
            let Cleanup { kind, before, .. } = self.cleanups[at].clone();
            let handler = if let CleanupKind::Catch(block) = kind {
                block
            } else {
                let (block, failure) = self.builder.handler(before, outer);
                let here = std::mem::replace(&mut self.builder.block, block);
                let mut failure = failure;
                match kind {
                    CleanupKind::Nursery(nursery) => {
                        let args = vec![nursery, failure];
                        failure = self.op(Opcode::Nursery_Abort, args, Type::Failure);
                    }
                    CleanupKind::Defer(op, imm, args, ty) => {
                        self.builder.effect(Opcode::Shield_Begin, Imm::None, vec![]);
                        self.deferred(op, imm, args, ty);
                        self.builder.effect(Opcode::Shield_End, Imm::None, vec![]);
                    }
                    CleanupKind::Catch(_) => {}
                }
                match outer {
                    Some(outer) => self.builder.jump_with(outer, failure),
                    None => self.builder.end(Term::Resume(failure)),
                }
                self.builder.block = here;
                block
            };
            self.cleanups[at].handler = Some(handler);
        }
        if depth == 0 { None } else { self.cleanups[depth - 1].handler }
    }

    fn deferred(&mut self, op: Opcode, imm: Imm, args: Vec<Value>, ty: Option<Type>) {
        match ty {
            Some(ty) => {
                self.builder.inst(op, imm, args, ty);
            }
            None => self.builder.effect(op, imm, args),
        }
    }

    /// Passes a failure on, to the handler of the present scopes.
    fn propagate(&mut self, failure: Value) {
        match self.handler() {
            Some(handler) => self.builder.jump_with(handler, failure),
            None => self.builder.end(Term::Resume(failure)),
        }
    }

    /// Runs the cleanups down to a depth, for an exit; the scopes stay open for the code behind.
    fn leave(&mut self, depth: usize, exit: Exit) {
        let saved = self.cleanups.clone();
        while self.cleanups.len() > depth {
            self.close(exit);
        }
        self.keep_handlers(saved);
    }

    /// Restores the scopes; handlers that were made meanwhile are kept.
    fn keep_handlers(&mut self, mut saved: Vec<Cleanup>) {
        for (old, new) in saved.iter_mut().zip(&self.cleanups) {
            old.handler = old.handler.or(new.handler);
        }
        self.cleanups = saved;
    }

    /// Closes the innermost scope in place. The result of a nursery.
    fn close(&mut self, exit: Exit) -> Option<Value> {
        if let Some(Cleanup { kind: CleanupKind::Nursery(nursery), .. }) = self.cleanups.last()
            && exit == Exit::Failing
        {
            let nursery = *nursery;
            self.builder.effect(Opcode::Nursery_Cancel, Imm::None, vec![nursery]);
        }
        // Failures of the cleanup itself go to the scopes around.
        let kind = self.cleanups.pop()?.kind;
        match kind {
            CleanupKind::Nursery(nursery) => {
                self.split();
                Some(self.op(Opcode::Nursery_End, vec![nursery], Type::I64))
            }
            CleanupKind::Defer(op, imm, args, ty) => {
                self.split();
                self.deferred(op, imm, args, ty);
                None
            }
            CleanupKind::Catch(_) => None,
        }
    }

    /// Opens a scope, and goes on inside of it.
    fn open(&mut self, kind: CleanupKind) {
        self.cleanups.push(Cleanup { kind, handler: None, before: self.builder.block });
        self.split();
    }
}

/// Why a scope is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Normal,
    /// By a typed error: the tasks of nurseries are cancelled.
    Failing,
}

fn pos(source: &Source, span: Span) -> Pos {
    let (line, column) = source.position(span.start);
    Pos { line, column }
}
