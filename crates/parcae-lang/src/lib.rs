//! The front-end of the language: Janus source to typed, metered code.
//!
//! Budgets of a Rust library bind the code that has checkpoints; a language can promise more,
//! because its compiler inserts the checks. Programs are a subset of Janus:
//!
//! ```
//! use parcae_lang::{Profile, Source, check, format};
//!
//! let source = Source::new("squares.jan", r#"
//! {.profile: service.}
//! func square(x: i64) -> i64 { return x*x }
//! async func main() do
//!     nursery do
//!         let a = spawn square(6)
//!         print(await a)
//!     end
//! end
//! "#);
//! check(&source, Profile::Core).expect("a correct program");
//! assert!(format(&source).unwrap().contains("    return x * x\n"));
//! ```
//!
//! # Passes
//!
//! | pass | file | result |
//! |---|---|---|
//! | lexer | `lexer.rs` | tokens, comments |
//! | parser | `parser/` | tree (`ast.rs`), of bounded height |
//! | profile gate | `profile.rs` | faults only |
//! | names and types | `check/` | checked program (`hir.rs`) |
//!
//! Each pass reports its faults and goes on, so that one run finds all of them; types are checked
//! only if the syntax is correct. Hostile input gives faults: no pass recurses deeper than the
//! bound of the parser, and all lists are bounded by the size of the file.
//!
//! # Non-goals
//!
//! Generics, traits, pointers, modules and the profiles beyond `:cluster`. Constructs of Janus that
//! are missing give the fault S4001, "not supported yet".

mod ast;
mod check;
mod diagnostic;
mod format;
mod hir;
mod lexer;
mod library;
mod lower;
mod parser;
mod profile;
mod source;
mod types;

pub use diagnostic::Diagnostic;
pub use library::{Authority, library};
pub use profile::Profile;
pub use source::{Source, Span};

use diagnostic::Faults;
use parcae_ir::HostFunc;

/// The canonical form of a program.
///
/// # Errors
///
/// All faults of its syntax.
pub fn format(source: &Source) -> Result<String, Vec<Diagnostic>> {
    let mut faults = Faults::default();
    let lexed = lexer::lex(source, &mut faults);
    let file = parser::parse(source, &lexed, &mut faults);
    if faults.is_empty() {
        Ok(format::format(source.text(), &file, &lexed))
    } else {
        Err(faults.take())
    }
}

/// Checks a program: syntax, profile, names and types. All faults of the file are found in one run.
///
/// # Errors
///
/// The faults, sorted by place.
pub fn check(source: &Source, default: Profile) -> Result<(), Vec<Diagnostic>> {
    checked(source, default, &[]).map(|_| ())
}

fn checked(
    source: &Source,
    default: Profile,
    hosts: &[HostFunc],
) -> Result<hir::Program, Vec<Diagnostic>> {
    let mut faults = Faults::default();
    let lexed = lexer::lex(source, &mut faults);
    let file = parser::parse(source, &lexed, &mut faults);
    let syntax = faults.is_empty();
    let profile = profile::of_file(&file, default, &mut faults);
    profile::gate(&file, profile, &mut faults);
    if !syntax {
        return Err(faults.take());
    }
    let program = check::check(&file, (hosts, profile), &mut faults);
    if faults.is_empty() { Ok(program) } else { Err(faults.take()) }
}

/// Compiles a program to IR without budget checks, which [`parcae_ir::insert_checks`] adds.
///
/// # Errors
///
/// The faults, sorted by place.
pub fn lower(source: &Source, default: Profile) -> Result<parcae_ir::Module, Vec<Diagnostic>> {
    lower_with(source, default, &[])
}

/// As [`lower()`], for a program that may call these functions of its host by their names.
///
/// ```
/// use parcae_ir::{HostFunc, Type};
/// use parcae_lang::{Profile, Source};
///
/// let price = HostFunc { name: "price".into(), params: vec![Type::Str], result: Type::I64 };
/// let source = Source::new("buy.jan", "func main() do print(price(\"tea\")) end");
/// assert!(parcae_lang::lower_with(&source, Profile::Core, &[price]).is_ok());
/// assert!(parcae_lang::lower(&source, Profile::Core).is_err());
/// ```
///
/// # Errors
///
/// As for [`lower()`].
pub fn lower_with(
    source: &Source,
    default: Profile,
    hosts: &[HostFunc],
) -> Result<parcae_ir::Module, Vec<Diagnostic>> {
    checked(source, default, hosts).map(|program| {
        let mut module = lower::lower(source, program);
        module.hosts = hosts.to_vec();
        module
    })
}
