//! Operations on numbers that succeed: the fast path. Those that fail are executed again by
//! `local`, which reports why.

use crate::code::{Kind, Op};
use crate::failure::{Fault, overflow, panic};
use crate::machine::Machine;
use parcae_ir::Opcode;

impl Machine<'_> {
    /// Executes the operation if it is one on numbers and does not fail.
    #[inline]
    pub(crate) fn arithmetic(&mut self, op: &Op) -> bool {
        let (a, b) = (self.get(op.a), self.get(op.b));
        let result = match (op.op, op.kind) {
            (Opcode::Constant, kind) if kind != Kind::Text => Some(op.imm),
            (Opcode::Error_Value, _) => Some(op.imm),
            (Opcode::Add, Kind::I64) => word((a as i64).checked_add(b as i64)),
            (Opcode::Sub, Kind::I64) => word((a as i64).checked_sub(b as i64)),
            (Opcode::Mul, Kind::I64) => word((a as i64).checked_mul(b as i64)),
            (Opcode::Less, Kind::I64 | Kind::I32 | Kind::U8) => {
                Some(u64::from((a as i64) < b as i64))
            }
            (Opcode::LessEqual, Kind::I64 | Kind::I32 | Kind::U8) => {
                Some(u64::from(a as i64 <= b as i64))
            }
            (Opcode::Greater, Kind::I64 | Kind::I32 | Kind::U8) => {
                Some(u64::from(a as i64 > b as i64))
            }
            (Opcode::GreaterEqual, Kind::I64 | Kind::I32 | Kind::U8) => {
                Some(u64::from(a as i64 >= b as i64))
            }
            (Opcode::Equal, kind) if kind != Kind::Text && kind != Kind::F64 => {
                Some(u64::from(a == b))
            }
            (Opcode::NotEqual, kind) if kind != Kind::Text && kind != Kind::F64 => {
                Some(u64::from(a != b))
            }
            (Opcode::Not, _) => Some(u64::from(a == 0)),
            (_, Kind::F64) => float(op, a, b),
            (_, kind @ (Kind::I64 | Kind::I32 | Kind::U8)) => {
                match integer(op, kind, a as i64, b as i64) {
                    Ok(value) => value.map(|value| value as u64),
                    Err(_) => None,
                }
            }
            _ => None,
        };
        match result {
            Some(value) => {
                self.set(op.to, value);
                true
            }
            None => false,
        }
    }
}

fn word(value: Option<i64>) -> Option<u64> {
    value.map(|value| value as u64)
}

fn float(op: &Op, a: u64, b: u64) -> Option<u64> {
    let (a, b) = (f64::from_bits(a), f64::from_bits(b));
    // One bit pattern for all that is not a number: results must not depend on the machine.
    let number = |value: f64| Some(if value.is_nan() { f64::NAN } else { value }.to_bits());
    match op.op {
        Opcode::Add => number(a + b),
        Opcode::Sub => number(a - b),
        Opcode::Mul => number(a * b),
        Opcode::Div => number(a / b),
        Opcode::Neg => number(-a),
        Opcode::Abs => number(a.abs()),
        Opcode::Sqrt => number(a.sqrt()),
        Opcode::Min => number(a.min(b)),
        Opcode::Max => number(a.max(b)),
        Opcode::Equal => Some(u64::from(a == b)),
        Opcode::NotEqual => Some(u64::from(a != b)),
        Opcode::Less => Some(u64::from(a < b)),
        Opcode::LessEqual => Some(u64::from(a <= b)),
        Opcode::Greater => Some(u64::from(a > b)),
        Opcode::GreaterEqual => Some(u64::from(a >= b)),
        _ => None,
    }
}

/// An operation on integers; none if it is not one.
pub(crate) fn integer(op: &Op, kind: Kind, a: i64, b: i64) -> Result<Option<i64>, Fault> {
    let (least, most, width) = match kind {
        Kind::I32 => (i64::from(i32::MIN), i64::from(i32::MAX), 32),
        Kind::U8 => (0, 255, 8),
        _ => (i64::MIN, i64::MAX, 64),
    };
    let ranged = |value: Option<i64>| match value {
        Some(value) if (least..=most).contains(&value) => Ok(Some(value)),
        _ => Err(overflow()),
    };
    let divisor = || if b == 0 { Err(panic("P003", "division by zero")) } else { Ok(()) };
    let distance = || match u32::try_from(b) {
        Ok(distance) if distance < width => Ok(distance),
        _ => Err(panic("P002", format!("a shift by {b} in {width} bits"))),
    };
    match op.op {
        Opcode::Add => ranged(a.checked_add(b)),
        Opcode::Sub => ranged(a.checked_sub(b)),
        Opcode::Mul => ranged(a.checked_mul(b)),
        Opcode::Div => divisor().and_then(|()| ranged(a.checked_div(b))),
        // The remainder of the least number by -1 is 0.
        Opcode::Rem => divisor().map(|()| Some(a.wrapping_rem(b))),
        Opcode::Pow => match u32::try_from(b) {
            Ok(power) => ranged(a.checked_pow(power)),
            Err(_) if b < 0 => Err(panic("P002", "a negative exponent")),
            Err(_) => {
                ranged(if (-1..=1).contains(&a) { a.checked_pow(2 + (b % 2) as u32) } else { None })
            }
        },
        Opcode::Neg => ranged(a.checked_neg()),
        Opcode::Abs => ranged(a.checked_abs()),
        Opcode::Wrap_Add => Ok(Some(a.wrapping_add(b))),
        Opcode::Wrap_Sub => Ok(Some(a.wrapping_sub(b))),
        Opcode::Wrap_Mul => Ok(Some(a.wrapping_mul(b))),
        Opcode::Min => Ok(Some(a.min(b))),
        Opcode::Max => Ok(Some(a.max(b))),
        Opcode::BitAnd => Ok(Some(a & b)),
        Opcode::BitOr => Ok(Some(a | b)),
        Opcode::Xor => Ok(Some(a ^ b)),
        // Bits that leave the type on the left are lost.
        Opcode::Shl => distance().map(|by| {
            let shifted = a.wrapping_shl(by);
            Some(match kind {
                Kind::I32 => i64::from(shifted as i32),
                Kind::U8 => i64::from(shifted as u8),
                _ => shifted,
            })
        }),
        Opcode::Shr => distance().map(|by| Some(a >> by)),
        _ => Ok(None),
    }
}
