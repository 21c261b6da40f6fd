//! The arm `recv(rx) -> value => value?`, by which a value leaves its select.
//!
//! Without optimisation every `?` keeps three copies of its value on the stack, and this arm is
//! mostly followed by a second one. So the macro gives this arm a reference to the value, which
//! stays in its case while `?` looks at the outcome, and moves it out afterwards. It cannot compare
//! names: if the arm applies `?` to another variable, the type shows that, and the result of `?` is
//! the result of the arm.

use super::case::opaque;
use super::channels::{RecvCase, Stored};
use super::events::{NeverCase, TimerCase};
use super::{Case, Finish};
use crate::base::error::Result;
use crate::sync::channel::RecvError;
use std::time::Instant;

/// A receiving case whose value stays where it is.
pub trait Settle: Case {
    /// The result.
    type Given<'s>
    where
        Self: 's;

    /// As [`Finish::finish`].
    fn finish(&mut self) -> Self::Given<'_>;
}

/// A received value, in its case.
pub struct Received<'s, T>(&'s mut Stored<T>);

/// The result of a `?`.
pub struct Passed<V>(Option<V>);

impl<V> Passed<V> {
    /// Wraps the result.
    pub fn new(result: V) -> Passed<V> {
        Passed(Some(result))
    }
}

impl<T> Passed<Received<'_, T>> {
    /// Moves the value out of its case. Preferred to the method of the trait.
    pub fn out(self) -> T {
        self.0.expect("it was given one").0.take()
    }
}

/// A result that is no value in a case.
pub trait Pass<V> {
    /// Returns it.
    fn out(self) -> V;
}

impl<V> Pass<V> for Passed<V> {
    fn out(self) -> V {
        self.0.expect("it was given one")
    }
}

impl<T> Settle for RecvCase<'_, T> {
    type Given<'s>
        = Result<Received<'s, T>, RecvError>
    where
        Self: 's;

    fn finish(&mut self) -> Result<Received<'_, T>, RecvError> {
        self.settle().map(Received)
    }
}

impl<T> Settle for NeverCase<T> {
    type Given<'s>
        = Result<Received<'s, T>, RecvError>
    where
        Self: 's;

    fn finish(&mut self) -> Result<Received<'_, T>, RecvError> {
        unreachable!("it never happens")
    }
}

impl Settle for TimerCase<'_> {
    type Given<'s>
        = Result<Instant, RecvError>
    where
        Self: 's;

    fn finish(&mut self) -> Result<Instant, RecvError> {
        Finish::finish(self)
    }
}

opaque!(Received<'s, T>, Passed<V>);
