//! Fibers: order of control, panics, drops, refusals, backtraces.

use super::*;
use crate::stack::{StackError, StackOpts, StackPool, StackSize};
use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

fn pool() -> StackPool {
    StackPool::new().expect("a pool")
}

fn fiber(pool: &StackPool) -> Fiber {
    let stack = pool.acquire(StackSize::SERVICE).expect("a stack");
    Fiber::new(stack, "test").expect("a fiber")
}

/// Appends to a shared log when dropped.
struct Drops(Rc<RefCell<Vec<&'static str>>>, &'static str);

impl Drop for Drops {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

fn log() -> Rc<RefCell<Vec<&'static str>>> {
    Rc::default()
}

/// A small generator of test data; the numbers are splitmix64's.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

#[test]
fn a_step_can_be_propagated() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    assert!(fiber.start(|f| f.suspend().unwrap()).unwrap().propagate());
    assert!(!fiber.resume().unwrap().propagate());
    let step = fiber.start(|_| resume_unwind(Box::new(7))).unwrap();
    let payload = catch_unwind(AssertUnwindSafe(|| step.propagate())).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&7));
}

// rule: S0-CTX-1, S0-TERM-3
#[test]
fn control_passes_back_and_forth() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    let said = log();
    let inside = Rc::clone(&said);
    let step = fiber.start(move |f| {
        inside.borrow_mut().push("a");
        f.suspend().unwrap();
        inside.borrow_mut().push("b");
        f.suspend().unwrap();
        inside.borrow_mut().push("c");
    });
    assert!(matches!(step, Ok(Step::Suspended)));
    said.borrow_mut().push("1");
    assert!(fiber.is_suspended());
    assert!(matches!(fiber.resume(), Ok(Step::Suspended)));
    said.borrow_mut().push("2");
    assert!(matches!(fiber.resume(), Ok(Step::Finished)));
    assert!(!fiber.is_suspended());
    assert_eq!(*said.borrow(), ["a", "1", "b", "2", "c"]);
}

// rule: S4-LIFE-1, S4-LIFE-3, S4-LIFE-4, S4-LIFE-5, S4-TERM-1, S4-TERM-3
#[test]
fn a_fiber_runs_one_closure_after_another() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    let sum = Rc::new(Cell::new(0));
    for n in 0..10_000_u64 {
        let sum = Rc::clone(&sum);
        let step = fiber.start(move |f| {
            if n % 3 == 0 {
                f.suspend().unwrap();
            }
            sum.set(sum.get() + n);
        });
        if n % 3 == 0 {
            assert!(matches!(step, Ok(Step::Suspended)));
            assert!(matches!(fiber.resume(), Ok(Step::Finished)));
        } else {
            assert!(matches!(step, Ok(Step::Finished)));
        }
    }
    assert_eq!(sum.get(), 9_999 * 10_000 / 2);
    assert_eq!(pool.stats().created, 1, "all on one stack");
}

#[test]
fn closures_of_any_size_and_alignment_are_moved_in_whole() {
    #[repr(align(256))]
    struct Wide([u8; 4096]);

    let pool = pool();
    let mut fiber = fiber(&pool);
    let wide = Wide([0xa5; 4096]);
    let sum = Rc::new(Cell::new(0_usize));
    let out = Rc::clone(&sum);
    let step = fiber.start(move |f| {
        let aligned = (&raw const wide).addr().is_multiple_of(256);
        f.suspend().unwrap();
        assert!(aligned);
        out.set(wide.0.iter().map(|&b| usize::from(b)).sum());
    });
    assert!(matches!(step, Ok(Step::Suspended)));
    assert!(matches!(fiber.resume(), Ok(Step::Finished)));
    assert_eq!(sum.get(), 4096 * 0xa5);
}

#[test]
fn wrong_orders_are_refused_and_change_nothing() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    assert_eq!(fiber.resume().unwrap_err(), Refused::Idle);
    let dropped = log();
    fiber.start(|f| f.suspend().unwrap()).unwrap();
    let unused = Drops(Rc::clone(&dropped), "unused");
    let again = fiber.start(move |_| {
        let _unused = unused;
        unreachable!("a busy fiber must not run another closure");
    });
    assert_eq!(again.unwrap_err(), Refused::Busy);
    assert_eq!(*dropped.borrow(), ["unused"], "a refused closure is dropped");
    assert!(matches!(fiber.resume(), Ok(Step::Finished)));
    assert_eq!(fiber.resume().unwrap_err(), Refused::Idle);
}

