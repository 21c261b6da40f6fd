//! Loops that are metered in strips, with exact counts.
//!
//! A loop over `i` in steps of one, which calls, allocates and observes nothing, has no check in
//! its rounds. Before a strip of rounds [`Budget_Strip`](Opcode::Budget_Strip) computes where it
//! ends: at the end of the loop, or where the ops that are left are used up. Behind it the rounds
//! that were done are charged, all at once, and checked. So the check meets the same count at the
//! same `i` as the naive form.
//!
//! ```text
//! start(i0):  r = Budget_Strip i0, end        Jump head(i0)
//! head(i):    Branch (Less i, r), body, strip                      owes i - i0
//! body:       ...                             Jump head(i + 1)     owes i - i0
//! strip:      Budget_Decrement i - i0; Budget_Check                owes i - i0
//!             Branch (Less i, end), start(i), exit
//! ```
//!
//! An operation of the body that fails charges the [debt](Debt) of its block. Each other way out of
//! the loop gets a block that charges. A loop over an inclusive range tests its end before the
//! step: there the strip leaves its last step to a block behind the check, which is metered by
//! itself, so that the check falls before the round that follows.
//!
//! No value is renamed: `start` dominates the head, and `strip` is dominated by the block that
//! tests.

use crate::checks::{check, decrement, inst};
use crate::graph::Graph;
use crate::module::{
    Block, BlockId, Debt, Func, Imm, Inst, Module, Pos, Target, Term, Type, Value,
};
use crate::op::{Effect, Opcode};

/// Meters loops in strips where it is possible. The checks must have been merged.
pub fn strip(module: &mut Module) {
    for func in &mut module.funcs {
        let graph = Graph::new(func);
        let loops = innermost(func, &graph);
        let mut changed = false;
        for found in loops {
            changed |= Strip::of(func, found).is_some_and(|strip| {
                strip.apply(func);
                true
            });
        }
        if changed {
            func.compact();
        }
    }
}

/// A loop without another one in it: its first block, the block that goes back, which has no other
/// target, and all of its blocks.
pub(crate) struct Round {
    pub(crate) head: usize,
    pub(crate) latch: usize,
    pub(crate) blocks: Vec<usize>,
}

/// The loops of a function that have no other loop in them and one way back, and do nothing that
/// others can observe, that allocates or that calls.
pub(crate) fn innermost(func: &Func, graph: &Graph) -> Vec<Round> {
    let count = func.blocks.len();
    let mut before = vec![Vec::new(); count];
    let mut back = Vec::new();
    for from in (0..count).filter(|from| graph.is_reachable(*from)) {
        for to in func.successors(from) {
            before[to].push(from);
            if graph.is_back_edge(from, to) {
                back.push((from, to));
            }
        }
    }
    let mut found = Vec::new();
    for &(latch, head) in &back {
        let mut seen = vec![false; count];
        seen[head] = true;
        let (mut blocks, mut open) = (vec![head], vec![latch]);
        while let Some(block) = open.pop() {
            if !std::mem::replace(&mut seen[block], true) {
                blocks.push(block);
                open.extend(&before[block]);
            }
        }
        let other = |(from, _): &(usize, usize)| *from != latch && seen[*from];
        let unwind = func.blocks[head].unwind;
        let fits = |block: usize| {
            let (here, insts) = (&func.blocks[block], &func.blocks[block].insts);
            let meters = if block == latch { 2 } else { 0 };
            let plain = insts.len() >= meters
                && insts[..insts.len() - meters].iter().all(|inst| is_plain(inst.op, inst, func));
            here.unwind == unwind && here.owes == Debt::None && plain
        };
        let metered =
            func.blocks[latch].insts.last_chunk().is_some_and(|[ops, check]: &[Inst; 2]| {
                (ops.op, &ops.imm, check.op)
                    == (Opcode::Budget_Decrement, &Imm::Int(1), Opcode::Budget_Check)
            });
        let handles = unwind.is_some_and(|unwind| seen[unwind.0 as usize]);
        let simple = matches!(func.blocks[latch].term, Term::Jump(_)) && head != 0 && !handles;
        if simple && metered && !back.iter().any(other) && blocks.iter().all(|block| fits(*block)) {
            found.push(Round { head, latch, blocks });
        }
    }
    found
}

/// Whether an operation belongs to a loop without checks: it changes values of the task alone, and
/// calls the machine neither to wait nor to clean up.
fn is_plain(op: Opcode, inst: &Inst, func: &Func) -> bool {
    let steps = op.name().starts_with("Select") || op.name().starts_with("Shield");
    matches!(inst.effect(func), Effect::Pure | Effect::Traps) && !steps
}

