//! Operations.

use super::func::{Emitter, Part};
use super::{LlvmError, is_word};
use crate::module::{Imm, Inst, Type, Value};
use crate::op::Opcode;

const OVERFLOW: &str = "P002 integer overflow";

impl Emitter<'_, '_> {
    pub(super) fn operation(&mut self, inst: &Inst) -> Result<(), LlvmError> {
        use Opcode as O;
        let of = inst.args.first().map(|arg| self.func.ty(*arg).clone());
        match inst.op {
            O::Constant | O::To_String | O::String_Concat | O::Print => return self.text(inst),
            O::Error_Value => {
                let Imm::Int(number) = inst.imm else { return self.effectless(inst.op) };
                self.result(inst, format!("add i64 {number}, 0"));
            }
            O::Call => return self.call(inst),
            O::Spawn | O::Async_Call | O::Task_Create => return self.spawn(inst),
            O::Budget_Decrement => {
                let Imm::Int(ops) = inst.imm else { return self.effectless(inst.op) };
                let status = self.compute(format!("call i32 @parcae_charge_ops(i64 {ops})"));
                self.check_status(&status);
            }
            // The charge looks around.
            O::Budget_Check => {}
            O::Yield => {
                let status = self.compute("call i32 @janus_scheduler_yield()");
                self.check_status(&status);
            }
            O::Sleep => {
                let most = self.compute(format!("icmp sgt i64 {}, 0", v(inst, 0)));
                let some = self.compute(format!("select i1 {most}, i64 {}, i64 0", v(inst, 0)));
                let nanos = self.compute(format!("mul i64 {some}, 1000000"));
                let status = self.compute(format!("call i32 @parcae_sleep_ns(i64 {nanos})"));
                self.check_status(&status);
            }
            O::Assert => {
                let wrong = self.compute(format!("icmp eq i64 {}, 0", v(inst, 0)));
                self.fail_if(&wrong, "P004 an assertion failed");
            }
            O::Trap => {
                let Some([Part::Text(text)]) = self.parts.get(&inst.args[0]).map(|it| &it[..])
                else {
                    return self.refuse("a panic with a text that is computed");
                };
                let message = format!("P005 {text}");
                self.fail_if("true", &message);
            }
            O::Raise => {
                let Some(Type::Error(set)) = of else { return self.effectless(inst.op) };
                let at = v(inst, 0);
                let place = self.compute(format!("getelementptr ptr, ptr @errors.{set}, i64 {at}"));
                let text = self.compute(format!("load ptr, ptr {place}"));
                self.branch_to_failure("true", |this| {
                    this.compute(format!("ptrtoint ptr {text} to i64"))
                });
            }
            O::Error_Wrap | O::Error_Fail | O::Error_Is | O::Error_Unwrap | O::Error_Get => {
                return self.error(inst);
            }
            O::Failure_Closed => {
                let closed = "ptrtoint (ptr @closed to i64)";
                let is = self.compute(format!("icmp eq i64 {}, {closed}", v(inst, 0)));
                self.result(inst, format!("zext i1 {is} to i64"));
            }
            O::Failure_Code => {
                let (slot, format) = (self.slot("ptr"), self.texts.address("%lld"));
                let code = v(inst, 0);
                self.compute(format!(
                    "call i32 (ptr, ptr, ...) @asprintf(ptr {slot}, ptr {format}, i64 {code})"
                ));
                let text = self.compute(format!("load ptr, ptr {slot}"));
                self.result(inst, format!("ptrtoint ptr {text} to i64"));
            }
            O::Cell_New => {
                let ty = self.plain(inst.args[0])?;
                let slot = self.slot(ty);
                self.line(format!("store {ty} {}, ptr {slot}", v(inst, 0)));
                self.result(inst, format!("getelementptr i8, ptr {slot}, i64 0"));
            }
            O::Cell_Load => {
                let ty = self.plain(inst.result.unwrap_or(inst.args[0]))?;
                self.result(inst, format!("load {ty}, ptr {}", v(inst, 0)));
            }
            O::Cell_Store => {
                let ty = self.plain(inst.args[1])?;
                self.line(format!("store {ty} {}, ptr {}", v(inst, 1), v(inst, 0)));
            }
            O::Cancel_Query => {
                let is = self.compute("call i32 @janus_nursery_is_cancelled()");
                self.result(inst, format!("zext i32 {is} to i64"));
            }
            O::Task_Cancel => {
                let task = v(inst, 0);
                self.compute(format!("call i32 @parcae_task_cancel(ptr {task})"));
            }
            O::Nursery_Begin if inst.args.is_empty() => {
                self.result(inst, "call ptr @janus_nursery_create()");
                let none = self.compute(format!("icmp eq ptr {}, null", r(inst)));
                self.fail_by_library(&none);
            }
            O::Nursery_Begin => return self.refuse("a nursery with a budget"),
            O::Nursery_Cancel => {
                self.compute(format!("call i32 @parcae_nursery_cancel(ptr {})", v(inst, 0)));
            }
            O::Nursery_End => self.nursery_end(inst),
            O::Nursery_Abort => {
                self.compute(format!("call i32 @parcae_nursery_cancel(ptr {})", v(inst, 0)));
                self.compute(format!("call i64 @parcae_nursery_close(ptr {})", v(inst, 0)));
                self.result(inst, format!("add i64 {}, 0", v(inst, 1)));
            }
            O::Await | O::Task_Join => {
                let slot = self.slot("i64");
                let task = v(inst, 0);
                let status =
                    self.compute(format!("call i32 @parcae_task_join(ptr {task}, ptr {slot})"));
                // A negative code is a value.
                let ok = self.compute(format!("icmp eq i32 {status}, 0"));
                let code = self.compute(format!("icmp eq i32 {status}, {PARCAE_ERROR}"));
                let good = self.compute(format!("or i1 {ok}, {code}"));
                let bad = self.compute(format!("xor i1 {good}, true"));
                self.fail_by_library(&bad);
                if let Some(result) = inst.result {
                    let ty = self.plain(result)?;
                    self.result(inst, format!("load {ty}, ptr {slot}"));
                }
            }
            O::Channel_Create => {
                let Some(Type::Channel(of)) = inst.result.map(|value| self.func.ty(value)) else {
                    return self.effectless(inst.op);
                };
                if !is_word(of) {
                    return self.refuse("a channel of other values than integers");
                }
                let outside = self.compute(format!("icmp ugt i64 {}, 1048576", v(inst, 0)));
                self.fail_if(&outside, "P002 the capacity of a channel is 0 to 1048576");
                let capacity = self.compute(format!("trunc i64 {} to i32", v(inst, 0)));
                self.result(inst, format!("call ptr @janus_channel_create_i64(i32 {capacity})"));
                let none = self.compute(format!("icmp eq ptr {}, null", r(inst)));
                self.fail_by_library(&none);
            }
            O::Channel_Send => {
                let (to, value) = (v(inst, 0), v(inst, 1));
                let status = self
                    .compute(format!("call i32 @janus_channel_send_i64(ptr {to}, i64 {value})"));
                self.check_status(&status);
            }
            O::Channel_TrySend => {
                let (to, value) = (v(inst, 0), v(inst, 1));
                let done = self.compute(format!(
                    "call i32 @janus_channel_try_send_i64(ptr {to}, i64 {value})"
                ));
                let bad = self.compute(format!("icmp slt i32 {done}, 0"));
                self.fail_by_library(&bad);
                self.result(inst, format!("zext i32 {done} to i64"));
            }
            O::Channel_Recv => {
                let slot = self.slot("i32");
                let from = v(inst, 0);
                let value = self
                    .compute(format!("call i64 @janus_channel_recv_i64(ptr {from}, ptr {slot})"));
                let status = self.compute(format!("load i32, ptr {slot}"));
                self.check_status(&status);
                self.result(inst, format!("add i64 {value}, 0"));
            }
            O::Channel_Close => {
                self.line(format!("call void @janus_channel_close_i64(ptr {})", v(inst, 0)));
            }
            O::Channel_IsClosed => {
                let of = v(inst, 0);
                let is = self.compute(format!("call i32 @janus_channel_is_closed_i64(ptr {of})"));
                self.result(inst, format!("zext i32 {is} to i64"));
            }
            _ if of == Some(Type::F64) => return self.float(inst),
            _ => return self.integer(inst),
        }
        Ok(())
    }

