//! A function: blocks, parameters of blocks as `phi`, failures.

use super::{LlvmError, Texts, calls, machine, name};
use crate::module::{Func, Imm, Inst, Module, Target, Term, Type, Value};
use crate::op::Opcode;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A part of a text that is printed.
#[derive(Clone)]
pub(super) enum Part {
    Text(String),
    /// A conversion of `printf`, and its argument with its type.
    Value(&'static str, String),
}

pub(super) struct Emitter<'m, 't> {
    pub(super) module: &'m Module,
    pub(super) func: &'m Func,
    pub(super) texts: &'t mut Texts,
    pub(super) out: String,
    /// Texts, which exist as their parts.
    pub(super) parts: BTreeMap<Value, Vec<Part>>,
    /// How often each value is used.
    pub(super) uses: Vec<usize>,
    /// The block, and the label that code is added to.
    pub(super) block: usize,
    pub(super) label: String,
    next: usize,
    /// For each block, the edges to it: label, arguments.
    edges: Vec<Vec<(String, Vec<Value>)>>,
    /// For each handler, the edges of failures to it: label, failure.
    failures: BTreeMap<usize, Vec<(String, String)>>,
    slots: String,
}

/// Prints a function.
pub(super) fn emit(module: &Module, func: &Func, texts: &mut Texts) -> Result<String, LlvmError> {
    let mut uses = vec![0; func.values.len()];
    for block in &func.blocks {
        let args = block.insts.iter().flat_map(|inst| inst.args.iter().copied());
        args.chain(block.term.uses()).for_each(|value| uses[value.0 as usize] += 1);
    }
    let mut emitter = Emitter {
        module,
        func,
        texts,
        out: String::new(),
        parts: BTreeMap::new(),
        uses,
        block: 0,
        label: String::new(),
        next: 0,
        edges: vec![Vec::new(); func.blocks.len()],
        failures: BTreeMap::new(),
        slots: String::new(),
    };
    let order = crate::graph::Graph::new(func).order_of_blocks(func.blocks.len());
    let mut bodies = Vec::new();
    for block in order {
        bodies.push((block, emitter.block(block)?));
    }
    let result = emitter.ty(&func.result)?;
    let params: Result<Vec<String>, LlvmError> = func
        .params
        .iter()
        .map(|param| Ok(format!("{} %v{}", emitter.plain(*param)?, param.0)))
        .collect();
    let mut out = format!(
        "\ndefine internal {{ {result}, i64 }} {}({}) {{\nentry:\n{}",
        name(&func.name),
        params?.join(", "),
        emitter.slots
    );
    if calls(func) {
        // Room for the functions of the library, which run on the same stack.
        let full = emitter.texts.address("StackOverflow");
        let _ = write!(
            out,
            "  %stack = call i64 @parcae_stack_left()\n  %full = icmp ult i64 %stack, 32768\n  \
             br i1 %full, label %overflow, label %b0\noverflow:\n  \
             %word = ptrtoint ptr {full} to i64\n  %status = sub i64 0, %word\n  \
             %both = insertvalue {{ {result}, i64 }} {{ {result} {}, i64 0 }}, i64 %status, 1\n  \
             ret {{ {result}, i64 }} %both\n",
            zero(result)
        );
    } else {
        out.push_str("  br label %b0\n");
    }
    for (number, body) in bodies {
        let _ = writeln!(out, "b{number}:");
        emitter.phis(&mut out, number)?;
        out.push_str(&body);
    }
    out.push_str("}\n");
    Ok(out)
}

/// The entry of a task: the arguments are in a record, which it frees.
pub(super) fn task(func: &Func) -> Result<String, LlvmError> {
    let mut body = String::new();
    let mut args = Vec::new();
    for (at, param) in func.params.iter().enumerate() {
        let ty = type_of(func, func.ty(*param))?;
        let _ = write!(
            body,
            "  %p{at} = getelementptr i64, ptr %record, i64 {at}\n  %a{at} = load {ty}, ptr %p{at}\n"
        );
        args.push(format!("{ty} %a{at}"));
    }
    body.push_str("  call void @free(ptr %record)\n");
    let end = "  call void @parcae_task_panic(ptr %text)\n  unreachable\n";
    let word = if type_of(func, &func.result)? == "double" {
        "  %word = bitcast double %value to i64\n  ret i64 %word\n"
    } else {
        "  ret i64 %value\n"
    };
    let name = format!("@\"task.{}\"", super::escape(&func.name));
    finish(func, &name, (&body, &args), (end, word))
}

/// The entry of the program.
pub(super) fn root(module: &Module) -> Result<String, LlvmError> {
    let func = &module.funcs[module.entry as usize];
    let end = "  call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @error, ptr %text)\n  \
               store i64 1, ptr @code\n  ret i64 0\n";
    let word = match type_of(func, &func.result)? {
        "i64" => "  store i64 %value, ptr @code\n  ret i64 0\n",
        _ => "  ret i64 0\n",
    };
    finish(func, "@root", ("", &[]), (end, word))
}

/// Calls a function: goes on with its value, or with the text of its failure or error.
fn finish(
    func: &Func,
    name: &str,
    (before, args): (&str, &[String]),
    (failed, done): (&str, &str),
) -> Result<String, LlvmError> {
    let ty = type_of(func, &func.result)?;
    let errors = match &func.result {
        Type::Result(_, set) => format!("@errors.{set}"),
        _ => "null".into(),
    };
    Ok(format!(
        "\ndefine internal i64 {name}(ptr %record) {{\n{before}  \
         %both = call {{ {ty}, i64 }} {}({})\n  \
         %value = extractvalue {{ {ty}, i64 }} %both, 0\n  \
         %status = extractvalue {{ {ty}, i64 }} %both, 1\n  \
         %ok = icmp eq i64 %status, 0\n  br i1 %ok, label %done, label %bad\n\
         bad:\n  %is = icmp slt i64 %status, 0\n  br i1 %is, label %failed, label %erred\n\
         failed:\n  %word = sub i64 0, %status\n  %message = inttoptr i64 %word to ptr\n  br label %end\n\
         erred:\n  %at = sub i64 %status, 1\n  %place = getelementptr ptr, ptr {errors}, i64 %at\n  \
         %named = load ptr, ptr %place\n  br label %end\n\
         end:\n  %text = phi ptr [ %message, %failed ], [ %named, %erred ]\n{failed}done:\n{}}}\n",
        super::name(&func.name),
        args.join(", "),
        done.replace("%word", "%bits")
    ))
}

fn type_of(func: &Func, ty: &Type) -> Result<&'static str, LlvmError> {
    machine(ty).ok_or_else(|| LlvmError {
        construct: match ty {
            Type::Str => "a text that is kept",
            Type::Array(_) => "an array",
            Type::Struct(_) => "a struct",
            Type::Func(_) => "a function value",
            Type::Channel(_) => "a channel of other values than integers",
            _ => "a value",
        }
        .into(),
        func: func.name.clone(),
    })
}

