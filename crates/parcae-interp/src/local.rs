//! Operations on the task's own values: texts, arrays, structs, functions, errors.

use crate::arithmetic::integer;
use crate::code::{Kind, Op};
use crate::failure::{Failure, Fault, overflow, panic};
use crate::heap::Object;
use crate::machine::Machine;
use parcae_ir::Opcode;
use std::fmt::Write;
use std::sync::Arc;

/// Copying this many bytes costs an op.
const BYTES_PER_OP: u64 = 64;

impl Machine<'_> {
    pub(crate) fn local(&mut self, op: &Op) -> Result<(), Fault> {
        let (a, b, c) = (self.get(op.a), self.get(op.b), self.get(op.c));
        let result = match op.op {
            Opcode::Constant => self.literal(op.imm)?,
            Opcode::Fn_Ref | Opcode::Closure_Create => {
                let captures =
                    op.args.iter().map(|(slot, kind)| (self.get(*slot), kind.is_ref())).collect();
                self.heap.put(Object::Closure { func: op.imm as u32, captures })?
            }
            Opcode::Convert => self.convert(op, a)?,
            Opcode::To_String => {
                let text = self.show(op.kind, a);
                self.new_text(&text)?
            }
            Opcode::Equal | Opcode::NotEqual => {
                let same = self.heap.text(a) == self.heap.text(b);
                u64::from(same == (op.op == Opcode::Equal))
            }
            Opcode::Less | Opcode::LessEqual | Opcode::Greater | Opcode::GreaterEqual => {
                let order = self.heap.text(a).cmp(self.heap.text(b));
                u64::from(match op.op {
                    Opcode::Less => order.is_lt(),
                    Opcode::LessEqual => order.is_le(),
                    Opcode::Greater => order.is_gt(),
                    _ => order.is_ge(),
                })
            }
            Opcode::String_Concat => {
                let (left, right) = (Arc::clone(self.heap.text(a)), Arc::clone(self.heap.text(b)));
                // Counted before it is built.
                let bytes = left.len() + right.len();
                self.heap.grow(bytes)?;
                self.heap.give_back(bytes);
                self.new_text(&[&*left, &*right].concat())?
            }
            Opcode::String_Slice => {
                let text = Arc::clone(self.heap.text(a));
                let (from, to) = range(b, c, text.len())?;
                let part = text.get(from..to);
                let part = part.ok_or_else(|| panic("P001", "a slice cuts a character"))?;
                self.new_text(part)?
            }
            Opcode::String_Index => {
                let text = self.heap.text(a);
                let byte = usize::try_from(b as i64).ok().and_then(|at| text.as_bytes().get(at));
                u64::from(*byte.ok_or_else(|| bounds(b, text.len()))?)
            }
            Opcode::String_Len => self.heap.text(a).len() as u64,
            Opcode::String_Parse => {
                let parsed = self.heap.text(a).trim().parse::<i64>();
                self.set(op.to + 1, u64::from(parsed.is_err()));
                parsed.unwrap_or(0) as u64
            }
            Opcode::String_Split => {
                let (text, by) = (Arc::clone(self.heap.text(a)), Arc::clone(self.heap.text(b)));
                self.meter.owe(text.len() as u64 / BYTES_PER_OP);
                let mut items = Vec::new();
                let parts: Box<dyn Iterator<Item = &str>> = if by.is_empty() {
                    Box::new(text.split_whitespace())
                } else {
                    Box::new(text.split(&*by))
                };
                for part in parts {
                    self.heap.grow(8)?;
                    items.push(self.new_text(part)?);
                }
                self.heap.put(Object::Array { items, refs: true })?
            }
            Opcode::Chr => {
                let char = u32::try_from(a as i64).ok().and_then(char::from_u32);
                let char =
                    char.ok_or_else(|| panic("P002", format!("{} is no character", a as i64)))?;
                self.new_text(char.encode_utf8(&mut [0; 4]))?
            }
            Opcode::Array_Construct => {
                let mut items = self.heap.reserve(op.args.len())?;
                items.extend(op.args.iter().map(|(slot, _)| self.get(*slot)));
                self.heap.put(Object::Array { items, refs: op.imm != 0 })?
            }
            Opcode::Array_New => {
                let count = usize::try_from(a as i64)
                    .map_err(|_| panic("P001", format!("an array of {} elements", a as i64)))?;
                let mut items = self.heap.reserve(count)?;
                self.meter.owe(count as u64 * 8 / BYTES_PER_OP);
                items.resize(count, b);
                self.heap.put(Object::Array { items, refs: op.imm != 0 })?
            }
            Opcode::Array_Len => self.heap.items(a).len() as u64,
            Opcode::Index => {
                let items = self.heap.items(a);
                let item = usize::try_from(b as i64).ok().and_then(|at| items.get(at));
                *item.ok_or_else(|| bounds(b, items.len()))?
            }
            Opcode::Index_Store => {
                let Object::Array { items, .. } = self.heap.get_mut(a) else {
                    unreachable!("verified")
                };
                let length = items.len();
                let item = usize::try_from(b as i64).ok().and_then(|at| items.get_mut(at));
                *item.ok_or_else(|| bounds(b, length))? = c;
                return Ok(());
            }
            Opcode::Array_Push => return self.heap.push(a, b),
            Opcode::Array_Pop => {
                self.heap.pop(a).ok_or_else(|| panic("P001", "pop from an empty array"))?
            }
            Opcode::Array_Slice => {
                let Object::Array { items, refs } = self.heap.get(a) else {
                    unreachable!("verified")
                };
                let (from, to) = range(b, c, items.len())?;
                let (refs, count) = (*refs, to - from);
                let mut copy = self.heap.reserve(count)?;
                self.meter.owe(count as u64 * 8 / BYTES_PER_OP);
                copy.extend_from_slice(&self.heap.items(a)[from..to]);
                self.heap.put(Object::Array { items: copy, refs })?
            }
            Opcode::Struct_Construct => {
                let fields = op.args.iter().map(|(slot, _)| self.get(*slot)).collect();
                self.heap.put(Object::Struct { id: op.imm as u32, fields })?
            }
            Opcode::Field_Access | Opcode::Field_Store => {
                let Object::Struct { id, fields } = self.heap.get(a) else {
                    unreachable!("verified")
                };
                if op.op == Opcode::Field_Access {
                    fields[op.imm as usize]
                } else {
                    let (id, mut fields) = (*id, fields.clone());
                    fields[op.imm as usize] = b;
                    self.heap.put(Object::Struct { id, fields })?
                }
            }
            Opcode::Cell_New => {
                let (value, refs) = (vec![a], op.kind.is_ref());
                self.heap.put(Object::Cell { value, refs })?
            }
            Opcode::Cell_Load => match self.heap.get(a) {
                Object::Cell { value, .. } => value[0],
                _ => unreachable!("verified"),
            },
            Opcode::Cell_Store => {
                if let Object::Cell { value, .. } = self.heap.get_mut(a) {
                    value[0] = b;
                }
                return Ok(());
            }
            Opcode::Error_Wrap => {
                self.set(op.to + 1, 0);
                if op.args.is_empty() { 0 } else { a }
            }
            Opcode::Error_Fail => {
                self.set(op.to + 1, a + 1);
                0
            }
            Opcode::Error_Is => u64::from(self.get(op.a + 1) != 0),
            Opcode::Error_Unwrap => a,
            Opcode::Error_Get => self.get(op.a + 1) - 1,
            Opcode::Failure_Is => {
                let Kind::Error(wanted) = op.args[1].1 else { unreachable!("verified") };
                u64::from(matches!(
                    &self.failure(a).kind,
                    Fault::Error { set, variant, .. } if *set == wanted && u64::from(*variant) == b
                ))
            }
            Opcode::Failure_Closed => u64::from(self.failure(a).is_closed()),
            Opcode::Failure_Code => {
                let kind = Fault::Code(a as i64);
                let failure = Failure { kind, at: Default::default(), func: "".into() };
                self.heap.put(Object::Failure(Box::new(failure)))?
            }
            Opcode::Args => {
                let texts = self.host.args.clone();
                let mut items = self.heap.reserve(texts.len())?;
                for text in &texts {
                    items.push(self.new_text(text)?);
                }
                self.heap.put(Object::Array { items, refs: true })?
            }
            Opcode::Assert if a != 0 => return Ok(()),
            Opcode::Assert => return Err(panic("P004", "an assertion failed")),
            Opcode::Trap => return Err(panic("P005", Arc::clone(self.heap.text(a)))),
            Opcode::Raise => {
                let Kind::Error(set) = op.kind else { unreachable!("verified") };
                let name = Arc::clone(&self.code.errors[set as usize][a as usize]);
                return Err(Fault::Error { set, variant: a as u32, name });
            }
            Opcode::Shield_Begin => {
                self.meter.shield();
                return Ok(());
            }
            Opcode::Shield_End => {
                self.meter.unshield();
                return Ok(());
            }
            Opcode::Channel_Create => self.new_channel(a)?,
            Opcode::Select_Begin
            | Opcode::Select_Add_Recv
            | Opcode::Select_Add_Send
            | Opcode::Select_Add_Timeout
            | Opcode::Select_Add_Default => return self.add_case(op),
            Opcode::Select_Get_Value => return self.chosen_value(op),
            // An operation on integers that fails.
            _ => match integer(op, op.kind, a as i64, b as i64)? {
                Some(value) => value as u64,
                None => unreachable!("verified: {:?}", op.op),
            },
        };
        if op.gives != Kind::Void {
            self.set(op.to, result);
        }
        Ok(())
    }

    pub(crate) fn failure(&self, reference: u64) -> &Failure {
        match self.heap.get(reference) {
            Object::Failure(failure) => failure,
            _ => unreachable!("verified"),
        }
    }

    pub(crate) fn new_text(&mut self, text: &str) -> Result<u64, Fault> {
        self.meter.owe(text.len() as u64 / BYTES_PER_OP);
        self.heap.put(Object::Text(text.into()))
    }

    fn convert(&self, op: &Op, a: u64) -> Result<u64, Fault> {
        let integer: i64 = match op.kind {
            Kind::F64 => {
                let value = f64::from_bits(a);
                if op.gives == Kind::F64 {
                    return Ok(a);
                }
                // Truncated; the greatest i64 is not a float.
                let edge = 2.0_f64.powi(63);
                if !(-edge..edge).contains(&value) {
                    return Err(overflow());
                }
                value as i64
            }
            _ => a as i64,
        };
        match op.gives {
            Kind::F64 => Ok((integer as f64).to_bits()),
            Kind::I32 => {
                i32::try_from(integer).map(|v| i64::from(v) as u64).map_err(|_| overflow())
            }
            Kind::U8 => u8::try_from(integer).map(u64::from).map_err(|_| overflow()),
            _ => Ok(integer as u64),
        }
    }

    /// The text of a value.
    fn show(&self, kind: Kind, value: u64) -> String {
        let mut out = String::new();
        let _ = match kind {
            Kind::Bool => write!(out, "{}", value != 0),
            Kind::F64 => {
                let value = f64::from_bits(value);
                // A float is recognised by its point.
                if value.is_finite() && value.fract() == 0.0 && value.abs() < 1e15 {
                    write!(out, "{value:.1}")
                } else {
                    write!(out, "{value}")
                }
            }
            Kind::Error(set) => {
                write!(out, "{}", self.code.errors[set as usize][value as usize])
            }
            Kind::Text => write!(out, "{}", self.heap.text(value)),
            Kind::Failure => write!(out, "{}", self.failure(value)),
            _ => write!(out, "{}", value as i64),
        };
        out
    }
}

fn bounds(index: u64, length: usize) -> Fault {
    panic("P001", format!("index {} is out of bounds, the length is {length}", index as i64))
}

fn range(from: u64, to: u64, length: usize) -> Result<(usize, usize), Fault> {
    let (start, end) = (usize::try_from(from as i64), usize::try_from(to as i64));
    match (start, end) {
        (Ok(start), Ok(end)) if start <= end && end <= length => Ok((start, end)),
        _ => Err(panic(
            "P001",
            format!(
                "the range {}..<{} is out of bounds, the length is {length}",
                from as i64, to as i64
            ),
        )),
    }
}
