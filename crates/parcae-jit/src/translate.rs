//! A function of the program: blocks, calls, checks, failures, roots.
//!
//! # Values
//!
//! A value is a word, or a float; a result of a call that can fail is two: the value, and 0 or the
//! number of the error plus 1. The verifier has proved that definitions dominate uses, so values of
//! the IR are values of Cranelift, one for one.
//!
//! # Failures
//!
//! A block of the IR says where its failures go. All failing operations with the same handler share
//! one block, out of the way: it puts the failure on the heap and goes to the handler; without a
//! handler it returns the status -1. The values that a handler uses are defined before the blocks
//! whose failures it handles.
//!
//! # Roots
//!
//! A function that may see a collection (it allocates or calls) has a list of roots in its frame.
//! Each reference is stored there once, where it is defined. An entry that is not defined yet is 0.

use crate::backend::{Backend, Host, function_value, machine_type};
use crate::debug::source_loc;
use crate::words::at;
use crate::{CompileError, Metering};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, Function, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind,
    Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use parcae_interp::Program;
use parcae_ir::{
    BlockId, Debt, Effect, Func, Imm, Inst, Module, Opcode, Target, Tenancy, Term, Type,
};
use std::collections::BTreeMap;

/// Bytes of a list of roots before the references: the list of the caller, their number.
const HEADER: i32 = 16;
/// Most captured values of a function value: each call through a value has room for them.
const MOST_CAPTURES: usize = 64;

/// Facts about a module.
pub(crate) struct Shape {
    /// Functions that are used as values or are roots of tasks.
    pub(crate) is_value: Vec<bool>,
    captures: usize,
}

impl Shape {
    pub(crate) fn of(module: &Module) -> Result<Shape, CompileError> {
        let mut shape = Shape { is_value: vec![false; module.funcs.len()], captures: 0 };
        shape.is_value[module.entry as usize] = true;
        for func in &module.funcs {
            let refuse = |construct: &str| {
                let (construct, func) = (construct.to_owned(), func.name.clone());
                Err(CompileError::NotSupported { construct, func })
            };
            for inst in func.blocks.iter().flat_map(|block| &block.insts) {
                if let Some(id) = function_value(inst) {
                    shape.is_value[id as usize] = true;
                    if inst.op == Opcode::Closure_Create {
                        shape.captures = shape.captures.max(inst.args.len());
                    }
                }
                if inst.imm == Imm::Func(module.entry) {
                    return refuse("a use of the function that the program begins with");
                }
            }
            if shape.captures > MOST_CAPTURES {
                return refuse("a function value with more than 64 captured variables");
            }
        }
        Ok(shape)
    }
}

/// A value of the IR.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Words {
    One(Value),
    /// A value and an error's number plus 1.
    Two(Value, Value),
}

impl Words {
    pub(crate) fn first(self) -> Value {
        match self {
            Words::One(value) | Words::Two(value, _) => value,
        }
    }
}

/// Translation of one function.
pub(crate) struct Translator<'t> {
    pub(crate) builder: FunctionBuilder<'t>,
    backend: &'t mut Backend,
    shape: &'t Shape,
    program: &'t Program,
    pub(crate) func: &'t Func,
    number: u32,
    is_root: bool,
    metering: Metering,
    /// The words of the task.
    pub(crate) words: Value,
    values: Vec<Option<Words>>,
    blocks: Vec<Block>,
    /// For each handler, the block that failures go to.
    failing: BTreeMap<Option<u32>, Block>,
    roots: Option<StackSlot>,
    /// Number of each reference in the list of roots.
    rooted: Vec<Option<i32>>,
    /// The block of the IR that is translated, and the number of the operation.
    block: u32,
    at: usize,
    /// The counter behind the decrement that is the operation of this number.
    counted: Option<(usize, Value)>,
    /// Contents and length of objects during a strip, by its start and the object: they were loaded
    /// before it.
    pub(crate) hoisted: BTreeMap<(u32, u32), (Value, Value)>,
}

