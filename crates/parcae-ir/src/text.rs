//! The text form: `print` and `parse` are inverse to each other.
//!
//! ```text
//! file "main.jan"
//! entry @main
//! struct Point { x: i64, y: i64 }
//! error Shop { Closed, SoldOut }
//! host @price(String) -> i64
//! func @main() -> void tenancy(CPU_Serial) ; 1:1
//! b0:
//!   %0: i64 = Constant 42 ; 2:11
//!   %1: String = To_String %0 ; 2:5
//!   Print 1, %1 ; 2:5
//!   Return
//! b1(%2: Failure) unwind b3:
//!   Resume %2
//! end
//! ```

use crate::module::{
    Block, BlockId, Debt, ErrorSet, Func, HostFunc, Imm, Inst, Module, Pos, StructDef, Target,
    Tenancy, Term, Type, Value,
};
use crate::op::Opcode;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Prints a module.
pub fn print(module: &Module) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "file {}", quote(&module.file));
    let entry = module.funcs.get(module.entry as usize).map_or("?", |func| &func.name);
    let _ = writeln!(out, "entry @{entry}");
    for def in &module.structs {
        let fields: Vec<String> =
            def.fields.iter().map(|(name, ty)| format!("{name}: {}", module.show(ty))).collect();
        let _ = writeln!(out, "struct {} {{ {} }}", def.name, fields.join(", "));
    }
    for set in &module.errors {
        let _ = writeln!(out, "error {} {{ {} }}", set.name, set.variants.join(", "));
    }
    for host in &module.hosts {
        let params: Vec<String> =
            host.params.iter().map(|ty| module.show(ty).to_string()).collect();
        let result = module.show(&host.result);
        let _ = writeln!(out, "host @{}({}) -> {result}", host.name, params.join(", "));
    }
    for func in &module.funcs {
        print_func(&mut out, module, func);
    }
    out
}

fn print_func(out: &mut String, module: &Module, func: &Func) {
    let typed = |value: &Value| format!("%{}: {}", value.0, module.show(func.ty(*value)));
    let list = |values: &[Value]| values.iter().map(typed).collect::<Vec<_>>().join(", ");
    let place = |at: Pos| match at {
        Pos { line: 0, .. } => String::new(),
        Pos { line, column } => format!(" ; {line}:{column}"),
    };
    let target = |target: &Target| {
        let args: Vec<String> = target.args.iter().map(|arg| format!("%{}", arg.0)).collect();
        match args.is_empty() {
            true => format!("b{}", target.block.0),
            false => format!("b{}({})", target.block.0, args.join(", ")),
        }
    };
    let _ = writeln!(
        out,
        "func @{}({}) -> {} tenancy({}){}",
        func.name,
        list(&func.params),
        module.show(&func.result),
        func.tenancy.name(),
        place(func.at)
    );
    for (number, block) in func.blocks.iter().enumerate() {
        let _ = write!(out, "b{number}");
        if !block.params.is_empty() {
            let _ = write!(out, "({})", list(&block.params));
        }
        if let Some(unwind) = block.unwind {
            let _ = write!(out, " unwind b{}", unwind.0);
        }
        let _ = match block.owes {
            Debt::None => Ok(()),
            Debt::Ops(ops) => write!(out, " owes {ops}"),
            Debt::Steps(now, first) => write!(out, " owes %{} - %{}", now.0, first.0),
        };
        out.push_str(":\n");
        for inst in &block.insts {
            out.push_str("  ");
            if let Some(result) = inst.result {
                let _ = write!(out, "{} = ", typed(&result));
            }
            out.push_str(inst.op.name());
            let mut parts: Vec<String> = Vec::new();
            match &inst.imm {
                Imm::None => {}
                Imm::Int(value) => parts.push(value.to_string()),
                Imm::Float(value) => parts.push(format!("0f{:016x}", value.to_bits())),
                Imm::Bool(value) => parts.push(value.to_string()),
                Imm::Str(text) => parts.push(quote(text)),
                Imm::Func(id) => {
                    let name = module.funcs.get(*id as usize).map_or("?", |func| &func.name);
                    parts.push(format!("@{name}"));
                }
            }
            parts.extend(inst.args.iter().map(|arg| format!("%{}", arg.0)));
            if !parts.is_empty() {
                let _ = write!(out, " {}", parts.join(", "));
            }
            let _ = writeln!(out, "{}", place(inst.at));
        }
        let _ = match &block.term {
            Term::Jump(to) => writeln!(out, "  Jump {}", target(to)),
            Term::Branch(value, then, other) => {
                writeln!(out, "  Branch %{}, {}, {}", value.0, target(then), target(other))
            }
            Term::Return(None) => writeln!(out, "  Return"),
            Term::Return(Some(value)) => writeln!(out, "  Return %{}", value.0),
            Term::Resume(value) => writeln!(out, "  Resume %{}", value.0),
            Term::Unreachable => writeln!(out, "  Unreachable"),
        };
    }
    out.push_str("end\n");
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\{:x};", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A fault of a text: its line, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Counted from 1.
    pub line: u32,
    /// The fault.
    pub message: String,
}