/// A loop that can be metered in strips.
struct Strip {
    round: Round,
    /// The counter, a parameter of the head.
    counter: Value,
    /// Where the loop ends.
    end: Value,
    /// The block that tests, whether it does so at the end of the round, and the exit.
    test: usize,
    inclusive: bool,
}

impl Strip {
    fn of(func: &Func, round: Round) -> Option<Strip> {
        let Term::Jump(again) = &func.blocks[round.latch].term else { return None };
        let within = |block: BlockId| round.blocks.contains(&(block.0 as usize));
        let inside = |value: Value| {
            let defines = |block: &usize| {
                let block = &func.blocks[*block];
                block.params.contains(&value)
                    || block.insts.iter().any(|inst| inst.result == Some(value))
            };
            round.blocks.iter().any(defines)
        };
        // The test at the head, or behind the body.
        let goes = |block: &usize| {
            let targets = func.blocks[*block].term.targets();
            targets.iter().any(|to| to.block.0 as usize == round.latch)
        };
        let mut before = round.blocks.iter().copied().filter(goes);
        let before = before.next().filter(|_| before.next().is_none());
        for (test, inclusive) in [(Some(round.head), false), (before, true)] {
            let Some(test) = test else { continue };
            let block = &func.blocks[test];
            let Term::Branch(cond, then, other) = &block.term else { continue };
            let (stays, leaves) = if inclusive { (other, then) } else { (then, other) };
            let op = if inclusive { Opcode::Equal } else { Opcode::Less };
            let compares = |inst: &&Inst| inst.op == op && inst.result == Some(*cond);
            let Some(compare) = block.insts.iter().find(compares) else { continue };
            let (counter, end) = (compare.args[0], compare.args[1]);
            let at = func.blocks[round.head].params.iter().position(|param| *param == counter);
            let Some(at) = at else { continue };
            let steps = *func.ty(counter) == Type::I64
                && is_next(func, again.args[at], counter)
                && within(stays.block)
                && !within(leaves.block);
            let alone = !inclusive
                || (stays.block.0 as usize == round.latch
                    && only_steps(func, &round, again.args[at]));
            let known = !inside(end) || (!inclusive && can_move(func, &round, end, &inside));
            let repeats = inclusive || repeatable(func, round.head);
            if steps && alone && known && repeats {
                return Some(Strip { round, counter, end, test, inclusive });
            }
        }
        None
    }

    fn apply(self, func: &mut Func) {
        let Strip { round, counter, end, test, inclusive } = self;
        let (head, latch) = (round.head, round.latch);
        let unwind = func.blocks[head].unwind;
        let place = func.blocks[latch].insts.last().map_or(func.at, |inst| inst.at);
        // The block before the strip takes over all edges to the head but the one back.
        let at = func.blocks[head].params.iter().position(|param| *param == counter).unwrap_or(0);
        let types: Vec<Type> =
            func.blocks[head].params.iter().map(|param| func.ty(*param).clone()).collect();
        let firsts: Vec<Value> = types.into_iter().map(|ty| func.value(ty)).collect();
        let start = add(func, firsts.clone(), None);
        for (number, block) in func.blocks.iter_mut().enumerate() {
            if number != latch && number != start.0 as usize {
                let targets = block.term.targets_mut().into_iter();
                targets.filter(|to| to.block.0 as usize == head).for_each(|to| to.block = start);
            }
        }
        let mut insts = Vec::new();
        let moved = func.blocks[head].insts.iter().position(|inst| inst.result == Some(end));
        insts.extend(moved.map(|at| func.blocks[head].insts.remove(at)));
        let first = firsts[at];
        let limit = func.value(Type::I64);
        let imm = Imm::Int(inclusive.into());
        insts.push(operation(Opcode::Budget_Strip, imm, vec![first, end], limit, place));
        func.at_mut(start).insts = insts;
        func.at_mut(start).term = Term::Jump(Target { block: BlockId(head as u32), args: firsts });
        // The rounds owe their number, and charge nothing.
        let owes = Debt::Steps(counter, first);
        round.blocks.iter().for_each(|block| func.blocks[*block].owes = owes);
        let length = func.blocks[latch].insts.len();
        func.blocks[latch].insts.truncate(length - 2);
        let charged = |func: &mut Func| {
            let block = add(func, Vec::new(), unwind);
            let done = func.value(Type::I64);
            let sub = operation(Opcode::Wrap_Sub, Imm::None, vec![counter, first], done, place);
            let pay = Inst { args: vec![done], ..inst(Opcode::Budget_Decrement, Imm::None, place) };
            func.at_mut(block).insts = vec![sub, pay, check(place)];
            func.at_mut(block).owes = owes;
            block
        };
        // The test is that of the strip; behind it comes that of the loop.
        let block = &mut func.blocks[test];
        let Term::Branch(cond, then, other) = block.term.clone() else { return };
        let compare = block.insts.iter_mut().find(|inst| inst.result == Some(cond));
        let Some(compare) = compare else { return };
        let whole = compare.clone();
        (compare.op, compare.args) = (Opcode::Less, vec![counter, limit]);
        let again = func.value(Type::Bool);
        let whole = Inst { result: Some(again), ..whole };
        let behind = charged(func);
        let to_behind = Target { block: behind, args: Vec::new() };
        func.at_mut(behind).insts.push(whole);
        if inclusive {
            func.blocks[test].term = Term::Branch(cond, other, to_behind);
            // The last step of a strip, with its op.
            let step = add(func, Vec::new(), unwind);
            let Term::Jump(mut next) = func.blocks[latch].term.clone() else { return };
            let mut insts = func.blocks[latch].insts.clone();
            for inst in &mut insts {
                let Some(result) = inst.result else { continue };
                let copy = func.value(func.ty(result).clone());
                inst.result = Some(copy);
                next.args.iter_mut().filter(|arg| **arg == result).for_each(|arg| *arg = copy);
            }
            next.block = start;
            insts.extend([decrement(1, place), check(place)]);
            func.at_mut(step).insts = insts;
            func.at_mut(step).term = Term::Jump(next);
            let to_step = Target { block: step, args: Vec::new() };
            func.at_mut(behind).term = Term::Branch(again, then, to_step);
        } else {
            func.blocks[test].term = Term::Branch(cond, then, to_behind);
            let args = func.blocks[head].params.clone();
            let renewed = Target { block: start, args };
            func.at_mut(behind).term = Term::Branch(again, renewed, other);
        }
        // Other ways out charge what was done.
        for number in round.blocks.iter().copied().filter(|number| *number != test) {
            let mut term = func.blocks[number].term.clone();
            for target in term.targets_mut() {
                if !round.blocks.contains(&(target.block.0 as usize)) {
                    let edge = charged(func);
                    let to = std::mem::replace(target, Target { block: edge, args: Vec::new() });
                    func.at_mut(edge).term = Term::Jump(to);
                }
            }
            func.blocks[number].term = term;
        }
    }
}