/// Memory that only this task uses.
pub(crate) fn trusted() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// Translates a function.
pub(crate) fn function(
    backend: &mut Backend,
    into: &mut Function,
    frames: &mut FunctionBuilderContext,
    shape: &Shape,
    (module, program, number, metering): (&Module, &Program, u32, Metering),
) -> Result<(), CompileError> {
    let func = &module.funcs[number as usize];
    let mut builder = FunctionBuilder::new(into, frames);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let words = builder.block_params(entry)[0];
    let blocks = func.blocks.iter().map(|_| builder.create_block()).collect();
    let mut translator = Translator {
        builder,
        backend,
        shape,
        program,
        func,
        number,
        is_root: number == module.entry || func.tenancy == Tenancy::CPU_Parallel,
        metering,
        words,
        values: vec![None; func.values.len()],
        blocks,
        failing: BTreeMap::new(),
        roots: None,
        rooted: vec![None; func.values.len()],
        block: 0,
        at: 0,
        counted: None,
        hoisted: BTreeMap::new(),
    };
    translator.builder.set_srcloc(source_loc(func.at));
    translator.prologue(entry)?;
    let order = order(func);
    for (block, ir) in func.blocks.iter().enumerate() {
        for param in &ir.params {
            let words = translator.parameters(block, *param);
            translator.values[param.0 as usize] = Some(words);
        }
    }
    for block in &order {
        translator.block(*block)?;
    }
    translator.builder.set_srcloc(source_loc(func.at));
    translator.failures();
    let Translator { mut builder, backend, .. } = translator;
    builder.seal_all_blocks();
    backend.finish(builder);
    Ok(())
}

/// Blocks that can be reached, dominators first.
fn order(func: &Func) -> Vec<usize> {
    let (mut seen, mut postorder) = (vec![false; func.blocks.len()], Vec::new());
    let mut stack = vec![(0, func.successors(0), 0)];
    seen[0] = true;
    while let Some((block, after, next)) = stack.pop() {
        match after.get(next).copied() {
            Some(to) => {
                stack.push((block, after, next + 1));
                if !std::mem::replace(&mut seen[to], true) {
                    stack.push((to, func.successors(to), 0));
                }
            }
            None => postorder.push(block),
        }
    }
    postorder.reverse();
    postorder
}

impl<'t> Translator<'t> {
    fn prologue(&mut self, entry: Block) -> Result<(), CompileError> {
        let insts = || self.func.blocks.iter().flat_map(|block| &block.insts);
        let calls = insts().any(|inst| inst.op.effect() == Effect::Calls);
        if calls || self.func.values.len() > 256 {
            self.test_stack();
        }
        let collects = calls || insts().any(|inst| inst.op.effect() == Effect::Allocates);
        let is_ref = |ty: &Type| match ty {
            Type::Result(of, _) => of.is_reference(),
            ty => ty.is_reference(),
        };
        let mut count = 0;
        for (value, ty) in self.func.values.iter().enumerate().filter(|_| collects) {
            if is_ref(ty) {
                self.rooted[value] = Some(HEADER + 8 * count);
                count += 1;
            }
        }
        if count > 0 {
            let size = HEADER as u32 + 8 * count as u32;
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
            let slot = self.builder.create_sized_stack_slot(data);
            self.roots = Some(slot);
            let list = self.builder.ins().stack_addr(types::I64, slot, 0);
            let previous = self.builder.ins().load(types::I64, trusted(), self.words, at::ROOTS);
            self.builder.ins().store(trusted(), previous, list, 0);
            let number = self.word(i64::from(count));
            self.builder.ins().store(trusted(), number, list, 8);
            let zero = self.word(0);
            for at in 0..count {
                self.builder.ins().store(trusted(), zero, list, HEADER + 8 * at);
            }
            self.builder.ins().store(trusted(), list, self.words, at::ROOTS);
        }
        for (at, param) in self.func.params.iter().enumerate() {
            let value = self.builder.block_params(entry)[at + 1];
            if matches!(self.func.ty(*param), Type::Result(..)) {
                return self.refuse("a parameter that is a result");
            }
            self.define(*param, Words::One(value));
        }
        let first = self.blocks[0];
        self.builder.ins().jump(first, &[]);
        Ok(())
    }

