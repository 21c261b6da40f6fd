//! The machine of a task: frames, slots, and the loop that executes steps.
//!
//! A call pushes a frame; the host's stack does not grow. A failure looks for the handler of the
//! present step, and without one leaves the function.

use crate::code::{Code, Edge, Kind, Op, Step};
use crate::failure::{Failure, Fault, panic};
use crate::heap::{Heap, Message, Object};
use crate::meter::Meter;
use crate::tasks::{Case, Scope};
use crate::{Host, Run};
use parcae::Cx;
use parcae_ir::{Effect, Opcode};
use std::sync::Arc;

/// Most frames of a task. Frames are memory of the task's budget, so this only bounds tasks whose
/// memory is not bounded.
const MAX_DEPTH: usize = 20_000;

/// A function that is being executed.
struct Frame {
    func: u32,
    step: u32,
    /// First slot.
    base: usize,
    /// Where the caller wants the result.
    to: u32,
}

pub(crate) struct Machine<'c> {
    pub(crate) run: &'c Arc<Run>,
    pub(crate) code: &'c Code,
    pub(crate) host: &'c Host,
    pub(crate) cx: &'c Cx,
    pub(crate) heap: Heap,
    pub(crate) meter: Meter<'c>,
    pub(crate) slots: Vec<u64>,
    frames: Vec<Frame>,
    pub(crate) base: usize,
    /// Open nurseries, the innermost last.
    pub(crate) scopes: Vec<Scope>,
    pub(crate) next_scope: u64,
    pub(crate) cases: Vec<Case>,
    /// Outcome of the case that was chosen.
    pub(crate) chosen: Option<Result<Message, Fault>>,
    /// Texts of constants that are on the heap.
    pub(crate) literals: Vec<u64>,
    /// State for generated code.
    #[cfg(feature = "engine")]
    pub(crate) lent: crate::engine::Lent,
}

