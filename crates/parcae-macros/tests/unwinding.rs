//! Being stopped is unwinding: destructors run, and nothing after the call does.

mod mock;

use std::cell::Cell;

use mock::{count, limited};
use parcae_macros::budgeted;

/// Counts its drops.
struct Guard<'a>(&'a Cell<u32>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[budgeted(crate = crate::mock)]
fn nested_guards(drops: &Cell<u32>, turns: &Cell<u32>) {
    let _outer = Guard(drops);
    loop {
        let _inner = Guard(drops);
        for _ in 0..3 {
            turns.set(turns.get() + 1);
        }
    }
}

#[test]
fn a_tick_that_unwinds_runs_destructors() {
    let (drops, turns) = (Cell::new(0), Cell::new(0));
    // The entry, the outer loop, and two turns; the third is refused.
    assert!(limited(4, || nested_guards(&drops, &turns)).is_none());
    assert_eq!((drops.get(), turns.get()), (2, 2));
}

#[test]
fn every_call_can_be_the_last() {
    // Guards that exist when the call after so many is refused: in the first turn of the
    // outer loop, whose own tick comes before its guard, and so on; four calls for each turn.
    for (calls, guards) in [(0, 0), (1, 1), (2, 2), (3, 2), (5, 2), (6, 3), (9, 3), (10, 4)] {
        let (drops, turns) = (Cell::new(0), Cell::new(0));
        let (entered, ticked, result) = count(|| limited(calls, || nested_guards(&drops, &turns)));
        assert!(result.is_none());
        assert_eq!(entered + ticked, calls + 1);
        assert_eq!(drops.get(), guards, "after {calls} calls");
    }
}

#[test]
fn an_entry_that_unwinds_drops_the_arguments() {
    #[budgeted(crate = crate::mock)]
    fn takes(guard: Guard<'_>) {
        guard.0.set(100);
    }
    let drops = Cell::new(0);
    assert!(limited(0, || takes(Guard(&drops))).is_none());
    assert_eq!(drops.get(), 1);
}

#[test]
fn a_closure_that_is_stopped_unwinds_through_the_iterator() {
    #[budgeted(crate = crate::mock)]
    fn collect(drops: &Cell<u32>) -> Vec<Guard<'_>> {
        (0..10).map(|_| Guard(drops)).collect()
    }
    let drops = Cell::new(0);
    assert!(limited(4, || collect(&drops)).is_none());
    assert_eq!(drops.get(), 3);
}

#[test]
fn enough_is_enough() {
    #[budgeted(crate = crate::mock)]
    fn turns(n: u32) -> u32 {
        for _ in 0..n {}
        n
    }
    assert_eq!(limited(4, || turns(3)), Some(3));
    assert_eq!(limited(3, || turns(3)), None);
}

#[test]
fn recursion_without_end_is_stopped() {
    #[budgeted(crate = crate::mock)]
    #[allow(unconditional_recursion)]
    fn endless() -> u32 {
        1 + endless()
    }
    assert!(limited(30, endless).is_none());
}

/// A location tells which loop was stopped; see the header of `src/instrument.rs`.
mod place {
    pub(crate) mod __private {
        #[derive(Clone, Copy)]
        pub(crate) struct Meter;

        pub(crate) unsafe fn enter() -> Meter {
            Meter
        }

        impl Meter {
            #[track_caller]
            pub(crate) fn tick(self) {
                std::panic::resume_unwind(Box::new(std::panic::Location::caller().line()));
            }
        }
    }
}

#[test]
fn a_tick_has_the_place_of_its_loop() {
    #[budgeted(crate = place)]
    fn stopped(before: impl FnOnce()) {
        before();

        loop {}
    }
    let line = line!() - 2;
    let payload = std::panic::catch_unwind(|| stopped(|| ())).expect_err("the first turn unwinds");
    assert_eq!(payload.downcast_ref(), Some(&line));
}