#[test]
fn a_panic_ends_at_the_base_and_keeps_its_payload() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    let dropped = log();
    let local = Drops(Rc::clone(&dropped), "local");
    let step = fiber.start(move |f| {
        let _local = local;
        f.suspend().unwrap();
        std::panic::resume_unwind(Box::new(String::from("boom")));
    });
    assert!(matches!(step, Ok(Step::Suspended)));
    let Ok(Step::Panicked(payload)) = fiber.resume() else { panic!("expected a panic") };
    assert_eq!(payload.downcast_ref::<String>().map(String::as_str), Some("boom"));
    assert_eq!(*dropped.borrow(), ["local"]);
    assert!(!thread::panicking());
    // And the fiber is as good as new.
    assert!(matches!(fiber.start(|_| {}), Ok(Step::Finished)));
}

// rule: S4-STACK-6
#[test]
fn a_panic_with_a_message_and_hook_fits_the_smallest_sensible_stack() {
    let pool = pool();
    let stack = pool.acquire(StackSize::CORE).unwrap();
    let mut fiber = Fiber::new(stack, "panics").unwrap();
    let number = std::hint::black_box(42);
    let step = fiber.start(move |_| panic!("expected in this test: {number}"));
    let Ok(Step::Panicked(payload)) = step else { panic!("expected a panic") };
    assert_eq!(
        payload.downcast_ref::<String>().map(String::as_str),
        Some("expected in this test: 42")
    );
}

#[test]
fn dropping_a_suspended_fiber_unwinds_it() {
    let pool = pool();
    let dropped = log();
    {
        let mut fiber = fiber(&pool);
        let (outer, inner) = (Drops(dropped.clone(), "outer"), Drops(dropped.clone(), "inner"));
        fiber
            .start(move |f| {
                let _outer = outer;
                let nested = || {
                    let _inner = inner;
                    f.suspend().unwrap();
                    unreachable!("a dropped fiber does not go on");
                };
                nested();
            })
            .unwrap();
        assert!(dropped.borrow().is_empty());
    }
    assert_eq!(*dropped.borrow(), ["inner", "outer"]);
    assert_eq!(pool.stats().in_use, 0);
    assert!(!thread::panicking());
}

#[test]
fn an_unwind_that_is_passed_on_elsewhere_is_a_panic_there() {
    let pool = pool();
    let caught: Rc<RefCell<Option<Box<dyn Any + Send>>>> = Rc::default();
    let slot = Rc::clone(&caught);
    let mut dropped = fiber(&pool);
    dropped
        .start(move |f| {
            let outcome = catch_unwind(AssertUnwindSafe(|| f.suspend().unwrap()));
            *slot.borrow_mut() = outcome.err();
        })
        .unwrap();
    drop(dropped);
    let payload = caught.borrow_mut().take().expect("the forced unwind was caught");
    let step = fiber(&pool).start(move |_| resume_unwind(payload));
    assert!(matches!(step, Ok(Step::Panicked(_))), "a closure that did not finish: {step:?}");
}

#[test]
fn dropping_works_against_a_closure_that_catches() {
    let pool = pool();
    let caught = Rc::new(Cell::new(0));
    {
        let mut fiber = fiber(&pool);
        let count = Rc::clone(&caught);
        fiber
            .start(move |f| {
                while count.get() < 5 {
                    let _ = catch_unwind(AssertUnwindSafe(|| f.suspend().unwrap()));
                    count.set(count.get() + 1);
                }
            })
            .unwrap();
    }
    assert_eq!(caught.get(), 5);
    assert_eq!(pool.stats().in_use, 0);
}

#[test]
fn dropping_a_fiber_whose_destructors_panic_still_frees_its_stack() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            if !thread::panicking() {
                std::panic::resume_unwind(Box::new("from a destructor"));
            }
        }
    }
    let pool = pool();
    {
        let mut fiber = fiber(&pool);
        fiber
            .start(|f| {
                let bad = Bad;
                // The unwind is caught, so that `bad` is dropped outside of it.
                let _ = catch_unwind(AssertUnwindSafe(|| f.suspend().unwrap()));
                drop(bad);
            })
            .unwrap();
    }
    assert_eq!(pool.stats().in_use, 0);
}

#[test]
fn a_fiber_that_never_ran_or_is_idle_is_dropped_quietly() {
    let pool = pool();
    drop(fiber(&pool));
    let mut idle = fiber(&pool);
    idle.start(|_| {}).unwrap();
    drop(idle);
    assert_eq!(pool.stats().in_use, 0);
}

