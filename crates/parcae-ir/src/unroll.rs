//! Unrolling with exact counts, for loops that cannot be metered in [strips](crate::strip).
//!
//! Several rounds are done in a row without a check if that many ops are left, and are charged
//! behind the last one. Otherwise a round is done by the loop as it was, with its check: so the
//! check meets the same counts as the naive form.
//!
//! ```text
//! guard(v):    %l = Budget_Left       Branch (GreaterEqual %l, 4), first(v), loop(v)
//! first(v):    ...  Budget_Round      Jump second(w)
//! second(v):   ...  Budget_Round      Jump third(w)            owes 1
//! third(v):    ...  Budget_Round      Jump fourth(w)           owes 2
//! fourth(v):   ...  Budget_Decrement 4; Budget_Check; Jump guard(w)   owes 3
//! loop(v):     ...  Budget_Decrement 1; Budget_Check; Jump guard(w)
//! ```
//!
//! A way out of a copy charges the rounds before it. All ways to one block meet in a block whose
//! parameters are the values of the loop that are used behind it.

use crate::checks::{check, decrement, inst};
use crate::graph::Graph;
use crate::module::{Block, BlockId, Debt, Func, Imm, Module, Target, Term, Type, Value};
use crate::op::Opcode;
use crate::strip::{Round, add, innermost, operation};
use std::collections::BTreeMap;

/// Operations of all copies of a loop: a balance between the length of the code and the checks.
const MOST: usize = 160;
/// Most copies, and fewest that are worth it.
const COPIES: std::ops::RangeInclusive<usize> = 3..=8;

/// Unrolls loops without calls, whose rounds are checked one by one.
pub fn unroll(module: &mut Module) {
    for func in &mut module.funcs {
        let mut changed = false;
        for round in innermost(func, &Graph::new(func)) {
            let length: usize =
                round.blocks.iter().map(|block| func.blocks[*block].insts.len() + 1).sum();
            let copies = (MOST / length.max(1)).min(*COPIES.end());
            if copies >= *COPIES.start()
                && let Some(exits) = Exits::of(func, &round)
            {
                Unrolling { func, round, copies, exits }.apply();
                changed = true;
            }
        }
        if changed {
            func.compact();
        }
    }
}

/// Blocks behind a loop, each with the values of the loop that are used there.
struct Exits(BTreeMap<usize, Vec<Value>>);

impl Exits {
    /// None if a value is used where several ways out meet.
    fn of(func: &Func, round: &Round) -> Option<Exits> {
        let graph = Graph::new(func);
        let within = |block: usize| round.blocks.contains(&block);
        let mut exits = Exits(BTreeMap::new());
        for block in &round.blocks {
            for target in func.blocks[*block].term.targets() {
                if !within(target.block.0 as usize) {
                    exits.0.entry(target.block.0 as usize).or_default();
                }
            }
        }
        let entered: Vec<usize> = (0..func.blocks.len())
            .filter(|from| !within(*from) && graph.is_reachable(*from))
            .flat_map(|from| func.successors(from))
            .collect();
        let mut defined = vec![false; func.values.len()];
        for block in &round.blocks {
            let block = &func.blocks[*block];
            let results = block.insts.iter().filter_map(|inst| inst.result);
            block.params.iter().copied().chain(results).for_each(|value| {
                defined[value.0 as usize] = true;
            });
        }
        for (number, block) in func.blocks.iter().enumerate() {
            if within(number) || !graph.is_reachable(number) {
                continue;
            }
            let args = block.insts.iter().flat_map(|inst| inst.args.iter().copied());
            let debt = match block.owes {
                Debt::Steps(now, first) => vec![now, first],
                _ => Vec::new(),
            };
            for value in args.chain(block.term.uses()).chain(debt) {
                if !defined[value.0 as usize] {
                    continue;
                }
                let exit = exits.0.iter_mut().find(|(exit, _)| {
                    !entered.contains(exit) && graph.dominates(2 * **exit, 2 * number)
                });
                let values = exit?.1;
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        Some(exits)
    }
}

struct Unrolling<'f> {
    func: &'f mut Func,
    round: Round,
    copies: usize,
    exits: Exits,
}

impl Unrolling<'_> {
    fn apply(mut self) {
        let landings = self.landings();
        let (head, latch) = (self.round.head, self.round.latch);
        let unwind = self.func.blocks[head].unwind;
        let length = self.func.blocks[latch].insts.len();
        let place = self.func.blocks[latch].insts[length - 1].at;
        let original: Vec<Block> =
            self.round.blocks.iter().map(|block| self.func.blocks[*block].clone()).collect();
        // The guard takes over all edges to the head, the one back included.
        let params = self.fresh(&self.func.blocks[head].params.clone());
        let guard = add(self.func, params.clone(), None);
        for (number, block) in self.func.blocks.iter_mut().enumerate() {
            if number != guard.0 as usize {
                let targets = block.term.targets_mut().into_iter();
                targets.filter(|to| to.block.0 as usize == head).for_each(|to| to.block = guard);
            }
        }
        // The loop as it was leaves by the landings.
        let blocks = self.round.blocks.clone();
        for number in &blocks {
            let mut term = self.func.blocks[*number].term.clone();
            for target in term.targets_mut() {
                if let Some((landing, values)) = landings.get(&(target.block.0 as usize)) {
                    target.block = *landing;
                    target.args.extend(values);
                }
            }
            self.func.blocks[*number].term = term;
        }
        // All copies exist before their ends are written.
        let copies: Vec<Copy> = (0..self.copies)
            .map(|_| {
                let mut copy = Copy { blocks: BTreeMap::new(), values: BTreeMap::new() };
                for (number, block) in blocks.iter().zip(&original) {
                    let params = self.fresh(&block.params);
                    copy.values.extend(block.params.iter().copied().zip(params.iter().copied()));
                    let results: Vec<Value> =
                        block.insts.iter().filter_map(|inst| inst.result).collect();
                    let fresh = self.fresh(&results);
                    copy.values.extend(results.into_iter().zip(fresh));
                    copy.blocks.insert(*number, add(self.func, params, unwind));
                }
                copy
            })
            .collect();
        for (at, copy) in copies.iter().enumerate() {
            let next = copies.get(at + 1).map_or(guard, |next| next.blocks[&head]);
            let owes = if at == 0 { Debt::None } else { Debt::Ops(at as u32) };
            for (number, block) in blocks.iter().zip(&original) {
                let mut insts = block.insts.clone();
                if *number == latch {
                    insts.truncate(length - 2);
                    if at + 1 < self.copies {
                        insts.push(inst(Opcode::Budget_Round, Imm::None, place));
                    } else {
                        insts.extend([decrement(self.copies as i64, place), check(place)]);
                    }
                }
                for inst in &mut insts {
                    inst.args.iter_mut().chain(&mut inst.result).for_each(|v| copy.rename(v));
                }
                let mut term = block.term.clone();
                if let Term::Branch(cond, ..) = &mut term {
                    copy.rename(cond);
                }
                for target in term.targets_mut() {
                    target.args.iter_mut().for_each(|arg| copy.rename(arg));
                    let to = target.block.0 as usize;
                    if to == head {
                        target.block = next;
                    } else if let Some(block) = copy.blocks.get(&to) {
                        target.block = *block;
                    } else if let Some((landing, values)) = landings.get(&to) {
                        target.block = *landing;
                        target.args.extend(values.iter().map(|value| copy.of(*value)));
                        self.charged(target, owes, unwind, place);
                    }
                }
                let to = self.func.at_mut(copy.blocks[number]);
                (to.insts, to.term, to.owes) = (insts, term, owes);
            }
        }
        let [left, most] = [(); 2].map(|()| self.func.value(Type::I64));
        let enough = self.func.value(Type::Bool);
        let test = [
            operation(Opcode::Budget_Left, Imm::None, vec![], left, place),
            operation(Opcode::Constant, Imm::Int(self.copies as i64), vec![], most, place),
            operation(Opcode::GreaterEqual, Imm::None, vec![left, most], enough, place),
        ];
        let target = |block| Target { block, args: params.clone() };
        let (fast, slow) = (target(copies[0].blocks[&head]), target(BlockId(head as u32)));
        let guard = self.func.at_mut(guard);
        (guard.insts, guard.term) = (test.to_vec(), Term::Branch(enough, fast, slow));
    }

