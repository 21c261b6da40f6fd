//! The intermediate representation of the language: typed SSA with the opcode names of QTJIR.
//!
//! A function is a list of blocks with parameters; a block says where a failure goes. The
//! [text form](print()) and [`parse`] are inverse to each other. [`verify()`] collects every
//! violation of the rules; [`insert_checks`], [`merge_checks`], [`strip_loops`] and
//! [`unroll_loops`] place the budget checks ([`place_checks`] does all four), and
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
mod llvm;
mod meter;
mod module;
mod op;
mod params;
mod strip;
mod text;
mod unroll;
mod verify;

pub use checks::{insert as insert_checks, lower_tasks, merge as merge_checks};
pub use llvm::{LlvmError, emit as emit_llvm};
pub use meter::verify_metering;
pub use module::{
    Block, BlockId, Debt, ErrorSet, Func, HostFunc, Imm, Inst, Module, Pos, StructDef, Target,
    Tenancy, Term, Type, Value,
};
pub use op::{Effect, Opcode};
pub use params::remove_constant_params;
pub use strip::strip as strip_loops;
pub use text::{TextError, parse, print};
pub use unroll::unroll as unroll_loops;
pub use verify::{Violation, verify};

/// Inserts the budget checks in the form that is run: merged, loops in strips or unrolled.
///
/// ```
/// use parcae_ir::{parse, place_checks, print, verify, verify_metering};
///
/// let text = "entry @main\nerror ParseError { Invalid }\n\
///             func @main() -> void tenancy(CPU_Serial)\nb0:\n  Jump b1\nb1:\n  Jump b1\nend\n";
/// let mut module = parse(text).unwrap();
/// place_checks(&mut module);
/// assert!(verify(&module).is_empty() && verify_metering(&module).is_empty());
/// assert!(print(&module).contains("Budget_Decrement 8"), "eight rounds in a row");
/// ```
pub fn place_checks(module: &mut Module) {
    insert_checks(module);
    merge_checks(module);
    strip_loops(module);
    unroll_loops(module);
}