/// A new block.
pub(crate) fn add(func: &mut Func, params: Vec<Value>, unwind: Option<BlockId>) -> BlockId {
    let (insts, term, owes) = (Vec::new(), Term::Unreachable, Debt::None);
    func.blocks.push(Block { params, insts, term, unwind, owes });
    BlockId(func.blocks.len() as u32 - 1)
}

/// An operation with a result.
pub(crate) fn operation(op: Opcode, imm: Imm, args: Vec<Value>, result: Value, at: Pos) -> Inst {
    Inst { op, imm, args, result: Some(result), at }
}

/// Whether a value is the counter and one.
fn is_next(func: &Func, value: Value, counter: Value) -> bool {
    let defines = |inst: &&Inst| inst.result == Some(value);
    let all = || func.blocks.iter().flat_map(|block| &block.insts);
    let Some(next) = all().find(defines).filter(|inst| inst.op == Opcode::Add) else {
        return false;
    };
    let one = |value: Value| {
        all().any(|inst| {
            (inst.op, &inst.imm, inst.result) == (Opcode::Constant, &Imm::Int(1), Some(value))
        })
    };
    next.args[0] == counter && one(next.args[1])
}

/// Whether the last block of an inclusive loop does nothing but the step: it is done again, by
/// another block, between two strips.
fn only_steps(func: &Func, round: &Round, next: Value) -> bool {
    let insts = &func.blocks[round.latch].insts;
    insts.len() == 3 && insts[0].result == Some(next)
}

/// Whether the end of a loop, which the head computes, may be computed before the first round.
fn can_move(func: &Func, round: &Round, end: Value, inside: &impl Fn(Value) -> bool) -> bool {
    let insts = || round.blocks.iter().flat_map(|block| &func.blocks[*block].insts);
    let pops = || insts().any(|inst| inst.op == Opcode::Array_Pop);
    let head = &func.blocks[round.head].insts;
    head.iter().find(|inst| inst.result == Some(end)).is_some_and(|inst| match inst.op {
        Opcode::Constant => true,
        Opcode::Array_Len => !inside(inst.args[0]) && !pops(),
        _ => false,
    })
}

/// Whether the operations of the head may be executed again between two strips, with the same
/// results.
fn repeatable(func: &Func, head: usize) -> bool {
    func.blocks[head].insts.iter().all(|inst| {
        !matches!(inst.op, Opcode::Cell_Store | Opcode::Index_Store | Opcode::Array_Pop)
    })
}
