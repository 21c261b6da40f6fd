//! The seam for generated code: an [`Engine`] executes the functions of a program, and asks the
//! machine of the task for every operation that it does not do itself.
//!
//! The machine stays the same: heap, meter, nurseries, failures. So both engines charge the same
//! ops before every observable action, and report the same failures. The division of labour:
//!
//! | generated code | machine |
//! |---|---|
//! | values in registers, calls, control flow | heap, nurseries, tasks, channels, `select` |
//! | counts ops down ([`Task::left`]) | pays them ([`Task::attend`]) |
//! | arithmetic that succeeds | arithmetic that fails: the operation again, with its message |
//! | reads of objects, through their [views](Task::views) | everything else about objects |
//! | returns a status | keeps the failure until it is caught or ends the task |
//!
//! # Operands
//!
//! An operation is a [`Site`]. Its operands are words in a window of the machine, the first at 0; a
//! result follows them, and a result that can be an error has a second word, as in the
//! interpreter's slots.
//!
//! # Roots
//!
//! Generated code keeps references in registers. Each of its frames that may see a collection has a
//! list of [`Roots`] on the task's stack, with all references of the frame; the lists are linked,
//! the innermost first. Objects do not move, so a reference in a register stays right.

use crate::code::{Kind, Op, Step};
use crate::failure::{Failure, Fault, panic};
use crate::heap::{Message, Object};
use crate::machine::Machine;
use crate::{Code, Program};
use parcae_ir::Pos;
use std::fmt;
use std::sync::Arc;

/// Generated code for all functions of a program.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Executes a function with these arguments on the running task: the words of its result.
    ///
    /// # Errors
    ///
    /// If the function failed; the failure is kept by the task.
    fn execute(&self, task: Task<'_, '_>, func: u32, args: &[u64]) -> Result<[u64; 2], Failed>;
}

/// A function failed, and its failure is kept by the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

/// One operation of a program: its operands are in the window.
#[derive(Debug)]
pub struct Site {
    op: Op,
    at: Pos,
    func: Arc<str>,
}

impl Site {
    /// The constant of the operation; a text or a function is a number.
    pub fn constant(&self) -> u64 {
        self.op.imm
    }
}

/// References of a frame of generated code; `count` words follow.
#[repr(C)]
#[derive(Debug)]
pub struct Roots {
    /// Those of the frame that called it.
    pub previous: *const Roots,
    /// Number of references.
    pub count: usize,
}

/// State of the machine for generated code.
#[derive(Debug)]
pub(crate) struct Lent {
    /// The failure that is on its way.
    failure: Option<Failure>,
    roots: *const Roots,
}

// SAFETY: the roots are on the stack of the task that owns the machine, and move with it.
unsafe impl Send for Lent {}

impl Default for Lent {
    fn default() -> Lent {
        Lent { failure: None, roots: std::ptr::null() }
    }
}

impl Lent {
    /// The references of all frames.
    pub(crate) fn roots(&self) -> impl Iterator<Item = u64> {
        let mut list = self.roots;
        let lists = std::iter::from_fn(move || {
            // SAFETY: as `Task::operate` demands: the lists of frames that have not returned.
            let roots = unsafe { list.as_ref() }?;
            // SAFETY: `count` words follow, as above.
            let words = unsafe { std::slice::from_raw_parts(list.add(1).cast(), roots.count) };
            list = roots.previous;
            Some(words)
        });
        lists.flatten().copied()
    }
}

impl Program {
    /// The same program, run by generated code. It must be that of the same module.
    #[must_use]
    pub fn with_engine(mut self, engine: Arc<dyn Engine>) -> Program {
        self.engine = Some(engine);
        self
    }

    /// An operation, by its function, block and number in the block, with its operands in the
    /// window.
    ///
    /// # Panics
    ///
    /// If the program does not have it.
    pub fn site(&self, func: u32, block: u32, number: usize) -> Site {
        let code = &self.code.funcs[func as usize];
        let step = code.handlers[block as usize].0 as usize + number;
        let (at, func) = (code.places[step], Arc::clone(&code.name));
        let Step::Op(op) = &code.steps[step] else {
            // The end of a block: only its place is used.
            let kind = Kind::Void;
            let op = Op {
                op: parcae_ir::Opcode::Trap,
                kind,
                gives: kind,
                to: 0,
                a: 0,
                b: 0,
                c: 0,
                imm: 0,
                args: Box::default(),
            };
            return Site { op, at, func };
        };
        let count = op.args.len() as u32;
        let mut op = op.clone();
        (op.a, op.b, op.c, op.to) = (0, 1, 2, count);
        op.args.iter_mut().zip(0..).for_each(|(arg, at)| arg.0 = at);
        Site { op, at, func }
    }

    /// Number of words that the operands and results of every operation fit into.
    pub fn window(&self) -> usize {
        let steps = self.code.funcs.iter().flat_map(|func| &func.steps);
        let count = |step: &Step| if let Step::Op(op) = step { op.args.len() } else { 0 };
        steps.map(count).max().unwrap_or(0).max(3) + 2
    }
}