    fn test_stack(&mut self) {
        let stack = self.builder.ins().get_stack_pointer(types::I64);
        let limit = self.builder.ins().load(types::I64, trusted(), self.words, at::LIMIT);
        let below = self.builder.ins().icmp(IntCC::UnsignedLessThan, stack, limit);
        let (full, go_on) = (self.cold(), self.builder.create_block());
        self.builder.ins().brif(below, full, &[], go_on, &[]);
        self.builder.switch_to_block(full);
        self.fault(0);
        self.give_up();
        self.builder.switch_to_block(go_on);
    }

    pub(crate) fn cold(&mut self) -> Block {
        let block = self.builder.create_block();
        self.builder.set_cold_block(block);
        block
    }

    pub(crate) fn word(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    fn refuse<T>(&self, construct: impl Into<String>) -> Result<T, CompileError> {
        let (construct, func) = (construct.into(), self.func.name.clone());
        Err(CompileError::NotSupported { construct, func })
    }

    /// Parameters of a block for one of the IR.
    fn parameters(&mut self, block: usize, param: parcae_ir::Value) -> Words {
        let to = self.blocks[block];
        match self.func.ty(param).clone() {
            Type::Result(of, _) => {
                let value = self.builder.append_block_param(to, machine_type(&of));
                Words::Two(value, self.builder.append_block_param(to, types::I64))
            }
            ty => Words::One(self.builder.append_block_param(to, machine_type(&ty))),
        }
    }

    /// The value of an operand.
    pub(crate) fn get(&self, value: parcae_ir::Value) -> Words {
        self.values[value.0 as usize].expect("verified: defined before it is used")
    }

    pub(crate) fn one(&self, value: parcae_ir::Value) -> Value {
        self.get(value).first()
    }

    /// Defines a value, and stores it in the list of roots if it is a reference.
    pub(crate) fn define(&mut self, value: parcae_ir::Value, words: Words) {
        self.values[value.0 as usize] = Some(words);
        self.root(value, words);
    }

    fn root(&mut self, value: parcae_ir::Value, words: Words) {
        if let (Some(slot), Some(at)) = (self.roots, self.rooted[value.0 as usize]) {
            self.builder.ins().stack_store(types::I64, words.first(), slot, at);
        }
    }

    /// The block that failures of the present block go to.
    pub(crate) fn fail_block(&mut self) -> Block {
        let unwind = self.func.blocks[self.block as usize].unwind.map(|BlockId(id)| id);
        if let Some(block) = self.failing.get(&unwind) {
            return *block;
        }
        let block = self.cold();
        self.failing.insert(unwind, block);
        block
    }

    /// The code of all failures.
    fn failures(&mut self) {
        for (unwind, block) in std::mem::take(&mut self.failing) {
            self.builder.switch_to_block(block);
            if let Some(handler) = unwind {
                let panicked =
                    self.builder.ins().load(types::I64, trusted(), self.words, at::PANICKED);
                let (leave, catch) = (self.cold(), self.cold());
                self.builder.ins().brif(panicked, leave, &[], catch, &[]);
                self.builder.switch_to_block(catch);
                let failure = self.call_host(Host::Catch, &[self.words]);
                let to = self.blocks[handler as usize];
                self.builder.ins().jump(to, &[BlockArg::Value(failure[0])]);
                self.builder.switch_to_block(leave);
            }
            self.leave();
            self.give_up();
        }
    }

    /// Returns the status of a failure.
    fn give_up(&mut self) {
        let status = self.word(-1);
        match self.func.result.clone() {
            Type::Void => self.builder.ins().return_(&[status]),
            Type::Result(of, _) if *of == Type::F64 => self.give_up_float(status),
            Type::F64 => self.give_up_float(status),
            _ => {
                let zero = self.word(0);
                self.builder.ins().return_(&[zero, status])
            }
        };
    }

    fn give_up_float(&mut self, status: Value) -> cranelift_codegen::ir::Inst {
        let zero = self.builder.ins().f64const(0.0);
        self.builder.ins().return_(&[zero, status])
    }

    /// Takes the list of roots off.
    fn leave(&mut self) {
        if let Some(slot) = self.roots {
            let previous = self.builder.ins().stack_load(types::I64, types::I64, slot, 0);
            self.builder.ins().store(trusted(), previous, self.words, at::ROOTS);
        }
    }

    /// Goes to the failure if the value is not 0.
    pub(crate) fn fail_if(&mut self, value: Value) {
        let (fail, go_on) = (self.fail_block(), self.builder.create_block());
        self.builder.ins().brif(value, fail, &[], go_on, &[]);
        self.builder.switch_to_block(go_on);
    }

    /// The address of the site of the present operation.
    fn site(&mut self) -> Value {
        let site = self.program.site(self.number, self.block, self.at);
        let address = self.backend.site(site);
        self.word(address)
    }

    /// The number of the present operation's constant.
    pub(crate) fn constant_number(&self) -> u64 {
        self.program.site(self.number, self.block, self.at).constant()
    }

    /// Calls a function of the host: the counter is in memory meanwhile.
    fn call_host(&mut self, which: Host, args: &[Value]) -> Vec<Value> {
        let host = self.backend.host(which, self.builder.func);
        let left = self.builder.ins().get_pinned_reg(types::I64);
        self.builder.ins().store(trusted(), left, self.words, at::LEFT);
        let call = self.builder.ins().call(host, args);
        let results = self.builder.inst_results(call).to_vec();
        let left = self.builder.ins().load(types::I64, trusted(), self.words, at::LEFT);
        self.builder.ins().set_pinned_reg(left);
        results
    }

    fn fault(&mut self, which: i64) {
        let (site, which) = (self.site(), self.word(which));
        self.call_host(Host::Fault, &[self.words, site, which]);
    }

    /// Operands into the window.
    fn store_operands(&mut self, args: &[parcae_ir::Value]) -> Result<Value, CompileError> {
        let window = self.builder.ins().load(types::I64, trusted(), self.words, at::WINDOW);
        for (at, arg) in args.iter().enumerate() {
            let Words::One(value) = self.get(*arg) else {
                return self.refuse("a result as an operand");
            };
            self.builder.ins().store(trusted(), value, window, 8 * at as i32);
        }
        Ok(window)
    }

    /// Lets the machine execute the operation: its result, if it does not fail.
    pub(crate) fn operate(&mut self, inst: &Inst) -> Result<Option<Words>, CompileError> {
        let window = self.store_operands(&inst.args)?;
        let site = self.site();
        // A failure charges the debt of the block, so it is charged now, and taken back.
        let debt = self.debt();
        self.charge(debt, false);
        let failed = self.call_host(Host::Operate, &[self.words, site]);
        self.fail_if(failed[0]);
        self.charge(debt, true);
        let Some(result) = inst.result else { return Ok(None) };
        let at = 8 * inst.args.len() as i32;
        let mut load = |ty, at| self.builder.ins().load(ty, trusted(), window, at);
        Ok(Some(match self.func.ty(result) {
            Type::Result(of, _) => Words::Two(load(machine_type(of), at), load(types::I64, at + 8)),
            ty => Words::One(load(machine_type(ty), at)),
        }))
    }

    /// In a block out of the way: lets the machine execute the operation, which fails.
    pub(crate) fn fail_by_operation(&mut self, inst: &Inst) -> Result<(), CompileError> {
        self.store_operands(&inst.args)?;
        let site = self.site();
        let debt = self.debt();
        self.charge(debt, false);
        self.call_host(Host::Operate, &[self.words, site]);
        let fail = self.fail_block();
        self.builder.ins().jump(fail, &[]);
        Ok(())
    }

    /// The ops that are owed in the present block.
    fn debt(&mut self) -> Option<Value> {
        match self.func.blocks[self.block as usize].owes {
            _ if self.metering != Metering::Kept => None,
            Debt::None => None,
            Debt::Ops(ops) => Some(self.word(ops.into())),
            Debt::Steps(now, first) => {
                let (now, first) = (self.one(now), self.one(first));
                Some(self.builder.ins().isub(now, first))
            }
        }
    }

    /// Charges ops, or takes them back.
    fn charge(&mut self, ops: Option<Value>, back: bool) {
        let Some(ops) = ops else { return };
        let left = self.builder.ins().get_pinned_reg(types::I64);
        let ins = self.builder.ins();
        let left = if back { ins.iadd(left, ops) } else { ins.isub(left, ops) };
        self.builder.ins().set_pinned_reg(left);
    }

    /// Loads addresses and lengths of the arrays and texts that the rounds of a strip use and do
    /// not define. Nothing in a strip allocates, so they stay where they are, and only a `pop`
    /// would change a length.
    fn hoist(&mut self, first: parcae_ir::Value) {
        let func = self.func;
        let owes = |block: &&parcae_ir::Block| matches!(block.owes, Debt::Steps(_, start) if start == first);
        let rounds: Vec<&parcae_ir::Block> = func.blocks.iter().filter(owes).collect();
        let insts = || rounds.iter().flat_map(|block| &block.insts);
        if insts().any(|inst| inst.op == Opcode::Array_Pop) {
            return;
        }
        let inside = |value: parcae_ir::Value| {
            rounds.iter().any(|block| block.params.contains(&value))
                || insts().any(|inst| inst.result == Some(value))
        };
        for inst in insts() {
            let uses = matches!(
                inst.op,
                Opcode::Index
                    | Opcode::Index_Store
                    | Opcode::Array_Len
                    | Opcode::String_Index
                    | Opcode::String_Len
            );
            let key = uses.then(|| (first.0, inst.args[0].0));
            let Some(key) = key.filter(|key| !self.hoisted.contains_key(key)) else { continue };
            if !inside(inst.args[0]) {
                let view = self.view(inst.args[0]);
                let data = self.builder.ins().load(types::I64, trusted(), view, 0);
                let length = self.builder.ins().load(types::I64, trusted(), view, 8);
                self.hoisted.insert(key, (data, length));
            }
        }
    }

    /// The contents of an object and their length, if they were loaded before the strip.
    pub(crate) fn loaded(&self, object: parcae_ir::Value) -> Option<(Value, Value)> {
        match self.func.blocks[self.block as usize].owes {
            Debt::Steps(_, first) => self.hoisted.get(&(first.0, object.0)).copied(),
            _ => None,
        }
    }

    /// The end of a strip; see `Meter::strip`.
    fn strip(&mut self, inst: &Inst) -> Value {
        let (first, end) = (self.one(inst.args[0]), self.one(inst.args[1]));
        if self.metering != Metering::Kept {
            return self.builder.ins().smax(first, end);
        }
        let kept = if let Imm::Int(kept) = inst.imm { kept } else { 0 };
        let zero = self.word(0);
        let left = self.builder.ins().get_pinned_reg(types::I64);
        let left = self.builder.ins().iadd_imm_s(left, -kept);
        let left = self.builder.ins().smax(left, zero);
        let steps = self.builder.ins().isub(end, first);
        let steps = self.builder.ins().umin(steps, left);
        let bound = self.builder.ins().iadd(first, steps);
        let some = self.builder.ins().icmp(IntCC::SignedGreaterThan, end, first);
        self.builder.ins().select(some, bound, first)
    }

    fn check(&mut self) {
        let left = match self.counted.take() {
            Some((at, left)) if at + 1 == self.at => left,
            _ => self.builder.ins().get_pinned_reg(types::I64),
        };
        let due = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, left, 1);
        let (slow, go_on) = (self.cold(), self.builder.create_block());
        self.builder.ins().brif(due, slow, &[], go_on, &[]);
        self.builder.switch_to_block(slow);
        let attend = self.backend.attend(self.builder.func);
        let site = self.site();
        let left = self.builder.ins().get_pinned_reg(types::I64);
        self.builder.ins().store(trusted(), left, self.words, at::LEFT);
        self.builder.ins().call(attend, &[self.words, site]);
        let left = self.builder.ins().load(types::I64, trusted(), self.words, at::LEFT);
        self.builder.ins().set_pinned_reg(left);
        let failed = self.builder.ins().load(types::I64, trusted(), self.words, at::FAILED);
        let fail = self.fail_block();
        self.builder.ins().brif(failed, fail, &[], go_on, &[]);
        self.builder.switch_to_block(go_on);
    }