/// Parses a module. The result is well-formed text, but not verified.
///
/// # Errors
///
/// The first fault.
pub fn parse(text: &str) -> Result<Module, TextError> {
    // Names of functions, structs and error sets may be used before they are defined.
    let mut names = Names::default();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let name = |rest: &str| {
            rest.trim_start_matches('@').split([' ', '(', '{']).next().unwrap_or("").to_owned()
        };
        let table = match word {
            "func" => &mut names.funcs,
            "struct" => &mut names.structs,
            "error" => &mut names.errors,
            _ => continue,
        };
        let number = table.len() as u32;
        table.entry(name(rest)).or_insert(number);
    }
    let mut parser = Parser { names, line: 0, rest: "", nesting: 0 };
    let mut module = Module {
        file: String::new(),
        structs: Vec::new(),
        errors: Vec::new(),
        hosts: Vec::new(),
        funcs: Vec::new(),
        entry: 0,
    };
    let mut open: Option<Func> = None;
    for (number, line) in text.lines().enumerate() {
        parser.line = number as u32 + 1;
        parser.rest = line.trim();
        parser.line_of(&mut module, &mut open)?;
    }
    match open {
        Some(func) => Err(parser.fault(format!("the function @{} has no end", func.name))),
        None => Ok(module),
    }
}

#[derive(Default)]
struct Names {
    funcs: BTreeMap<String, u32>,
    structs: BTreeMap<String, u32>,
    errors: BTreeMap<String, u32>,
}

struct Parser<'t> {
    names: Names,
    line: u32,
    rest: &'t str,
    nesting: u32,
}

/// Most values and blocks of one function: numbers in a hostile text must not allocate gigabytes.
const MOST: u32 = 1 << 20;

impl<'t> Parser<'t> {
    fn fault(&self, message: impl Into<String>) -> TextError {
        TextError { line: self.line, message: message.into() }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), TextError> {
        if self.eat(token) { Ok(()) } else { Err(self.fault(format!("expected `{token}`"))) }
    }