    /// Defines the result of an operation, if it has one.
    fn result(&mut self, inst: &Inst, text: impl AsRef<str>) {
        match inst.result {
            Some(value) => self.line(format!("%v{} = {}", value.0, text.as_ref())),
            None => drop(self.compute(text)),
        }
    }

    fn check_status(&mut self, status: &str) {
        let failed = self.compute(format!("icmp ne i32 {status}, 0"));
        self.fail_by_library(&failed);
    }

    /// Texts exist only as parts of what is printed.
    fn text(&mut self, inst: &Inst) -> Result<(), LlvmError> {
        let parts = match (inst.op, &inst.imm) {
            (Opcode::Constant, Imm::Str(text)) if text.contains('\0') => {
                return self.refuse("a text with a zero byte");
            }
            (Opcode::Constant, Imm::Str(text)) => vec![Part::Text(text.clone())],
            (Opcode::Constant, imm) => {
                let text = match imm {
                    Imm::Int(value) => format!("add i64 {value}, 0"),
                    Imm::Bool(value) => format!("add i64 {}, 0", i64::from(*value)),
                    Imm::Float(value) => {
                        format!("bitcast i64 {} to double", value.to_bits().cast_signed())
                    }
                    _ => return self.refuse("a constant"),
                };
                self.result(inst, text);
                return Ok(());
            }
            (Opcode::To_String, _) => vec![self.part(inst.args[0])?],
            (Opcode::String_Concat, _) => {
                let parts = inst.args.iter().map(|arg| self.parts.get(arg).cloned());
                let parts: Option<Vec<Vec<Part>>> = parts.collect();
                match parts {
                    Some(parts) => parts.concat(),
                    None => return self.refuse("a text that is kept"),
                }
            }
            (_, imm) => {
                let Some(parts) = self.parts.get(&inst.args[0]).cloned() else {
                    return self.refuse("a text that is kept");
                };
                let (mut format, mut args) = (String::new(), String::new());
                for part in parts {
                    match part {
                        Part::Text(text) => format += &text.replace('%', "%%"),
                        Part::Value(conversion, value) => {
                            format += conversion;
                            args += &format!(", {value}");
                        }
                    }
                }
                if *imm == Imm::Int(1) {
                    format.push('\n');
                }
                let format = self.texts.address(&format);
                self.compute(format!("call i32 (ptr, ...) @printf(ptr {format}{args})"));
                return Ok(());
            }
        };
        self.parts.extend(inst.result.map(|value| (value, parts)));
        Ok(())
    }