#[test]
fn no_switch_while_the_thread_is_panicking() {
    /// Tries to switch in every way while it is dropped.
    struct Tries {
        fiber: Fiber,
        results: Rc<RefCell<Vec<Refused>>>,
    }
    impl Drop for Tries {
        fn drop(&mut self) {
            let resumed = self.fiber.resume().map(|_| ()).unwrap_err();
            let mut other = fiber(&StackPool::new().unwrap());
            let started = other.start(|_| {}).map(|_| ()).unwrap_err();
            self.results.borrow_mut().extend([resumed, started]);
        }
    }
    let pool = pool();
    let dropped = log();
    let results = Rc::default();
    let mut suspended = fiber(&pool);
    let local = Drops(Rc::clone(&dropped), "local");
    suspended
        .start(move |f| {
            let _local = local;
            f.suspend().unwrap();
        })
        .unwrap();
    let tries = Tries { fiber: suspended, results: Rc::clone(&results) };
    let outcome = catch_unwind(AssertUnwindSafe(move || {
        let _tries = tries;
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(outcome.is_err());
    assert_eq!(*results.borrow(), [Refused::Panicking, Refused::Panicking]);
    // The suspended fiber was dropped during the unwind: unwound in strict nesting.
    assert_eq!(*dropped.borrow(), ["local"]);
    assert!(!thread::panicking());
    assert_eq!(pool.stats().in_use, 0);
}

#[test]
fn suspend_is_refused_in_a_destructor_that_runs_for_a_panic() {
    struct Suspends<'a, 'b>(&'a Suspender<'b>, Rc<Cell<Option<Refused>>>);
    impl Drop for Suspends<'_, '_> {
        fn drop(&mut self) {
            self.1.set(self.0.suspend().err());
        }
    }
    let pool = pool();
    let mut fiber = fiber(&pool);
    let refused = Rc::new(Cell::new(None));
    let out = Rc::clone(&refused);
    let step = fiber.start(move |f| {
        let _suspends = Suspends(f, out);
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(matches!(step, Ok(Step::Panicked(_))));
    assert_eq!(refused.get(), Some(Refused::Panicking));
}

#[test]
fn fibers_nest() {
    fn descend(pool: StackPool, depth: usize, deepest: Rc<Cell<usize>>) {
        let mut fiber = fiber(&pool);
        let step = fiber.start(move |f| {
            if depth == 0 {
                deepest.set(deepest.get() + 1);
            } else {
                descend(pool.clone(), depth - 1, Rc::clone(&deepest));
                f.suspend().unwrap();
                descend(pool, depth - 1, deepest);
            }
        });
        if let Ok(Step::Suspended) = step {
            assert!(matches!(fiber.resume(), Ok(Step::Finished)));
        }
    }
    let pool = pool();
    let deepest = Rc::new(Cell::new(0));
    descend(pool.clone(), 6, Rc::clone(&deepest));
    assert_eq!(deepest.get(), 64);
    assert_eq!(pool.stats().in_use, 0);
}

#[test]
fn hundreds_of_fibers_in_random_order_keep_their_state() {
    const FIBERS: usize = 500;
    const ROUNDS: u64 = 40;
    for seed in 0..8 {
        let pool = pool();
        let mut numbers = Numbers(seed);
        let sums: Rc<RefCell<Vec<u64>>> = Rc::new(RefCell::new(vec![0; FIBERS]));
        let mut fibers: Vec<(usize, Fiber)> = (0..FIBERS)
            .map(|index| {
                let mut fiber = fiber(&pool);
                let sums = Rc::clone(&sums);
                let started = fiber.start(move |f| {
                    let mut own = Numbers(index as u64);
                    for _ in 0..ROUNDS {
                        f.suspend().unwrap();
                        let value = own.next();
                        let sum = sums.borrow()[index].wrapping_add(value);
                        sums.borrow_mut()[index] = sum;
                    }
                });
                assert!(matches!(started, Ok(Step::Suspended)));
                (index, fiber)
            })
            .collect();
        while !fibers.is_empty() {
            let pick = numbers.below(fibers.len());
            if let Step::Finished = fibers[pick].1.resume().unwrap() {
                fibers.swap_remove(pick);
            }
        }
        for (index, &sum) in sums.borrow().iter().enumerate() {
            let mut own = Numbers(index as u64);
            let expected = (0..ROUNDS).fold(0_u64, |sum, _| sum.wrapping_add(own.next()));
            assert_eq!(sum, expected, "fiber {index}, seed {seed}");
        }
    }
}

#[test]
fn floating_point_survives_switches() {
    fn series(mut pause: impl FnMut()) -> f64 {
        let (mut sum, mut product, mut angle) = (0.0_f64, 1.0_f64, 0.1_f64);
        for k in 1..2_000 {
            let k = f64::from(k);
            sum += (k.sqrt() * angle).sin() / k;
            product *= 1.0 + 1.0 / (k * k);
            angle = angle.mul_add(1.000_1, sum * 1e-3);
            pause();
        }
        sum * product + angle
    }
    let expected = series(|| {});
    let pool = pool();
    let results: Rc<RefCell<Vec<f64>>> = Rc::default();
    let mut fibers: Vec<Fiber> = (0..4).map(|_| fiber(&pool)).collect();
    for fiber in &mut fibers {
        let results = Rc::clone(&results);
        let run = move |f: &Suspender<'_>| {
            let value = series(|| f.suspend().unwrap());
            results.borrow_mut().push(value);
        };
        fiber.start(run).unwrap();
    }
    while fibers.iter().any(Fiber::is_suspended) {
        for fiber in fibers.iter_mut().filter(|fiber| fiber.is_suspended()) {
            fiber.resume().unwrap();
            std::hint::black_box(series(|| {})); // disturb every vector register
        }
    }
    assert_eq!(*results.borrow(), [expected; 4]);
}

#[test]
#[cfg(all(debug_assertions, target_arch = "x86_64"))]
fn changed_control_bits_are_caught_at_the_suspension() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    let step = fiber.start(|f| {
        let (mut old, new) = (0_u32, 0x7f80_u32); // round towards zero
        // SAFETY: changes the rounding mode of this thread; put back below.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut old);
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const new);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| f.suspend()));
        // SAFETY: as it was.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const old) };
        assert!(outcome.is_err(), "suspending with another rounding mode must be caught");
    });
    assert!(matches!(step, Ok(Step::Finished)), "{step:?}");
}

