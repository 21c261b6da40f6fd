//! Operations that other tasks, the user or the runtime observe: nurseries, tasks, channels,
//! `select`, time, output.
//!
//! # Nurseries
//!
//! A nursery is opened by one operation and closed by another, so it is an [`OpenNursery`] of the
//! runtime. The verifier has proved that each is closed exactly once on every path, innermost
//! first, by the task that opened it. Handles of tasks are numbers into a list of the nursery; the
//! list is cleared before it is closed, so no handle outlives it.

use crate::code::{Kind, Op};
use crate::failure::{Failure, Fault, panic};
use crate::functions::HostValue;
use crate::heap::{Channel, Message, Object};
use crate::machine::Machine;
use parcae::foreign::OpenNursery;
use parcae::select::Select;
use parcae::{Budget, NurseryOpts, SpawnOpts, TaskHandle};
use parcae_ir::Opcode;
use std::sync::Arc;
use std::time::Duration;

/// An open nursery.
pub(crate) struct Scope {
    /// Before `nursery`: handles are dropped first.
    tasks: Vec<Child>,
    nursery: OpenNursery,
    number: u64,
    /// The program has cancelled it, so that the cancellation is no failure.
    cancelled: bool,
}

enum Child {
    Running(TaskHandle<'static, Message>),
    Joined(Result<Message, Box<Fault>>),
    /// For a moment, while it is joined.
    Joining,
}

/// A case of a `select`.
pub(crate) enum Case {
    Recv(u64),
    Send(u64, (u64, bool)),
    Timeout(i64),
    Default,
}

impl Case {
    /// The objects that it refers to.
    pub(crate) fn references(&self) -> Vec<u64> {
        match self {
            Case::Recv(channel) | Case::Send(channel, (_, false)) => vec![*channel],
            Case::Send(channel, (value, true)) => vec![*channel, *value],
            Case::Timeout(_) | Case::Default => Vec::new(),
        }
    }
}

/// A failure from an error of the runtime, which may carry one of this interpreter.
fn fault(error: parcae::Error) -> Fault {
    match error.downcast_ref::<Failure>() {
        Some(Failure { kind: Fault::Code(code), .. }) => Fault::Code(*code),
        Some(failure) => Fault::resumed(failure.clone()),
        None => Fault::Runtime(error),
    }
}

fn millis(time: u64) -> Duration {
    Duration::from_millis(u64::try_from(time as i64).unwrap_or(0))
}

impl Machine<'_> {
    pub(crate) fn observed(&mut self, op: &Op) -> Result<(), Fault> {
        let (a, b) = (self.get(op.a), self.get(op.b));
        let result = match op.op {
            Opcode::Print => {
                let mut line = self.heap.text(a).to_string();
                if op.imm == 1 {
                    line.push('\n');
                }
                self.meter.owe(line.len() as u64 / 64);
                if !self.meter.is_shielded() {
                    self.cx.charge(Budget::SYSCALL).map_err(Fault::Runtime)?;
                }
                (self.host.print)(&line);
                return Ok(());
            }
            Opcode::Host_Call => self.call_host(op)?,
            Opcode::Sleep => {
                self.cx.sleep(millis(a)).map_err(Fault::Runtime)?;
                return Ok(());
            }
            Opcode::Now => {
                let now = parcae::time::now();
                let start = self.run.start.get_or_init(|| now);
                let since = now.saturating_duration_since(*start);
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX >> 1)
            }
            Opcode::Yield => {
                self.cx.yield_now().map_err(Fault::Runtime)?;
                return Ok(());
            }
            Opcode::Cancel_Query => u64::from(self.cx.is_cancelled()),
            Opcode::Task_Cancel => {
                if let Ok(Child::Running(handle)) = self.child(a) {
                    handle.cancel();
                }
                return Ok(());
            }
            Opcode::Nursery_Begin => self.begin(op)?,
            Opcode::Nursery_Cancel => {
                let scope = self.scopes.iter_mut().find(|scope| scope.number == a);
                if let Some(scope) = scope {
                    scope.cancelled = true;
                    scope.nursery.cancel();
                }
                return Ok(());
            }
            Opcode::Nursery_End => self.end()? as u64,
            Opcode::Nursery_Abort => {
                let failure = self.abort(self.failure(b).clone());
                self.heap.put_failure(failure)
            }
            Opcode::Spawn | Opcode::Async_Call | Opcode::Task_Create => self.spawn(op)?,
            Opcode::Await | Opcode::Task_Join => {
                let message = self.join(a)?;
                self.heap.unpack(self.code, message)?[0]
            }
            Opcode::Channel_Send => {
                let channel = self.heap.channel(a);
                let message = self.heap.pack(self.code, &[(b, op.args[1].1.is_ref())]);
                return channel.sender.send(message).map_err(|error| Fault::Runtime(error.into()));
            }
            Opcode::Channel_TrySend => {
                let channel = self.heap.channel(a);
                let message = self.heap.pack(self.code, &[(b, op.args[1].1.is_ref())]);
                match channel.sender.try_send(message) {
                    Ok(()) => 1,
                    Err(error) if error.is_closed() || error.is_cancelled() => {
                        return Err(Fault::Runtime(error.into()));
                    }
                    Err(_) => 0,
                }
            }
            Opcode::Channel_Recv => {
                let channel = self.heap.channel(a);
                let message = channel.receiver.recv();
                let message = message.map_err(|error| Fault::Runtime(error.into()))?;
                self.heap.unpack(self.code, message)?[0]
            }
            Opcode::Channel_Close => {
                self.heap.channel(a).sender.close();
                return Ok(());
            }
            Opcode::Channel_IsClosed => u64::from(self.heap.channel(a).sender.is_closed()),
            Opcode::Select_Wait => self.select()?,
            other => unreachable!("verified: {other:?}"),
        };
        if op.gives != Kind::Void {
            self.set(op.to, result);
        }
        Ok(())
    }

    fn call_host(&mut self, op: &Op) -> Result<u64, Fault> {
        // The run has begun with all functions of the program.
        let name = &self.code.texts[op.imm as usize];
        let Some(function) = self.host.functions.get(name) else { unreachable!("checked") };
        if !self.meter.is_shielded() {
            self.cx.charge(function.cost).map_err(Fault::Runtime)?;
        }
        let value = |(slot, kind): &(u32, Kind)| {
            let word = self.get(*slot);
            match kind {
                Kind::Bool => HostValue::Bool(word != 0),
                Kind::F64 => HostValue::F64(f64::from_bits(word)),
                Kind::Text => HostValue::Str(Arc::clone(self.heap.text(word))),
                _ => HostValue::I64(word as i64),
            }
        };
        let args = op.args.iter().map(value).collect();
        Ok(match function.call(args)? {
            HostValue::Nothing => 0,
            HostValue::Bool(value) => value.into(),
            HostValue::I64(value) => value as u64,
            HostValue::F64(value) => value.to_bits(),
            HostValue::Str(text) => self.new_text(&text)?,
        })
    }

    fn begin(&mut self, op: &Op) -> Result<u64, Fault> {
        let mut opts = NurseryOpts::new();
        if !op.args.is_empty() {
            let part = |at: usize| match self.get(op.args[at].0) as i64 {
                -1 => Ok(u64::MAX),
                amount => u64::try_from(amount)
                    .map_err(|_| panic("P002", format!("a budget of {amount}"))),
            };
            opts = opts.budget(Budget {
                ops: part(0)?,
                memory: part(1)?,
                spawn_count: part(2)?,
                channel_ops: part(3)?,
                syscalls: part(4)?,
            });
        }
        // SAFETY: this machine runs on the task that opens the nursery, is the only one to use it,
        // and closes it innermost first, as verified; what is left is dropped with the machine, in
        // that order (`Drop`). The children run machines too: their stacks hold numbers, texts
        // behind `Arc`s and handles of the runtime, all of them `Send`, and use no thread-local
        // data. They own what they are given.
        let nursery = unsafe { OpenNursery::open(&self.run.handle, opts) }.map_err(fault)?;
        let number = self.next_scope;
        self.next_scope += 1;
        self.scopes.push(Scope { tasks: Vec::new(), nursery, number, cancelled: false });
        Ok(number)
    }

    /// Closes the innermost nursery: the first negative code, or 0.
    fn end(&mut self) -> Result<i64, Fault> {
        let Some(mut scope) = self.scopes.pop() else { unreachable!("verified") };
        scope.tasks.clear();
        match scope.nursery.close().map_err(fault) {
            Ok(()) => Ok(0),
            Err(Fault::Code(code)) => Ok(code),
            Err(Fault::Runtime(error)) if error.is_cancelled() && scope.cancelled => Ok(0),
            Err(other) => Err(other),
        }
    }

    /// Cancels and closes the innermost nursery because of a failure of its body: the cause.
    fn abort(&mut self, failure: Failure) -> Failure {
        let Some(mut scope) = self.scopes.pop() else { unreachable!("verified") };
        scope.tasks.clear();
        scope.nursery.cancel();
        // A body that was cancelled because a task failed reports the failure of the task.
        match scope.nursery.close() {
            Err(error) if failure.is_cancelled() && !error.is_cancelled() => {
                match error.downcast_ref::<Failure>() {
                    Some(cause) => cause.clone(),
                    None => Failure { kind: Fault::Runtime(error), ..failure },
                }
            }
            _ => failure,
        }
    }

    fn spawn(&mut self, op: &Op) -> Result<u64, Fault> {
        let func = op.imm as u32;
        let values: Vec<(u64, bool)> =
            op.args.iter().map(|(slot, kind)| (self.get(*slot), kind.is_ref())).collect();
        let args = self.heap.pack_all(self.code, &values);
        let run = Arc::clone(self.run);
        let code = &self.code.funcs[func as usize];
        let name = Arc::clone(&code.title);
        let is_code = matches!(code.result, Kind::I64 | Kind::I32);
        let Some(scope) = self.scopes.last_mut() else { unreachable!("verified") };
        let child = move |cx: &parcae::Cx| {
            let mut machine = Machine::new(&run, cx);
            let result = machine.execute(func, args);
            match result {
                Ok(Message::Word(word)) if is_code && (word as i64) < 0 => {
                    let func = Arc::clone(&run.code.funcs[func as usize].name);
                    let kind = Fault::Code(word as i64);
                    Err(Failure { kind, at: Default::default(), func }.into())
                }
                Ok(message) => Ok(message),
                Err(failure) => match failure.kind {
                    // The error keeps its kind, and the task that it is of.
                    Fault::Runtime(error) => Err(error.context(format!(
                        "{}:{}:{} in `{}`",
                        run.code.file, failure.at.line, failure.at.column, failure.func
                    ))),
                    _ => Err(failure.into()),
                },
            }
        };
        let opts = SpawnOpts::new().name(name);
        // SAFETY: the handle is in the list of the nursery, which is cleared before it is closed.
        let handle = unsafe { scope.nursery.spawn_with(None, opts, child) }.map_err(fault)?;
        scope.tasks.push(Child::Running(handle));
        let task = Object::Task { nursery: scope.number, number: scope.tasks.len() - 1 };
        self.heap.put(task)
    }

    fn child(&mut self, task: u64) -> Result<&mut Child, Fault> {
        let Object::Task { nursery, number } = *self.heap.get(task) else {
            unreachable!("verified")
        };
        let scope = self.scopes.iter_mut().find(|scope| scope.number == nursery);
        let scope = scope.ok_or_else(|| panic("P005", "the nursery of the task has ended"))?;
        Ok(&mut scope.tasks[number])
    }

    fn join(&mut self, task: u64) -> Result<Message, Fault> {
        let child = self.child(task)?;
        if let Child::Running(_) = child {
            let Child::Running(handle) = std::mem::replace(child, Child::Joining) else {
                unreachable!("just seen")
            };
            let outcome = handle.join().map_err(|error| Box::new(fault(error)));
            *self.child(task)? = Child::Joined(outcome);
        }
        match self.child(task)? {
            Child::Joined(Ok(message)) => Ok(message.clone()),
            Child::Joined(Err(fault)) => Err((**fault).clone()),
            Child::Running(_) | Child::Joining => unreachable!("joined above"),
        }
    }

    pub(crate) fn new_channel(&mut self, capacity: u64) -> Result<u64, Fault> {
        const MOST: usize = 1 << 20;
        let capacity = usize::try_from(capacity as i64).ok().filter(|capacity| *capacity <= MOST);
        let capacity = capacity
            .ok_or_else(|| panic("P002", format!("the capacity of a channel is 0 to {MOST}")))?;
        self.heap.grow(capacity * size_of::<Message>())?;
        let (sender, receiver) = parcae::channel::channel(capacity);
        self.heap.put(Object::Channel(Arc::new(Channel { sender, receiver })))
    }

    pub(crate) fn add_case(&mut self, op: &Op) -> Result<(), Fault> {
        let (a, b) = (self.get(op.a), self.get(op.b));
        match op.op {
            Opcode::Select_Begin => self.cases.clear(),
            Opcode::Select_Add_Recv => self.cases.push(Case::Recv(a)),
            Opcode::Select_Add_Send => {
                self.cases.push(Case::Send(a, (b, op.args[1].1.is_ref())));
            }
            Opcode::Select_Add_Timeout => self.cases.push(Case::Timeout(a as i64)),
            _ => self.cases.push(Case::Default),
        }
        Ok(())
    }

    fn select(&mut self) -> Result<u64, Fault> {
        let cases = std::mem::take(&mut self.cases);
        let channels: Vec<Option<Arc<Channel>>> = cases
            .iter()
            .map(|case| match case {
                Case::Recv(channel) | Case::Send(channel, _) => Some(self.heap.channel(*channel)),
                _ => None,
            })
            .collect();
        let mut select: Select<'_, (usize, Result<Message, Fault>)> = Select::new();
        for (at, case) in cases.iter().enumerate() {
            match (case, &channels[at]) {
                (Case::Recv(_), Some(channel)) => {
                    select.recv(&channel.receiver, move |received| {
                        (at, received.map_err(|error| Fault::Runtime(error.into())))
                    });
                }
                (Case::Send(_, value), Some(channel)) => {
                    let message = self.heap.pack(self.code, &[*value]);
                    select.send(&channel.sender, message, move |sent| {
                        let sent = sent.map_err(|error| Fault::Runtime(error.into()));
                        (at, sent.map(|()| Message::Word(0)))
                    });
                }
                (Case::Timeout(time), _) => {
                    select.timeout(millis(*time as u64), move |()| (at, Ok(Message::Word(0))));
                }
                _ => {
                    select.default(move |()| (at, Ok(Message::Word(0))));
                }
            }
        }
        let (at, outcome) = select.wait().map_err(Fault::Runtime)?;
        self.chosen = Some(outcome);
        Ok(at as u64)
    }

    pub(crate) fn chosen_value(&mut self, op: &Op) -> Result<(), Fault> {
        let message = self.chosen.take().unwrap_or(Ok(Message::Word(0)))?;
        if op.gives != Kind::Void {
            let value = self.heap.unpack(self.code, message)?[0];
            self.set(op.to, value);
        }
        Ok(())
    }
}

impl Drop for Machine<'_> {
    /// Nurseries that a panic of the interpreter itself leaves open are closed innermost first.
    fn drop(&mut self) {
        while let Some(mut scope) = self.scopes.pop() {
            scope.tasks.clear();
        }
    }
}