    /// The part of a text that shows a value.
    fn part(&mut self, value: Value) -> Result<Part, LlvmError> {
        let word = format!("%v{}", value.0);
        Ok(match self.func.ty(value) {
            Type::I64 | Type::I32 | Type::U8 => Part::Value("%lld", format!("i64 {word}")),
            Type::Bool => {
                let is = self.compute(format!("icmp ne i64 {word}, 0"));
                let text = self.compute(format!("select i1 {is}, ptr @true, ptr @false"));
                Part::Value("%s", format!("ptr {text}"))
            }
            Type::Error(set) => {
                let place =
                    self.compute(format!("getelementptr ptr, ptr @errors.{set}, i64 {word}"));
                let text = self.compute(format!("load ptr, ptr {place}"));
                Part::Value("%s", format!("ptr {text}"))
            }
            Type::Failure => {
                let text = self.compute(format!("inttoptr i64 {word} to ptr"));
                Part::Value("%s", format!("ptr {text}"))
            }
            Type::Str => match self.parts.get(&value).map(|parts| &parts[..]) {
                Some([part]) => part.clone(),
                _ => return self.refuse("a text that is kept"),
            },
            _ => return self.refuse("the text of an f64"),
        })
    }

    /// Results of functions that can fail: a value and a status.
    fn error(&mut self, inst: &Inst) -> Result<(), LlvmError> {
        let value = inst.args.first().copied();
        match (inst.op, value, inst.result) {
            (Opcode::Error_Wrap | Opcode::Error_Fail, value, Some(result)) => {
                let ty = self.ty(self.func.ty(result))?;
                let (mut word, mut error) = (None, "0".to_owned());
                if inst.op == Opcode::Error_Wrap {
                    word = value.map(|value| format!("%v{}", value.0));
                } else if let Some(value) = value {
                    error = self.compute(format!("add i64 %v{}, 1", value.0));
                }
                // Without an operation a value has no second name.
                let slot = self.slot(ty);
                match word {
                    Some(word) => self.line(format!("store {ty} {word}, ptr {slot}")),
                    None => self.line(format!("store {ty} zeroinitializer, ptr {slot}")),
                }
                self.line(format!("%v{} = load {ty}, ptr {slot}", result.0));
                self.line(format!("%v{}.e = add i64 {error}, 0", result.0));
            }
            (Opcode::Error_Is, Some(value), _) => {
                let is = self.compute(format!("icmp ne i64 %v{}.e, 0", value.0));
                self.result(inst, format!("zext i1 {is} to i64"));
            }
            (Opcode::Error_Get, Some(value), _) => {
                self.result(inst, format!("sub i64 %v{}.e, 1", value.0));
            }
            (Opcode::Error_Unwrap, Some(value), Some(result)) => {
                let ty = self.plain(result)?;
                let slot = self.slot(ty);
                self.line(format!("store {ty} %v{}, ptr {slot}", value.0));
                self.result(inst, format!("load {ty}, ptr {slot}"));
            }
            (op, ..) => return self.effectless(op),
        }
        Ok(())
    }