#[test]
#[cfg(all(debug_assertions, target_arch = "x86_64"))]
fn changed_control_bits_are_caught_at_the_end() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    let mut old = 0_u32;
    // SAFETY: reads the control bits, to put them back below.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut old) };
    let step = fiber.start(|_| {
        let new = 0x7f80_u32;
        // SAFETY: changes the rounding mode of this thread.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const new) };
    });
    // SAFETY: as it was.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const old) };
    let Ok(Step::Panicked(payload)) = step else { panic!("{step:?}") };
    assert_eq!(payload.downcast_ref(), Some(&FP_CONTROL_CHANGED));
}

#[test]
fn deep_stacks_survive_a_switch_at_the_bottom() {
    fn dig(left: usize, f: &Suspender<'_>) -> usize {
        let frame = std::hint::black_box([left; 64]);
        let below = if left == 0 {
            f.suspend().unwrap();
            0
        } else {
            dig(left - 1, f)
        };
        below + frame.iter().filter(|&&word| word == left).count()
    }
    let pool = pool();
    let stack = pool.acquire(StackSize::new(8 << 20).unwrap()).unwrap();
    let mut fiber = Fiber::new(stack, "deep").unwrap();
    let result = Rc::new(Cell::new(0));
    let out = Rc::clone(&result);
    fiber.start(move |f| out.set(dig(5_000, f))).unwrap();
    let depth = fiber.depth().unwrap();
    assert!(depth > 5_000 * 512 && depth < 8 << 20, "{depth}");
    assert!(fiber.stack().high_water().unwrap() >= depth);
    assert!(matches!(fiber.resume(), Ok(Step::Finished)));
    assert_eq!(result.get(), 5_001 * 64);
    assert_eq!(fiber.depth(), None);
}

// rule: S2-STACK-8, S2-STACK-9, S2-STACK-10, S4-STACK-6
#[test]
fn buffers_that_the_defaults_were_measured_for_fit() {
    /// A frame with a buffer of this size, filled and summed below others like it.
    #[inline(never)]
    fn with_buffer<const SIZE: usize>(then: impl FnOnce() -> usize) -> usize {
        let buffer = std::hint::black_box([1_u8; SIZE]);
        then() + buffer.iter().map(|&byte| usize::from(byte)).sum::<usize>()
    }
    let pool = pool();
    let mut fiber = fiber(&pool);
    let sum = Rc::new(Cell::new(0));
    let out = Rc::clone(&sum);
    // A directory reader, a path, a sort's cache; and all of them at once.
    let step = fiber.start(move |_| {
        let sort = || with_buffer::<49_152>(|| 0);
        out.set(with_buffer::<2_048>(|| with_buffer::<4_096>(sort)));
    });
    assert!(matches!(step, Ok(Step::Finished)));
    assert_eq!(sum.get(), 2_048 + 4_096 + 49_152);
}

