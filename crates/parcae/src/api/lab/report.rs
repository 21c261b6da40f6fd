//! The results of a hunt.

use crate::base::error::Error;
use crate::sched::lab::Strategy;
use std::fmt;
use std::time::Duration;

/// The result of a hunt in which no schedule failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// Number of schedules that ran.
    pub schedules: u64,
    /// Duration of the hunt.
    pub time: Duration,
}

/// A schedule in which the test failed.
#[derive(Debug)]
pub struct Failure {
    pub(super) error: Error,
    pub(super) schedule: u64,
    pub(super) strategy: Strategy,
}

impl Failure {
    /// The error of the test; of a panic, an error with its message.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The number of the schedule, from 0.
    pub fn schedule(&self) -> u64 {
        self.schedule
    }

    /// The strategy that found it.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed in schedule {} ({:?}): {}", self.schedule, self.strategy, self.error)
    }
}

impl std::error::Error for Failure {}
