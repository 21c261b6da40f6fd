//! Types of the language.

use std::fmt;
use std::rc::Rc;

/// A type. Structs and error sets are numbers into the tables of [`Shapes`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ty {
    /// After a fault: fits everything, so that one fault is reported once.
    Unknown,
    /// Of an expression that does not end normally.
    Never,
    Void,
    Bool,
    I64,
    I32,
    U8,
    F64,
    Str,
    /// The failure of a nursery, in its `catch`.
    Failure,
    /// The handle of `nursery |n|`.
    Nursery,
    Array(Rc<Ty>),
    Struct(usize),
    Error(usize),
    /// `T ! E`: must be handled before use.
    Fallible(Rc<Ty>, usize),
    Func(Rc<(Vec<Ty>, Ty)>),
    Channel(Rc<Ty>),
    Task(Rc<Ty>),
}

impl Ty {
    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Ty::I64 | Ty::I32 | Ty::U8 | Ty::F64)
    }

    pub(crate) fn is_integer(&self) -> bool {
        matches!(self, Ty::I64 | Ty::I32 | Ty::U8)
    }

    /// Whether a value can go where another type is expected without a fault.
    pub(crate) fn fits(&self, expected: &Ty) -> bool {
        self == expected
            || matches!(self, Ty::Unknown | Ty::Never)
            || matches!(expected, Ty::Unknown)
            || match (self, expected) {
                (Ty::Array(a), Ty::Array(b))
                | (Ty::Channel(a), Ty::Channel(b))
                | (Ty::Task(a), Ty::Task(b)) => **a == Ty::Unknown || **b == Ty::Unknown || a == b,
                _ => false,
            }
    }

    /// Whether values of the type are printed and interpolated.
    pub(crate) fn is_printable(&self) -> bool {
        matches!(self, Ty::Bool | Ty::Str | Ty::Error(_) | Ty::Failure | Ty::Unknown | Ty::Never)
            || self.is_number()
    }
}

/// A struct: its name, and its fields.
#[derive(Debug, Clone)]
pub(crate) struct StructShape {
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, Ty)>,
}

/// An error set: its name, and its errors.
#[derive(Debug, Clone)]
pub(crate) struct ErrorShape {
    pub(crate) name: String,
    pub(crate) variants: Vec<String>,
}

/// Structs and error sets of a program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shapes {
    pub(crate) structs: Vec<StructShape>,
    pub(crate) errors: Vec<ErrorShape>,
}

impl Shapes {
    /// A type for a message.
    pub(crate) fn show<'s>(&'s self, ty: &'s Ty) -> Show<'s> {
        Show { shapes: self, ty }
    }

    /// Whether values of the type may go to another task. Handles, nurseries and functions may not:
    /// functions may share variables with their task.
    pub(crate) fn is_sendable(&self, ty: &Ty) -> bool {
        let mut seen = vec![false; self.structs.len()];
        let mut open = vec![ty];
        while let Some(ty) = open.pop() {
            match ty {
                Ty::Task(_) | Ty::Nursery | Ty::Func(_) | Ty::Failure | Ty::Fallible(..) => {
                    return false;
                }
                Ty::Array(of) | Ty::Channel(of) => open.push(of),
                Ty::Struct(id) if !std::mem::replace(&mut seen[*id], true) => {
                    open.extend(self.structs[*id].fields.iter().map(|(_, ty)| ty));
                }
                _ => {}
            }
        }
        true
    }
}

pub(crate) struct Show<'s> {
    shapes: &'s Shapes,
    ty: &'s Ty,
}

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |ty| self.shapes.show(ty);
        match self.ty {
            Ty::Unknown => f.write_str("?"),
            Ty::Never => f.write_str("never"),
            Ty::Void => f.write_str("void"),
            Ty::Bool => f.write_str("bool"),
            Ty::I64 => f.write_str("i64"),
            Ty::I32 => f.write_str("i32"),
            Ty::U8 => f.write_str("u8"),
            Ty::F64 => f.write_str("f64"),
            Ty::Str => f.write_str("String"),
            Ty::Failure => f.write_str("Failure"),
            Ty::Nursery => f.write_str("Nursery"),
            Ty::Array(of) => write!(f, "[]{}", show(of)),
            Ty::Struct(id) => f.write_str(&self.shapes.structs[*id].name),
            Ty::Error(id) => f.write_str(&self.shapes.errors[*id].name),
            Ty::Fallible(of, id) => write!(f, "{} ! {}", show(of), self.shapes.errors[*id].name),
            Ty::Func(signature) => {
                f.write_str("func(")?;
                for (at, ty) in signature.0.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { ", " } else { "" }, show(ty))?;
                }
                f.write_str(")")?;
                match &signature.1 {
                    Ty::Void => Ok(()),
                    result => write!(f, " -> {}", show(result)),
                }
            }
            Ty::Channel(of) => write!(f, "Channel[{}]", show(of)),
            Ty::Task(of) => write!(f, "Task[{}]", show(of)),
        }
    }
}
