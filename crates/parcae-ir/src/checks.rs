//! Budget checks: where they are inserted, and how they are merged.
//!
//! # Naive checks
//!
//! To the letter of S0 §4.1, as the costs of its §3.3 demand:
//!
//! | place | inserted |
//! |---|---|
//! | entry of a function | `Budget_Decrement 1`, `Budget_Check` |
//! | back-edge of a loop | the same, on the edge |
//! | behind an allocation | the same |
//! | before a channel operation | `Budget_Check`, unless one precedes it; the runtime charges the operation itself |
//!
//! A check before each call and one at the entry of each function count the same; the entry covers
//! calls through values and the roots of tasks. The root of a task itself (`CPU_Parallel`) has no
//! check: the spawn was charged, and it calls a function that has one.
//!
//! # Merging
//!
//! Exact: for every run, the ops charged before each operation that is observed or may fail are
//! those of the naive form.
//!
//! 1. A *leaf*, a function that calls nothing, uses no channel, has no loop and is not used as a
//!    value, is charged by its callers: the pair at its entry moves in front of each call.
//! 2. In a block, a pair moves down over operations that are neither observed nor may fail, and is
//!    added to the next pair.
//! 3. A check in front of a channel operation is dropped if a check with nothing in between
//!    precedes it.

use crate::graph::Graph;
use crate::module::{Block, BlockId, Debt, Func, Imm, Inst, Module, Pos, Target, Tenancy, Term};
use crate::op::{Effect, Opcode};

pub(crate) fn inst(op: Opcode, imm: Imm, at: Pos) -> Inst {
    Inst { op, imm, args: Vec::new(), result: None, at }
}

pub(crate) fn decrement(ops: i64, at: Pos) -> Inst {
    inst(Opcode::Budget_Decrement, Imm::Int(ops), at)
}

pub(crate) fn check(at: Pos) -> Inst {
    inst(Opcode::Budget_Check, Imm::None, at)
}

/// Inserts the naive checks. The module must be verified and have none.
pub fn insert(module: &mut Module) {
    for func in &mut module.funcs {
        split_back_edges(func);
        let graph = Graph::new(func);
        let back: Vec<bool> =
            (0..func.blocks.len()).map(|from| is_latch(func, &graph, from)).collect();
        let (at, entry) = (func.at, func.tenancy == Tenancy::CPU_Serial);
        for (number, is_latch) in back.into_iter().enumerate() {
            let old = std::mem::take(&mut func.blocks[number].insts);
            let mut new = Vec::with_capacity(old.len() + 4);
            if number == 0 && entry {
                new.extend([decrement(1, at), check(at)]);
            }
            for inst in old {
                let (effect, at) = (inst.effect(func), inst.at);
                let fresh = new.last().is_some_and(|inst: &Inst| inst.op == Opcode::Budget_Check);
                if effect == Effect::Channel && !fresh {
                    new.push(check(at));
                }
                new.push(inst);
                if effect == Effect::Allocates {
                    new.extend([decrement(1, at), check(at)]);
                }
            }
            if is_latch {
                let at = new.last().map_or(func.at, |inst| inst.at);
                new.extend([decrement(1, at), check(at)]);
            }
            func.blocks[number].insts = new;
        }
    }
}

fn is_latch(func: &Func, graph: &Graph, from: usize) -> bool {
    let targets = func.blocks[from].term.targets();
    targets.iter().any(|target| graph.is_back_edge(from, target.block.0 as usize))
}

/// Gives each back-edge a block of its own, unless its block ends with it.
fn split_back_edges(func: &mut Func) {
    let graph = Graph::new(func);
    for from in 0..func.blocks.len() {
        if !matches!(func.blocks[from].term, Term::Branch(..)) || !graph.is_reachable(from) {
            continue;
        }
        let unwind = func.blocks[from].unwind;
        let mut term = std::mem::replace(&mut func.blocks[from].term, Term::Unreachable);
        for target in term.targets_mut() {
            if graph.is_back_edge(from, target.block.0 as usize) {
                let number = BlockId(func.blocks.len() as u32);
                let to = std::mem::replace(target, Target { block: number, args: Vec::new() });
                let (params, insts, owes) = (Vec::new(), Vec::new(), Debt::None);
                func.blocks.push(Block { params, insts, term: Term::Jump(to), unwind, owes });
            }
        }
        func.blocks[from].term = term;
    }
}

