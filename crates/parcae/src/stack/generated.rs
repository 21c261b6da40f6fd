//! Code that was generated at run time: where it is, and which functions it has.
//!
//! The unwinder stops at a return address that it knows no tables for. Announcing tables to it
//! (`__register_frame`) makes older unwinders (gcc ≤ 12) take a lock, also in the signal handler
//! that asks a stuck worker for its backtrace. So a backtrace that ends in code of this registry is
//! continued here, by frame pointers, and this registry names its functions.
//!
//! # Conditions
//!
//! Announced functions keep frame pointers: at `fp` is the caller's, above it the return address.
//! They are called on stacks of this library's arenas. A frame pointer is used only if it lies
//! above the stack pointer of its frame and below the top of the same stack, so a wrong one (an
//! interrupted prologue or epilogue) leaves frames out and reads nothing else.
//!
//! # Readers in signal handlers
//!
//! They *try* to lock, so they never wait: if the interrupted thread, or another one, writes
//! meanwhile, the backtrace ends earlier. They look entries up and allocate nothing.

use super::frames::Function;
use super::registry;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};

/// A function of generated code.
#[derive(Debug, Clone)]
pub struct GeneratedFunction {
    /// Its name.
    pub name: String,
    /// Its source file; `None` for a function that the code generator added. Backtraces show it
    /// only with those of the runtime.
    pub file: Option<Arc<str>>,
    /// Address of its code.
    pub start: usize,
    /// Bytes of its code.
    pub len: usize,
    /// The lines of its code, each from this offset on; by increasing offset.
    pub lines: Vec<(u32, u32)>,
}

impl GeneratedFunction {
    /// The line of an address of its code.
    fn line(&self, address: usize) -> Option<u32> {
        let offset = address - self.start;
        let after = self.lines.partition_point(|(from, _)| *from as usize <= offset);
        Some(self.lines[after.checked_sub(1)?].1).filter(|line| *line > 0)
    }
}

/// All functions of the process, by address.
static FUNCTIONS: RwLock<BTreeMap<usize, GeneratedFunction>> = RwLock::new(BTreeMap::new());

/// Generated code is announced as long as this exists. Drop it before the code is freed.
#[derive(Debug)]
pub struct AnnouncedCode {
    starts: Vec<usize>,
}

/// Announces generated code, so that backtraces go through it and name its functions.
///
/// The functions keep frame pointers, and do not overlap others.
pub fn announce_code(functions: Vec<GeneratedFunction>) -> AnnouncedCode {
    let functions: Vec<_> = functions.into_iter().filter(|function| function.len > 0).collect();
    let starts = functions.iter().map(|function| function.start).collect();
    let mut all = FUNCTIONS.write().unwrap_or_else(PoisonError::into_inner);
    all.extend(functions.into_iter().map(|function| (function.start, function)));
    AnnouncedCode { starts }
}

impl Drop for AnnouncedCode {
    fn drop(&mut self) {
        let mut all = FUNCTIONS.write().unwrap_or_else(PoisonError::into_inner);
        for start in &self.starts {
            all.remove(start);
        }
    }
}

type Functions = BTreeMap<usize, GeneratedFunction>;

fn find(all: &Functions, address: usize) -> Option<&GeneratedFunction> {
    let (start, function) = all.range(..=address).next_back()?;
    (address - start < function.len).then_some(function)
}

