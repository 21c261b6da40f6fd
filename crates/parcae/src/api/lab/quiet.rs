//! Silence while schedules fail.
//!
//! A hunt stops at the first failure, and shrinking repeats it hundreds of times: with the usual
//! hook, each repetition would print a message and a backtrace. The first hunt of a process
//! therefore installs a panic hook that keeps the place of the first panic of a schedule and is
//! silent, on threads that run one. On all other threads, and at all other times, it calls the hook
//! that was there before.

use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// The place of the first panic of the schedule that runs on this thread, if one runs.
    static FIRST: RefCell<Option<FirstPanic>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct FirstPanic {
    place: Option<String>,
}

/// Silence on this thread. Ends when it is dropped.
pub(super) struct Quiet {
    before: Option<FirstPanic>,
}

impl Quiet {
    pub(super) fn begin() -> Quiet {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if !keep(info) {
                    usual(info);
                }
            }));
        });
        Quiet { before: FIRST.replace(Some(FirstPanic::default())) }
    }

    /// The place of the first panic since this began, or since the last call.
    pub(super) fn take(&self) -> Option<String> {
        FIRST.with_borrow_mut(|first| first.as_mut()?.place.take())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        FIRST.set(self.before.take());
    }
}

/// Keeps the place of a panic, if a schedule runs on this thread.
fn keep(info: &PanicHookInfo<'_>) -> bool {
    FIRST.with(|first| {
        let Ok(mut first) = first.try_borrow_mut() else { return true };
        let Some(first) = first.as_mut() else { return false };
        let place = info.location().map(|at| format!("{}:{}", at.file(), at.line()));
        if first.place.is_none() {
            first.place = place;
        }
        true
    })
}
