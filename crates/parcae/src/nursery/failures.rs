//! The failures of a nursery's children: the first, and how many others.
//!
//! Children fail at the same time on several workers; all that is noted of a failure is noted
//! in one critical section. The owner takes the result when all children have ended.

use crate::error::{Error, ErrorKind, discard};
use crate::shim::{Mutex, MutexGuard, PoisonError};

/// What failed so far.
pub(super) struct Failures {
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    first: Option<Error>,
    /// Without the first; kept only if the nursery collects them.
    others: Vec<Error>,
    count: usize,
}

impl Failures {
    pub(super) fn new() -> Failures {
        Failures { noted: Mutex::new(Noted::default()) }
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a failure. The first is kept; others are counted, and kept if `all` are wanted.
    pub(super) fn add(&self, error: Error, all: bool) {
        let mut noted = self.lock();
        noted.count += 1;
        if noted.first.is_none() {
            noted.first = Some(error);
        } else if all {
            noted.others.push(error);
        } else {
            drop(noted);
            discard(error); // not by unwinding: children may run
        }
    }

    /// Whether the first failure is this very error. If so it is kept as it is now: whoever joined the child may have said
    /// what for.
    pub(super) fn began_with(&self, error: &Error) -> bool {
        let mut known = self.lock();
        let Some(first) = known.first.as_mut().filter(|first| first.is_same(error)) else {
            return false;
        };
        *first = error.clone(); // drops nothing that the other does not have too
        true
    }

    /// What they come to, if there were any.
    pub(super) fn take(&self) -> Option<Error> {
        let Noted { first, others, count } = std::mem::take(&mut *self.lock());
        let first = first?;
        if others.is_empty() {
            return Some(first.with_others(count - 1));
        }
        let all = std::iter::once(first).chain(others).collect();
        Some(Error::new(ErrorKind::Several(all)))
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Children that fail at the same time.

    use super::*;
    use crate::shim::explore;
    use loom::sync::Arc;
    use loom::thread;

    /// Three fail; `take` says what that comes to.
    fn three(all: bool, check: impl Fn(Error) + Send + Sync + 'static) -> impl Fn() + Send + Sync {
        move || {
            let failures = Arc::new(Failures::new());
            let children: Vec<_> = ["a", "b"]
                .map(|name| {
                    let failures = Arc::clone(&failures);
                    thread::spawn(move || {
                        let error = Error::msg(name);
                        failures.add(error.clone(), all);
                        failures.began_with(&error)
                    })
                })
                .into();
            let mine = Error::msg("c");
            failures.add(mine.clone(), all);
            let mut first = usize::from(failures.began_with(&mine));
            drop(mine); // what others hold too is not changed any more
            for child in children {
                first += usize::from(child.join().unwrap());
            }
            assert_eq!(first, 1, "so many were first");
            check(failures.take().unwrap());
            assert!(failures.take().is_none());
        }
    }

    /// One is kept, the others are counted.
    #[test]
    fn first_is_kept_others_counted() {
        let model = three(false, |error| assert_eq!(error.others(), 2));
        explore("failures::first_is_kept_others_counted", None, model);
    }

    /// All are kept, each once.
    #[test]
    fn all_are_kept() {
        let model = three(true, |error| {
            let ErrorKind::Several(all) = error.kind() else { panic!("{error:?}") };
            let mut names: Vec<_> = all.iter().map(ToString::to_string).collect();
            names.sort();
            assert_eq!(names.len(), 3);
            names.dedup();
            assert_eq!(names.len(), 3, "{names:?}");
        });
        explore("failures::all_are_kept", None, model);
    }
}
