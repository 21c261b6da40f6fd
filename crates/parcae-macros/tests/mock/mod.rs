//! A runtime that only counts: how often this thread called `enter` and `tick`.

#![allow(dead_code, unreachable_pub)] // not every test needs everything

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static ENTERED: Cell<u64> = const { Cell::new(0) };
    static TICKED: Cell<u64> = const { Cell::new(0) };
    /// Calls that are left before one unwinds.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// The panic payload when there is no budget left.
#[derive(Debug)]
pub struct Exhausted;

/// The entries and ticks of `run` on this thread, and what it returned.
pub fn count<T>(run: impl FnOnce() -> T) -> (u64, u64, T) {
    let before = (ENTERED.get(), TICKED.get());
    let result = run();
    (ENTERED.get() - before.0, TICKED.get() - before.1, result)
}

/// Runs `run` with a budget of `calls`. `None` if that was not enough.
pub fn limited<T>(calls: u64, run: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(calls);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    LEFT.set(u64::MAX);
    match result {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Exhausted>() => None,
        Err(payload) => panic::resume_unwind(payload),
    }
}

fn charge() {
    match LEFT.get().checked_sub(1) {
        Some(left) => LEFT.set(left),
        None => panic::resume_unwind(Box::new(Exhausted)),
    }
}

#[doc(hidden)]
pub mod __private {
    use std::marker::PhantomData;

    /// Belongs to the thread that entered, as the real one does.
    #[derive(Clone, Copy, Debug)]
    pub struct Meter(PhantomData<*const ()>);

    pub unsafe fn enter() -> Meter {
        super::ENTERED.set(super::ENTERED.get() + 1);
        super::charge();
        Meter(PhantomData)
    }

    impl Meter {
        pub fn tick(self) {
            super::TICKED.set(super::TICKED.get() + 1);
            super::charge();
        }
    }
}
