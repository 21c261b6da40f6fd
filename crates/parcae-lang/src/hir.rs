//! The checked program: names are resolved, types are known, `match` is a chain of tests.
//! Lowering turns it into IR.

use crate::source::Span;
use crate::types::{Shapes, Ty};

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) shapes: Shapes,
    /// Functions, then the literals that were found in them.
    pub(crate) funcs: Vec<Func>,
    pub(crate) main: usize,
}

/// Number of a variable of a function.
pub(crate) type LocalId = usize;

#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    pub(crate) mutable: bool,
    /// A variable that a function literal captures by reference lives in a cell.
    pub(crate) boxed: bool,
}

#[derive(Debug)]
pub(crate) struct Func {
    pub(crate) name: String,
    /// Captured variables first.
    pub(crate) params: Vec<LocalId>,
    pub(crate) captures: usize,
    pub(crate) locals: Vec<Local>,
    /// `Fallible` if it has an error set.
    pub(crate) result: Ty,
    pub(crate) body: Vec<Stmt>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Stmt {
    pub(crate) kind: StmtKind,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum StmtKind {
    Let(LocalId, Expr),
    Assign(Place, Expr),
    Expr(Expr),
    Return(Option<Expr>),
    /// With the error.
    Fail(Expr),
    Break,
    Continue,
    Yield,
    Defer(Expr),
    Block(Vec<Stmt>),
    /// Conditions with their blocks, and the block behind the last `else`.
    If(Vec<(Expr, Vec<Stmt>)>, Vec<Stmt>),
    Match(LocalId, Expr, Vec<Arm>),
    While(Expr, Vec<Stmt>),
    ForRange {
        local: LocalId,
        from: Expr,
        to: Expr,
        inclusive: bool,
        body: Vec<Stmt>,
    },
    ForEach {
        local: LocalId,
        of: Expr,
        body: Vec<Stmt>,
    },
    ForChannel {
        local: LocalId,
        channel: Expr,
        body: Vec<Stmt>,
    },
    Select(Vec<(CaseKind, Vec<Stmt>)>),
}

/// An arm of a `match`. If its test or its guard is false, the next arm is tried.
#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) test: Option<Expr>,
    /// The variable that is bound to the value.
    pub(crate) bind: Option<LocalId>,
    pub(crate) guard: Option<Expr>,
    pub(crate) body: Vec<Stmt>,
}

#[derive(Debug)]
pub(crate) enum CaseKind {
    Recv(Option<LocalId>, Expr),
    Send(Expr, Expr),
    Timeout(Expr),
    Default,
}

/// The target of an assignment: a variable or an element, and a path of fields.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) root: Root,
    /// Structs and field numbers, from the outside.
    pub(crate) fields: Vec<(usize, usize)>,
}

#[derive(Debug)]
pub(crate) enum Root {
    Local(LocalId),
    Element(Box<Expr>, Box<Expr>),
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) ty: Ty,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Pow,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    BitAnd,
    BitOr,
    Xor,
    Shl,
    Shr,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    Local(LocalId),
    /// A function as a value.
    Func(usize),
    Neg(Box<Expr>),
    Not(Box<Expr>),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Interp(Vec<String>, Vec<Expr>),
    Call(usize, Vec<Expr>),
    /// A function of the host.
    Host(String, Vec<Expr>),
    CallValue(Box<Expr>, Vec<Expr>),
    Builtin(Builtin, Vec<Expr>),
    Field(Box<Expr>, usize),
    Index(Box<Expr>, Box<Expr>),
    Array(Vec<Expr>),
    Struct(Vec<Expr>),
    Closure(usize, Vec<LocalId>),
    /// The number of the error in the set of its type.
    Error(usize),
    Spawn {
        callee: Callee,
        args: Vec<Expr>,
        is_async: bool,
    },
    Await(Box<Expr>),
    Try(Box<Expr>),
    /// The handler's block, and its value if it ends normally.
    Catch {
        of: Box<Expr>,
        name: LocalId,
        body: Vec<Stmt>,
        value: Option<Box<Expr>>,
    },
    Nursery(Box<Nursery>),
    /// Nothing, after a fault or in place of a missing value.
    Nothing,
}

#[derive(Debug)]
pub(crate) enum Callee {
    Func(usize),
    Closure(usize, Vec<LocalId>),
}

#[derive(Debug)]
pub(crate) struct Nursery {
    pub(crate) name: Option<LocalId>,
    /// Components of its budget, in the order of `Budget`.
    pub(crate) budget: [Option<Expr>; 5],
    pub(crate) body: Vec<Stmt>,
    pub(crate) catch: Option<(LocalId, Vec<Stmt>)>,
}

/// Operations of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    /// Prints the text; the line ends if the flag says so.
    Print {
        newline: bool,
    },
    Sleep,
    NowMs,
    Args,
    Assert,
    Panic,
    NewArray,
    NewChannel,
    Wrap(BinOp),
    Min,
    Max,
    Abs,
    Sqrt,
    /// To the type of the expression.
    Convert,
    ToText,
    Chr,
    IsCancelled,
    Cancel,
    CancelNursery,
    Len,
    Push,
    Pop,
    SliceOf {
        inclusive: bool,
    },
    Parse,
    Split,
    Send,
    Recv,
    TrySend,
    Close,
    IsClosed,
}
