//! Parameters of blocks that always have the same value.
//!
//! SSA construction makes a parameter for each variable that is read in a loop, before it knows
//! whether the loop assigns the variable. A parameter that gets one value from all edges, apart
//! from itself, is that value (Braun et al.). Without it an array that a loop only reads is seen
//! to be the same in all rounds.

use crate::graph::Graph;
use crate::module::{Debt, Func, Term, Value};

/// Most passes. A pass resolves chains; further ones are needed for loops in loops.
const PASSES: usize = 16;

/// Removes parameters that always have the same value. The function must be verified.
pub fn remove_constant_params(func: &mut Func) {
    let graph = Graph::new(func);
    let count = func.blocks.len();
    let mut same: Vec<u32> = (0..func.values.len() as u32).collect();
    let mut incoming = vec![Vec::new(); count];
    let mut handles = vec![false; count];
    for from in (0..count).filter(|from| graph.is_reachable(*from)) {
        let block = &func.blocks[from];
        block.unwind.iter().for_each(|unwind| handles[unwind.0 as usize] = true);
        for (at, target) in block.term.targets().iter().enumerate() {
            incoming[target.block.0 as usize].push((from, at));
        }
    }
    let order = graph.order_of_blocks(count);
    for _ in 0..PASSES {
        let mut changed = false;
        for &number in order.iter().filter(|number| !handles[**number]) {
            for (at, param) in func.blocks[number].params.iter().enumerate() {
                if find(&mut same, *param) != *param {
                    continue;
                }
                let mut only = None;
                let is_same = incoming[number].iter().all(|(from, edge)| {
                    let arg = func.blocks[*from].term.targets()[*edge].args[at];
                    let arg = find(&mut same, arg);
                    arg == *param || *only.get_or_insert(arg) == arg
                });
                if let (true, Some(value)) = (is_same, only) {
                    same[param.0 as usize] = value.0;
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    let kept: Vec<Vec<bool>> = func
        .blocks
        .iter()
        .map(|block| block.params.iter().map(|param| same[param.0 as usize] == param.0).collect())
        .collect();
    for (number, block) in func.blocks.iter_mut().enumerate() {
        retain(&mut block.params, &kept[number]);
        for inst in &mut block.insts {
            inst.args.iter_mut().for_each(|arg| *arg = find(&mut same, *arg));
        }
        if let Debt::Steps(now, first) = &mut block.owes {
            (*now, *first) = (find(&mut same, *now), find(&mut same, *first));
        }
        for target in block.term.targets_mut() {
            retain(&mut target.args, &kept[target.block.0 as usize]);
            target.args.iter_mut().for_each(|arg| *arg = find(&mut same, *arg));
        }
        match &mut block.term {
            Term::Branch(value, ..) | Term::Resume(value) | Term::Return(Some(value)) => {
                *value = find(&mut same, *value);
            }
            _ => {}
        }
    }
}

fn retain(values: &mut Vec<Value>, kept: &[bool]) {
    let mut at = 0;
    values.retain(|_| {
        at += 1;
        kept[at - 1]
    });
}

/// The value that stands for this one.
fn find(same: &mut [u32], value: Value) -> Value {
    let mut root = value.0;
    while same[root as usize] != root {
        root = same[root as usize];
    }
    let mut next = value.0;
    while next != root {
        next = std::mem::replace(&mut same[next as usize], root);
    }
    Value(root)
}