    /// 0, the first negative code, or a failure.
    fn nursery_end(&mut self, inst: &Inst) {
        let nursery = v(inst, 0);
        let code = self.compute(format!("call i64 @parcae_nursery_close(ptr {nursery})"));
        let slot = self.slot("[4 x i64]");
        self.compute(format!("call i32 @parcae_last_result(ptr {slot})"));
        let kind = self.compute(format!("load i32, ptr {slot}"));
        // PARCAE_SUCCESS and PARCAE_CHILD_FAILED.
        let fine = self.compute(format!("icmp eq i32 {kind}, 0"));
        let child = self.compute(format!("icmp eq i32 {kind}, 2"));
        let good = self.compute(format!("or i1 {fine}, {child}"));
        let bad = self.compute(format!("xor i1 {good}, true"));
        self.fail_by_library(&bad);
        self.result(inst, format!("select i1 {child}, i64 {code}, i64 0"));
    }

    fn float(&mut self, inst: &Inst) -> Result<(), LlvmError> {
        use Opcode as O;
        let (a, b) = (v(inst, 0), v(inst, inst.args.len().min(2) - 1));
        let text = match inst.op {
            O::Add => format!("fadd double {a}, {b}"),
            O::Sub => format!("fsub double {a}, {b}"),
            O::Mul => format!("fmul double {a}, {b}"),
            O::Div => format!("fdiv double {a}, {b}"),
            O::Neg => format!("fneg double {a}"),
            O::Abs => format!("call double @llvm.fabs.f64(double {a})"),
            O::Sqrt => format!("call double @llvm.sqrt.f64(double {a})"),
            O::Convert => return self.convert_float(inst),
            op => {
                let condition = match op {
                    O::Equal => "oeq",
                    O::NotEqual => "une",
                    O::Less => "olt",
                    O::LessEqual => "ole",
                    O::Greater => "ogt",
                    O::GreaterEqual => "oge",
                    _ => return self.effectless(op),
                };
                let is = self.compute(format!("fcmp {condition} double {a}, {b}"));
                format!("zext i1 {is} to i64")
            }
        };
        self.result(inst, text);
        Ok(())
    }

