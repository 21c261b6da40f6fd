//! The verifier: collects every violation of a module's rules.
//!
//! Checked are: numbers of values, blocks and functions; one definition per value, which dominates
//! its uses; types of operands, results, block arguments and returns; handlers of failures;
//! tenancy; and that each nursery that is begun is ended exactly once on every path, failures
//! included. Whether the code is metered is the question of [`meter`](crate::verify_metering).

use crate::graph::{Graph, find_cycle};
use crate::module::{Debt, Func, HostFunc, Imm, Inst, Module, Target, Tenancy, Term, Type, Value};
use crate::op::{Effect, Opcode};

/// A violated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The function.
    pub func: String,
    /// The block, if it is one's fault.
    pub block: Option<u32>,
    /// The rule, and how it is violated.
    pub message: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "@{}", self.func)?;
        if let Some(block) = self.block {
            write!(f, " b{block}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Verifies a module. The result is empty if all rules hold.
pub fn verify(module: &Module) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut add = |func: &str, message: String| {
        found.push(Violation { func: func.to_owned(), block: None, message });
    };
    match module.funcs.get(module.entry as usize) {
        None => add("?", "the entry is no function".into()),
        Some(entry) if !entry.params.is_empty() => {
            add(&entry.name, "the entry has parameters".into());
        }
        Some(_) => {}
    }
    if module.errors.is_empty() {
        add("?", "the error set of `String_Parse` is missing".into());
    }
    for (at, host) in module.hosts.iter().enumerate() {
        let result = host.result == Type::Void || HostFunc::allows(&host.result);
        if !result || !host.params.iter().all(HostFunc::allows) {
            add(&host.name, "a function of the host has a type that does not leave a task".into());
        }
        if module.hosts[..at].iter().any(|other| other.name == host.name) {
            add(&host.name, "two functions of the host have this name".into());
        }
    }
    for (at, func) in module.funcs.iter().enumerate() {
        if module.funcs[..at].iter().any(|other| other.name == func.name)
            && module.funcs.len() < 4096
        {
            add(&func.name, "two functions have this name".into());
        }
    }
    for func in &module.funcs {
        Verifier { module, func, block: None, found: &mut found }.run();
    }
    found
}

struct Verifier<'m, 'f> {
    module: &'m Module,
    func: &'m Func,
    block: Option<u32>,
    found: &'f mut Vec<Violation>,
}

/// More are not worth reading.
const MOST: usize = 200;

impl<'m> Verifier<'m, '_> {
    fn add(&mut self, message: impl Into<String>) {
        if self.found.len() < MOST {
            let func = self.func.name.clone();
            self.found.push(Violation { func, block: self.block, message: message.into() });
        }
    }

    fn run(&mut self) {
        let before = self.found.len();
        self.numbers();
        if self.found.len() > before {
            return; // the other rules would index out of range
        }
        let graph = Graph::new(self.func);
        self.definitions(&graph);
        self.loops(&graph);
        for (at, block) in self.func.blocks.iter().enumerate() {
            self.block = Some(at as u32);
            for inst in &block.insts {
                self.types(inst);
            }
            self.ending(&block.term);
            if let Some(unwind) = block.unwind {
                let params = &self.func.at(unwind).params;
                if params.len() != 1 || *self.func.ty(params[0]) != Type::Failure {
                    self.add("the handler of failures has not one parameter of type Failure");
                }
            }
        }
        self.block = None;
        self.nurseries();
    }

    /// Every number is in range.
    fn numbers(&mut self) {
        let (values, blocks) = (self.func.values.len() as u32, self.func.blocks.len() as u32);
        if blocks == 0 {
            return self.add("there is no block");
        }
        let bad = |value: &Value| value.0 >= values;
        if self.func.params.iter().any(bad) {
            self.add("a parameter is no value");
        }
        let types: Vec<&Type> = self.func.values.iter().chain([&self.func.result]).collect();
        if !types.into_iter().all(|ty| self.is_type(ty)) {
            self.add("a type names no struct or error set");
        }
        if !self.func.blocks[0].params.is_empty() {
            self.add("the first block has parameters");
        }
        for (at, block) in self.func.blocks.iter().enumerate() {
            self.block = Some(at as u32);
            let results = block.insts.iter().filter_map(|inst| inst.result);
            let args = block.insts.iter().flat_map(|inst| inst.args.iter().copied());
            let all = block.params.iter().copied().chain(results).chain(args);
            let debt = match block.owes {
                Debt::Steps(now, first) => vec![now, first],
                _ => Vec::new(),
            };
            if all.chain(block.term.uses()).chain(debt).any(|value| bad(&value)) {
                self.add("an operand is no value");
            }
            let targets = block.term.targets().into_iter().map(|target| target.block);
            if targets.chain(block.unwind).any(|target| target.0 >= blocks || target.0 == 0) {
                self.add("a target is no block, or the first one");
            }
            for inst in &block.insts {
                if let Imm::Func(id) = inst.imm
                    && id as usize >= self.module.funcs.len()
                {
                    self.add("there is no such function");
                }
            }
        }
        self.block = None;
    }

    fn is_type(&self, ty: &Type) -> bool {
        match ty {
            Type::Struct(id) => (*id as usize) < self.module.structs.len(),
            Type::Error(id) => (*id as usize) < self.module.errors.len(),
            Type::Result(of, id) => (*id as usize) < self.module.errors.len() && self.is_type(of),
            Type::Array(of) | Type::Channel(of) | Type::Task(of) | Type::Cell(of) => {
                self.is_type(of)
            }
            Type::Func(signature) => {
                signature.0.iter().all(|ty| self.is_type(ty)) && self.is_type(&signature.1)
            }
            _ => true,
        }
    }

    /// Each value has one definition, which comes before its uses on every path.
    fn definitions(&mut self, graph: &Graph) {
        // Node and index of each definition.
        let mut defined: Vec<Option<(usize, usize)>> = vec![None; self.func.values.len()];
        let mut define = |this: &mut Self, value: Value, node: usize, at: usize| {
            if defined[value.0 as usize].replace((node, at)).is_some() {
                this.add(format!("%{} is defined twice", value.0));
            }
        };
        for param in &self.func.params {
            define(self, *param, 0, 0);
        }
        for (number, block) in self.func.blocks.iter().enumerate() {
            self.block = Some(number as u32);
            for param in &block.params {
                define(self, *param, 2 * number, 0);
            }
            for (at, inst) in block.insts.iter().enumerate() {
                if let Some(result) = inst.result {
                    define(self, result, 2 * number + 1, at + 1);
                }
            }
        }
        for (number, block) in self.func.blocks.iter().enumerate() {
            self.block = Some(number as u32);
            if !graph.is_reachable(number) {
                continue;
            }
            let used = |this: &mut Self, value: Value, at: usize| {
                let available = defined[value.0 as usize].is_some_and(|(node, index)| {
                    if node == 2 * number + 1 {
                        index <= at
                    } else {
                        graph.dominates(node, 2 * number)
                    }
                });
                if !available {
                    this.add(format!("%{} is used where it is not defined", value.0));
                }
            };
            if let Debt::Steps(now, first) = block.owes {
                used(self, now, 0);
                used(self, first, 0);
                if [now, first].iter().any(|value| *self.func.ty(*value) != Type::I64) {
                    self.add("a debt is no difference of two i64");
                }
            }
            for (at, inst) in block.insts.iter().enumerate() {
                inst.args.iter().for_each(|arg| used(self, *arg, at));
            }
            for value in block.term.uses() {
                used(self, value, block.insts.len());
            }
        }
        self.block = None;
    }

    /// Loops have one entry: without the edges back to it there is no cycle.
    fn loops(&mut self, graph: &Graph) {
        let forward = |from: usize| match graph.is_reachable(from) {
            true => {
                let next = self.func.successors(from).into_iter();
                next.filter(|to| !graph.is_back_edge(from, *to)).collect()
            }
            false => Vec::new(),
        };
        if find_cycle(self.func.blocks.len(), forward).is_some() {
            self.add("a loop has several entries");
        }
    }

    fn ending(&mut self, term: &Term) {
        for Target { block, args } in term.targets() {
            let params = &self.func.at(*block).params;
            let fits = params.len() == args.len()
                && params.iter().zip(args).all(|(p, a)| self.func.ty(*p) == self.func.ty(*a));
            if !fits {
                self.add(format!("the arguments for b{} do not fit", block.0));
            }
        }
        match term {
            Term::Branch(value, ..) if *self.func.ty(*value) != Type::Bool => {
                self.add("a branch needs a bool");
            }
            Term::Return(value) => {
                let found = value.map_or(&Type::Void, |value| self.func.ty(value));
                if *found != self.func.result {
                    self.add("the type of the returned value is not that of the function");
                }
            }
            Term::Resume(value) if *self.func.ty(*value) != Type::Failure => {
                self.add("Resume needs a failure");
            }
            _ => {}
        }
    }

    /// Types of operands and results.
    fn types(&mut self, inst: &Inst) {
        let args: Vec<&Type> = inst.args.iter().map(|arg| self.func.ty(*arg)).collect();
        let result = inst.result.map_or(&Type::Void, |value| self.func.ty(value));
        if inst.result.is_some() && *result == Type::Void {
            self.add(format!("{}: a result of type void", inst.op.name()));
        }
        if let Err(rule) = self.rule(inst, &args, result) {
            let shown: Vec<String> =
                args.iter().map(|ty| self.module.show(ty).to_string()).collect();
            let name = inst.op.name();
            let found = format!("{} -> {}", shown.join(", "), self.module.show(result));
            self.add(format!("{name}: {rule}; found {found}"));
        }
    }

    fn rule(&self, inst: &Inst, args: &[&Type], result: &Type) -> Result<(), &'static str> {
        use Opcode as O;
        use Type as T;
        let ok = |holds: bool, rule: &'static str| if holds { Ok(()) } else { Err(rule) };
        let number = |ty: &Type| ty.is_integer() || *ty == T::F64;
        let signature = |id: u32| {
            let func = &self.module.funcs[id as usize];
            let params: Vec<&Type> = func.params.iter().map(|value| func.ty(*value)).collect();
            (params, &func.result, func.tenancy)
        };
        match inst.op {
            O::Constant => ok(
                args.is_empty()
                    && match (&inst.imm, result) {
                        (Imm::Int(_), T::I64) => true,
                        (Imm::Int(value), T::I32) => i32::try_from(*value).is_ok(),
                        (Imm::Int(value), T::U8) => u8::try_from(*value).is_ok(),
                        (Imm::Float(_), T::F64)
                        | (Imm::Bool(_), T::Bool)
                        | (Imm::Str(_), T::Str) => true,
                        _ => false,
                    },
                "the constant does not fit the type",
            ),
            O::Error_Value => ok(
                match (&inst.imm, result) {
                    (Imm::Int(at), T::Error(set)) => usize::try_from(*at)
                        .is_ok_and(|at| at < self.module.errors[*set as usize].variants.len()),
                    _ => false,
                },
                "needs the number of an error of its set",
            ),
            O::Fn_Ref | O::Closure_Create => {
                let Imm::Func(id) = inst.imm else { return Err("needs a function") };
                let (params, value, tenancy) = signature(id);
                let T::Func(wanted) = result else { return Err("the result is no function") };
                ok(tenancy == Tenancy::CPU_Serial, "tenancy: a task's root is entered by Spawn")?;
                ok(
                    params.len() == args.len() + wanted.0.len()
                        && params.iter().zip(args).all(|(p, a)| p == a)
                        && params[args.len()..].iter().zip(&wanted.0).all(|(p, w)| *p == w)
                        && *value == wanted.1,
                    "captures, parameters or result do not fit the function",
                )
            }
            O::Closure_Call => match args.split_first() {
                Some((T::Func(wanted), rest)) => ok(
                    rest.len() == wanted.0.len()
                        && rest.iter().zip(&wanted.0).all(|(a, p)| *a == p)
                        && *result == wanted.1,
                    "the arguments do not fit the function",
                ),
                _ => Err("needs a function value"),
            },
            O::Call | O::Spawn | O::Async_Call | O::Task_Create => {
                let Imm::Func(id) = inst.imm else { return Err("needs a function") };
                let (params, value, tenancy) = signature(id);
                ok(
                    params.len() == args.len() && params.iter().zip(args).all(|(p, a)| p == a),
                    "the arguments do not fit the function",
                )?;
                if inst.op == O::Call {
                    ok(
                        tenancy == Tenancy::CPU_Serial,
                        "tenancy: a task's root is entered by Spawn",
                    )?;
                    return ok(value == result, "the result does not fit the function");
                }
                ok(tenancy == Tenancy::CPU_Parallel, "tenancy: Spawn needs a task's root")?;
                ok(
                    matches!(result, T::Task(of) if **of == *value),
                    "the result is not the handle of the function's result",
                )
            }
            O::Host_Call => {
                let Imm::Str(name) = &inst.imm else { return Err("needs a name") };
                let host = self.module.hosts.iter().find(|host| host.name == *name);
                let host = host.ok_or("the host has no such function")?;
                ok(
                    host.params.iter().eq(args.iter().copied()) && host.result == *result,
                    "the arguments or the result do not fit the function",
                )
            }
            O::Add | O::Sub | O::Mul | O::Div | O::Min | O::Max => ok(
                args.len() == 2 && args[0] == args[1] && number(args[0]) && args[0] == result,
                "needs two numbers of the result's type",
            ),
            O::Rem | O::Pow | O::BitAnd | O::BitOr | O::Xor | O::Shl | O::Shr => ok(
                args.len() == 2 && args[0] == args[1] && args[0].is_integer() && args[0] == result,
                "needs two integers of the result's type",
            ),
            O::Wrap_Add | O::Wrap_Sub | O::Wrap_Mul => {
                ok(args == [&T::I64, &T::I64] && *result == T::I64, "needs two i64")
            }
            O::Neg | O::Abs => {
                ok(args.len() == 1 && number(args[0]) && args[0] == result, "needs a number")
            }
            O::Sqrt => ok(args == [&T::F64] && *result == T::F64, "needs an f64"),
            O::Convert => {
                ok(args.len() == 1 && number(args[0]) && number(result), "needs a number")
            }
            O::Equal | O::NotEqual => ok(
                args.len() == 2
                    && args[0] == args[1]
                    && (number(args[0]) || matches!(args[0], T::Bool | T::Str | T::Error(_)))
                    && *result == T::Bool,
                "needs two values of the same type",
            ),
            O::Less | O::LessEqual | O::Greater | O::GreaterEqual => ok(
                args.len() == 2
                    && args[0] == args[1]
                    && (number(args[0]) || *args[0] == T::Str)
                    && *result == T::Bool,
                "needs two values of the same type",
            ),
            O::Not => ok(args == [&T::Bool] && *result == T::Bool, "needs a bool"),
            O::To_String => ok(
                args.len() == 1
                    && (number(args[0])
                        || matches!(args[0], T::Bool | T::Str | T::Error(_) | T::Failure))
                    && *result == T::Str,
                "needs a printable value",
            ),
            O::String_Concat => {
                ok(args == [&T::Str, &T::Str] && *result == T::Str, "needs two texts")
            }
            O::String_Slice => ok(
                args == [&T::Str, &T::I64, &T::I64] && *result == T::Str,
                "needs a text and a range",
            ),
            O::String_Index => {
                ok(args == [&T::Str, &T::I64] && *result == T::U8, "needs a text and an index")
            }
            O::String_Len => ok(args == [&T::Str] && *result == T::I64, "needs a text"),
            O::String_Parse => ok(
                args == [&T::Str] && *result == T::Result(Box::new(T::I64), 0),
                "needs a text, and gives a result with the first error set",
            ),
            O::String_Split => ok(
                args == [&T::Str, &T::Str] && *result == T::Array(Box::new(T::Str)),
                "needs two texts",
            ),
            O::Chr => ok(args == [&T::I64] && *result == T::Str, "needs an i64"),
            O::Array_Construct => match result {
                T::Array(of) => {
                    ok(args.iter().all(|arg| **arg == **of), "needs elements of the array's type")
                }
                _ => Err("gives an array"),
            },
            O::Array_New => match (args, result) {
                ([T::I64, value], T::Array(of)) => {
                    ok(**value == **of, "needs a value of the array's type")
                }
                _ => Err("needs a count and a value"),
            },
            O::Array_Len => {
                ok(matches!(args, [T::Array(_)]) && *result == T::I64, "needs an array")
            }
            O::Index => match args {
                [T::Array(of), T::I64] => ok(**of == *result, "gives an element"),
                _ => Err("needs an array and an index"),
            },
            O::Index_Store => match args {
                [T::Array(of), T::I64, value] => {
                    ok(**of == **value && *result == T::Void, "needs an element")
                }
                _ => Err("needs an array, an index and a value"),
            },
            O::Array_Push => match args {
                [T::Array(of), value] => {
                    ok(**of == **value && *result == T::Void, "needs an element")
                }
                _ => Err("needs an array and a value"),
            },
            O::Array_Pop => match args {
                [T::Array(of)] => ok(**of == *result, "gives an element"),
                _ => Err("needs an array"),
            },
            O::Array_Slice => match args {
                [array @ T::Array(_), T::I64, T::I64] => ok(**array == *result, "gives an array"),
                _ => Err("needs an array and a range"),
            },
            O::Struct_Construct => match result {
                T::Struct(id) => {
                    let fields = &self.module.structs[*id as usize].fields;
                    ok(
                        fields.len() == args.len()
                            && fields.iter().zip(args).all(|((_, ty), arg)| ty == *arg),
                        "needs a value for each field",
                    )
                }
                _ => Err("gives a struct"),
            },
            O::Field_Access | O::Field_Store => {
                let (Some(T::Struct(id)), Imm::Int(field)) = (args.first(), &inst.imm) else {
                    return Err("needs a struct and a field");
                };
                let fields = &self.module.structs[*id as usize].fields;
                let Some((_, ty)) = usize::try_from(*field).ok().and_then(|at| fields.get(at))
                else {
                    return Err("there is no such field");
                };
                if inst.op == O::Field_Access {
                    ok(args.len() == 1 && ty == result, "gives the field")
                } else {
                    ok(
                        args.len() == 2 && ty == args[1] && args[0] == result,
                        "needs a value of the field",
                    )
                }
            }
            O::Cell_New => match (args, result) {
                ([value], T::Cell(of)) => ok(**value == **of, "gives a cell of the value"),
                _ => Err("needs a value"),
            },
            O::Cell_Load => match args {
                [T::Cell(of)] => ok(**of == *result, "gives the value of the cell"),
                _ => Err("needs a cell"),
            },
            O::Cell_Store => match args {
                [T::Cell(of), value] => {
                    ok(**of == **value && *result == T::Void, "needs a value of the cell")
                }
                _ => Err("needs a cell and a value"),
            },
            O::Error_Wrap => match (args, result) {
                ([], T::Result(of, _)) => ok(**of == T::Void, "needs a value"),
                ([value], T::Result(of, _)) => ok(**value == **of, "needs a value of the result"),
                _ => Err("gives a result"),
            },
            O::Error_Fail => match (args, result) {
                ([T::Error(set)], T::Result(_, wanted)) => {
                    ok(set == wanted, "needs an error of the set")
                }
                _ => Err("needs an error and gives a result"),
            },
            O::Error_Is => {
                ok(matches!(args, [T::Result(..)]) && *result == T::Bool, "needs a result")
            }
            O::Error_Unwrap => match args {
                [T::Result(of, _)] => ok(**of == *result, "gives the value"),
                _ => Err("needs a result"),
            },
            O::Error_Get => match (args, result) {
                ([T::Result(_, set)], T::Error(wanted)) => ok(set == wanted, "gives the error"),
                _ => Err("needs a result"),
            },
            O::Failure_Is => ok(
                matches!(args, [T::Failure, T::Error(_)]) && *result == T::Bool,
                "needs a failure and an error",
            ),
            O::Failure_Closed => ok(args == [&T::Failure] && *result == T::Bool, "needs a failure"),
            O::Failure_Code => ok(args == [&T::I64] && *result == T::Failure, "needs a code"),
            O::Print => ok(
                args == [&T::Str] && *result == T::Void && matches!(inst.imm, Imm::Int(0 | 1)),
                "needs a text, and 0 or 1 for the end of the line",
            ),
            O::Sleep => ok(args == [&T::I64] && *result == T::Void, "needs milliseconds"),
            O::Now => ok(args.is_empty() && *result == T::I64, "gives an i64"),
            O::Args => ok(args.is_empty() && *result == T::Array(Box::new(T::Str)), "gives texts"),
            O::Assert => ok(args == [&T::Bool] && *result == T::Void, "needs a bool"),
            O::Trap => ok(args == [&T::Str] && *result == T::Void, "needs a text"),
            O::Raise => ok(matches!(args, [T::Error(_)]) && *result == T::Void, "needs an error"),
            O::Budget_Decrement => ok(
                match inst.imm {
                    Imm::Int(1..=65_536) => args.is_empty(),
                    Imm::None => args == [&T::I64],
                    _ => false,
                } && *result == T::Void,
                "needs a number of ops from 1 to 65536, or a value",
            ),
            O::Budget_Left => ok(args.is_empty() && *result == T::I64, "gives an i64"),
            O::Budget_Strip => ok(
                args == [&T::I64, &T::I64]
                    && *result == T::I64
                    && matches!(inst.imm, Imm::Int(0 | 1)),
                "needs 0 or 1, and two i64",
            ),
            O::Budget_Check
            | O::Budget_Round
            | O::Yield
            | O::Shield_Begin
            | O::Shield_End
            | O::Select_Begin
            | O::Select_Add_Default => ok(args.is_empty() && *result == T::Void, "has no operands"),
            O::Cancel_Query => ok(args.is_empty() && *result == T::Bool, "gives a bool"),
            O::Task_Cancel => {
                ok(matches!(args, [T::Task(_)]) && *result == T::Void, "needs a task")
            }
            O::Nursery_Begin => ok(
                (args.is_empty() || args == [&T::I64; 5]) && *result == T::Nursery,
                "needs no operands, or the five components of a budget",
            ),
            O::Nursery_Cancel => ok(args == [&T::Nursery] && *result == T::Void, "needs a nursery"),
            O::Nursery_End => ok(args == [&T::Nursery] && *result == T::I64, "gives a code"),
            O::Nursery_Abort => ok(
                args == [&T::Nursery, &T::Failure] && *result == T::Failure,
                "needs a nursery and a failure, and gives one",
            ),
            O::Await | O::Task_Join => match args {
                [T::Task(of)] => ok(**of == *result, "gives the task's result"),
                _ => Err("needs a task"),
            },
            O::Channel_Create => {
                ok(args == [&T::I64] && matches!(result, T::Channel(_)), "needs a capacity")
            }
            O::Channel_Send | O::Select_Add_Send => match args {
                [T::Channel(of), value] => {
                    ok(**of == **value && *result == T::Void, "needs a message")
                }
                _ => Err("needs a channel and a message"),
            },
            O::Channel_TrySend => match args {
                [T::Channel(of), value] => {
                    ok(**of == **value && *result == T::Bool, "needs a message")
                }
                _ => Err("needs a channel and a message"),
            },
            O::Channel_Recv => match args {
                [T::Channel(of)] => ok(**of == *result, "gives a message"),
                _ => Err("needs a channel"),
            },
            O::Channel_Close | O::Select_Add_Recv => {
                ok(matches!(args, [T::Channel(_)]) && *result == T::Void, "needs a channel")
            }
            O::Channel_IsClosed => {
                ok(matches!(args, [T::Channel(_)]) && *result == T::Bool, "needs a channel")
            }
            O::Select_Add_Timeout => {
                ok(args == [&T::I64] && *result == T::Void, "needs milliseconds")
            }
            O::Select_Wait => {
                ok(args.is_empty() && *result == T::I64, "gives the number of the case")
            }
            O::Select_Get_Value => match args {
                [T::Channel(of)] => {
                    ok(inst.result.is_none() || **of == *result, "gives the message of the channel")
                }
                _ => Err("needs the channel of the case"),
            },
        }
    }

    fn may_fail(&self, inst: &Inst) -> bool {
        let counts =
            matches!(inst.op, Opcode::Budget_Left | Opcode::Budget_Strip | Opcode::Budget_Round);
        inst.effect(self.func) != Effect::Pure && !counts
    }

    /// Each nursery is ended once on every path, failures included, and a task is started only in
    /// an open one. The state of a block is the list of open nurseries at its start.
    fn nurseries(&mut self) {
        let count = self.func.blocks.len();
        let mut known: Vec<Option<Vec<Value>>> = vec![None; count];
        known[0] = Some(Vec::new());
        let mut open = vec![0];
        while let Some(number) = open.pop() {
            self.block = Some(number as u32);
            let block = &self.func.blocks[number];
            let mut state = known[number].clone().unwrap_or_default();
            let mut failing: Option<Vec<Value>> = None;
            for inst in &block.insts {
                match inst.op {
                    Opcode::Nursery_End | Opcode::Nursery_Abort => {
                        let innermost = state.pop();
                        if innermost != inst.args.first().copied() {
                            self.add("a nursery is ended that is not the innermost open one");
                        }
                    }
                    Opcode::Spawn | Opcode::Async_Call | Opcode::Task_Create
                        if state.is_empty() =>
                    {
                        self.add("a task is started outside of a nursery");
                    }
                    _ => {}
                }
                if self.may_fail(inst) && inst.op != Opcode::Nursery_Abort {
                    match &failing {
                        Some(other) if *other != state => {
                            self.add("operations that can fail have different open nurseries");
                        }
                        _ => failing = Some(state.clone()),
                    }
                }
                if inst.op == Opcode::Nursery_Begin {
                    state.extend(inst.result);
                    if state.len() > 64 {
                        self.add("nurseries are nested deeper than 64");
                        return;
                    }
                }
            }
            if let Some(failing) = failing.filter(|failing| !failing.is_empty())
                && block.unwind.is_none()
            {
                self.add(format!("a failure would leave {} nurseries open", failing.len()));
            }
            let closes = matches!(block.term, Term::Return(_) | Term::Resume(_));
            if closes && !state.is_empty() {
                self.add("the function ends with an open nursery");
            }
            let targets =
                block.term.targets().into_iter().map(|target| (target.block, state.clone()));
            let start = known[number].clone().unwrap_or_default();
            let mut insts = block.insts.iter();
            let has_failing =
                insts.find(|inst| self.may_fail(inst) && inst.op != Opcode::Nursery_Abort);
            // The state of the handler is that of the operations that can fail.
            let at_failure = match has_failing.map(|inst| inst.op) {
                Some(Opcode::Nursery_End) => {
                    start.split_last().map_or(Vec::new(), |(_, rest)| rest.to_vec())
                }
                _ => {
                    let aborts = block.insts.iter().filter(|inst| inst.op == Opcode::Nursery_Abort);
                    start[..start.len().saturating_sub(aborts.count())].to_vec()
                }
            };
            let unwind = block.unwind.filter(|_| has_failing.is_some()).map(|to| (to, at_failure));
            let next: Vec<_> = targets.chain(unwind).collect();
            for (to, state) in next {
                match &known[to.0 as usize] {
                    Some(other) if *other != state => {
                        self.add(format!("b{} is entered with different open nurseries", to.0));
                        return;
                    }
                    Some(_) => {}
                    None => {
                        known[to.0 as usize] = Some(state);
                        open.push(to.0 as usize);
                    }
                }
            }
        }
        self.block = None;
    }
}
