//! The proof that code is metered, independent of the pass that inserted the checks.
//!
//! Nothing is taken from `checks.rs`: the places at which ops are owed are found again, from the
//! control flow and the operations. Three statements are verified.
//!
//! 1. **Every cycle checks.** Without the blocks that have a `Budget_Check` the control flow of a
//!    function, failures included, has no cycle but those that a [gate](strip) ends; without the
//!    functions that check before they call anything the call graph has none. A call through a
//!    value may reach every function that is used as one.
//! 2. **Charged = owed.** An entry, a back-edge and an allocation owe one op each, so does a
//!    `Budget_Round` of an unrolled loop, and a call of a function without a charge at its entry
//!    owes that entry. A block may begin with a
//!    [debt](Debt): each edge to it, and its back-edge, brings just that amount, as a sum over
//!    values. An operation that may fail is executed with the debt of its block, which is charged
//!    if it fails; an operation that is observed, allocates or calls, and the end of the function,
//!    with none.
//! 3. **Charged means checked.** Each `Budget_Decrement` is followed by a `Budget_Check` before any
//!    such operation, and a channel operation is preceded by a check. Blocks that owe a number of
//!    ops are reached only after a test that so many are left.

mod amount;
mod strip;

use crate::graph::{Graph, find_cycle};
use crate::module::{Debt, Func, Imm, Module, Tenancy, Term};
use crate::op::{Effect, Opcode};
use crate::verify::Violation;
use amount::{Amount, Definitions};
use strip::{Gates, checks};

/// Verifies that a module is metered. The module must have passed [`verify`](crate::verify()).
pub fn verify_metering(module: &Module) -> Vec<Violation> {
    let mut found = Vec::new();
    let own: Vec<bool> = module.funcs.iter().map(charges_entry).collect();
    for (id, func) in module.funcs.iter().enumerate() {
        let mut add = |block: Option<usize>, message: &str| {
            let block = block.map(|block| block as u32);
            found.push(Violation { func: func.name.clone(), block, message: message.into() });
        };
        let graph = Graph::new(func);
        let definitions = Definitions::of(func);
        let gates = Gates::of(func, &graph, &definitions);
        let checked: Vec<bool> = (0..func.blocks.len()).map(|block| checks(func, block)).collect();
        let unchecked = |block: usize| match checked[block] || !graph.is_reachable(block) {
            true => Vec::new(),
            false => {
                let next = func.successors(block).into_iter();
                next.filter(|next| !checked[*next] && !gates.is(block, *next)).collect()
            }
        };
        if let Some(block) = find_cycle(func.blocks.len(), unchecked) {
            add(Some(block), "a cycle without a Budget_Check");
        }
        // The root of a task owes nothing: its spawn was charged.
        let entry = own[id] && func.tenancy == Tenancy::CPU_Serial;
        let facts =
            Facts { module, func, graph: &graph, definitions, gates: &gates, own: &own, entry };
        for number in 0..func.blocks.len() {
            if graph.is_reachable(number)
                && let Err(message) = facts.block(number)
            {
                add(Some(number), message);
            }
        }
    }
    for id in 0..module.funcs.len() {
        if is_charged_by_callers(module, &own, id) && !is_leaf(module, id) {
            let message = "the entry is not charged".into();
            found.push(Violation { func: module.funcs[id].name.clone(), block: None, message });
        }
    }
    if let Some(func) = call_cycle(module) {
        let message = "a cycle of calls without a Budget_Check".into();
        found.push(Violation { func: module.funcs[func].name.clone(), block: None, message });
    }
    found
}

/// Whether a function charges its entry itself: it decrements before anything that is observed or
/// may fail.
fn charges_entry(func: &Func) -> bool {
    let before = func.blocks[0]
        .insts
        .iter()
        .take_while(|inst| matches!(inst.effect(func), Effect::Pure | Effect::Meters));
    before.clone().any(|inst| inst.op == Opcode::Budget_Decrement)
}

/// Whether calls of a function owe its entry.
fn is_charged_by_callers(module: &Module, own: &[bool], id: usize) -> bool {
    !own[id] && module.funcs[id].tenancy == Tenancy::CPU_Serial
}

/// Whether callers can charge the entry of a function: it is called, by its name alone, and calls
/// nothing itself.
fn is_leaf(module: &Module, id: usize) -> bool {
    let insts = module.funcs.iter().flat_map(|func| &func.blocks).flat_map(|block| &block.insts);
    let (mut called, mut by_value) = (false, module.entry as usize == id);
    for inst in insts {
        if inst.imm == Imm::Func(id as u32) {
            called |= inst.op == Opcode::Call;
            by_value |= inst.op != Opcode::Call;
        }
    }
    let mut own = module.funcs[id].blocks.iter().flat_map(|block| &block.insts);
    called && !by_value && own.all(|inst| inst.op.effect() != Effect::Calls)
}

/// A function, for statements 2 and 3.
struct Facts<'m> {
    module: &'m Module,
    func: &'m Func,
    graph: &'m Graph,
    definitions: Definitions<'m>,
    gates: &'m Gates,
    /// For each function, whether it charges its entry itself.
    own: &'m [bool],
    /// Whether this one's entry owes an op.
    entry: bool,
}

const UNCHECKED: &str = "a Budget_Decrement without a Budget_Check behind it";
const UNEQUAL: &str = "the ops that are charged are not those that are owed";

