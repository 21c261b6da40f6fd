//! Execution: from a task of the runtime into generated code and back.
//!
//! Generated code keeps the ops that are left in the pinned register (r15, x21), which is
//! callee-saved for the host: `enter`, which is generated too, saves the host's value, loads the
//! counter, calls a thunk, and restores both. All functions of the host preserve the register, and
//! the switch of stacks saves it.
//!
//! The memory of the code is freed with the engine. Each task of a run owns a share of the engine
//! below its generated frames, so no return address into the code outlives it.

use crate::debug::{Registration, Symbol};
use crate::words::Words;
use cranelift_jit::JITModule;
use parcae_interp::engine::{Engine, Failed, Site, Task};
use std::fmt;
use std::panic::resume_unwind;

/// Stack that generated code leaves to the functions of the host that it calls, and to the frame of
/// a last function that does not test the limit.
const RED_ZONE: usize = if cfg!(debug_assertions) { 96 << 10 } else { 40 << 10 };

/// Two words that a function returns: its value, and 0, an error's number plus 1, or -1 if it
/// failed.
#[repr(C)]
pub(crate) struct Pair(u64, u64);

pub(crate) type Enter =
    unsafe extern "C" fn(words: *mut Words<'_, '_>, thunk: *const u8, args: *const u64) -> Pair;

/// Generated code of a program.
pub(crate) struct Generated {
    pub(crate) enter: Enter,
    /// For each function that is used as a value or as the root of a task, its thunk.
    pub(crate) thunks: Vec<*const u8>,
    /// The code refers to them.
    #[expect(clippy::vec_box, reason = "generated code has their addresses")]
    pub(crate) _sites: Vec<Box<Site>>,
    pub(crate) symbols: Vec<Symbol>,
    // In this order: debuggers are told before the code is freed.
    pub(crate) _registration: Registration,
    pub(crate) code: CodeMemory,
}

// SAFETY: the code and the lists are not changed after they were made.
unsafe impl Send for Generated {}
// SAFETY: as above.
unsafe impl Sync for Generated {}

/// Memory of the code.
pub(crate) struct CodeMemory {
    pub(crate) module: Option<JITModule>,
    pub(crate) bytes: usize,
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: no task is in the code: see the header.
            unsafe { module.free_memory() };
        }
    }
}

impl fmt::Debug for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generated").field("bytes", &self.code.bytes).finish_non_exhaustive()
    }
}

impl Engine for Generated {
    fn execute(&self, task: Task<'_, '_>, func: u32, args: &[u64]) -> Result<[u64; 2], Failed> {
        let here = 0_u8;
        let here = (&raw const here).addr();
        // Outside of tasks there would be no limit; programs run on tasks alone.
        let left = parcae::foreign::stack_left().unwrap_or(0);
        let limit = here - left + RED_ZONE;
        let mut words = Words::new(task, limit, self.thunks.as_ptr());
        let thunk = self.thunks[func as usize];
        assert!(!thunk.is_null(), "a function that is the root of a task has a thunk");
        // SAFETY: generated for this program, which is verified; the arguments are those of the
        // function, and stay where they are; the words outlive the call.
        let Pair(value, status) = unsafe { (self.enter)(&raw mut words, thunk, args.as_ptr()) };
        words.settle();
        if let Some(panic) = words.panic.take() {
            resume_unwind(panic);
        }
        if status == u64::MAX { Err(Failed) } else { Ok([value, status]) }
    }
}
