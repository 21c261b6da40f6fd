//! Linearizability of small histories.
//!
//! J. M. Wing, C. Gong: Testing and verifying concurrent objects (JPDC 1993), with the memory of
//! G. Lowe: Testing for linearizability (CCPE 2017). A depth-first search orders the calls one by
//! one: a call may be next if no other call returned before it began. A set of calls that led to
//! the same state before is not searched again.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most calls of a history.
const MOST: usize = 128;

/// The calls of an object, with the order of their beginnings and ends, as tasks of a test make
/// them.
///
/// ```
/// use parcae::lab::{Explore, FailureKind, History};
/// use parcae::sync::atomic::{AtomicU64, Ordering::SeqCst};
///
/// // Two takers of numbers; a number may be handed out once only.
/// let test = |rt: &parcae::Runtime| {
///     let (next, history) = (AtomicU64::new(0), History::new());
///     rt.run(|cx| {
///         cx.nursery(|n| {
///             for _ in 0..2 {
///                 n.spawn(|_| {
///                     history.call("take", || {
///                         let taken = next.load(SeqCst);
///                         next.store(taken + 1, SeqCst);
///                         taken
///                     });
///                     Ok(())
///                 })?;
///             }
///             Ok(())
///         })
///     })?;
///     let is_right = history.is_linearizable(0, |next, _| {
///         *next += 1;
///         *next - 1
///     });
///     assert!(is_right, "{history:?}");
///     Ok(())
/// };
/// assert_eq!(Explore::new().run(test).unwrap_err().kind(), FailureKind::Panic);
/// ```
pub struct History<O, R> {
    calls: Mutex<Calls<O, R>>,
}

struct Calls<O, R> {
    calls: Vec<HistoryCall<O, R>>,
    /// Beginnings and ends so far.
    events: u32,
}

/// A call of a [`History`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct HistoryCall<O, R> {
    op: O,
    began: u32,
    /// When it ended, and its result; `None` if it did not end: it may have happened or not.
    ended: Option<(u32, R)>,
}

impl<O, R> Default for History<O, R> {
    fn default() -> History<O, R> {
        History::new()
    }
}

impl<O, R> History<O, R> {
    /// No calls.
    pub const fn new() -> History<O, R> {
        History { calls: Mutex::new(Calls { calls: Vec::new(), events: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Calls<O, R>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call, and records its beginning, its end and its result.
    pub fn call(&self, op: O, call: impl FnOnce() -> R) -> R
    where
        R: Clone,
    {
        let at = {
            let mut calls = self.lock();
            calls.events += 1;
            let began = calls.events;
            calls.calls.push(HistoryCall { op, began, ended: None });
            calls.calls.len() - 1
        };
        let result = call();
        let mut calls = self.lock();
        calls.events += 1;
        calls.calls[at].ended = Some((calls.events, result.clone()));
        result
    }

    /// Whether the calls could have happened one after another, each at some moment between its
    /// beginning and its end, with the same results. `spec` does a call on a state and returns the
    /// right result.
    ///
    /// # Panics
    ///
    /// If there are more than 128 calls: the search takes exponential time.
    pub fn is_linearizable<S>(&self, initial: S, spec: impl Fn(&mut S, &O) -> R) -> bool
    where
        S: Clone + Eq + Hash,
        R: PartialEq,
    {
        let calls = self.lock();
        assert!(calls.calls.len() <= MOST, "a history of {} calls", calls.calls.len());
        let search = LinearSearch { calls: &calls.calls, spec };
        search.order(0, initial, &mut HashSet::new())
    }
}

impl<O: fmt::Debug, R: fmt::Debug> fmt::Debug for History<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.lock().calls).finish()
    }
}

struct LinearSearch<'h, O, R, F> {
    calls: &'h [HistoryCall<O, R>],
    spec: F,
}

impl<O, R: PartialEq, F> LinearSearch<'_, O, R, F> {
    /// Whether the calls that are not `done` can follow in this state.
    fn order<S: Clone + Eq + Hash>(
        &self,
        done: u128,
        state: S,
        seen: &mut HashSet<(u128, S)>,
    ) -> bool
    where
        F: Fn(&mut S, &O) -> R,
    {
        let is_left = |at: &usize| done & 1 << *at == 0;
        let left = || (0..self.calls.len()).filter(is_left);
        let ends = left().filter_map(|at| Some(self.calls[at].ended.as_ref()?.0));
        let Some(first_end) = ends.min() else { return true };
        if !seen.insert((done, state.clone())) {
            return false;
        }
        left().filter(|&at| self.calls[at].began < first_end).any(|at| {
            let mut next = state.clone();
            let result = (self.spec)(&mut next, &self.calls[at].op);
            let fits = self.calls[at].ended.as_ref().is_none_or(|(_, known)| *known == result);
            fits && self.order(done | 1 << at, next, seen)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Op {
        Write(u8),
        Read,
    }

    fn register(state: &mut u8, op: &Op) -> u8 {
        if let Op::Write(value) = op {
            *state = *value;
        }
        *state
    }

    type Timed = (Op, u32, Option<(u32, u8)>);

    fn history(calls: &[Timed]) -> History<Op, u8> {
        let calls =
            calls.iter().map(|&(op, began, ended)| HistoryCall { op, began, ended }).collect();
        History { calls: Mutex::new(Calls { calls, events: 99 }) }
    }

    #[test]
    fn a_read_may_see_a_write_that_overlaps_it_before_or_after() {
        for seen in [0, 1] {
            let calls = [(Op::Write(1), 1, Some((4, 1))), (Op::Read, 2, Some((3, seen)))];
            assert!(history(&calls).is_linearizable(0, register));
        }
    }

    #[test]
    fn a_read_after_a_write_must_see_it() {
        let calls = [(Op::Write(1), 1, Some((2, 1))), (Op::Read, 3, Some((4, 0)))];
        assert!(!history(&calls).is_linearizable(0, register));
    }

    #[test]
    fn two_reads_in_order_do_not_go_back_in_time() {
        let calls = [
            (Op::Write(1), 1, Some((8, 1))),
            (Op::Read, 2, Some((3, 1))),
            (Op::Read, 4, Some((5, 0))),
        ];
        assert!(!history(&calls).is_linearizable(0, register));
    }

    #[test]
    fn a_call_that_has_not_ended_may_have_happened_or_not() {
        for seen in [0, 1] {
            let calls = [(Op::Write(1), 1, None), (Op::Read, 2, Some((3, seen)))];
            assert!(history(&calls).is_linearizable(0, register));
        }
    }

    /// Twelve calls that all overlap: the memory keeps the search from trying 12! orders.
    #[test]
    fn many_calls_at_once_are_searched_in_time() {
        let write = |at: u32| (Op::Write(at as u8 % 3), at, Some((100 + at, at as u8 % 3)));
        let mut calls: Vec<_> = (0..12).map(write).collect();
        calls.push((Op::Read, 200, Some((201, 9)))); // never written
        assert!(!history(&calls).is_linearizable(0, register));
    }
}
