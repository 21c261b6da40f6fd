//! LLVM text that calls the C library.
//!
//! The text needs nothing but `libparcae` and the C library, and LLVM 15 or newer (14 with
//! `-opaque-pointers`). A function of the program is a function of LLVM; a task is a child of the C
//! library's nursery; ops are charged by `parcae_charge_ops` where the IR has its
//! `Budget_Decrement`, which looks around as `Budget_Check` does.
//!
//! | in the IR | in LLVM |
//! |---|---|
//! | integer, `bool`, error | `i64` |
//! | `f64` | `double` |
//! | nursery, channel, task | the handle of the C library |
//! | result of a function | `{ value, i64 }`: 0, an error's number plus 1, or less than 0 if it failed |
//! | failure | the address of its message; negative where it is a status |
//! | text | parts of a call of `printf`, at the `Print` that they reach |
//!
//! # Limits
//!
//! Programs of numbers, functions, errors, tasks and channels of words. Everything else is refused
//! by name: texts that are kept, arrays, structs, function values, `select`, `defer`, budgets of
//! nurseries. A handle can be awaited once. Channels are freed with the runtime.

mod func;
mod ops;

use crate::module::{Module, Tenancy, Type};
use crate::op::Opcode;
use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;

/// A program has a construct that has no form in LLVM text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LlvmError {
    /// The construct.
    pub construct: String,
    /// The function that has it.
    pub func: String,
}

impl fmt::Display for LlvmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (construct, func) = (&self.construct, &self.func);
        write!(f, "no LLVM text for {construct}, in `{func}`; `parcae run` runs the program")
    }
}

impl std::error::Error for LlvmError {}

/// Functions of the C library and of the system.
const DECLARATIONS: &str = "\
declare ptr @janus_scheduler_create(i64, i64)
declare void @janus_scheduler_shutdown(ptr)
declare i32 @janus_scheduler_spawn(ptr, ptr)
declare i32 @janus_scheduler_yield()
declare ptr @janus_nursery_create()
declare i32 @janus_nursery_spawn(ptr, ptr)
declare i64 @janus_nursery_await_all()
declare i32 @janus_nursery_is_cancelled()
declare i64 @parcae_nursery_close(ptr)
declare i32 @parcae_nursery_cancel(ptr)
declare i32 @parcae_last_result(ptr)
declare ptr @parcae_last_error()
declare i32 @parcae_last_error_kind()
declare ptr @parcae_spawn(ptr, ptr, ptr, ptr)
declare i32 @parcae_task_join(ptr, ptr)
declare i32 @parcae_task_cancel(ptr)
declare void @parcae_task_panic(ptr) noreturn
declare i32 @parcae_charge_ops(i64)
declare i64 @parcae_stack_left()
declare i32 @parcae_sleep_ns(i64)
declare ptr @janus_channel_create_i64(i32)
declare i32 @janus_channel_send_i64(ptr, i64)
declare i64 @janus_channel_recv_i64(ptr, ptr)
declare i32 @janus_channel_try_send_i64(ptr, i64)
declare void @janus_channel_close_i64(ptr)
declare i32 @janus_channel_is_closed_i64(ptr)
declare i32 @printf(ptr, ...)
declare i32 @dprintf(i32, ptr, ...)
declare i32 @asprintf(ptr, ptr, ...)
declare ptr @malloc(i64)
declare void @free(ptr)
declare ptr @strdup(ptr)
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.ssub.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
declare double @llvm.sqrt.f64(double)
declare double @llvm.fabs.f64(double)
";

/// The failure of the last call of the C library, and the entry of the process. `4` is
/// `PARCAE_E_CLOSED`.
const PRELUDE: &str = r#"
@closed = internal constant [14 x i8] c"ChannelClosed\00"
@true = internal constant [5 x i8] c"true\00"
@false = internal constant [6 x i8] c"false\00"
@error = internal constant [11 x i8] c"error: %s\0A\00"
@code = internal global i64 0

define internal i64 @failure() {
  %kind = call i32 @parcae_last_error_kind()
  %closed = icmp eq i32 %kind, 4
  br i1 %closed, label %yes, label %no
yes:
  ret i64 ptrtoint (ptr @closed to i64)
no:
  %text = call ptr @parcae_last_error()
  %copy = call ptr @strdup(ptr %text)
  %word = ptrtoint ptr %copy to i64
  ret i64 %word
}