    fn convert_float(&mut self, inst: &Inst) -> Result<(), LlvmError> {
        let a = v(inst, 0);
        let Some(to) = inst.result.map(|value| self.func.ty(value).clone()) else { return Ok(()) };
        if to == Type::F64 {
            self.result(inst, format!("fadd double {a}, -0.0"));
            return Ok(());
        }
        let edge = 2.0_f64.powi(63).to_bits();
        let low = self.compute(format!("fcmp oge double {a}, 0x{:016X}", edge | 1 << 63));
        let high = self.compute(format!("fcmp olt double {a}, 0x{edge:016X}"));
        let inside = self.compute(format!("and i1 {low}, {high}"));
        let outside = self.compute(format!("xor i1 {inside}, true"));
        self.fail_if(&outside, OVERFLOW);
        let whole = self.compute(format!("fptosi double {a} to i64"));
        self.ranged(&whole, &to);
        self.result(inst, format!("add i64 {whole}, 0"));
        Ok(())
    }

    /// Fails unless a word is a value of this type.
    fn ranged(&mut self, word: &str, ty: &Type) {
        let (least, count): (i64, u64) = match ty {
            Type::I32 => (i32::MIN.into(), 1 << 32),
            Type::U8 => (0, 256),
            _ => return,
        };
        let above = self.compute(format!("sub i64 {word}, {least}"));
        let outside = self.compute(format!("icmp uge i64 {above}, {count}"));
        self.fail_if(&outside, OVERFLOW);
    }