    fn block(&mut self, number: usize) -> Result<(), CompileError> {
        let func = self.func;
        let block = &func.blocks[number];
        self.block = number as u32;
        self.counted = None;
        self.builder.switch_to_block(self.blocks[number]);
        for param in &block.params {
            self.root(*param, self.get(*param));
        }
        for (at, inst) in block.insts.iter().enumerate() {
            self.at = at;
            if inst.at.line > 0 {
                self.builder.set_srcloc(source_loc(inst.at));
            }
            self.operation(inst)?;
        }
        self.at = block.insts.len();
        match &block.term {
            Term::Jump(target) => {
                let (to, args) = self.edge(target);
                self.builder.ins().jump(to, &args);
            }
            Term::Branch(value, then, other) => {
                let value = self.one(*value);
                let ((then, then_args), (other, other_args)) = (self.edge(then), self.edge(other));
                self.builder.ins().brif(value, then, &then_args, other, &other_args);
            }
            Term::Return(value) => self.returned(*value),
            Term::Resume(value) => {
                let failure = self.one(*value);
                self.call_host(Host::Resume, &[self.words, failure]);
                self.leave();
                self.give_up();
            }
            Term::Unreachable => {
                self.fault(1);
                let fail = self.fail_block();
                self.builder.ins().jump(fail, &[]);
            }
        }
        Ok(())
    }