impl Machine<'_> {
    /// Executes a function by generated code.
    pub(crate) fn generated(
        &mut self,
        engine: &dyn Engine,
        func: u32,
        args: Message,
    ) -> Result<Message, Failure> {
        let code: &Code = self.code;
        let name = || Arc::clone(&code.funcs[func as usize].name);
        let args = match self.heap.unpack(code, args) {
            Ok(args) => args,
            Err(kind) => return Err(Failure { kind, at: Default::default(), func: name() }),
        };
        let window = self.run.window;
        self.slots.resize(window, 0);
        let outcome = engine.execute(Task(self), func, &args);
        let failure = match outcome {
            Ok(words) => {
                let result = code.funcs[func as usize].result;
                match (code.funcs[func as usize].fails, words[1]) {
                    (Some(set), 1..) => {
                        let variant = words[1] as u32 - 1;
                        let name = Arc::clone(&code.errors[set as usize][variant as usize]);
                        let kind = Fault::Error { set, variant, name };
                        Failure { kind, at: Default::default(), func: "".into() }
                    }
                    _ => return Ok(self.heap.pack(code, &[(words[0], result.is_ref())])),
                }
            }
            Err(Failed) => self.lost(),
        };
        self.meter.recover();
        Err(failure)
    }

    fn lost(&mut self) -> Failure {
        self.lent.failure.take().unwrap_or_else(|| Failure {
            kind: panic("P005", "generated code failed without a cause"),
            at: Default::default(),
            func: "".into(),
        })
    }
}

/// The machine of a task, for the code that it executes.
#[derive(Debug)]
pub struct Task<'m, 'c>(&'m mut Machine<'c>);

impl fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

impl Task<'_, '_> {
    /// The words of operands and results. Its address stays the same until the task ends.
    pub fn window(&mut self) -> *mut u64 {
        self.0.slots.as_mut_ptr()
    }

    /// For each object, the address of its contents and their length: two words each. Until the
    /// next operation.
    pub fn views(&self) -> *const u64 {
        self.0.heap.views().cast()
    }

    /// For each text of a constant, its object; 0 before the first use.
    pub fn literals(&self) -> *const u64 {
        self.0.literals.as_ptr()
    }

    /// Ops until the next payment; not positive if it is due.
    pub fn left(&self) -> i64 {
        self.0.meter.left()
    }

    /// Ops that generated code has counted down.
    pub fn set_left(&mut self, left: i64) {
        self.0.meter.set_left(left);
    }

    /// Executes an operation whose operands are in the window.
    ///
    /// # Errors
    ///
    /// If it failed.
    ///
    /// # Safety
    ///
    /// The operands are of the types that the operation has in its program. `roots` has all
    /// references of the calling frames.
    pub unsafe fn operate(&mut self, site: &Site, roots: *const Roots) -> Result<(), Failed> {
        self.0.lent.roots = roots;
        let outcome = self.0.operation(&site.op);
        self.0.lent.roots = std::ptr::null();
        outcome.map_err(|kind| self.fail(site, kind))
    }

    /// Pays the ops that are owed.
    ///
    /// # Errors
    ///
    /// If the budget is used up or the task was cancelled.
    pub fn attend(&mut self, site: &Site) -> Result<(), Failed> {
        self.0.meter.settle().map_err(|kind| self.fail(site, kind))
    }

    /// The stack is used up.
    pub fn overflow(&mut self, site: &Site) -> Failed {
        self.fail(site, Fault::StackOverflow)
    }

    /// Code was reached that cannot be.
    pub fn unreachable(&mut self, site: &Site) -> Failed {
        self.fail(site, panic("P005", "unreachable code was reached"))
    }

    fn fail(&mut self, site: &Site, kind: Fault) -> Failed {
        let failure = match kind {
            Fault::Resumed(failure) => *failure,
            kind => Failure { kind: self.0.paid(kind), at: site.at, func: Arc::clone(&site.func) },
        };
        self.0.lent.failure = Some(failure);
        Failed
    }

    /// Puts the failure that is on its way on the heap, for its handler.
    pub fn catch(&mut self) -> u64 {
        let failure = self.0.lost();
        self.0.heap.put_failure(failure)
    }

    /// Goes on with a failure.
    pub fn resume(&mut self, reference: u64) -> Failed {
        self.0.lent.failure = Some(self.0.failure(reference).clone());
        Failed
    }

    /// A function value: its function and the captured values.
    ///
    /// # Panics
    ///
    /// If the object is none, which a verified program excludes.
    pub fn closure(&self, reference: u64) -> (u32, impl ExactSizeIterator<Item = u64>) {
        match self.0.heap.get(reference) {
            Object::Closure { func, captures } => (*func, captures.iter().map(|(word, _)| *word)),
            _ => unreachable!("verified"),
        }
    }
}
