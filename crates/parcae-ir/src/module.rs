//! Modules, functions, blocks, instructions, types.

use crate::op::{Effect, Opcode};
use std::fmt;

/// Type of a value. Structs and error sets are numbers into the tables of the [`Module`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// No value.
    Void,
    /// True or false.
    Bool,
    /// 64 bits, signed.
    I64,
    /// 32 bits, signed.
    I32,
    /// 8 bits, unsigned.
    U8,
    /// Floating point.
    F64,
    /// Text.
    Str,
    /// Failure of a task.
    Failure,
    /// Open nursery.
    Nursery,
    /// Growable array, by reference.
    Array(Box<Type>),
    /// Struct, by value.
    Struct(u32),
    /// Error of a set.
    Error(u32),
    /// Value or error.
    Result(Box<Type>, u32),
    /// Function value.
    Func(Box<(Vec<Type>, Type)>),
    /// Channel.
    Channel(Box<Type>),
    /// Handle of a task.
    Task(Box<Type>),
    /// Captured variable.
    Cell(Box<Type>),
}

impl Type {
    /// Whether a value of it refers to the heap of its task.
    pub fn is_reference(&self) -> bool {
        matches!(
            self,
            Type::Str
                | Type::Failure
                | Type::Array(_)
                | Type::Struct(_)
                | Type::Func(_)
                | Type::Channel(_)
                | Type::Task(_)
                | Type::Cell(_)
        )
    }

    /// Whether it is an integer.
    pub fn is_integer(&self) -> bool {
        matches!(self, Type::I64 | Type::I32 | Type::U8)
    }
}

/// A value of a function, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u32);

/// A block of a function, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// Line and column in the source; 0:0 if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pos {
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1.
    pub column: u32,
}

/// Place of execution (S0 §12): tasks that the scheduler runs are `CPU_Parallel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names of QTJIR")]
pub enum Tenancy {
    /// On the task of its caller.
    CPU_Serial,
    /// The root of a task: entered by `Spawn` alone.
    CPU_Parallel,
}

impl Tenancy {
    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Tenancy::CPU_Serial => "CPU_Serial",
            Tenancy::CPU_Parallel => "CPU_Parallel",
        }
    }
}

/// Constant part of an instruction.
#[derive(Debug, Clone, PartialEq)]
pub enum Imm {
    /// None.
    None,
    /// An integer; a number of a field, an error, a flag.
    Int(i64),
    /// A float. Compared by its bits.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Str(String),
    /// A function.
    Func(u32),
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Inst {
    /// The operation.
    pub op: Opcode,
    /// Its constant.
    pub imm: Imm,
    /// Its operands.
    pub args: Vec<Value>,
    /// Its result.
    pub result: Option<Value>,
    /// Its place in the source.
    pub at: Pos,
}

impl Inst {
    /// The effect of the operation on operands of this type.
    pub fn effect(&self, func: &Func) -> Effect {
        let float = self.args.first().is_some_and(|arg| *func.ty(*arg) == Type::F64);
        match self.op {
            Opcode::Add | Opcode::Sub | Opcode::Mul | Opcode::Div | Opcode::Neg | Opcode::Abs
                if float =>
            {
                Effect::Pure
            }
            op => op.effect(),
        }
    }
}

/// A block to go on with, and the values of its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The block.
    pub block: BlockId,
    /// A value for each parameter.
    pub args: Vec<Value>,
}

/// End of a block.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// Goes on with a block.
    Jump(Target),
    /// Goes on with the first block if the value is true, otherwise with the second.
    Branch(Value, Target, Target),
    /// Returns from the function.
    Return(Option<Value>),
    /// Goes on with a failure, in the caller.
    Resume(Value),
    /// Behind an operation that always fails.
    Unreachable,
}

impl Term {
    /// The blocks that may follow.
    pub fn targets(&self) -> Vec<&Target> {
        match self {
            Term::Jump(to) => vec![to],
            Term::Branch(_, then, other) => vec![then, other],
            Term::Return(_) | Term::Resume(_) | Term::Unreachable => Vec::new(),
        }
    }

