//! The intermediate representation of the language: typed SSA with the opcode names of QTJIR.
//!
//! A function is a list of blocks with parameters; a block says where a failure goes. The
//! [text form](print()) and [`parse`] are inverse to each other. [`verify()`] collects every
//! violation of the rules; [`insert_checks`] and [`merge_checks`] place the budget checks, and
//! [`verify_metering`] proves, independently of them, that every cycle of control flow and of
//! calls is metered and that exactly the owed ops are charged.
//!
//! ```
//! use parcae_ir::{insert_checks, parse, print, verify, verify_metering};
//!
//! let text = r#"file "spin.jan"
//! entry @main
//! error ParseError { Invalid }
//! func @main() -> void tenancy(CPU_Serial)
//! b0:
//!   Jump b1
//! b1:
//!   Jump b1
//! end
//! "#;
//! let mut module = parse(text).unwrap();
//! assert_eq!(print(&module), text);
//! assert!(verify(&module).is_empty());
//! assert_eq!(verify_metering(&module)[0].to_string(), "@main b1: a cycle without a Budget_Check");
//! insert_checks(&mut module);
//! assert!(verify_metering(&module).is_empty());
//! ```
//!
//! This crate knows neither the front-end, which lowers into it, nor the runtime, on which
//! `parcae-interp` runs it.

mod checks;
mod graph;
mod meter;
mod module;
mod op;
mod text;
mod verify;

pub use checks::{insert as insert_checks, lower_tasks, merge as merge_checks};
pub use meter::verify_metering;
pub use module::{
    Block, BlockId, ErrorSet, Func, HostFunc, Imm, Inst, Module, Pos, StructDef, Target, Tenancy,
    Term, Type, Value,
};
pub use op::{Effect, Opcode};
pub use text::{TextError, parse, print};
pub use verify::{Violation, verify};
