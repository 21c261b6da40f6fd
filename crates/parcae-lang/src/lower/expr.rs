//! Expressions.

use super::{CleanupKind, Exit, Lowerer, ir_type};
use crate::hir::{BinOp, Builtin, Callee, Expr, ExprKind, LocalId, Nursery, Stmt};
use crate::types::Ty;
use parcae_ir::{Imm, Opcode, Term, Type, Value};

impl Lowerer<'_> {
    /// The value of an expression that has one.
    pub(super) fn value(&mut self, expr: &Expr) -> Value {
        match self.expr(expr) {
            Some(value) => value,
            // Behind an expression that never ends: the code is dead.
            None => self.builder.func.value(ir_type(&expr.ty)),
        }
    }

    fn values(&mut self, exprs: &[Expr]) -> Vec<Value> {
        exprs.iter().map(|expr| self.value(expr)).collect()
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> Option<Value> {
        self.at(expr.span);
        let ty = ir_type(&expr.ty);
        let constant = |this: &mut Self, imm| {
            Some(this.builder.inst(Opcode::Constant, imm, vec![], ty.clone()))
        };
        match &expr.kind {
            ExprKind::Int(value) => constant(self, Imm::Int(*value)),
            ExprKind::Float(value) => constant(self, Imm::Float(*value)),
            ExprKind::Bool(value) => constant(self, Imm::Bool(*value)),
            ExprKind::Str(text) => constant(self, Imm::Str(text.clone())),
            ExprKind::Local(local) => Some(self.load(*local)),
            ExprKind::Func(id) => {
                Some(self.builder.inst(Opcode::Fn_Ref, Imm::Func(*id as u32), vec![], ty))
            }
            ExprKind::Neg(of) => {
                let of = self.value(of);
                self.at(expr.span);
                Some(self.op(Opcode::Neg, vec![of], ty))
            }
            ExprKind::Not(of) => {
                let of = self.value(of);
                Some(self.op(Opcode::Not, vec![of], ty))
            }
            ExprKind::Binary(op, left, right) => Some(self.binary(*op, left, right, expr)),
            ExprKind::And(left, right) => Some(self.short(left, right, false)),
            ExprKind::Or(left, right) => Some(self.short(left, right, true)),
            ExprKind::Interp(texts, parts) => Some(self.interpolated(texts, parts)),
            ExprKind::Call(..)
            | ExprKind::CallValue(..)
            | ExprKind::Host(..)
            | ExprKind::Builtin(..) => {
                let (op, imm, args) = self.call_parts(expr)?;
                self.at(expr.span);
                if op == Opcode::Trap {
                    self.builder.effect(op, imm, args);
                    self.builder.end(Term::Unreachable);
                    return None;
                }
                if ty == Type::Void {
                    self.builder.effect(op, imm, args);
                    return None;
                }
                Some(self.builder.inst(op, imm, args, ty))
            }
            ExprKind::Field(of, field) => {
                let of = self.value(of);
                let imm = Imm::Int(*field as i64);
                Some(self.builder.inst(Opcode::Field_Access, imm, vec![of], ty))
            }
            ExprKind::Index(of, index) => {
                let op = if of.ty == Ty::Str { Opcode::String_Index } else { Opcode::Index };
                let args = vec![self.value(of), self.value(index)];
                self.at(expr.span);
                Some(self.op(op, args, ty))
            }
            ExprKind::Array(items) => {
                let args = self.values(items);
                Some(self.op(Opcode::Array_Construct, args, ty))
            }
            ExprKind::Struct(fields) => {
                let args = self.values(fields);
                Some(self.op(Opcode::Struct_Construct, args, ty))
            }
            ExprKind::Closure(id, captures) => {
                let args = self.captured(captures);
                let imm = Imm::Func(*id as u32);
                Some(self.builder.inst(Opcode::Closure_Create, imm, args, ty))
            }
            ExprKind::Error(variant) => {
                let imm = Imm::Int(*variant as i64);
                Some(self.builder.inst(Opcode::Error_Value, imm, vec![], ty))
            }
            ExprKind::Spawn { callee, args, is_async } => {
                let mut values = self.values(args);
                let id = match callee {
                    Callee::Func(id) => *id,
                    Callee::Closure(id, captures) => {
                        values = self.captured(captures);
                        *id
                    }
                };
                self.at(expr.span);
                let root = *self.roots[id].get_or_insert_with(|| {
                    *self.next_root += 1;
                    *self.next_root - 1
                });
                let op = if *is_async { Opcode::Async_Call } else { Opcode::Spawn };
                Some(self.builder.inst(op, Imm::Func(root), values, ty))
            }
            ExprKind::Await(task) => {
                let task = self.value(task);
                self.at(expr.span);
                if ty == Type::Void {
                    self.builder.effect(Opcode::Await, Imm::None, vec![task]);
                    return None;
                }
                Some(self.op(Opcode::Await, vec![task], ty))
            }
            ExprKind::Try(of) => self.try_(of, ty),
            ExprKind::Catch { of, name, body, value } => {
                self.catch(of, *name, body, value.as_deref(), ty)
            }
            ExprKind::Nursery(nursery) => Some(self.nursery(nursery)),
            ExprKind::Nothing => None,
        }
    }

    pub(super) fn load(&mut self, local: LocalId) -> Value {
        let var = self.locals[local];
        let value = self.builder.read(var);
        if self.func.locals[local].boxed {
            let ty = ir_type(&self.func.locals[local].ty);
            return self.op(Opcode::Cell_Load, vec![value], ty);
        }
        value
    }

    /// Captured variables: values, or the cells of those that are shared.
    fn captured(&mut self, captures: &[LocalId]) -> Vec<Value> {
        captures
            .iter()
            .map(|local| {
                // A cell that only a handler needs is not shared with the literal.
                let shared = self.func.locals[*local].mutable;
                if shared { self.builder.read(self.locals[*local]) } else { self.load(*local) }
            })
            .collect()
    }

    fn binary(&mut self, op: BinOp, left: &Expr, right: &Expr, expr: &Expr) -> Value {
        let (mut a, mut b) = (self.value(left), self.value(right));
        self.at(expr.span);
        let ty = ir_type(&expr.ty);
        let failure = left.ty == Ty::Failure || right.ty == Ty::Failure;
        if failure {
            if right.ty == Ty::Failure {
                std::mem::swap(&mut a, &mut b);
            }
            let is = self.op(Opcode::Failure_Is, vec![a, b], Type::Bool);
            return if op == BinOp::Eq { is } else { self.op(Opcode::Not, vec![is], Type::Bool) };
        }
        if op == BinOp::Add && left.ty == Ty::Str {
            return self.op(Opcode::String_Concat, vec![a, b], ty);
        }
        let code = match op {
            BinOp::Add => Opcode::Add,
            BinOp::Sub => Opcode::Sub,
            BinOp::Mul => Opcode::Mul,
            BinOp::Div => Opcode::Div,
            BinOp::Rem => Opcode::Rem,
            BinOp::Pow => Opcode::Pow,
            BinOp::Eq => Opcode::Equal,
            BinOp::Ne => Opcode::NotEqual,
            BinOp::Lt => Opcode::Less,
            BinOp::Le => Opcode::LessEqual,
            BinOp::Gt => Opcode::Greater,
            BinOp::Ge => Opcode::GreaterEqual,
            BinOp::BitAnd => Opcode::BitAnd,
            BinOp::BitOr => Opcode::BitOr,
            BinOp::Xor => Opcode::Xor,
            BinOp::Shl => Opcode::Shl,
            BinOp::Shr => Opcode::Shr,
        };
        self.op(code, vec![a, b], ty)
    }

    /// `and` and `or`: the right side is evaluated only if the left one does not decide.
    fn short(&mut self, left: &Expr, right: &Expr, decides: bool) -> Value {
        let result = self.builder.var(Type::Bool);
        let left = self.value(left);
        self.builder.write(result, left);
        let (more, done) = (self.block(), self.block());
        if decides {
            self.builder.branch(left, done, more);
        } else {
            self.builder.branch(left, more, done);
        }
        self.enter(more);
        let right = self.value(right);
        self.builder.write(result, right);
        self.builder.jump(done);
        self.enter(done);
        self.builder.read(result)
    }

    fn interpolated(&mut self, texts: &[String], parts: &[Expr]) -> Value {
        let mut result = None;
        let mut append = |this: &mut Self, text: Value| {
            result = Some(match result {
                None => text,
                Some(before) => this.op(Opcode::String_Concat, vec![before, text], Type::Str),
            });
        };
        for (at, text) in texts.iter().enumerate() {
            if !text.is_empty() {
                let text = self.text(text);
                append(self, text);
            }
            if let Some(part) = parts.get(at) {
                let text = self.text_of(part);
                append(self, text);
            }
        }
        result.unwrap_or_else(|| self.text(""))
    }

    fn text_of(&mut self, part: &Expr) -> Value {
        let value = self.value(part);
        if part.ty == Ty::Str {
            return value;
        }
        self.op(Opcode::To_String, vec![value], Type::Str)
    }

    /// Operation, constant and operands of a call; the operands are evaluated.
    pub(super) fn call_parts(&mut self, expr: &Expr) -> Option<(Opcode, Imm, Vec<Value>)> {
        Some(match &expr.kind {
            ExprKind::Call(id, args) => (Opcode::Call, Imm::Func(*id as u32), self.values(args)),
            ExprKind::CallValue(callee, args) => {
                let mut values = vec![self.value(callee)];
                values.extend(self.values(args));
                (Opcode::Closure_Call, Imm::None, values)
            }
            ExprKind::Host(name, args) => {
                (Opcode::Host_Call, Imm::Str(name.clone()), self.values(args))
            }
            ExprKind::Builtin(builtin, args) => self.builtin(*builtin, args),
            _ => return None,
        })
    }

    fn builtin(&mut self, builtin: Builtin, args: &[Expr]) -> (Opcode, Imm, Vec<Value>) {
        let of_text = args.first().is_some_and(|arg| arg.ty == Ty::Str);
        match builtin {
            Builtin::Print { newline } => {
                let text = self.text_of(&args[0]);
                return (Opcode::Print, Imm::Int(i64::from(newline)), vec![text]);
            }
            Builtin::ToText if of_text => {
                // The text of a text is the text: joined with nothing, which is a copy.
                let (text, nothing) = (self.value(&args[0]), self.text(""));
                return (Opcode::String_Concat, Imm::None, vec![text, nothing]);
            }
            Builtin::SliceOf { inclusive } => {
                let mut values = self.values(args);
                if inclusive {
                    let one = self.int(1);
                    values[2] = self.op(Opcode::Add, vec![values[2], one], Type::I64);
                }
                let op = if of_text { Opcode::String_Slice } else { Opcode::Array_Slice };
                return (op, Imm::None, values);
            }
            _ => {}
        }
        let op = match builtin {
            Builtin::Sleep => Opcode::Sleep,
            Builtin::NowMs => Opcode::Now,
            Builtin::Args => Opcode::Args,
            Builtin::Assert => Opcode::Assert,
            Builtin::Panic => Opcode::Trap,
            Builtin::NewArray => Opcode::Array_New,
            Builtin::NewChannel => Opcode::Channel_Create,
            Builtin::Wrap(BinOp::Add) => Opcode::Wrap_Add,
            Builtin::Wrap(BinOp::Sub) => Opcode::Wrap_Sub,
            Builtin::Wrap(_) => Opcode::Wrap_Mul,
            Builtin::Min => Opcode::Min,
            Builtin::Max => Opcode::Max,
            Builtin::Abs => Opcode::Abs,
            Builtin::Sqrt => Opcode::Sqrt,
            Builtin::Convert => Opcode::Convert,
            Builtin::Chr => Opcode::Chr,
            Builtin::IsCancelled => Opcode::Cancel_Query,
            Builtin::Cancel => Opcode::Task_Cancel,
            Builtin::CancelNursery => Opcode::Nursery_Cancel,
            Builtin::Len if of_text => Opcode::String_Len,
            Builtin::Len => Opcode::Array_Len,
            Builtin::Push => Opcode::Array_Push,
            Builtin::Pop => Opcode::Array_Pop,
            Builtin::Parse => Opcode::String_Parse,
            Builtin::Split => Opcode::String_Split,
            Builtin::Send => Opcode::Channel_Send,
            Builtin::Recv => Opcode::Channel_Recv,
            Builtin::TrySend => Opcode::Channel_TrySend,
            Builtin::Close => Opcode::Channel_Close,
            Builtin::IsClosed => Opcode::Channel_IsClosed,
            Builtin::Print { .. } | Builtin::ToText | Builtin::SliceOf { .. } => Opcode::To_String,
        };
        (op, Imm::None, self.values(args))
    }

    /// The value of a result; an error leaves the function.
    fn try_(&mut self, of: &Expr, ty: Type) -> Option<Value> {
        let outcome = self.value(of);
        let Ty::Fallible(_, set) = &of.ty else { return None };
        let failed = self.op(Opcode::Error_Is, vec![outcome], Type::Bool);
        let (bad, good) = (self.block(), self.block());
        self.builder.branch(failed, bad, good);
        self.enter(bad);
        let error = self.op(Opcode::Error_Get, vec![outcome], Type::Error(*set as u32));
        self.fail(error);
        self.enter(good);
        (ty != Type::Void).then(|| self.op(Opcode::Error_Unwrap, vec![outcome], ty))
    }

    fn catch(
        &mut self,
        of: &Expr,
        name: LocalId,
        body: &[Stmt],
        value: Option<&Expr>,
        ty: Type,
    ) -> Option<Value> {
        let result = (ty != Type::Void).then(|| self.builder.var(ty.clone()));
        let done = self.block();
        let bad = self.block();
        if let Ty::Fallible(_, set) = &of.ty {
            let outcome = self.value(of);
            let failed = self.op(Opcode::Error_Is, vec![outcome], Type::Bool);
            let good = self.block();
            self.builder.branch(failed, bad, good);
            self.enter(good);
            if let Some(result) = result {
                let value = self.op(Opcode::Error_Unwrap, vec![outcome], ty);
                self.builder.write(result, value);
            }
            self.builder.jump(done);
            self.enter(bad);
            let error = self.op(Opcode::Error_Get, vec![outcome], Type::Error(*set as u32));
            self.declare(name, error);
        } else {
            // An operation of the runtime: it fails if the channel is closed.
            let (op, imm, args) = self.call_parts(of)?;
            let (closed, failure) = self.closed_handler();
            let alone = self.builder.new_block(Some(closed));
            self.builder.jump(alone);
            self.enter(alone);
            self.at(of.span);
            let value = match result {
                Some(_) => Some(self.builder.inst(op, imm, args, ty)),
                None => {
                    self.builder.effect(op, imm, args);
                    None
                }
            };
            self.split();
            if let (Some(result), Some(value)) = (result, value) {
                self.builder.write(result, value);
            }
            self.builder.jump(done);
            self.builder.block = closed;
            self.if_closed(failure, bad);
            self.enter(bad);
            self.declare(name, failure);
        }
        let depth = self.cleanups.len();
        let outer = std::mem::replace(&mut self.scope_start, depth);
        self.stmts(body);
        self.scope_start = outer;
        if !self.builder.is_dead()
            && let (Some(result), Some(value)) = (result, value)
        {
            let value = self.value(value);
            self.builder.write(result, value);
        }
        while self.cleanups.len() > depth {
            self.close(Exit::Normal);
        }
        self.builder.jump(done);
        self.enter(done);
        result.map(|result| self.builder.read(result))
    }

    fn nursery(&mut self, nursery: &Nursery) -> Value {
        let result = self.builder.var(Type::I64);
        let mut budget = Vec::new();
        if nursery.budget.iter().any(Option::is_some) {
            for component in &nursery.budget {
                budget.push(match component {
                    Some(value) => self.value(value),
                    None => self.int(-1),
                });
            }
        }
        let done = self.block();
        let depth = self.cleanups.len();
        let caught = nursery.catch.as_ref().map(|(name, body)| {
            let outer = self.handler();
            let (block, failure) = self.builder.handler(self.builder.block, outer);
            self.open(CleanupKind::Catch(block));
            (*name, body, block, failure)
        });
        let opened = self.op(Opcode::Nursery_Begin, budget, Type::Nursery);
        self.open(CleanupKind::Nursery(opened));
        if let Some(name) = nursery.name {
            self.declare(name, opened);
        }
        let start = std::mem::replace(&mut self.scope_start, self.cleanups.len() - 1);
        self.stmts(&nursery.body);
        self.scope_start = start;
        let mut code = None;
        while self.cleanups.len() > depth {
            if matches!(self.cleanups[self.cleanups.len() - 1].kind, CleanupKind::Catch(_)) {
                break;
            }
            code = self.close(Exit::Normal).or(code);
        }
        let zero = self.int(0);
        let code = code.unwrap_or(zero);
        self.builder.write(result, code);
        if let Some((name, body, block, failure)) = caught {
            let bad = self.op(Opcode::Less, vec![code, zero], Type::Bool);
            let (negative, good) = (self.block(), self.block());
            self.builder.branch(bad, negative, good);
            self.enter(negative);
            let of_code = self.op(Opcode::Failure_Code, vec![code], Type::Failure);
            self.builder.jump_with(block, of_code);
            self.enter(good);
            self.cleanups.pop();
            self.builder.jump(done);
            self.builder.block = block;
            self.declare(name, failure);
            let lost = self.int(-1);
            self.builder.write(result, lost);
            self.scope(body);
        }
        self.builder.jump(done);
        self.enter(done);
        self.builder.read(result)
    }
}