    fn edge(&mut self, target: &Target) -> (Block, Vec<BlockArg>) {
        let mut args = Vec::new();
        for arg in &target.args {
            match self.get(*arg) {
                Words::One(value) => args.push(BlockArg::Value(value)),
                Words::Two(value, error) => {
                    args.extend([BlockArg::Value(value), BlockArg::Value(error)]);
                }
            }
        }
        (self.blocks[target.block.0 as usize], args)
    }

    fn returned(&mut self, value: Option<parcae_ir::Value>) {
        if self.is_root {
            // The end of the task: everything is paid.
            let site = self.site();
            let failed = self.call_host(Host::Settle, &[self.words, site]);
            self.fail_if(failed[0]);
        }
        self.leave();
        let zero = self.word(0);
        match (&self.func.result, value.map(|value| self.get(value))) {
            (Type::Void, _) => self.builder.ins().return_(&[zero]),
            (_, Some(Words::Two(value, error))) => self.builder.ins().return_(&[value, error]),
            (_, Some(Words::One(value))) => self.builder.ins().return_(&[value, zero]),
            (_, None) => self.builder.ins().return_(&[zero, zero]),
        };
    }

    fn operation(&mut self, inst: &Inst) -> Result<(), CompileError> {
        let result = match inst.op {
            Opcode::Budget_Decrement | Opcode::Budget_Check if self.metering != Metering::Kept => {
                None
            }
            Opcode::Budget_Decrement => {
                let left = self.builder.ins().get_pinned_reg(types::I64);
                let left = match inst.imm {
                    Imm::Int(ops) => self.builder.ins().iadd_imm_s(left, -ops),
                    _ => {
                        let ops = self.one(inst.args[0]);
                        self.builder.ins().isub(left, ops)
                    }
                };
                self.builder.ins().set_pinned_reg(left);
                self.counted = Some((self.at, left));
                None
            }
            Opcode::Budget_Check => {
                self.check();
                None
            }
            Opcode::Budget_Round => None,
            Opcode::Budget_Left if self.metering != Metering::Kept => {
                Some(Words::One(self.word(i64::MAX)))
            }
            Opcode::Budget_Left => Some(Words::One(self.builder.ins().get_pinned_reg(types::I64))),
            Opcode::Budget_Strip => {
                self.hoist(inst.args[0]);
                Some(Words::One(self.strip(inst)))
            }
            Opcode::Call => self.call(inst)?,
            Opcode::Closure_Call => self.call_value(inst)?,
            _ => match self.inline(inst)? {
                Some(words) => Some(words),
                None => self.operate(inst)?,
            },
        };
        if let (Some(value), Some(words)) = (inst.result, result) {
            self.define(value, words);
        }
        Ok(())
    }

