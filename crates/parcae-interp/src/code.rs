//! Code: IR with its values in slots and its blocks in one list.
//!
//! A value has one slot of 64 bits, a result of a call that can fail has two: the value, and 0 or
//! the number of the error plus 1. Slots are not tagged; which of them refer to the heap is known
//! from the types.

use parcae_ir::{Debt, Func, HostFunc, Imm, Inst, Module, Opcode, Pos, Target, Term, Type, Value};
use std::sync::Arc;

/// A program in the form that the interpreter runs.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) file: Arc<str>,
    pub(crate) funcs: Vec<FuncCode>,
    pub(crate) entry: u32,
    /// For each struct, which of its fields refer to the heap.
    pub(crate) structs: Vec<Vec<bool>>,
    /// For each error set, `Set.Error` of each error.
    pub(crate) errors: Vec<Vec<Arc<str>>>,
    pub(crate) texts: Vec<Arc<str>>,
    /// Functions of the host.
    pub(crate) hosts: Vec<HostFunc>,
}

/// Ops that are owed in a block: a number, and the difference of two slots.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Owes {
    pub(crate) ops: u32,
    pub(crate) slots: Option<(u32, u32)>,
}

#[derive(Debug)]
pub(crate) struct FuncCode {
    pub(crate) name: Arc<str>,
    /// The name of its tasks, for tools: with the place in the source.
    pub(crate) title: Arc<str>,
    pub(crate) params: Vec<u32>,
    pub(crate) slots: u32,
    /// Slots that refer to the heap.
    pub(crate) refs: Vec<u32>,
    pub(crate) steps: Vec<Step>,
    pub(crate) places: Vec<Pos>,
    /// Ranges of steps with a handler, in order: its first step, the handler, the failure's slot.
    pub(crate) handlers: Vec<(u32, Option<(u32, u32)>)>,
    /// For each range, the ops that a failing operation charges first.
    pub(crate) debts: Vec<Owes>,
    pub(crate) result: Kind,
    /// The error set of its result.
    pub(crate) fails: Option<u32>,
}

/// Class of a type: how its values are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Void,
    Bool,
    I64,
    I32,
    U8,
    F64,
    Error(u32),
    Text,
    Failure,
    /// A value and an error; whether the value refers to the heap.
    Result(bool),
    Ref,
}

impl Kind {
    pub(crate) fn of(ty: &Type) -> Kind {
        match ty {
            Type::Void => Kind::Void,
            Type::Bool => Kind::Bool,
            Type::I64 | Type::Nursery => Kind::I64,
            Type::I32 => Kind::I32,
            Type::U8 => Kind::U8,
            Type::F64 => Kind::F64,
            Type::Error(set) => Kind::Error(*set),
            Type::Str => Kind::Text,
            Type::Failure => Kind::Failure,
            Type::Result(of, _) => Kind::Result(of.is_reference()),
            _ => Kind::Ref,
        }
    }

    pub(crate) fn is_ref(self) -> bool {
        matches!(self, Kind::Text | Kind::Failure | Kind::Ref | Kind::Result(true))
    }
}

/// One operation, or the end of a block.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Op(Op),
    Jump(Edge),
    Branch(u32, Edge, Edge),
    Return(Option<u32>),
    Resume(u32),
    Unreachable,
}

#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) op: Opcode,
    /// Class of the first operand, or of the result if there is none.
    pub(crate) kind: Kind,
    /// Class of the result.
    pub(crate) gives: Kind,
    pub(crate) to: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
    pub(crate) c: u32,
    /// Constant; a text or a function is a number.
    pub(crate) imm: u64,
    /// All operands, with their classes, where there may be more than three.
    pub(crate) args: Box<[(u32, Kind)]>,
}

/// A step to go on with, after moves between slots.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    pub(crate) step: u32,
    pub(crate) moves: Box<[(u32, u32)]>,
}

impl Code {
    /// The module must be verified.
    pub(crate) fn new(module: &Module) -> Code {
        let mut texts = Vec::new();
        let funcs = module.funcs.iter().map(|func| compile(module, func, &mut texts)).collect();
        let structs = module
            .structs
            .iter()
            .map(|def| def.fields.iter().map(|(_, ty)| ty.is_reference()).collect());
        let errors = module.errors.iter().map(|set| {
            set.variants.iter().map(|name| format!("{}.{name}", set.name).into()).collect()
        });
        Code {
            file: module.file.as_str().into(),
            funcs,
            entry: module.entry,
            structs: structs.collect(),
            errors: errors.collect(),
            texts,
            hosts: module.hosts.clone(),
        }
    }
}

