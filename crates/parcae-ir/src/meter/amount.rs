//! Amounts of ops as sums: a number, and values with a factor.

use crate::module::{Debt, Func, Imm, Inst, Target, Type, Value};
use crate::op::Opcode;
use std::collections::BTreeMap;

/// Operations that a sum is followed through. More are compared as values.
const DEPTH: u32 = 16;

/// The operations that define the values of a function.
pub(super) struct Definitions<'m>(Vec<Option<&'m Inst>>);

impl<'m> Definitions<'m> {
    pub(super) fn of(func: &'m Func) -> Definitions<'m> {
        let mut found = vec![None; func.values.len()];
        for inst in func.blocks.iter().flat_map(|block| &block.insts) {
            if let Some(result) = inst.result {
                found[result.0 as usize] = Some(inst);
            }
        }
        Definitions(found)
    }

    /// The operation that defines a value, if it has this opcode.
    pub(super) fn get(&self, value: Value, op: Opcode) -> Option<&'m Inst> {
        self.0[value.0 as usize].filter(|inst| inst.op == op)
    }

    /// The integer that a value is a constant of.
    pub(super) fn constant(&self, value: Value) -> Option<i64> {
        match self.get(value, Opcode::Constant)?.imm {
            Imm::Int(value) => Some(value),
            _ => None,
        }
    }
}

/// A sum. Two sums that are equal here are equal in every run; the reverse does not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) ops: i64,
    values: BTreeMap<u32, i64>,
}

impl Amount {
    /// The debt of a block.
    pub(super) fn of(debt: Debt, func: &Func, definitions: &Definitions<'_>) -> Amount {
        Amount::at(debt, func, definitions, |value| value)
    }

    /// The debt of a target, in values of the block that goes there.
    pub(super) fn of_target(to: &Target, func: &Func, definitions: &Definitions<'_>) -> Amount {
        let block = func.at(to.block);
        Amount::at(block.owes, func, definitions, |value| {
            let param = block.params.iter().position(|param| *param == value);
            param.and_then(|at| to.args.get(at).copied()).unwrap_or(value)
        })
    }

    fn at(
        debt: Debt,
        func: &Func,
        definitions: &Definitions<'_>,
        rename: impl Fn(Value) -> Value,
    ) -> Amount {
        let mut amount = Amount::default();
        match debt {
            Debt::None => {}
            Debt::Ops(ops) => amount.ops = ops.into(),
            Debt::Steps(now, first) => {
                amount.add(rename(now), 1, func, definitions);
                amount.add(rename(first), -1, func, definitions);
            }
        }
        amount
    }

    /// Adds a value that many times.
    pub(super) fn add(
        &mut self,
        value: Value,
        times: i64,
        func: &Func,
        definitions: &Definitions<'_>,
    ) {
        self.expand(value, times, func, definitions, DEPTH);
    }

    fn expand(&mut self, value: Value, times: i64, func: &Func, all: &Definitions<'_>, depth: u32) {
        let inst = all.0[value.0 as usize].filter(|_| depth > 0 && *func.ty(value) == Type::I64);
        match inst.map(|inst| (inst.op, &inst.imm, &inst.args[..])) {
            Some((Opcode::Constant, Imm::Int(number), _)) => {
                self.ops = self.ops.wrapping_add(number.wrapping_mul(times));
            }
            Some((Opcode::Add | Opcode::Wrap_Add, _, [a, b])) => {
                self.expand(*a, times, func, all, depth - 1);
                self.expand(*b, times, func, all, depth - 1);
            }
            Some((Opcode::Sub | Opcode::Wrap_Sub, _, [a, b])) => {
                self.expand(*a, times, func, all, depth - 1);
                self.expand(*b, times.wrapping_neg(), func, all, depth - 1);
            }
            _ => {
                let factor = self.values.entry(value.0).or_insert(0);
                *factor = factor.wrapping_add(times);
                if *factor == 0 {
                    self.values.remove(&value.0);
                }
            }
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        *self == Amount::default()
    }
}
