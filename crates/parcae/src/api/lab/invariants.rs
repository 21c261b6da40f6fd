//! Statements of the program about itself, which the lab checks.

use crate::sched::worker;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

thread_local! {
    /// Of the schedule that runs on this thread: what should become true, and whether it did.
    static EXPECTED: RefCell<Option<BTreeMap<&'static str, bool>>> = const { RefCell::new(None) };
}

/// A schedule that runs on this thread, until it is dropped.
pub(super) struct Statements(());

/// A schedule begins on this thread.
pub(super) fn begin() -> Statements {
    EXPECTED.set(Some(BTreeMap::new()));
    Statements(())
}

impl Drop for Statements {
    fn drop(&mut self) {
        EXPECTED.set(None);
    }
}

/// A statement of the present schedule that did not become true.
pub(super) fn missed() -> Option<String> {
    EXPECTED.with_borrow(|expected| {
        let missed = expected.as_ref()?.iter().find(|(_, became)| !**became);
        missed.map(|(what, _)| (*what).to_owned())
    })
}

/// States that `holds` is always true here. In a test under the lab, the schedule fails if it is
/// false. Everywhere else nothing happens, so that the statement may stay in the program.
///
/// ```
/// use parcae::lab::{Explore, FailureKind, always};
///
/// let test = |rt: &parcae::Runtime| rt.run(|_| Ok(always("one is two", 1 == 2)));
/// let failure = Explore::new().run(test).unwrap_err();
/// assert_eq!(failure.kind(), FailureKind::Panic);
/// always("one is two", 1 == 2); // nothing: this is no test under the lab
/// ```
///
/// # Panics
///
/// In a test under the lab, if it is false.
#[track_caller]
pub fn always(what: &'static str, holds: bool) {
    let tested = !holds && EXPECTED.with_borrow(Option::is_some);
    assert!(!tested, "`{what}` should always be true");
}

/// States that `holds` becomes true at some time: in a test under the lab, a schedule fails if this
/// was called with `false`, and not once with `true`. Everywhere else nothing happens.
///
/// ```
/// use parcae::lab::{Explore, FailureKind, eventually};
///
/// let failure = Explore::new().run(|rt| rt.run(|_| Ok(eventually("rain", false)))).unwrap_err();
/// assert_eq!(failure.kind(), FailureKind::NotReached);
/// ```
pub fn eventually(what: &'static str, holds: bool) {
    EXPECTED.with_borrow_mut(|expected| {
        if let Some(expected) = expected {
            *expected.entry(what).or_default() |= holds;
        }
    });
}

/// States that an amount is the same as before: nothing was lost, nothing came from nowhere. In a
/// test under the lab, the schedule fails if the two differ. Everywhere else nothing happens.
///
/// ```
/// use parcae::lab::{Explore, FailureKind, conserved};
///
/// let test = |rt: &parcae::Runtime| rt.run(|_| Ok(conserved("money", 100, 60 + 30)));
/// let failure = Explore::new().run(test).unwrap_err();
/// assert_eq!(failure.kind(), FailureKind::Panic);
/// ```
///
/// # Panics
///
/// In a test under the lab, if they differ.
#[track_caller]
pub fn conserved<T: PartialEq + fmt::Debug>(what: &'static str, before: T, after: T) {
    let tested = before != after && EXPECTED.with_borrow(Option::is_some);
    assert!(!tested, "`{what}` should be conserved: it was {before:?}, and is {after:?}");
}

/// Runs `body`, and states that it takes at most so much virtual time. In a test under the lab, the
/// schedule fails if it takes longer; time passes there only when all tasks wait. Everywhere else
/// this is just `body()`.
///
/// ```
/// use parcae::lab::{Explore, FailureKind, within};
/// use std::time::Duration;
///
/// let (short, long) = (Duration::from_secs(1), Duration::from_secs(2));
/// let test = |rt: &parcae::Runtime| rt.run(|cx| within("answer", short, || cx.sleep(long)));
/// assert_eq!(Explore::new().run(test).unwrap_err().kind(), FailureKind::Panic);
/// ```
///
/// # Panics
///
/// In a test under the lab, if it takes longer.
#[track_caller]
pub fn within<R>(what: &'static str, limit: Duration, body: impl FnOnce() -> R) -> R {
    let is_tested = EXPECTED.with_borrow(Option::is_some);
    let now = || is_tested.then(|| worker::with_current(|here| here.shared.now())).flatten();
    let began = now();
    let result = body();
    if let (Some(began), Some(ended)) = (began, now()) {
        let took = Duration::from_nanos(ended.saturating_sub(began));
        assert!(took <= limit, "`{what}` should take at most {limit:?}, and took {took:?}");
    }
    result
}