    /// The same, to change them.
    pub fn targets_mut(&mut self) -> Vec<&mut Target> {
        match self {
            Term::Jump(to) => vec![to],
            Term::Branch(_, then, other) => vec![then, other],
            Term::Return(_) | Term::Resume(_) | Term::Unreachable => Vec::new(),
        }
    }

    /// The values that it uses.
    pub fn uses(&self) -> Vec<Value> {
        let mut found: Vec<Value> =
            self.targets().iter().flat_map(|target| target.args.iter().copied()).collect();
        match self {
            Term::Branch(value, ..) | Term::Resume(value) | Term::Return(Some(value)) => {
                found.push(*value);
            }
            _ => {}
        }
        found
    }
}

/// Ops that are owed at the start of a block, and are charged later.
///
/// Code in a loop that is metered in strips counts its rounds by a value that it has anyway. An
/// operation of such a block that fails charges the debt first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Debt {
    /// None: the usual case.
    #[default]
    None,
    /// This number.
    Ops(u32),
    /// The first value less the second.
    Steps(Value, Value),
}

/// A block: parameters, operations, an end.
///
/// If one of its operations fails, control goes to `unwind`, whose only parameter is the failure.
/// The values of the failing block itself are not available there: an operation that opens a scope
/// is therefore the last of its block.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Values from the predecessors.
    pub params: Vec<Value>,
    /// The operations.
    pub insts: Vec<Inst>,
    /// The end.
    pub term: Term,
    /// The block for failures; without one the function fails.
    pub unwind: Option<BlockId>,
    /// Ops that are owed at its start.
    pub owes: Debt,
}

/// A function.
#[derive(Debug, Clone, PartialEq)]
pub struct Func {
    /// Its name, unique in the module.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Value>,
    /// The type of its result.
    pub result: Type,
    /// Its place of execution.
    pub tenancy: Tenancy,
    /// Its blocks; the first is the entry and has no parameters.
    pub blocks: Vec<Block>,
    /// The type of each value.
    pub values: Vec<Type>,
    /// Its place in the source.
    pub at: Pos,
}

impl Func {
    /// A function without blocks.
    pub fn new(name: impl Into<String>, result: Type, tenancy: Tenancy) -> Func {
        Func {
            name: name.into(),
            params: Vec::new(),
            result,
            tenancy,
            blocks: Vec::new(),
            values: Vec::new(),
            at: Pos::default(),
        }
    }

    /// A new value.
    pub fn value(&mut self, ty: Type) -> Value {
        self.values.push(ty);
        Value(self.values.len() as u32 - 1)
    }

    /// A new block without an end.
    pub fn block(&mut self, unwind: Option<BlockId>) -> BlockId {
        self.blocks.push(Block {
            params: Vec::new(),
            insts: Vec::new(),
            term: Term::Unreachable,
            unwind,
            owes: Debt::None,
        });
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.0 as usize]
    }

    /// A block.
    pub fn at(&self, block: BlockId) -> &Block {
        &self.blocks[block.0 as usize]
    }

    /// A block, to change it.
    pub fn at_mut(&mut self, block: BlockId) -> &mut Block {
        &mut self.blocks[block.0 as usize]
    }

    /// Removes blocks that cannot be reached, and numbers blocks and values anew in the order of
    /// the text.
    pub fn compact(&mut self) {
        let graph = crate::graph::Graph::new(self);
        let mut number = 0;
        let blocks: Vec<Option<u32>> = (0..self.blocks.len())
            .map(|block| {
                graph.is_reachable(block).then(|| {
                    number += 1;
                    number - 1
                })
            })
            .collect();
        let mut at = 0;
        self.blocks.retain(|_| {
            at += 1;
            blocks[at - 1].is_some()
        });
        let mut values: Vec<Option<Value>> = vec![None; self.values.len()];
        let mut types = Vec::new();
        let mut renumber = |value: &mut Value| {
            *value = *values[value.0 as usize].get_or_insert_with(|| {
                types.push(self.values[value.0 as usize].clone());
                Value(types.len() as u32 - 1)
            });
        };
        self.params.iter_mut().for_each(&mut renumber);
        for block in &mut self.blocks {
            block.params.iter_mut().for_each(&mut renumber);
            block.insts.iter_mut().filter_map(|inst| inst.result.as_mut()).for_each(&mut renumber);
        }
        for block in &mut self.blocks {
            for inst in &mut block.insts {
                inst.args.iter_mut().for_each(&mut renumber);
            }
            if let Debt::Steps(now, first) = &mut block.owes {
                renumber(now);
                renumber(first);
            }
            let block_number = |id: &mut BlockId| id.0 = blocks[id.0 as usize].unwrap_or(0);
            block.unwind.iter_mut().for_each(block_number);
            for target in block.term.targets_mut() {
                block_number(&mut target.block);
                target.args.iter_mut().for_each(&mut renumber);
            }
            match &mut block.term {
                Term::Branch(value, ..) | Term::Resume(value) | Term::Return(Some(value)) => {
                    renumber(value);
                }
                _ => {}
            }
        }
        self.values = types;
    }

    /// The blocks that may follow a block, failures included.
    pub fn successors(&self, block: usize) -> Vec<usize> {
        let block = &self.blocks[block];
        let targets = block.term.targets();
        let normal = targets.iter().map(|target| target.block.0 as usize);
        normal.chain(block.unwind.map(|unwind| unwind.0 as usize)).collect()
    }
}

