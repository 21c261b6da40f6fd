//! Generated code in backtraces and debuggers.
//!
//! | reader | source |
//! |---|---|
//! | the runtime: dumps, stall reports, `top`, `inspect::Frames::here` | `foreign::announce_code`: names, lines, frame pointers |
//! | gdb, lldb: attached or later, and for breakpoints | an object in memory (`object.rs`), in the list of gdb's JIT interface (`gdb.rs`) |
//! | other unwinders (the standard library's `Backtrace`) | the object's unwind tables, if they are [announced](crate::Options::unwinder) |
//! | `perf` | a [map](crate::Options::map) |
//!
//! The unwind tables are not announced by default. Unwinders before gcc 13 take a lock to search
//! announced tables; a signal handler that asks a stuck worker for its backtrace would wait for it
//! forever if the worker was interrupted while it has that lock.

mod dwarf;
mod gdb;
mod object;

use crate::CompileError;
use cranelift_codegen::gimli::write::CommonInformationEntry;
use cranelift_codegen::ir::SourceLoc;
use cranelift_codegen::isa::unwind::systemv::UnwindInfo;
use parcae::foreign::{AnnouncedCode, GeneratedFunction, announce_code};
use parcae_ir::Pos;
use std::sync::Arc;

/// A function of generated code.
#[derive(Debug, Clone)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    /// Its place in the source; line 0 for a function that the compiler added.
    pub(crate) at: Pos,
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// The places of its code, each from this offset on; by increasing offset.
    pub(crate) rows: Vec<(u32, Pos)>,
    pub(crate) unwind: Option<UnwindInfo>,
}

/// Largest column that fits.
const COLUMNS: u32 = 255;

/// A place as the code generator carries it.
pub(crate) fn source_loc(at: Pos) -> SourceLoc {
    SourceLoc::new(at.line.min(u32::MAX >> 9) << 8 | at.column.min(COLUMNS))
}

/// The place that was carried.
pub(crate) fn place(loc: SourceLoc) -> Option<Pos> {
    let line = loc.bits() >> 8;
    (!loc.is_default() && line > 0).then(|| Pos { line, column: loc.bits() & COLUMNS })
}

impl Symbol {
    /// The name with its place, for `perf`.
    pub(crate) fn title(&self, file: &str) -> String {
        match self.at.line {
            0 => self.name.clone(),
            line => format!("{} at {file}:{line}", self.name),
        }
    }

    fn announced(&self, file: &Arc<str>) -> GeneratedFunction {
        let file = (self.at.line > 0).then(|| Arc::clone(file));
        let lines = self.rows.iter().map(|(offset, at)| (*offset, at.line)).collect();
        let (start, len, name) = (self.start, self.len, self.name.clone());
        GeneratedFunction { name, file, start, len, lines }
    }
}

/// Generated code is known to its readers as long as this exists. It is dropped before the code is.
#[derive(Debug)]
pub(crate) struct Registration {
    // In this order: the tables are taken back before their memory is freed.
    _tables: Option<Tables>,
    _object: Option<gdb::Entry>,
    _code: AnnouncedCode,
}

/// Announces generated code.
pub(crate) fn register(
    symbols: &[Symbol],
    file: &str,
    cie: Option<CommonInformationEntry>,
    unwinder: bool,
) -> Result<Registration, CompileError> {
    let name: Arc<str> = file.into();
    let functions = symbols.iter().map(|symbol| symbol.announced(&name)).collect();
    let code = announce_code(functions);
    let fault = |error| CompileError::Backend(format!("debug information: {error}"));
    let sections = dwarf::sections(symbols, file, cie.as_ref()).map_err(fault)?;
    let tables = match cie.filter(|_| unwinder) {
        Some(cie) => Tables::announce(dwarf::unwind_tables(symbols, &cie).map_err(fault)?),
        None => None,
    };
    let object = object::object(symbols, sections).map(gdb::Entry::new);
    Ok(Registration { _tables: tables, _object: object, _code: code })
}

/// Unwind tables that the unwinder of the process knows.
#[derive(Debug)]
struct Tables {
    bytes: Box<[u8]>,
}

// libgcc takes a whole section, other unwinders a single entry of it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    fn __register_frame(begin: *const u8);
    fn __deregister_frame(begin: *const u8);
}

impl Tables {
    fn announce(bytes: Vec<u8>) -> Option<Tables> {
        let tables = Tables { bytes: bytes.into_boxed_slice() };
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: a section `.eh_frame` that ends with a length of 0, and stays until it is taken
        // back.
        unsafe {
            __register_frame(tables.bytes.as_ptr());
        }
        cfg!(all(target_os = "linux", target_env = "gnu")).then_some(tables)
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
impl Drop for Tables {
    fn drop(&mut self) {
        // SAFETY: it was announced with this address.
        unsafe { __deregister_frame(self.bytes.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_carried_whole_or_clamped() {
        for (line, column, carried) in [
            (1, 1, Some((1, 1))),
            (70_000, 255, Some((70_000, 255))),
            (7, 300, Some((7, 255))),
            (u32::MAX, 0, Some((u32::MAX >> 9, 0))),
            (0, 4, None),
        ] {
            let found = place(source_loc(Pos { line, column }));
            assert_eq!(found.map(|at| (at.line, at.column)), carried);
        }
        assert_eq!(place(SourceLoc::default()), None);
    }
}
