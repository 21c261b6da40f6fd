//! Fibers: order of control, refusals, nesting, threads.

use super::*;
use crate::stack::{StackError, StackOpts, StackPool, StackSize};
use std::cell::RefCell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
mod ends;
mod stacks;
