//! Ends of a closure: panics, drops of suspended fibers, switches that are refused while unwinding.

use super::*;

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
