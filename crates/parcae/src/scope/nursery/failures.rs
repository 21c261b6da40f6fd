//! The failures of a nursery's children and body: the one that becomes its result, and the number
//! of others.
//!
//! # Cause before consequence
//!
//! A nursery reports the cause of its end, not the consequences. Consequences may come first: a
//! consumer that fails drops its receiver on the way out, and a producer on another worker has
//! failed with "the channel is closed" before the consumer's own error is noted. So every error has
//! a [`Rank`]; a failure replaces the one noted before if its rank is higher, and among equals the
//! first stays.
//!
//! | rank | errors |
//! |---|---|
//! | `Own` | of a task that was not told of a cancellation and has seen no peer go: the program's own errors, panics, budgets, deadlines |
//! | `Doubtful` | the same, of a task that has seen a channel or a semaphore closed, or a oneshot dropped: perhaps made from that by `map_err` or `unwrap` |
//! | `Derived` | say themselves that the cause is elsewhere: a closed channel or semaphore, a parent or sibling that was cancelled or failed; errors of a task that was cancelled, passed on by one that joined it |
//! | `Late` | came after the cancellation; only counted |
//!
//! Which failures are late depends on why the nursery is being cancelled at that time
//! ([`NurseryCore::why_cancelled`](super::NurseryCore::why_cancelled)):
//!
//! | cancelled | a child's error | the body's error |
//! |---|---|---|
//! | no | counts by its rank; late if that child alone was cancelled, was told so, and did not panic | the same |
//! | deadline, token, parent, shutdown | late | late |
//! | explicitly | late | late, unless `Own` or after `wind_down`: the body says why it has cancelled |
//! | a failure | late if its task was told; else by its rank | the same |
//!
//! "Told" is a task that a cancel point has returned `Cancelled` to. A task that was not told has
//! failed for a reason of its own, even if that is recorded late. Errors of the kind `Cancelled` of
//! a cancelled task are no failures at all, and are not counted.
//!
//! The result is the failure noted; without one the reason of the cancellation; without that the
//! body's value. A failure that is noted is never a consequence of a cancellation noted later: the
//! reason is in place before any task can learn of it (`cancel`), and `Derived` ones have no known
//! cause then but themselves.
//!
//! A limit: a task that fails by itself, and learns of a cancellation in a destructor that waits
//! without a [shield](crate::Cx::shield), before its failure is noted, counts as late.
//!
//! # Protocol
//!
//! Children fail at the same time on several workers; all that is noted of a failure is noted
//! in one critical section. The owner takes the result when all children have ended.

use crate::base::error::{Error, ErrorKind, Rank, discard};
use crate::base::shim::{Mutex, MutexGuard, PoisonError};
use crate::sched::worker::ordered::hold_order_of;

/// The failures so far.
pub(super) struct Failures {
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// The first of the highest rank.
    first: Option<Error>,
    /// If the nursery collects them, all others. If not, those that were first for a time: at most
    /// one of each lower rank.
    others: Vec<Error>,
    /// All that were not late.
    count: usize,
    late: usize,
}

/// Which failures are kept, beside the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    First,
    All,
}

/// The sum of a nursery's failures.
pub(super) struct FailureSum {
    /// The failure that is the result.
    pub(super) failure: Option<Error>,
    /// Failures that came after the cancellation.
    pub(super) late: usize,
}

