//! The stack and the registers of a fiber: depth, sizes, floating point, reuse.

use super::*;
#[cfg(debug_assertions)]
use crate::stack::fiber::base::FP_CONTROL_CHANGED;

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
