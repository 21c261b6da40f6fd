//! `switch`: the cost of switching to a fiber and back, and of running a short closure on one.
//!
//! A fiber counts its activations and suspends, in an endless loop. The resumer's loop is the same
//! code for all peers, made from [`Switching`]; only the two calls in it differ. Nothing is passed
//! in or out, because parcae's fibers pass nothing: the peers are instantiated with `()`, of which
//! there is nothing to copy.

use super::{STACK_SIZE, nanos_per};
use crate::case::{Better, Failure, Peer, Rounds, Scale, Side, Variant, Workload};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use generator::{Gn, LocalGenerator};
use parcae::fiber::{Fiber, Step};
use parcae::stack::StackPool;
use std::cell::Cell;
use std::hint::black_box;
use std::time::Instant;

pub(super) static SWITCH: Workload = Workload {
    name: "switch",
    rounds: Rounds { full: 15, quick: 3 },
    variants: &[
        Variant {
            name: "one",
            about: "one fiber, resumed over and over; half of a resume and suspend",
            unit: "ns/switch",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, one::<Fiber>),
                Side::new(Peer::Corosensei, one::<Coroutine<(), (), ()>>),
                Side::new(Peer::Generator, one::<LocalGenerator<'static, (), ()>>),
            ],
        },
        Variant {
            name: "t1000",
            about: "1000 fibers, resumed in turn; half of a resume and suspend",
            unit: "ns/switch",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, t1000::<Fiber>),
                Side::new(Peer::Corosensei, t1000::<Coroutine<(), (), ()>>),
                Side::new(Peer::Generator, t1000::<LocalGenerator<'static, (), ()>>),
            ],
        },
        Variant {
            name: "nested",
            about: "as one, but both sides are two calls deep and return from them after it",
            unit: "ns/switch",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, nested::<Fiber>),
                Side::new(Peer::Corosensei, nested::<Coroutine<(), (), ()>>),
                Side::new(Peer::Generator, nested::<LocalGenerator<'static, (), ()>>),
            ],
        },
        Variant {
            name: "create_reuse",
            about: "a closure from start to end, on a stack that has run others before",
            unit: "ns/closure",
            better: Better::Lower,
            sides: &[
                Side::new(Peer::Parcae, create_reuse_parcae),
                Side::new(Peer::Corosensei, create_reuse_corosensei),
                Side::new(Peer::Generator, create_reuse_generator),
            ],
        },
    ],
};

/// A coroutine that suspends itself repeatedly.
trait Switching: Sized {
    /// As many as asked for, each one suspended after its first [`Ticks::count`]; directly
    /// in its closure, or [`NESTED`].
    fn group<const DEPTH: bool>(count: usize) -> Result<Vec<Self>, Failure>;

    /// Resumes it; returns whether it is suspended again.
    fn resume(&mut self) -> bool;
}

impl Switching for Fiber {
    fn group<const DEPTH: bool>(count: usize) -> Result<Vec<Fiber>, Failure> {
        let pool = StackPool::new()?;
        let started = |_| {
            let mut fiber = Fiber::new(pool.acquire(STACK_SIZE)?, "bench")?;
            fiber
                .start(|fiber| {
                    loop {
                        Ticks::count();
                        at::<DEPTH, _>(|| fiber.suspend().expect("nobody panics here"));
                    }
                })?
                .propagate();
            Ok(fiber)
        };
        (0..count).map(started).collect()
    }

    #[inline]
    fn resume(&mut self) -> bool {
        matches!(Fiber::resume(self), Ok(Step::Suspended))
    }
}

impl Switching for Coroutine<(), (), ()> {
    fn group<const DEPTH: bool>(count: usize) -> Result<Vec<Self>, Failure> {
        let started = |_| {
            let stack = DefaultStack::new(STACK_SIZE.bytes())?;
            let mut coroutine = Coroutine::with_stack(stack, |yielder, ()| {
                loop {
                    Ticks::count();
                    at::<DEPTH, _>(|| yielder.suspend(()));
                }
            });
            coroutine.resume(());
            Ok(coroutine)
        };
        (0..count).map(started).collect()
    }

    #[inline]
    fn resume(&mut self) -> bool {
        matches!(Coroutine::resume(self, ()), CoroutineResult::Yield(()))
    }
}

impl Switching for LocalGenerator<'static, (), ()> {
    fn group<const DEPTH: bool>(count: usize) -> Result<Vec<Self>, Failure> {
        let started = |_| {
            let mut generator = Gn::<()>::new_scoped_opt_local(STACK_WORDS, |mut scope| {
                loop {
                    Ticks::count();
                    at::<DEPTH, _>(|| scope.yield_with(()));
                }
            });
            generator.resume();
            Ok(generator)
        };
        (0..count).map(started).collect()
    }

    #[inline]
    fn resume(&mut self) -> bool {
        LocalGenerator::resume(self).is_some()
    }
}