impl Failures {
    pub(super) fn new() -> Failures {
        Failures { noted: Mutex::new(Noted::default()) }
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a failure, by its rank.
    pub(super) fn add(&self, error: Error, keep: Keep) {
        drop(hold_order_of(self));
        let mut noted = self.lock();
        if error.rank() == Rank::Late {
            noted.late += 1;
            drop(noted);
            return discard(error); // not by unwinding: children may run
        }
        noted.count += 1;
        let replaces = noted.first.as_ref().is_none_or(|first| error.rank() > first.rank());
        if replaces {
            let before = noted.first.replace(error);
            noted.others.extend(before);
        } else if keep == Keep::All {
            noted.others.push(error);
        } else {
            drop(noted);
            discard(error); // as above
        }
    }

    /// Whether this very error is noted. The first one is replaced by its present form: the code
    /// that joined the child may have added context.
    pub(super) fn knows(&self, error: &Error) -> bool {
        let mut noted = self.lock();
        if let Some(first) = noted.first.as_mut().filter(|first| first.is_same(error)) {
            // Drops nothing that the other does not have too.
            *first = error.clone().ranked(first.rank());
            return true;
        }
        noted.others.iter().any(|other| other.is_same(error))
    }

    /// The combined result of the failures.
    pub(super) fn take(&self, keep: Keep) -> FailureSum {
        let Noted { first, others, count, late } = std::mem::take(&mut *self.lock());
        let Some(first) = first else { return FailureSum { failure: None, late } };
        let failure = if keep == Keep::All && !others.is_empty() {
            let all = std::iter::once(first).chain(others).collect();
            Error::new(ErrorKind::Several(all)).with_others(late)
        } else {
            others.into_iter().for_each(discard);
            first.with_others(count - 1 + late)
        };
        FailureSum { failure: Some(failure), late }
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Children that fail at the same time.

    use super::*;
    use crate::base::shim::explore;
    use loom::sync::Arc;
    use loom::thread;

    impl Failures {
        /// Whether this one is first by now.
        fn is_first(&self, error: &Error) -> bool {
            self.lock().first.as_ref().is_some_and(|first| first.is_same(error))
        }
    }

    /// Three fail; `take` says what that comes to.
    fn three(keep: Keep, check: impl Fn(Error) + Send + Sync + 'static) -> impl Fn() + Send + Sync {
        move || {
            let failures = Arc::new(Failures::new());
            let children: Vec<_> = ["a", "b"]
                .map(|name| {
                    let failures = Arc::clone(&failures);
                    thread::spawn(move || {
                        let error = Error::msg(name);
                        failures.add(error.clone(), keep);
                        failures.is_first(&error)
                    })
                })
                .into();
            let mine = Error::msg("c");
            failures.add(mine.clone(), keep);
            let mut first = usize::from(failures.is_first(&mine));
            drop(mine); // what others hold too is not changed any more
            for child in children {
                first += usize::from(child.join().unwrap());
            }
            assert_eq!(first, 1, "so many were first");
            check(failures.take(keep).failure.unwrap());
            assert!(failures.take(keep).failure.is_none());
        }
    }

    /// One is kept, the others are counted.
    // rule: S0-NURSERY-11
    #[test]
    fn first_is_kept_others_counted() {
        let model = three(Keep::First, |error| assert_eq!(error.others(), 2));
        explore("failures::first_is_kept_others_counted", None, model);
    }

    /// All are kept, each once.
    #[test]
    fn all_are_kept() {
        let model = three(Keep::All, |error| {
            let ErrorKind::Several(all) = error.kind() else { panic!("{error:?}") };
            let mut names: Vec<_> = all.iter().map(ToString::to_string).collect();
            names.sort();
            assert_eq!(names.len(), 3);
            names.dedup();
            assert_eq!(names.len(), 3, "{names:?}");
        });
        explore("failures::all_are_kept", None, model);
    }

    /// A consequence, its cause, and an error that came too late, in any order: the cause comes
    /// out, the others are counted, and the consequence stays known if it was noted first.
    #[test]
    fn the_cause_comes_out() {
        explore("failures::the_cause_comes_out", None, || {
            let failures = Arc::new(Failures::new());
            let (other, late) = (Arc::clone(&failures), Arc::clone(&failures));
            let closed = thread::spawn(move || {
                let error = Error::new(ErrorKind::ChannelClosed);
                other.add(error.clone(), Keep::First);
                let was_first = other.is_first(&error);
                // The cause may come in between; one that was noted is not forgotten for it.
                assert!(!was_first || other.knows(&error), "forgotten");
            });
            let late = thread::spawn(move || {
                late.add(Error::msg("late").ranked(Rank::Late), Keep::First);
            });
            let cause = Error::msg("cause");
            failures.add(cause.clone(), Keep::First);
            assert!(failures.knows(&cause));
            drop(cause);
            closed.join().unwrap();
            late.join().unwrap();
            let FailureSum { failure, late } = failures.take(Keep::First);
            let failure = failure.unwrap();
            assert!(failure.to_string().starts_with("cause;"), "{failure}");
            assert_eq!(failure.others(), 2);
            assert_eq!(late, 1);
        });
    }
}
