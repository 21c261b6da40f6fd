//! The tree that the parser builds: the program as it is written, with the place of each part.
//!
//! Names are slices of the source. A part that could not be parsed is an `Error` node, so that the
//! later passes see everything else.

use crate::source::Span;

/// A name and its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Name<'a> {
    pub(crate) text: &'a str,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct File<'a> {
    /// The profile directive: its name.
    pub(crate) profile: Option<Name<'a>>,
    pub(crate) items: Vec<Item<'a>>,
}

#[derive(Debug)]
pub(crate) enum Item<'a> {
    Func(Func<'a>),
    Struct(Shape<'a, (Name<'a>, TypeExpr<'a>)>),
    Error(Shape<'a, Name<'a>>),
}

impl Item<'_> {
    pub(crate) fn span(&self) -> Span {
        match self {
            Item::Func(func) => func.span,
            Item::Struct(shape) => shape.span,
            Item::Error(shape) => shape.span,
        }
    }
}

/// A `struct` or an `error`: a name and its members.
#[derive(Debug)]
pub(crate) struct Shape<'a, T> {
    pub(crate) name: Name<'a>,
    pub(crate) members: Vec<T>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Func<'a> {
    /// Empty for a literal.
    pub(crate) name: Name<'a>,
    pub(crate) is_async: bool,
    pub(crate) params: Vec<(Name<'a>, TypeExpr<'a>)>,
    pub(crate) result: Option<TypeExpr<'a>>,
    pub(crate) error: Option<Name<'a>>,
    pub(crate) body: Block<'a>,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) struct TypeExpr<'a> {
    pub(crate) kind: TypeKind<'a>,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum TypeKind<'a> {
    Name(&'a str),
    Array(Box<TypeExpr<'a>>),
    Optional(Box<TypeExpr<'a>>),
    /// `Channel[T]`, `Task[T]`.
    Of(&'a str, Box<TypeExpr<'a>>),
    Func(Vec<TypeExpr<'a>>, Option<Box<TypeExpr<'a>>>),
    Error,
}

#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub(crate) stmts: Vec<Stmt<'a>>,
    /// From the opening to the closing word.
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Stmt<'a> {
    pub(crate) kind: StmtKind<'a>,
    pub(crate) span: Span,
}

/// `when c` and `unless c`.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    pub(crate) unless: bool,
    pub(crate) cond: Expr<'a>,
}

#[derive(Debug)]
pub(crate) enum StmtKind<'a> {
    Let {
        mutable: bool,
        name: Name<'a>,
        ty: Option<TypeExpr<'a>>,
        value: Expr<'a>,
    },
    /// The operator is empty for `=`, otherwise `+` and so on.
    Assign {
        target: Expr<'a>,
        op: &'static str,
        value: Expr<'a>,
    },
    Expr(Expr<'a>),
    Return(Option<Expr<'a>>),
    Fail(Expr<'a>),
    Break,
    Continue,
    Yield,
    Defer(Expr<'a>),
    Guarded(Box<Stmt<'a>>, Guard<'a>),
    If {
        arms: Vec<(Expr<'a>, Block<'a>)>,
        otherwise: Option<Block<'a>>,
    },
    While {
        cond: Expr<'a>,
        body: Block<'a>,
    },
    For {
        name: Name<'a>,
        over: Over<'a>,
        body: Block<'a>,
    },
    Match {
        value: Expr<'a>,
        arms: Vec<Arm<'a>>,
    },
    Select(Vec<Case<'a>>),
    Error,
}

#[derive(Debug)]
pub(crate) enum Over<'a> {
    Range { from: Expr<'a>, to: Expr<'a>, inclusive: bool },
    Each(Expr<'a>),
}

#[derive(Debug)]
pub(crate) struct Arm<'a> {
    pub(crate) pattern: Pattern<'a>,
    pub(crate) guard: Option<Expr<'a>>,
    pub(crate) body: Block<'a>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum Pattern<'a> {
    /// A literal, possibly negative; or `Err.Variant`.
    Value(Expr<'a>),
    Bind(Name<'a>),
    Any,
}

#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) kind: CaseKind<'a>,
    pub(crate) body: Block<'a>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum CaseKind<'a> {
    Recv { bind: Option<Name<'a>>, channel: Expr<'a> },
    Send { channel: Expr<'a>, value: Expr<'a> },
    Timeout(Expr<'a>),
    Default,
}

#[derive(Debug)]
pub(crate) struct Expr<'a> {
    pub(crate) kind: ExprKind<'a>,
    pub(crate) span: Span,
    /// Height of the tree below, bounded by the parser: the later passes recurse.
    pub(crate) depth: u16,
}

#[derive(Debug)]
pub(crate) enum ExprKind<'a> {
    /// Magnitude; a minus sign is a unary operator.
    Int(u64),
    Float(f64),
    Str(String),
    /// Texts and expressions in turn; one more text than expressions.
    Interp(Vec<String>, Vec<Expr<'a>>),
    Bool(bool),
    Name(&'a str),
    /// `-` or `not`.
    Unary(&'static str, Box<Expr<'a>>),
    Binary(&'static str, Box<Expr<'a>>, Box<Expr<'a>>),
    Call(Box<Expr<'a>>, Vec<Expr<'a>>),
    /// `x |> f(y)`, which is `f(x, y)`; the right side is `f` or a call.
    Pipe(Box<Expr<'a>>, Box<Expr<'a>>),
    Field(Box<Expr<'a>>, Name<'a>),
    Index(Box<Expr<'a>>, Box<Expr<'a>>),
    Slice {
        of: Box<Expr<'a>>,
        from: Box<Expr<'a>>,
        to: Box<Expr<'a>>,
        inclusive: bool,
    },
    Array(Vec<Expr<'a>>),
    Struct(Name<'a>, Vec<(Name<'a>, Expr<'a>)>),
    Closure(Box<Func<'a>>),
    Await(Box<Expr<'a>>),
    Spawn(Box<Expr<'a>>),
    Async(Box<Expr<'a>>),
    Try(Box<Expr<'a>>),
    Catch(Box<Expr<'a>>, Handler<'a>),
    Nursery(Box<NurseryExpr<'a>>),
    Error,
}

#[derive(Debug)]
pub(crate) struct Handler<'a> {
    pub(crate) name: Option<Name<'a>>,
    pub(crate) body: Block<'a>,
}

#[derive(Debug)]
pub(crate) struct NurseryExpr<'a> {
    pub(crate) name: Option<Name<'a>>,
    pub(crate) with: Option<Expr<'a>>,
    pub(crate) body: Block<'a>,
    pub(crate) catch: Option<Handler<'a>>,
}