/// The registry, if no thread writes to it. Async-signal-safe.
fn try_functions() -> Option<RwLockReadGuard<'static, Functions>> {
    match FUNCTIONS.try_read() {
        Ok(all) => Some(all),
        Err(TryLockError::Poisoned(all)) => Some(all.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The generated function at this address, and whether it is the program's own.
pub(super) fn function_at(address: usize) -> Option<(Function, bool)> {
    let all = FUNCTIONS.read().unwrap_or_else(PoisonError::into_inner);
    let found = find(&all, address)?;
    let file = found.file.as_ref().map(|file| file.to_string());
    let own = file.is_some();
    Some((Function { name: found.name.clone(), file, line: found.line(address) }, own))
}

/// The last frame that the unwinder reached.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastFrame {
    pub(super) address: usize,
    pub(super) sp: usize,
    pub(super) fp: usize,
}

/// If the unwinder ended in generated code: visits the return addresses of the frames that it
/// was called from, innermost first, up to the first one outside of generated code; that one
/// included. `visit` returns false to end. Async-signal-safe, if `visit` is.
pub(super) fn continue_from(last: LastFrame, mut visit: impl FnMut(usize) -> bool) {
    let Some(all) = try_functions() else { return };
    if all.is_empty() {
        return;
    }
    let LastFrame { mut address, mut sp, mut fp } = last;
    // The address of the call, which may be the last instruction; or the interrupted instruction.
    let generated = |address: usize| find(&all, address).or_else(|| find(&all, address - 1));
    while address > 0 && generated(address).is_some() {
        let Some(stack) = stack_of(sp) else { return };
        let inside = sp <= fp && fp.is_multiple_of(8) && fp.saturating_add(16) <= stack.end;
        if !inside {
            return;
        }
        // SAFETY: both words are above the stack pointer of a frame and below the top of its stack:
        // mapped memory, in use by the task, which is this one or suspended.
        let words = unsafe { *std::ptr::with_exposed_provenance::<[usize; 2]>(fp) };
        // Frame pointers grow, so this ends.
        (sp, fp, address) = (fp + 16, words[0], words[1]);
        if address == 0 || !visit(address) {
            return;
        }
    }
}

/// The stack of a registered arena that this address lies in. Async-signal-safe.
fn stack_of(sp: usize) -> Option<Range<usize>> {
    let arena = registry::find(sp)?;
    let start = sp - (sp - arena.base) % arena.stride;
    let end = start + arena.stride;
    (end <= arena.base + arena.len).then_some(start + arena.guard..end)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn function(name: &str, start: usize, file: Option<&str>) -> GeneratedFunction {
        let lines = vec![(0, 3), (8, 4), (16, 0)];
        GeneratedFunction { name: name.into(), file: file.map(Into::into), start, len: 32, lines }
    }

    #[test]
    fn functions_are_found_by_address_until_they_are_taken_back() {
        // Addresses that no code has.
        let base = usize::MAX - 4096;
        let code = announce_code(vec![
            function("one", base, Some("f.jan")),
            function("two", base + 64, None),
            GeneratedFunction { len: 0, ..function("empty", base + 128, None) },
        ]);
        let named =
            |address: usize| function_at(address).map(|(found, own)| (found.to_string(), own));
        let one = |line| Some((format!("one at f.jan:{line}"), true));
        assert_eq!(named(base - 1), None);
        assert_eq!(named(base), one(3));
        assert_eq!(named(base + 7), one(3));
        assert_eq!(named(base + 8), one(4));
        assert_eq!(named(base + 31), Some(("one".into(), true)));
        assert_eq!(named(base + 32), None);
        assert_eq!(named(base + 64), Some(("two".into(), false)));
        assert_eq!(named(base + 128), None);
        drop(code);
        assert_eq!(named(base), None);
        assert_eq!(named(base + 64), None);
    }

    // The sanitizer moves variables off the stack, and the frames with them.
    #[cfg(not(parcae_asan))]
    #[test]
    fn wrong_frame_pointers_end_a_backtrace() {
        let base = usize::MAX - 8192;
        let _code = announce_code(vec![function("walked", base, None)]);
        let pool = crate::stack::StackPool::new().unwrap();
        let stack = pool.acquire(crate::stack::StackSize::SERVICE).unwrap();
        let mut fiber = crate::fiber::Fiber::new(stack, "walked").unwrap();
        let step = fiber.start(move |_| {
            // Two frames of generated code, and one of the host.
            let mut frames = [[0_usize; 2]; 3];
            let at = (&raw mut frames).expose_provenance();
            frames[0] = [at + 16, base + 9];
            frames[1] = [at + 32, base + 17];
            frames[2] = [7, 0x1234];
            std::hint::black_box(&mut frames);
            let walk = |last| {
                let mut seen = Vec::new();
                continue_from(last, |address| {
                    seen.push(address);
                    true
                });
                seen
            };
            let sp = at - 64;
            let last = LastFrame { address: base + 5, sp, fp: at };
            assert_eq!(walk(last), [base + 9, base + 17, 0x1234]);
            for last in [
                LastFrame { address: base + 64, ..last }, // not generated
                LastFrame { address: 0, ..last },
                LastFrame { sp: at + 8, ..last }, // above the frame pointer
                LastFrame { fp: at + 4, ..last }, // not aligned
                LastFrame { fp: 0, ..last },
                LastFrame { fp: usize::MAX - 7, ..last },
                LastFrame { fp: stack_of(sp).unwrap().end - 8, ..last }, // half a frame
                LastFrame { sp: 64, fp: 128, ..last },                   // on no stack
            ] {
                assert_eq!(walk(last), [0; 0], "{last:x?}");
            }
            // A caller's frame that lies below ends it, so that it cannot go in circles.
            frames[1][0] = at;
            std::hint::black_box(&mut frames);
            assert_eq!(walk(last), [base + 9, base + 17]);
        });
        assert!(!step.unwrap().propagate());
    }
}