impl Facts<'_> {
    /// Statements 2 and 3 for one block.
    fn block(&self, number: usize) -> Result<(), &'static str> {
        let (func, block) = (self.func, &self.func.blocks[number]);
        if number == 0 && block.owes != Debt::None {
            return Err("the first block owes ops");
        }
        if let Debt::Ops(ops) = block.owes
            && !self.has_left(number, ops)
        {
            return Err("ops are owed without a test that they are left");
        }
        let declared = Amount::of(block.owes, func, &self.definitions);
        let mut debt = declared.clone();
        debt.ops += i64::from(number == 0 && self.entry);
        let (mut unchecked, mut fresh) = (false, false);
        for inst in &block.insts {
            let effect = inst.effect(func);
            match (inst.op, &inst.imm) {
                (Opcode::Budget_Decrement, imm) => {
                    match imm {
                        Imm::Int(ops) => debt.ops -= ops,
                        _ => debt.add(inst.args[0], -1, func, &self.definitions),
                    }
                    (unchecked, fresh) = (true, false);
                    continue;
                }
                (Opcode::Budget_Check, _) => {
                    (unchecked, fresh) = (false, true);
                    continue;
                }
                (Opcode::Budget_Round, _) => {
                    debt.ops += 1;
                    continue;
                }
                (Opcode::Call, Imm::Func(callee))
                    if is_charged_by_callers(self.module, self.own, *callee as usize) =>
                {
                    debt.ops += 1;
                }
                _ => {}
            }
            if effect == Effect::Pure {
                continue;
            }
            if unchecked {
                return Err(UNCHECKED);
            }
            // The engines charge the debt of the block if an operation of it fails.
            let is_owed = match effect {
                Effect::Traps => debt == declared,
                Effect::Meters => debt.is_zero(),
                _ => debt.is_zero() && block.owes == Debt::None,
            };
            if !is_owed {
                return Err(UNEQUAL);
            }
            if effect == Effect::Channel && !fresh {
                return Err("a channel operation without a Budget_Check before it");
            }
            fresh = false;
            debt.ops += i64::from(effect == Effect::Allocates);
        }
        if unchecked {
            return Err(UNCHECKED);
        }
        for target in block.term.targets() {
            let to = target.block.0 as usize;
            let is_round = self.graph.is_back_edge(number, to)
                && !strip::is_renewal(func, &self.definitions, self.gates, number, to);
            let mut brings = debt.clone();
            brings.ops += i64::from(is_round);
            if brings != Amount::of_target(target, func, &self.definitions) {
                return Err(UNEQUAL);
            }
        }
        if block.unwind.is_some_and(|unwind| func.at(unwind).owes != Debt::None) {
            return Err("the handler of failures owes ops");
        }
        match block.term {
            Term::Return(_) | Term::Resume(_) if !debt.is_zero() => Err(UNEQUAL),
            _ => Ok(()),
        }
    }

    /// Whether a block is reached only behind a test that this many ops are left.
    fn has_left(&self, block: usize, ops: u32) -> bool {
        self.func.blocks.iter().enumerate().any(|(from, guard)| {
            let Term::Branch(cond, then, other) = &guard.term else { return false };
            let tested = self.definitions.get(*cond, Opcode::GreaterEqual);
            let is_test = tested.is_some_and(|inst| {
                let left = self.definitions.get(inst.args[0], Opcode::Budget_Left);
                let most = self.definitions.constant(inst.args[1]);
                left.is_some_and(|left| guard.insts.contains(left))
                    && most.is_some_and(|most| most >= ops.into())
            });
            let then = then.block.0 as usize;
            let enters = |number: usize| {
                let targets = self.func.blocks[number].term.targets();
                targets.iter().any(|target| target.block.0 as usize == then)
            };
            let only = (0..self.func.blocks.len()).all(|number| number == from || !enters(number));
            is_test
                && only
                && other.block.0 as usize != then
                && self.graph.is_reachable(from)
                && self.graph.dominates(2 * then, 2 * block)
        })
    }
}

/// A function on a cycle of calls whose functions all call before they check.
fn call_cycle(module: &Module) -> Option<usize> {
    let insts = |func: &'_ Func| {
        func.blocks.iter().flat_map(|block| block.insts.clone()).collect::<Vec<_>>()
    };
    let values: Vec<usize> = module
        .funcs
        .iter()
        .flat_map(insts)
        .filter(|inst| matches!(inst.op, Opcode::Fn_Ref | Opcode::Closure_Create))
        .filter_map(|inst| match inst.imm {
            Imm::Func(id) => Some(id as usize),
            _ => None,
        })
        .collect();
    let checked: Vec<bool> = module
        .funcs
        .iter()
        .map(|func| {
            let insts = &func.blocks[0].insts;
            let before = insts.iter().take_while(|inst| inst.op.effect() != Effect::Calls);
            before.clone().any(|inst| inst.op == Opcode::Budget_Check)
        })
        .collect();
    find_cycle(module.funcs.len(), |func| {
        if checked[func] {
            return Vec::new();
        }
        let mut next = Vec::new();
        for inst in insts(&module.funcs[func]) {
            match (inst.op, inst.imm) {
                (Opcode::Call, Imm::Func(id)) => next.push(id as usize),
                (Opcode::Closure_Call, _) => next.extend(&values),
                _ => {}
            }
        }
        next.retain(|id| !checked[*id]);
        next
    })
}
