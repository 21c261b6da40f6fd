//! Operations that need no call: numbers, elements, fields, errors.
//!
//! An operation on numbers that fails is executed again by the machine, which reports it. Integers
//! of all types are words, extended by their sign (`u8` has none), as in the interpreter; results
//! of the narrow ones are tested against their range. Floats are those of the machine: a NaN may
//! have any bits, which no operation shows.

use crate::CompileError;
use crate::translate::{Translator, Words, trusted};
use crate::words::at;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value, types};
use parcae_ir::{Imm, Inst, Opcode, Type};

/// Width of an address and a length in the list of views.
const VIEW_SHIFT: i64 = 4;

impl Translator<'_> {
    /// Translates an operation without a call on its usual path; `None` if it needs one.
    pub(crate) fn inline(&mut self, inst: &Inst) -> Result<Option<Words>, CompileError> {
        let ty = inst.args.first().map(|arg| self.func.ty(*arg).clone());
        let value = match (inst.op, &ty) {
            (Opcode::Constant, _) => return self.constant(inst),
            (Opcode::Error_Value, _) => match inst.imm {
                Imm::Int(number) => self.word(number),
                _ => return Ok(None),
            },
            (
                Opcode::Error_Wrap
                | Opcode::Error_Fail
                | Opcode::Error_Is
                | Opcode::Error_Unwrap
                | Opcode::Error_Get,
                _,
            ) => return Ok(Some(self.error(inst))),
            (Opcode::Not, _) => {
                let a = self.one(inst.args[0]);
                let zero = self.builder.ins().icmp_imm_s(IntCC::Equal, a, 0);
                self.builder.ins().uextend(types::I64, zero)
            }
            (Opcode::Assert, _) => {
                let truth = self.one(inst.args[0]);
                let (wrong, go_on) = (self.cold(), self.builder.create_block());
                self.builder.ins().brif(truth, go_on, &[], wrong, &[]);
                self.builder.switch_to_block(wrong);
                self.fail_by_operation(inst)?;
                self.builder.switch_to_block(go_on);
                truth
            }
            (Opcode::Index, Some(Type::Array(_))) => return self.index(inst).map(Some),
            (Opcode::Index_Store, Some(Type::Array(_))) => {
                let address = self.element(inst)?;
                let value = self.one(inst.args[2]);
                self.builder.ins().store(trusted(), value, address, 0);
                value
            }
            (Opcode::String_Index, _) => {
                let (data, index) = self.bounded(inst)?;
                let address = self.builder.ins().iadd(data, index);
                self.builder.ins().uload8(types::I64, trusted(), address, 0)
            }
            (Opcode::Array_Len | Opcode::String_Len, _) => self.contents(inst.args[0]).1,
            (Opcode::Field_Access, _) => {
                let Imm::Int(field) = inst.imm else { return Ok(None) };
                let Ok(offset) = i32::try_from(8 * field) else { return Ok(None) };
                return Ok(self.load_content(inst, offset).map(Words::One));
            }
            (Opcode::Cell_Load, _) => return Ok(self.load_content(inst, 0).map(Words::One)),
            (Opcode::Cell_Store, _) => {
                let view = self.view(inst.args[0]);
                let data = self.builder.ins().load(types::I64, trusted(), view, 0);
                let value = self.one(inst.args[1]);
                self.builder.ins().store(trusted(), value, data, 0);
                value
            }
            (Opcode::Convert, Some(from)) => {
                let from = from.clone();
                return self.convert(inst, &from).map(Some);
            }
            (_, Some(Type::F64)) => match self.float(inst) {
                Some(value) => value,
                None => return Ok(None),
            },
            (Opcode::Equal | Opcode::NotEqual, Some(Type::Str | Type::Result(..) | Type::Void)) => {
                return Ok(None);
            }
            (Opcode::Equal | Opcode::NotEqual, Some(_)) => self.compare(inst),
            (_, Some(Type::I64 | Type::I32 | Type::U8)) => {
                let ty = ty.clone().unwrap_or(Type::I64);
                match self.integer(inst, &ty)? {
                    Some(value) => value,
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        Ok(Some(Words::One(value)))
    }

    fn constant(&mut self, inst: &Inst) -> Result<Option<Words>, CompileError> {
        let value = match &inst.imm {
            Imm::Int(value) => self.word(*value),
            Imm::Bool(value) => self.word((*value).into()),
            Imm::Float(value) => self.builder.ins().f64const(*value),
            Imm::Str(_) => return self.text(inst).map(Some),
            Imm::None => self.word(0),
            Imm::Func(_) => return Ok(None),
        };
        Ok(Some(Words::One(value)))
    }

    /// A text that is a constant: on the heap after its first use.
    fn text(&mut self, inst: &Inst) -> Result<Words, CompileError> {
        let number = self.constant_number();
        let literals = self.builder.ins().load(types::I64, trusted(), self.words, at::LITERALS);
        let Ok(offset) = i32::try_from(8 * number) else {
            return match self.operate(inst)? {
                Some(words) => Ok(words),
                None => Ok(Words::One(literals)),
            };
        };
        let text = self.builder.ins().load(types::I64, trusted(), literals, offset);
        let (first, go_on) = (self.cold(), self.builder.create_block());
        let result = self.builder.append_block_param(go_on, types::I64);
        let known = [BlockArg::Value(text)];
        self.builder.ins().brif(text, go_on, &known, first, &[]);
        self.builder.switch_to_block(first);
        let made = self.operate(inst)?.map_or(text, Words::first);
        self.builder.ins().jump(go_on, &[BlockArg::Value(made)]);
        self.builder.switch_to_block(go_on);
        Ok(Words::One(result))
    }

    fn error(&mut self, inst: &Inst) -> Words {
        let operand = inst.args.first().map(|arg| self.get(*arg));
        let zero = self.word(0);
        match (inst.op, operand) {
            (Opcode::Error_Wrap, operand) => Words::Two(operand.map_or(zero, Words::first), zero),
            (Opcode::Error_Fail, Some(error)) => {
                let error = self.builder.ins().iadd_imm_s(error.first(), 1);
                let float = inst.result.map(|value| self.func.ty(value));
                let float = matches!(float, Some(Type::Result(of, _)) if **of == Type::F64);
                let value = if float { self.builder.ins().f64const(0.0) } else { zero };
                Words::Two(value, error)
            }
            (Opcode::Error_Is, Some(Words::Two(_, error))) => {
                let is = self.builder.ins().icmp_imm_s(IntCC::NotEqual, error, 0);
                Words::One(self.builder.ins().uextend(types::I64, is))
            }
            (Opcode::Error_Get, Some(Words::Two(_, error))) => {
                Words::One(self.builder.ins().iadd_imm_s(error, -1))
            }
            (_, Some(operand)) => Words::One(operand.first()),
            (_, None) => Words::One(zero),
        }
    }

    /// The address of an object's view.
    pub(crate) fn view(&mut self, object: parcae_ir::Value) -> Value {
        let object = self.one(object);
        let views = self.builder.ins().load(types::I64, trusted(), self.words, at::VIEWS);
        let offset = self.builder.ins().ishl_imm_u(object, VIEW_SHIFT);
        self.builder.ins().iadd(views, offset)
    }

    /// The contents of an array or a text, and their length.
    fn contents(&mut self, object: parcae_ir::Value) -> (Value, Value) {
        self.loaded(object).unwrap_or_else(|| {
            let view = self.view(object);
            let data = self.builder.ins().load(types::I64, trusted(), view, 0);
            (data, self.builder.ins().load(types::I64, trusted(), view, 8))
        })
    }

    fn load_content(&mut self, inst: &Inst, offset: i32) -> Option<Value> {
        let ty = crate::backend::machine_type(self.func.ty(inst.result?));
        let view = self.view(inst.args[0]);
        let data = self.builder.ins().load(types::I64, trusted(), view, 0);
        Some(self.builder.ins().load(ty, trusted(), data, offset))
    }

    /// The contents of an object, and an index that is within them.
    fn bounded(&mut self, inst: &Inst) -> Result<(Value, Value), CompileError> {
        let index = self.one(inst.args[1]);
        let (data, length) = self.contents(inst.args[0]);
        let outside = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
        self.fail_when(outside, inst)?;
        Ok((data, index))
    }

    fn element(&mut self, inst: &Inst) -> Result<Value, CompileError> {
        let (data, index) = self.bounded(inst)?;
        let offset = self.builder.ins().ishl_imm_u(index, 3);
        Ok(self.builder.ins().iadd(data, offset))
    }

    fn index(&mut self, inst: &Inst) -> Result<Words, CompileError> {
        let address = self.element(inst)?;
        let ty = inst
            .result
            .map_or(types::I64, |value| crate::backend::machine_type(self.func.ty(value)));
        Ok(Words::One(self.builder.ins().load(ty, trusted(), address, 0)))
    }

    /// If the condition holds, the operation fails: the machine executes it again, to say why.
    fn fail_when(&mut self, condition: Value, inst: &Inst) -> Result<(), CompileError> {
        let (wrong, go_on) = (self.cold(), self.builder.create_block());
        self.builder.ins().brif(condition, wrong, &[], go_on, &[]);
        self.builder.switch_to_block(wrong);
        self.fail_by_operation(inst)?;
        self.builder.switch_to_block(go_on);
        Ok(())
    }

    /// If the condition holds, the machine executes the operation.
    fn unless(
        &mut self,
        condition: Value,
        inst: &Inst,
        usual: impl FnOnce(&mut Self) -> Value,
    ) -> Result<Value, CompileError> {
        let (rare, common, go_on) =
            (self.cold(), self.builder.create_block(), self.builder.create_block());
        let result = self.builder.append_block_param(go_on, types::I64);
        self.builder.ins().brif(condition, rare, &[], common, &[]);
        self.builder.switch_to_block(rare);
        let value = match self.operate(inst)? {
            Some(words) => words.first(),
            None => self.word(0),
        };
        self.builder.ins().jump(go_on, &[BlockArg::Value(value)]);
        self.builder.switch_to_block(common);
        let value = usual(self);
        self.builder.ins().jump(go_on, &[BlockArg::Value(value)]);
        self.builder.switch_to_block(go_on);
        Ok(result)
    }

    fn truth(&mut self, value: Value) -> Value {
        self.builder.ins().uextend(types::I64, value)
    }

    fn compare(&mut self, inst: &Inst) -> Value {
        let (a, b) = (self.one(inst.args[0]), self.one(inst.args[1]));
        let code = match inst.op {
            Opcode::NotEqual => IntCC::NotEqual,
            Opcode::Less => IntCC::SignedLessThan,
            Opcode::LessEqual => IntCC::SignedLessThanOrEqual,
            Opcode::Greater => IntCC::SignedGreaterThan,
            Opcode::GreaterEqual => IntCC::SignedGreaterThanOrEqual,
            _ => IntCC::Equal,
        };
        let value = self.builder.ins().icmp(code, a, b);
        self.truth(value)
    }

    /// Tests that a word is a value of a narrow type.
    fn ranged(&mut self, ty: &Type, value: Value, inst: &Inst) -> Result<Value, CompileError> {
        let outside = match ty {
            Type::I32 => {
                let narrow = self.builder.ins().ireduce(types::I32, value);
                let again = self.builder.ins().sextend(types::I64, narrow);
                self.builder.ins().icmp(IntCC::NotEqual, again, value)
            }
            Type::U8 => self.builder.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, value, 255),
            _ => return Ok(value),
        };
        self.fail_when(outside, inst)?;
        Ok(value)
    }

    fn integer(&mut self, inst: &Inst, ty: &Type) -> Result<Option<Value>, CompileError> {
        let a = self.one(inst.args[0]);
        let b = inst.args.get(1).map_or(a, |arg| self.one(*arg));
        let width = match ty {
            Type::I32 => 32,
            Type::U8 => 8,
            _ => 64,
        };
        let value = match inst.op {
            Opcode::Add | Opcode::Sub | Opcode::Mul | Opcode::Neg => {
                let (value, overflow) = match inst.op {
                    Opcode::Add => self.builder.ins().sadd_overflow(a, b),
                    Opcode::Sub => self.builder.ins().ssub_overflow(a, b),
                    Opcode::Mul => self.builder.ins().smul_overflow(a, b),
                    _ => {
                        let zero = self.word(0);
                        self.builder.ins().ssub_overflow(zero, a)
                    }
                };
                if width == 64 {
                    self.fail_when(overflow, inst)?;
                }
                self.ranged(ty, value, inst)?
            }
            Opcode::Abs => {
                let least = self.builder.ins().icmp_imm_s(IntCC::Equal, a, i64::MIN);
                self.fail_when(least, inst)?;
                let value = self.builder.ins().iabs(a);
                self.ranged(ty, value, inst)?
            }
            Opcode::Div => {
                // By 0 and by -1: the machine divides.
                let next = self.builder.ins().iadd_imm_s(b, 1);
                let special =
                    self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, next, 1);
                self.unless(special, inst, |this| this.builder.ins().sdiv(a, b))?
            }
            Opcode::Rem => {
                let next = self.builder.ins().iadd_imm_s(b, 1);
                let special =
                    self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, next, 1);
                self.unless(special, inst, |this| this.builder.ins().srem(a, b))?
            }
            Opcode::Shl | Opcode::Shr => {
                let outside =
                    self.builder.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, b, width);
                self.fail_when(outside, inst)?;
                if inst.op == Opcode::Shr {
                    self.builder.ins().sshr(a, b)
                } else {
                    let shifted = self.builder.ins().ishl(a, b);
                    match ty {
                        Type::I32 => {
                            let narrow = self.builder.ins().ireduce(types::I32, shifted);
                            self.builder.ins().sextend(types::I64, narrow)
                        }
                        Type::U8 => self.builder.ins().band_imm_u(shifted, 255),
                        _ => shifted,
                    }
                }
            }
            Opcode::Wrap_Add => self.builder.ins().iadd(a, b),
            Opcode::Wrap_Sub => self.builder.ins().isub(a, b),
            Opcode::Wrap_Mul => self.builder.ins().imul(a, b),
            Opcode::Min => self.builder.ins().smin(a, b),
            Opcode::Max => self.builder.ins().smax(a, b),
            Opcode::BitAnd => self.builder.ins().band(a, b),
            Opcode::BitOr => self.builder.ins().bor(a, b),
            Opcode::Xor => self.builder.ins().bxor(a, b),
            Opcode::Less | Opcode::LessEqual | Opcode::Greater | Opcode::GreaterEqual => {
                self.compare(inst)
            }
            _ => return Ok(None),
        };
        Ok(Some(value))
    }

    fn float(&mut self, inst: &Inst) -> Option<Value> {
        let a = self.one(inst.args[0]);
        let b = inst.args.get(1).map_or(a, |arg| self.one(*arg));
        let ins = self.builder.ins();
        let code = match inst.op {
            Opcode::Add => return Some(ins.fadd(a, b)),
            Opcode::Sub => return Some(ins.fsub(a, b)),
            Opcode::Mul => return Some(ins.fmul(a, b)),
            Opcode::Div => return Some(ins.fdiv(a, b)),
            Opcode::Neg => return Some(ins.fneg(a)),
            Opcode::Abs => return Some(ins.fabs(a)),
            Opcode::Sqrt => return Some(ins.sqrt(a)),
            Opcode::Equal => FloatCC::Equal,
            Opcode::NotEqual => FloatCC::NotEqual,
            Opcode::Less => FloatCC::LessThan,
            Opcode::LessEqual => FloatCC::LessThanOrEqual,
            Opcode::Greater => FloatCC::GreaterThan,
            Opcode::GreaterEqual => FloatCC::GreaterThanOrEqual,
            // The smaller of 0 and -0 is a matter of the host's library: the machine decides.
            _ => return None,
        };
        let value = ins.fcmp(code, a, b);
        Some(self.truth(value))
    }

    fn convert(&mut self, inst: &Inst, from: &Type) -> Result<Words, CompileError> {
        let a = self.one(inst.args[0]);
        let to = inst.result.map_or(Type::I64, |value| self.func.ty(value).clone());
        let value = match (from, &to) {
            (Type::F64, Type::F64) => a,
            (_, Type::F64) => self.builder.ins().fcvt_from_sint(types::F64, a),
            (Type::F64, _) => {
                let edge = 2.0_f64.powi(63);
                let (low, high) =
                    (self.builder.ins().f64const(-edge), self.builder.ins().f64const(edge));
                let above = self.builder.ins().fcmp(FloatCC::GreaterThanOrEqual, a, low);
                let below = self.builder.ins().fcmp(FloatCC::LessThan, a, high);
                let inside = self.builder.ins().band(above, below);
                let outside = self.builder.ins().icmp_imm_u(IntCC::Equal, inside, 0);
                self.fail_when(outside, inst)?;
                let whole = self.builder.ins().fcvt_to_sint_sat(types::I64, a);
                self.ranged(&to, whole, inst)?
            }
            _ => self.ranged(&to, a, inst)?,
        };
        Ok(Words::One(value))
    }
}