impl<'c> Machine<'c> {
    pub(crate) fn new(run: &'c Arc<Run>, cx: &'c Cx) -> Machine<'c> {
        Machine {
            run,
            code: &run.code,
            host: &run.host,
            cx,
            heap: Heap::new(),
            meter: Meter::new(cx),
            slots: Vec::new(),
            frames: Vec::new(),
            base: 0,
            scopes: Vec::new(),
            next_scope: 1,
            cases: Vec::new(),
            chosen: None,
            literals: vec![0; run.code.texts.len()],
            #[cfg(feature = "engine")]
            lent: Default::default(),
        }
    }

    /// Executes a function with these arguments; its result.
    pub(crate) fn execute(&mut self, func: u32, args: Message) -> Result<Message, Failure> {
        #[cfg(feature = "engine")]
        if let Some(engine) = &{ self.run }.engine {
            return self.generated(&**engine, func, args);
        }
        let start = |this: &mut Self| {
            let values = this.heap.unpack(this.code, args)?;
            this.enter(func, 0)?;
            for (slot, value) in this.code.funcs[func as usize].params.iter().zip(values) {
                this.slots[this.base + *slot as usize] = value;
            }
            Ok(())
        };
        if let Err(fault) = start(self) {
            let func = Arc::clone(&self.code.funcs[func as usize].name);
            return Err(Failure { kind: fault, at: Default::default(), func });
        }
        loop {
            match self.steps() {
                Ok(result) => return Ok(result),
                Err(fault) => {
                    let failure = self.located(fault);
                    self.unwind(failure)?;
                }
            }
        }
    }

    fn located(&mut self, kind: Fault) -> Failure {
        if let Fault::Resumed(failure) = kind {
            return *failure;
        }
        self.owe_debt();
        let kind = self.paid(kind);
        match self.frames.last() {
            Some(frame) => {
                let func = &self.code.funcs[frame.func as usize];
                let at = func.places[(frame.step as usize).saturating_sub(1)];
                Failure { kind, at, func: Arc::clone(&func.name) }
            }
            None => Failure { kind, at: Default::default(), func: "".into() },
        }
    }

    /// An operation failed in a block with a debt: it is charged. A check comes after its charge.
    fn owe_debt(&mut self) {
        let Some(frame) = self.frames.last() else { return };
        let func = &self.code.funcs[frame.func as usize];
        let step = frame.step.saturating_sub(1);
        let Step::Op(op) = &func.steps[step as usize] else { return };
        if op.op != Opcode::Budget_Check {
            let range = func.handlers.partition_point(|(start, _)| *start <= step) - 1;
            let owes = func.debts[range];
            let rounds = owes.slots.map_or(0, |(now, first)| {
                self.slots[frame.base + now as usize]
                    .wrapping_sub(self.slots[frame.base + first as usize])
            });
            self.meter.owe(u64::from(owes.ops) + rounds);
        }
    }

    /// A failure by a fault of the program is paid for like every other operation: if the budget is
    /// used up by then, that is the failure.
    pub(crate) fn paid(&mut self, kind: Fault) -> Fault {
        match (&kind, self.meter.settle()) {
            (Fault::Runtime(_), _) | (_, Ok(())) => kind,
            (_, Err(earlier)) => earlier,
        }
    }

    /// Goes on in the handler of a failure, or returns it if there is none.
    pub(crate) fn unwind(&mut self, failure: Failure) -> Result<(), Failure> {
        while let Some(frame) = self.frames.last_mut() {
            let func = &self.code.funcs[frame.func as usize];
            let step = frame.step.saturating_sub(1);
            let range = func.handlers.partition_point(|(start, _)| *start <= step) - 1;
            if let Some((handler, slot)) = func.handlers[range].1 {
                frame.step = handler;
                let base = frame.base;
                let place = self.heap.put_failure(failure);
                self.slots[base + slot as usize] = place;
                return Ok(());
            }
            self.leave();
        }
        self.meter.recover();
        Err(failure)
    }

    fn enter(&mut self, func: u32, to: u32) -> Result<(), Fault> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(Fault::StackOverflow);
        }
        let base = self.slots.len();
        let slots = self.code.funcs[func as usize].slots as usize;
        self.heap.grow(8 * slots + size_of::<Frame>())?;
        self.slots.resize(base + slots, 0);
        self.frames.push(Frame { func, step: 0, base, to });
        self.base = base;
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(frame) = self.frames.pop() {
            let bytes = 8 * (self.slots.len() - frame.base) + size_of::<Frame>();
            self.slots.truncate(frame.base);
            self.heap.give_back(bytes);
        }
        self.base = self.frames.last().map_or(0, |frame| frame.base);
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> u64 {
        self.slots[self.base + slot as usize]
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: u32, value: u64) {
        self.slots[self.base + slot as usize] = value;
    }

    fn go(&mut self, edge: &Edge) -> u32 {
        match &edge.moves[..] {
            [] => {}
            [(to, from)] => self.set(*to, self.get(*from)),
            moves => {
                // All are read before the first is written.
                let base = self.base;
                let start = self.slots.len();
                for (_, from) in moves {
                    let value = self.slots[base + *from as usize];
                    self.slots.push(value);
                }
                for (at, (to, _)) in moves.iter().enumerate() {
                    self.slots[base + *to as usize] = self.slots[start + at];
                }
                self.slots.truncate(start);
            }
        }
        edge.step
    }

    /// Executes steps until the first function returns, or an operation fails.
    fn steps(&mut self) -> Result<Message, Fault> {
        let code = self.code;
        let top = |this: &Self| {
            let frame = this.frames.last().expect("a function is being executed");
            (frame.func, frame.step)
        };
        let (mut func, mut step) = top(self);
        let mut steps = &code.funcs[func as usize].steps[..];
        loop {
            let now = &steps[step as usize];
            step += 1;
            match now {
                Step::Op(op) => match op.op {
                    Opcode::Budget_Decrement if op.args.is_empty() => self.meter.owe(op.imm),
                    Opcode::Budget_Decrement => self.meter.owe(self.get(op.a)),
                    Opcode::Budget_Round => {}
                    Opcode::Budget_Left => self.set(op.to, self.meter.left() as u64),
                    Opcode::Budget_Strip => {
                        let (first, end) = (self.get(op.a) as i64, self.get(op.b) as i64);
                        let end = self.meter.strip(first, end, op.imm as i64);
                        self.set(op.to, end as u64);
                    }
                    Opcode::Budget_Check => {
                        if self.meter.is_due() {
                            self.at(step);
                            self.meter.settle()?;
                        }
                    }
                    Opcode::Call | Opcode::Closure_Call => {
                        self.at(step);
                        self.call(op)?;
                        (func, step) = top(self);
                        steps = &code.funcs[func as usize].steps;
                    }
                    _ => {
                        if !self.arithmetic(op) {
                            self.at(step);
                            self.operation(op)?;
                        }
                    }
                },
                Step::Jump(edge) => step = self.go(edge),
                Step::Branch(cond, then, other) => {
                    step = if self.get(*cond) != 0 { self.go(then) } else { self.go(other) };
                }
                Step::Return(value) => {
                    let kind = code.funcs[func as usize].result;
                    let words = value.map_or((0, 0), |slot| {
                        let second = matches!(kind, Kind::Result(_)).then(|| self.get(slot + 1));
                        (self.get(slot), second.unwrap_or(0))
                    });
                    let to = self.frames.last().map_or(0, |frame| frame.to);
                    if self.frames.len() == 1 {
                        self.at(step);
                        self.meter.settle()?;
                        if let (Some(set), 1..) = (code.funcs[func as usize].fails, words.1) {
                            let variant = words.1 as u32 - 1;
                            let name = &code.errors[set as usize][variant as usize];
                            self.leave();
                            return Err(Fault::Error { set, variant, name: Arc::clone(name) });
                        }
                        let message = self.heap.pack(code, &[(words.0, kind.is_ref())]);
                        self.leave();
                        return Ok(message);
                    }
                    self.leave();
                    if kind != Kind::Void {
                        self.set(to, words.0);
                    }
                    if matches!(kind, Kind::Result(_)) {
                        self.set(to + 1, words.1);
                    }
                    (func, step) = top(self);
                    steps = &code.funcs[func as usize].steps;
                }
                Step::Resume(slot) => {
                    let Object::Failure(failure) = self.heap.get(self.get(*slot)) else {
                        unreachable!("verified")
                    };
                    let failure = (**failure).clone();
                    self.leave();
                    if self.frames.is_empty() {
                        return Err(Fault::resumed(failure));
                    }
                    self.unwind(failure).map_err(Fault::resumed)?;
                    (func, step) = top(self);
                    steps = &code.funcs[func as usize].steps;
                }
                Step::Unreachable => {
                    self.at(step);
                    return Err(panic("P005", "unreachable code was reached"));
                }
            }
        }
    }

    /// Notes the present step, for failures and calls.
    #[inline]
    fn at(&mut self, step: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.step = step;
        }
    }

    fn call(&mut self, op: &Op) -> Result<(), Fault> {
        let caller = self.base;
        let (func, captures, args) = if op.op == Opcode::Call {
            (op.imm as u32, None, &op.args[..])
        } else {
            let Object::Closure { func, captures } = self.heap.get(self.get(op.a)) else {
                unreachable!("verified")
            };
            (*func, Some(captures.clone()), &op.args[1..])
        };
        self.enter(func, op.to)?;
        let params = &self.code.funcs[func as usize].params;
        let captures = captures.as_deref().unwrap_or_default();
        for (param, (value, _)) in params.iter().zip(captures) {
            self.slots[self.base + *param as usize] = *value;
        }
        for (param, (arg, _)) in params[captures.len()..].iter().zip(args) {
            self.slots[self.base + *param as usize] = self.slots[caller + *arg as usize];
        }
        Ok(())
    }

    /// An operation that is no arithmetic. Everything is paid before it if others can observe it.
    pub(crate) fn operation(&mut self, op: &Op) -> Result<(), Fault> {
        match op.op.effect() {
            Effect::Observes | Effect::Channel => {
                self.meter.settle()?;
                let outcome = self.observed(op);
                self.meter.refresh();
                outcome
            }
            effect => {
                if effect == Effect::Allocates && self.heap.is_due() {
                    self.collect();
                }
                self.local(op)
            }
        }
    }

    pub(crate) fn collect(&mut self) {
        let code = self.code;
        let frames = self.frames.iter().flat_map(|frame| {
            let refs = &code.funcs[frame.func as usize].refs;
            refs.iter().map(move |slot| frame.base + *slot as usize)
        });
        let slots = &self.slots;
        let cases = self.cases.iter().flat_map(Case::references);
        #[cfg(feature = "engine")]
        let cases = cases.chain(self.lent.roots());
        let roots = frames.map(|at| slots[at]).chain(self.literals.iter().copied()).chain(cases);
        self.heap.collect(code, roots);
    }

    /// The text of a constant, which is put on the heap once.
    pub(crate) fn literal(&mut self, number: u64) -> Result<u64, Fault> {
        if self.literals[number as usize] == 0 {
            let text = Arc::clone(&self.code.texts[number as usize]);
            self.literals[number as usize] = self.heap.put(Object::Text(text))?;
        }
        Ok(self.literals[number as usize])
    }
}
