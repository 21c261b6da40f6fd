//! Nurseries under the deterministic executor with many seeds, and on threads.

mod budgets;
mod cancelling;
mod causes;
mod conservation;
mod failures;
mod join_sets;
mod placement;
mod results;
mod waiting;

use crate::prelude::*;
use crate::support::*;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

fn oops() -> Error {
    Error::msg("oops")
}
