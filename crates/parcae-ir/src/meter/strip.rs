//! Cycles without a check that end all the same: the rounds of a strip.
//!
//! A *gate* is a block that ends with `Branch (Less i, r)`, where `r` is the end of a strip that
//! begins at `s`, and whose debt is `i - s`. The strip ends at most as far from `s` as there are
//! ops, so a path through the gate owes fewer ops than there are. Each round of a cycle owes one op
//! more (a cycle has a back-edge), and nothing is charged on it without a check. So the gate lets
//! a cycle through a bounded number of times, provided that the cycle does not begin another strip:
//! the block that does must not be on it.

use super::amount::{Amount, Definitions};
use crate::graph::Graph;
use crate::module::{Debt, Func, Imm, Inst, Term, Value};
use crate::op::Opcode;

/// The gates of a function: block, target.
pub(super) struct Gates(Vec<(usize, usize)>);

impl Gates {
    pub(super) fn of(func: &Func, graph: &Graph, definitions: &Definitions<'_>) -> Gates {
        let mut found = Vec::new();
        for (number, block) in func.blocks.iter().enumerate() {
            let Some((then, strip)) = gate(func, number, definitions) else { continue };
            let starts = func.blocks.iter().position(|block| block.insts.contains(strip));
            let mut debt = Amount::of(block.owes, func, definitions);
            debt.add(strip.args[0], 1, func, definitions);
            let mut now = Amount::default();
            now.add(
                less(block, definitions).map_or(strip.args[0], |less| less.0),
                1,
                func,
                definitions,
            );
            let is_new = starts.is_none_or(|start| reaches(func, graph, then, start));
            if debt == now && !is_new && !charges(func, number) {
                found.push((number, then));
            }
        }
        Gates(found)
    }

    pub(super) fn is(&self, from: usize, to: usize) -> bool {
        self.0.contains(&(from, to))
    }
}

fn charges(func: &Func, block: usize) -> bool {
    func.blocks[block].insts.iter().any(|inst| inst.op == Opcode::Budget_Decrement)
}

/// The operands of the comparison that a block ends with.
fn less(block: &crate::module::Block, definitions: &Definitions<'_>) -> Option<(Value, Value)> {
    let Term::Branch(cond, ..) = &block.term else { return None };
    match definitions.get(*cond, Opcode::Less)?.args[..] {
        [now, end] => Some((now, end)),
        _ => None,
    }
}

/// Where a block goes while a strip lasts, and the operation that began the strip.
fn gate<'m>(
    func: &Func,
    number: usize,
    definitions: &Definitions<'m>,
) -> Option<(usize, &'m Inst)> {
    let block = &func.blocks[number];
    let (_, end) = less(block, definitions)?;
    let strip = definitions.get(end, Opcode::Budget_Strip)?;
    match &block.term {
        Term::Branch(_, then, other) if then.block != other.block => {
            Some((then.block.0 as usize, strip))
        }
        _ => None,
    }
}

pub(super) fn checks(func: &Func, block: usize) -> bool {
    func.blocks[block].insts.iter().any(|inst| inst.op == Opcode::Budget_Check)
}

/// Whether a block is reached from another without a check in between.
fn reaches(func: &Func, graph: &Graph, from: usize, to: usize) -> bool {
    let mut seen = vec![false; func.blocks.len()];
    let mut open = vec![from];
    while let Some(block) = open.pop() {
        if block == to {
            return true;
        }
        if !checks(func, block) && graph.is_reachable(block) {
            let next = func.successors(block).into_iter();
            open.extend(next.filter(|next| !std::mem::replace(&mut seen[*next], true)));
        }
    }
    false
}

/// Whether an edge begins the next strip of the same loop, and is not a round of the loop.
///
/// The target begins a strip at its parameter and goes straight to the gate. The edge is taken only
/// behind a check, while the parameter is less than the end that the strip is bounded by: then the
/// strip has a step at least, and the gate lets through what owes an op.
pub(super) fn is_renewal(
    func: &Func,
    definitions: &Definitions<'_>,
    gates: &Gates,
    from: usize,
    to: usize,
) -> bool {
    let (source, target) = (&func.blocks[from], &func.blocks[to]);
    let begins = |inst: &&Inst| inst.op == Opcode::Budget_Strip && inst.imm == Imm::Int(0);
    let Some(strip) = target.insts.iter().find(begins) else { return false };
    let Some(at) = target.params.iter().position(|param| *param == strip.args[0]) else {
        return false;
    };
    // The gate is entered with the start of the strip.
    let Term::Jump(gate) = &target.term else { return false };
    let number = gate.block.0 as usize;
    let enters = gates.0.iter().any(|(block, _)| *block == number)
        && less(func.at(gate.block), definitions).is_some_and(|(now, end)| {
            let param = func.at(gate.block).params.iter().position(|param| *param == now);
            let first = param.and_then(|param| gate.args.get(param));
            Some(end) == strip.result && first == Some(&strip.args[0])
        });
    // And the edge is taken only if a step is left.
    let Term::Branch(_, then, other) = &source.term else { return false };
    let more = less(source, definitions)
        .is_some_and(|(now, end)| end == strip.args[1] && then.args.get(at) == Some(&now));
    let once = then.block.0 as usize == to && other.block != then.block;
    enters && more && once && checks(func, from) && target.owes == Debt::None
}
