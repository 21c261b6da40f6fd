//! Tokens: a run as text.
//!
//! `pcr1.` and base64url of bytes. Numbers are little-endian base 128 with a continuation bit.
//!
//! | field | |
//! |---|---|
//! | form | 0 for a seed, 1 for choices |
//! | strategy | its position in [`Strategy::ALL`]; of choices, the one that found them |
//! | workers | 0 for a schedule in which the strategy chooses the task itself |
//! | limit, seed, faults | settings of the schedule |
//! | hash | of the operations of the run; 0 if it is not known |
//! | seed form: memory | numbers that the strategy has learnt from earlier schedules |
//! | choice form: tasks, deviations | a tree of tasks, and the choices that differ from the default policy |
//! | choice form: trace | length of the run; for each of its first steps the kind of the operation, plus 32 where the task changes and 64 where the object changes; then the numbers of these |
//!
//! A task is its parent and the number of siblings before it, so a token says nothing about
//! addresses, and is valid as long as the tasks do the same operations.

use super::divergence::{Trace, TraceStep};
use crate::sched::lab::{
    ChoicePhase, Deviation, FaultRates, OpKind, ROOT_PATH, Strategy, TaskLabel, child_path,
};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "pcr1.";
/// Added to the kind of an operation of another task than the one before.
const SWITCH: u64 = 32;
/// Added to the kind of an operation on another object than the one before.
const OBJECT: u64 = 64;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A run that can be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) strategy: Strategy,
    /// 0: the strategy chooses the task itself.
    pub(super) workers: usize,
    pub(super) limit: u64,
    pub(super) seed: u64,
    pub(super) faults: FaultRates,
    pub(super) hash: u64,
    pub(super) form: TokenForm,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenForm {
    Seed {
        memory: Vec<u64>,
    },
    Choices {
        tasks: Vec<(Option<u32>, u32)>,
        deviations: Vec<Deviation>,
        /// The steps of the run, and the first of them.
        steps: u64,
        trace: Trace,
    },
}

/// A text that is no token of this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenError {
    text: String,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no token of this version", self.text)?;
        match self.text.trim().starts_with(PREFIX) {
            true => f.write_str(": a part of it is missing, or it has changed"),
            false => write!(f, "; tokens begin with `{PREFIX}`"),
        }
    }
}

impl std::error::Error for TokenError {}

/// Parents and positions of tasks.
pub(super) fn tree(labels: &[TaskLabel]) -> Vec<(Option<u32>, u32)> {
    labels.iter().map(|label| (label.parent, label.nth)).collect()
}

/// The paths of tasks.
pub(super) fn paths(tasks: &[(Option<u32>, u32)]) -> Option<Vec<u64>> {
    let mut paths: Vec<u64> = Vec::with_capacity(tasks.len());
    for &(parent, nth) in tasks {
        let above = match parent {
            Some(parent) => *paths.get(parent as usize)?,
            None => ROOT_PATH,
        };
        paths.push(child_path(above, nth));
    }
    Some(paths)
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn number(&mut self, mut number: u64) -> &mut Bytes {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }
}

struct Reading<'b>(&'b [u8]);

impl Reading<'_> {
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0_u64, 0);
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }

    /// The length of a list whose elements have at least one byte each.
    fn length(&mut self) -> Option<usize> {
        let length = usize::try_from(self.number()?).ok()?;
        (length <= self.0.len()).then_some(length)
    }
}

