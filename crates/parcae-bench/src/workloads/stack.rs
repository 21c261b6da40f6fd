//! `stack`: the cost of acquiring and releasing a stack, warm and cold.
//!
//! Warm is the case of a running program, for which only parcae has a pool; a peer's user would
//! have to write one. Cold is the case of the first fibers of a program: system calls for the
//! mapping and the guard, and a page fault for the first byte.

use super::{STACK_SIZE, nanos_per};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use corosensei::stack::{DefaultStack, Stack as _};
use parcae::stack::{Stack, StackOpts, StackPool};
use std::hint::black_box;
use std::ptr;
use std::time::Instant;

pub(super) static STACK: Workload = Workload {
    name: "stack",
    rounds: Rounds { full: 11, quick: 3 },
    variants: &[
        Variant {
            name: "warm",
            about: "take a stack from a worker's cache and put it back",
            unit: "ns/stack",
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, warm)],
        },
        Variant {
            name: "warm_shared",
            about: "take a stack from the shared pool, which locks, and put it back",
            unit: "ns/stack",
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, warm_shared)],
        },
        Variant {
            name: "cold",
            about: "2000 new stacks from nothing: address space, guard, first byte at the top",
            unit: "ns/stack",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, cold::<Pooled>),
                Side::new(Peer::Corosensei, cold::<Mapped>),
            ],
        },
        Variant {
            name: "first_touch",
            about: "of cold, the first byte only: a page fault",
            unit: "ns/page",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, first_touch::<Pooled>),
                Side::new(Peer::Corosensei, first_touch::<Mapped>),
            ],
        },
        Variant {
            name: "give_back",
            about: "2000 touched stacks, and their pool, until the system has all memory back",
            unit: "ns/stack",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, give_back::<Pooled>),
                Side::new(Peer::Corosensei, give_back::<Mapped>),
            ],
        },
        Variant {
            name: "trim",
            about: "give back the memory of 2000 idle stacks, which stay usable",
            unit: "ns/stack",
            better: Better::Lower,
            sides: &[Side::new(Peer::Parcae, trim)],
        },
    ],
};

/// Where new stacks come from.
pub(super) trait Source: Sized {
    /// A stack of [`STACK_SIZE`] with a guard.
    type Stack;

    /// A new source.
    fn open() -> Result<Self, Failure>;

    /// A stack that was never used.
    fn acquire(&self) -> Result<Self::Stack, Failure>;

    /// Where the stack begins: the address above its memory.
    fn top(stack: &Self::Stack) -> *mut u8;
}

/// Parcae: arenas, guards in the page tables where the kernel can.
pub(super) struct Pooled(StackPool);

impl Source for Pooled {
    type Stack = Stack;

    fn open() -> Result<Pooled, Failure> {
        Ok(Pooled(StackPool::new()?))
    }

    fn acquire(&self) -> Result<Stack, Failure> {
        Ok(self.0.acquire(STACK_SIZE)?)
    }

    fn top(stack: &Stack) -> *mut u8 {
        stack.top()
    }
}

/// Corosensei: two system calls per stack, two mappings.
pub(super) struct Mapped;

impl Source for Mapped {
    type Stack = DefaultStack;

    fn open() -> Result<Mapped, Failure> {
        Ok(Mapped)
    }

    fn acquire(&self) -> Result<DefaultStack, Failure> {
        Ok(DefaultStack::new(STACK_SIZE.bytes())?)
    }

    fn top(stack: &DefaultStack) -> *mut u8 {
        ptr::with_exposed_provenance_mut(stack.base().get())
    }
}

/// Writes a byte where the first frame of a fiber would be.
pub(super) fn touch<S: Source>(stack: &S::Stack) {
    // SAFETY: the stack is larger than 64 bytes, writable up to its top, and held by the
    // caller; nothing runs on it.
    unsafe { S::top(stack).sub(64).write_volatile(1) };
}

/// Stacks per measurement of the cold variants: 8 MiB once touched. On every scale, because
/// the figures depend on it: a pool keeps the memory of its first idle stacks.
const FRESH: usize = 2000;

fn warm(scale: &Scale) -> Result<f64, Failure> {
    let mut cache = StackPool::new()?.cache();
    let first = cache.acquire(STACK_SIZE)?;
    cache.release(first);
    let count = black_box(scale.of(5_000_000));
    let start = Instant::now();
    for _ in 0..count {
        let stack = black_box(cache.acquire(STACK_SIZE)?);
        cache.release(stack);
    }
    Ok(nanos_per(start, count))
}

fn warm_shared(scale: &Scale) -> Result<f64, Failure> {
    let pool = StackPool::new()?;
    drop(pool.acquire(STACK_SIZE)?);
    let count = black_box(scale.of(1_000_000));
    let start = Instant::now();
    for _ in 0..count {
        drop(black_box(pool.acquire(STACK_SIZE)?));
    }
    Ok(nanos_per(start, count))
}

fn cold<S: Source>(_: &Scale) -> Result<f64, Failure> {
    let mut stacks = Vec::with_capacity(FRESH);
    let start = Instant::now();
    let source = S::open()?;
    for _ in 0..FRESH {
        let stack = source.acquire()?;
        touch::<S>(&stack);
        stacks.push(stack);
    }
    Ok(nanos_per(start, FRESH))
}

fn first_touch<S: Source>(_: &Scale) -> Result<f64, Failure> {
    let (stacks, _source) = fresh::<S>()?;
    let start = Instant::now();
    stacks.iter().for_each(touch::<S>);
    Ok(nanos_per(start, FRESH))
}

fn give_back<S: Source>(_: &Scale) -> Result<f64, Failure> {
    let (stacks, source) = fresh::<S>()?;
    stacks.iter().for_each(touch::<S>);
    let start = Instant::now();
    drop(stacks);
    drop(source);
    Ok(nanos_per(start, FRESH))
}

/// Untouched stacks, all held at once.
fn fresh<S: Source>() -> Result<(Vec<S::Stack>, S), Failure> {
    let source = S::open()?;
    let stacks = (0..FRESH).map(|_| source.acquire()).collect::<Result<_, _>>()?;
    Ok((stacks, source))
}

fn trim(_: &Scale) -> Result<f64, Failure> {
    let pool = Pooled(StackPool::with(StackOpts::new().keep_warm(FRESH))?);
    let stacks: Vec<Stack> = (0..FRESH).map(|_| pool.acquire()).collect::<Result<_, _>>()?;
    stacks.iter().for_each(touch::<Pooled>);
    drop(stacks);
    let start = Instant::now();
    let trimmed = pool.0.trim();
    let nanos = nanos_per(start, FRESH);
    if trimmed == FRESH {
        Ok(nanos)
    } else {
        Err(format!("{trimmed} stacks were trimmed instead of {FRESH}").into())
    }
}