// rule: S0-STK-1
#[test]
fn small_stacks_run_small_code() {
    let pool = pool();
    let mut fiber = Fiber::new(pool.acquire(StackSize::MIN).unwrap(), "small").unwrap();
    let step = fiber.start(|f| {
        for _ in 0..10 {
            f.suspend().unwrap();
        }
    });
    assert!(matches!(step, Ok(Step::Suspended)));
    for _ in 0..9 {
        assert!(matches!(fiber.resume(), Ok(Step::Suspended)));
    }
    assert!(matches!(fiber.resume(), Ok(Step::Finished)));
}

// rule: S4-LIFE-6
#[test]
fn the_stack_can_be_taken_out_and_used_again() {
    let pool = pool();
    let mut cache = pool.cache();
    let mut bottoms = Vec::new();
    for _ in 0..100 {
        let stack = cache.acquire(StackSize::CORE).unwrap();
        bottoms.push(stack.bottom());
        let mut fiber = Fiber::new(stack, "").unwrap();
        fiber.start(|f| f.suspend().unwrap()).unwrap();
        let mut fiber = fiber.into_stack().expect_err("suspended: the stack is not free");
        fiber.resume().unwrap();
        cache.release(fiber.into_stack().expect("idle"));
    }
    bottoms.dedup();
    assert_eq!(bottoms.len(), 1, "the same hot stack every time");
}

#[test]
fn a_leaked_fiber_keeps_its_stack() {
    let pool = pool();
    let mut fiber = fiber(&pool);
    let ran = log();
    let local = Drops(Rc::clone(&ran), "local");
    fiber
        .start(move |f| {
            let _local = local;
            f.suspend().unwrap();
        })
        .unwrap();
    std::mem::forget(fiber);
    assert_eq!(pool.stats().in_use, 1);
    assert!(ran.borrow().is_empty());
}

#[test]
fn fibers_work_on_many_threads_over_one_pool() {
    let pool = StackPool::with(StackOpts::new().keep_warm(8)).unwrap();
    thread::scope(|scope| {
        for seed in 0..4 {
            let pool = pool.clone();
            scope.spawn(move || {
                let mut numbers = Numbers(seed);
                let mut cache = pool.cache();
                let mut fibers: Vec<Fiber> = Vec::new();
                for _ in 0..2_000 {
                    match numbers.below(3) {
                        0 => {
                            let stack = cache.acquire(StackSize::CORE).unwrap();
                            let mut fiber = Fiber::new(stack, "t").unwrap();
                            fiber.start(|f| while f.suspend().is_ok() {}).unwrap();
                            fibers.push(fiber);
                        }
                        1 if !fibers.is_empty() => {
                            let pick = numbers.below(fibers.len());
                            assert!(matches!(fibers[pick].resume(), Ok(Step::Suspended)));
                        }
                        _ if !fibers.is_empty() => {
                            let pick = numbers.below(fibers.len());
                            drop(fibers.swap_remove(pick));
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    let stats = pool.stats();
    assert_eq!((stats.in_use, stats.cached), (0, 0));
}

#[test]
fn ids_differ_and_debug_names_state() {
    let pool = pool();
    let (mut a, b) = (fiber(&pool), fiber(&pool));
    assert_ne!(a.id(), b.id());
    assert!(format!("{a:?}").contains("Idle"));
    assert_eq!(a.name(), "test");
    a.start(|f| f.suspend().unwrap()).unwrap();
    assert!(format!("{a:?}").contains("Suspended"));
}

#[test]
fn errors_say_what_to_do() {
    assert!(FiberError::ShadowStack.to_string().contains("GLIBC_TUNABLES"));
    let stack = StackError::PoolLimit { max_stacks: 3 };
    let error = FiberError::from(stack.clone());
    assert_eq!(error.source().unwrap().to_string(), stack.to_string());
    assert!(Refused::Busy.to_string().contains("resume it"));
    assert!(Refused::Panicking.to_string().contains("panicking"));
}

mod backtraces;