/// A struct: its name, and the names and types of its fields.
#[derive(Debug, Clone, PartialEq)]
pub struct StructDef {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<(String, Type)>,
}

/// An error set.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorSet {
    /// Its name.
    pub name: String,
    /// Its errors.
    pub variants: Vec<String>,
}

/// A function of the host: its name and its types.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFunc {
    /// Its name, unique in the module.
    pub name: String,
    /// The types of its parameters: numbers, truth values, texts.
    pub params: Vec<Type>,
    /// The type of its result: one of these, or none.
    pub result: Type,
}

impl HostFunc {
    /// Whether values of a type go to the host and come from it.
    pub fn allows(ty: &Type) -> bool {
        matches!(ty, Type::Bool | Type::I64 | Type::F64 | Type::Str)
    }
}

/// A program.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// The source file, for messages.
    pub file: String,
    /// Structs.
    pub structs: Vec<StructDef>,
    /// Error sets; the first is that of `String_Parse`.
    pub errors: Vec<ErrorSet>,
    /// Functions of the host that the program may call.
    pub hosts: Vec<HostFunc>,
    /// Functions.
    pub funcs: Vec<Func>,
    /// The function that a run begins with; it has no parameters.
    pub entry: u32,
}

impl Module {
    /// A type in the text form.
    pub fn show<'m>(&'m self, ty: &'m Type) -> impl fmt::Display + 'm {
        Show(self, ty)
    }
}

struct Show<'m>(&'m Module, &'m Type);

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |ty| Show(self.0, ty);
        let named = |name: Option<&String>| name.map_or("?", |name| name.as_str()).to_owned();
        let set = |id: u32| named(self.0.errors.get(id as usize).map(|set| &set.name));
        match self.1 {
            Type::Void => f.write_str("void"),
            Type::Bool => f.write_str("bool"),
            Type::I64 => f.write_str("i64"),
            Type::I32 => f.write_str("i32"),
            Type::U8 => f.write_str("u8"),
            Type::F64 => f.write_str("f64"),
            Type::Str => f.write_str("String"),
            Type::Failure => f.write_str("Failure"),
            Type::Nursery => f.write_str("Nursery"),
            Type::Array(of) => write!(f, "[]{}", show(of)),
            Type::Struct(id) => {
                let def = self.0.structs.get(*id as usize);
                write!(f, "struct {}", named(def.map(|def| &def.name)))
            }
            Type::Error(id) => write!(f, "error {}", set(*id)),
            Type::Result(of, id) => write!(f, "Result[{}, {}]", show(of), set(*id)),
            Type::Func(signature) => {
                f.write_str("func(")?;
                for (at, ty) in signature.0.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { ", " } else { "" }, show(ty))?;
                }
                write!(f, ") -> {}", show(&signature.1))
            }
            Type::Channel(of) => write!(f, "Channel[{}]", show(of)),
            Type::Task(of) => write!(f, "Task[{}]", show(of)),
            Type::Cell(of) => write!(f, "Cell[{}]", show(of)),
        }
    }
}