    fn word(&mut self) -> &'t str {
        self.rest = self.rest.trim_start();
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-')))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn number(&mut self) -> Result<u32, TextError> {
        let word = self.word();
        let number = word.parse().ok().filter(|number| *number < MOST);
        number.ok_or_else(|| self.fault(format!("`{word}` is no number below {MOST}")))
    }

    fn value(&mut self) -> Result<Value, TextError> {
        self.expect("%")?;
        self.number().map(Value)
    }

    fn block(&mut self) -> Result<BlockId, TextError> {
        self.expect("b")?;
        self.number().map(BlockId)
    }

    fn debt(&mut self) -> Result<Debt, TextError> {
        if !self.rest.trim_start().starts_with('%') {
            return self.number().map(Debt::Ops);
        }
        let now = self.value()?;
        self.expect("-")?;
        Ok(Debt::Steps(now, self.value()?))
    }

    fn string(&mut self) -> Result<String, TextError> {
        self.expect("\"")?;
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(out);
                }
                '\\' => match chars.next() {
                    Some((_, c @ ('"' | '\\'))) => out.push(c),
                    Some((from, _)) => {
                        let digits: String =
                            self.rest[from..].chars().take_while(|c| *c != ';').take(8).collect();
                        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        let code = code.ok_or_else(|| self.fault("a wrong escape"))?;
                        out.push(code);
                        for _ in 0..digits.len() {
                            chars.next();
                        }
                    }
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err(self.fault("a text without an end"))
    }

    fn ty(&mut self) -> Result<Type, TextError> {
        self.nesting += 1;
        if self.nesting > 64 {
            return Err(self.fault("a type that is nested too deeply"));
        }
        let ty = self.ty_inner();
        self.nesting -= 1;
        ty
    }

    fn ty_inner(&mut self) -> Result<Type, TextError> {
        if self.eat("[]") {
            return Ok(Type::Array(Box::new(self.ty()?)));
        }
        let word = self.word();
        Ok(match word {
            "void" => Type::Void,
            "bool" => Type::Bool,
            "i64" => Type::I64,
            "i32" => Type::I32,
            "u8" => Type::U8,
            "f64" => Type::F64,
            "String" => Type::Str,
            "Failure" => Type::Failure,
            "Nursery" => Type::Nursery,
            "struct" => {
                let name = self.word();
                let id = self.names.structs.get(name).copied();
                Type::Struct(id.ok_or_else(|| self.fault(format!("no struct `{name}`")))?)
            }
            "error" => Type::Error(self.error_set()?),
            "Result" => {
                self.expect("[")?;
                let of = self.ty()?;
                self.expect(",")?;
                let set = self.error_set()?;
                self.expect("]")?;
                Type::Result(Box::new(of), set)
            }
            "func" => {
                self.expect("(")?;
                let mut params = Vec::new();
                while !self.eat(")") {
                    params.push(self.ty()?);
                    self.eat(",");
                }
                self.expect("->")?;
                Type::Func(Box::new((params, self.ty()?)))
            }
            "Channel" | "Task" | "Cell" => {
                self.expect("[")?;
                let of = Box::new(self.ty()?);
                self.expect("]")?;
                match word {
                    "Channel" => Type::Channel(of),
                    "Task" => Type::Task(of),
                    _ => Type::Cell(of),
                }
            }
            _ => return Err(self.fault(format!("no type `{word}`"))),
        })
    }

    fn error_set(&mut self) -> Result<u32, TextError> {
        let name = self.word();
        let id = self.names.errors.get(name).copied();
        id.ok_or_else(|| self.fault(format!("no error set `{name}`")))
    }

    fn func_name(&mut self) -> Result<u32, TextError> {
        let name = self.word();
        let id = self.names.funcs.get(name).copied();
        id.ok_or_else(|| self.fault(format!("no function @{name}")))
    }

    /// `%1: i64`, which defines the value.
    fn definition(&mut self, func: &mut Func) -> Result<Value, TextError> {
        let value = self.value()?;
        self.expect(":")?;
        let ty = self.ty()?;
        while func.values.len() <= value.0 as usize {
            func.values.push(Type::Void);
        }
        func.values[value.0 as usize] = ty;
        Ok(value)
    }

    fn target(&mut self) -> Result<Target, TextError> {
        let block = self.block()?;
        let mut args = Vec::new();
        if self.eat("(") {
            while !self.eat(")") {
                args.push(self.value()?);
                self.eat(",");
            }
        }
        Ok(Target { block, args })
    }

    fn pos(&mut self) -> Result<Pos, TextError> {
        if !self.eat(";") {
            return Ok(Pos::default());
        }
        let line = self.word().parse();
        self.expect(":")?;
        let column = self.word().parse();
        match (line, column) {
            (Ok(line), Ok(column)) => Ok(Pos { line, column }),
            _ => Err(self.fault("a wrong place")),
        }
    }

    fn end_of_line(&mut self) -> Result<(), TextError> {
        match self.rest.trim() {
            "" => Ok(()),
            rest => Err(self.fault(format!("unexpected `{rest}`"))),
        }
    }

    fn line_of(&mut self, module: &mut Module, open: &mut Option<Func>) -> Result<(), TextError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let Some(func) = open else { return self.item(module, open) };
        if self.rest == "end" {
            module.funcs.extend(open.take());
            return Ok(());
        }
        if let Some(digits) = self.rest.strip_prefix('b')
            && digits.starts_with(|c: char| c.is_ascii_digit())
        {
            let block = self.block()?;
            if block.0 as usize != func.blocks.len() {
                return Err(self.fault("blocks must be numbered in order"));
            }
            let mut params = Vec::new();
            if self.eat("(") {
                while !self.eat(")") {
                    params.push(self.definition(func)?);
                    self.eat(",");
                }
            }
            let unwind = if self.eat("unwind") { Some(self.block()?) } else { None };
            let owes = if self.eat("owes") { self.debt()? } else { Debt::None };
            self.expect(":")?;
            let (insts, term) = (Vec::new(), Term::Unreachable);
            func.blocks.push(Block { params, insts, term, unwind, owes });
            return self.end_of_line();
        }
        if func.blocks.is_empty() {
            return Err(self.fault("an instruction outside of a block"));
        }
        self.instruction(func)?;
        self.end_of_line()
    }

    fn item(&mut self, module: &mut Module, open: &mut Option<Func>) -> Result<(), TextError> {
        match self.word() {
            "file" => module.file = self.string()?,
            "entry" => {
                self.expect("@")?;
                module.entry = self.func_name()?;
            }
            "struct" => {
                let name = self.word().to_owned();
                self.expect("{")?;
                let mut fields = Vec::new();
                while !self.eat("}") {
                    let field = self.word().to_owned();
                    self.expect(":")?;
                    fields.push((field, self.ty()?));
                    self.eat(",");
                }
                module.structs.push(StructDef { name, fields });
            }
            "error" => {
                let name = self.word().to_owned();
                self.expect("{")?;
                let mut variants = Vec::new();
                while !self.eat("}") {
                    let word = self.word();
                    if word.is_empty() {
                        return Err(self.fault("expected the name of an error"));
                    }
                    variants.push(word.to_owned());
                    self.eat(",");
                }
                module.errors.push(ErrorSet { name, variants });
            }
            "host" => {
                self.expect("@")?;
                let name = self.word().to_owned();
                self.expect("(")?;
                let mut params = Vec::new();
                while !self.eat(")") {
                    params.push(self.ty()?);
                    self.eat(",");
                }
                self.expect("->")?;
                module.hosts.push(HostFunc { name, params, result: self.ty()? });
            }
            "func" => {
                self.expect("@")?;
                let mut func = Func::new(self.word(), Type::Void, Tenancy::CPU_Serial);
                self.expect("(")?;
                while !self.eat(")") {
                    let param = self.definition(&mut func)?;
                    func.params.push(param);
                    self.eat(",");
                }
                self.expect("->")?;
                func.result = self.ty()?;
                self.expect("tenancy(")?;
                func.tenancy = match self.word() {
                    "CPU_Serial" => Tenancy::CPU_Serial,
                    "CPU_Parallel" => Tenancy::CPU_Parallel,
                    other => return Err(self.fault(format!("no tenancy `{other}`"))),
                };
                self.expect(")")?;
                func.at = self.pos()?;
                *open = Some(func);
            }
            other => return Err(self.fault(format!("expected an item, found `{other}`"))),
        }
        self.end_of_line()
    }

    fn instruction(&mut self, func: &mut Func) -> Result<(), TextError> {
        let result = if self.rest.starts_with('%') {
            let value = self.definition(func)?;
            self.expect("=")?;
            Some(value)
        } else {
            None
        };
        let name = self.word();
        let term = match name {
            "Jump" => Some(Term::Jump(self.target()?)),
            "Branch" => {
                let value = self.value()?;
                self.expect(",")?;
                let then = self.target()?;
                self.expect(",")?;
                Some(Term::Branch(value, then, self.target()?))
            }
            "Return" if self.rest.trim().is_empty() => Some(Term::Return(None)),
            "Return" => Some(Term::Return(Some(self.value()?))),
            "Resume" => Some(Term::Resume(self.value()?)),
            "Unreachable" => Some(Term::Unreachable),
            _ => None,
        };
        let block = func.blocks.last_mut().expect("checked by the caller");
        if let Some(term) = term {
            block.term = term;
            return Ok(());
        }
        let op =
            Opcode::from_name(name).ok_or_else(|| self.fault(format!("no operation `{name}`")))?;
        let mut inst = Inst { op, imm: Imm::None, args: Vec::new(), result, at: Pos::default() };
        self.rest = self.rest.trim_start();
        match self.rest.bytes().next() {
            None | Some(b'%' | b';') => {}
            Some(b'"') => inst.imm = Imm::Str(self.string()?),
            Some(b'@') => {
                self.expect("@")?;
                inst.imm = Imm::Func(self.func_name()?);
            }
            Some(_) => {
                let word = self.word();
                inst.imm = match word {
                    "true" => Imm::Bool(true),
                    "false" => Imm::Bool(false),
                    _ => match (word.strip_prefix("0f"), word.parse()) {
                        (Some(bits), _) if u64::from_str_radix(bits, 16).is_ok() => {
                            let bits = u64::from_str_radix(bits, 16).unwrap_or(0);
                            Imm::Float(f64::from_bits(bits))
                        }
                        (None, Ok(value)) => Imm::Int(value),
                        _ => return Err(self.fault(format!("`{word}` is no constant"))),
                    },
                };
            }
        }
        self.eat(",");
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('%') {
                break;
            }
            inst.args.push(self.value()?);
            self.eat(",");
        }
        inst.at = self.pos()?;
        func.blocks.last_mut().expect("checked by the caller").insts.push(inst);
        Ok(())
    }
}