fn compile(module: &Module, func: &Func, texts: &mut Vec<Arc<str>>) -> FuncCode {
    let mut next = 0;
    let slots: Vec<u32> = func
        .values
        .iter()
        .map(|ty| {
            let slot = next;
            next += if matches!(ty, Type::Result(..)) { 2 } else { 1 };
            slot
        })
        .collect();
    let slot = |value: Value| slots[value.0 as usize];
    let refs = func.values.iter().zip(&slots);
    let refs = refs.filter(|(ty, _)| Kind::of(ty).is_ref()).map(|(_, slot)| *slot).collect();
    // First the place of each block, then its steps.
    let mut starts = Vec::with_capacity(func.blocks.len());
    let mut at = 0;
    for block in &func.blocks {
        starts.push(at);
        at += block.insts.len() as u32 + 1;
    }
    let edge = |target: &Target| {
        let block = func.at(target.block);
        let mut moves = Vec::new();
        for (param, arg) in block.params.iter().zip(&target.args) {
            if param != arg {
                moves.push((slot(*param), slot(*arg)));
                if matches!(func.ty(*param), Type::Result(..)) {
                    moves.push((slot(*param) + 1, slot(*arg) + 1));
                }
            }
        }
        Edge { step: starts[target.block.0 as usize], moves: moves.into() }
    };
    let (mut steps, mut places, mut handlers) = (Vec::new(), Vec::new(), Vec::new());
    let debts = func.blocks.iter().map(|block| match block.owes {
        Debt::None => Owes::default(),
        Debt::Ops(ops) => Owes { ops, slots: None },
        Debt::Steps(now, first) => Owes { ops: 0, slots: Some((slot(now), slot(first))) },
    });
    let debts = debts.collect();
    for (number, block) in func.blocks.iter().enumerate() {
        let handler =
            block.unwind.map(|unwind| (starts[unwind.0 as usize], slot(func.at(unwind).params[0])));
        handlers.push((starts[number], handler));
        for inst in &block.insts {
            steps.push(Step::Op(operation(func, inst, &slot, texts)));
            places.push(inst.at);
        }
        steps.push(match &block.term {
            Term::Jump(to) => Step::Jump(edge(to)),
            Term::Branch(value, then, other) => Step::Branch(slot(*value), edge(then), edge(other)),
            Term::Return(value) => Step::Return(value.map(slot)),
            Term::Resume(value) => Step::Resume(slot(*value)),
            Term::Unreachable => Step::Unreachable,
        });
        places.push(block.insts.last().map_or(func.at, |inst| inst.at));
    }
    let name = func.name.trim_end_matches(".task");
    FuncCode {
        name: name.into(),
        title: format!("{name} at {}:{}", module.file, func.at.line).into(),
        params: func.params.iter().map(|param| slot(*param)).collect(),
        slots: next.max(1), // operands that do not exist are read from the first
        refs,
        steps,
        places,
        handlers,
        debts,
        result: Kind::of(&func.result),
        fails: match &func.result {
            Type::Result(_, set) => Some(*set),
            _ => None,
        },
    }
}

fn operation(
    func: &Func,
    inst: &Inst,
    slot: &impl Fn(Value) -> u32,
    texts: &mut Vec<Arc<str>>,
) -> Op {
    let kind = |value: Value| Kind::of(func.ty(value));
    let gives = inst.result.map_or(Kind::Void, kind);
    let arg = |at: usize| inst.args.get(at).map_or(0, |value| slot(*value));
    let imm = match &inst.imm {
        Imm::None => 0,
        Imm::Int(value) => *value as u64,
        Imm::Float(value) => value.to_bits(),
        Imm::Bool(value) => u64::from(*value),
        Imm::Func(id) => u64::from(*id),
        Imm::Str(text) => {
            texts.push(text.as_str().into());
            texts.len() as u64 - 1
        }
    };
    // The struct of a result, for its fields; the class of an array's elements.
    let imm = match (inst.op, inst.result.map(|value| func.ty(value))) {
        (Opcode::Struct_Construct, Some(Type::Struct(id))) => u64::from(*id),
        (Opcode::Array_Construct | Opcode::Array_New, Some(Type::Array(of))) => {
            u64::from(of.is_reference())
        }
        _ => imm,
    };
    Op {
        op: inst.op,
        kind: inst.args.first().map_or(gives, |value| kind(*value)),
        gives,
        to: inst.result.map_or(0, slot),
        a: arg(0),
        b: arg(1),
        c: arg(2),
        imm,
        args: inst.args.iter().map(|value| (slot(*value), kind(*value))).collect(),
    }
}