/// Merges naive checks; see the header of the file.
pub fn merge(module: &mut Module) {
    let leaves = leaves(module);
    for (number, func) in module.funcs.iter_mut().enumerate() {
        if leaves[number] {
            func.blocks[0].insts.drain(..2);
        }
        for block in &mut func.blocks {
            let old = std::mem::take(&mut block.insts);
            for inst in old {
                let leaf = matches!(inst.imm, Imm::Func(id) if leaves[id as usize]);
                if inst.op == Opcode::Call && leaf {
                    block.insts.extend([decrement(1, inst.at), check(inst.at)]);
                }
                block.insts.push(inst);
            }
        }
        let effects: Vec<Vec<Effect>> = func
            .blocks
            .iter()
            .map(|block| block.insts.iter().map(|inst| inst.effect(func)).collect())
            .collect();
        for (block, effects) in func.blocks.iter_mut().zip(effects) {
            merge_block(&mut block.insts, &effects);
        }
    }
}

/// Functions whose entry is charged by their callers.
fn leaves(module: &Module) -> Vec<bool> {
    let mut leaf: Vec<bool> = module
        .funcs
        .iter()
        .map(|func| {
            let graph = Graph::new(func);
            let calls = |block: &Block| {
                let mut effects = block.insts.iter().map(|inst| inst.op.effect());
                effects.any(|effect| matches!(effect, Effect::Calls | Effect::Channel))
            };
            let entry = func.blocks[0].insts.iter().take(2).map(|inst| inst.op);
            func.tenancy == Tenancy::CPU_Serial
                && entry.eq([Opcode::Budget_Decrement, Opcode::Budget_Check])
                && !func.blocks.iter().any(calls)
                && !(0..func.blocks.len()).any(|from| is_latch(func, &graph, from))
        })
        .collect();
    leaf[module.entry as usize] = false;
    let mut called = vec![false; module.funcs.len()];
    for func in &module.funcs {
        for inst in func.blocks.iter().flat_map(|block| &block.insts) {
            if let (Imm::Func(id), true) = (&inst.imm, inst.op != Opcode::Call) {
                leaf[*id as usize] = false;
            }
            if let (Imm::Func(id), Opcode::Call) = (&inst.imm, inst.op) {
                called[*id as usize] = true;
            }
        }
    }
    leaf.iter_mut().zip(called).for_each(|(leaf, called)| *leaf &= called);
    leaf
}

fn merge_block(insts: &mut Vec<Inst>, effects: &[Effect]) {
    let old = std::mem::take(insts);
    // Ops that were charged so far and whose pair has not been placed yet; its place in `insts`.
    let mut pending: Option<(i64, Pos)> = None;
    let mut fresh = false; // a check was the last operation that is not pure
    for (inst, effect) in old.into_iter().zip(effects) {
        match (inst.op, effect) {
            (Opcode::Budget_Decrement, _) => {
                let Imm::Int(ops) = inst.imm else { continue };
                let before = pending.map_or(0, |(ops, _)| ops);
                pending = Some((before + ops, inst.at));
                fresh = false;
            }
            (Opcode::Budget_Check, _) => {
                if pending.is_none() && !fresh {
                    insts.push(inst);
                    fresh = true;
                }
            }
            (_, Effect::Pure) => insts.push(inst),
            _ => {
                place(insts, &mut pending);
                insts.push(inst);
                fresh = false;
            }
        }
    }
    place(insts, &mut pending);
}

fn place(insts: &mut Vec<Inst>, pending: &mut Option<(i64, Pos)>) {
    if let Some((ops, at)) = pending.take() {
        insts.extend([decrement(ops, at), check(at)]);
    }
}

/// Replaces `Spawn`, `Async_Call` and `Await` by `Task_Create` and `Task_Join` (S0 §12).
pub fn lower_tasks(module: &mut Module) {
    let blocks = module.funcs.iter_mut().flat_map(|func| &mut func.blocks);
    for inst in blocks.flat_map(|block| &mut block.insts) {
        inst.op = match inst.op {
            Opcode::Spawn | Opcode::Async_Call => Opcode::Task_Create,
            Opcode::Await => Opcode::Task_Join,
            op => op,
        };
    }
}
