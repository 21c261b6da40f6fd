//! The proof that code is metered, independent of the pass that inserted the checks.
//!
//! Nothing is taken from `checks.rs`: the places at which ops are owed are found again, from the
//! control flow and the operations. Three statements are verified.
//!
//! 1. **Every cycle checks.** Without the blocks that have a `Budget_Check` the control flow of a
//!    function, failures included, has no cycle; without the functions that check before they call
//!    anything the call graph has none. A call through a value may reach every function that is
//!    used as one.
//! 2. **Charged = owed.** An entry, a back-edge and an allocation owe one op each, and a call of a
//!    function without a charge at its entry owes that entry. Along each block the amount that is
//!    decremented equals the amount that is owed, at every operation that is observed or may fail,
//!    and at the end of the block.
//! 3. **Charged means checked.** Each `Budget_Decrement` is followed by a `Budget_Check` before any
//!    such operation, and a channel operation is preceded by a check.

use crate::graph::{Graph, find_cycle};
use crate::module::{Func, Imm, Module, Tenancy};
use crate::op::{Effect, Opcode};
use crate::verify::Violation;

/// Verifies that a module is metered. The module must have passed [`verify`](crate::verify()).
pub fn verify_metering(module: &Module) -> Vec<Violation> {
    let mut found = Vec::new();
    let own: Vec<bool> = module.funcs.iter().map(charges_entry).collect();
    for func in &module.funcs {
        let mut add = |block: Option<usize>, message: &str| {
            let block = block.map(|block| block as u32);
            found.push(Violation { func: func.name.clone(), block, message: message.into() });
        };
        let checks = |block: usize| {
            func.blocks[block].insts.iter().any(|inst| inst.op == Opcode::Budget_Check)
        };
        let graph = Graph::new(func);
        let unchecked = |block: usize| match checks(block) || !graph.is_reachable(block) {
            true => Vec::new(),
            false => func.successors(block).into_iter().filter(|next| !checks(*next)).collect(),
        };
        if let Some(block) = find_cycle(func.blocks.len(), unchecked) {
            add(Some(block), "a cycle without a Budget_Check");
        }
        for number in 0..func.blocks.len() {
            if graph.is_reachable(number)
                && let Err(message) = block(module, func, &graph, number, &own)
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

/// Statements 2 and 3 for one block.
fn block(
    module: &Module,
    func: &Func,
    graph: &Graph,
    number: usize,
    own: &[bool],
) -> Result<(), &'static str> {
    let block = &func.blocks[number];
    let id = module.funcs.iter().position(|other| std::ptr::eq(other, func)).unwrap_or(0);
    // The root of a task owes nothing: its spawn was charged.
    let entry = number == 0 && own[id] && func.tenancy == Tenancy::CPU_Serial;
    let mut debt = i64::from(entry);
    let (mut unchecked, mut fresh) = (false, false);
    for inst in &block.insts {
        let effect = inst.effect(func);
        match (inst.op, &inst.imm) {
            (Opcode::Budget_Decrement, Imm::Int(ops)) => {
                debt -= ops;
                unchecked = true;
                fresh = false;
                continue;
            }
            (Opcode::Budget_Check, _) => {
                unchecked = false;
                fresh = true;
                continue;
            }
            (Opcode::Call, Imm::Func(callee))
                if is_charged_by_callers(module, own, *callee as usize) =>
            {
                debt += 1;
            }
            _ => {}
        }
        if effect == Effect::Pure {
            continue;
        }
        if unchecked {
            return Err("a Budget_Decrement without a Budget_Check behind it");
        }
        if debt != 0 {
            return Err("the ops that are charged are not those that are owed");
        }
        if effect == Effect::Channel && !fresh {
            return Err("a channel operation without a Budget_Check before it");
        }
        fresh = false;
        debt += i64::from(effect == Effect::Allocates);
    }
    let targets = block.term.targets();
    let back = targets.iter().any(|target| graph.is_back_edge(number, target.block.0 as usize));
    debt += i64::from(back);
    if back && targets.len() != 1 {
        return Err("a back-edge shares its block with another edge");
    }
    if unchecked {
        return Err("a Budget_Decrement without a Budget_Check behind it");
    }
    if debt != 0 {
        return Err("the ops that are charged are not those that are owed");
    }
    Ok(())
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