    fn fresh(&mut self, values: &[Value]) -> Vec<Value> {
        let types: Vec<Type> = values.iter().map(|value| self.func.ty(*value).clone()).collect();
        types.into_iter().map(|ty| self.func.value(ty)).collect()
    }

    /// For each block behind the loop, a block with the values that are used there as parameters,
    /// and these values.
    fn landings(&mut self) -> BTreeMap<usize, (BlockId, Vec<Value>)> {
        let mut landings = BTreeMap::new();
        let (graph, count) = (Graph::new(self.func), self.func.blocks.len());
        for (exit, values) in std::mem::take(&mut self.exits.0) {
            let passed = self.fresh(&self.func.blocks[exit].params.clone());
            let inner = self.fresh(&values);
            let rename = |value: &mut Value| {
                if let Some(at) = values.iter().position(|old| old == value) {
                    *value = inner[at];
                }
            };
            for (number, block) in self.func.blocks.iter_mut().enumerate().take(count) {
                let behind = graph.is_reachable(number) && graph.dominates(2 * exit, 2 * number);
                if behind && !self.round.blocks.contains(&number) {
                    rename_block(block, &rename);
                }
            }
            let params = passed.iter().copied().chain(inner.iter().copied()).collect();
            let landing = add(self.func, params, None);
            let to = Target { block: BlockId(exit as u32), args: passed };
            self.func.at_mut(landing).term = Term::Jump(to);
            landings.insert(exit, (landing, values));
        }
        landings
    }

    /// Puts a block that charges the rounds so far on an edge.
    fn charged(
        &mut self,
        edge: &mut Target,
        owes: Debt,
        unwind: Option<BlockId>,
        place: crate::module::Pos,
    ) {
        let Debt::Ops(ops) = owes else { return };
        let block = add(self.func, Vec::new(), unwind);
        let to = std::mem::replace(edge, Target { block, args: Vec::new() });
        let block = self.func.at_mut(block);
        block.insts = vec![decrement(ops.into(), place), check(place)];
        (block.term, block.owes) = (Term::Jump(to), owes);
    }
}

/// A copy of a loop: its blocks and its values.
struct Copy {
    blocks: BTreeMap<usize, BlockId>,
    values: BTreeMap<Value, Value>,
}

impl Copy {
    fn of(&self, value: Value) -> Value {
        self.values.get(&value).copied().unwrap_or(value)
    }

    fn rename(&self, value: &mut Value) {
        *value = self.of(*value);
    }
}

fn rename_block(block: &mut Block, rename: &impl Fn(&mut Value)) {
    for inst in &mut block.insts {
        inst.args.iter_mut().for_each(rename);
    }
    if let Debt::Steps(now, first) = &mut block.owes {
        rename(now);
        rename(first);
    }
    for target in block.term.targets_mut() {
        target.args.iter_mut().for_each(rename);
    }
    match &mut block.term {
        Term::Branch(value, ..) | Term::Resume(value) | Term::Return(Some(value)) => rename(value),
        _ => {}
    }
}
