//! Statements of the program about itself, which the lab checks.

use std::cell::RefCell;
use std::collections::BTreeMap;

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