fn zero(ty: &str) -> &'static str {
    match ty {
        "double" => "0.0",
        "ptr" => "null",
        _ => "0",
    }
}

impl Emitter<'_, '_> {
    pub(super) fn refuse<T>(&self, construct: impl Into<String>) -> Result<T, LlvmError> {
        Err(LlvmError { construct: construct.into(), func: self.func.name.clone() })
    }

    pub(super) fn ty(&self, ty: &Type) -> Result<&'static str, LlvmError> {
        type_of(self.func, ty)
    }

    /// The type of a value that is one word.
    pub(super) fn plain(&self, value: Value) -> Result<&'static str, LlvmError> {
        match self.func.ty(value) {
            Type::Result(..) => self.refuse("a result that is passed on"),
            ty => self.ty(ty),
        }
    }

    /// A new name.
    pub(super) fn fresh(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str("  ");
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// An operation with a new name, which is returned.
    pub(super) fn compute(&mut self, text: impl AsRef<str>) -> String {
        let name = format!("%t{}", self.fresh());
        self.line(format!("{name} = {}", text.as_ref()));
        name
    }

    /// Room on the stack, made once per call.
    pub(super) fn slot(&mut self, ty: &str) -> String {
        let name = format!("%s{}", self.fresh());
        let _ = writeln!(self.slots, "  {name} = alloca {ty}");
        name
    }

    pub(super) fn begin(&mut self, label: &str) {
        let _ = writeln!(self.out, "{label}:");
        self.label = label.to_owned();
    }

    /// If the condition, an `i1`, holds: fails with this message.
    pub(super) fn fail_if(&mut self, condition: &str, message: &str) {
        let text = self.texts.address(message);
        let failure = format!("ptrtoint (ptr {text} to i64)");
        self.branch_to_failure(condition, |_| failure);
    }

    /// If the condition holds: fails with the last error of the library.
    pub(super) fn fail_by_library(&mut self, condition: &str) {
        self.branch_to_failure(condition, |this| this.compute("call i64 @failure()"));
    }

    pub(super) fn branch_to_failure(
        &mut self,
        condition: &str,
        failure: impl FnOnce(&mut Self) -> String,
    ) {
        let number = self.fresh();
        let (bad, good) = (format!("f{number}"), format!("g{number}"));
        self.line(format!("br i1 {condition}, label %{bad}, label %{good}"));
        self.begin(&bad);
        let failure = failure(self);
        self.fail(&failure);
        self.begin(&good);
    }

    /// Goes to the handler of the block with a failure, or returns it.
    pub(super) fn fail(&mut self, failure: &str) {
        if let Some(handler) = self.func.blocks[self.block].unwind {
            let handler = handler.0 as usize;
            let label = self.label.clone();
            self.failures.entry(handler).or_default().push((label, failure.to_owned()));
            self.line(format!("br label %b{handler}"));
        } else {
            let status = self.compute(format!("sub i64 0, {failure}"));
            self.give_up(&status);
        }
    }

    pub(super) fn give_up(&mut self, status: &str) {
        let ty = machine(&self.func.result).unwrap_or("i64");
        let none = zero(ty);
        let both = self.compute(format!(
            "insertvalue {{ {ty}, i64 }} {{ {ty} {none}, i64 0 }}, i64 {status}, 1"
        ));
        self.line(format!("ret {{ {ty}, i64 }} {both}"));
    }

    fn block(&mut self, number: usize) -> Result<String, LlvmError> {
        let block = &self.func.blocks[number];
        (self.block, self.label) = (number, format!("b{number}"));
        self.out.clear();
        for inst in &block.insts {
            self.operation(inst)?;
        }
        match &block.term {
            Term::Jump(to) => {
                self.edge(to);
                self.line(format!("br label %b{}", to.block.0));
            }
            Term::Branch(cond, then, other) => {
                if then.block == other.block && then.args != other.args {
                    return self.refuse("a branch to one block with two values");
                }
                self.edge(then);
                self.edge(other);
                let is = self.compute(format!("icmp ne i64 %v{}, 0", cond.0));
                let (then, other) = (then.block.0, other.block.0);
                self.line(format!("br i1 {is}, label %b{then}, label %b{other}"));
            }
            Term::Return(value) => self.ret(*value)?,
            Term::Resume(value) => self.fail_out(&format!("%v{}", value.0)),
            Term::Unreachable => self.line("unreachable"),
        }
        Ok(self.out.clone())
    }

    /// Leaves the function with a failure, past its own handler.
    fn fail_out(&mut self, failure: &str) {
        let status = self.compute(format!("sub i64 0, {failure}"));
        self.give_up(&status);
    }

    fn edge(&mut self, to: &Target) {
        let label = self.label.clone();
        self.edges[to.block.0 as usize].push((label, to.args.clone()));
    }

    fn ret(&mut self, value: Option<Value>) -> Result<(), LlvmError> {
        let ty = self.ty(&self.func.result)?;
        let Some(value) = value else {
            self.line("ret { i64, i64 } zeroinitializer");
            return Ok(());
        };
        let of = format!("{{ {ty}, i64 }}");
        let both = self.compute(format!("insertvalue {of} zeroinitializer, {ty} %v{}, 0", value.0));
        let both = match self.func.result {
            Type::Result(..) => {
                self.compute(format!("insertvalue {of} {both}, i64 %v{}.e, 1", value.0))
            }
            _ => both,
        };
        self.line(format!("ret {of} {both}"));
        Ok(())
    }

    /// The parameters of a block.
    fn phis(&self, out: &mut String, number: usize) -> Result<(), LlvmError> {
        let params = &self.func.blocks[number].params;
        if let Some(failures) = self.failures.get(&number) {
            let failed = failures.iter().map(|(label, value)| format!("[ {value}, %{label} ]"));
            let passed = self.edges[number].iter();
            let passed = passed.map(|(label, args)| format!("[ %v{}, %{label} ]", args[0].0));
            let from: Vec<String> = failed.chain(passed).collect();
            let _ = writeln!(out, "  %v{} = phi i64 {}", params[0].0, from.join(", "));
            return Ok(());
        }
        for (at, param) in params.iter().enumerate() {
            let is_result = matches!(self.func.ty(*param), Type::Result(..));
            let ty = self.ty(self.func.ty(*param))?;
            for (ty, suffix) in
                [(ty, ""), ("i64", ".e")].into_iter().take(1 + usize::from(is_result))
            {
                let from: Vec<String> = self.edges[number]
                    .iter()
                    .map(|(label, args)| format!("[ %v{}{suffix}, %{label} ]", args[at].0))
                    .collect();
                let _ = writeln!(out, "  %v{}{suffix} = phi {ty} {}", param.0, from.join(", "));
            }
        }
        Ok(())
    }

    /// Calls a function of the program.
    pub(super) fn call(&mut self, inst: &Inst) -> Result<(), LlvmError> {
        let Imm::Func(id) = inst.imm else { return self.refuse("a call of nothing") };
        let callee = &self.module.funcs[id as usize];
        let ty = self.ty(&callee.result)?;
        let args = self.args(&inst.args)?;
        let both = self.compute(format!("call {{ {ty}, i64 }} {}({args})", name(&callee.name)));
        let status = self.compute(format!("extractvalue {{ {ty}, i64 }} {both}, 1"));
        let failed = self.compute(format!("icmp slt i64 {status}, 0"));
        self.branch_to_failure(&failed, |this| this.compute(format!("sub i64 0, {status}")));
        if let Some(result) = inst.result {
            self.line(format!("%v{} = extractvalue {{ {ty}, i64 }} {both}, 0", result.0));
            if matches!(self.func.ty(result), Type::Result(..)) {
                self.line(format!("%v{}.e = extractvalue {{ {ty}, i64 }} {both}, 1", result.0));
            }
        }
        Ok(())
    }

    fn args(&self, args: &[Value]) -> Result<String, LlvmError> {
        let args: Result<Vec<String>, LlvmError> =
            args.iter().map(|arg| Ok(format!("{} %v{}", self.plain(*arg)?, arg.0))).collect();
        Ok(args?.join(", "))
    }

    /// Starts a task: its arguments are in a record of its own.
    pub(super) fn spawn(&mut self, inst: &Inst) -> Result<(), LlvmError> {
        let Imm::Func(id) = inst.imm else { return self.refuse("a task of nothing") };
        let bytes = 8 * inst.args.len().max(1);
        let record = self.compute(format!("call ptr @malloc(i64 {bytes})"));
        let none = self.compute(format!("icmp eq ptr {record}, null"));
        self.fail_if(&none, "P006 out of memory");
        for (at, arg) in inst.args.iter().enumerate() {
            let ty = self.plain(*arg)?;
            let place = self.compute(format!("getelementptr i64, ptr {record}, i64 {at}"));
            self.line(format!("store {ty} %v{}, ptr {place}", arg.0));
        }
        let entry = format!("@\"task.{}\"", super::escape(&self.module.funcs[id as usize].name));
        let failed = match inst.result.filter(|value| self.uses[value.0 as usize] > 0) {
            Some(handle) => {
                let handle = format!("%v{}", handle.0);
                self.line(format!(
                    "{handle} = call ptr @parcae_spawn(ptr null, ptr {entry}, ptr {record}, ptr null)"
                ));
                self.compute(format!("icmp eq ptr {handle}, null"))
            }
            None => {
                let status = self
                    .compute(format!("call i32 @janus_nursery_spawn(ptr {entry}, ptr {record})"));
                self.compute(format!("icmp ne i32 {status}, 0"))
            }
        };
        self.branch_to_failure(&failed, |this| {
            this.line(format!("call void @free(ptr {record})"));
            this.compute("call i64 @failure()")
        });
        Ok(())
    }

    pub(super) fn effectless(&self, op: Opcode) -> Result<(), LlvmError> {
        let construct = match op.name() {
            name if name.starts_with("Select") => "`select`".to_owned(),
            name if name.starts_with("Shield") => "`defer`".to_owned(),
            name if name.starts_with("Array") || name.starts_with("Index") => "an array".to_owned(),
            name if name.starts_with("Closure") || name == "Fn_Ref" => {
                "a function value".to_owned()
            }
            name if name.starts_with("Budget") => "a loop that is metered in strips".to_owned(),
            name => format!("the operation {name}"),
        };
        self.refuse(construct)
    }
}