    fn call(&mut self, inst: &Inst) -> Result<Option<Words>, CompileError> {
        let Imm::Func(id) = inst.imm else { return self.refuse("a call of nothing") };
        let mut args = vec![self.words];
        for arg in &inst.args {
            let Words::One(value) = self.get(*arg) else {
                return self.refuse("a result as an argument");
            };
            args.push(value);
        }
        let callee = self.backend.callee(id, self.builder.func);
        let call = self.builder.ins().call(callee, &args);
        let results = self.builder.inst_results(call).to_vec();
        Ok(self.results(inst, &results))
    }

    /// Tests the status of a call: its value.
    fn results(&mut self, inst: &Inst, results: &[Value]) -> Option<Words> {
        let status = *results.last()?;
        let ty = inst.result.map(|value| self.func.ty(value).clone());
        if let Some(Type::Result(..)) = ty {
            let failed = self.builder.ins().icmp_imm_s(IntCC::Equal, status, -1);
            self.fail_if(failed);
            return Some(Words::Two(results[0], status));
        }
        // The result of a function that can fail may be unused.
        let failed = self.builder.ins().icmp_imm_s(IntCC::Equal, status, -1);
        self.fail_if(failed);
        inst.result.map(|_| Words::One(results[0]))
    }

    fn call_value(&mut self, inst: &Inst) -> Result<Option<Words>, CompileError> {
        let (closure, args) = (self.one(inst.args[0]), &inst.args[1..]);
        self.store_operands(args)?;
        let room = 8 * (self.shape.captures + args.len()).max(1) as u32;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, room, 3);
        let slot = self.builder.create_sized_stack_slot(data);
        let to = self.builder.ins().stack_addr(types::I64, slot, 0);
        let count = self.word(args.len() as i64);
        let code = self.call_host(Host::Closure, &[self.words, closure, count, to])[0];
        let missing = self.builder.ins().icmp_imm_s(IntCC::Equal, code, 0);
        self.fail_if(missing);
        let word = types::I64;
        let signature = self.backend.signature(&[word, word], &[word, word]);
        let signature = self.builder.import_signature(signature);
        let call = self.builder.ins().call_indirect(signature, code, &[self.words, to]);
        let mut results = self.builder.inst_results(call).to_vec();
        let of = inst.result.map(|value| match self.func.ty(value) {
            Type::Result(of, _) => machine_type(of),
            ty => machine_type(ty),
        });
        if of == Some(types::F64) {
            results[0] = self.builder.ins().bitcast(types::F64, MemFlagsData::new(), results[0]);
        }
        Ok(self.results(inst, &results))
    }
}