define i32 @main() {
  %scheduler = call ptr @janus_scheduler_create(i64 0, i64 0)
  %started = icmp ne ptr %scheduler, null
  br i1 %started, label %open, label %failed
open:
  %nursery = call ptr @janus_nursery_create()
  %spawned = call i32 @janus_scheduler_spawn(ptr @root, ptr null)
  %ended = call i64 @janus_nursery_await_all()
  %bad = icmp slt i64 %ended, 0
  br i1 %bad, label %failed, label %done
failed:
  %word = call i64 @failure()
  %text = inttoptr i64 %word to ptr
  call i32 (i32, ptr, ...) @dprintf(i32 2, ptr @error, ptr %text)
  store i64 1, ptr @code
  br label %done
done:
  call void @janus_scheduler_shutdown(ptr %scheduler)
  %value = load i64, ptr @code
  %exit = trunc i64 %value to i32
  ret i32 %exit
}
"#;

/// Prints a module, whose checks are inserted or merged, as LLVM text.
///
/// ```
/// use parcae_ir::{emit_llvm, insert_checks, parse};
///
/// let text = "entry @main\nerror ParseError { Invalid }\n\
///             func @main() -> i64 tenancy(CPU_Serial)\n\
///             b0:\n  %0: i64 = Constant 7\n  Return %0\nend\n";
/// let mut module = parse(text).unwrap();
/// insert_checks(&mut module);
/// let llvm = emit_llvm(&module).unwrap();
/// assert!(llvm.contains("call i32 @parcae_charge_ops(i64 1)"));
/// assert!(llvm.contains("call ptr @janus_scheduler_create"));
/// ```
///
/// # Errors
///
/// The first construct that has no form.
pub fn emit(module: &Module) -> Result<String, LlvmError> {
    let mut texts = Texts::default();
    let mut functions = String::new();
    for func in &module.funcs {
        functions += &func::emit(module, func, &mut texts)?;
        if func.tenancy == Tenancy::CPU_Parallel {
            functions += &func::task(func)?;
        }
    }
    functions += &func::root(module)?;
    let mut out = format!("; {}, by parcae\n\n{DECLARATIONS}{PRELUDE}", module.file);
    for (number, set) in module.errors.iter().enumerate() {
        let names: Vec<String> = set
            .variants
            .iter()
            .map(|name| format!("ptr {}", texts.address(&format!("{}.{name}", set.name))))
            .collect();
        let (count, names) = (names.len(), names.join(", "));
        let _ = writeln!(out, "@errors.{number} = internal constant [{count} x ptr] [{names}]");
    }
    for (text, number) in &texts.0 {
        let _ = writeln!(
            out,
            "@text.{number} = internal constant [{} x i8] c\"{}\\00\"",
            text.len() + 1,
            escape(text)
        );
    }
    out.push_str(&functions);
    Ok(out)
}

/// Constant texts, each with its number.
#[derive(Default)]
struct Texts(BTreeMap<String, usize>);

impl Texts {
    fn address(&mut self, text: &str) -> String {
        let next = self.0.len();
        let number = *self.0.entry(text.to_owned()).or_insert(next);
        format!("@text.{number}")
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => out.push(byte.into()),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out
}

/// The name of a function of the program.
fn name(func: &str) -> String {
    format!("@\"jan.{}\"", escape(func))
}

/// The type of a value, if it has one.
fn machine(ty: &Type) -> Option<&'static str> {
    match ty {
        Type::Void | Type::I64 | Type::I32 | Type::U8 | Type::Bool => Some("i64"),
        Type::Error(_) | Type::Failure => Some("i64"),
        Type::F64 => Some("double"),
        Type::Nursery | Type::Task(_) => Some("ptr"),
        Type::Channel(of) if is_word(of) => Some("ptr"),
        Type::Cell(of) if machine(of).is_some() => Some("ptr"),
        Type::Result(of, _) => machine(of),
        _ => None,
    }
}

/// Whether values of a type are sent as words.
fn is_word(ty: &Type) -> bool {
    matches!(ty, Type::I64 | Type::I32 | Type::U8 | Type::Bool | Type::Error(_))
}

/// Whether a function calls others of the program.
fn calls(func: &crate::module::Func) -> bool {
    func.blocks.iter().flat_map(|block| &block.insts).any(|inst| inst.op == Opcode::Call)
}