    fn integer(&mut self, inst: &Inst) -> Result<(), LlvmError> {
        use Opcode as O;
        if inst.args.is_empty() {
            return self.effectless(inst.op);
        }
        let ty = self.func.ty(inst.args[0]).clone();
        if !matches!(ty, Type::I64 | Type::I32 | Type::U8 | Type::Bool | Type::Error(_)) {
            return self.effectless(inst.op);
        }
        let (a, b) = (v(inst, 0), v(inst, inst.args.len().min(2) - 1));
        let compare = |condition: &str| Some(format!("icmp {condition} i64 {a}, {b}"));
        let truth = match inst.op {
            O::Equal => compare("eq"),
            O::NotEqual => compare("ne"),
            O::Less => compare("slt"),
            O::LessEqual => compare("sle"),
            O::Greater => compare("sgt"),
            O::GreaterEqual => compare("sge"),
            _ => None,
        };
        if let Some(truth) = truth {
            let is = self.compute(truth);
            self.result(inst, format!("zext i1 {is} to i64"));
            return Ok(());
        }
        let text = match inst.op {
            O::Add | O::Sub | O::Mul | O::Neg => {
                let (name, a) = match inst.op {
                    O::Add => ("sadd", a),
                    O::Sub => ("ssub", a),
                    O::Mul => ("smul", a),
                    _ => ("ssub", "0".to_owned()),
                };
                let both = self.compute(format!(
                    "call {{ i64, i1 }} @llvm.{name}.with.overflow.i64(i64 {a}, i64 {b})"
                ));
                let over = self.compute(format!("extractvalue {{ i64, i1 }} {both}, 1"));
                self.fail_if(&over, OVERFLOW);
                let value = self.compute(format!("extractvalue {{ i64, i1 }} {both}, 0"));
                self.ranged(&value, &ty);
                format!("add i64 {value}, 0")
            }
            O::Div | O::Rem => {
                let zero = self.compute(format!("icmp eq i64 {b}, 0"));
                self.fail_if(&zero, "P003 division by zero");
                let minus = self.compute(format!("icmp eq i64 {b}, -1"));
                if inst.op == O::Div {
                    let least = self.compute(format!("icmp eq i64 {a}, {}", i64::MIN));
                    let both = self.compute(format!("and i1 {minus}, {least}"));
                    self.fail_if(&both, OVERFLOW);
                    let value = self.compute(format!("sdiv i64 {a}, {b}"));
                    self.ranged(&value, &ty);
                    format!("add i64 {value}, 0")
                } else {
                    // The remainder by -1 is 0, as that by 1.
                    let by = self.compute(format!("select i1 {minus}, i64 1, i64 {b}"));
                    format!("srem i64 {a}, {by}")
                }
            }
            O::Abs => {
                let least = self.compute(format!("icmp eq i64 {a}, {}", i64::MIN));
                self.fail_if(&least, OVERFLOW);
                let negative = self.compute(format!("icmp slt i64 {a}, 0"));
                let other = self.compute(format!("sub i64 0, {a}"));
                let value = self.compute(format!("select i1 {negative}, i64 {other}, i64 {a}"));
                self.ranged(&value, &ty);
                format!("add i64 {value}, 0")
            }
            O::Shl | O::Shr => {
                let width = match ty {
                    Type::I32 => 32,
                    Type::U8 => 8,
                    _ => 64,
                };
                let outside = self.compute(format!("icmp uge i64 {b}, {width}"));
                self.fail_if(&outside, &format!("P002 a shift outside of 0 to {}", width - 1));
                let shifted = self.compute(format!(
                    "{} i64 {a}, {b}",
                    if inst.op == O::Shl { "shl" } else { "ashr" }
                ));
                match (inst.op, width) {
                    (O::Shl, 32) => {
                        let narrow = self.compute(format!("trunc i64 {shifted} to i32"));
                        format!("sext i32 {narrow} to i64")
                    }
                    (O::Shl, 8) => format!("and i64 {shifted}, 255"),
                    _ => format!("add i64 {shifted}, 0"),
                }
            }
            O::Wrap_Add => format!("add i64 {a}, {b}"),
            O::Wrap_Sub => format!("sub i64 {a}, {b}"),
            O::Wrap_Mul => format!("mul i64 {a}, {b}"),
            O::BitAnd => format!("and i64 {a}, {b}"),
            O::BitOr => format!("or i64 {a}, {b}"),
            O::Xor => format!("xor i64 {a}, {b}"),
            O::Not => format!("xor i64 {a}, 1"),
            O::Min | O::Max => {
                let condition = if inst.op == O::Min { "slt" } else { "sgt" };
                let is = self.compute(format!("icmp {condition} i64 {a}, {b}"));
                format!("select i1 {is}, i64 {a}, i64 {b}")
            }
            O::Convert => match inst.result.map(|value| self.func.ty(value).clone()) {
                Some(Type::F64) => format!("sitofp i64 {a} to double"),
                Some(to) => {
                    self.ranged(&a, &to);
                    format!("add i64 {a}, 0")
                }
                None => return Ok(()),
            },
            op => return self.effectless(op),
        };
        self.result(inst, text);
        Ok(())
    }
}

/// `PARCAE_ERROR`: a child returned a negative code.
const PARCAE_ERROR: i32 = -5;

/// An operand.
fn v(inst: &Inst, at: usize) -> String {
    format!("%v{}", inst.args[at].0)
}

/// The result.
fn r(inst: &Inst) -> String {
    inst.result.map_or(String::new(), |value| format!("%v{}", value.0))
}