/// The stack size in the unit of `generator`. Even, because with an odd size it fills the whole
/// stack with a pattern.
const STACK_WORDS: usize = STACK_SIZE.bytes() / size_of::<usize>();

/// The switch is called in the loop itself, where nothing ever returns.
const DIRECT: bool = false;
/// The switch is called two functions below the loop. After it they return, to where the
/// processor's return predictor does not expect them: it knows of only one stack.
const NESTED: bool = true;

#[inline(always)]
fn at<const DEPTH: bool, R>(switch: impl FnOnce() -> R) -> R {
    if DEPTH == NESTED { two_calls_deep(switch) } else { switch() }
}

#[inline(never)]
fn two_calls_deep<R>(switch: impl FnOnce() -> R) -> R {
    let result = one_call_deep(switch);
    black_box(()); // prevents a tail call
    result
}

#[inline(never)]
fn one_call_deep<R>(switch: impl FnOnce() -> R) -> R {
    let result = switch();
    black_box(());
    result
}

fn one<S: Switching>(scale: &Scale) -> Result<f64, Failure> {
    round_robin::<S, DIRECT>(1, scale.of(5_000_000))
}

fn t1000<S: Switching>(scale: &Scale) -> Result<f64, Failure> {
    round_robin::<S, DIRECT>(1000, scale.of(2000))
}

fn nested<S: Switching>(scale: &Scale) -> Result<f64, Failure> {
    round_robin::<S, NESTED>(1, scale.of(1_000_000))
}

/// Resumes each of a group in turn, `passes` times.
fn round_robin<S: Switching, const DEPTH: bool>(
    count: usize,
    passes: usize,
) -> Result<f64, Failure> {
    let mut group = black_box(S::group::<DEPTH>(count)?);
    let resumes = count * black_box(passes);
    let ticks = Ticks::now();
    let start = Instant::now();
    for _ in 0..passes {
        for each in &mut group {
            if !at::<DEPTH, _>(|| each.resume()) {
                return Err("a fiber ended that should not have".into());
            }
        }
    }
    let nanos = nanos_per(start, 2 * resumes);
    ticks.expect(resumes)?;
    Ok(nanos)
}

/// How many closures `create_reuse` runs.
const CLOSURES: usize = 1_000_000;

fn create_reuse_parcae(scale: &Scale) -> Result<f64, Failure> {
    let mut fiber = Fiber::new(StackPool::new()?.acquire(STACK_SIZE)?, "bench")?;
    closures(scale, || matches!(fiber.start(|_| Ticks::count()), Ok(Step::Finished)))
}

fn create_reuse_corosensei(scale: &Scale) -> Result<f64, Failure> {
    let mut stack = Some(DefaultStack::new(STACK_SIZE.bytes())?);
    closures(scale, || {
        let Some(own) = stack.take() else {
            return false;
        };
        let mut coroutine = Coroutine::<(), (), ()>::with_stack(own, |_, ()| Ticks::count());
        let ended = matches!(coroutine.resume(()), CoroutineResult::Return(()));
        stack = Some(coroutine.into_stack());
        ended
    })
}

fn create_reuse_generator(scale: &Scale) -> Result<f64, Failure> {
    let mut generator = Gn::<()>::new_scoped_opt_local(STACK_WORDS, |_| {});
    generator.resume();
    closures(scale, || {
        generator.scoped_init(|_| Ticks::count());
        generator.resume().is_some() && generator.is_done()
    })
}

/// Times `run`, which runs one counting closure and returns whether it ended.
fn closures(scale: &Scale, mut run: impl FnMut() -> bool) -> Result<f64, Failure> {
    let count = black_box(scale.of(CLOSURES));
    let ticks = Ticks::now();
    let start = Instant::now();
    for _ in 0..count {
        if !run() {
            return Err("a closure did not end".into());
        }
    }
    let nanos = nanos_per(start, count);
    ticks.expect(count)?;
    Ok(nanos)
}

/// The work of every fiber: one more on this thread's counter. It is checked afterwards,
/// so whatever was timed did happen.
struct Ticks(u64);

thread_local! {
    // The thread's, and not the fiber's, so that the closures need to capture nothing. The
    // fibers stay on their thread; an access is one instruction in an executable.
    static TICKS: Cell<u64> = const { Cell::new(0) };
}

impl Ticks {
    #[inline]
    fn count() {
        TICKS.set(TICKS.get() + 1);
    }

    fn now() -> Ticks {
        Ticks(TICKS.get())
    }

    fn expect(&self, count: usize) -> Result<(), Failure> {
        let counted = TICKS.get() - self.0;
        if counted == count as u64 {
            Ok(())
        } else {
            Err(format!("{counted} activations instead of {count}").into())
        }
    }
}
