//! Functions of the host: a table of names, types, costs and closures.
//!
//! A program calls them like its own functions. They are its only way out, beside `print`, `sleep`
//! and the clock: authority is a function in the table of a run. Values are copied in both
//! directions, so a function sees nothing of the task's heap and cannot keep a part of it.
//!
//! A call charges its declared cost before it happens. The function runs on the task, on its stack:
//! it may wait by operations of the runtime, and must neither block the thread nor compute for
//! long, because it is not metered.

use crate::failure::{Fault, panic};
use parcae::Budget;
use parcae_ir::{HostFunc, Type};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A value on its way between a program and its host.
#[derive(Debug, Clone)]
#[doc(hidden)]
pub enum HostValue {
    /// No value.
    Nothing,
    /// A truth value.
    Bool(bool),
    /// An integer.
    I64(i64),
    /// A float.
    F64(f64),
    /// A text.
    Str(Arc<str>),
}

/// Why a function of the host failed.
#[derive(Debug)]
#[doc(hidden)]
pub enum HostFault {
    /// The task fails with P007 and this text.
    Message(String),
    /// The runtime ended a wait of the function: the task was cancelled, or its budget is used up.
    Ended(parcae::Error),
}

impl From<&str> for HostFault {
    fn from(text: &str) -> HostFault {
        HostFault::Message(text.to_owned())
    }
}

/// A parameter of a function of the host: `bool`, `i64`, `f64`, `String`.
pub trait Argument: Sized {
    #[doc(hidden)]
    const TYPE: Type;
    #[doc(hidden)]
    fn take(value: HostValue) -> Option<Self>;
}

/// A result of a function of the host: an [`Argument`], `()`, or a `Result` of them, whose error
/// fails the task with P007.
pub trait Answer {
    #[doc(hidden)]
    const TYPE: Type;
    #[doc(hidden)]
    fn give(self) -> Result<HostValue, HostFault>;
}

macro_rules! values {
    ($($rust:ty, $ty:ident, $from:expr;)*) => {$(
        impl Argument for $rust {
            const TYPE: Type = Type::$ty;
            fn take(value: HostValue) -> Option<$rust> {
                if let HostValue::$ty(value) = value { Some(value.into()) } else { None }
            }
        }
        impl Answer for $rust {
            const TYPE: Type = Type::$ty;
            fn give(self) -> Result<HostValue, HostFault> {
                let from: fn($rust) -> HostValue = $from;
                Ok(from(self))
            }
        }
    )*};
}

values! {
    bool, Bool, HostValue::Bool;
    i64, I64, HostValue::I64;
    f64, F64, HostValue::F64;
    Arc<str>, Str, HostValue::Str;
}

impl Argument for String {
    const TYPE: Type = Type::Str;
    fn take(value: HostValue) -> Option<String> {
        if let HostValue::Str(text) = value { Some(text.as_ref().to_owned()) } else { None }
    }
}

impl Answer for String {
    const TYPE: Type = Type::Str;
    fn give(self) -> Result<HostValue, HostFault> {
        Ok(HostValue::Str(self.into()))
    }
}

impl Answer for () {
    const TYPE: Type = Type::Void;
    fn give(self) -> Result<HostValue, HostFault> {
        Ok(HostValue::Nothing)
    }
}

impl<T: Answer, E: fmt::Display> Answer for Result<T, E> {
    const TYPE: Type = T::TYPE;
    fn give(self) -> Result<HostValue, HostFault> {
        self.map_err(|error| HostFault::Message(error.to_string()))?.give()
    }
}

/// A closure that can be a function of the host: up to four [`Argument`]s, and an [`Answer`].
pub trait Function<Arguments>: Send + Sync + 'static {
    #[doc(hidden)]
    fn types(&self) -> (Vec<Type>, Type);
    #[doc(hidden)]
    fn call(&self, args: Vec<HostValue>) -> Result<HostValue, HostFault>;
}

macro_rules! functions {
    ($($name:ident)*) => {
        impl<F, R, $($name),*> Function<($($name,)*)> for F
        where
            F: Fn($($name),*) -> R + Send + Sync + 'static,
            R: Answer,
            $($name: Argument,)*
        {
            fn types(&self) -> (Vec<Type>, Type) {
                (vec![$($name::TYPE),*], R::TYPE)
            }

            #[allow(unused_mut, unused_variables, reason = "no arguments")]
            fn call(&self, args: Vec<HostValue>) -> Result<HostValue, HostFault> {
                let mut args = args.into_iter();
                self($(
                    args.next().and_then($name::take).ok_or("an argument of another type")?
                ),*)
                .give()
            }
        }
    };
}

functions!();
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C D);

type Call = Box<dyn Fn(Vec<HostValue>) -> Result<HostValue, HostFault> + Send + Sync>;

/// Table of functions of the host. Cheap to clone.
///
/// ```
/// use parcae::prelude::*;
/// use parcae_interp::{Functions, Host, Program};
/// use parcae_lang::{Profile, Source};
///
/// let functions = Functions::new()
///     .add("price", Budget::SYSCALL, |item: String| match item.as_str() {
///         "tea" => Ok(3),
///         _ => Err(format!("there is no {item}")),
///     })
///     .add("log", Budget::ZERO.with_ops(10), |text: String| eprintln!("{text}"));
/// let source = Source::new("buy.jan", "func main() -> i64 do price(\"tea\") * 2 end");
/// let program = Program::compile(&source, Profile::Core, &functions).expect("a correct program");
///
/// let rt = Runtime::builder().deterministic(1).build()?;
/// let host = Host::new(|text| print!("{text}")).functions(&functions);
/// assert_eq!(program.run(&rt, host).expect("no failure"), 6);
/// # Ok::<(), parcae::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Functions {
    table: Arc<BTreeMap<String, Arc<Entry>>>,
}

pub(crate) struct Entry {
    types: HostFunc,
    pub(crate) cost: Budget,
    call: Call,
}

impl Functions {
    /// An empty table.
    pub fn new() -> Functions {
        Functions::default()
    }

    /// Adds a function: its name, the cost of a call, and a closure. A function of the same name is
    /// replaced.
    #[must_use]
    pub fn add<A>(self, name: &str, cost: Budget, function: impl Function<A>) -> Functions {
        let (params, result) = function.types();
        let types = HostFunc { name: name.to_owned(), params, result };
        let call: Call = Box::new(move |args| function.call(args));
        let mut table = (*self.table).clone();
        table.insert(name.to_owned(), Arc::new(Entry { types, cost, call }));
        Functions { table: Arc::new(table) }
    }

    /// Names and types, for the compiler.
    pub fn types(&self) -> Vec<HostFunc> {
        self.table.values().map(|entry| entry.types.clone()).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.table.get(name)
    }

    /// A function of a program that is missing here or has other types.
    pub(crate) fn missing<'p>(&self, used: &'p [HostFunc]) -> Option<&'p str> {
        let fits = |host: &HostFunc| self.get(&host.name).is_some_and(|e| e.types == *host);
        used.iter().find(|host| !fits(host)).map(|host| host.name.as_str())
    }
}

impl Entry {
    pub(crate) fn call(&self, args: Vec<HostValue>) -> Result<HostValue, Fault> {
        (self.call)(args).map_err(|fault| match fault {
            HostFault::Message(text) => {
                panic("P007", format!("`{}` failed: {text}", self.types.name))
            }
            HostFault::Ended(error) => Fault::Runtime(error),
        })
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.table.keys()).finish()
    }
}