impl Token {
    /// The text, as bytes.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut out = Bytes(Vec::with_capacity(128));
        let position = Strategy::ALL.iter().position(|&one| one == self.strategy).unwrap_or(0);
        let form = u64::from(matches!(self.form, TokenForm::Choices { .. }));
        out.number(form).number(position as u64).number(self.workers as u64).number(self.limit);
        out.number(self.seed).number(self.hash);
        let FaultRates { spurious, late, spawn, stacks, close, stall, .. } = self.faults;
        let FaultRates { cancel_at, budget_at, recharge_at, .. } = self.faults;
        for rate in [spurious, late, spawn, stacks, close, stall] {
            out.number(rate.into());
        }
        for at in [cancel_at, budget_at, recharge_at] {
            out.number(at.map_or(0, |at| at + 1));
        }
        match &self.form {
            TokenForm::Seed { memory } => {
                out.number(memory.len() as u64);
                for &number in memory {
                    out.number(number);
                }
            }
            TokenForm::Choices { tasks, deviations, steps, trace } => {
                let known = paths(tasks).unwrap_or_default();
                let known: HashMap<u64, u64> = known.into_iter().zip(1..).collect();
                let of = |path: u64| known.get(&path).copied().unwrap_or(0);
                // Only tasks that a deviation names, and those above them.
                let used = deviations.iter().flat_map(|d| match d.phase {
                    ChoicePhase::Number(_) => [of(d.path), 0],
                    ChoicePhase::Before | ChoicePhase::Left => [of(d.path), of(d.target)],
                });
                let count = used.max().unwrap_or(0);
                out.number(count);
                for &(parent, nth) in &tasks[..count as usize] {
                    out.number(parent.map_or(0, |parent| u64::from(parent) + 1)).number(nth.into());
                }
                out.number(deviations.len() as u64);
                for deviation in deviations {
                    out.number(of(deviation.path)).number(deviation.ops.into());
                    match deviation.phase {
                        ChoicePhase::Before => out.number(0).number(of(deviation.target)),
                        ChoicePhase::Left => out.number(1).number(of(deviation.target)),
                        ChoicePhase::Number(nth) => {
                            out.number(2 + u64::from(nth)).number(deviation.target)
                        }
                    };
                }
                out.number(*steps).number(trace.len() as u64);
                let mut last = (0, 0);
                for &TraceStep { task, op, object } in trace {
                    let switch = if task == last.0 { 0 } else { SWITCH };
                    let other = if object == last.1 { 0 } else { OBJECT };
                    out.number(op.number() + switch + other);
                    if switch > 0 {
                        out.number(task.into());
                    }
                    if other > 0 {
                        out.number(object.into());
                    }
                    last = (task, object);
                }
            }
        }
        let mut text = Vec::with_capacity(PREFIX.len() + out.0.len() / 3 * 4 + 4);
        text.extend_from_slice(PREFIX.as_bytes());
        for chunk in out.0.chunks(3) {
            let word = chunk.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte));
            let word = word << (8 * (3 - chunk.len()));
            let digit = |at| DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            text.extend((0..=chunk.len()).map(digit));
        }
        text
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text()))
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Token, TokenError> {
        parse(text.trim()).ok_or_else(|| TokenError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Token> {
    let digits = text.strip_prefix(PREFIX)?.as_bytes();
    let mut bytes = Vec::new();
    for chunk in digits.chunks(4) {
        let mut word = 0_u32;
        for digit in chunk {
            word = word << 6 | DIGITS.iter().position(|known| known == digit)? as u32;
        }
        word <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    let mut read = Reading(&bytes);
    let form = read.number()?;
    let strategy = *Strategy::ALL.get(read.number()? as usize)?;
    let (workers, limit) = (read.number()? as usize, read.number()?);
    let (seed, hash) = (read.number()?, read.number()?);
    let mut rate = || u32::try_from(read.number()?).ok();
    let (spurious, late, spawn) = (rate()?, rate()?, rate()?);
    let (stacks, close, stall) = (rate()?, rate()?, rate()?);
    let mut place = || Some(read.number()?.checked_sub(1));
    let (cancel_at, budget_at, recharge_at) = (place()?, place()?, place()?);
    let faults = FaultRates {
        spurious,
        late,
        spawn,
        stacks,
        close,
        stall,
        cancel_at,
        budget_at,
        recharge_at,
    };
    let form = match form {
        0 => {
            let length = read.length()?;
            let memory = (0..length).map(|_| read.number()).collect::<Option<_>>()?;
            TokenForm::Seed { memory }
        }
        1 => {
            let count = read.length()?;
            let mut tasks = Vec::with_capacity(count);
            for _ in 0..count {
                let parent = read.number()?.checked_sub(1).map(|parent| parent as u32);
                tasks.push((parent, u32::try_from(read.number()?).ok()?));
            }
            let known = paths(&tasks)?;
            let path = |at: u64| match at.checked_sub(1) {
                Some(at) => known.get(at as usize).copied(),
                None => Some(0),
            };
            let length = read.length()?;
            let mut deviations = Vec::with_capacity(length);
            for _ in 0..length {
                let acting = path(read.number()?)?;
                let ops = u32::try_from(read.number()?).ok()?;
                let (phase, target) = match (read.number()?, read.number()?) {
                    (0, target) => (ChoicePhase::Before, path(target)?),
                    (1, target) => (ChoicePhase::Left, path(target)?),
                    (nth, target) => (ChoicePhase::Number(u32::try_from(nth - 2).ok()?), target),
                };
                deviations.push(Deviation { path: acting, ops, phase, target });
            }
            let (steps, length) = (read.number()?, read.length()?);
            let mut trace: Trace = Vec::with_capacity(length);
            let (mut task, mut object) = (0, 0);
            for _ in 0..length {
                let kind = read.number()?;
                if kind & SWITCH != 0 {
                    task = u32::try_from(read.number()?).ok()?;
                }
                if kind & OBJECT != 0 {
                    object = u32::try_from(read.number()?).ok()?;
                }
                let op = OpKind::of_number(kind & !(SWITCH | OBJECT));
                trace.push(TraceStep { task, op, object });
            }
            TokenForm::Choices { tasks, deviations, steps, trace }
        }
        _ => return None,
    };
    Some(Token { strategy, workers, limit, seed, faults, hash, form })
}
