//! Statements.

use super::{Cleanup, CleanupKind, Exit, Loop, Lowerer, ir_type};
use crate::hir::{CaseKind, Expr, ExprKind, LocalId, Place, Root, Stmt, StmtKind};
use crate::types::Ty;
use parcae_ir::{BlockId, Imm, Opcode, Term, Type, Value};

impl Lowerer<'_> {
    /// Statements in a scope of their own: at its end its deferred calls run.
    pub(super) fn scope(&mut self, body: &[Stmt]) {
        let depth = self.cleanups.len();
        let outer = std::mem::replace(&mut self.scope_start, depth);
        self.stmts(body);
        self.scope_start = outer;
        while self.cleanups.len() > depth {
            self.close(Exit::Normal);
        }
    }

    pub(super) fn stmts(&mut self, body: &[Stmt]) {
        for stmt in body {
            if self.builder.is_dead() {
                break;
            }
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        self.at(stmt.span);
        match &stmt.kind {
            StmtKind::Let(local, value) => {
                let value = self.value(value);
                self.declare(*local, value);
            }
            StmtKind::Assign(place, value) => self.assign(place, value),
            StmtKind::Expr(expr) => {
                self.expr(expr);
            }
            StmtKind::Return(value) => self.ret(value.as_ref()),
            StmtKind::Fail(error) => {
                let error = self.value(error);
                self.fail(error);
            }
            StmtKind::Break | StmtKind::Continue => {
                let Some(Loop { depth, exit, next }) = self.loops.last() else { return };
                let (depth, exit, next) = (*depth, *exit, *next);
                self.leave(depth, Exit::Normal);
                let to = if matches!(stmt.kind, StmtKind::Break) { exit } else { next };
                self.builder.jump(to);
            }
            StmtKind::Yield => self.builder.effect(Opcode::Yield, Imm::None, vec![]),
            StmtKind::Defer(call) => self.defer(call),
            StmtKind::Block(body) => self.scope(body),
            StmtKind::If(arms, rest) => {
                let done = self.block();
                for (cond, body) in arms {
                    let cond = self.value(cond);
                    let (then, other) = (self.block(), self.block());
                    self.builder.branch(cond, then, other);
                    self.enter(then);
                    self.scope(body);
                    self.builder.jump(done);
                    self.enter(other);
                }
                self.scope(rest);
                self.builder.jump(done);
                self.enter(done);
            }
            StmtKind::Match(subject, value, arms) => {
                let value = self.value(value);
                self.declare(*subject, value);
                let done = self.block();
                for arm in arms {
                    let next = self.block();
                    if let Some(test) = &arm.test {
                        self.test(test, next);
                    }
                    if let Some(local) = arm.bind {
                        self.declare(local, value);
                    }
                    if let Some(guard) = &arm.guard {
                        self.test(guard, next);
                    }
                    self.scope(&arm.body);
                    self.builder.jump(done);
                    self.enter(next);
                }
                // The checker has proved that the arms cover all values.
                self.builder.jump(done);
                self.enter(done);
            }
            StmtKind::While(cond, body) => {
                let (head, exit) = (self.block(), self.block());
                self.builder.jump(head);
                self.builder.block = head;
                // `while true` has no way out but `break`.
                if !matches!(cond.kind, ExprKind::Bool(true)) {
                    self.test(cond, exit);
                }
                let latch = self.block();
                self.loop_body(body, exit, latch);
                self.enter(latch);
                self.builder.jump(head);
                self.builder.seal(head);
                self.enter(exit);
            }
            StmtKind::ForRange { local, from, to, inclusive, body } => {
                self.for_range(*local, from, to, *inclusive, body);
            }
            StmtKind::ForEach { local, of, body } => self.for_each(*local, of, body),
            StmtKind::ForChannel { local, channel, body } => {
                self.for_channel(*local, channel, body);
            }
            StmtKind::Select(cases) => self.select(cases),
        }
    }

    /// Goes on in a block all of whose predecessors are known.
    pub(super) fn enter(&mut self, block: BlockId) {
        self.builder.seal(block);
        self.builder.block = block;
        // Without a way to get there, the block is dead code.
        if !self.builder.has_predecessors(block) {
            self.builder.kill();
        }
    }

    /// Goes on if the condition holds, otherwise to a block.
    fn test(&mut self, cond: &Expr, other: BlockId) {
        let cond = self.value(cond);
        let then = self.block();
        self.builder.branch(cond, then, other);
        self.enter(then);
    }

    fn loop_body(&mut self, body: &[Stmt], exit: BlockId, next: BlockId) {
        self.loops.push(Loop { depth: self.cleanups.len(), exit, next });
        self.scope(body);
        self.loops.pop();
        self.builder.jump(next);
    }

    /// Declares a variable with its first value.
    pub(super) fn declare(&mut self, local: LocalId, value: Value) {
        let var = self.locals[local];
        let value = if self.func.locals[local].boxed {
            let ty = self.builder.vars[var].clone();
            self.op(Opcode::Cell_New, vec![value], ty)
        } else {
            value
        };
        self.builder.write(var, value);
    }

    fn store(&mut self, local: LocalId, value: Value) {
        let var = self.locals[local];
        if self.func.locals[local].boxed {
            let cell = self.builder.read(var);
            self.builder.effect(Opcode::Cell_Store, Imm::None, vec![cell, value]);
        } else {
            self.builder.write(var, value);
        }
    }

    fn assign(&mut self, place: &Place, value: &Expr) {
        match &place.root {
            Root::Local(local) => {
                let value = self.value(value);
                let value = if place.fields.is_empty() {
                    value
                } else {
                    let old = self.load(*local);
                    self.with_field(old, &place.fields, value)
                };
                self.store(*local, value);
            }
            Root::Element(array, index) => {
                let array = self.value(array);
                let index = self.value(index);
                let value = self.value(value);
                let value = if place.fields.is_empty() {
                    value
                } else {
                    let ty = Type::Struct(place.fields[0].0 as u32);
                    let old = self.op(Opcode::Index, vec![array, index], ty);
                    self.with_field(old, &place.fields, value)
                };
                self.builder.effect(Opcode::Index_Store, Imm::None, vec![array, index, value]);
            }
        }
    }

    /// The struct with another value at the end of a path of fields.
    fn with_field(&mut self, old: Value, path: &[(usize, usize)], value: Value) -> Value {
        let mut structs = vec![old];
        for pair in path.windows(2) {
            let ty = Type::Struct(pair[1].0 as u32);
            let imm = Imm::Int(pair[0].1 as i64);
            let of = structs[structs.len() - 1];
            structs.push(self.builder.inst(Opcode::Field_Access, imm, vec![of], ty));
        }
        let mut value = value;
        for ((id, field), of) in path.iter().zip(structs).rev() {
            let (imm, ty) = (Imm::Int(*field as i64), Type::Struct(*id as u32));
            value = self.builder.inst(Opcode::Field_Store, imm, vec![of, value], ty);
        }
        value
    }

    fn ret(&mut self, value: Option<&Expr>) {
        let mut value = value.and_then(|value| self.expr(value));
        let result = ir_type(&self.func.result);
        if let Type::Result(..) = result {
            let args = value.into_iter().collect();
            value = Some(self.op(Opcode::Error_Wrap, args, result));
        }
        self.leave(0, Exit::Normal);
        self.builder.end(Term::Return(value));
    }

    /// Leaves the function with an error.
    pub(super) fn fail(&mut self, error: Value) {
        let result = ir_type(&self.func.result);
        let failed = self.op(Opcode::Error_Fail, vec![error], result);
        self.leave(0, Exit::Failing);
        self.builder.end(Term::Return(Some(failed)));
    }

    fn defer(&mut self, call: &Expr) {
        let ty = Some(ir_type(&call.ty)).filter(|ty| *ty != Type::Void && call.ty != Ty::Never);
        // The operands are evaluated now, and the call itself is kept.
        let Some((op, imm, args)) = self.call_parts(call) else { return };
        let kind = CleanupKind::Defer(op, imm, args, ty);
        // The nursery whose body this is, and not one around a loop or a branch in it.
        let own = self.cleanups.get(self.scope_start..).and_then(<[Cleanup]>::last);
        if let Some(Cleanup { kind: CleanupKind::Nursery(_), .. }) = own {
            // Below the nursery: its tasks end first. The handlers above are made anew.
            let before = self.cleanups[self.cleanups.len() - 1].before;
            let Some(mut nursery) = self.cleanups.pop() else { return };
            nursery.handler = None;
            nursery.before = self.builder.block;
            self.cleanups.push(Cleanup { kind, handler: None, before });
            self.cleanups.push(nursery);
            self.split();
        } else {
            self.open(kind);
        }
    }

    fn for_range(
        &mut self,
        local: LocalId,
        from: &Expr,
        to: &Expr,
        inclusive: bool,
        body: &[Stmt],
    ) {
        let ty = ir_type(&from.ty);
        let first = self.value(from);
        let last = self.value(to);
        let one = self.builder.inst(Opcode::Constant, Imm::Int(1), vec![], ty.clone());
        let var = self.locals[local];
        self.builder.write(var, first);
        let (head, exit, latch) = (self.block(), self.block(), self.block());
        if inclusive {
            // The end itself is tested before the step, which might overflow.
            let some = self.op(Opcode::LessEqual, vec![first, last], Type::Bool);
            self.builder.branch(some, head, exit);
            self.builder.block = head;
        } else {
            self.builder.jump(head);
            self.builder.block = head;
            let now = self.builder.read(var);
            let more = self.op(Opcode::Less, vec![now, last], Type::Bool);
            let inside = self.block();
            self.builder.branch(more, inside, exit);
            self.enter(inside);
        }
        self.loop_body(body, exit, latch);
        self.enter(latch);
        if !self.builder.is_dead() {
            let now = self.builder.read(var);
            if inclusive {
                let done = self.op(Opcode::Equal, vec![now, last], Type::Bool);
                let step = self.block();
                self.builder.branch(done, exit, step);
                self.enter(step);
            }
            let next = self.op(Opcode::Add, vec![now, one], ty);
            self.builder.write(var, next);
            self.builder.jump(head);
        }
        self.builder.seal(head);
        self.enter(exit);
    }

    fn for_each(&mut self, local: LocalId, of: &Expr, body: &[Stmt]) {
        let item = ir_type(&self.func.locals[local].ty);
        let array = self.value(of);
        let (zero, one) = (self.int(0), self.int(1));
        let index = self.builder.var(Type::I64);
        self.builder.write(index, zero);
        let (head, exit, latch) = (self.block(), self.block(), self.block());
        self.builder.jump(head);
        self.builder.block = head;
        let now = self.builder.read(index);
        let count = self.op(Opcode::Array_Len, vec![array], Type::I64);
        let more = self.op(Opcode::Less, vec![now, count], Type::Bool);
        let inside = self.block();
        self.builder.branch(more, inside, exit);
        self.enter(inside);
        let value = self.op(Opcode::Index, vec![array, now], item);
        self.declare(local, value);
        self.loop_body(body, exit, latch);
        self.enter(latch);
        if !self.builder.is_dead() {
            let now = self.builder.read(index);
            let next = self.op(Opcode::Add, vec![now, one], Type::I64);
            self.builder.write(index, next);
            self.builder.jump(head);
        }
        self.builder.seal(head);
        self.enter(exit);
    }

    /// The loop ends when the channel is closed and empty.
    fn for_channel(&mut self, local: LocalId, channel: &Expr, body: &[Stmt]) {
        let item = ir_type(&self.func.locals[local].ty);
        let channel = self.value(channel);
        let (head, exit, latch) = (self.block(), self.block(), self.block());
        self.builder.jump(head);
        self.builder.block = head;
        let (closed, failure) = self.closed_handler();
        let recv = self.builder.new_block(Some(closed));
        self.builder.jump(recv);
        self.enter(recv);
        let value = self.op(Opcode::Channel_Recv, vec![channel], item);
        self.split();
        let here = self.builder.block;
        self.builder.block = closed;
        self.if_closed(failure, exit);
        self.builder.block = here;
        self.declare(local, value);
        self.loop_body(body, exit, latch);
        self.enter(latch);
        self.builder.jump(head);
        self.builder.seal(head);
        self.enter(exit);
    }

    /// A handler for one operation, which the caller puts into the next block.
    pub(super) fn closed_handler(&mut self) -> (BlockId, Value) {
        let outer = self.handler();
        self.builder.handler(self.builder.block, outer)
    }

    /// In a handler: goes on with a block if a channel was closed, otherwise passes the failure on.
    pub(super) fn if_closed(&mut self, failure: Value, then: BlockId) {
        let closed = self.op(Opcode::Failure_Closed, vec![failure], Type::Bool);
        let other = self.block();
        self.builder.branch(closed, then, other);
        self.enter(other);
        self.propagate(failure);
    }

    fn select(&mut self, cases: &[(CaseKind, Vec<Stmt>)]) {
        let operands: Vec<Vec<Value>> = cases
            .iter()
            .map(|(kind, _)| match kind {
                CaseKind::Recv(_, channel) => vec![self.value(channel)],
                CaseKind::Send(channel, value) => vec![self.value(channel), self.value(value)],
                CaseKind::Timeout(time) => vec![self.value(time)],
                CaseKind::Default => vec![],
            })
            .collect();
        self.builder.effect(Opcode::Select_Begin, Imm::None, vec![]);
        for ((kind, _), args) in cases.iter().zip(&operands) {
            let op = match kind {
                CaseKind::Recv(..) => Opcode::Select_Add_Recv,
                CaseKind::Send(..) => Opcode::Select_Add_Send,
                CaseKind::Timeout(_) => Opcode::Select_Add_Timeout,
                CaseKind::Default => Opcode::Select_Add_Default,
            };
            self.builder.effect(op, Imm::None, args.clone());
        }
        let chosen = self.op(Opcode::Select_Wait, vec![], Type::I64);
        let done = self.block();
        for (at, ((kind, body), args)) in cases.iter().zip(&operands).enumerate() {
            let next = self.block();
            if at + 1 < cases.len() {
                let number = self.int(at as i64);
                let is = self.op(Opcode::Equal, vec![chosen, number], Type::Bool);
                let then = self.block();
                self.builder.branch(is, then, next);
                self.enter(then);
            }
            match kind {
                CaseKind::Recv(Some(local), _) => {
                    let ty = ir_type(&self.func.locals[*local].ty);
                    let value = self.op(Opcode::Select_Get_Value, args.clone(), ty);
                    self.declare(*local, value);
                }
                // A closed channel fails the task, whether or not the value is used.
                CaseKind::Recv(None, _) => {
                    self.builder.effect(Opcode::Select_Get_Value, Imm::None, args.clone());
                }
                // So does a send.
                CaseKind::Send(..) => {
                    self.builder.effect(Opcode::Select_Get_Value, Imm::None, vec![args[0]]);
                }
                _ => {}
            }
            self.scope(body);
            self.builder.jump(done);
            self.enter(next);
        }
        self.enter(done);
    }
}
