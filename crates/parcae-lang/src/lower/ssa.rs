//! SSA from variables, after Braun et al., Simple and Efficient Construction of SSA Form (2013).
//!
//! A variable that is read in a block with several predecessors becomes a parameter of the block;
//! the arguments are added to the ends of the predecessors. A block is *sealed* when all of its
//! predecessors are known. Parameters are completed from a list, not by recursion: a program with
//! thousands of joins must not use up the stack.
//!
//! The handler of failures of a region takes no arguments. It reads variables as they were before
//! the region: those that the region assigns, and that its handler may read, live in cells.

use parcae_ir::{BlockId, Func, Imm, Inst, Opcode, Pos, Target, Term, Type, Value};
use std::collections::BTreeMap;

/// A variable of the function that is being built.
pub(super) type Var = usize;

pub(super) struct Builder {
    pub(super) func: Func,
    /// The block that operations are added to.
    pub(super) block: BlockId,
    /// Types of the variables.
    pub(super) vars: Vec<Type>,
    states: Vec<State>,
    /// Parameters whose arguments are missing.
    open: Vec<(BlockId, Var, Value)>,
    /// Position of the statement or expression that is being lowered.
    pub(super) at: Pos,
}

#[derive(Default)]
struct State {
    sealed: bool,
    ended: bool,
    predecessors: Vec<BlockId>,
    /// For a handler: the block before its region.
    before: Option<BlockId>,
    values: BTreeMap<Var, Value>,
    incomplete: Vec<(Var, Value)>,
}

impl Builder {
    pub(super) fn new(mut func: Func) -> Builder {
        let block = func.block(None);
        let states = vec![State { sealed: true, ..State::default() }];
        let at = func.at;
        Builder { func, block, vars: Vec::new(), states, open: Vec::new(), at }
    }

    pub(super) fn var(&mut self, ty: Type) -> Var {
        self.vars.push(ty);
        self.vars.len() - 1
    }

    /// A block that will be sealed later.
    pub(super) fn new_block(&mut self, unwind: Option<BlockId>) -> BlockId {
        self.states.push(State::default());
        self.func.block(unwind)
    }

    /// A handler: one parameter, the failure; variables are read as at the end of `before`.
    pub(super) fn handler(&mut self, before: BlockId, unwind: Option<BlockId>) -> (BlockId, Value) {
        let block = self.new_block(unwind);
        let failure = self.func.value(Type::Failure);
        self.func.at_mut(block).params.push(failure);
        let state = &mut self.states[block.0 as usize];
        (state.sealed, state.before) = (true, Some(before));
        (block, failure)
    }

    pub(super) fn seal(&mut self, block: BlockId) {
        let state = &mut self.states[block.0 as usize];
        state.sealed = true;
        let incomplete = std::mem::take(&mut state.incomplete);
        self.open.extend(incomplete.into_iter().map(|(var, value)| (block, var, value)));
        self.complete();
    }

    /// Whether control cannot reach the present place.
    pub(super) fn is_dead(&self) -> bool {
        self.states[self.block.0 as usize].ended
    }

    pub(super) fn has_predecessors(&self, block: BlockId) -> bool {
        let state = &self.states[block.0 as usize];
        !state.predecessors.is_empty() || state.before.is_some()
    }

    /// Declares that the present block cannot be reached.
    pub(super) fn kill(&mut self) {
        self.states[self.block.0 as usize].ended = true;
    }

    pub(super) fn end(&mut self, term: Term) {
        if self.is_dead() {
            return;
        }
        for target in term.targets() {
            self.states[target.block.0 as usize].predecessors.push(self.block);
        }
        self.func.at_mut(self.block).term = term;
        self.states[self.block.0 as usize].ended = true;
    }

    pub(super) fn jump(&mut self, block: BlockId) {
        self.end(Term::Jump(Target { block, args: Vec::new() }));
    }

    /// A jump that passes the failure to a handler.
    pub(super) fn jump_with(&mut self, block: BlockId, value: Value) {
        if self.is_dead() {
            return;
        }
        // A handler has its own way to read variables, so this edge is not among its predecessors.
        self.func.at_mut(self.block).term = Term::Jump(Target { block, args: vec![value] });
        self.states[self.block.0 as usize].ended = true;
    }

    pub(super) fn branch(&mut self, cond: Value, then: BlockId, other: BlockId) {
        let to = |block| Target { block, args: Vec::new() };
        self.end(Term::Branch(cond, to(then), to(other)));
    }

    pub(super) fn write(&mut self, var: Var, value: Value) {
        self.states[self.block.0 as usize].values.insert(var, value);
    }

    pub(super) fn read(&mut self, var: Var) -> Value {
        let value = self.read_at(self.block, var);
        self.complete();
        value
    }

    fn read_at(&mut self, mut block: BlockId, var: Var) -> Value {
        loop {
            let state = &self.states[block.0 as usize];
            if let Some(value) = state.values.get(&var) {
                return *value;
            }
            if let Some(before) = state.before {
                block = before;
            } else if state.sealed && state.predecessors.len() == 1 {
                block = state.predecessors[0];
            } else {
                let value = self.func.value(self.vars[var].clone());
                let state = &mut self.states[block.0 as usize];
                state.values.insert(var, value);
                if !state.sealed {
                    self.func.at_mut(block).params.push(value);
                    state.incomplete.push((var, value));
                } else if !state.predecessors.is_empty() {
                    self.func.at_mut(block).params.push(value);
                    self.open.push((block, var, value));
                }
                // Otherwise the block cannot be reached, and the value is never computed.
                return value;
            }
        }
    }

    fn complete(&mut self) {
        while let Some((block, var, value)) = self.open.pop() {
            debug_assert!(self.func.at(block).params.contains(&value));
            for at in 0..self.states[block.0 as usize].predecessors.len() {
                let from = self.states[block.0 as usize].predecessors[at];
                let arg = self.read_at(from, var);
                // Arguments stand in the order of the parameters.
                let place = self.func.at(block).params.iter().position(|p| *p == value);
                for target in self.func.at_mut(from).term.targets_mut() {
                    if target.block == block {
                        let place = place.unwrap_or(0);
                        while target.args.len() <= place {
                            target.args.push(arg);
                        }
                        target.args[place] = arg;
                    }
                }
            }
        }
    }

    pub(super) fn inst(&mut self, op: Opcode, imm: Imm, args: Vec<Value>, ty: Type) -> Value {
        let result = self.func.value(ty);
        self.push(op, imm, args, Some(result));
        result
    }

    pub(super) fn effect(&mut self, op: Opcode, imm: Imm, args: Vec<Value>) {
        self.push(op, imm, args, None);
    }

    fn push(&mut self, op: Opcode, imm: Imm, args: Vec<Value>, result: Option<Value>) {
        if self.is_dead() {
            return;
        }
        let inst = Inst { op, imm, args, result, at: self.at };
        self.func.at_mut(self.block).insts.push(inst);
    }

    /// The finished function.
    pub(super) fn finish(mut self) -> Func {
        parcae_ir::remove_constant_params(&mut self.func);
        self.func.compact();
        self.func
    }
}
